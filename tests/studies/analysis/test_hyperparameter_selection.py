"""Errors with the best hyperparameters against loops over plain rows."""

from __future__ import annotations

import json

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import to_jsonable
from oodometer.studies.analysis import EvaluationTable, best_configurations
from tests.support.fine_tuning_rows import (
    ARCHITECTURES,
    GROUPS,
    Row,
    fine_tuning_rows,
    is_id,
    is_ood,
    mean,
    mean_error,
    size_of,
    to_table,
)


def naive_choice(rows: list[Row]) -> tuple[str, float, float]:
    """Return model, ID error and mean OOD error of the model with the lowest source error."""
    best = min(rows, key=lambda row: row["source-error"])["model"]
    own = [row for row in rows if row["model"] == best]
    inside = next(1 - row["accuracy"] for row in own if is_id(row))
    return best, inside, mean([1 - row["accuracy"] for row in own if is_ood(row)])


@pytest.mark.parametrize("seed", [0, 1])
def test_errors_and_choices_match_loops(seed: int) -> None:
    rows = fine_tuning_rows(seed)
    results = best_configurations(to_table(rows))
    assert len(results) == len(ARCHITECTURES) * len(GROUPS) * 2
    for result in results:
        own = [
            row
            for row in rows
            if (row["architecture"], row["group"], size_of(row))
            == (result.architecture, result.task, result.size)
        ]
        chosen = [
            naive_choice([row for row in own if row["trained_on"] == training])
            for training in sorted({row["trained_on"] for row in own})
        ]
        assert [choice.models for choice in result.choices] == [(name,) for name, _, _ in chosen]
        inside, outside = [row[1] for row in chosen], [row[2] for row in chosen]
        gaps = [y - x for x, y in zip(inside, outside, strict=True)]
        for value, se, values in (
            (result.id_error, result.id_error_se, inside),
            (result.ood_error, result.ood_error_se, outside),
            (result.gap, result.gap_se, gaps),
        ):
            assert value == pytest.approx(mean(values))
            assert se == pytest.approx(mean_error(values))
    json.dumps(to_jsonable(results), allow_nan=False)


def test_settings_that_vary_are_named() -> None:
    result = best_configurations(to_table(fine_tuning_rows(groups=["pacs"])))[0]
    choice = result.choices[0]
    assert list(choice.settings) == ["augment", "lr", "part"]
    assert (
        "-".join([choice.settings["part"], "None", choice.settings["augment"]])
        in (choice.models[0])
    )


def test_seeds_of_a_configuration_are_averaged() -> None:
    columns = {
        "model": ["s0", "s0", "s1", "s1", "t0", "t0"],
        "trained_on": ["a"] * 6,
        "tested_on": ["a", "b"] * 3,
        "accuracy": [0.9, 0.5, 0.7, 0.3, 0.6, 0.6],
        "seed": [0, 0, 1, 1, 0, 0],
        "recipe.lr": [0.1, 0.1, 0.1, 0.1, 0.2, 0.2],
        # The best single seed has learning rate 0.1, and the best mean has 0.2.
        "source-error": [0.1, 0.1, 0.5, 0.5, 0.25, 0.25],
    }
    (result,) = best_configurations(EvaluationTable.read(columns))
    assert result.choices[0].models == ("t0",)
    assert result.choices[0].candidates == 2
    columns["source-error"] = [0.1, 0.1, 0.3, 0.3, 0.25, 0.25]
    (result,) = best_configurations(EvaluationTable.read(columns))
    assert result.choices[0].models == ("s0", "s1")
    assert result.choices[0].validation_error == pytest.approx(0.2)
    assert (result.id_error, result.ood_error, result.gap) == pytest.approx((0.2, 0.6, 0.4))
    assert result.id_error_se is None


def test_models_without_an_error_are_left_out() -> None:
    columns = {
        "model": ["k", "k", "l", "l", "m", "m"],
        "trained_on": ["a"] * 6,
        "tested_on": ["a", "b"] * 3,
        "accuracy": [0.9, None, 0.7, 0.3, 0.6, 0.6],
        "source-error": [0.1, 0.1, 0.3, 0.3, None, None],
    }
    (result,) = best_configurations(EvaluationTable.read(columns))
    assert result.choices[0].models == ("l",)
    assert result.left_out == 2


def test_missing_validation_error_is_not_applicable() -> None:
    table = EvaluationTable.read(
        {"model": ["m", "m"], "trained_on": ["a", "a"], "tested_on": ["a", "b"],
         "accuracy": [0.5, 0.5], "doc": [0.5, 0.4], "valid": [None, 0.1]}
    )  # fmt: skip
    with pytest.raises(NotApplicable, match="no measure 'source-error'"):
        best_configurations(table)
    assert best_configurations(table, criterion="valid")[0].gap == 0
