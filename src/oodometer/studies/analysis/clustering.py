"""Which measures say the same: distances 1 − ρ between them, and a hierarchical clustering.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021, Figure 2. The distance is signed: two measures that order models in
opposite ways are 2 apart, so measures should be given their canonical signs first
(`rank_correlation.canonical_sign`). The paper does not name the linkage; it is the mean here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    pairwise_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.rank_correlation import measure_matrix, select_out_of_distribution

# Measures of one group correlate by 0.5 or more in the mean.
DEFAULT_CUT_DISTANCE = 0.5


@dataclass(frozen=True, eq=False)
class MeasureDistances:
    """1 − ρ of measures over the evaluations that both have; why other measures have none."""

    names: tuple[str, ...]
    values: Floats
    n_rows: Ints
    left_out: dict[str, str]


@dataclass(frozen=True)
class ClusterMerge:
    """Two clusters that become one: a measure by its place, an earlier merge by k + its place."""

    first: int
    second: int
    distance: float
    size: int


@dataclass(frozen=True, eq=False)
class Clustering:
    """Distances, the tree that they make, and the measures in the order of its leaves."""

    distances: MeasureDistances
    merges: tuple[ClusterMerge, ...]
    order: tuple[str, ...]

    def groups(self, cut: float = DEFAULT_CUT_DISTANCE) -> tuple[tuple[str, ...], ...]:
        """Measures that are joined at a distance of at most `cut`, groups in the leaves' order."""
        if not 0 <= cut <= 2:
            raise InputError(f"A cut is a distance from 0 to 2; got {cut}. 0.5 is usual.")
        names = self.distances.names
        members = {j: {name} for j, name in enumerate(names)}
        for number, one in enumerate(self.merges, start=len(names)):
            if one.distance <= cut:
                members[number] = members.pop(one.first) | members.pop(one.second)
        ordered = [tuple(name for name in self.order if name in some) for some in members.values()]
        return tuple(sorted(ordered, key=lambda group: self.order.index(group[0])))

    def to_dict(self, cut: float = DEFAULT_CUT_DISTANCE) -> dict[str, Any]:
        """Plain values, for JSON; rows and columns of the matrix are in the leaves' order."""
        place = [self.distances.names.index(name) for name in self.order]
        return {
            "order": list(self.order),
            "distances": self.distances.values[np.ix_(place, place)].tolist(),
            "rows": self.distances.n_rows[np.ix_(place, place)].tolist(),
            "measures": list(self.distances.names),
            "merges": [vars(one) for one in self.merges],
            "cut": cut,
            "groups": [list(group) for group in self.groups(cut)],
            "left_out": dict(self.distances.left_out),
        }


def cluster_measures(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> Clustering:
    """The tree of measures by how alike they order the evaluations on other domains.

    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
    ...                     "accuracy": [0.9, 0.8, 0.7], "x": [1, 2, 3], "y": [3, 2, 1], "z": [4, 5, 6]})
    >>> sorted(sorted(group) for group in cluster_measures(table).groups())
    [['x', 'z'], ['y']]
    """
    found = measure_distances(table, measures=measures)
    if len(found.names) < 2:
        raise NotApplicable(
            f"fewer than two measures can be compared: {', '.join(found.names) or 'none'}; "
            + "; ".join(f"{name}: {why}" for name, why in found.left_out.items())
        )
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    # scipy's optimal_ordering is at times worse than none, so it is not asked for.
    tree = linkage(squareform(found.values), method="average")
    merges = tuple(ClusterMerge(int(a), int(b), float(height), int(n)) for a, b, height, n in tree)
    return Clustering(found, merges, tuple(found.names[j] for j in leaves_list(tree)))


def measure_distances(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> MeasureDistances:
    """1 − ρ (Spearman) between measures, over the evaluations that both have an answer for.

    A measure that is constant or has too few answers is left out; so is, one by one, the measure
    that can't be compared with the most others.
    """
    outside = select_out_of_distribution(table)
    names = list(select_measures(list(table.measures), measures))
    found = pairwise_correlations(measure_matrix(outside, names))
    kept, left_out = _drop_incomparable(names, found.values, found.n_rows)
    cells = np.ix_(kept, kept)
    values = np.clip(1.0 - found.values[cells], 0.0, 2.0)
    np.fill_diagonal(values, 0.0)
    return MeasureDistances(
        tuple(names[j] for j in kept),
        (values + values.T) / 2,
        found.n_rows[cells],
        left_out,
    )


def _drop_incomparable(
    names: Sequence[str], values: Floats, rows: Ints
) -> tuple[list[int], dict[str, str]]:
    """The places of measures of which every pair has a ρ; why the others are left out."""
    left_out = {}
    for name, answers, alone in zip(names, np.diag(rows), np.diag(values), strict=True):
        if answers < MIN_CORRELATION_ROWS:
            left_out[name] = (
                f"{answers} evaluations have an answer, and {MIN_CORRELATION_ROWS} are needed"
            )
        elif np.isnan(alone):
            left_out[name] = f"it is the same for all {answers} evaluations"
    kept = [j for j, name in enumerate(names) if name not in left_out]
    while (lacking := np.isnan(values[np.ix_(kept, kept)])).any():
        # Of those that lack as many, the one with the fewest answers goes, and the last of these.
        worst = max(range(len(kept)), key=lambda j: (lacking[j].sum(), -rows[kept[j], kept[j]], j))
        others = ", ".join(names[kept[j]] for j in np.flatnonzero(lacking[worst]))
        left_out[names[kept.pop(worst)]] = f"too little in common to compare it with {others}"
    return kept, left_out
