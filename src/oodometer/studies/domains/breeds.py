"""BREEDS (Santurkar et al. 2021): superclasses of ImageNet, and their source and target subclasses.

A class of a BREEDS dataset is a node of a hierarchy of the classes of ImageNet. Its subclasses, the
classes of ImageNet below the node, are divided into a source half and a target half, so that models
are tested on subclasses that they were not trained on.

The halves of the four published datasets are in `class_lists.toml`. `split_superclasses` computes
them, and those of other splits, from the files of the hierarchy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.studies._toml import Field
from oodometer.studies.domains._reader import ImageSize, require_file
from oodometer.studies.domains.class_lists import ClassList, get_subclasses
from oodometer.studies.domains.imagenet_folders import read_imagenet_folder, read_json

Subclasses = Literal["source", "target"]
SubclassSplit = Literal["good", "bad", "rand"]
# Number, WordNet id and name of a class.
ClassInfo = Annotated[list[Any], Field(min_length=2)]
HIERARCHY_FILES = ("class_hierarchy.txt", "node_names.txt", "dataset_class_info.json")
ROOT_NODE = "n00001740"
# Seed of the random numbers in the published code, which choose the subclasses of the split "rand".
PUBLISHED_SEED = 2


@dataclass(frozen=True)
class BreedsSettings:
    """Level of the superclasses below the root, number of subclasses, and an optional ancestor."""

    level: int
    n_subclasses: int
    ancestor: str | None = None


BREEDS_DATASETS = {
    "entity-13": BreedsSettings(level=3, n_subclasses=20),
    "entity-30": BreedsSettings(level=4, n_subclasses=8),
    "living-17": BreedsSettings(level=5, n_subclasses=4, ancestor="n00004258"),
    "nonliving-26": BreedsSettings(level=5, n_subclasses=4, ancestor="n00021939"),
}


@dataclass(frozen=True)
class BreedsReader:
    """Reader of the source or target subclasses of a BREEDS dataset in an ImageNet folder.

    path         folder whose subfolders are named by WordNet id, or by class number (ImageNetV2)
    dataset      "entity-13", "entity-30", "living-17" or "nonliving-26"
    subclasses   "source" or "target"
    hierarchy    folder with the published files of the hierarchy; None uses the built-in lists
    split        "good": similar subclasses are in both halves; "bad": they are in one half; "rand":
                 the halves are random. The built-in lists have the split "good"

    The label of an image is the first name of its superclass.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    dataset: str
    subclasses: Subclasses
    hierarchy: str | None = None
    split: SubclassSplit = "good"

    @property
    def files(self) -> tuple[str, ...]:
        folder = self.hierarchy
        return self.path, *(() if folder is None else (f"{folder}/{n}" for n in HIERARCHY_FILES))

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the images of the subclasses, without reading them."""
        if self.dataset not in BREEDS_DATASETS:
            raise UnknownName("BREEDS dataset", self.dataset, BREEDS_DATASETS)
        return read_imagenet_folder(root, self.path, self._class_list(root), size)

    def _class_list(self, root: Path) -> ClassList:
        if self.hierarchy is not None:
            tree = ClassHierarchy.read(root, self.hierarchy)
            halves = split_superclasses(tree, BREEDS_DATASETS[self.dataset], self.split)
            return ClassList(
                tuple(tree.first_name(node) for node in halves),
                tuple(half[self.subclasses == "target"] for half in halves.values()),
            )
        if self.split != "good":
            raise InputError(
                f"split = {self.split!r} needs the files of the class hierarchy: set hierarchy to "
                f"the folder that has {', '.join(HIERARCHY_FILES)}. The built-in lists have the "
                "split 'good'."
            )
        return get_subclasses(f"breeds-{self.dataset}", self.subclasses)


@dataclass(frozen=True)
class ClassHierarchy:
    """Directed graph whose leaves are classes of a dataset.

    children   children of each node, sorted by name; nodes without a leaf below them are left out
    names      names of the nodes, separated by commas
    leaves     classes of the dataset
    """

    children: Mapping[str, tuple[str, ...]]
    names: Mapping[str, str]
    leaves: frozenset[str]

    @classmethod
    def read(cls, root: Path, folder: str) -> ClassHierarchy:
        """Read the three published files of a hierarchy."""
        edges_file, names_file, leaves_file = (f"{folder}/{name}" for name in HIERARCHY_FILES)
        edges = list(_read_pairs(root, edges_file, None))
        names = dict(_read_pairs(root, names_file, "\t"))
        entries = read_json(root, leaves_file, list[ClassInfo])
        leaves = frozenset(str(entry[1]) for entry in entries)
        return cls.from_edges(edges, names, leaves)

    @classmethod
    def from_edges(
        cls, edges: list[tuple[str, str]], names: Mapping[str, str], leaves: frozenset[str]
    ) -> ClassHierarchy:
        """Create a hierarchy from pairs of parent and child; keep ancestors of leaves only."""
        parents: dict[str, set[str]] = {}
        for parent, child in edges:
            parents.setdefault(child, set()).add(parent)
        children: dict[str, set[str]] = {}
        todo = set(leaves)
        done: set[str] = set()
        while todo:
            node = todo.pop()
            done.add(node)
            for parent in parents.get(node, ()):
                children.setdefault(parent, set()).add(node)
                if parent not in done:
                    todo.add(parent)
        return cls({node: tuple(sorted(of)) for node, of in children.items()}, names, leaves)

    def first_name(self, node: str) -> str:
        """Return the first name of a node; without a name, the node itself."""
        return self.names.get(node, node).split(",")[0]

    def leaves_below(self, node: str) -> tuple[str, ...]:
        """Return the leaves below a node, sorted; a leaf is below itself."""
        found = {node} & self.leaves
        todo = [*self.children.get(node, ())]
        while todo:
            child = todo.pop()
            if child in self.leaves:
                found.add(child)
            else:
                todo += self.children.get(child, ())
        return tuple(sorted(found))

    @cached_property
    def levels(self) -> dict[str, int]:
        """Length of the longest path from the root to each node."""
        levels: dict[str, int] = {}
        todo = [(ROOT_NODE, 0)]
        while todo:
            node, level = todo.pop()
            if levels.get(node, -1) < level:
                levels[node] = level
                todo += [(child, level + 1) for child in self.children.get(node, ())]
        return levels

    def nodes_below(self, node: str) -> set[str]:
        """Return a node and all nodes below it."""
        found: set[str] = set()
        todo = [node]
        while todo:
            current = todo.pop()
            if current not in found:
                found.add(current)
                todo += self.children.get(current, ())
        return found


def _read_pairs(root: Path, file: str, separator: str | None) -> Iterator[tuple[str, str]]:
    """Yield the two values of each line of a text file."""
    lines = require_file(root, file).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(filter(str.strip, lines), start=1):
        values = line.strip().split(separator)
        if len(values) != 2:
            raise InputError(f"{file}, line {number}: expected two values; got {line!r:.60}.")
        yield values[0], values[1]


def split_superclasses(
    tree: ClassHierarchy,
    settings: BreedsSettings,
    split: SubclassSplit = "good",
    *,
    seed: int = PUBLISHED_SEED,
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the source and target subclasses of each superclass of a BREEDS dataset.

    Superclasses are the nodes at a level of the hierarchy that have enough subclasses, sorted by
    name. All have the same number of subclasses.

    Raises
    ------
    InputError
        If no node has enough subclasses.
    """
    allowed = None if settings.ancestor is None else tree.nodes_below(settings.ancestor)
    nodes = [
        node
        for node, level in sorted(tree.levels.items())
        if level == settings.level
        and (allowed is None or node in allowed)
        and len(tree.leaves_below(node)) >= settings.n_subclasses
    ]
    if not nodes:
        raise InputError(
            f"No node at level {settings.level} of the class hierarchy has "
            f"{settings.n_subclasses} subclasses. Use the files of the modified hierarchy."
        )
    rng = np.random.RandomState(seed)
    n_half = settings.n_subclasses // 2
    return {node: _split_subclasses(tree, node, n_half, split, rng) for node in nodes}


def _split_subclasses(
    tree: ClassHierarchy, node: str, n_half: int, split: SubclassSplit, rng: np.random.RandomState
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    branches = [tree.leaves_below(child) for child in _branching_children(tree, node)]
    if split == "rand":
        leaves = sorted(leaf for branch in branches for leaf in branch)
        chosen = [str(leaf) for leaf in rng.choice(leaves, 2 * n_half, replace=False)]
        return tuple(chosen[:n_half]), tuple(chosen[n_half:])
    branches.sort(key=len, reverse=True)  # stable: equal branches keep the order of their names
    divide = _spread_branches if split == "good" else _separate_branches
    source, target = divide(branches, n_half)
    return tuple(source), tuple(target)


def _branching_children(tree: ClassHierarchy, node: str) -> tuple[str, ...]:
    """Return the children of the first node at or below `node` that has several children."""
    children = tree.children.get(node, ())
    while len(children) == 1:
        children = tree.children.get(children[0], ())
    return children


def _spread_branches(branches: list[tuple[str, ...]], n_half: int) -> tuple[list[str], list[str]]:
    """Divide every branch between the two halves (split "good")."""
    source: list[str] = []
    target: list[str] = []
    for branch in branches:
        n_free = n_half - len(source)
        n_first = min(len(branch) // 2, n_free)
        if len(branch) == 1:
            n_first = 1 if n_free else 0
        source += branch[:n_first]
        target += branch[n_first:][: n_half - len(target)]
    return source, target


def _separate_branches(branches: list[tuple[str, ...]], n_half: int) -> tuple[list[str], list[str]]:
    """Put every branch into one half, the one with fewer subclasses so far (split "bad").

    Subclasses of branches that do not fit fill the half that has too few at the end.
    """
    halves: tuple[list[str], list[str]] = ([], [])
    spare: list[str] = []
    for branch in branches:
        first, second = (n_half - len(half) for half in halves)
        free = first if first >= second and first > 0 else second
        half = halves[0] if first >= second and first > 0 else halves[1]
        if free > 0:
            half += branch[:free]
            spare += branch[free:]
    for half in halves:
        half += spare[: n_half - len(half)]
    return halves
