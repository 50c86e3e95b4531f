"""BREEDS: superclasses, the three splits into source and target subclasses, and the files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains.breeds import (
    BREEDS_DATASETS,
    BreedsReader,
    BreedsSettings,
    ClassHierarchy,
    split_superclasses,
)
from oodometer.studies.domains.class_lists import get_class_list, get_subclasses, imagenet_wnids
from oodometer.studies.domains.group import get
from tests.support.wilds_folders import write_image

ROOT = "n00001740"
# Two superclasses at level 2: animal has three branches, and tool has one long path before it
# branches. A word that is not above a leaf is left out.
EDGES = [
    (ROOT, "thing"), ("thing", "animal"), ("thing", "tool"), ("thing", "word"),
    ("animal", "cat"), ("animal", "dog"), ("animal", "fish"),
    ("cat", "c1"), ("cat", "c2"), ("dog", "d1"), ("dog", "d2"), ("dog", "d3"), ("fish", "f1"),
    ("tool", "hand"), ("hand", "t1"), ("hand", "t2"), ("hand", "t3"), ("hand", "t4"),
    (ROOT, "dog"),
]  # fmt: skip
LEAVES = frozenset(["c1", "c2", "d1", "d2", "d3", "f1", "t1", "t2", "t3", "t4"])
NAMES = {"animal": "animal, beast", "tool": "tool"}
FOUR = BreedsSettings(level=2, n_subclasses=4)


@pytest.fixture
def tree() -> ClassHierarchy:
    return ClassHierarchy.from_edges(EDGES, NAMES, LEAVES)


def test_level_is_the_longest_path_from_the_root(tree: ClassHierarchy) -> None:
    assert (tree.levels["animal"], tree.levels["dog"], tree.levels["t1"]) == (2, 3, 4)
    assert "word" not in tree.levels
    assert tree.leaves_below("animal") == ("c1", "c2", "d1", "d2", "d3", "f1")
    assert tree.leaves_below("c1") == ("c1",)
    assert tree.first_name("animal") == "animal"


def test_good_split_divides_every_branch(tree: ClassHierarchy) -> None:
    # The largest branch comes first: of d1, d2, d3 one is source, of c1, c2 one each.
    assert split_superclasses(tree, FOUR, "good") == {
        "animal": (("d1", "c1"), ("d2", "d3")),
        "tool": (("t1", "t2"), ("t3", "t4")),
    }


def test_bad_split_keeps_branches_together(tree: ClassHierarchy) -> None:
    assert split_superclasses(tree, FOUR, "bad") == {
        "animal": (("d1", "d2"), ("c1", "c2")),
        "tool": (("t1", "t3"), ("t2", "t4")),
    }


def test_random_split_follows_the_generator_of_the_published_code(tree: ClassHierarchy) -> None:
    halves = split_superclasses(tree, FOUR, "rand")
    rng = np.random.RandomState(2)
    for node in ("animal", "tool"):
        chosen = rng.choice(list(tree.leaves_below(node)), 4, replace=False).tolist()
        assert halves[node] == (tuple(chosen[:2]), tuple(chosen[2:]))


def test_superclasses_need_enough_subclasses_below_the_ancestor(tree: ClassHierarchy) -> None:
    assert list(split_superclasses(tree, BreedsSettings(2, 6))) == ["animal"]
    assert list(split_superclasses(tree, BreedsSettings(2, 4, ancestor="tool"))) == ["tool"]
    with pytest.raises(InputError, match="No node at level 2 of the class hierarchy has 8"):
        split_superclasses(tree, BreedsSettings(2, 8))


@pytest.mark.parametrize(("name", "n", "per_half"), [
    ("entity-13", 13, 10), ("entity-30", 30, 4), ("living-17", 17, 2), ("nonliving-26", 26, 2),
])  # fmt: skip
def test_built_in_lists_have_the_published_sizes(name: str, n: int, per_half: int) -> None:
    settings = BREEDS_DATASETS[name]
    assert settings.n_subclasses == 2 * per_half
    parts = [get_subclasses(f"breeds-{name}", part) for part in ("source", "target")]
    for part in parts:
        assert len(part.names) == len(set(part.names)) == n
        assert {len(wnids) for wnids in part.members} == {per_half}
    wnids = [wnid for part in parts for of in part.members for wnid in of]
    assert len(wnids) == len(set(wnids))
    assert get(f"breeds-{name}").classes == get_class_list(f"breeds-{name}").names


def test_living_17_has_known_subclasses() -> None:
    bears = get_subclasses("breeds-living-17", "source").class_of_wnid
    targets = get_subclasses("breeds-living-17", "target").class_of_wnid
    brown, black, ice, sloth = imagenet_wnids()[294:298]
    assert (bears[brown], bears[black]) == ("bear", "bear")
    assert (targets[ice], targets[sloth]) == ("bear", "bear")


def test_group_reads_source_and_target_subclasses(tmp_path: Path) -> None:
    for folder in ("imagenet/train", "imagenet/val", "imagenet-c/snow/2"):
        for number, wnid in enumerate(imagenet_wnids()[294:298]):
            write_image(tmp_path / folder / wnid / "0.JPEG", 50 * number)
    group = get("breeds-living-17", root=tmp_path)
    assert len(group.domains) == 2 * (1 + 3 + 1 + 19 * 5)
    for domain, values in (
        ("source", [0, 50]), ("target", [100, 150]), ("source-snow-2", [0, 50]),
        ("target-snow-2", [100, 150]),
    ):  # fmt: skip
        rows = group.domain(domain, "test")
        assert rows.labels is not None
        assert [group.classes[label] for label in rows.labels] == ["bear", "bear"]
        assert rows.take(slice(None))[:, 0, 0, 0].tolist() == values
    assert len(group.domain("source", "train")) == 2


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with the files of a hierarchy that has the classes of Living-17."""
    folder = tmp_path / "hierarchy"
    folder.mkdir()
    wnids = imagenet_wnids()[:4]
    chain = [ROOT, "n00004258", "a", "b", "c", "fish"]
    edges = [*pairwise(chain), *(("fish", wnid) for wnid in wnids)]
    (folder / "class_hierarchy.txt").write_text("".join(f"{a} {b}\n" for a, b in edges))
    (folder / "node_names.txt").write_text("fish\tfish, Pisces\n")
    info = [[number, wnid, "name"] for number, wnid in enumerate(wnids)]
    (folder / "dataset_class_info.json").write_text(json.dumps(info))
    for number, wnid in enumerate(wnids):
        write_image(tmp_path / "images" / wnid / "0.JPEG", 50 * number)
    return tmp_path


def test_hierarchy_can_be_read_from_the_published_files(files: Path) -> None:
    reader = BreedsReader("images", "living-17", "target", hierarchy="hierarchy", split="bad")
    rows = reader.read(files, None)
    assert rows.labels is not None
    assert rows.labels.tolist() == ["fish", "fish"]
    assert rows.take(slice(None))[:, 0, 0, 0].tolist() == [50, 150]
    assert "hierarchy/node_names.txt" in reader.files


def test_bad_input_of_breeds(files: Path) -> None:
    with pytest.raises(InputError, match="split = 'rand' needs the files of the class hierarchy"):
        BreedsReader("images", "living-17", "source", split="rand").read(files, None)
    with pytest.raises(UnknownName, match="No BREEDS dataset is called 'living'"):
        BreedsReader("images", "living", "source").read(files, None)
    (files / "hierarchy/class_hierarchy.txt").write_text("n1 n2 n3\n")
    with pytest.raises(InputError, match=r"hierarchy/class_hierarchy.txt, line 1: expected two values; got 'n1 n2 n3'"):  # fmt: skip
        BreedsReader("images", "living-17", "source", hierarchy="hierarchy").read(files, None)


def test_classes_of_the_hierarchy_are_lists(files: Path) -> None:
    (files / "hierarchy/dataset_class_info.json").write_text('["n01440764"]')
    with pytest.raises(InputError, match=r"hierarchy/dataset_class_info.json: item 0 must be a list; got 'n01440764'"):  # fmt: skip
        BreedsReader("images", "living-17", "source", hierarchy="hierarchy").read(files, None)
