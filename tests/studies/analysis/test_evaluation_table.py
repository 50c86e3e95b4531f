"""Tables of evaluations: accepted inputs and error messages."""

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
    """Return the same evaluations with one row per measure, sorted by measure."""
    kept = {name: cells * len(measures) for name, cells in columns.items() if name not in measures}
    names = [measure for measure in measures for _ in columns["model"]]
    return {**kept, "measure": names, "value": [v for name in measures for v in columns[name]]}


def error_message(thing: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        EvaluationTable.read(thing, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def as_rows(table: EvaluationTable) -> list[tuple[Any, ...]]:
    """Return the rows by names, sorted, with None for NaN."""
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
def test_wide_frames_are_read(make: Callable[[Columns], Any]) -> None:
    found = EvaluationTable.read(make(WIDE))
    assert as_rows(found) == EXPECTED
    assert list(found.measures) == ["ni", "doc"]
    assert list(found.columns) == ["seed", "task", "recipe.width"]


@every_frame
def test_long_frames_give_the_same_table(make: Callable[[Columns], Any]) -> None:
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
def test_files_are_read(tmp_path: Path, name: str, columns: Columns, as_text: bool) -> None:
    WRITERS[name](pa.table(columns), tmp_path / name)
    path: Any = str(tmp_path / name) if as_text else tmp_path / name
    assert as_rows(EvaluationTable.read(path, measures=["ni", "doc"])) == EXPECTED


def test_pandas_index_in_csv_is_not_a_measure(tmp_path: Path) -> None:
    pd.DataFrame(WIDE).to_csv(tmp_path / "a.csv")
    assert list(EvaluationTable.read(tmp_path / "a.csv").measures) == ["ni", "doc"]


def test_names_are_sorted_and_codes_index_them() -> None:
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
def test_row_order_does_not_change_names_or_values(order: list[int]) -> None:
    shuffled = {name: [cells[j] for j in order] for name, cells in WIDE.items()}
    found = EvaluationTable.read(shuffled)
    assert as_rows(found) == EXPECTED
    assert found.models == EvaluationTable.read(WIDE).models
    assert found.domains == EvaluationTable.read(WIDE).domains


def test_training_sets_ignore_order_and_repetition() -> None:
    sets = ["b + a", "a +  b + a", "a + ", "a"]
    found = EvaluationTable.read(
        {**without("architecture"), "model": list("klmn"), "trained_on": sets}
    )
    assert found.trainings == (("a",), ("a", "b"))
    assert found.trained_on.tolist() == [1, 1, 0, 0]


def test_missing_architecture_column_gives_one_architecture() -> None:
    found = EvaluationTable.read(without("architecture"))
    assert (found.architectures, found.architecture.tolist()) == (("all",), [0] * 4)


def test_numeric_models_and_domains_become_text() -> None:
    found = EvaluationTable.read(changed(model=[2, 1, 2, 1], tested_on=[1, 1, 4, 3]))
    assert (found.models, found.domains) == (("1", "2"), ("1", "3", "4", "a", "b", "c"))


def test_rows_are_selected_by_mask_or_indices() -> None:
    table = EvaluationTable.read(WIDE)
    for keep in (np.array([False, True, False, True]), np.array([1, 3])):
        found = table.select_rows(keep)
        assert as_rows(found) == [row for row in EXPECTED if row[0] == "m1"]
        assert (found.models, found.domains) == (table.models, table.domains)
    assert len(table.select_rows(np.array([], dtype=np.int64))) == 0


@pytest.mark.parametrize("columns", [WIDE, long()], ids=["wide", "long"])
def test_only_requested_measures_are_read(columns: Columns) -> None:
    assert list(EvaluationTable.read(columns, measures=["doc"]).measures) == ["doc"]
    assert EvaluationTable.read(columns, measures=()).measures == {}
    assert len(EvaluationTable.read(columns, measures=())) == 4


def test_unrequested_mixed_column_is_ignored() -> None:
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
def test_unconverged_models_are_left_out_and_counted(said: list[Any]) -> None:
    for columns in (changed(converged=said), long(changed(converged=said))):
        found = EvaluationTable.read(columns)
        assert found.left_out == {"not converged": 1}
        assert len(found) == 3
        assert ("m1", "a") not in {(row[0], row[3]) for row in as_rows(found)}


def test_all_converged_leaves_out_nothing_none_converged_raises() -> None:
    assert EvaluationTable.read(changed(converged=[True] * 4)).left_out == {}
    assert error_message(changed(converged=[False] * 4)) == (
        "No row is left: converged is false in all 4. Add models that converged, or remove the "
        "column."
    )


# Long tables ----------------------------------------------------------------------------------


def test_missing_rows_of_a_measure_are_nan() -> None:
    full = long()
    some = {name: cells[:5] for name, cells in full.items()}  # all four of ni, one of doc
    found = EvaluationTable.read(some)
    assert len(found) == 4
    assert np.isnan(found.measures["doc"]).sum() == 3


def test_accuracy_in_one_row_of_an_evaluation_suffices() -> None:
    once = long()
    once["accuracy"] = [None] * 4 + once["accuracy"][4:]
    assert as_rows(EvaluationTable.read(once, measures=["ni", "doc"])) == EXPECTED


def test_conflicting_accuracies_raise() -> None:
    off = long()
    off["accuracy"] = [0.95, *off["accuracy"][1:]]
    assert error_message(off) == (
        "The accuracy of 'm2' on 'a' is 0.95 in one row and 0.9 in another. Rows of one evaluation "
        "must have the same accuracy."
    )


def test_duplicate_measure_of_an_evaluation_raises() -> None:
    twice = {name: [*cells, cells[5]] for name, cells in long().items()}
    assert error_message(twice) == (
        "'m1' on 'a' occurs twice of 'doc', in rows 5 and 8. Remove one, or give the models unique "
        "names."
    )


# Errors ---------------------------------------------------------------------------------------


def test_missing_columns_are_named_with_a_hint() -> None:
    renamed = {{"tested_on": "tested"}.get(name, name): cells for name, cells in WIDE.items()}
    assert error_message(renamed) == (
        "The table has no column 'tested_on'; model, trained_on, tested_on, accuracy are required. "
        "Did you mean 'tested'? Columns: model, architecture, trained_on, tested, accuracy, ni, doc, "
        "seed, task, recipe.width. Rename or add the missing columns."
    )
    assert error_message({"x": [1]}).startswith(
        "The table has no column 'model' or 'trained_on' or 'tested_on' or 'accuracy'; "
    )
    half = {name: cells for name, cells in long().items() if name != "value"}
    assert "has no column 'value'; model, trained_on, tested_on, accuracy, measure, value" in (
        error_message(half)
    )


def test_duplicate_rows_raise() -> None:
    assert error_message({name: [*cells, cells[1]] for name, cells in WIDE.items()}) == (
        "'m1' on 'a' occurs twice, in rows 1 and 4. Remove one, or give the models unique names."
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([90.0, 60.0, 1.0, 2.0], "row 0 is 90. Divide percentages by 100."),
        ([0.9, -0.1, 0.5, 0.5], "row 1 is -0.1. Correct it."),
        ([0.9, 0.1, float("inf"), 0.5], "row 2 is inf. Correct it."),
    ],
)
def test_accuracies_outside_zero_to_one_raise(cells: list[float], expected: str) -> None:
    message = f"accuracy must be a fraction from 0 to 1; {expected}"
    assert error_message(changed(accuracy=cells)) == message


def test_text_among_numbers_raises() -> None:
    assert error_message(changed(ni=["0.5", "n.a.?", "0.2", "0.1"])) == (
        "The column 'ni' holds both numbers and text: row 1 is 'n.a.?'. Correct it, remove the "
        "column, or name the measures to read."
    )
    requested = error_message(changed(ni=["0.5", "n.a.?", "0.2", "0.1"]), measures=["ni"])
    assert "'ni' holds string, not numbers: row 1 is 'n.a.?'" in requested
    accuracy = error_message(changed(accuracy=["0.5", "x", "0.2", "0.1"]))
    assert "'accuracy' holds string, not numbers: row 1 is 'x'" in accuracy


@pytest.mark.parametrize("name", ["model", "architecture", "trained_on", "tested_on"])
@pytest.mark.parametrize("gap", [None, ""])
def test_empty_names_raise(name: str, gap: Any) -> None:
    cells = [*WIDE[name][:2], gap, WIDE[name][3]]
    assert error_message(changed(**{name: cells})) == f"The column {name!r} has no value in row 2."


def test_table_without_rows_or_measures_raises() -> None:
    empty: Columns = {name: [] for name in WIDE}
    assert error_message(empty) == (
        "The table has no rows. One row is one model tested on one domain."
    )
    assert error_message(without("ni", "doc")) == (
        "The table has no measure; expected one numeric column per measure, or the columns measure "
        "and value. Add one, or read accuracies only with measures=()."
    )


@pytest.mark.parametrize("columns", [WIDE, long()], ids=["wide", "long"])
def test_unknown_measure_raises(columns: Columns) -> None:
    message = error_message(columns, measures=["dock"])
    assert message.startswith("No measure is called 'dock'. Did you mean 'doc'? There are: ")


def test_string_instead_of_list_of_measures_raises() -> None:
    assert error_message(WIDE, measures="ni") == (
        "measures must be a list of names; got 'ni'. Pass ['ni']."
    )


def test_inconsistent_rows_of_a_model_raise() -> None:
    assert error_message(changed(model=["m", "m", "m", "m"])) == (
        "The model 'm' has the architectures 'vgg' and 'nin'; a model has one. Give each model a "
        "unique name."
    )
    one = {**without("architecture"), "model": ["m", "m", "m", "m"]}
    assert error_message(one) == (
        "The model 'm' is trained on 'a + b' and 'c'; a model has one. Give each model a unique name."
    )


def test_non_tables_raise() -> None:
    assert error_message([1, 2]) == (
        "list is not a table. Pass a path, a pandas, polars or pyarrow table, or a mapping of columns."
    )
    assert error_message(changed(ni=[1.0])).startswith("The columns do not form a table: ")


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    assert error_message(path).startswith(f"There is no file {str(path)!r};")
    path.write_text("model,accuracy\nm,0.5\n")
    assert error_message(path).startswith(
        "a.csv: The table has no column 'trained_on' or 'tested_on'"
    )
    (tmp_path / "a.txt").write_text("")
    assert error_message(tmp_path / "a.txt").startswith("a.txt has an unknown extension.")


def test_replicates_of_a_model_become_separate_models() -> None:
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
    with pytest.raises(InputError, match=r"'m \(replicate 0\)' on 'b' occurs twice"):
        EvaluationTable.read(
            {**rows, "replicate": [0, 0, 0, 1, 0], "model": ["m", "m", "m", "m", "o"]}
        )


def test_replicates_with_unique_names_keep_them() -> None:
    rows = {
        "model": ["m", "n"], "trained_on": ["a"] * 2, "tested_on": ["b"] * 2,
        "accuracy": [0.5, 0.7], "ni": [1.0, 2.0], "replicate": [0, 1],
    }  # fmt: skip
    table = EvaluationTable.read(rows)
    assert table.models == ("m", "n")
    assert "recipe.model" not in table.columns
