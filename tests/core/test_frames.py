"""Scores, labels and ids from pandas, polars and pyarrow tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core import frames
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions

Columns = dict[str, Any]
Maker = Callable[[Columns], Any]


def in_chunks(columns: Columns) -> Any:
    """Return a pyarrow table with chunks of different lengths, one of them empty."""
    table = pa.table(columns)
    cuts = [(0, 1), (1, 0), (1, 4), (5, table.num_rows)]
    return pa.concat_tables([table.slice(start, length) for start, length in cuts])


MAKERS: dict[str, Maker] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "chunked": in_chunks,
    "sliced": lambda columns: pa.concat_tables([pa.table(columns)] * 2).slice(
        len(next(iter(columns.values())))
    ),
    "batch": pa.RecordBatch.from_pydict,
}
every_frame = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def probs_of(n: int, k: int) -> Array:
    return np.random.default_rng([n, k]).dirichlet(np.ones(k), size=n)


def by_class(probs: Array, prefix: str = "prob_") -> Columns:
    return {f"{prefix}{j}": probs[:, j] for j in range(probs.shape[1])}


def error_of(frame: Any, **named: Any) -> str:
    with pytest.raises(InputError) as caught:
        Predictions.from_frame(frame, **named)
    message = str(caught.value)
    assert "\n" not in message
    return message


# One column a class ---------------------------------------------------------------------------


@every_frame
def test_columns_with_default_prefix_are_scores(make: Maker) -> None:
    probs, labels = probs_of(9, 3), np.arange(9) % 3
    found = Predictions.from_frame(make({**by_class(probs), "label": labels, "id": labels + 7}))
    assert (found.score_type, found.class_names) == ("probs", None)
    np.testing.assert_array_equal(found.scores, probs)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.ids, labels + 7)


@every_frame
def test_logit_columns_are_found(make: Maker) -> None:
    logits = np.random.default_rng(0).normal(size=(9, 4))
    found = Predictions.from_frame(make(by_class(logits, "logit_")))
    assert (found.score_type, found.is_labelled, found.ids) == ("logits", False, None)
    np.testing.assert_array_equal(found.scores, logits)


@every_frame
@pytest.mark.parametrize("prefix", ["prob_", "score", "p.", "p-"])
def test_numbered_columns_are_sorted_by_number(make: Maker, prefix: str) -> None:
    probs = probs_of(6, 12)
    columns = by_class(probs, prefix)
    shuffled = {name: columns[name] for name in sorted(columns)}
    assert list(shuffled)[2] == f"{prefix}10"
    found = Predictions.from_frame(make(shuffled), prob_columns=prefix)
    np.testing.assert_array_equal(found.scores, probs)
    assert found.class_names is None


@pytest.mark.parametrize("named", ["prob", "prob_"])
@pytest.mark.parametrize("columns", ["prob_{}", "prob_{:02d}"])
def test_prefix_may_omit_the_separator(named: str, columns: str) -> None:
    probs = probs_of(6, 12)
    table = {columns.format(j): probs[:, j] for j in reversed(range(12))}
    found = Predictions.from_frame(pa.table(table), prob_columns=named)
    np.testing.assert_array_equal(found.scores, probs)
    assert found.class_names is None


def test_separator_is_not_part_of_the_class_name() -> None:
    table = pa.table({"p_cat": [0.2], "p_dog": [0.8], "label": ["dog"]})
    found = Predictions.from_frame(table, prob_columns="p")
    assert found.class_names == ("cat", "dog")
    np.testing.assert_array_equal(found.labels, [1])


@every_frame
def test_suffixes_are_class_names_in_table_order(make: Maker) -> None:
    columns = {"prob_dog": [0.7] * 6, "prob_cat": [0.3] * 6, "label": ["cat", "dog"] * 3}
    found = Predictions.from_frame(make(columns))
    assert found.class_names == ("dog", "cat")
    np.testing.assert_array_equal(found.classes, 0)
    np.testing.assert_array_equal(found.labels, [1, 0] * 3)


def test_numbers_that_do_not_start_at_0_are_class_names() -> None:
    table = pa.table({"prob_12": [0.1], "prob_3": [0.2], "prob_7": [0.7], "label": [7]})
    found = Predictions.from_frame(table)
    assert found.class_names == ("3", "7", "12")
    np.testing.assert_array_equal(found.scores, [[0.2, 0.7, 0.1]])
    np.testing.assert_array_equal(found.labels, [1])


def test_class_names_argument_overrides_suffixes() -> None:
    table = pa.table({"prob_a": [0.1], "prob_b": [0.9], "label": ["y"]})
    found = Predictions.from_frame(table, class_names=["x", "y"])
    assert found.class_names == ("x", "y")
    np.testing.assert_array_equal(found.labels, [1])


def test_bool_labels_match_classes_named_true_and_false() -> None:
    frame = pd.DataFrame({"prob_True": [0.9, 0.2], "prob_False": [0.1, 0.8], "label": [True, False]})  # fmt: skip
    np.testing.assert_array_equal(Predictions.from_frame(frame).correct, [True, True])


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.float16(), np.float32),
        (pa.float32(), np.float32),
        (pa.float64(), np.float64),
        (pa.int8(), np.float64),
        (pa.decimal128(6, 2), np.float64),
    ],
)
def test_scores_use_the_narrowest_sufficient_float_type(kind: Any, dtype: Any) -> None:
    ones = pa.array([1, 0, 1], type=pa.int8()).cast(kind)
    none = pa.array([0, 1, 0], type=pa.int8()).cast(kind)
    found = Predictions.from_frame(pa.table({"prob_0": ones, "prob_1": none}))
    assert found.scores is not None
    assert found.scores.dtype == dtype
    np.testing.assert_array_equal(found.classes, [0, 1, 0])


def test_mixed_float_columns_use_the_widest_type() -> None:
    half = np.array([0.5])
    table = pa.table({"prob_0": half.astype(np.float32), "prob_1": half})
    assert Predictions.from_frame(table).probs.dtype == np.float64


@given(order=st.permutations(range(11)), n=st.integers(1, 4))
@settings(max_examples=30)
def test_order_of_numbered_columns_does_not_matter(order: list[int], n: int) -> None:
    probs = probs_of(n, 11)
    table = pa.table({f"prob_{j}": probs[:, j] for j in order})
    np.testing.assert_array_equal(Predictions.from_frame(table).scores, probs)


# One column of lists --------------------------------------------------------------------------


@every_frame
def test_list_column_holds_rows_of_scores(make: Maker) -> None:
    probs = probs_of(9, 4)
    found = Predictions.from_frame(make({"probs": probs.tolist(), "label": np.arange(9) % 4}))
    assert found.score_type == "probs"
    np.testing.assert_array_equal(found.scores, probs)
    np.testing.assert_array_equal(found.labels, np.arange(9) % 4)


@pytest.mark.parametrize("make", [lambda table: table, pl.from_arrow], ids=["pyarrow", "polars"])
@pytest.mark.parametrize("value", [pa.float16(), pa.float32(), pa.float64(), pa.int64()])
@pytest.mark.parametrize("size", [-1, 3])
def test_lists_keep_their_dtype(make: Callable[[Any], Any], value: Any, size: int) -> None:
    logits = np.array([[1, 2, 3], [6, 5, 4]])
    kind = pa.list_(pa.field("item", value), size)
    rows = logits.astype(value.to_pandas_dtype())
    column = pa.array(list(rows), type=pa.list_(value)).cast(kind)
    found = Predictions.from_frame(make(pa.table({"logits": column})))
    assert found.score_type == "logits"
    assert found.scores is not None
    assert found.scores.dtype == rows.dtype
    np.testing.assert_array_equal(found.scores, rows)


@pytest.mark.parametrize("kind", [pa.list_(pa.float64(), 2), pa.large_list(pa.float64())])
def test_sliced_and_chunked_lists_are_read_correctly(kind: Any) -> None:
    probs = probs_of(10, 2)
    whole = pa.table({"probs": pa.array(probs.tolist(), type=kind)})
    table = pa.concat_tables([whole.slice(6, 2), whole.slice(3, 1), whole.slice(9)])
    np.testing.assert_array_equal(Predictions.from_frame(table).scores, probs[[6, 7, 3, 9]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.5], [1.0]], "The lists of column 'probs' differ in length: 2 in row 0, 1 in row 1. Every row needs one score per class."),
        ([[0.5, 0.5], None], "The column 'probs' has no value in row 1."),
        ([[0.5, 0.5], [0.5, None]], "A list of column 'probs' has a missing value in row 1."),
        ([[0.5, 0.5], [0.5, np.nan]], "probs must be finite; row 1, class 1 is nan. Remove or correct such rows."),
        ([["a", "b"], ["c", "d"]], "The lists of column 'probs' hold string; expected numbers."),
        (["a", "b"], "The column 'probs' holds string; expected a list of numbers in every row. For one column per class, name their common prefix."),
    ],
)  # fmt: skip
def test_invalid_list_columns_raise(rows: list[Any], message: str) -> None:
    assert error_of(pa.table({"probs": rows})) == message


def test_empty_lists_raise() -> None:
    empty = pa.array([[], []], type=pa.list_(pa.float64()))
    assert "at least two; got 0." in error_of(pa.table({"probs": empty}))


# Which columns --------------------------------------------------------------------------------


@every_frame
def test_columns_can_be_selected_by_prefix_or_name(make: Maker) -> None:
    probs = probs_of(8, 3)
    columns = {
        **by_class(probs, "old_"),
        **by_class(probs * 9, "raw_"),
        "list": (probs * 5).tolist(),
        "truth": np.arange(8) % 3,
        "label": ["unused"] * 8,
    }
    named = Predictions.from_frame(make(columns), prob_columns="old_", label_column="truth")
    np.testing.assert_array_equal(named.scores, probs)
    np.testing.assert_array_equal(named.labels, np.arange(8) % 3)
    raw = Predictions.from_frame(make(columns), logit_columns="raw_", label_column="truth")
    assert raw.score_type == "logits"
    np.testing.assert_array_equal(raw.scores, probs * 9)
    listed = Predictions.from_frame(make(columns), logit_columns="list", label_column="truth")
    np.testing.assert_array_equal(listed.scores, probs * 5)


@every_frame
def test_missing_numbered_column_is_reported(make: Maker) -> None:
    columns = by_class(probs_of(6, 6))
    del columns["prob_3"]
    assert error_of(make(columns)) == (
        "The column prob_3 is missing: there are 5 columns up to prob_5. "
        "Add it, or use suffixes that are not numbers."
    )


def test_two_columns_for_one_class_raise() -> None:
    table = pa.table({"logit_1": [0.1], "logit_01": [0.2], "logit_2": [0.3]})
    assert error_of(table) == (
        "The columns 'logit_1' and 'logit_01' belong to the same class. "
        "Rename or remove one of them."
    )


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[0.1, 0.2, 0.7]], columns=["prob_0", "prob_1", "prob_1"]),
        pa.table([[0.1], [0.2], [0.7]], names=["prob_0", "prob_1", "prob_1"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_duplicate_column_is_reported(frame: Any) -> None:
    expected = "The table has more than one column 'prob_1'. Rename or remove one of them."
    assert error_of(frame) == expected


def test_probs_and_logits_together_are_ambiguous() -> None:
    table = pa.table({"prob_0": [0.4], "prob_1": [0.6], "logits": [[1.0, 2.0]]})
    assert error_of(table) == (
        "The table has both probabilities and logits. Choose with prob_columns='…' or "
        "logit_columns='…' (in Python, for estimate: columns={'prob_columns': '…'})."
    )
    assert error_of(table, prob_columns="prob_", logit_columns="logits") == (
        "Both probs and logits are named. Name only one of them."
    )
    assert Predictions.from_frame(table, prob_columns="prob_").score_type == "probs"
    assert Predictions.from_frame(table, logit_columns="logits").score_type == "logits"


def test_prefix_of_a_list_column_name_is_not_a_match() -> None:
    table = pa.table({"prob_0": [0.4], "prob_1": [0.6], "logits_file": ["a"], "probs_by": ["b"]})
    np.testing.assert_array_equal(Predictions.from_frame(table).scores, [[0.4, 0.6]])


def test_error_without_scores_lists_expected_and_actual_columns() -> None:
    message = error_of(pa.table({"a": [1], "b": [2]}))
    assert message.startswith("There are no scores: expected columns prob_0, prob_1, … or logit_0,")
    assert "Columns: a, b. Name yours with prob_columns='…' or logit_columns='…' (in" in message
    assert error_of(pa.table({"a": [1], "b": [2]}), prob_columns="q_") == (
        "There is no column 'q_' or with that prefix. Columns: a, b."
    )
    assert "Columns: none." in error_of(pa.table({}))


def test_unknown_label_column_is_reported() -> None:
    table = pa.table({"prob_0": [0.4], "prob_1": [0.6]})
    expected = "There is no column 'truth' in the table. Columns: prob_0, prob_1."
    assert error_of(table, label_column="truth") == expected


@pytest.mark.parametrize("thing", [np.zeros((2, 2)), [[0.5, 0.5]], "file.csv", None])
def test_non_frames_raise(thing: Any) -> None:
    message = error_of(thing)
    assert message.startswith(f"{type(thing).__name__} is not a data frame with the Arrow")


# Bad cells ------------------------------------------------------------------------------------


@every_frame
def test_missing_value_is_reported_with_its_row(make: Maker) -> None:
    probs = probs_of(20, 2)
    columns = {"prob_0": probs[:, 0].tolist(), "prob_1": [*probs[:17, 1], None, *probs[18:, 1]]}
    assert error_of(make(columns)) == "The column 'prob_1' has no value in row 17."
    labelled = {**by_class(probs), "label": [0] * 17 + [None, 1, 1]}
    assert error_of(make(labelled)) == "The column 'label' has no value in row 17."


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "pyarrow"])
def test_nan_is_reported_with_its_row(make: Maker) -> None:
    probs = probs_of(20, 2)
    probs[17, 1] = np.nan
    assert "probs must be finite; row 17, class 1 is nan." in error_of(make(by_class(probs)))


def test_pandas_nan_is_a_missing_value() -> None:
    probs = probs_of(20, 2)
    probs[17, 1] = np.nan
    message = error_of(pd.DataFrame(by_class(probs)))
    assert message == "The column 'prob_1' has no value in row 17."


@every_frame
def test_text_among_numbers_is_reported_with_row_and_value(make: Maker) -> None:
    columns = {"prob_0": [0.5] * 6, "prob_1": ["0.5", "0.5", "0.5", "oops", "0.5", "0.5"]}
    message = error_of(make(columns))
    assert message.startswith("The column 'prob_1' holds ")
    assert "not numbers: row 3 is 'oops'. Correct it, or name other columns." in message


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.5, None, "oops", 0.5], "row 0 is 0.5, row 2 is 'oops'"),
        ([None, "a", 1, "b"], "row 1 is 'a', row 2 is 1"),
    ],
)
def test_mixed_pandas_column_is_reported(values: list[Any], shown: str) -> None:
    fine = ["x", None, float("nan"), "y"]
    frame = pd.DataFrame({"fine": pd.Series(fine, dtype=object), "mixed": values})
    assert error_of(frame) == (
        f"The column 'mixed' holds both numbers and text: {shown}. Correct it or remove the column."
    )


def test_unreadable_pandas_column_raises_input_error() -> None:
    frame = pd.DataFrame({"prob_0": [0.5], "prob_1": [0.5], "thing": [object()]})
    assert error_of(frame).startswith("The table cannot be read: ")


# Label columns --------------------------------------------------------------------------------

LABELS = ["dog", "cat", "dog", "emu", "cat", "cat"]
LABEL_COLUMNS: dict[str, Any] = {
    "pandas categorical": lambda t: pd.DataFrame(t).astype({"label": "category"}),
    "pandas object": lambda t: pd.DataFrame(t).astype({"label": object}),
    "polars categorical": lambda t: pl.DataFrame(t).cast({"label": pl.Categorical}),
    "polars enum": lambda t: pl.DataFrame(t).cast({"label": pl.Enum(["emu", "dog", "cat"])}),
    "pyarrow dictionary": lambda t: pa.table({**t, "label": pa.array(t["label"]).dictionary_encode()}),
    "pyarrow large text": lambda t: pa.table({**t, "label": pa.array(t["label"], pa.large_string())}),
    "dictionaries that differ": lambda t: pa.concat_tables(
        pa.table({**{c: t[c][rows] for c in t}, "label": pa.array(t["label"][rows]).dictionary_encode()})
        for rows in (slice(0, 2), slice(2, 6))
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", LABEL_COLUMNS.values(), ids=LABEL_COLUMNS.keys())
def test_encoded_text_labels_are_read(make: Maker) -> None:
    table = {"prob_cat": [0.2] * 6, "prob_dog": [0.3] * 6, "prob_emu": [0.5] * 6, "label": LABELS}
    found = Predictions.from_frame(make(table))
    np.testing.assert_array_equal(found.labels, [1, 0, 1, 2, 0, 0])


def test_encoded_number_labels_are_read() -> None:
    frame = pd.DataFrame({**by_class(probs_of(4, 3)), "label": pd.Categorical([2, 0, 1, 0])})
    np.testing.assert_array_equal(Predictions.from_frame(frame).labels, [2, 0, 1, 0])


def test_unknown_category_is_reported() -> None:
    table = {"prob_a": [0.4, 0.4], "prob_b": [0.6, 0.6], "label": pd.Categorical(["a", "z"])}
    message = error_of(pd.DataFrame(table))
    assert message == "labels has 'z' in row 1, which is not a class. Classes: a, b."


def test_read_column_keeps_the_type() -> None:
    table = pa.table({"day": pa.array([0, 1], pa.date32()), "site": ["x", "y"], "n": [1, 2]})
    assert frames.read_column(table, "day").dtype.kind == "M"
    assert frames.read_column(table, "site").tolist() == ["x", "y"]
    np.testing.assert_array_equal(frames.read_column(table, "n"), [1, 2])


def test_pandas_index_is_ignored() -> None:
    frame = pd.DataFrame(by_class(probs_of(3, 2)), index=[5, 9, 2])
    np.testing.assert_array_equal(Predictions.from_frame(frame).scores, probs_of(3, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("form", "first"), [("probs", [0.75, 0.4]), ("logits", [0.0, 0.0])])
def test_single_number_column_is_the_score_of_the_second_class(
    form: str, first: list[float], dtype: type
) -> None:
    second: Array = np.array([0.25, 0.6], dtype=dtype)
    usual = Predictions.from_frame(pa.table({form[:-1]: second, "label": [0, 1]}))
    named = Predictions.from_frame(pa.table({"risk": second}), **{f"{form[:-1]}_columns": "risk"})
    for found in (usual, named):
        assert found.score_type == form
        assert found.scores is not None
        assert found.scores.dtype == dtype
        np.testing.assert_allclose(found.scores, np.stack([first, second], axis=1), rtol=1e-6)


def test_single_probability_above_1_raises() -> None:
    message = error_of(pa.table({"prob": [0.5, 1.5]}))
    assert message.startswith("probs must be between 0 and 1; row 1, class 1 is 1.5")


def test_table_without_rows_raises() -> None:
    message = error_of(pa.table({"prob": pa.nulls(0), "label": pa.nulls(0)}))
    assert message == "probs has no rows; expected at least one."


@pytest.mark.parametrize("name", ["prob", "probs", "prob_1"])
def test_percent_signs_raise_with_the_correction(name: str) -> None:
    columns = {"prob_0": [0.5, 0.6]} if name == "prob_1" else {}
    message = error_of(pa.table({**columns, name: ["0.377", "37.7%"]}))
    assert message.startswith(f"The column {name!r} is text with percent signs: row 1 is '37.7%'")
    assert message.endswith("Remove the percent signs and divide the numbers by 100.")


def test_long_list_of_columns_ends_with_an_ellipsis() -> None:
    table = pa.table({f"c{j}": [1.0] for j in range(13)} | {"prob": [0.5]})
    message = error_of(table, prob_columns="probb")
    assert "Did you mean 'prob'?" in message
    assert message.endswith("c10, c11, …")


def test_columns_per_class_take_precedence_over_a_single_column() -> None:
    table = pa.table({"prob": [9.0], "prob_0": [0.2], "prob_1": [0.3], "prob_2": [0.5]})
    assert Predictions.from_frame(table).k == 3


# Columns as numbers with gaps and as text ------------------------------------------------------


@every_frame
def test_missing_number_is_read_as_nan(make: Maker) -> None:
    table = frames.as_table(make({"x": [1, None, 3, 4, 5, 6], "y": [None] * 6}))
    np.testing.assert_array_equal(frames.read_nullable_floats(table, "x"), [1, np.nan, 3, 4, 5, 6])
    assert frames.read_nullable_floats(table, "x").dtype == np.float64
    assert np.isnan(frames.read_nullable_floats(table, "y")).all()


def test_text_in_a_nullable_float_column_raises() -> None:
    with pytest.raises(
        InputError, match=r"^The column 'x' holds string, not numbers: row 1 is 'b'"
    ):
        frames.read_nullable_floats(pa.table({"x": ["1", "b"]}), "x")


@every_frame
def test_read_texts_converts_any_type_but_raises_if_empty(make: Maker) -> None:
    table = frames.as_table(make({"x": [1, 2, 3, 4, 5, 6], "y": ["a", "b", "", "d", "e", "f"]}))
    assert frames.read_texts(table, "x") == ["1", "2", "3", "4", "5", "6"]
    with pytest.raises(InputError, match=r"^The column 'y' has no value in row 2\.$"):
        frames.read_texts(table, "y")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_written_into_the_out_array(dtype: Any) -> None:
    values = np.random.default_rng(0).dirichlet(np.ones(3), size=7).astype(dtype)
    table = pa.table({f"prob_{j}": values[:, j] for j in range(3)})
    places = frames.find_score_columns(table)
    room = np.full((3, 10), -1.0, dtype=dtype)
    found = frames.read_scores(table, places, room)
    np.testing.assert_array_equal(found, values)
    assert np.shares_memory(found, room)
    assert (room[:, 7:] == -1.0).all()


@pytest.mark.parametrize("room", [np.empty((3, 4)), np.empty((3, 10), dtype=np.float32)])
def test_unsuitable_out_array_is_not_used(room: Array) -> None:
    values = np.random.default_rng(0).dirichlet(np.ones(3), size=7)
    table = pa.table({f"prob_{j}": values[:, j] for j in range(3)})
    found = frames.read_scores(table, frames.find_score_columns(table), room)
    np.testing.assert_array_equal(found, values)
    assert not np.shares_memory(found, room)


def test_numeric_file_is_read_without_importing_pandas(tmp_path: Path) -> None:
    """Importing pandas takes longer than reading most files."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"prob_0": [0.5], "prob_1": [0.5], "label": [1]}), path)
    code = (
        "import sys; from oodometer.data.prediction_files import PredictionColumns, ScoreFile; "
        f"ScoreFile.open({str(path)!r}).predictions(PredictionColumns(), labelled=True); "
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("column", "argument"),
    [
        ("predicted_probability", "prob_columns"),
        ("Logits of net", "logit_columns"),
        ("y_pred", "pred_column"),
    ],
)
def test_columns_that_may_hold_scores_are_named(column: str, argument: str) -> None:
    with pytest.raises(
        InputError, match=f"If '{column}' has .* name it with {argument}='{column}'"
    ):
        Predictions.from_frame(pa.table({"age": [1, 2], column: [0.1, 0.9]}))
