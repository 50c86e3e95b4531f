"""Prediction files: round trips, selected columns, and errors in one line."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data.prediction_files import PredictionColumns, ScoreFile, read_predictions
from tests.support.cases import check_cases

N, K = 40, 12
PROBS = np.random.default_rng(0).dirichlet(np.ones(K), size=N).astype(np.float32)
LABELS = np.random.default_rng(1).integers(K, size=N)
IDS = np.array([f"row{i}" for i in range(N)])


def table_of(probs: Array = PROBS, **others: Any) -> Any:
    return pa.table({f"prob_{j}": probs[:, j] for j in range(probs.shape[1])} | others)


def write_arrow_file(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_arrow_stream(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_npz(table: Any, path: Path) -> None:
    """Write a table as arrays with the default names."""
    scores = {"prob_": "probs", "logit_": "logits"}
    content: dict[str, Any] = {}
    for prefix, key in scores.items():
        columns = [name for name in table.column_names if name.startswith(prefix)]
        if columns:
            content[key] = np.stack([table.column(name).to_numpy() for name in columns], axis=1)
    for name, key in {"label": "labels", "id": "ids"}.items():
        if name in table.column_names:
            values = table.column(name).to_numpy()
            content[key] = values.astype(str) if values.dtype == object else values
    np.savez(path, **content)


def write_packed(table: Any, path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "gzip") as stream:
        pyarrow.csv.write_csv(table, stream)


Writer = Callable[[Any, Path], object]
WRITERS: dict[str, tuple[str, Writer]] = {
    "parquet": ("a.parquet", pq.write_table),
    "parquet in groups": ("a.parquet", lambda t, path: pq.write_table(t, path, row_group_size=7)),
    "upper case": ("A.PARQUET", pq.write_table),
    "csv": ("a.csv", pyarrow.csv.write_csv),
    "csv packed": ("a.csv.gz", write_packed),
    "arrow file": ("a.arrow", write_arrow_file),
    "arrow stream": ("a.arrow", write_arrow_stream),
    "feather": ("a.feather", pyarrow.feather.write_feather),
    "feather as it is": (
        "a.feather",
        lambda t, path: pyarrow.feather.write_feather(t, path, compression="uncompressed"),
    ),
    "npz": ("a.npz", write_npz),
}
every_format = pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS.keys())
tables_only = pytest.mark.parametrize(
    ("name", "write"), list(WRITERS.values())[:-1], ids=list(WRITERS)[:-1]
)


def error_of(path: Path, **named: Any) -> str:
    """Return the error message for a file: one line that names it."""
    with pytest.raises(InputError) as caught:
        read_predictions(path, **named)
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    return message


# Round trips ----------------------------------------------------------------------------------


@every_format
def test_written_predictions_are_read(tmp_path: Path, name: str, write: Writer) -> None:
    write(table_of(label=LABELS, id=IDS), tmp_path / name)
    found = read_predictions(tmp_path / name)
    direct = Predictions.from_probs(PROBS, labels=LABELS, ids=IDS)
    assert (found.n, found.k, found.score_type) == (N, K, "probs")
    assert found.scores is not None
    np.testing.assert_allclose(found.scores, PROBS, rtol=1e-6)
    np.testing.assert_array_equal(found.labels, LABELS)
    np.testing.assert_array_equal(found.ids, IDS)
    np.testing.assert_array_equal(found.classes, direct.classes)
    np.testing.assert_allclose(found.confidence, direct.confidence, rtol=1e-6)
    if "csv" not in name:
        assert found.scores.dtype == np.float32


@every_format
def test_logits_without_labels_are_read(tmp_path: Path, name: str, write: Writer) -> None:
    logits = np.random.default_rng(0).normal(size=(N, K))
    write(pa.table({f"logit_{j}": logits[:, j] for j in range(K)}), tmp_path / name)
    found = read_predictions(str(tmp_path / name))
    assert (found.score_type, found.is_labelled, found.ids) == ("logits", False, None)
    np.testing.assert_allclose(np.asarray(found.scores), logits, rtol=1e-12)


@tables_only
def test_selected_columns_and_class_names_are_read(
    tmp_path: Path, name: str, write: Writer
) -> None:
    table = pa.table(
        {"p_cat": [0.2, 0.9], "p_dog": [0.8, 0.1], "truth": ["dog", "dog"], "label": ["x", "y"]}
    )
    write(table, tmp_path / name)
    found = read_predictions(tmp_path / name, prob_columns="p_", label_column="truth")
    assert found.class_names == ("cat", "dog")
    np.testing.assert_array_equal(found.correct, [True, False])


def test_list_columns_and_categories_are_read_from_parquet(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    frame = pl.DataFrame({"probs": PROBS.tolist(), "label": [str(j) for j in LABELS]})
    frame.cast({"label": pl.Categorical, "probs": pl.Array(pl.Float32, K)}).write_parquet(path)
    found = ScoreFile.open(path).predictions(PredictionColumns(), labelled=False)
    np.testing.assert_array_equal(found.scores, PROBS)
    assert ScoreFile.open(path).column("label").tolist() == [str(j) for j in LABELS]


def test_arrow_file_may_be_deleted_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_arrow_file(table_of(label=LABELS), path)
    found = read_predictions(path)
    path.unlink()
    np.testing.assert_array_equal(found.scores, PROBS)


def test_npz_has_features_ids_and_class_names(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    names = np.array([f"c{j}" for j in range(K)])
    np.savez_compressed(
        path, probs=PROBS, labels=names[LABELS], features=np.ones((N, 2)), class_names=names
    )
    found = read_predictions(path)
    assert found.class_names == tuple(names.tolist())
    np.testing.assert_array_equal(found.labels, LABELS)
    np.testing.assert_array_equal(found.features, np.ones((N, 2)))


def test_npz_arrays_can_be_selected(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, mine=PROBS, raw=PROBS * 9, probs=PROBS[::-1], truth=LABELS, labels=LABELS * 0)
    by_probs = read_predictions(path, prob_columns="mine", label_column="truth")
    np.testing.assert_array_equal(by_probs.scores, PROBS)
    np.testing.assert_array_equal(by_probs.labels, LABELS)
    by_logits = read_predictions(path, logit_columns="raw")
    assert by_logits.score_type == "logits"
    np.testing.assert_array_equal(by_logits.labels, 0)


# Labels that must not be looked at ------------------------------------------------------------

INVALID_LABELS: dict[str, Any] = {
    "unknown": ["nobody"] * N,
    "empty": pa.array([0] * 17 + [None] * (N - 17)),
    "out of range": [99] * N,
}


@tables_only
def test_invalid_labels_are_ignored_if_unlabelled(tmp_path: Path, name: str, write: Writer) -> None:
    def check(kind: str, named: str | None) -> None:
        path = tmp_path / f"{kind} {named}" / name
        path.parent.mkdir()
        labels = INVALID_LABELS[kind]
        write(table_of(label=labels, truth=labels), path)
        columns = PredictionColumns(label_column=named)
        predictions = ScoreFile.open(path).predictions(columns, labelled=False)
        assert not predictions.is_labelled
        assert predictions.n == N
        with pytest.raises(InputError):
            read_predictions(path, label_column=named)

    check_cases(check, product(INVALID_LABELS, [None, "label", "truth", "absent"]))


@pytest.mark.parametrize("named", [None, "labels", "truth", "absent"])
def test_invalid_npz_labels_are_ignored_if_unlabelled(tmp_path: Path, named: str | None) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, probs=PROBS, labels=LABELS + 99, truth=LABELS[:3])
    found = ScoreFile.open(path).predictions(PredictionColumns(label_column=named), labelled=False)
    assert not found.is_labelled
    error_of(path, label_column=named)


# Columns --------------------------------------------------------------------------------------


@every_format
def test_any_column_can_be_read(tmp_path: Path, name: str, write: Writer) -> None:
    write(table_of(id=IDS, label=LABELS), tmp_path / name)
    outputs = ScoreFile.open(tmp_path / name)
    npz = name.endswith("npz")
    assert outputs.column("ids" if npz else "id").tolist() == IDS.tolist()
    assert outputs.column("labels" if npz else "label").tolist() == LABELS.tolist()
    with pytest.raises(InputError) as caught:
        outputs.column("site")
    what = "array 'site'. Arrays" if npz else "column 'site' in the table. Columns"
    assert str(caught.value).startswith(f"{name}: There is no {what}: prob")


def test_duplicate_column_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prob_0,prob_1,site,site\n0.5,0.5,x,y\n")
    expected = "a.csv: The table has more than one column 'site'. Rename or remove one of them."
    assert error_of(path) == expected
    with pytest.raises(InputError) as caught:
        ScoreFile.open(path).column("site")
    assert str(caught.value) == expected


def test_missing_value_of_a_column_is_reported_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"site": ["x", None]}), path)
    with pytest.raises(InputError, match=r"^a\.parquet: The column 'site' has no value in row 1"):
        ScoreFile.open(path).column("site")


# Files that are not there, not known, not whole -----------------------------------------------


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.arrow", "a.feather", "a.npz"])
def test_missing_file_raises(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    expected = "expected a table or an .npz file. Check the path."
    assert error_of(path) == f"There is no file {str(path)!r}; {expected}"
    path.mkdir()
    assert error_of(path) == f"{str(path)!r} is a folder; {expected}"


@pytest.mark.parametrize("name", ["a.txt", "a", "a.npy", "a.pkl", "a.csv.zip"])
def test_unknown_extension_raises_with_known_ones(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert error_of(tmp_path / name) == (
        f"{name} has an unknown extension. "
        "Known extensions: .parquet, .csv, .csv.gz, .tsv, .jsonl, .ndjson, .arrow, .feather, .npz."
    )


def test_folder_raises(tmp_path: Path) -> None:
    assert error_of(tmp_path).startswith(f"{str(tmp_path)!r} is a folder; expected")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"label;prob_0;prob_1\n0;0,9;0,1\n",
            "has semicolons between its columns; expected commas",
        ),
        (b"label\tprob_0\tprob_1\n0\t0.9\t0.1\n", "has tabs between its columns; expected commas"),
        ("label,prob_0\n0,1\n".encode("utf-16"), "is UTF-16 text. Save it as UTF-8."),
        (b"label,prob_0,prob_1\n\xe9,0.9,0.1\n", "'label' is not UTF-8 text. Save it as UTF-8."),
    ],
)
def test_csv_with_other_delimiters_or_encodings_raises(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    error = error_of(tmp_path / "a.csv")
    assert error.startswith("a.csv")
    assert message in error


BINARY = {key: value for key, value in WRITERS.items() if key != "csv"}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("name", "write"), BINARY.values(), ids=BINARY.keys())
def test_truncated_file_raises(tmp_path: Path, name: str, write: Writer, share: float) -> None:
    path = tmp_path / name
    write(table_of(label=LABELS), path)
    whole = path.read_bytes()
    # The last 8 bytes of an Arrow stream are its end marker, which is optional.
    path.write_bytes(whole[: min(int(share * len(whole)), len(whole) - 9)])
    message = error_of(path)
    assert message.startswith(f"{name} cannot be read as ")
    assert message.endswith(". Is the file complete?")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather", "a.npz"])
@pytest.mark.parametrize("content", [b"no such format\n" * 50, b"\x00" * 500, b"\x80\x04K\x01."])
def test_file_of_another_format_raises(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    message = error_of(tmp_path / name)
    assert message.startswith(f"{name} cannot be read as ")
    assert "Python objects" not in message


@pytest.mark.parametrize("compressed", [False, True])
def test_corrupt_npz_raises(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "a.npz"
    probs = np.random.default_rng(0).dirichlet(np.ones(5), size=3000)
    (np.savez_compressed if compressed else np.savez)(path, probs=probs)
    rotten = bytearray(path.read_bytes())
    for start in (300, 5000, 20_000):
        rotten[start : start + 50] = b"\xa5" * 50
    path.write_bytes(rotten)
    assert error_of(path).startswith("a.npz cannot be read as npz: ")


def test_npy_content_in_an_npz_file_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, PROBS)
    assert error_of(path).startswith("a.npz cannot be read as npz: ")


def test_npz_with_python_objects_raises_without_running_code(tmp_path: Path) -> None:
    path, ran = tmp_path / "a.npz", tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
            return Path.touch, (ran,)

    np.savez(path, allow_pickle=True, probs=PROBS, labels=np.array([Bomb()] * N, dtype=object))
    assert error_of(path) == (
        "a.npz holds Python objects, which are not loaded because loading them can run code. "
        "Save plain arrays: numbers, or text as fixed-width strings."
    )
    assert not ran.exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"scores": PROBS}, "a.npz: Expected one of the arrays probs and logits; got neither. Arrays: scores. Name one with prob_columns='…' or logit_columns='…' (in Python, for estimate: columns={'prob_columns': '…'})."),
        ({"probs": PROBS, "logits": PROBS}, "a.npz: Expected one of the arrays probs and logits; got both. Arrays: probs, logits. Name one with prob_columns='…' or logit_columns='…' (in Python, for estimate: columns={'prob_columns': '…'})."),
        ({"probs": PROBS * 2}, "a.npz: probs must "),
        ({"probs": PROBS, "labels": LABELS[:5]}, "a.npz: There are 40 rows but 5 labels."),
        ({"probs": PROBS, "class_names": np.array("cat")}, "a.npz: There are 12 classes but 1 class names."),
        ({"probs": PROBS[:0]}, "a.npz: probs has no rows; expected at least one."),
        ({"probs": PROBS[0]}, "a.npz: probs must have shape (n, k), one row per example and one column per class; got (12,)."),
    ],
)  # fmt: skip
def test_npz_with_wrong_arrays_raises(
    tmp_path: Path, arrays: dict[str, Array], message: str
) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=False, **arrays)
    assert error_of(tmp_path / "a.npz").startswith(message)


def test_unknown_npz_arrays_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, probs=PROBS, other=PROBS)
    there = "Arrays: probs, other."
    assert error_of(path, prob_columns="mine") == f"a.npz: There is no array 'mine'. {there}"
    assert error_of(path, label_column="truth") == f"a.npz: There is no array 'truth'. {there}"
    both = "a.npz: Both probs and logits are named. Name only one of them."
    assert error_of(path, prob_columns="probs", logit_columns="other") == both


def test_zip_archive_without_arrays_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("probs", "text")
    assert error_of(path).startswith("a.npz: probs must be numbers; got an array of ")


# Tables that are whole but wrong --------------------------------------------------------------


@every_format
def test_file_without_rows_raises(tmp_path: Path, name: str, write: Writer) -> None:
    write(table_of(PROBS[:0]), tmp_path / name)
    assert error_of(tmp_path / name) == f"{name}: probs has no rows; expected at least one."


@every_format
def test_nan_in_row_17_is_reported(tmp_path: Path, name: str, write: Writer) -> None:
    probs = PROBS.copy()
    probs[17, 3] = np.nan
    write(table_of(probs), tmp_path / name)
    expected = (
        f"{name}: The column 'prob_3' has no value in row 17."
        if "csv" in name
        else f"{name}: probs must be finite; row 17, class 3 is nan. Remove or correct such rows."
    )
    assert error_of(tmp_path / name) == expected


@pytest.mark.parametrize("empty", ["", "nan", "NaN", "NA", "null"])
def test_missing_csv_value_is_reported_with_its_row(tmp_path: Path, empty: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prob_0,prob_1\n" + "0.5,0.5\n" * 17 + f"0.5,{empty}\n" + "0.5,0.5\n" * 3)
    assert error_of(path) == "a.csv: The column 'prob_1' has no value in row 17."


@pytest.mark.parametrize("before", [3, 200_000])
def test_text_among_csv_numbers_is_reported(tmp_path: Path, before: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prob_0,prob_1\n" + "0.25,0.75\n" * before + "0.5,oops\n0.5,0.5\n")
    assert error_of(path) == (
        f"a.csv: The column 'prob_1' holds string, not numbers: row {before} is 'oops'. "
        "Correct it, or name other columns."
    )


def test_csv_column_that_begins_with_integers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prob_0,prob_1\n" + "1,0\n" * 400_000 + "0.5,0.5\n")
    assert read_predictions(path).confidence[-1] == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.csv cannot be read as CSV: Empty CSV file. Is the file complete?"),
        ("prob_0,prob_1\n0.5,0.5\n0.5\n", "a.csv cannot be read as CSV: CSV parse error: "),
        ("prob_0,prob_1\n", "a.csv: probs has no rows; expected at least one."),
        ("a,b\n1,2\n", "a.csv: There are no scores"),
        ("prob_0,prob_1\n0.6,0.6\n", "a.csv: probs must sum to 1 in every row; row 0 sums to 1.2"),
        ("prob_0,prob_1,prob_1\n0,1,0\n", "a.csv: The table has more than one column 'prob_1'"),
        ("prob_a,prob_b,label\n0,1,z\n", "a.csv: labels has 'z' in row 0, which is not a class."),
    ],
)
def test_invalid_csv_raises(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert error_of(tmp_path / "a.csv").startswith(message)


def test_csv_that_is_not_utf_8_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("prob_café,prob_thé\n0.5,0.5\n".encode("latin-1"))
    assert error_of(path).startswith("a.csv cannot be read as CSV: 'utf-8' codec can't decode")


def test_unknown_label_column_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(PROBS[:, :2] / PROBS[:, :2].sum(axis=1, keepdims=True)), path)
    expected = "a.parquet: There is no column 'truth' in the table. Columns: prob_0, prob_1."
    assert error_of(path, label_column="truth") == expected


def test_rows_without_a_label_are_counted(tmp_path: Path) -> None:
    for label in ("1", "yes"):
        lines = ["prob_no,prob_yes,label", *[f"0.5,0.5,{label}", "0.5,0.5,"] * 3]
        (tmp_path / "a.csv").write_text("\n".join(lines))
        message = error_of(tmp_path / "a.csv")
        assert "'label' has no label in 3 of 6 rows, the first of which is row 1." in message
