"""Hierarchical clustering of measures by the distance 1 − ρ (Spearman).

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021, Figure 2. The distance is signed: two measures that rank models in
opposite orders have distance 2, so apply canonical signs first (`rank_correlation.canonical_sign`).
The paper does not name the linkage; average linkage is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.jsonable import to_jsonable
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    pairwise_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.rank_correlation import measure_matrix, select_out_of_distribution

# Groups are joined if their mean ρ is at least 0.5.
DEFAULT_CUT_DISTANCE = 0.5


@dataclass(frozen=True, eq=False)
class MeasureDistances:
    """Distances 1 − ρ between measures; `left_out` maps each omitted measure to the reason."""

    names: tuple[str, ...]
    values: Floats
    n_rows: Ints
    left_out: dict[str, str]


@dataclass(frozen=True)
class ClusterMerge:
    """Merge of two clusters.

    A cluster that is a single measure is given by the index of the measure; a cluster that is the
    result of an earlier merge by k plus the index of that merge, where k is the number of measures.
    """

    first: int
    second: int
    distance: float
    size: int


@dataclass(frozen=True, eq=False)
class Clustering:
    """Distances between measures, the tree of merges, and the measures in leaf order."""

    distances: MeasureDistances
    merges: tuple[ClusterMerge, ...]
    order: tuple[str, ...]

    def groups(self, cut: float = DEFAULT_CUT_DISTANCE) -> tuple[tuple[str, ...], ...]:
        """Return the groups of measures joined at a distance of at most `cut`, in leaf order."""
        if not 0 <= cut <= 2:
            raise out_of_range("cut", cut, low=0, high=2)
        names = self.distances.names
        members = {j: {name} for j, name in enumerate(names)}
        for number, merge in enumerate(self.merges, start=len(names)):
            if merge.distance <= cut:
                members[number] = members.pop(merge.first) | members.pop(merge.second)
        ordered = [
            tuple(name for name in self.order if name in group) for group in members.values()
        ]
        return tuple(sorted(ordered, key=lambda group: self.order.index(group[0])))

    def to_dict(self, cut: float = DEFAULT_CUT_DISTANCE) -> dict[str, Any]:
        """Return values for JSON; rows and columns of the matrix are in leaf order."""
        leaves = [self.distances.names.index(name) for name in self.order]
        return {
            "order": list(self.order),
            "distances": self.distances.values[np.ix_(leaves, leaves)].tolist(),
            "rows": self.distances.n_rows[np.ix_(leaves, leaves)].tolist(),
            "measures": list(self.distances.names),
            "merges": to_jsonable(self.merges),
            "cut": cut,
            "groups": [list(group) for group in self.groups(cut)],
            "left_out": dict(self.distances.left_out),
        }


def cluster_measures(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> Clustering:
    """Cluster measures by how similarly they rank the out-of-distribution evaluations.

    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.9, 0.8, 0.7],
    ...     "x": [1, 2, 3], "y": [3, 2, 1], "z": [4, 5, 6]})
    >>> sorted(sorted(group) for group in cluster_measures(table).groups())
    [['x', 'z'], ['y']]
    """
    distances = measure_distances(table, measures=measures)
    names = distances.names
    if len(names) < 2:
        raise NotApplicable(
            f"fewer than two measures can be compared: {', '.join(names) or 'none'}; "
            + "; ".join(f"{name}: {reason}" for name, reason in distances.left_out.items())
        )
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    # scipy's optimal_ordering is sometimes worse than the default order, so it is off.
    tree = linkage(squareform(distances.values), method="average")
    merges = tuple(ClusterMerge(int(a), int(b), float(height), int(n)) for a, b, height, n in tree)
    return Clustering(distances, merges, tuple(names[j] for j in leaves_list(tree)))


def measure_distances(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> MeasureDistances:
    """Return 1 − ρ (Spearman) of every two measures over the evaluations that have both values.

    Measures that are constant or have too few values are left out. If some pairs of measures still
    have too few evaluations in common, the measure in most of these pairs is left out, until no
    such pair remains.
    """
    outside = select_out_of_distribution(table)
    names = list(select_measures(list(table.measures), measures))
    correlations = pairwise_correlations(measure_matrix(outside, names))
    kept, left_out = _drop_incomparable(names, correlations.values, correlations.n_rows)
    cells = np.ix_(kept, kept)
    values = np.clip(1.0 - correlations.values[cells], 0.0, 2.0)
    np.fill_diagonal(values, 0.0)
    return MeasureDistances(
        names=tuple(names[j] for j in kept),
        values=(values + values.T) / 2,
        n_rows=correlations.n_rows[cells],
        left_out=left_out,
    )


def _drop_incomparable(
    names: Sequence[str], values: Floats, rows: Ints
) -> tuple[list[int], dict[str, str]]:
    """Return indices of measures that can all be compared, and reasons to omit the others."""
    left_out = {}
    for name, count, with_itself in zip(names, np.diag(rows), np.diag(values), strict=True):
        if count < MIN_CORRELATION_ROWS:
            left_out[name] = (
                f"it has values for {count} evaluations; {MIN_CORRELATION_ROWS} are needed"
            )
        elif np.isnan(with_itself):
            left_out[name] = f"it is the same for all {count} evaluations"
    kept = [j for j, name in enumerate(names) if name not in left_out]
    while (undefined := np.isnan(values[np.ix_(kept, kept)])).any():
        # Drop the measure with the most undefined pairs. Among several such measures, drop the one
        # with the fewest values; if these are equal too, drop the last one.
        worst = max(
            range(len(kept)), key=lambda j: (undefined[j].sum(), -rows[kept[j], kept[j]], j)
        )
        others = ", ".join(names[kept[j]] for j in np.flatnonzero(undefined[worst]))
        left_out[names[kept.pop(worst)]] = f"too few common evaluations to compare it with {others}"
    return kept, left_out
