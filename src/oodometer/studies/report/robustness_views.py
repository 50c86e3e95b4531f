"""Views of test sets compared with a reference: HTML in notebooks, HTML report and charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.format import pluralize
from oodometer.report.charts import Figure, NamedValue, bar_chart, padded_percent_range
from oodometer.report.histograms import truncate_name, unique_labels
from oodometer.report.notebook import NotebookContent, NotebookTable, draw, render_notebook
from oodometer.report.page import versions_text, write_page
from oodometer.studies.analysis import RobustnessComparison
from oodometer.studies.analysis.robustness import ReferenceComparison
from oodometer.studies.analysis.wide_table import to_evaluations
from oodometer.studies.report import charts
from oodometer.studies.report._study_page import study_page
from oodometer.studies.report.scatter import (
    MIN_GROUP_MODELS,
    fit_line_ends,
    round_for_chart,
    thin_rows,
)

# A chart has at most this many bars, those of the first test sets; the table has all.
MAX_BARS = 40
HEADS = (
    "test set", "models", "Spearman", "Pearson", "accuracy, %", "drop, %", "pattern", "slope",
    "most above the line",
)  # fmt: skip


def notebook_html(comparison: RobustnessComparison) -> str:
    """Return a comparison with a reference as a fragment of HTML for notebooks."""
    rows = [_table_row(each) for each in comparison]
    return render_notebook(
        NotebookContent(
            headline=_headline(comparison),
            subject=f"over {pluralize(len(comparison.accuracies.models), 'model')}",
            sentences=list(_sentences(comparison)),
            tables=[NotebookTable("Test sets", HEADS, rows)],
        )
    )


def write_report(comparison: RobustnessComparison, path: str | Path, *, title: str | None) -> None:
    """Write the HTML report of the study in which the reference predicts the other test sets."""
    page = study_page(
        to_evaluations(comparison.accuracies, comparison.reference),
        title=title or _headline(comparison),
        reproduce={"Versions": versions_text()},
    )
    write_page(page, path)


def draw_chart(comparison: RobustnessComparison, kind: str | None) -> Any:
    """Return a chart: drops, correlations or scatter (of the test set with the most models)."""
    return draw(
        {
            "drops": partial(_drops, comparison),
            "correlations": partial(_correlations, comparison),
            "scatter": partial(_scatter, comparison),
        },
        kind,
    )


def _headline(comparison: RobustnessComparison) -> str:
    return f"{pluralize(len(comparison), 'test set')} compared with {comparison.reference}"


def _sentences(comparison: RobustnessComparison) -> Iterator[str]:
    patterns = Counter(each.pattern.name or "none" for each in comparison)
    counts = ", ".join(f"{name} {count}" for name, count in patterns.most_common())
    yield f"Patterns of accuracy against the accuracy on {comparison.reference}: {counts}."
    yield (
        "Drop is the lost share of the accuracy. The last column names the model that is farthest "
        "above the fitted line, and its distance in points (effective robustness)."
    )


def _table_row(comparison: ReferenceComparison) -> tuple[str, ...]:
    fit = comparison.fit
    return (
        comparison.name,
        f"{comparison.models:,}",
        _number(comparison.spearman, ".2f"),
        _number(comparison.pearson, ".2f"),
        _percent(comparison.gap.ood),
        _percent(comparison.gap.value),
        comparison.pattern.name or "",
        _number(None if fit is None else fit.line.slope, ".2f"),
        "" if fit is None else f"{fit.most_robust} ({100 * fit.most:+.1f})",
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form).replace("-", "−")


def _percent(value: float | None) -> str:
    return _number(None if value is None else 100 * value, ".1f")


def _bars(comparison: RobustnessComparison, values: list[float | None]) -> list[NamedValue]:
    """Return one bar per test set that has a value."""
    names = unique_labels([each.name for each in comparison])
    bars = [
        NamedValue(name, round_for_chart(value))
        for name, value in zip(names, values, strict=True)
        if value is not None
    ]
    return bars[:MAX_BARS]


def _drops(comparison: RobustnessComparison) -> Figure | None:
    values = [each.gap.value for each in comparison]
    bars = _bars(comparison, [None if value is None else 100 * value for value in values])
    if not bars:
        return None
    return Figure(
        key="drops",
        title=f"Drop of the accuracy, compared with {comparison.reference}",
        caption="Lost share of the mean accuracy of the models that have both accuracies.",
        alt=f"Drops of accuracy on {pluralize(len(bars), 'test set')}.",
        spec=bar_chart(bars, "lost share of the accuracy, %"),
        wide=True,
    )


def _correlations(comparison: RobustnessComparison) -> Figure | None:
    bars = _bars(comparison, [each.spearman for each in comparison])
    if not bars:
        return None
    return Figure(
        key="correlations",
        title=f"Rank correlation with the accuracy on {comparison.reference}",
        caption="Spearman's rank correlation over the models that have both accuracies.",
        alt=f"Rank correlations of {pluralize(len(bars), 'test set')}.",
        spec=bar_chart(bars, "Spearman's rank correlation"),
        wide=True,
    )


def _scatter(comparison: RobustnessComparison) -> Figure | None:
    """Return accuracy against the accuracy on the reference, for the test set with most models."""
    best = max(comparison, key=lambda each: each.models)
    if best.models < MIN_GROUP_MODELS:
        return None
    wide = comparison.accuracies
    x, y = 100 * wide.accuracy_on(comparison.reference), 100 * wide.accuracy_on(best.name)
    known = np.flatnonzero(~np.isnan(x + y))
    points = [
        {"name": wide.models[row], "x": round_for_chart(x[row]), "y": round_for_chart(y[row])}
        for row in thin_rows(known, y[known])
    ]
    low, high = padded_percent_range([float(y[known].min()), float(y[known].max())])
    axes = charts.PanelAxes(
        f"{truncate_name(comparison.reference)}, %",
        f"{truncate_name(best.name)}, %",
        None,
        (low, high),
    )
    return Figure(
        key="scatter",
        title=f"Accuracy on {best.name} and on {comparison.reference}",
        caption="One point per model, and the least-squares line.",
        alt=f"Accuracies of {pluralize(len(known), 'model')} on two test sets.",
        spec=charts.panel_chart(points, fit_line_ends(x[known], y[known]), axes),
        wide=True,
    )
