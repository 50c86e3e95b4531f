"""Domain groups: opening, splitting, resizing, and missing files."""

from __future__ import annotations

import json
import pickle
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.studies.domains import group as groups
from oodometer.studies.domains.group import DomainGroup, available, get, open_group
from oodometer.studies.domains.synthetic import Rotated

SITES = """
[groups.sites]
classes = ["cat", "dog"]
[groups.sites.domains.north]
reader = "folder"
path = "north/"
[groups.sites.domains.south]
reader = "folder"
path = "south/"
test = "south_test/"
"""
NONE = RowStreams(0, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))


def picture(seed: int, side: int = 6) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def folder(path: Path, first: int, n: int, *, names: tuple[str, ...] = ("cat", "dog"), side: int = 6) -> None:  # fmt: skip
    for name in names:
        (path / name).mkdir(parents=True)
    for row in range(n):
        Image.fromarray(picture(first + row, side)).save(path / names[row % len(names)] / f"{row}.png")  # fmt: skip


@pytest.fixture
def sites(tmp_path: Path) -> DomainGroup:
    folder(tmp_path / "north", 0, 60)
    folder(tmp_path / "south", 100, 6)
    folder(tmp_path / "south_test", 200, 4)
    (tmp_path / "sites.toml").write_text(SITES)
    return open_group(tmp_path / "sites.toml")


def labels_of(data: Dataset) -> list[int]:
    assert data.labels is not None
    return list(data.labels.tolist())


def test_held_out_rows_are_chosen_by_content(sites: DomainGroup) -> None:
    train, test = (sites.domain("north", split) for split in ("train", "test"))
    assert (sites.name, sites.kind, sites.domains) == ("sites", "images", ("north", "south"))
    assert train.name == test.name == "sites/north"
    assert len(train) + len(test) == 60
    assert 4 <= len(test) <= 24
    assert not set(train.keys.tolist()) & set(test.keys.tolist())
    assert set(labels_of(train)) == {0, 1}


def test_files_for_testing_are_used_completely(sites: DomainGroup) -> None:
    assert labels_of(sites.domain("south", "train")) == [0, 0, 0, 1, 1, 1]
    assert labels_of(sites.domain("south", "test")) == [0, 0, 1, 1]
    found = sites.domain("south", "test").take(slice(None))
    assert np.array_equal(found, [picture(200 + row) for row in (0, 2, 1, 3)])


def test_groups_can_be_pickled_and_compared(sites: DomainGroup) -> None:
    sites.domain("north", "train")
    again = pickle.loads(pickle.dumps(sites))
    assert again == sites
    assert again.domain("north", "test").fingerprint == sites.domain("north", "test").fingerprint


def test_group_from_a_dict_with_its_own_root(sites: DomainGroup, tmp_path: Path) -> None:
    table = tomllib.loads(SITES)
    assert open_group(table, root=tmp_path) == sites
    table["groups"]["sites"]["root"] = str(tmp_path)
    assert open_group(table).domain("south", "train").fingerprint == sites.domain("south", "train").fingerprint  # fmt: skip
    table["groups"]["other"] = table["groups"]["sites"]
    with pytest.raises(InputError, match=r"There are 2 groups: sites, other\. Choose one"):
        open_group(table)
    assert open_group(table, name="other").name == "other"
    with pytest.raises(
        UnknownName, match=r"No domain group is called 'othr'\. Did you mean 'other'"
    ):
        open_group(table, name="othr")


def test_unknown_names_list_the_known_ones(sites: DomainGroup) -> None:
    with pytest.raises(UnknownName, match=r"No domain of sites is called 'nort'. Did you mean 'north'\?"):  # fmt: skip
        sites.domain("nort", "train")
    with pytest.raises(UnknownName, match="No split is called 'dev'"):
        sites.domain("north", "dev")  # type: ignore[arg-type]
    with pytest.raises(
        UnknownName, match=r"No domain group is called 'pac'. Did you mean 'pacs'\?"
    ):
        get("pac")


def test_missing_files_are_named(tmp_path: Path) -> None:
    group = open_group(tomllib.loads(SITES), root=tmp_path)
    folder(tmp_path / "north", 0, 60)
    assert (group.available_domains, group.missing_reason("north")) == (("north",), None)
    why = f"sites/south: there is no 'south/' (and 1 more file) in {tmp_path}; copy it there."
    assert group.missing_reason() == group.missing_reason("north", "south") == why
    with pytest.raises(InputError, match="there is no 'south/'"):
        group.domain("south", "train")


def test_built_in_groups_name_their_missing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_FOLDER_VARIABLE, raising=False)
    why = (
        "pacs/photo: set OODOMETER_DATA to the folder that has 'pacs/pacs32.npz', or 'PACS/photo'."
    )
    assert get("pacs").missing_reason("photo") == why
    assert "derived from another domain: numbers/mnist: set" in str(
        get("rotated-mnist").missing_reason()
    )
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, "/nowhere")
    assert "there is no 'pacs/pacs32.npz', or" in str(get("pacs").missing_reason())
    assert all(group.missing_reason() for group in available())
    assert (
        len({group.name for group in available()})
        == len(available())
        == len(groups.available_names())
    )
    assert all(group.about for group in available())


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        ({"classes": ["cat", "cow"]}, "sites/north: labels has 'dog' in row 30"),
        ({"kind": "vectors"}, "The files hold images, and the kind of the group is vectors. Set kind = 'images'"),
        ({"domains": {"north": {"reader": "folder", "path": "north", "share": 1.0}}}, "None of the 60 rows is in the split 'train'"),
        ({"domains": {"north": {"reader": "folder", "path": "empty"}}}, "have no images"),
        ({"domains": {"north": {"reader": "folder", "path": "sites.toml"}}}, "is a file; expected a folder"),
    ],
)  # fmt: skip
def test_invalid_data_is_reported_with_the_domain(
    sites: DomainGroup, tmp_path: Path, break_it: dict[str, Any], why: str
) -> None:
    (tmp_path / "empty").mkdir()
    table = tomllib.loads(SITES)
    table["groups"]["sites"] |= break_it
    with pytest.raises(InputError, match="sites/north: ") as caught:
        open_group(table, root=tmp_path).domain("north", "train")
    assert why in str(caught.value)


def test_images_are_resized_to_the_shape_of_the_group(tmp_path: Path) -> None:
    folder(tmp_path / "large", 0, 4, side=9)
    np.savez(tmp_path / "grey.npz", x=np.full((9, 4, 4), 50, dtype=np.uint8), y=np.arange(9) % 2)
    share = {"share": 1.0}
    table = {
        "classes": ["cat", "dog"],
        "shape": [6, 6, 3],
        "domains": {
            "large": {"reader": "folder", "path": "large", **share},
            "grey": {"reader": "npz", "path": "grey.npz", **share},
            "turned": {"of": "grey", "change": "rotated", "degrees": 90},
        },
    }
    group = open_group({"groups": {"mixed": table}}, root=tmp_path)
    assert group.domain("large", "test").take(slice(None)).shape == (4, 6, 6, 3)
    assert np.array_equal(group.domain("grey", "test").take(slice(1)), np.full((1, 6, 6, 3), 50))
    assert group.domain("turned", "test").take(slice(None)).shape == (9, 6, 6, 3)


def test_first_available_source_is_read(tmp_path: Path) -> None:
    table = {"classes": ["cat", "dog"], "domains": ["a"], "each": [
        {"reader": "npz", "path": "a.npz"}, {"reader": "folder", "path": "{domain}"}]}  # fmt: skip
    group = open_group({"groups": {"two": table}}, root=tmp_path)
    folder(tmp_path / "a", 0, 30)
    assert group.domain("a", "train").take(slice(1)).shape == (1, 6, 6, 3)
    np.savez(tmp_path / "a.npz", x=np.zeros((9, 4, 4), dtype=np.uint8), y=np.zeros(9))
    # Equal rows are in the same split.
    side = "test" if group.domain("a", "test").take(slice(1)).shape == (1, 4, 4) else "train"
    assert len(group.domain("a", side)) == 9  # type: ignore[arg-type]


def test_classes_can_be_the_folders_of_a_domain(tmp_path: Path) -> None:
    table = {"classes_of": "b", "each": {"reader": "folder", "path": "{domain}"}, "domains": ["a", "b"]}  # fmt: skip
    folder(tmp_path / "a", 0, 20, names=("dog",))
    alone = open_group({"groups": {"two": table}}, root=tmp_path)
    assert (alone.classes, alone.available_domains) == ((), ())
    assert (
        alone.missing_reason("a")
        == "two/a: the domain whose folders are the classes does not exist."
    )
    folder(tmp_path / "b", 0, 20)
    group = open_group({"groups": {"two": table}}, root=tmp_path)
    assert group.classes == ("cat", "dog")
    assert set(labels_of(group.domain("a", "train"))) == {1}


def digits(root: Path) -> Array:
    images = np.random.default_rng(0).integers(0, 256, (120, 8, 8), dtype=np.uint8)
    (root / "digits").mkdir()
    labels = np.arange(120) % 10
    np.savez(root / "digits" / "mnist.npz", x_train=images, y_train=labels, x_test=images[:60], y_test=labels[:60])  # fmt: skip
    return images


def test_each_rotated_digit_is_in_one_domain(tmp_path: Path) -> None:
    digits(tmp_path)
    group = get("rotated-mnist", root=tmp_path)
    found = [group.domain(name, "train") for name in group.domains]
    keys = [key for one in found for key in one.keys.tolist()]
    assert len(keys) == len(set(keys)) == 120
    plain = open_group({"groups": {"d": {"classes": list("0123456789"), "domains": {"m": {
        "reader": "npz", "path": "digits/mnist.npz", "inputs": "x_train", "labels": "y_train",
        "test": {"inputs": "x_test", "labels": "y_test"}}}}}}, root=tmp_path).domain("m", "train")  # fmt: skip
    rows = np.flatnonzero(np.isin(plain.keys, found[1].keys))
    assert np.array_equal(found[1].take(slice(None)), Rotated(15).apply(plain.take(rows), NONE))
    assert found[1].name == "rotated-mnist/15"


def test_colored_digits_have_two_or_ten_classes(tmp_path: Path) -> None:
    digits(tmp_path)
    two, ten = get("colored-mnist", root=tmp_path), get("numbers", root=tmp_path)
    assert set(labels_of(two.domain("plus-90", "train"))) == {0, 1}
    assert two.domain("minus-90", "test").take(slice(1)).shape == (1, 8, 8, 3)
    painted = ten.domain("colored-mnist", "train")
    assert painted.take(slice(1)).shape == (1, 32, 32, 3)
    assert labels_of(painted) == labels_of(ten.domain("mnist", "train"))
    assert set(ten.available_domains) == {"mnist", "colored-mnist"}


def test_label_ten_of_svhn_is_zero(tmp_path: Path) -> None:
    from scipy.io import savemat

    (tmp_path / "svhn").mkdir()
    images = np.zeros((32, 32, 3, 3), dtype=np.uint8)
    for name in ("train", "test"):
        savemat(tmp_path / "svhn" / f"{name}_32x32.mat", {"X": images, "y": [[10], [1], [9]]})
    assert labels_of(get("numbers", root=tmp_path).domain("svhn", "train")) == [0, 1, 9]


def test_published_corruptions_have_no_training_rows(tmp_path: Path) -> None:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    np.save(folder / "fog.npy", images)
    np.save(folder / "labels.npy", np.arange(20) % 10)
    group = get("cifar-10-c", root=tmp_path)
    assert group.available_domains == ("fog",)
    found = group.domain("fog", "test")
    assert np.array_equal(found.take(slice(None)), images)
    assert labels_of(found) == [*range(10), *range(10)]
    with pytest.raises(InputError, match="None of the 20 rows is in the split 'train'"):
        group.domain("fog", "train")


def test_nli_genres_and_clinical_sentences_form_one_group(tmp_path: Path) -> None:
    (tmp_path / "multinli_1.0").mkdir()
    (tmp_path / "mednli").mkdir()
    rows = [
        {"sentence1": f"a {n}", "sentence2": f"b {n}", "gold_label": label, "genre": genre}
        for n, (label, genre) in enumerate(
            [("neutral", "slate"), ("-", "slate"), ("entailment", "slate"), ("neutral", "travel")]
        )
    ]
    for name in ("train", "dev_matched"):
        write_lines(tmp_path / "multinli_1.0" / f"multinli_1.0_{name}.jsonl", rows)
    clinical = [{key: one[key] for key in one if key != "genre"} for one in rows]
    for name in ("train", "test"):
        write_lines(tmp_path / "mednli" / f"mli_{name}_v1.jsonl", clinical)
    group = get("mnli", root=tmp_path)
    assert group.domain("slate", "test").take(slice(None)) == [("a 0", "b 0"), ("a 2", "b 2")]
    assert labels_of(group.domain("slate", "train")) == [1, 0]
    assert labels_of(group.domain("mednli", "train")) == [1, 0, 1]


def test_ratings_of_drugs_are_halved_to_stars(tmp_path: Path) -> None:
    (tmp_path / "drugs").mkdir()
    for name in ("Train", "Test"):
        path = tmp_path / "drugs" / f"drugsCom{name}_raw.csv"
        lines = [f'{n},"on ""{n}""\nand on",{mark}' for n, mark in enumerate(range(1, 11))]
        path.write_text("\n".join(["uniqueID,review,rating", *lines]))
    found = get("amazon", root=tmp_path).domain("drugs", "train")
    assert labels_of(found) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert found.take(slice(1)) == ['on "0"\nand on']


def write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)))


def test_groups_of_one_name_and_folder_have_one_hash_and_may_differ(tmp_path: Path) -> None:
    group = get("pacs", root=tmp_path)
    other = replace(group, about="changed")
    assert hash(group) == hash(other)
    assert group != other
    assert len({group, other, get("pacs", root=tmp_path)}) == 2
