"""Distances between measures and hierarchical clustering."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.clustering import cluster_measures, measure_distances
from oodometer.studies.analysis.rank_correlation import apply_signs, measure_directions
from tests.support.evaluation_rows import (
    Row,
    complete_rows,
    out_of_domain_rows,
    random_rows,
    rank_correlation,
    to_table,
)

NAMES = tuple("pqrstu")


def naive(rows: list[Row], first: str, second: str) -> float | None:
    some = complete_rows(out_of_domain_rows(rows), first, second)
    rho = rank_correlation([row[first] for row in some], [row[second] for row in some])
    return None if rho is None else 1 - rho


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.4]), st.sampled_from([None, 4]))
@settings(max_examples=25, deadline=None)
def test_distances_match_naive_loop(seed: int, gaps: float, levels: int | None) -> None:
    rows = random_rows(seed, models=3, domains="abc", measures=NAMES, gaps=gaps, levels=levels)
    found = measure_distances(to_table(rows))
    for (i, first), (j, second) in itertools.combinations(enumerate(found.names), 2):
        assert found.values[i, j] == found.values[j, i]
        assert found.values[i, j] == pytest.approx(naive(rows, first, second), abs=1e-12)
        assert found.n_rows[i, j] == len(complete_rows(out_of_domain_rows(rows), first, second))
    assert not np.diag(found.values).any()
    assert set(found.names) | set(found.left_out) == set(NAMES)


def test_merges_match_naive_average_linkage() -> None:
    """At each step the two clusters with the smallest mean distance merge."""
    rows = random_rows(4, models=4, measures=NAMES)
    found = cluster_measures(to_table(rows))
    clusters = [{name} for name in NAMES]
    for merge in found.merges:

        def apart(pair: tuple[set[str], set[str]]) -> float:
            between = [naive(rows, a, b) for a in pair[0] for b in pair[1]]
            return float(np.mean([one for one in between if one is not None]))

        first, second = min(itertools.combinations(clusters, 2), key=apart)
        assert merge.distance == pytest.approx(apart((first, second)))
        assert merge.size == len(first | second)
        clusters = [one for one in clusters if one not in (first, second)] + [first | second]
        assert {frozenset(group) for group in found.groups(merge.distance)} == {
            frozenset(one) for one in clusters
        }


@given(st.integers(0, 10_000), st.floats(0, 2))
@settings(max_examples=20, deadline=None)
def test_groups_match_scipy_and_are_contiguous_in_leaf_order(seed: int, cut: float) -> None:
    found = cluster_measures(to_table(random_rows(seed, models=3, measures=NAMES)))
    tree = linkage(squareform(found.distances.values), method="average")
    labels = fcluster(tree, cut, criterion="distance")
    peers = {frozenset(n for n, label in zip(NAMES, labels, strict=True) if label == one)
             for one in labels}  # fmt: skip
    groups = found.groups(cut)
    assert {frozenset(group) for group in groups} == peers
    assert tuple(name for group in groups for name in group) == found.order


def test_opposite_measures_have_distance_two_until_signed() -> None:
    rows = random_rows(2, models=5, measures=("x",))
    for row in rows:
        row["x"], row["y"] = -row["accuracy"], row["accuracy"] ** 2
    table = to_table(rows)
    assert measure_distances(table).values[0, 1] == pytest.approx(2.0)
    assert len(cluster_measures(table).groups()) == 2
    fixed, _ = measure_directions(table)
    assert measure_distances(apply_signs(table, fixed)).values[0, 1] == pytest.approx(
        0.0, abs=1e-12
    )
    assert cluster_measures(apply_signs(table, fixed)).groups() == (
        tuple(cluster_measures(apply_signs(table, fixed)).order),
    )


def test_measures_with_too_few_values_are_left_out_by_name() -> None:
    rows = out_of_domain_rows(random_rows(3, models=4, measures=NAMES))
    for j, row in enumerate(rows):
        row["p"] = 1.0
        row["q"] = row["q"] if j < 2 else math.nan
        # t and u have no evaluation in common; t has one value fewer.
        row["t"] = row["t"] if j < 10 else math.nan
        row["u"] = math.nan if j < 10 else row["u"] if j < 21 else math.nan
    found = measure_distances(to_table(rows))
    assert found.names == ("r", "s", "u")
    assert found.left_out == {
        "p": "it is the same for all 48 evaluations",
        "q": "it has values for 2 evaluations; 3 are needed",
        "t": "too few common evaluations to compare it with u",
    }


def test_row_order_does_not_matter() -> None:
    rows = random_rows(5, measures=NAMES, gaps=0.1)
    shuffled = random.Random(0).sample(rows, len(rows))
    before, after = cluster_measures(to_table(rows)), cluster_measures(to_table(shuffled))
    assert after.distances.values == pytest.approx(before.distances.values)
    assert sorted(map(sorted, after.groups())) == sorted(map(sorted, before.groups()))


def test_json_is_in_leaf_order() -> None:
    found = cluster_measures(to_table(random_rows(6, measures=NAMES)))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    place = [found.distances.names.index(name) for name in plain["order"]]
    assert plain["distances"][0][1] == found.distances.values[place[0], place[1]]
    assert plain["groups"] == [list(group) for group in found.groups()]
    assert (plain["cut"], len(plain["merges"]), plain["rows"][0][0]) == (0.5, 5, 72)


def test_invalid_input_raises() -> None:
    rows = [dict(row, y=1.0) for row in random_rows(0, measures=("x", "y"))]
    with pytest.raises(
        NotApplicable, match="fewer than two measures can be compared: x; y: it is the"
    ):
        cluster_measures(to_table(rows))
    with pytest.raises(UnknownName, match="No measure is called 'w'"):
        cluster_measures(to_table(rows), measures=["x", "w"])
    with pytest.raises(InputError, match="cut must be at least 0 and at most 2; got 3"):
        cluster_measures(to_table(random_rows(0))).groups(3)
