"""Schema of prediction files: which columns are read and must agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.core.errors import InputError
from oodometer.data.batch_reader import (
    MAX_BATCH_BYTES,
    infer_schema,
    make_partitions,
    read_tables,
    rows_per_batch,
)
from oodometer.data.prediction_files import PredictionColumns
from tests.support.partitioned_files import write

PROBS = {"prob_a": [0.5, 0.2], "prob_b": [0.25, 0.8], "prob_c": [0.25, 0.0]}


def schema_of(
    path: Path, table: dict[str, Any], columns: PredictionColumns | None = None, **more: Any
) -> Any:
    write(pa.table(table), path)
    return infer_schema([path], columns or PredictionColumns(), **{"labelled": False, **more})


def test_only_needed_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = PROBS | {"label": [0, 1], "site": ["x", "y"], "other": [1, 2]}
    found = schema_of(path, table, segment_by=("site",))
    assert found.columns == ("prob_a", "prob_b", "prob_c", "label", "site")
    assert found.class_names == ("a", "b", "c")
    (part,), _ = make_partitions([path])
    ((before, read),) = read_tables(found, part, 10)
    assert (before, read.column_names) == (0, list(found.columns))
    np.testing.assert_array_equal(found.scores(read), [[0.5, 0.25, 0.25], [0.2, 0.8, 0.0]])


@pytest.mark.parametrize("listed", [False, True])
def test_classes_are_reordered_as_in_the_source(tmp_path: Path, listed: bool) -> None:
    path = tmp_path / "a.parquet"
    rows = [[0.5, 0.25, 0.25], [0.2, 0.8, 0.0]]
    columns = PredictionColumns(class_names=("a", "b", "c") if listed else None)
    found = schema_of(path, {"probs": rows} if listed else PROBS, columns).reorder_classes(
        ("c", "a", "b")
    )
    (part,), _ = make_partitions([path])
    ((_, read),) = read_tables(found, part, 10)
    np.testing.assert_array_equal(found.scores(read), [[0.25, 0.5, 0.25], [0.0, 0.2, 0.8]])
    assert found.class_names == ("c", "a", "b")
    assert found.reorder_classes(None) is found


def test_label_column_with_score_prefix_is_not_a_score(tmp_path: Path) -> None:
    found = schema_of(
        tmp_path / "a.parquet", PROBS | {"prob_truth": [0, 1]}, PredictionColumns("prob_truth")
    )
    assert found.score_columns.columns == ("prob_a", "prob_b", "prob_c")
    assert found.label_column == "prob_truth"


def test_target_labels_are_optional_source_labels_required(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    assert schema_of(path, PROBS, PredictionColumns("truth")).label_column is None
    with pytest.raises(InputError, match=r"a.parquet: There is no column 'truth'"):
        schema_of(path, PROBS, PredictionColumns("truth"), labelled=True)


def test_files_may_differ_in_column_order_and_float_width(tmp_path: Path) -> None:
    turned = {name: np.array(PROBS[name], dtype=np.float32) for name in reversed(PROBS)}
    paths = [write(pa.table(PROBS), tmp_path / "a.parquet"),
             write(pa.table(turned), tmp_path / "b.csv")]  # fmt: skip
    found = infer_schema(paths, PredictionColumns(), labelled=False)
    read = [table for part in make_partitions(paths)[0] for _, table in read_tables(found, part, 9)]
    for table in read:
        np.testing.assert_allclose(found.scores(table)[0], [0.5, 0.25, 0.25])


def test_files_with_scores_of_different_types_raise(tmp_path: Path) -> None:
    paths = [write(pa.table({"probs": [[0.5, 0.5]]}), tmp_path / "a.parquet"),
             write(pa.table({"probs": [0.5]}), tmp_path / "b.parquet")]  # fmt: skip
    with pytest.raises(
        InputError, match=r"The column 'probs' of b.parquet holds double, that of a"
    ):
        infer_schema(paths, PredictionColumns(), labelled=False)


@pytest.mark.parametrize("k", [2, 10, 1000, 20_000])
def test_batch_size_is_within_its_limit(k: int) -> None:
    assert rows_per_batch(k) * k * 8 <= MAX_BATCH_BYTES or rows_per_batch(k) == 64
