"""What the measures have in common: the scree, and loadings after varimax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.metrics.basic import squash_nll
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import FigureTable as Numbers
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

# Of fewer measures there is nothing to summarise; of more columns than models, nothing to trust.
MIN_MEASURES = 3
# A column that fewer than this share of the models have is left out, and not the models.
MIN_MODEL_SHARE = 0.8
# So many measures are taken, and so many eigenvalues shown.
MAX_MEASURES, MAX_EIGENVALUES = 16, 30
ROTATION = "varimax"


@dataclass(frozen=True)
class FactorSection:
    """The two charts and a sentence of what was used."""

    figures: tuple[Figure, ...]
    remark: str


def build_factor_section(comparison: MeasureComparison) -> FactorSection:
    """Factors of error and the most telling measures, each on own domains and on others."""
    if len(comparison.table.measures) < MIN_MEASURES:
        raise NotApplicable(
            f"factors need {MIN_MEASURES} measures or more; there "
            f"{'is 1' if len(comparison.table.measures) == 1 else f'are {len(comparison.table.measures)}'}"
        )
    values, names = factor_columns(comparison)
    found = factor_analysis(values, names)
    if found.n_rows < len(found.names):
        raise NotApplicable(
            f"{pluralize(found.n_rows, 'model')} with all values are fewer than the "
            f"{len(found.names)} columns of factors"
        )
    lost = f" ({found.left_out} more lack some value)" if found.left_out else ""
    most = (
        f"; of the measures the {MAX_MEASURES} most telling"
        if len(comparison.table.measures) > MAX_MEASURES
        else ""
    )
    remark = f"Of {pluralize(found.n_rows, 'model')}{lost} and {len(found.names)} columns{most}."
    return FactorSection((_scree_figure(found), _loadings_figure(found)), remark)


def factor_columns(comparison: MeasureComparison) -> tuple[Floats, list[str]]:
    """Models × (error and measures in every role), without columns that are constant or lack many."""
    metrics = select_metrics(comparison.table, most_informative_measures(comparison, MAX_MEASURES))
    if NLL_MEASURE in metrics:
        metrics[NLL_MEASURE] = squash_nll(metrics[NLL_MEASURE])
    roles = model_means_by_role(comparison.table, metrics)
    values = np.concatenate(list(roles.values()), axis=1)
    names = unique_labels([f"{role} {name}" for role in roles for name in metrics])
    known = ~np.isnan(values)
    there = known.mean(axis=0) >= MIN_MODEL_SHARE
    whole = known[:, there].all(axis=1)
    low = np.min(values, axis=0, where=known & whole[:, None], initial=np.inf)
    high = np.max(values, axis=0, where=known & whole[:, None], initial=-np.inf)
    kept = there & (high > low)
    return values[:, kept], [name for name, has in zip(names, kept, strict=True) if has]


def _scree_figure(analysis: FactorAnalysis) -> Figure:
    values = analysis.eigenvalues[:MAX_EIGENVALUES]
    shares = analysis.eigenvalues / analysis.eigenvalues.sum()
    kept = analysis.loadings.shape[1]
    told = f"{pluralize(kept, 'factor')} explain{'s' if kept == 1 else ''} {shares[:kept].sum():.0%}".replace(
        "%", " %"
    )
    return Figure(
        key="scree",
        title="Scree",
        caption=f"How much each factor explains, in columns' worth; those above the dashed line at 1 "
        f"are kept: {told} of all variance.",
        alt=f"Eigenvalues of {len(analysis.names)} columns, falling from {values[0]:.1f}; {told}.",
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
    turned = analysis.rotations[ROTATION]
    order = _order_by_factor(turned)
    heads = [str(j) for j in range(1, turned.shape[1] + 1)]
    names = [analysis.names[j] for j in order]
    shares = analysis.explained_variance_ratio(ROTATION)
    rows = [
        (
            name,
            *(format_number(float(one), 2) for one in turned[j]),
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
        caption="How far each column goes with each factor: vermilion with it, blue against it. "
        "Columns that load on one factor say much the same of a model.",
        alt=f"Loadings of {len(names)} columns on {pluralize(len(heads), 'factor')}.",
        spec=charts.heatmap_chart(turned[order], names, heads, ()),
        table=Numbers(
            ("column", *(f"factor {head}" for head in heads), "explained, %"), tuple(rows)
        ),
    )


def _order_by_factor(loadings: Floats) -> Sequence[int]:
    """Columns by the factor that they load on most, the strongest first."""
    main = np.abs(loadings).argmax(axis=1)
    strength = np.abs(loadings).max(axis=1)
    order: list[int] = np.lexsort((-strength, main)).tolist()
    return order
