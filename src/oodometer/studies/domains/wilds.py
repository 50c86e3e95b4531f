"""Readers of six datasets of WILDS (Koh et al. 2021), in the folders of the `wilds` package.

The metadata files say which images or texts exist, and they have the labels, the splits and the
domains (hospital, year and region, camera location, experiment, reviewer, identity). `table` is
what a dataset contributes: it returns the metadata with the columns `input`, `label` and `split`,
in which the splits have the names of the package: train, id_val, id_test, val and test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, UnknownName, format_error
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import require
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.domains._reader import ImageSize, matching_rows, require_file
from oodometer.studies.domains.array_files import RowFilters
from oodometer.studies.domains.class_lists import get_class_list
from oodometer.studies.domains.image_files import open_image_files

WILDS_SPLITS = ("train", "id_val", "id_test", "val", "test")
# Numbers of splits in the files of Camelyon17 and Amazon.
CAMELYON_SPLITS = {0: "train", 1: "id_val"}
CAMELYON_HOSPITAL_SPLITS = {1: "val", 2: "test"}
AMAZON_SPLITS = {0: "train", 1: "val", 2: "id_val", 3: "test", 4: "id_test"}
# First years of the validation set and of the test set of FMoW.
FMOW_VAL_YEAR, FMOW_TEST_YEAR = 2013, 2016
CIVIL_IDENTITIES = (
    "male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white",
)  # fmt: skip
# Maximum number of metadata tables that a process keeps in memory.
MAX_CACHED_TABLES = 2


@dataclass(frozen=True)
class WildsDataset:
    """Layout of one dataset of WILDS.

    kind      kind of inputs: images or text
    columns   columns that each file must have, keyed by the path of the file in the folder; the
              first file is the metadata file
    table     function that builds the table of rows from the frames of these files
    label     column of the labels
    classes   labels in the files, in the order of the classes
    images    folder of the images, or None if the inputs are texts
    strings   columns whose values are not to be parsed as numbers
    square    whether images that are not square are resized without keeping their proportions, as
              in the `wilds` package; the images of the other datasets are square
    """

    kind: InputKind
    columns: Mapping[str, tuple[str, ...]]
    table: Callable[[Mapping[str, Any]], Any]
    label: str
    classes: Sequence[int] | Sequence[str]
    images: str | None = None
    strings: tuple[str, ...] = ()
    square: bool = False

    @property
    def metadata(self) -> str:
        """Path of the metadata file, relative to the folder of the dataset."""
        return next(iter(self.columns))


@dataclass(frozen=True)
class WildsReader:
    """Reader of a dataset of WILDS; images are read on access.

    path      folder of the dataset, such as camelyon17_v1.0
    dataset   "camelyon17", "fmow", "iwildcam", "rxrx1", "amazon" or "civilcomments"
    split     names of the splits that are read: train, id_val, id_test, val, test; None reads all
    where     required values of columns of the metadata; only rows that have all of them are read

    FMoW also has the columns `region` and `year`, which are computed as in the package. The identity
    columns of CivilComments are 1 if at least half of the annotators say that the comment mentions
    the identity, and 0 otherwise.
    """

    path: str
    dataset: str
    split: str | tuple[str, ...] | None = None
    where: RowFilters = ()

    @property
    def kind(self) -> InputKind:
        return self._layout.kind

    @property
    def files(self) -> tuple[str, ...]:
        images = () if self._layout.images is None else (self._layout.images,)
        return tuple(f"{self.path}/{name}" for name in (*self._layout.columns, *images))

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the rows of the splits that meet all conditions."""
        layout = self._layout
        table = read_wilds_table(root, self.path, self.dataset)
        metadata = f"{self.path}/{layout.metadata}"
        table = table[self._select(table, metadata)]
        labels = table["label"].to_numpy()
        if layout.kind == "text":
            return InMemoryDataset(self.path, list(table["input"]), labels)
        folder = require_file(root, self.path)
        files = list(table["input"])
        return open_image_files(
            self.path,
            folder,
            files,
            labels,
            size=size,
            listed_in=metadata,
            square=layout.square,
        )

    @property
    def _layout(self) -> WildsDataset:
        if self.dataset not in WILDS_DATASETS:
            raise UnknownName("WILDS dataset", self.dataset, WILDS_DATASETS)
        return WILDS_DATASETS[self.dataset]

    def _select(self, table: Any, metadata: str) -> Array:
        rows = np.ones(len(table), dtype=np.bool_)
        conditions = [*self.where]
        if self.split is not None:
            names = (self.split,) if isinstance(self.split, str) else self.split
            for name in names:
                if name not in WILDS_SPLITS:
                    raise UnknownName("split of WILDS", name, WILDS_SPLITS)
            conditions.insert(0, ("split", names))
        for column, accepted in conditions:
            if column not in table:
                raise _missing_column(metadata, column, table.columns)
            try:
                rows &= matching_rows(table[column].to_numpy(), accepted, column)
            except InputError as error:
                raise InputError(f"{metadata}: {error}") from error
        if not rows.any():
            raise InputError(
                f"{metadata}: no row meets all conditions on "
                f"{', '.join(column for column, _ in conditions)}. Remove a condition."
            )
        return rows


def read_wilds_table(root: Path, path: str, dataset: str) -> Any:
    """Return the metadata of a dataset with the columns `input`, `label` and `split`."""
    paths = tuple(require_file(root, f"{path}/{name}") for name in WILDS_DATASETS[dataset].columns)
    stamps = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in paths)
    return _read_wilds_table(path, dataset, paths, stamps)


@lru_cache(maxsize=MAX_CACHED_TABLES)
def _read_wilds_table(
    path: str, dataset: str, paths: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]
) -> Any:  # fmt: skip
    layout = WILDS_DATASETS[dataset]
    frames = {
        name: _read_csv(file, f"{path}/{name}", columns, layout)
        for (name, columns), file in zip(layout.columns.items(), paths, strict=True)
    }
    metadata = f"{path}/{layout.metadata}"
    if frames[layout.metadata].empty:
        raise InputError(f"{metadata} has no rows; expected one row per image or text.")
    try:
        table = layout.table(frames)
    except InputError as error:
        raise InputError(f"{path}/{error}") from error
    _check_splits(table, metadata)
    return _encode_labels(table, layout, metadata)


def _read_csv(file: Path, name: str, columns: tuple[str, ...], layout: WildsDataset) -> Any:
    """Read a CSV file; raise if it cannot be parsed or if a column is missing."""
    pandas = require("pandas", extra="studies", purpose="Reading WILDS")
    try:
        frame = pandas.read_csv(
            file,
            dtype=dict.fromkeys(layout.strings, str),
            keep_default_na=False,
            na_values=[],
        )
    except (ValueError, OSError) as error:  # errors of the parser are ValueErrors
        raise InputError(
            f"Cannot read {name} as CSV: {format_error(error, first_line=True)}. Download it again."
        ) from error
    for column in columns:
        if column not in frame:
            needed = f" Required columns: {', '.join(columns)}."
            raise _missing_column(name, column, frame.columns, needed)
    return frame


def _missing_column(file: str, column: str, columns: Iterable[Any], needed: str = "") -> InputError:
    # Pandas calls the column of row numbers, which has no name in the files, "Unnamed: 0".
    found = ", ".join(str(name) for name in columns if not str(name).startswith("Unnamed: "))
    return InputError(f"{file} has no column {column!r}; its columns are: {found}.{needed}")


def _check_splits(table: Any, metadata: str) -> None:
    """Raise if a row has an unknown split; rows with an empty split are in no split."""
    unknown = ~table["split"].isin([*WILDS_SPLITS, ""]).to_numpy()
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(
            f"{metadata}, row {table.index[row]}: the split is {table['split'].iloc[row]!r}; expected one of "
            f"{', '.join(WILDS_SPLITS)}."
        )


def _encode_labels(table: Any, layout: WildsDataset, metadata: str) -> Any:
    """Return the table with class numbers as labels; raise if a label is unknown."""
    numbers = table["label"].map({label: number for number, label in enumerate(layout.classes)})
    unknown = numbers.isna().to_numpy()
    if unknown.any():
        row, classes = int(np.argmax(unknown)), layout.classes
        raise InputError(
            f"{metadata}, row {table.index[row]}: the column {layout.label!r} has the label "
            f"{table['label'].iloc[row]!r}; expected one of the {len(classes)} classes from "
            f"{classes[0]!r} to {classes[-1]!r}."
        )
    return table.assign(label=numbers.astype(np.int64))


def _to_numbers(frame: Any, file: str, column: str) -> Any:
    """Return a column as numbers; raise if a value is not a number."""
    pandas = require("pandas", extra="studies", purpose="Reading WILDS")
    numbers = pandas.to_numeric(frame[column], errors="coerce")
    bad = numbers.isna().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{file}, row {row}: the column {column!r} has the value "
            f"{frame[column].iloc[row]!r}; expected a number."
        )
    return numbers


# Datasets ---------------------------------------------------------------------------------------


def _camelyon17_table(frames: Mapping[str, Any]) -> Any:
    """Patches of lymph nodes: hospitals 1 and 2 are held out."""
    table = frames["metadata.csv"].copy()
    node = "patient_" + table["patient"] + "_node_" + table["node"].astype(str)
    place = "_x_" + table["x_coord"].astype(str) + "_y_" + table["y_coord"].astype(str)
    table["input"] = "patches/" + node + "/patch_" + node + place + ".png"
    table["label"] = table["tumor"]
    splits = table["split"].map(CAMELYON_SPLITS)
    held_out = table["center"].map(CAMELYON_HOSPITAL_SPLITS)
    table["split"] = held_out.fillna(splits).fillna(table["split"].astype(str))
    return table


def _fmow_table(frames: Mapping[str, Any]) -> Any:
    """Satellite images: years from 2013 on are the validation set, from 2016 on the test set."""
    pandas = require("pandas", extra="studies", purpose="Reading WILDS")
    table = frames["rgb_metadata.csv"].copy()
    codes = frames["country_code_mapping.csv"]
    regions = dict(zip(codes["alpha-3"], codes["region"], strict=True))
    table["region"] = [regions.get(code, "Other") for code in table["country_code"]]
    times = pandas.to_datetime(table["timestamp"], utc=True, errors="coerce", format="ISO8601")
    if times.isna().any():
        row = int(np.argmax(times.isna()))
        raise InputError(
            f"rgb_metadata.csv, row {row}: the column 'timestamp' has the value "
            f"{table['timestamp'].iloc[row]!r}; expected a time such as 2015-03-20T10:00:00Z."
        )
    table["year"] = times.dt.year
    # The row numbers include the images of the split "seq", which are not published.
    table["input"] = [f"images/rgb_img_{row}.png" for row in range(len(table))]
    table["label"] = table["category"]
    table["split"] = _fmow_splits(table["split"].to_numpy(), table["year"].to_numpy())
    return table[frames["rgb_metadata.csv"]["split"] != "seq"]


def _fmow_splits(parts: Array, years: Array) -> Array:
    """Return the split of each row; rows of later years are used only in their own split."""
    early = years < FMOW_VAL_YEAR
    late = years >= FMOW_TEST_YEAR
    known = np.isin(parts, ("train", "val", "test", "seq"))
    splits = np.where(known, "", parts).astype(object)
    for part, rows, name in (
        ("train", early, "train"),
        ("val", early, "id_val"),
        ("test", early, "id_test"),
        ("val", ~early & ~late, "val"),
        ("test", late, "test"),
    ):
        splits[(parts == part) & rows] = name
    return splits


def _iwildcam_table(frames: Mapping[str, Any]) -> Any:
    """Images of camera traps: locations are held out."""
    table = frames["metadata.csv"].copy()
    table["input"] = "train/" + table["filename"]
    table["label"] = table["y"]
    return table


def _rxrx1_table(frames: Mapping[str, Any]) -> Any:
    """Images of cells: experiments are held out, and site 2 of the others is the ID test set."""
    table = frames["metadata.csv"].copy()
    plate = "images/" + table["experiment"] + "/Plate" + table["plate"].astype(str)
    site = table["site"].astype(str)
    table["input"] = plate + "/" + table["well"] + "_s" + site + ".png"
    table["label"] = table["sirna_id"]
    second_site = (table["dataset"] == "train") & (site == "2")
    table["split"] = table["dataset"].where(~second_site, "id_test")
    return table


def _amazon_table(frames: Mapping[str, Any]) -> Any:
    """Reviews with one to five stars: reviewers are held out."""
    reviews, splits = frames["reviews.csv"], frames["splits/user.csv"]
    if len(reviews) != len(splits):
        raise InputError(
            f"splits/user.csv has {len(splits)} rows, and reviews.csv has {len(reviews)}; expected "
            "equal numbers. Do the files belong together?"
        )
    used = splits["split"] != -1
    table = reviews[used].copy()
    table["input"] = table["reviewText"]
    table["label"] = table["overall"]
    numbers = splits["split"][used]
    table["split"] = numbers.map(AMAZON_SPLITS).fillna(numbers.astype(str))
    return table


def _civilcomments_table(frames: Mapping[str, Any]) -> Any:
    """Comments that are toxic or not; subpopulations mention an identity."""
    file = "all_data_with_identities.csv"
    table = frames[file].copy()
    for identity in CIVIL_IDENTITIES:
        table[identity] = (_to_numbers(table, file, identity) >= 0.5).astype(int)
    table["input"] = table["comment_text"]
    table["label"] = (_to_numbers(table, file, "toxicity") >= 0.5).astype(int)
    return table


WILDS_DATASETS = {
    "camelyon17": WildsDataset(
        kind="images",
        columns={
            "metadata.csv": ("patient", "node", "x_coord", "y_coord", "tumor", "center", "split")
        },
        table=_camelyon17_table,
        label="tumor",
        classes=range(2),
        images="patches",
        strings=("patient",),
    ),
    "fmow": WildsDataset(
        kind="images",
        columns={
            "rgb_metadata.csv": ("split", "category", "timestamp", "country_code"),
            "country_code_mapping.csv": ("alpha-3", "region"),
        },
        table=_fmow_table,
        label="category",
        classes=get_class_list("fmow").names,
        images="images",
        strings=("category", "timestamp", "country_code"),
    ),
    "iwildcam": WildsDataset(
        kind="images",
        columns={"metadata.csv": ("filename", "y", "split", "location_remapped")},
        table=_iwildcam_table,
        label="y",
        classes=range(182),
        images="train",
        strings=("filename",),
        square=True,
    ),
    "rxrx1": WildsDataset(
        kind="images",
        columns={
            "metadata.csv": (
                "dataset", "experiment", "cell_type", "plate", "well", "site", "sirna_id",
            )
        },
        table=_rxrx1_table,
        label="sirna_id",
        classes=range(1139),
        images="images",
        strings=("experiment", "well"),
    ),
    "amazon": WildsDataset(
        kind="text",
        columns={
            "reviews.csv": ("reviewerID", "category", "reviewYear", "overall", "reviewText"),
            "splits/user.csv": ("split",),
        },
        table=_amazon_table,
        label="overall",
        classes=range(1, 6),
        strings=("reviewerID", "reviewText", "category"),
    ),
    "civilcomments": WildsDataset(
        kind="text",
        columns={
            "all_data_with_identities.csv": (
                "comment_text", "split", "toxicity", *CIVIL_IDENTITIES,
            )
        },
        table=_civilcomments_table,
        label="toxicity",
        classes=range(2),
        strings=("comment_text",),
    ),
}  # fmt: skip
