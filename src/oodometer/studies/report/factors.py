"""Section of a study page on factor analysis, with a scree plot and rotated loadings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.charts import Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import unique_labels
from oodometer.studies.analysis import MeasureComparison
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import (
    DEFAULT_ROTATION,
    MIN_EIGENVALUE,
    FactorAnalysis,
    Rotation,
    factor_analysis,
    factor_columns,
    factor_metrics,
    select_full_data_models,
)
from oodometer.studies.report import charts
from oodometer.studies.report.tables import most_informative_measures

# With fewer measures, factors would not summarize anything.
MIN_MEASURES = 3
# A column is left out if fewer than this share of the models have a value in it. Otherwise, all
# models without a value in it would be left out.
MIN_MODEL_SHARE = 0.8
MAX_MEASURES = 16
# Maximum number of eigenvalues in the scree plot.
MAX_EIGENVALUES = 30


@dataclass(frozen=True)
class FactorSection:
    """Figures of eigenvalues and loadings, and a sentence on the models and columns used."""

    figures: tuple[Figure, ...]
    remark: str


def build_factor_section(
    comparison: MeasureComparison, *, rotation: Rotation = DEFAULT_ROTATION
) -> FactorSection:
    """Run factor analysis on the metrics of Wenzel et al., or on the most informative measures."""
    n_measures = len(comparison.table.measures)
    if n_measures < MIN_MEASURES:
        raise NotApplicable(
            f"factor analysis needs at least {MIN_MEASURES} measures; the table has {n_measures}"
        )
    table, n_few_shot = select_full_data_models(comparison.table)
    metrics = factor_metrics(table)
    if len(metrics) > MAX_MEASURES:
        metrics = tuple(most_informative_measures(comparison, MAX_MEASURES))
    values, names = informative_columns(table, metrics)
    analysis = factor_analysis(values, names, rotation=rotation)
    if analysis.n_rows < len(analysis.names):
        raise NotApplicable(
            f"{pluralize(analysis.n_rows, 'model')} with all values are fewer than the "
            f"{len(analysis.names)} columns"
        )
    incomplete = f" ({analysis.left_out} more lack a value)" if analysis.left_out else ""
    selection = ""
    if len(metrics) < n_measures:
        selection = f": the error and {', '.join(metrics)}"
        if len(metrics) == MAX_MEASURES:
            selection = f" of the {MAX_MEASURES} most informative measures"
    few_shot = (
        f" {pluralize(n_few_shot, 'model')} trained on a few rows per class are left out."
        if n_few_shot
        else ""
    )
    remark = (
        f"Computed from {pluralize(analysis.n_rows, 'model')}{incomplete} and "
        f"{len(analysis.names)} columns{selection}.{few_shot}"
    )
    return FactorSection((_scree_figure(analysis), _loadings_figure(analysis)), remark)


def informative_columns(table: EvaluationTable, metrics: Sequence[str]) -> tuple[Floats, list[str]]:
    """Return the error and the metrics of all models per domain role, and the column names.

    Columns that are constant or have too few values are left out.
    """
    values, column_names = factor_columns(table, metrics)
    names = unique_labels(column_names)
    known = ~np.isnan(values)
    frequent = known.mean(axis=0) >= MIN_MODEL_SHARE
    complete = np.asarray(known[:, frequent].all(axis=1))
    low = np.min(values, axis=0, where=known & complete[:, None], initial=np.inf)
    high = np.max(values, axis=0, where=known & complete[:, None], initial=-np.inf)
    kept = frequent & (high > low)
    return values[:, kept], [name for name, is_kept in zip(names, kept, strict=True) if is_kept]


def _scree_figure(analysis: FactorAnalysis) -> Figure:
    values = analysis.eigenvalues[:MAX_EIGENVALUES]
    shares = analysis.eigenvalues / analysis.eigenvalues.sum()
    n_factors = analysis.loadings.shape[1]
    explained = (
        f"{pluralize(n_factors, 'factor')} explain{'s' if n_factors == 1 else ''} "
        f"{100 * shares[:n_factors].sum():.0f} %"
    )
    return Figure(
        key="scree",
        title="Scree plot",
        caption="The eigenvalue of a factor is the variance that it explains, in units of one "
        f"column. Factors above the dashed line at 1 are retained: {explained} of the variance.",
        alt=f"Eigenvalues of {len(analysis.names)} columns, decreasing from {values[0]:.1f}; "
        f"{explained}.",
        spec=charts.scree_chart(values.tolist(), MIN_EIGENVALUE),
        table=Numbers(
            ("factor", "eigenvalue", "share, %"),
            tuple(
                (str(j), format_number(float(value), 2), f"{100 * share:.1f}")
                for j, (value, share) in enumerate(zip(values, shares, strict=False), 1)
            ),
        ),
    )


def _loadings_figure(analysis: FactorAnalysis) -> Figure:
    rotated = analysis.rotated_loadings
    order = _order_by_factor(rotated)
    heads = [str(j) for j in range(1, rotated.shape[1] + 1)]
    names = [analysis.names[j] for j in order]
    shares = analysis.explained_variance_ratio(analysis.rotation)
    rows = [
        (
            name,
            *(format_number(float(loading), 2) for loading in rotated[j]),
            f"{100 * analysis.communalities[j]:.0f}",
        )
        for name, j in zip(names, order, strict=True)
    ]
    rows.append(
        ("explained, %", *(f"{100 * share:.0f}" for share in shares), f"{100 * shares.sum():.0f}")
    )
    return Figure(
        key="loadings",
        title=f"Loadings after {analysis.rotation}",
        caption="Each cell is the correlation of a column with a factor; positive correlations are "
        "vermilion, negative ones blue. Columns with large loadings on the same factor carry "
        "similar information about a model.",
        alt=f"Loadings of {len(names)} columns on {pluralize(len(heads), 'factor')}.",
        spec=charts.heatmap_chart(rotated[order], names, heads, ()),
        table=Numbers(
            ("column", *(f"factor {head}" for head in heads), "explained, %"), tuple(rows)
        ),
    )


def _order_by_factor(loadings: Floats) -> Sequence[int]:
    """Sort columns by the factor with their largest loading, then by the size of this loading."""
    main = np.abs(loadings).argmax(axis=1)
    strength = np.abs(loadings).max(axis=1)
    order: list[int] = np.lexsort((-strength, main)).tolist()
    return order
