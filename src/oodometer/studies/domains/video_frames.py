"""Readers of ImageNet-Vid-Robust and YTBB-Robust (Shankar et al. 2019): frames of video clips.

Each clip is a folder of frames. One frame of a clip is the anchor, and up to ten frames before and
after it, which look similar to people, are its neighbors. The domain of anchors is the benign test
set of the paper.

A frame can have several labels in the files, of which any counts as correct (`label_sets.py`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.studies._toml import Field, validate_type
from oodometer.studies.domains._reader import ImageSize, require_file
from oodometer.studies.domains.class_lists import get_class_list
from oodometer.studies.domains.image_files import ImageFiles, open_image_files
from oodometer.studies.domains.imagenet_folders import read_json, require_folder, require_key

Frames = Literal["anchors", "neighbors", "all"]
# WordNet id and name of a class.
ClassEntry = Annotated[list[str], Field(min_length=2)]
# Classes of each frame, keyed by the path of the frame.
FrameLabels = dict[str, set[str]]
# Maximum distance of a neighbor from its anchor, in frames.
MAX_DISTANCE = 10
# Annotations with which reviewers rejected a neighbor in YTBB-Robust.
REJECTED = {
    "dissimilar", "problematic", "incorrect", "dont know", "deformation", "background-change",
    "occlusion-increased", "blur-increase", "bad-anchor",
}  # fmt: skip


@dataclass(frozen=True)
class VidRobustReader:
    """Reader of ImageNet-Vid-Robust; frames are read on access.

    path      folder of the dataset
    frames    "anchors", "neighbors" (frames near an anchor, without it) or "all"

    `metadata/labels.json` has the class numbers of each frame, `metadata/pmsets.json` the neighbors
    of each anchor, and `misc/imagenet_vid_class_index.json` the WordNet id and the name of each
    class.
    """

    kind: ClassVar[InputKind] = "images"
    labels_file: ClassVar[str] = "metadata/labels.json"
    neighbors_file: ClassVar[str] = "metadata/pmsets.json"
    names_file: ClassVar[str] = "misc/imagenet_vid_class_index.json"
    images: ClassVar[str] = "val"

    path: str
    frames: Frames = "anchors"

    @property
    def files(self) -> tuple[str, ...]:
        names = (self.labels_file, self.neighbors_file, self.names_file, self.images)
        return tuple(f"{self.path}/{name}" for name in names)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the frames and their labels, without reading the frames."""
        labels_file, neighbors_file, names_file, _ = self.files
        numbers = read_json(root, labels_file, dict[str, list[int]])
        neighbors = read_json(root, neighbors_file, dict[str, list[str]])
        entries = read_json(root, names_file, dict[str, ClassEntry])
        names = {number: entry[1] for number, entry in entries.items()}
        labels = {
            frame: {
                require_key(names, str(number), names_file)
                for number in require_key(numbers, frame, labels_file)
            }
            for frame in _choose_frames(neighbors, self.frames)
        }
        return _open_frames(
            self.path, require_folder(root, self.path), labels, size, listed_in=neighbors_file
        )


@dataclass(frozen=True)
class YtbbRobustReader:
    """Reader of YTBB-Robust; frames are read on access.

    path          folder of the frames: <video>_<milliseconds>/frame-<number>.jpg
    annotations   folder of the annotations
    frames        "anchors", "neighbors" (frames near an anchor, without it) or "all"

    The folder of annotations has four files. `anchor_labels.json` has the labels that reviewers
    added to the anchors, `ytbb_robustness_test_anchors_full.csv` the original label of each anchor,
    `ytbb_class_index.json` the names of the classes, and `pmk_labels.json` the reviews of the
    neighbors. An anchor is used if reviewers call it good, and a neighbor if they call it similar.
    Frames whose class ImageNet does not have (cow, giraffe, skateboard, toilet) are left out.
    """

    kind: ClassVar[InputKind] = "images"
    names_file: ClassVar[str] = "ytbb_class_index.json"
    anchors_file: ClassVar[str] = "anchor_labels.json"
    original_file: ClassVar[str] = "ytbb_robustness_test_anchors_full.csv"
    reviews_file: ClassVar[str] = "pmk_labels.json"
    # Two class numbers are exchanged in the file of original labels.
    exchanged: ClassVar[Mapping[str, str]] = {"22": "23", "23": "22"}

    path: str
    annotations: str
    frames: Frames = "anchors"

    @property
    def files(self) -> tuple[str, ...]:
        names = (self.names_file, self.anchors_file, self.original_file, self.reviews_file)
        return self.path, *(f"{self.annotations}/{name}" for name in names)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the frames and their labels, without reading the frames."""
        _, names_file, anchors_file, _, reviews_file = self.files
        names = read_json(root, names_file, dict[str, str])
        reviews = _read_annotations(root, reviews_file)
        rejected_anchors = {
            _split_pair(pair, reviews_file)[0]
            for pair, marks in reviews.items()
            if "bad-anchor" in marks
        }
        labels = {
            anchor: (marks & set(names.values())) | original
            for anchor, marks, original in self._read_anchors(root, names)
            if "good" in marks and not marks & {"bad", "unsure"} and anchor not in rejected_anchors
        }
        neighbors = _similar_frames(reviews, labels, reviews_file)
        known = set(get_class_list("ytbb-robust").names)
        chosen = {
            frame: labels[anchor] & known
            for anchor in labels
            for frame in _choose_frames({anchor: neighbors[anchor]}, self.frames)
        }
        folder = require_folder(root, self.path)
        return _open_frames(self.path, folder, chosen, size, listed_in=anchors_file)

    def _read_anchors(
        self, root: Path, names: Mapping[str, str]
    ) -> list[tuple[str, set[str], set[str]]]:
        """Return each anchor with the marks of its reviewers and its original class."""
        _, names_file, anchors_file, original_file, _ = self.files
        original = self._read_original_numbers(root, original_file)
        anchors = []
        for anchor, marks in _read_annotations(root, anchors_file).items():
            clip = anchor.split("/")[0]
            number = require_key(original, clip, f"{original_file} (column ytid and time_ms)")
            name = require_key(dict(names), self.exchanged.get(number, number), names_file)
            anchors.append((anchor, marks, {name}))
        return anchors

    def _read_original_numbers(self, root: Path, file: str) -> dict[str, str]:
        with require_file(root, file).open(newline="", encoding="utf-8") as opened:
            reader = csv.DictReader(opened)
            rows, columns = list(reader), reader.fieldnames or ()
        for column in ("ytid", "time_ms", "label"):
            if column not in columns:
                found = ", ".join(columns) or "none"
                raise InputError(f"{file} has no column {column!r}; its columns are: {found}.")
        return {f"{row['ytid']}_{row['time_ms']}": row["label"] for row in rows}


def _read_annotations(root: Path, file: str) -> dict[str, set[str]]:
    """Return the names of the marks of each annotated frame; later annotations replace earlier."""
    content = read_json(root, file, dict[str, list[Any]])
    names = require_key(content, "labels", file)
    annotations = require_key(content, "annotations", file)
    marks = {}
    for entry in validate_type(list[dict[str, Any]], annotations, f"{file}, annotations"):
        place = f"{file}, an annotation"
        numbers = require_key(entry, "labels", place)
        numbers = validate_type(list[int], numbers, f"{file}, labels of an annotation")
        pair = validate_type(str, require_key(entry, "key", place), f"{file}, key of an annotation")
        key = ",".join(map(_short_path, pair.split(",")))
        if any(not 0 <= number < len(names) for number in numbers):
            raise InputError(
                f"{file}: {key} has the labels {numbers}; expected numbers from 0 to "
                f"{len(names) - 1}."
            )
        marks[key] = {str(names[number]) for number in numbers}
    return marks


def _short_path(path: str) -> str:
    """Return the folder and the name of a frame.

    >>> _short_path("videos/KxDh7a8_AmU_44666/frame-1117.jpg")
    'KxDh7a8_AmU_44666/frame-1117.jpg'
    """
    return "/".join(path.split("/")[-2:])


def _split_pair(pair: str, file: str) -> tuple[str, str]:
    anchor, comma, frame = pair.partition(",")
    if not comma:
        raise InputError(f"{file}: the key {pair!r} must be a pair: anchor,frame.")
    return anchor, frame


def _similar_frames(
    reviews: Mapping[str, set[str]], anchors: Iterable[str], file: str
) -> dict[str, list[str]]:
    """Return the accepted neighbors of each anchor."""
    neighbors: dict[str, list[str]] = {anchor: [] for anchor in anchors}
    for pair, marks in reviews.items():
        anchor, frame = _split_pair(pair, file)
        accepted = "similar" in marks and not marks & REJECTED
        if anchor in neighbors and accepted and _distance(anchor, frame) <= MAX_DISTANCE:
            neighbors[anchor].append(frame)
    return neighbors


def _distance(anchor: str, frame: str) -> int:
    """Return the distance between two frames of a clip.

    >>> _distance("clip/frame-1117.jpg", "clip/frame-1110.jpg")
    7
    """
    numbers = [path.rpartition("-")[2].split(".")[0] for path in (anchor, frame)]
    if not all(number.isdigit() for number in numbers):
        raise InputError(f"Frames must be called frame-<number>.jpg; got {anchor} and {frame}.")
    return abs(int(numbers[0]) - int(numbers[1]))


def _choose_frames(neighbors: Mapping[str, Any], frames: Frames) -> list[str]:
    """Return the paths of the anchors, of their neighbors, or of both."""
    chosen: dict[str, None] = {}
    for anchor, others in neighbors.items():
        if frames != "neighbors":
            chosen[anchor] = None
        if frames != "anchors":
            chosen.update(dict.fromkeys(others))
    return list(chosen)


def _open_frames(
    name: str, folder: Path, labels: Mapping[str, set[str]], size: ImageSize, *, listed_in: str
) -> ImageFiles:
    """Return the dataset of the frames that have a label, sorted by path.

    The label of a frame is its first one in alphabetical order; `label_sets` has all of them.
    """
    labelled = sorted((frame, frozenset(names)) for frame, names in labels.items() if names)
    files = [frame for frame, _ in labelled]
    first = np.array([min(names) for _, names in labelled])
    frames = open_image_files(name, folder, files, first, size=size, listed_in=listed_in)
    return replace(frames, label_sets=tuple(names for _, names in labelled))
