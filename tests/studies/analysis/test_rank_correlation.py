"""Rank correlations per environment and pooled, and signs of measures."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.rank_correlation import (
    MeasureSign,
    apply_signs,
    canonical_sign,
    correlate_with_error,
    measure_directions,
    split_models,
)
from tests.support.evaluation_rows import (
    Row,
    complete_rows,
    out_of_domain_rows,
    random_rows,
    rank_correlation,
    to_table,
)


def naive(rows: list[Row], measure: str, domain: str | None) -> tuple[float | None, int]:
    some = [
        r
        for r in complete_rows(out_of_domain_rows(rows), measure, "accuracy")
        if domain in (None, r["tested_on"])
    ]
    errors = [1 - row["accuracy"] for row in some]
    return rank_correlation([row[measure] for row in some], errors), len(some)


@given(st.integers(0, 10_000), st.sampled_from([None, 3, 1]), st.sampled_from([0.0, 0.3, 0.9]))
@settings(max_examples=30, deadline=None)
def test_correlations_match_naive_loop(seed: int, levels: int | None, gaps: float) -> None:
    rows = random_rows(seed, models=2, domains="abc", levels=levels, gaps=gaps)
    for name, found in correlate_with_error(to_table(rows)).items():
        assert list(found.environments) == ["a", "b", "c"]
        for domain, one in ((None, found.joint), *found.environments.items()):
            rho, n = naive(rows, name, domain)
            assert one.n == n
            assert (one.value is None) == (rho is None) == bool(one.reason)
            if rho is not None:
                assert one.value == pytest.approx(rho, abs=1e-12)


def test_correlations_match_scipy() -> None:
    rows = random_rows(3, models=40, levels=20)
    found = correlate_with_error(to_table(rows), measures=["y"])
    assert list(found) == ["y"]
    some = [row for row in out_of_domain_rows(rows) if row["tested_on"] == "b"]
    peer = spearmanr([row["y"] for row in some], [-row["accuracy"] for row in some]).statistic
    assert found["y"].environments["b"].value == pytest.approx(peer, abs=1e-12)


def test_id_rows_are_ignored() -> None:
    rows = random_rows(0, models=5)
    for row in rows:
        if row["tested_on"] == row["trained_on"]:
            row["x"] = 1000 * row["accuracy"]
    changed = [dict(row, x=0.0) if row["tested_on"] == row["trained_on"] else row for row in rows]
    assert correlate_with_error(to_table(rows)) == correlate_with_error(to_table(changed))
    joined = [dict(row, trained_on="a + b") for row in rows]
    assert list(correlate_with_error(to_table(joined))["x"].environments) == ["c", "d"]


def test_undefined_correlations_are_counted_by_reason() -> None:
    rows = out_of_domain_rows(random_rows(1, models=4))
    for row in rows:
        if row["tested_on"] == "a":
            row["x"] = 7.0
        if row["tested_on"] == "b":
            row["accuracy"] = 0.5
        if row["tested_on"] == "c" and row["model"] != "a0":
            row["x"] = math.nan
    found = correlate_with_error(to_table(rows))["x"]
    assert {name: one.reason for name, one in found.environments.items()} == {
        "a": "the measure is the same for all models",
        "b": "the error is the same for all models",
        "c": "fewer than 3 models have a value",
        "d": "",
    }
    assert found.mean.mean == found.environments["d"].value
    assert (found.mean.groups, found.mean.sd, sum(found.mean.left_out.values())) == (1, None, 3)
    assert found.environments["c"].n == 1


def test_rows_with_unknown_accuracy_are_left_out() -> None:
    rows = random_rows(2, models=4)
    unknown = [dict(row, accuracy=math.nan if j % 3 == 0 else row["accuracy"])
               for j, row in enumerate(rows)]  # fmt: skip
    rest = [row for j, row in enumerate(rows) if j % 3]
    assert correlate_with_error(to_table(unknown)) == correlate_with_error(to_table(rest))


def test_result_is_json_with_flat_rows() -> None:
    found = correlate_with_error(to_table(random_rows(0, gaps=0.2)))["x"]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["joint"] == {"rho": found.joint.value, "n": found.joint.n, "reason": ""}
    assert plain["mean"]["groups"] == 4
    rows = found.rows()
    assert [row["environment"] for row in rows] == [None, "a", "b", "c", "d"]
    assert rows[1] == {"measure": "x", "environment": "a",
                       **found.environments["a"].to_dict()}  # fmt: skip


@given(st.integers(0, 10_000), st.randoms())
@settings(max_examples=15, deadline=None)
def test_row_order_and_monotone_transforms_do_not_matter(seed: int, random: Any) -> None:
    rows = random_rows(seed, models=3)
    shuffled = [dict(row, x=math.exp(3 * row["x"]), y=-row["y"]) for row in rows]
    random.shuffle(shuffled)
    before, after = correlate_with_error(to_table(rows)), correlate_with_error(to_table(shuffled))
    assert after["x"].joint.value == pytest.approx(before["x"].joint.value, abs=1e-12)
    joint = before["y"].joint.value
    assert joint is not None
    assert after["y"].joint.value == pytest.approx(-joint, abs=1e-12)


def test_table_with_only_id_rows_raises() -> None:
    rows = [row for row in random_rows(0) if row["tested_on"] == row["trained_on"]]
    with pytest.raises(InputError, match="None of 24 evaluations has a known accuracy on a domain"):
        correlate_with_error(to_table(rows))
    with pytest.raises(UnknownName, match=r"No measure is called 'xx'. Did you mean 'x'"):
        correlate_with_error(to_table(random_rows(0)), measures=["xx"])


# Signs ------------------------------------------------------------------------------------------


def test_sign_is_that_of_the_rank_correlation() -> None:
    rng = np.random.default_rng(0)
    errors = rng.random(30)
    rising = canonical_sign(np.exp(9 * errors), errors)
    assert (rising.value, rising.n) == (1, 30)
    assert rising.correlation == pytest.approx(1.0)
    assert canonical_sign(-errors, errors).value == -1


def test_missing_values_are_left_out_of_a_sign() -> None:
    sign = canonical_sign([1.0, np.nan, 2.0, 3.0], [0.1, 0.9, 0.2, 0.3])
    assert (sign.value, sign.n) == (1, 3)
    assert canonical_sign([0.1, 0.9, 0.2, 0.3], [1.0, np.nan, 2.0, 3.0]) == sign
    assert canonical_sign([1.0, np.inf, 2.0, 3.0], [0.1, 0.9, 0.2, 0.3]) == sign


@pytest.mark.parametrize(
    ("values", "errors"), [([1.0, 1.0], [0.1, 0.2]), ([1.0, 2.0], [0.1, 0.1]), ([], [])]
)
def test_constant_values_have_no_sign(values: Any, errors: Any) -> None:
    with pytest.raises(NotApplicable, match="is the same for all"):
        canonical_sign(values, errors)


def test_sign_needs_one_error_per_value() -> None:
    with pytest.raises(InputError, match="one error per value"):
        canonical_sign([1.0, 2.0], [0.1])
    with pytest.raises(InputError, match="one error per value"):
        canonical_sign([[1.0, 2.0]], [[0.1, 0.2]])
    with pytest.raises(NotApplicable, match="is 0"):
        canonical_sign([1.0, 2.0, 1.0], [0.1, 0.2, 0.3])


def test_signs_of_a_table_use_ood_rows() -> None:
    rows = random_rows(5, models=5)
    for row in rows:
        own = row["tested_on"] == row["trained_on"]
        row["x"] = row["accuracy"] if own else -row["accuracy"]
        row["y"], row["z"] = row["accuracy"] ** 3, 1.0
    found, reasons = measure_directions(to_table(rows))
    errors = [1 - row["accuracy"] for row in out_of_domain_rows(rows)]
    assert found == {
        "x": canonical_sign([row["x"] for row in out_of_domain_rows(rows)], errors),
        "y": canonical_sign([row["y"] for row in out_of_domain_rows(rows)], errors),
    }
    assert [one.value for one in found.values()] == [1, -1]
    assert reasons == {"z": "the measure or the error is the same for all 60 models"}


def test_signed_measures_increase_with_the_error() -> None:
    table = to_table(random_rows(6, models=8))
    fixed, _ = measure_directions(table)
    signed = apply_signs(table, fixed)
    for name, correlation in correlate_with_error(signed).items():
        assert correlation.joint.value == pytest.approx(abs(fixed[name].correlation), abs=1e-12)
    assert list(apply_signs(table, {"y": fixed["y"]}).measures) == ["y"]
    with pytest.raises(UnknownName, match="measure"):
        apply_signs(table, {"w": MeasureSign(1, 0.5, 3)})


def test_halves_share_no_model_and_cover_all_rows() -> None:
    table = to_table(random_rows(7, models=5))
    first, second = split_models(table)
    assert not set(first.model) & set(second.model)
    assert len(first) + len(second) == len(table)
    assert len(set(first.model)) == len(set(second.model)) == 10
    again, other = split_models(table, seed=1)
    assert set(again.model) != set(first.model)
    assert set(split_models(table.select_rows(np.arange(len(table))[::-1]))[0].model) == set(
        first.model
    )
    assert len(set(other.model)) == 10
