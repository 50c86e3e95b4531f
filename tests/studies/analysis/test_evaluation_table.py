"""Tables of evaluations: what is read, and what is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.measure_noise import signal_to_noise

Columns = dict[str, list[Any]]

WIDE: Columns = {
    "model": ["m2", "m1", "m2", "m1"],
    "architecture": ["vgg", "nin", "vgg", "nin"],
    "trained_on": ["b + a", "c", "a + b", "c"],
    "tested_on": ["a", "a", "d", "c"],
    "accuracy": [0.9, 0.6, None, 0.8],
    "ni": [0.5, None, 0.25, float("inf")],
    "doc": [1, 2, 3, 4],
    "seed": [0, 1, 0, 1],
    "task": ["t", "u", "t", None],
    "recipe.width": [8, 16, 8, 16],
}


def changed(**columns: Any) -> Columns:
    return {**WIDE, **columns}


def without(*names: str) -> Columns:
    return {name: cells for name, cells in WIDE.items() if name not in names}


def long(columns: Columns = WIDE, measures: tuple[str, ...] = ("ni", "doc")) -> Columns:
    """The same evaluations, a row a measure, those of one measure after those of the other."""
    kept = {name: cells * len(measures) for name, cells in columns.items() if name not in measures}
    names = [measure for measure in measures for _ in columns["model"]]
    return {**kept, "measure": names, "value": [v for one in measures for v in columns[one]]}


def refusal_of(thing: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        EvaluationTable.read(thing, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def as_rows(table: EvaluationTable) -> list[tuple[Any, ...]]:
    """The table by names, in an order of its own, NaN as None."""
    found = [
        (
            table.models[table.model[row]],
            table.architectures[table.architecture[row]],
            table.training(table.trained_on[row]),
            table.domains[table.tested_on[row]],
            *(None if np.isnan(v[row]) else v[row]
              for v in (table.accuracy, *table.measures.values())),
            *(cells[row] for cells in table.columns.values()),
        )
        for row in range(len(table))
    ]  # fmt: skip
    return sorted(found, key=str)


EXPECTED = sorted(
    [
        ("m2", "vgg", "a + b", "a", 0.9, 0.5, 1.0, "0", "t", "8"),
        ("m1", "nin", "c", "a", 0.6, None, 2.0, "1", "u", "16"),
        ("m2", "vgg", "a + b", "d", None, 0.25, 3.0, "0", "t", "8"),
        ("m1", "nin", "c", "c", 0.8, None, 4.0, "1", "", "16"),
    ],
    key=str,
)

MAKERS: dict[str, Callable[[Columns], Any]] = {
    "mapping": dict,
    "pandas": pd.DataFrame,
    "pandas with row names": lambda columns: pd.DataFrame(columns, index=[7, 5, 3, 1] * (len(columns["model"]) // 4)),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "categories": lambda columns: pl.DataFrame(columns).cast({"model": pl.Categorical, "tested_on": pl.Categorical}),
    "batch": pa.RecordBatch.from_pydict,
}  # fmt: skip
every_frame = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@every_frame
def test_a_wide_frame_is_read(make: Callable[[Columns], Any]) -> None:
    found = EvaluationTable.read(make(WIDE))
    assert as_rows(found) == EXPECTED
    assert list(found.measures) == ["ni", "doc"]
    assert list(found.columns) == ["seed", "task", "recipe.width"]


@every_frame
def test_a_long_frame_is_the_same(make: Callable[[Columns], Any]) -> None:
    found = EvaluationTable.read(make(long()), measures=["ni", "doc"])
    assert as_rows(found) == EXPECTED
    assert list(EvaluationTable.read(make(long())).measures) == ["doc", "ni"]


def write_packed(table: Any, path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "gzip") as stream:
        pyarrow.csv.write_csv(table, stream)


WRITERS: dict[str, Callable[[Any, Path], object]] = {
    "a.parquet": pq.write_table,
    "a.csv": pyarrow.csv.write_csv,
    "a.csv.gz": write_packed,
    "a.feather": pyarrow.feather.write_feather,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("columns", [WIDE, long()], ids=["wide", "long"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_file_is_read(tmp_path: Path, name: str, columns: Columns, as_text: bool) -> None:
    WRITERS[name](pa.table(columns), tmp_path / name)
    path: Any = str(tmp_path / name) if as_text else tmp_path / name
    assert as_rows(EvaluationTable.read(path, measures=["ni", "doc"])) == EXPECTED


def test_row_names_in_a_csv_of_pandas_are_no_measure(tmp_path: Path) -> None:
    pd.DataFrame(WIDE).to_csv(tmp_path / "a.csv")
    assert list(EvaluationTable.read(tmp_path / "a.csv").measures) == ["ni", "doc"]


def test_names_are_sorted_and_codes_are_places_in_them() -> None:
    found = EvaluationTable.read(WIDE)
    assert (found.models, found.architectures) == (("m1", "m2"), ("nin", "vgg"))
    assert found.domains == ("a", "b", "c", "d")
    assert found.trainings == (("a", "b"), ("c",))
    assert found.in_distribution.tolist() == [True, False, False, True]
    assert found.domain_in_training.tolist() == [
        [True, True, False, False],
        [False, False, True, False],
    ]


@given(st.permutations(range(4)))
def test_the_order_of_rows_changes_nothing_else(order: list[int]) -> None:
    shuffled = {name: [cells[j] for j in order] for name, cells in WIDE.items()}
    found = EvaluationTable.read(shuffled)
    assert as_rows(found) == EXPECTED
    assert found.models == EvaluationTable.read(WIDE).models
    assert found.domains == EvaluationTable.read(WIDE).domains


def test_a_training_set_is_its_domains_in_any_order_and_each_once() -> None:
    sets = ["b + a", "a +  b + a", "a + ", "a"]
    found = EvaluationTable.read(
        {**without("architecture"), "model": list("klmn"), "trained_on": sets}
    )
    assert found.trainings == (("a",), ("a", "b"))
    assert found.trained_on.tolist() == [1, 1, 0, 0]


def test_without_an_architecture_there_is_one() -> None:
    found = EvaluationTable.read(without("architecture"))
    assert (found.architectures, found.architecture.tolist()) == (("all",), [0] * 4)


def test_models_and_domains_may_be_numbers() -> None:
    found = EvaluationTable.read(changed(model=[2, 1, 2, 1], tested_on=[1, 1, 4, 3]))
    assert (found.models, found.domains) == (("1", "2"), ("1", "3", "4", "a", "b", "c"))


def test_some_rows_are_taken_by_marks_or_by_places() -> None:
    table = EvaluationTable.read(WIDE)
    for keep in (np.array([False, True, False, True]), np.array([1, 3])):
        found = table.select_rows(keep)
        assert as_rows(found) == [row for row in EXPECTED if row[0] == "m1"]
        assert (found.models, found.domains) == (table.models, table.domains)
    assert len(table.select_rows(np.array([], dtype=np.int64))) == 0


@pytest.mark.parametrize("columns", [WIDE, long()], ids=["wide", "long"])
def test_only_the_measures_asked_for_are_taken(columns: Columns) -> None:
    assert list(EvaluationTable.read(columns, measures=["doc"]).measures) == ["doc"]
    assert EvaluationTable.read(columns, measures=()).measures == {}
    assert len(EvaluationTable.read(columns, measures=())) == 4


def test_a_text_column_that_is_not_asked_for_does_no_harm() -> None:
    mixed = changed(note=["1", "two", "3", "4"])
    assert list(EvaluationTable.read(mixed, measures=["ni"]).measures) == ["ni"]
    assert EvaluationTable.read(changed(note=["x", "two", "", None])).columns["note"] == (
        "x",
        "two",
        "",
        "",
    )


@pytest.mark.parametrize(
    "said", [[True, False, True, None], [1, 0, 1, None], ["True", "false", "yes", ""]]
)
def test_models_that_did_not_converge_are_left_out_and_counted(said: list[Any]) -> None:
    for columns in (changed(converged=said), long(changed(converged=said))):
        found = EvaluationTable.read(columns)
        assert found.left_out == {"not converged": 1}
        assert len(found) == 3
        assert ("m1", "a") not in {(row[0], row[3]) for row in as_rows(found)}


def test_where_all_converged_nothing_is_left_out() -> None:
    assert EvaluationTable.read(changed(converged=[True] * 4)).left_out == {}
    assert refusal_of(changed(converged=[False] * 4)) == (
        "No row is left: converged is false in all 4. Give models that converged, or leave the "
        "column out."
    )


# Long tables ----------------------------------------------------------------------------------


def test_a_measure_that_lacks_an_evaluation_has_no_answer_there() -> None:
    full = long()
    some = {name: cells[:5] for name, cells in full.items()}  # all four of ni, one of doc
    found = EvaluationTable.read(some)
    assert len(found) == 4
    assert np.isnan(found.measures["doc"]).sum() == 3


def test_an_accuracy_may_stand_in_one_row_of_an_evaluation_alone() -> None:
    once = long()
    once["accuracy"] = [None] * 4 + once["accuracy"][4:]
    assert as_rows(EvaluationTable.read(once, measures=["ni", "doc"])) == EXPECTED


def test_rows_of_one_evaluation_that_disagree_are_refused() -> None:
    off = long()
    off["accuracy"] = [0.95, *off["accuracy"][1:]]
    assert refusal_of(off) == (
        "The accuracy of 'm2' on 'a' is 0.95 in one row and 0.9 in another. Rows of one evaluation "
        "must agree: correct one."
    )


def test_a_measure_that_stands_twice_is_refused() -> None:
    twice = {name: [*cells, cells[5]] for name, cells in long().items()}
    assert refusal_of(twice) == (
        "'m1' on 'a' stands twice of 'doc', in rows 5 and 8. One must go, or the models need names "
        "of their own."
    )


# Refusals -------------------------------------------------------------------------------------


def test_missing_columns_are_named_with_what_was_found() -> None:
    renamed = {{"tested_on": "tested"}.get(name, name): cells for name, cells in WIDE.items()}
    assert refusal_of(renamed) == (
        "The table has no column 'tested_on'; model, trained_on, tested_on, accuracy are needed. Did "
        "you mean 'tested'? There are: model, architecture, trained_on, tested, accuracy, ni, doc, "
        "seed, task, recipe.width. Rename or add what is missing."
    )
    assert refusal_of({"x": [1]}).startswith(
        "The table has no column 'model' or 'trained_on' or 'tested_on' or 'accuracy'; "
    )
    half = {name: cells for name, cells in long().items() if name != "value"}
    assert "has no column 'value'; model, trained_on, tested_on, accuracy, measure, value" in (
        refusal_of(half)
    )


def test_duplicated_rows_are_named() -> None:
    assert refusal_of({name: [*cells, cells[1]] for name, cells in WIDE.items()}) == (
        "'m1' on 'a' stands twice, in rows 1 and 4. One must go, or the models need names of their "
        "own."
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([90.0, 60.0, 1.0, 2.0], "row 0 is 90. Divide percent by 100."),
        ([0.9, -0.1, 0.5, 0.5], "row 1 is -0.1. Correct it."),
        ([0.9, 0.1, float("inf"), 0.5], "row 2 is inf. Correct it."),
    ],
)
def test_accuracies_that_are_no_fractions_are_refused(cells: list[float], expected: str) -> None:
    whole = f"accuracy must be a fraction from 0 to 1; {expected}"
    assert refusal_of(changed(accuracy=cells)) == whole


def test_text_among_numbers_is_refused() -> None:
    assert refusal_of(changed(ni=["0.5", "n.a.?", "0.2", "0.1"])) == (
        "The column 'ni' holds both numbers and text: row 1 is 'n.a.?'. Correct it, leave the column "
        "out, or name the measures to be taken."
    )
    asked = refusal_of(changed(ni=["0.5", "n.a.?", "0.2", "0.1"]), measures=["ni"])
    assert "'ni' holds string, not numbers: row 1 is 'n.a.?'" in asked
    accuracy = refusal_of(changed(accuracy=["0.5", "x", "0.2", "0.1"]))
    assert "'accuracy' holds string, not numbers: row 1 is 'x'" in accuracy


@pytest.mark.parametrize("name", ["model", "architecture", "trained_on", "tested_on"])
@pytest.mark.parametrize("gap", [None, ""])
def test_an_empty_name_is_refused(name: str, gap: Any) -> None:
    cells = [*WIDE[name][:2], gap, WIDE[name][3]]
    assert refusal_of(changed(**{name: cells})) == f"The column {name!r} has no value in row 2."


def test_a_table_without_rows_or_measures_is_refused() -> None:
    empty: Columns = {name: [] for name in WIDE}
    assert refusal_of(empty) == (
        "The table has no rows. One row is one model tested on one domain."
    )
    assert refusal_of(without("ni", "doc")) == (
        "The table has no measure: one column of numbers a measure, or the columns measure and "
        "value, were expected. Add one, or ask for accuracies alone with measures=()."
    )


@pytest.mark.parametrize("columns", [WIDE, long()], ids=["wide", "long"])
def test_an_unknown_measure_is_refused(columns: Columns) -> None:
    message = refusal_of(columns, measures=["dock"])
    assert message.startswith("No measure is called 'dock'. Did you mean 'doc'? There are: ")


def test_a_name_alone_is_no_list_of_measures() -> None:
    assert refusal_of(WIDE, measures="ni") == (
        "measures must be a list of names; got 'ni'. Give ['ni']."
    )


def test_two_models_of_one_name_are_refused() -> None:
    assert refusal_of(changed(model=["m", "m", "m", "m"])) == (
        "The model 'm' is of the architectures 'vgg' and 'nin'; a model has one. Give each model a "
        "name of its own."
    )
    one = {**without("architecture"), "model": ["m", "m", "m", "m"]}
    assert refusal_of(one) == (
        "The model 'm' is trained on 'a + b' and 'c'; a model has one. Give each model a name of its "
        "own."
    )


def test_what_is_no_table_is_refused() -> None:
    assert refusal_of([1, 2]) == (
        "list is no table. Give a path, a pandas, polars or pyarrow table, or a mapping of columns."
    )
    assert refusal_of(changed(ni=[1.0])).startswith("The columns make no table: ")


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    assert refusal_of(path).startswith(f"There is no file {str(path)!r};")
    path.write_text("model,accuracy\nm,0.5\n")
    assert refusal_of(path).startswith("a.csv: The table has no column 'trained_on' or 'tested_on'")
    (tmp_path / "a.txt").write_text("")
    assert refusal_of(tmp_path / "a.txt").startswith("a.txt has an unknown extension.")


def test_a_model_that_was_measured_again_is_a_model_each_time() -> None:
    rows = {
        "model": ["m", "m", "n", "n", "o"], "trained_on": ["a"] * 5, "tested_on": ["b"] * 5,
        "accuracy": [0.5, 0.5, 0.7, 0.7, 0.9], "ni": [1.0, 3.0, 5.0, 5.5, 6.0],
        "replicate": [0, 1, 0, 1, 0],
    }  # fmt: skip
    long = {name: rows[name] for name in rows if name != "ni"}
    for read in (rows, {**long, "measure": ["ni"] * 5, "value": rows["ni"]}):
        table = EvaluationTable.read(read)
        assert table.models == (
            "m (replicate 0)", "m (replicate 1)", "n (replicate 0)", "n (replicate 1)", "o",
        )  # fmt: skip
        assert table.columns["recipe.model"] == ("m", "m", "n", "n", "o")
        noise = signal_to_noise(table)["ni"]
        assert noise.groups == 2
        assert noise.mean == pytest.approx((2 / 2**0.5 + 5.25 / 0.125**0.5) / 2)
    with pytest.raises(InputError, match=r"'m \(replicate 0\)' on 'b' stands twice"):
        EvaluationTable.read(
            {**rows, "replicate": [0, 0, 0, 1, 0], "model": ["m", "m", "m", "m", "o"]}
        )


def test_replicates_that_have_names_of_their_own_keep_them() -> None:
    rows = {
        "model": ["m", "n"], "trained_on": ["a"] * 2, "tested_on": ["b"] * 2,
        "accuracy": [0.5, 0.7], "ni": [1.0, 2.0], "replicate": [0, 1],
    }  # fmt: skip
    table = EvaluationTable.read(rows)
    assert table.models == ("m", "n")
    assert "recipe.model" not in table.columns
