"""Mean absolute errors of estimates by dataset, shift and calibration."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.analysis.estimation_error import (
    estimation_errors,
    select_estimates,
    split_calibration_suffix,
)
from tests.support.evaluation_rows import Row, out_of_domain_rows, random_rows, to_table

SHIFTS = {"b": "natural", "c": "synthetic", "d": "synthetic", "a": "natural"}


def labelled(seed: int, *, gaps: float = 0.0) -> list[Row]:
    """Return two datasets, two shifts, three seeds, estimates before and after calibration."""
    rows = random_rows(seed, models=6, measures=("doc", "doc (pre-T)", "gde"), gaps=gaps)
    return [
        {**row, "task": "one" if row["trained_on"] in "ab" else "two",
         "shift": SHIFTS[row["tested_on"]], "seed": int(row["model"][1]) // 2}
        for row in rows
    ]  # fmt: skip


def naive(rows: list[Row], name: str, key: tuple[str, ...]) -> dict[int, list[float]]:
    """Return the errors of each seed, in percentage points."""
    found: dict[int, list[float]] = defaultdict(list)
    for row in out_of_domain_rows(rows):
        if (row["task"], row["shift"], row["architecture"]) == key:
            off = 100 * abs(row[name] - row["accuracy"])
            found[row["seed"]] += [] if math.isnan(off) else [off]
    return found


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.9]))
@settings(max_examples=20, deadline=None)
def test_errors_match_naive_loop(seed: int, gaps: float) -> None:
    rows = labelled(seed, gaps=gaps)
    found = estimation_errors(to_table(rows), methods=["doc", "doc (pre-T)", "gde"])
    assert found.sd_over == "seed"
    assert len(found.cells) == 2 * 2 * 2 * 3
    for cell in found.cells:
        name = cell.estimator + (" (pre-T)" if cell.calibration == "pre-T" else "")
        seeds = naive(rows, name, (cell.dataset, cell.shift, cell.architecture))
        means = [statistics.mean(errors) for errors in seeds.values() if errors]
        assert cell.mae.groups == len(means)
        assert sum(cell.mae.left_out.values()) == 3 - len(means)
        assert cell.mae.mean == (pytest.approx(statistics.mean(means)) if means else None)
        assert cell.mae.sd == (pytest.approx(statistics.stdev(means)) if len(means) > 1 else None)
        assert cell.n == sum(map(len, seeds.values()))
        assert cell.n + cell.lacking == sum(
            (row["task"], row["shift"], row["architecture"])
            == (cell.dataset, cell.shift, cell.architecture)
            for row in out_of_domain_rows(rows)
        )


def test_calibration_follows_from_name_or_counterpart() -> None:
    cells = estimation_errors(to_table(labelled(0))).cells
    assert {(cell.estimator, cell.calibration) for cell in cells} == {
        ("doc", "post-T"), ("doc", "pre-T"), ("gde", "unknown"),
    }  # fmt: skip
    assert split_calibration_suffix("atc-ne (post-T)") == ("atc-ne", "post-T")


def test_calibration_follows_from_temperature_column() -> None:
    temperatures = ("none", "1.37", "", "1")
    rows = [
        {**row, "architecture": "nin", "temperature": temperatures[j % 4]}
        for j, row in enumerate(out_of_domain_rows(random_rows(1, models=8, measures=("doc",))))
    ]
    rows = [dict(row, seed=int(row["model"][1]) % 2) for row in rows]
    found = [cell for cell in estimation_errors(to_table(rows)).cells if cell.dataset == "a"]
    texts = {"post-T": ("1.37",), "pre-T": ("none", "1"), "unknown": ("",)}
    assert [cell.calibration for cell in found] == list(texts)
    for cell in found:
        seeds: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            if row["trained_on"] == "a" and row["temperature"] in texts[cell.calibration]:
                seeds[row["seed"]].append(100 * abs(row["doc"] - row["accuracy"]))
        assert cell.mae.groups == len(seeds) == 2
        assert cell.mae.mean == pytest.approx(statistics.mean(map(statistics.mean, seeds.values())))
        assert cell.n == sum(map(len, seeds.values()))


def test_without_columns_group_by_training_set_and_deviate_over_models() -> None:
    rows = random_rows(2, models=4, measures=("doc",), domains="abc")
    found = estimation_errors(to_table(rows))
    assert found.sd_over == "model"
    assert {(cell.dataset, cell.shift) for cell in found.cells} == {
        (name, "unnamed") for name in "abc"
    }
    cell = next(c for c in found.cells if (c.dataset, c.architecture) == ("b", "vgg"))
    means = [
        statistics.mean(100 * abs(row["doc"] - row["accuracy"])
                        for row in out_of_domain_rows(rows) if row["model"] == model)
        for model in ("b1", "b3")
    ]  # fmt: skip
    assert cell.mae.mean == pytest.approx(statistics.mean(means))
    assert cell.mae.sd == pytest.approx(statistics.stdev(means))
    assert (cell.targets, cell.n, cell.mae.groups) == (2, 4, 2)


def test_seeds_without_estimates_are_counted() -> None:
    rows = [dict(row, gde=math.nan if row["seed"] == 1 else row["gde"]) for row in labelled(3)]
    for cell in estimation_errors(to_table(rows), methods=["gde"]).cells:
        assert (cell.mae.groups, cell.mae.left_out) == (2, {"the estimator is not applicable": 1})
        assert cell.lacking > 0


def test_models_without_seed_are_groups_of_their_own() -> None:
    rows = labelled(7)
    empty = [dict(row, seed=None) for row in rows]
    without_column = [{key: cell for key, cell in row.items() if key != "seed"} for row in rows]
    assert estimation_errors(to_table(empty)) == estimation_errors(to_table(without_column))
    some = [dict(row, seed=None if row["seed"] == 2 else row["seed"]) for row in rows]
    for cell, other in zip(
        estimation_errors(to_table(some)).cells,
        estimation_errors(to_table(rows)).cells,
        strict=True,
    ):
        # Each dataset has two training sets, so two models had the third seed.
        assert (other.mae.groups, cell.mae.groups) == (3, 4)


def test_targets_count_domains_with_estimates() -> None:
    rows = random_rows(6, measures=("doc",), models=2)
    rows = [dict(row, doc=math.nan if row["tested_on"] == "d" else row["doc"]) for row in rows]
    found = {cell.dataset: cell for cell in estimation_errors(to_table(rows)).cells}
    assert {name: cell.targets for name, cell in found.items()} == {"a": 2, "b": 2, "c": 2, "d": 3}


@given(st.integers(0, 1000), st.randoms())
@settings(max_examples=10, deadline=None)
def test_row_order_does_not_matter_and_constant_offset_is_the_mae(seed: int, rng: Any) -> None:
    rows = labelled(seed)
    over = [dict(row, doc=row["accuracy"] + 0.125) for row in rows]
    rng.shuffle(over)
    for cell in estimation_errors(to_table(over), methods=["doc"]).cells:
        assert cell.mae.mean == pytest.approx(12.5)
        assert cell.mae.sd == pytest.approx(0.0, abs=1e-9)
    shuffled = random.Random(seed).sample(rows, len(rows))
    for one, other in zip(
        estimation_errors(to_table(rows)).cells,
        estimation_errors(to_table(shuffled)).cells,
        strict=True,
    ):
        assert (one.dataset, one.estimator, one.n) == (other.dataset, other.estimator, other.n)
        assert one.mae.mean == pytest.approx(other.mae.mean)


def test_known_estimators_are_found_and_others_can_be_named() -> None:
    rows = [dict(row, ni=0.5) for row in labelled(4)]
    assert select_estimates(to_table(rows)) == ["doc", "doc (pre-T)", "gde"]
    assert select_estimates(to_table(rows), ["ni"]) == ["ni"]
    with pytest.raises(InputError, match=r"None of the measures is an estimator .*: x, y, z. Name"):
        estimation_errors(to_table(random_rows(0)))
    with pytest.raises(UnknownName, match=r"No measure is called 'dox'. Did you mean 'doc'"):
        estimation_errors(to_table(rows), methods=["dox"])


def test_result_is_json_with_flat_rows() -> None:
    found = estimation_errors(to_table(labelled(5, gaps=0.2)))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["over"] == "seed"
    assert plain["cells"][0]["mae"] == found.cells[0].mae.to_dict()
    row = found.rows()[0]
    assert (row["mae"], row["sd"], row["seeds"]) == (
        found.cells[0].mae.mean, found.cells[0].mae.sd, found.cells[0].mae.groups,
    )  # fmt: skip
