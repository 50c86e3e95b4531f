"""Pairs of domains and domain roles against naive loops over rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError, NotApplicable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import (
    DOMAIN_ROLES,
    UNNAMED_LABEL,
    find_pairs,
    model_means_by_role,
    select_metrics,
)
from tests.support.id_ood_rows import Row, naive_pairs, role, role_value, rows_of, table_of


@given(seed=st.integers(0, 10_000), gaps=st.sampled_from([0.0, 0.1, 0.5, 0.9]))
@settings(max_examples=12)
def test_values_match_naive_loop(seed: int, gaps: float) -> None:
    rows = rows_of(seed, models=3, gaps=gaps)
    table = table_of(rows)
    found = find_pairs(table, select_metrics(table))
    assert found.quantities == ("error", "nll", "ece")
    # Training sets are sorted by name: sketch + photo would be photo + sketch.
    assert [(pair.training, pair.target) for pair in found.pairs] == naive_pairs(rows)
    for pair in found.pairs:
        models = [table.models[code] for code in pair.models]
        for wanted in DOMAIN_ROLES:
            expected = [
                [
                    role_value(rows, model, metric, wanted, pair.target)
                    for metric in found.quantities
                ]
                for model in models
            ]
            np.testing.assert_allclose(pair.values[wanted], expected, atol=1e-12)


@given(seed=st.integers(0, 10_000), gaps=st.sampled_from([0.0, 0.3]))
@settings(max_examples=8)
def test_model_means_match_naive_loop(seed: int, gaps: float) -> None:
    rows = rows_of(seed, models=3, gaps=gaps)
    table = table_of(rows)
    found = model_means_by_role(table, select_metrics(table))
    assert list(found) == ["ID", "ID corrupted", "OOD"]
    for wanted, values in found.items():
        expected = [
            [role_value(rows, model, metric, wanted, None) for metric in ("error", "nll", "ece")]
            for model in table.models
        ]
        np.testing.assert_allclose(values, expected, atol=1e-12)


def test_pairs_have_task_shift_and_number_of_id_domains() -> None:
    rows = rows_of(0)
    table = table_of(rows)
    found = find_pairs(table, select_metrics(table))
    by_name = {(pair.training, pair.target): pair for pair in found.pairs}
    pair = by_name["photo + sketch", "art"]
    assert (pair.task, pair.shift, pair.n_id_domains) == ("photos", "real → artificial", 2)
    assert by_name["art", "photo"].shift == "artificial → real"
    assert by_name["web", "news"].task == "words"
    assert by_name["web", "news"].n_id_domains == 1
    lost = sum(1 for row in rows if role(row, None) == "none")
    assert lost > 0
    assert found.left_out == {"corrupted domains that the model was not trained on": lost}


def test_held_out_domains_belong_to_the_same_task() -> None:
    table = small(task=["s", "s", "t", "t"])
    found = {
        pair.target: pair.values["held-out OOD"] for pair in find_pairs(table, errors(table)).pairs
    }
    assert np.isnan(found["b"]).all()
    np.testing.assert_allclose(found["c"], [[0.6]])


def test_domains_of_few_models_are_ignored_in_means() -> None:
    rows: list[Row] = [
        {"model": f"m{m}", "trained_on": "a", "tested_on": test, "accuracy": 0.1 * place}
        for m in range(4)
        for place, test in enumerate(("a", "b", "c", "d"))
    ]
    # Three of four models have c, so the fourth has no mean; one of four has d, so d is ignored.
    rows = [row for row in rows if (row["tested_on"], row["model"]) != ("c", "m3")]
    rows = [row for row in rows if row["tested_on"] != "d" or row["model"] == "m0"]
    table = EvaluationTable.read(
        {name: [row[name] for row in rows] for name in rows[0]}, measures=()
    )
    values = model_means_by_role(table, {"accuracy": table.accuracy})["OOD"][:, 0]
    np.testing.assert_allclose(values, [0.15, 0.15, 0.15, math.nan])


def small(**columns: Any) -> EvaluationTable:
    plain = {"model": ["m"] * 4, "trained_on": ["a"] * 4, "tested_on": ["a", "b", "c", "d"]}
    return EvaluationTable.read({**plain, "accuracy": [0.9, 0.7, 0.5, 0.4], **columns}, measures=())


def errors(table: EvaluationTable) -> dict[str, Any]:
    return select_metrics(table, ())


def test_without_columns_task_and_shift_are_unnamed() -> None:
    found = find_pairs(small(), errors(small())).pairs
    assert {(pair.task, pair.shift) for pair in found} == {(UNNAMED_LABEL, UNNAMED_LABEL)}
    empty = find_pairs(small(task=["s", None, None, None]), errors(small())).pairs
    assert {pair.task for pair in empty} == {UNNAMED_LABEL}


def test_names_that_only_look_corrupted_are_domains() -> None:
    table = small(tested_on=["a", "x/y-1", "a/b", "a/fog-3"])
    assert [pair.target for pair in find_pairs(table, errors(table)).pairs] == ["a/b", "x/y-1"]


def test_corrupted_training_domain_is_in_distribution() -> None:
    table = small(trained_on=["a/fog-3"] * 4, tested_on=["a/fog-3", "a", "a/fog-1", "c"])
    found = find_pairs(table, errors(table))
    assert [pair.target for pair in found.pairs] == ["a", "c"]
    np.testing.assert_allclose(found.pairs[0].values["ID"], [[0.1]])
    assert sum(found.left_out.values()) == 1


def test_training_domains_are_not_corruptions() -> None:
    table = small(trained_on=["a + a/fog-3 + z"] * 4, tested_on=["a", "a/fog-3", "a/fog-1", "d"])
    pair = find_pairs(table, errors(table)).pairs[0]
    np.testing.assert_allclose(pair.values["ID"], [[0.2]])
    np.testing.assert_allclose(pair.values["ID corrupted"], [[0.5]])
    assert pair.n_id_domains == 2


def test_pair_with_two_tasks_raises() -> None:
    columns = {
        "model": ["m", "m", "k", "k"],
        "trained_on": ["a"] * 4,
        "tested_on": ["a", "b", "a", "b"],
        "accuracy": [0.9, 0.7, 0.5, 0.4],
        "task": ["s", "s", "s", "t"],
    }
    table = EvaluationTable.read(columns, measures=())
    message = r"trained on 'a' and tested on 'b' have the task 's' and 't'; a pair has one"
    with pytest.raises(InputError, match=message):
        find_pairs(table, errors(table))


def test_table_without_ood_domain_is_not_applicable() -> None:
    table = small().select_rows(np.array([0]))
    with pytest.raises(NotApplicable, match="there is no pair of an ID and an OOD domain"):
        find_pairs(table, errors(table))


def test_error_is_computed_and_unknown_metrics_raise() -> None:
    table = table_of(rows_of(0, models=1))
    assert list(select_metrics(table, ["ece", "error"])) == ["error", "ece"]
    np.testing.assert_array_equal(select_metrics(table)["error"], 1 - table.accuracy)
    with pytest.raises(InputError, match=r"No metric is called 'ecee'. Did you mean 'ece'?"):
        select_metrics(table, ["ecee"])


def test_equal_means_stay_equal_despite_rounding() -> None:
    """0.1 + 0.2 and 0.3 + 0.0 differ as floats and would get different ranks."""
    rows = {
        "model": ["m"] * 3 + ["n"] * 3, "trained_on": ["a"] * 6, "tested_on": [*"bcd"] * 2,
        "accuracy": [0.1, 0.2, 0.5, 0.3, 0.0, 0.5],
    }  # fmt: skip
    table = EvaluationTable.read(rows, measures=())
    found = {one.target: one for one in find_pairs(table, {"accuracy": table.accuracy}).pairs}["d"]
    first, second = found.values["held-out OOD"][:, 0]
    assert first == second
    assert first == pytest.approx(0.15, abs=1e-12)
