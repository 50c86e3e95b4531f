"""Accuracy on own domains against accuracy on another: the pattern of every pair, and its gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import FigureTable as Numbers
from oodometer.report.charts import padded_percent_range
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import UNNAMED_LABEL
from oodometer.studies.analysis.id_ood_scatter import (
    AccuracyGap,
    IdOodScatter,
    id_ood_scatters,
    task_difficulties,
)
from oodometer.studies.analysis.scatter_patterns import PatternName
from oodometer.studies.report import charts
from oodometer.studies.report.scatter import (
    MAX_PANELS,
    round_for_chart,
    select_largest_groups,
    thin_rows,
)

# A table of more pairs is not read, and would make the page heavy.
MAX_PAIRS = 300
PATTERN_MEANINGS: dict[PatternName, str] = {
    "functional": "functional relationship: who is better at home is better there",
    "vertical": "vertical line: alike at home, but not there (underspecified)",
    "horizontal": "horizontal line: better at home is no better there (no generalization)",
    "cloud": "point cloud: home tells little",
}


@dataclass(frozen=True)
class PatternSection:
    """Panels, the figures of all pairs, those of tasks if there are several, and how to read them."""

    figures: tuple[Figure, ...]
    pairs: Numbers
    tasks: Numbers | None
    counts: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]


def build_pattern_section(table: EvaluationTable) -> PatternSection:
    """The scatter of every pair of a training set and a domain outside it."""
    every = id_ood_scatters(table)
    found = [one for one in every if one.models]
    if not found:
        raise NotApplicable(
            "no model has an accuracy both on a domain that it was trained on and on another"
        )
    sizes = np.array([len(one.models) for one in found])
    drawn = [found[j] for j in select_largest_groups(sizes, MAX_PANELS, 1)]
    listed = [found[j] for j in select_largest_groups(sizes, MAX_PAIRS, 1)]
    counts = Counter(
        PATTERN_MEANINGS[one.pattern.name] if one.pattern.name else "no pattern" for one in found
    )
    return PatternSection(
        _pair_figures(drawn),
        Numbers(PAIR_TABLE_HEADS, tuple(_pair_row(one) for one in listed)),
        _task_table(found),
        tuple(counts.most_common()),
        tuple(_omission_remarks(len(every), len(found), len(drawn), len(listed))),
    )


PAIR_TABLE_HEADS = (
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


def _omission_remarks(n_pairs: int, n_with_models: int, n_drawn: int, n_listed: int) -> list[str]:
    said = []
    if n_with_models < n_pairs:
        said.append(
            f"{pluralize(n_pairs - n_with_models, 'pair')} have no model with both accuracies."
        )
    if n_drawn < n_with_models:
        said.append(f"Of {n_with_models:,} pairs {n_drawn} are drawn, those with the most models.")
    if n_listed < n_with_models:
        said.append(f"The table has {n_listed} of them.")
    return said


def _pair_figures(pair_scatters: Sequence[IdOodScatter]) -> tuple[Figure, ...]:
    """All on the same axes, so that spreads can be compared and the line of equality is seen."""
    every = 100 * np.concatenate(
        [values for one in pair_scatters for values in (one.id_accuracy, one.ood_accuracy)]
    )
    low, high = padded_percent_range([float(every.min()), float(every.max())])
    axes = charts.PanelAxes("ID accuracy, %", "OOD accuracy, %", (low, high), (low, high))
    return tuple(_pair_figure(one, axes, f"pair-{j}") for j, one in enumerate(pair_scatters))


def _pair_figure(pair_scatter: IdOodScatter, axes: charts.PanelAxes, key: str) -> Figure:
    rows = thin_rows(np.arange(len(pair_scatter.models)), pair_scatter.ood_accuracy)
    points = [
        {
            "name": truncate_name(pair_scatter.models[j]),
            "x": round_for_chart(100 * pair_scatter.id_accuracy[j]),
            "y": round_for_chart(100 * pair_scatter.ood_accuracy[j]),
        }
        for j in rows
    ]
    told = f"{(pair_scatter.pattern.name or 'no pattern').capitalize()}: {pair_scatter.pattern.reason}".replace(
        "-", "−"
    )
    part = (
        f"; {len(rows)} of {len(pair_scatter.models):,} models drawn"
        if len(rows) < len(pair_scatter.models)
        else ""
    )
    cells = tuple(
        (
            truncate_name(pair_scatter.models[j]),
            f"{100 * pair_scatter.id_accuracy[j]:.1f}",
            f"{100 * pair_scatter.ood_accuracy[j]:.1f}",
        )
        for j in rows
    )
    return Figure(
        key=key,
        title=truncate_name(_pair_name(pair_scatter)),
        caption=f"{told}{part}.",
        alt=f"OOD against ID accuracy of {pluralize(len(pair_scatter.models), 'model')}, {truncate_name(_pair_name(pair_scatter))}: {told}.",
        spec=charts.panel_chart(points, [{"x": end, "y": end} for end in axes.y_range], axes),
        table=Numbers(("model", "ID, %", "OOD, %"), cells),
    )


def _pair_name(pair_scatter: IdOodScatter) -> str:
    return f"{pair_scatter.training} → {pair_scatter.target}"


def _pair_row(pair_scatter: IdOodScatter) -> tuple[str, ...]:
    of = pair_scatter.pattern
    spreads = (of.id_spread, of.ood_spread)
    return (
        truncate_name(_pair_name(pair_scatter)), f"{len(pair_scatter.models):,}", *_format_gap(pair_scatter.gap), format_number(of.correlation, 2),
        *(format_number(None if value is None else 100 * value, 1) for value in spreads),
        of.name or "none",
    )  # fmt: skip


def _format_gap(gap: AccuracyGap) -> tuple[str, str, str]:
    """Mean accuracies and the normalised gap, each with its standard error."""
    pairs = ((gap.id, gap.id_se), (gap.ood, gap.ood_se), (gap.value, gap.value_se))
    texts = [
        format_number(None if value is None else 100 * value, 1)
        + ("" if error is None else f" ± {format_number(100 * error, 1)}")
        for value, error in pairs
    ]
    return texts[0], texts[1], texts[2]


def _task_table(pair_scatters: Sequence[IdOodScatter]) -> Numbers | None:
    """How hard tasks are, where there are several."""
    tasks = task_difficulties(pair_scatters)
    if len(tasks) < 2:
        return None
    rows = (
        (
            truncate_name(one.task if one.task != UNNAMED_LABEL else "unnamed"),
            str(one.pairs),
            *_format_gap(one.gap),
            format_number(one.place, 2),
        )
        for one in tasks
    )
    return Numbers(
        ("task", "pairs", "ID, %", "OOD, %", "normalised gap, %", "hardness, 0…1"), tuple(rows)
    )
