"""The target before all of it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oodometer.assessment.streaming import PREVIEW_ROWS, StreamedTarget
from oodometer.core.errors import InputError
from oodometer.data.bottom_k import BottomKSample
from oodometer.data.prediction_files import PredictionColumns
from oodometer.testing import toy_predictions
from tests.support.partitioned_files import split, table_of, write

ROWS = toy_predictions(n=PREVIEW_ROWS + 500)


def test_the_first_rows_are_looked_at_and_all_are_counted(tmp_path: Path) -> None:
    split(table_of(ROWS), tmp_path, [0, 700])
    found = StreamedTarget.open(tmp_path, PredictionColumns(), None)
    assert (found.n_rows, found.k, len(found.files)) == (PREVIEW_ROWS + 500, 4, 3)
    np.testing.assert_array_equal(found.preview.probs, ROWS.probs[:700])


def test_logits_that_look_like_probabilities_are_warned_of(tmp_path: Path) -> None:
    names = [f"logit_{j}" for j in range(4)]
    write(table_of(ROWS).rename_columns(names), tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match="they look like probabilities"):
        StreamedTarget.open(tmp_path, PredictionColumns(), None)


def test_labels_are_numbers_also_as_text_and_what_is_no_class_is_refused(tmp_path: Path) -> None:
    write(table_of(ROWS), tmp_path / "a.parquet")
    found = StreamedTarget.open(tmp_path, PredictionColumns(), None)

    def sample(*labels: object) -> BottomKSample:
        given = np.array(labels, dtype=object)
        return BottomKSample(
            np.arange(len(labels)), np.zeros(len(labels), np.uint32), {"labels": given}
        )

    assert found.labels(sample(0, 3)).tolist() == [0, 3]
    assert found.labels(sample("0", "3")).tolist() == [0, 3]
    with pytest.raises(InputError, match="labels of the target must lie in 0…3; row 1 is 4"):
        found.labels(sample(0, 4))


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    write(pa.table({"prob_0": pa.array([], pa.float64()), "prob_1": pa.array([], pa.float64())}),
          tmp_path / "a.parquet")  # fmt: skip
    with pytest.raises(InputError, match="has no rows; at least one was expected"):
        StreamedTarget.open(tmp_path, PredictionColumns(), None)
