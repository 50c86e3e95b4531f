"""ImageNet-Vid-Robust and YTBB-Robust: anchors, neighbors and labels in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.studies import Study, run
from oodometer.studies.domains.corrupted_groups import get_group
from oodometer.studies.domains.group import DomainGroup, get
from oodometer.studies.domains.label_sets import accept_any_label, accepted_classes
from oodometer.studies.splits import Domain, DomainRows, clear_cache
from oodometer.studies.store import Store
from tests.support.wilds_folders import write_csv, write_image

CLIP = "val/ILSVRC2015_val_00000000"
OTHER = "val/ILSVRC2015_val_00000001"


def class_names(group: DomainGroup, domain: str) -> list[str]:
    labels = group.domain(domain, "test").labels
    assert labels is not None
    return [group.classes[label] for label in labels]


def pixels(group: DomainGroup, domain: str) -> list[int]:
    images = group.domain(domain, "test").take(slice(None))
    return [int(value) for value in np.asarray(images)[:, 0, 0, 0]]


@pytest.fixture
def vid(tmp_path: Path) -> Path:
    """Return a data folder with two clips; the second anchor has two labels."""
    folder = tmp_path / "imagenet-vid-robust"
    frames = [f"{CLIP}/00000{number}.JPEG" for number in range(3)] + [f"{OTHER}/000000.JPEG"]
    for number, frame in enumerate(frames):
        write_image(folder / frame, 20 * number)
    labels = {frames[0]: [26], frames[1]: [26], frames[2]: [26, 4], frames[3]: [5, 6]}
    neighbors = {frames[1]: [frames[0], frames[2]], frames[3]: []}
    names = {str(number): [f"n{number}", f"class{number}"] for number in range(30)}
    names |= {"26": ["n1", "turtle"], "4": ["n2", "bird"], "5": ["n3", "bus"], "6": ["n4", "car"]}
    for path, content in (
        ("metadata/labels.json", labels),
        ("metadata/pmsets.json", neighbors),
        ("misc/imagenet_vid_class_index.json", names),
    ):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    return tmp_path


def label_sets(group: DomainGroup, domain: str) -> list[set[str]]:
    accepted = accepted_classes(group.domain(domain, "test"))
    assert accepted is not None
    return [{group.classes[number] for number in np.flatnonzero(row)} for row in accepted]


def test_frames_are_read_with_all_their_labels(vid: Path) -> None:
    group = get("imagenet-vid-robust", root=vid)
    assert len(group.classes) == 30
    assert class_names(group, "anchors") == ["turtle", "bus"]
    assert label_sets(group, "anchors") == [{"turtle"}, {"bus", "car"}]
    assert pixels(group, "anchors") == [20, 60]
    assert label_sets(group, "neighbors") == [{"turtle"}, {"turtle", "bird"}]
    assert pixels(group, "neighbors") == [0, 40]
    accepted = accepted_classes(group.domain("anchors", "test"))
    selected = accepted_classes(group.domain("anchors", "test").rows(np.array([1])))
    assert accepted is not None
    assert selected is not None
    assert np.array_equal(selected, accepted[1:])


def test_unknown_class_in_a_label_set_is_named(vid: Path) -> None:
    file = vid / "imagenet-vid-robust/metadata/labels.json"
    file.write_text(file.read_text().replace("[5, 6]", "[5, 7]"))
    with pytest.raises(InputError, match="anchors: Row 1 has the label 'class7', which is not a"):
        get("imagenet-vid-robust", root=vid).domain("anchors", "test")


def test_corrupted_frames_keep_their_labels(vid: Path) -> None:
    plain = get("imagenet-vid-robust", root=vid)
    corrupted = get_group("imagenet-vid-robust-c", root=vid)
    assert label_sets(corrupted, "anchors/fog-1") == label_sets(plain, "anchors")


@dataclass(frozen=True)
class Constant:
    """Model that predicts the same class for all images."""

    number: int

    def __call__(self, images: Array) -> Array:
        return np.tile(np.eye(30)[self.number], (len(images), 1))


def write_imagenet(root: Path, group: DomainGroup) -> None:
    """Write training and validation images of the first class."""
    for number in range(12):
        folder = "train" if number < 2 else "val"
        write_image(
            root / f"imagenet/{folder}/{group.members[0][0]}/{number}.JPEG", 20 * number + 7
        )


def test_any_label_of_a_frame_is_correct_in_a_study(vid: Path) -> None:
    """Compare with the literal count: a prediction is right if it is one of the frame's labels."""
    group = get("imagenet-vid-robust", root=vid)
    write_imagenet(vid, group)
    names = ["turtle", "bus", "car", "dog"]
    models = [
        {"name": name, "path": Constant(group.classes.index(name)), "trained_on": "imagenet"}
        for name in names
    ]
    spec = {"name": "frames", "group": "imagenet-vid-robust", "domains": ["anchors"]}
    study = Study.open(
        {**spec, "models": models, "estimators": "none", "metrics": ["error"]}, data=vid
    )
    assert run(study, vid / "store").remaining == 0
    with Store.open(vid / "store") as store:
        rows = store.to_table().to_pylist()
    labels = [{"turtle"}, {"bus", "car"}]
    for name in names:
        accuracy = np.mean([name in frame for frame in labels])
        (row,) = (row for row in rows if row["model"] == name)
        assert (row["measure"], row["n"]) == ("error", 2)
        assert (row["accuracy"], row["value"]) == (accuracy, 1 - accuracy)


def test_key_of_the_rows_depends_on_all_labels(vid: Path) -> None:
    group = get("imagenet-vid-robust", root=vid)
    rows = DomainRows(Domain(group, "anchors"), "test", "anchors")
    before = rows.key
    file = vid / "imagenet-vid-robust/metadata/labels.json"
    file.write_text(file.read_text().replace("[5, 6]", "[5, 26]"))
    clear_cache()
    assert class_names(group, "anchors") == ["turtle", "bus"]
    assert rows.key != before


@pytest.mark.parametrize("turned", [False, True])
def test_label_sets_follow_the_class_order_of_the_model(turned: bool) -> None:
    classes = ["car", "bus", "dog"]
    names = classes[::-1] if turned else classes
    accepted = np.array([[True, True, False], [False, False, True], [True, True, False]])
    probs = np.array([[names.index("bus")], [names.index("bus")], [names.index("dog")]]) == range(3)
    given = Predictions.from_probs(
        probs.astype(float), labels=["car", "dog", "car"], class_names=names
    )
    found = accept_any_label(given, accepted, classes)
    assert found.labels is not None
    assert [names[label] for label in found.labels] == ["bus", "dog", "car"]
    assert found.correct.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("metadata/labels.json", {}, "imagenet-vid-robust/metadata/labels.json has no key 'val/ILSVRC2015_val_00000000/000001.JPEG'; its keys are: none"),
        ("misc/imagenet_vid_class_index.json", {"0": ["n1", "cat"]}, "misc/imagenet_vid_class_index.json has no key '26'; its keys are: 0"),
        ("metadata/pmsets.json", {}, "imagenet-vid-robust/metadata/pmsets.json lists no images for imagenet-vid-robust"),
        ("metadata/pmsets.json", [1], "metadata/pmsets.json must contain an object of keys and values; got [1]"),
        ("metadata/pmsets.json", {"a": None}, "metadata/pmsets.json: 'a' must be a list; got None"),
        ("metadata/labels.json", {"a": 5}, "metadata/labels.json: 'a' must be a list; got 5"),
        ("metadata/labels.json", {"a": [5, "b"]}, "metadata/labels.json: 'a', item 1 must be a whole number; got 'b'"),
        ("misc/imagenet_vid_class_index.json", {"26": "cat"}, "imagenet_vid_class_index.json: '26' must be a list; got 'cat'"),
        ("misc/imagenet_vid_class_index.json", {"26": ["n1"]}, "'26' must be a list of at least 2; got ['n1']"),
    ],
)  # fmt: skip
def test_bad_files_of_vid_robust(vid: Path, file: str, content: Any, why: str) -> None:
    (vid / "imagenet-vid-robust" / file).write_text(json.dumps(content))
    with pytest.raises(InputError, match="imagenet-vid-robust/anchors: ") as caught:
        get("imagenet-vid-robust", root=vid).domain("anchors", "test")
    assert why in str(caught.value)


def test_missing_frame_is_named(vid: Path) -> None:
    (vid / "imagenet-vid-robust" / CLIP / "000001.JPEG").unlink()
    with pytest.raises(InputError, match=r"no image 'val/ILSVRC2015_val_00000000/000001.JPEG' in .*, although imagenet-vid-robust/metadata/pmsets.json lists it"):  # fmt: skip
        get("imagenet-vid-robust", root=vid).domain("anchors", "test")


# YTBB-Robust --------------------------------------------------------------------------------------

MARKS = ["good", "unsure", "bad", "person", "bird", "dog", "cow", "car"]
REVIEWS = ["similar", "dissimilar", "bad-anchor", "blur-increase"]
NAMES = {"0": "person", "1": "bird", "6": "cow", "19": "dog", "22": "none", "23": "car"}


def annotation_file(entries: dict[str, list[str]], names: list[str]) -> str:
    rows = [
        {"key": key, "notes": "", "labels": [names.index(mark) for mark in marks]}
        for key, marks in entries.items()
    ]
    return json.dumps({"annotations": rows, "labels": names})


@pytest.fixture
def ytbb(tmp_path: Path) -> Path:
    """Return a data folder with seven clips; four of the anchors are used."""
    frames = tmp_path / "ytbb-robust/ytbb_videos"
    folder = tmp_path / "ytbb-robust/metadata"
    folder.mkdir(parents=True)
    anchors = {
        "a_b_100/frame-20.jpg": ["good"],  # a dog
        "c_100/frame-5.jpg": ["good", "person"],  # a bird and a person: two labels
        "d_100/frame-5.jpg": ["good", "bad"],
        "e_100/frame-5.jpg": ["good"],  # a cow, which ImageNet does not have
        "f_100/frame-5.jpg": ["good"],  # rejected in the reviews of neighbors
        "g_100/frame-5.jpg": ["good"],  # a car: its number is exchanged with that of "none"
        "h_100/frame-5.jpg": ["good", "cow"],  # a person and a cow
    }
    original = {"a_b": 19, "c": 1, "d": 0, "e": 6, "f": 0, "g": 22, "h": 0}
    write_csv(
        folder / "ytbb_robustness_test_anchors_full.csv",
        [{"ytid": video, "time_ms": 100, "label": label} for video, label in original.items()],
    )
    pairs = {
        "a_b_100/frame-20.jpg,videos/a_b_100/frame-19.jpg": ["similar"],
        "a_b_100/frame-20.jpg,a_b_100/frame-10.jpg": ["similar"],
        "a_b_100/frame-20.jpg,a_b_100/frame-9.jpg": ["similar"],  # eleven frames away
        "a_b_100/frame-20.jpg,a_b_100/frame-21.jpg": ["similar", "blur-increase"],
        "a_b_100/frame-20.jpg,a_b_100/frame-22.jpg": ["dissimilar"],
        "f_100/frame-5.jpg,f_100/frame-6.jpg": ["similar", "bad-anchor"],
    }
    (folder / "anchor_labels.json").write_text(annotation_file(anchors, MARKS))
    (folder / "pmk_labels.json").write_text(annotation_file(pairs, REVIEWS))
    (folder / "ytbb_class_index.json").write_text(json.dumps(NAMES))
    for number, anchor in enumerate(anchors):
        write_image(frames / anchor, 10 * number)
    for number in (9, 10, 19, 21, 22):
        write_image(frames / "a_b_100" / f"frame-{number}.jpg", 100 + number)
    return tmp_path


def test_reviewed_anchors_with_a_known_class_are_read(ytbb: Path) -> None:
    group = get("ytbb-robust", root=ytbb)
    assert label_sets(group, "anchors") == [{"dog"}, {"bird", "person"}, {"car"}, {"person"}]
    assert class_names(group, "anchors") == ["dog", "bird", "car", "person"]
    assert pixels(group, "anchors") == [0, 10, 50, 60]


def test_neighbors_are_similar_and_near(ytbb: Path) -> None:
    group = get("ytbb-robust", root=ytbb)
    assert class_names(group, "neighbors") == ["dog", "dog"]
    assert pixels(group, "neighbors") == [110, 119]


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("anchor_labels.json", '"labels": ["good"', '"names": ["good"', "anchor_labels.json has no key 'labels'; its keys are: annotations, names"),
        ("anchor_labels.json", '"labels": [0]', '"labels": [99]', "a_b_100/frame-20.jpg has the labels [99]; expected numbers from 0 to 7"),
        ("anchor_labels.json", "a_b_100/", "z_100/", "ytbb_robustness_test_anchors_full.csv (column ytid and time_ms) has no key 'z_100'"),
        ("ytbb_robustness_test_anchors_full.csv", '"label"', '"class"', "anchors_full.csv has no column 'label'; its columns are: ytid, time_ms, class"),
        ("anchor_labels.json", '"labels": [0]', '"labels": 0', "anchor_labels.json, labels of an annotation must be a list; got 0"),
        ("anchor_labels.json", '{"key"', '7, {"key"', "anchor_labels.json, annotations: item 0 must be a table; got 7"),
        ("pmk_labels.json", '"key"', '"name"', "pmk_labels.json, an annotation has no key 'key'; its keys are: name, notes, labels"),
        ("ytbb_class_index.json", '"dog"', "[]", "ytbb_class_index.json: '19' must be a text; got []"),
        ("ytbb_class_index.json", '"19"', '"18"', "ytbb_class_index.json has no key '19'; its keys are: 0, 1, 6, 18"),
        ("pmk_labels.json", "frame-20.jpg,videos", "frame-20.jpg;videos", "must be a pair: anchor,frame"),
        ("pmk_labels.json", "frame-10.jpg", "ten.jpg", "Frames must be called frame-<number>.jpg"),
    ],
)  # fmt: skip
def test_bad_files_of_ytbb_robust(ytbb: Path, file: str, old: str, new: str, why: str) -> None:
    path = ytbb / "ytbb-robust/metadata" / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        get("ytbb-robust", root=ytbb).domain("anchors", "test")
    assert why in str(caught.value)


def test_labels_of_anchors_without_rows(ytbb: Path) -> None:
    path = ytbb / "ytbb-robust/metadata/ytbb_robustness_test_anchors_full.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"\(column ytid and time_ms\) has no key 'a_b_100'; its keys are: none"):  # fmt: skip
        get("ytbb-robust", root=ytbb).domain("anchors", "test")
