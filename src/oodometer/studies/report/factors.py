"""Section of a study page on factor analysis, with a scree plot and loadings after varimax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.metrics.basic import squash_nll
from oodometer.report.charts import Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import unique_labels
from oodometer.studies.analysis import MeasureComparison
from oodometer.studies.analysis.factors import (
    MIN_EIGENVALUE,
    NLL_MEASURE,
    FactorAnalysis,
    factor_analysis,
)
from oodometer.studies.analysis.id_ood_pairs import model_means_by_role, select_metrics
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
ROTATION = "varimax"


@dataclass(frozen=True)
class FactorSection:
    """Figures of eigenvalues and loadings, and a sentence on the models and columns used."""

    figures: tuple[Figure, ...]
    remark: str


def build_factor_section(comparison: MeasureComparison) -> FactorSection:
    """Run factor analysis on the error and the most informative measures, on ID and OOD domains."""
    n_measures = len(comparison.table.measures)
    if n_measures < MIN_MEASURES:
        raise NotApplicable(
            f"factor analysis needs at least {MIN_MEASURES} measures; the table has {n_measures}"
        )
    values, names = factor_columns(comparison)
    analysis = factor_analysis(values, names)
    if analysis.n_rows < len(analysis.names):
        raise NotApplicable(
            f"{pluralize(analysis.n_rows, 'model')} with all values are fewer than the "
            f"{len(analysis.names)} columns"
        )
    incomplete = f" ({analysis.left_out} more lack a value)" if analysis.left_out else ""
    selection = (
        f" of the {MAX_MEASURES} most informative measures" if n_measures > MAX_MEASURES else ""
    )
    remark = (
        f"Computed from {pluralize(analysis.n_rows, 'model')}{incomplete} and "
        f"{len(analysis.names)} columns{selection}."
    )
    return FactorSection((_scree_figure(analysis), _loadings_figure(analysis)), remark)


def factor_columns(comparison: MeasureComparison) -> tuple[Floats, list[str]]:
    """Return the error and the measures of all models per domain role, and the column names.

    Columns that are constant or have too few values are left out.
    """
    metrics = select_metrics(comparison.table, most_informative_measures(comparison, MAX_MEASURES))
    if NLL_MEASURE in metrics:
        metrics[NLL_MEASURE] = squash_nll(metrics[NLL_MEASURE])
    roles = model_means_by_role(comparison.table, metrics)
    values = np.concatenate(list(roles.values()), axis=1)
    names = unique_labels([f"{role} {name}" for role in roles for name in metrics])
    known = ~np.isnan(values)
    frequent = known.mean(axis=0) >= MIN_MODEL_SHARE
    complete = known[:, frequent].all(axis=1)
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
    rotated = analysis.rotations[ROTATION]
    order = _order_by_factor(rotated)
    heads = [str(j) for j in range(1, rotated.shape[1] + 1)]
    names = [analysis.names[j] for j in order]
    shares = analysis.explained_variance_ratio(ROTATION)
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
        title="Loadings after varimax",
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
