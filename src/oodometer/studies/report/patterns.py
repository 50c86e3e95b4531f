"""Accuracy on own domains against accuracy on another: the pattern of every pair, and its gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import NoAnswer
from oodometer.core.format import counted, number
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import Table as Numbers
from oodometer.report.charts import around
from oodometer.report.histograms import shortened
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.id_ood_pairs import UNNAMED
from oodometer.studies.analysis.id_ood_scatter import Gap, Scatter, difficulties, scatters
from oodometer.studies.analysis.scatter_patterns import Name
from oodometer.studies.report import charts
from oodometer.studies.report.scatter import PANELS, plain, spread_out, thinned

# A table of more pairs is not read, and would make the page heavy.
MOST_PAIRS = 300
MEANINGS: dict[Name, str] = {
    "functional": "functional relationship: who is better at home is better there",
    "vertical": "vertical line: alike at home, but not there (underspecified)",
    "horizontal": "horizontal line: better at home is no better there (no generalization)",
    "cloud": "point cloud: home tells little",
}


@dataclass(frozen=True)
class Patterned:
    """Panels, the figures of all pairs, those of tasks if there are several, and how to read them."""

    figures: tuple[Figure, ...]
    pairs: Numbers
    tasks: Numbers | None
    counts: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]


def patterned(table: Table) -> Patterned:
    """The scatter of every pair of a training set and a domain outside it."""
    every = scatters(table)
    found = [one for one in every if one.models]
    if not found:
        raise NoAnswer(
            "no model has an accuracy both on a domain that it was trained on and on another"
        )
    sizes = np.array([len(one.models) for one in found])
    drawn = [found[j] for j in spread_out(sizes, PANELS, 1)]
    listed = [found[j] for j in spread_out(sizes, MOST_PAIRS, 1)]
    counts = Counter(
        MEANINGS[one.pattern.name] if one.pattern.name else "no pattern" for one in found
    )
    return Patterned(
        _figures(drawn),
        Numbers(HEADS, tuple(_line(one) for one in listed)),
        _tasks(found),
        tuple(counts.most_common()),
        tuple(_remarks(len(every), len(found), len(drawn), len(listed))),
    )


HEADS = (
    "pair",
    "models",
    "ID, %",
    "OOD, %",
    "normalised gap, %",
    "ρ",
    "ID spread",
    "OOD spread",
    "pattern",
)


def _remarks(every: int, found: int, drawn: int, listed: int) -> list[str]:
    said = []
    if found < every:
        said.append(f"{counted(every - found, 'pair')} have no model with both accuracies.")
    if drawn < found:
        said.append(f"Of {found:,} pairs {drawn} are drawn, those with the most models.")
    if listed < found:
        said.append(f"The table has {listed} of them.")
    return said


def _figures(drawn: Sequence[Scatter]) -> tuple[Figure, ...]:
    """All on the same axes, so that spreads can be compared and the line of equality is seen."""
    every = 100 * np.concatenate([values for one in drawn for values in (one.id, one.ood)])
    low, high = around([float(every.min()), float(every.max())])
    axes = charts.Axes("ID accuracy, %", "OOD accuracy, %", (low, high), (low, high))
    return tuple(_figure(one, axes, f"pair-{j}") for j, one in enumerate(drawn))


def _figure(one: Scatter, axes: charts.Axes, key: str) -> Figure:
    rows = thinned(np.arange(len(one.models)), one.ood)
    points = [
        {
            "name": shortened(one.models[j]),
            "x": plain(100 * one.id[j]),
            "y": plain(100 * one.ood[j]),
        }
        for j in rows
    ]
    told = f"{(one.pattern.name or 'no pattern').capitalize()}: {one.pattern.reason}".replace(
        "-", "−"
    )
    part = (
        f"; {len(rows)} of {len(one.models):,} models drawn" if len(rows) < len(one.models) else ""
    )
    cells = tuple(
        (shortened(one.models[j]), f"{100 * one.id[j]:.1f}", f"{100 * one.ood[j]:.1f}")
        for j in rows
    )
    return Figure(
        key=key,
        title=shortened(_pair(one)),
        caption=f"{told}{part}.",
        alt=f"OOD against ID accuracy of {counted(len(one.models), 'model')}, {shortened(_pair(one))}: {told}.",
        spec=charts.panel(points, [{"x": end, "y": end} for end in axes.y_ends], axes),
        table=Numbers(("model", "ID, %", "OOD, %"), cells),
    )


def _pair(one: Scatter) -> str:
    return f"{one.training} → {one.target}"


def _line(one: Scatter) -> tuple[str, ...]:
    of = one.pattern
    spreads = (of.id_spread, of.ood_spread)
    return (
        shortened(_pair(one)), f"{len(one.models):,}", *_gap(one.gap), number(of.correlation, 2),
        *(number(None if value is None else 100 * value, 1) for value in spreads),
        of.name or "none",
    )  # fmt: skip


def _gap(gap: Gap) -> tuple[str, str, str]:
    """Mean accuracies and the normalised gap, each with its standard error."""
    pairs = ((gap.id, gap.id_se), (gap.ood, gap.ood_se), (gap.value, gap.value_se))
    texts = [
        number(None if value is None else 100 * value, 1)
        + ("" if error is None else f" ± {number(100 * error, 1)}")
        for value, error in pairs
    ]
    return texts[0], texts[1], texts[2]


def _tasks(found: Sequence[Scatter]) -> Numbers | None:
    """How hard tasks are, where there are several."""
    tasks = difficulties(found)
    if len(tasks) < 2:
        return None
    rows = (
        (
            shortened(one.task if one.task != UNNAMED else "unnamed"),
            str(one.pairs),
            *_gap(one.gap),
            number(one.place, 2),
        )
        for one in tasks
    )
    return Numbers(
        ("task", "pairs", "ID, %", "OOD, %", "normalised gap, %", "hardness, 0…1"), tuple(rows)
    )
