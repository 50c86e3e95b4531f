"""What the measures have in common: the scree, and loadings after varimax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import NoAnswer
from oodometer.core.format import counted, number
from oodometer.core.softmax_kernels import Floats
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import Table as Numbers
from oodometer.report.histograms import labels
from oodometer.studies.analysis import Judgement
from oodometer.studies.analysis.factors import KEPT, NLL, Factors, capped, factor_analysis
from oodometer.studies.analysis.id_ood_pairs import by_model, metrics_of
from oodometer.studies.report import charts
from oodometer.studies.report.tables import most_telling

# Of fewer measures there is nothing to summarise; of more columns than models, nothing to trust.
FEWEST = 3
# A column that fewer than this share of the models have is left out, and not the models.
SHARED = 0.8
# So many measures are taken, and so many eigenvalues shown.
MOST, SCREE = 16, 30
ROTATION = "varimax"


@dataclass(frozen=True)
class Factored:
    """The two charts and a sentence of what was used."""

    figures: tuple[Figure, ...]
    remark: str


def factored(judged: Judgement) -> Factored:
    """Factors of error and the most telling measures, each on own domains and on others."""
    if len(judged.table.measures) < FEWEST:
        raise NoAnswer(
            f"factors need {FEWEST} measures or more; there "
            f"{'is 1' if len(judged.table.measures) == 1 else f'are {len(judged.table.measures)}'}"
        )
    values, names = columns(judged)
    found = factor_analysis(values, names)
    if found.rows < len(found.names):
        raise NoAnswer(
            f"{counted(found.rows, 'model')} with all values are fewer than the "
            f"{len(found.names)} columns of factors"
        )
    lost = f" ({found.left_out} more lack some value)" if found.left_out else ""
    most = f"; of the measures the {MOST} most telling" if len(judged.table.measures) > MOST else ""
    remark = f"Of {counted(found.rows, 'model')}{lost} and {len(found.names)} columns{most}."
    return Factored((_scree(found), _loadings(found)), remark)


def columns(judged: Judgement) -> tuple[Floats, list[str]]:
    """Models × (error and measures in every role), without columns that are constant or lack many."""
    metrics = metrics_of(judged.table, most_telling(judged, MOST))
    if NLL in metrics:
        metrics[NLL] = capped(metrics[NLL])
    roles = by_model(judged.table, metrics)
    values = np.concatenate(list(roles.values()), axis=1)
    names = labels([f"{role} {name}" for role in roles for name in metrics])
    known = ~np.isnan(values)
    there = known.mean(axis=0) >= SHARED
    whole = known[:, there].all(axis=1)
    low = np.min(values, axis=0, where=known & whole[:, None], initial=np.inf)
    high = np.max(values, axis=0, where=known & whole[:, None], initial=-np.inf)
    kept = there & (high > low)
    return values[:, kept], [name for name, has in zip(names, kept, strict=True) if has]


def _scree(found: Factors) -> Figure:
    values = found.eigenvalues[:SCREE]
    shares = found.eigenvalues / found.eigenvalues.sum()
    kept = found.loadings.shape[1]
    told = f"{counted(kept, 'factor')} explain{'s' if kept == 1 else ''} {shares[:kept].sum():.0%}".replace(
        "%", " %"
    )
    return Figure(
        key="scree",
        title="Scree",
        caption=f"How much each factor explains, in columns' worth; those above the dashed line at 1 "
        f"are kept: {told} of all variance.",
        alt=f"Eigenvalues of {len(found.names)} columns, falling from {values[0]:.1f}; {told}.",
        spec=charts.scree(values.tolist(), KEPT),
        table=Numbers(
            ("factor", "eigenvalue", "share, %"),
            tuple(
                (str(j), number(float(value), 2), f"{100 * share:.1f}")
                for j, (value, share) in enumerate(zip(values, shares, strict=False), 1)
            ),
        ),
    )


def _loadings(found: Factors) -> Figure:
    turned = found.rotations[ROTATION]
    order = _by_factor(turned)
    heads = [str(j) for j in range(1, turned.shape[1] + 1)]
    names = [found.names[j] for j in order]
    shares = found.shares(ROTATION)
    rows = [
        (name, *(number(float(one), 2) for one in turned[j]), f"{100 * found.communalities[j]:.0f}")
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
        alt=f"Loadings of {len(names)} columns on {counted(len(heads), 'factor')}.",
        spec=charts.heat(turned[order], names, heads, ()),
        table=Numbers(
            ("column", *(f"factor {head}" for head in heads), "explained, %"), tuple(rows)
        ),
    )


def _by_factor(loadings: Floats) -> Sequence[int]:
    """Columns by the factor that they load on most, the strongest first."""
    main = np.abs(loadings).argmax(axis=1)
    strength = np.abs(loadings).max(axis=1)
    order: list[int] = np.lexsort((-strength, main)).tolist()
    return order
