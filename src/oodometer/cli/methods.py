"""The list of every method: estimators, measures and metrics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oodometer.cli._options import AsJson, console, print_json
from oodometer.core.errors import UnknownName
from oodometer.report import terminal

FAMILY_TITLES = {
    "estimator": "Estimators of accuracy (oodometer estimate)",
    "measure": "Measures that may tell of the error (oodometer measure)",
    "metric": "Metrics on labelled data (oodometer evaluate)",
}


def methods(
    family: Annotated[
        str | None,
        typer.Option(
            help="Just these: estimator, measure or metric.",
            autocompletion=lambda: list(FAMILY_TITLES),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List every method: what it needs, what it assumes, its paper.

    Example: oodometer methods --family measure
    """
    from oodometer import estimators, measures, metrics  # many parts, which help has no use for

    if family is not None and family.removesuffix("s") not in FAMILY_TITLES:
        raise UnknownName("family", family, FAMILY_TITLES)
    families: dict[str, tuple[Any, ...]] = {
        "estimator": estimators.available(),
        "measure": measures.available(),
        "metric": metrics.available(),
    }
    kept = [name for name in families if family is None or name == family.removesuffix("s")]
    rows = [_describe_method(member, name) for name in kept for member in families[name]]
    if as_json:
        print_json(rows)
        return
    for place, name in enumerate(kept):
        if place:
            console().print()
        cells = [
            (row["name"], ", ".join(row["needs"]), row["assumes"], row["paper"])
            for row in rows
            if row["family"] == name
        ]
        columns = (name, "needs", "tells" if name == "metric" else "assumes", "paper")
        console().print(terminal.table(FAMILY_TITLES[name], columns, cells))


def _describe_method(member: Any, family: str) -> dict[str, Any]:
    return {
        "name": member.name,
        "label": getattr(member, "label", member.name),
        "family": family,
        "needs": list(getattr(member, "needs", ())),
        "assumes": member.assumes,
        "paper": getattr(member, "paper", ""),
        "is_mergeable": bool(getattr(member, "is_mergeable", False)),
    }
