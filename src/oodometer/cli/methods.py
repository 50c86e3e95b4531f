"""The `oodometer methods` command, which lists all estimators, measures and metrics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oodometer.cli._options import AsJson, Quiet
from oodometer.cli._runtime import console, print_json
from oodometer.core.errors import UnknownName
from oodometer.report import terminal

FAMILY_TITLES = {
    "estimator": "Estimators of accuracy (oodometer estimate)",
    "measure": "Measures that may predict the error (oodometer measure)",
    "metric": "Metrics on labelled data (oodometer evaluate)",
}


def methods(
    family: Annotated[
        str | None,
        typer.Option(
            help="Type of methods to list: estimator, measure or metric. [default: all]",
            autocompletion=lambda: list(FAMILY_TITLES),
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List all methods with their required inputs, assumptions and papers.

    Example:
      oodometer methods --family measure
    """
    from oodometer import estimators, measures, metrics  # slow imports

    if family is not None and family.removesuffix("s") not in FAMILY_TITLES:
        raise UnknownName("family", family, FAMILY_TITLES)
    families: dict[str, tuple[Any, ...]] = {
        "estimator": (*estimators.available(), *estimators.ON_REQUEST),
        "measure": measures.available(),
        "metric": metrics.available(),
    }
    names = [name for name in families if family is None or name == family.removesuffix("s")]
    rows = {name: [_describe_method(member, name) for member in families[name]] for name in names}
    if as_json:
        print_json([row for name in names for row in rows[name]])
        return
    for i, name in enumerate(names):
        if i:
            console().print()
        cells = [
            (row["name"], ", ".join(row["needs"]), row["assumes"], row["paper"])
            for row in rows[name]
        ]
        heads = (name, "needs", "description" if name == "metric" else "assumption", "paper")
        console().print(terminal.table(FAMILY_TITLES[name], heads, cells))
        if name == "estimator":
            requested = ", ".join(member.name for member in estimators.ON_REQUEST)
            console().print(terminal.text_line(f"Run only if named with --method: {requested}."))


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
