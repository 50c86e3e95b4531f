"""Signal-to-noise ratio of tables with replicates."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.studies.analysis.measure_noise import group_ignoring_seed, signal_to_noise
from tests.support.evaluation_rows import Row, complete_rows, random_rows, to_table


def replicated(seed: int, column: str = "seed", gaps: float = 0.0) -> list[Row]:
    """Return two recipes per training domain with three replicates each."""
    rows = random_rows(seed, models=6, domains="abc", gaps=gaps)
    return [
        {**row, "architecture": "nin", column: int(row["model"][1]) // 2,
         "recipe.width": int(row["model"][1]) % 2, "recipe.seed": int(row["model"][1])}
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("column", ["seed", "replicate"])
@pytest.mark.parametrize("gaps", [0.0, 0.5])
def test_ratios_match_naive_loop(column: str, gaps: float) -> None:
    rows = replicated(0, column, gaps)
    found = signal_to_noise(to_table(rows), measures=["y"])["y"]
    groups: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for row in complete_rows(rows, "y"):
        groups[row["trained_on"], row["tested_on"], row["recipe.width"]].append(row["y"])
    ratios = [
        statistics.mean(values) / statistics.stdev(values)
        for values in groups.values()
        if len(values) > 1
    ]
    assert ratios
    assert found.mean == pytest.approx(statistics.mean(ratios))
    assert found.sd == pytest.approx(statistics.stdev(ratios))
    assert (found.groups, sum(found.left_out.values())) == (len(ratios), 18 - len(ratios))


def test_groups_without_ratio_are_counted_by_reason() -> None:
    rows = replicated(1)
    for row in rows:
        if row["tested_on"] == "a":
            row["x"] = 0.1
        elif row["tested_on"] == "b" and row["seed"] > 0:
            row["x"] = math.nan
    found = signal_to_noise(to_table(rows))["x"]
    assert (found.groups, found.left_out) == (6, {
        "all replicates are equal": 6, "fewer than two replicates have a value": 6,
    })  # fmt: skip


def test_replicate_column_takes_precedence_over_seed() -> None:
    rows = [dict(row, replicate=row["seed"], seed=0) for row in replicated(2)]
    assert signal_to_noise(to_table(rows)) == signal_to_noise(to_table(replicated(2)))


def test_indistinguishable_replicates_raise() -> None:
    rows = [{k: v for k, v in row.items() if k != "recipe.width"} for row in replicated(3)]
    with pytest.raises(InputError, match=r"'a0' and 'a1' have the same seed .* Add columns recipe"):
        signal_to_noise(to_table(rows))
    with pytest.raises(
        InputError, match=r"a column replicate or seed; the other columns are: none"
    ):
        signal_to_noise(to_table(random_rows(0)))


def test_rows_that_differ_only_in_seed_form_a_group() -> None:
    table = to_table(replicated(4))
    groups = group_ignoring_seed(table)
    assert sorted(np.concatenate(groups)) == list(range(len(table)))
    for rows in groups:
        assert len({(table.trained_on[j], table.tested_on[j], table.columns["recipe.width"][j])
                    for j in rows}) == 1  # fmt: skip
        assert len({table.columns["seed"][j] for j in rows}) == 3


def test_ratio_is_invariant_to_sign_and_scale() -> None:
    rows = replicated(5)
    changed = [dict(row, x=-1000 * row["x"]) for row in rows]
    before, after = (signal_to_noise(to_table(some))["x"] for some in (rows, changed))
    assert after.mean == pytest.approx(before.mean)
    assert after.sd == pytest.approx(before.sd)


def test_models_without_seed_are_groups_of_their_own() -> None:
    rows = [dict(row, seed=None if row["seed"] == 2 else row["seed"]) for row in replicated(6)]
    groups = group_ignoring_seed(to_table(rows))
    assert sorted(map(len, groups)) == [1] * 18 + [2] * 18
    assert signal_to_noise(to_table(rows))["x"].left_out == {
        "fewer than two replicates have a value": 18
    }
    none = [dict(row, seed=None) for row in rows]
    assert len(group_ignoring_seed(to_table(none))) == len(rows)
    with pytest.raises(InputError, match="needs replicates"):
        signal_to_noise(to_table(none))
