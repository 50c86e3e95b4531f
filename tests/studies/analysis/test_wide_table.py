"""Matrices of accuracies: accepted inputs and error messages."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from oodometer.core.errors import InputError
from oodometer.studies.analysis.wide_table import AccuracyMatrix

COLUMNS: dict[str, list[Any]] = {
    "model": ["a", "b", "c"],
    "val": [90.0, 80.0, None],
    "sketch": [40, 30, 20],
}


def changed(**columns: Any) -> dict[str, list[Any]]:
    return {**COLUMNS, **columns}


def check(wide: AccuracyMatrix) -> None:
    assert wide.models == ("a", "b", "c")
    assert wide.test_sets == ("val", "sketch")
    np.testing.assert_allclose(wide.accuracy, [[0.9, 0.4], [0.8, 0.3], [np.nan, 0.2]])


def test_files_frames_and_mappings_give_the_same_matrix(tmp_path: Path) -> None:
    frame = pd.DataFrame(COLUMNS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        frame.to_csv(file, index=False)
    for name in ("t.csv", "t.parquet", "t.csv.gz"):
        check(AccuracyMatrix.read(tmp_path / name))
    for thing in (COLUMNS, frame, pl.DataFrame(COLUMNS), str(tmp_path / "t.csv")):
        check(AccuracyMatrix.read(thing))


def test_fractions_are_kept_and_the_unit_can_be_passed() -> None:
    fractions = changed(val=[0.9, 0.8, None], sketch=[0.4, 0.3, 0.2])
    check(AccuracyMatrix.read(fractions))
    low = AccuracyMatrix.read(fractions, unit="percent")
    np.testing.assert_allclose(low.accuracy_on("sketch"), [0.004, 0.003, 0.002])
    mixed = AccuracyMatrix.read(changed(sketch=[0.4, 0.3, 0.2]), unit="percent")
    np.testing.assert_allclose(mixed.accuracy[0], [0.9, 0.004])


def test_all_zero_test_set_is_not_a_mix_of_units() -> None:
    assert AccuracyMatrix.read(changed(sketch=[0, 0, 0])).accuracy_on("sketch").tolist() == [
        0.0,
        0.0,
        0.0,
    ]


def test_named_test_sets_keep_their_order() -> None:
    wide = AccuracyMatrix.read(COLUMNS, test_sets=["sketch"])
    assert (wide.test_sets, wide.other_columns) == (("sketch",), ("val",))
    assert AccuracyMatrix.read(COLUMNS, test_sets=["sketch", "val"]).test_sets == ("sketch", "val")


def test_text_sizes_and_reserved_columns_are_not_test_sets() -> None:
    wide = AccuracyMatrix.read(
        changed(img_size=[224, 384, None], family=["r", "r", "v"], seed=[0, 1, 2])
    )
    assert wide.test_sets == ("val", "sketch")
    assert wide.other_columns == ("img_size", "family", "seed")


def test_other_columns_distinguish_rows_of_one_model() -> None:
    wide = AccuracyMatrix.read(changed(model=["a", "a", "c"], img_size=[224, 384, 224]))
    assert wide.models == ("a (img_size=224)", "a (img_size=384)", "c")


def test_empty_test_set_is_kept_with_nan() -> None:
    assert np.isnan(AccuracyMatrix.read(changed(none=[None, None, None])).accuracy_on("none")).all()


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        (changed(model=["a", "a", "b"]), {}, "'a' occurs twice, in rows 0 and 1. Remove one"),
        (
            changed(model=["a", "a", "b"], size=[224, 224, 384]),
            {},
            r"'a \(size=224\)' occurs twice, in rows 0 and 1",
        ),
        ({"Model": ["a"], "val": [1]}, {}, "no column 'model' in the table. Did you mean 'Model'\\? Columns: Mo"),
        ({"val": [1]}, {}, "no column 'model' in the table. Columns: val. Rename"),
        ({"model": ["a"], "family": ["r"]}, {}, "no test set; expected numeric columns next to 'model'"),
        ({"model": [], "val": []}, {}, "The table has no rows. One row is one model."),
        (changed(val=[90.0, 801.0, None]), {}, "between 0 and 100; that of 'b' on 'val' is 801. Correct it"),
        (changed(val=[90.0, -1.0, None]), {}, "between 0 and 100; that of 'b' on 'val' is -1"),
        (COLUMNS, {"unit": "fraction"}, "between 0 and 1; that of 'a' on 'val' is 90"),
        (COLUMNS, {"unit": "percents"}, "No unit is called 'percents'. Did you mean 'percent'"),
        (COLUMNS, {"test_sets": ["vall"]}, "No test set is called 'vall'. Did you mean 'val'"),
        (COLUMNS, {"test_sets": ["model"]}, "No test set is called 'model'"),
        (COLUMNS, {"test_sets": "val"}, "test_sets must be a list of names; got 'val'"),
        (COLUMNS, {"test_sets": []}, r"test_sets must be a list of names; got \[\]. Pass None for all"),
        (changed(val=[0.9, 0.8, None]), {}, "on 'val' are at most 1, those on 'sketch' are not: fractions"),
        (changed(val=["90", "80,5", "70"]), {}, "'val' holds both numbers and text: row 1 is '80,5'"),
        (changed(family=["r", "s", "t"]), {"test_sets": ["family"]}, "'family' holds .*, not numbers: row"),
        (changed(model=["a", None, "c"]), {}, "The column 'model' has no value in row 1"),
    ],
)  # fmt: skip
def test_invalid_tables_raise_one_line_errors(
    columns: dict[str, list[Any]], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        AccuracyMatrix.read(columns, **settings)
    assert "\n" not in str(caught.value)


def test_errors_name_the_file(tmp_path: Path) -> None:
    pd.DataFrame({"name": ["a"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"^t\.csv: There is no column 'model'"):
        AccuracyMatrix.read(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"^There is no file "):
        AccuracyMatrix.read(tmp_path / "missing.csv")


def test_unknown_test_set_raises_with_a_hint() -> None:
    with pytest.raises(InputError, match=r"No test set is called 'skech'. Did you mean 'sketch'\?"):
        AccuracyMatrix.read(COLUMNS).accuracy_on("skech")
