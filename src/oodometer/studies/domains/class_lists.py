"""Built-in lists of classes; most consist of classes of ImageNet: ObjectNet, ImageNet-200, BREEDS, …

The lists are in `class_lists.toml`. A group refers to a list by its name, and so do the readers of
ImageNet folders. Models with the 1000 classes of ImageNet can be evaluated on such a group, because
`class_merging` merges the outputs of the classes that belong together.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from oodometer.core.errors import UnknownName

LISTS_FILE = Path(__file__).with_name("class_lists.toml")
IMAGENET = "imagenet"


@dataclass(frozen=True)
class ClassList:
    """List of classes.

    names     name of each class
    members   WordNet ids of the ImageNet classes that each class consists of; empty if the classes
              are not related to those of ImageNet
    """

    names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...] = ()

    @property
    def class_of_wnid(self) -> dict[str, str]:
        """Name of the class that each WordNet id belongs to."""
        pairs = zip(self.names, self.members, strict=True)
        return {wnid: name for name, wnids in pairs for wnid in wnids}


@cache
def _read_lists() -> dict[str, Any]:
    return tomllib.loads(LISTS_FILE.read_text(encoding="utf-8"))


def available_lists() -> tuple[str, ...]:
    """Return the names of the built-in lists of classes."""
    return tuple(_read_lists())


def imagenet_wnids() -> tuple[str, ...]:
    """Return the WordNet ids of the 1000 classes of ImageNet, in the order of their numbers.

    >>> len(imagenet_wnids()), imagenet_wnids()[207]
    (1000, 'n02099601')
    """
    return tuple(_read_lists()[IMAGENET]["wnids"])


def get_class_list(name: str) -> ClassList:
    """Return a built-in list of classes by name.

    >>> salamander = get_class_list("breeds-living-17").members[0]
    >>> [imagenet_wnids().index(wnid) for wnid in salamander]
    [26, 25, 27, 28]
    """
    if name not in _read_lists():
        raise UnknownName("list of classes", name, available_lists())
    return _get_class_list(name)


@cache
def _get_class_list(name: str) -> ClassList:
    table = _read_lists()[name]
    if "names" in table:
        return ClassList(tuple(table["names"]))
    if "merged" in table:
        return _build_list(table["merged"])
    if "split" in table:
        both = {key: parts["source"] + parts["target"] for key, parts in table["split"].items()}
        return _build_list(both)
    numbers = table.get("numbers", range(len(imagenet_wnids())))
    return _build_list({imagenet_wnids()[number]: [number] for number in numbers})


def get_subclasses(name: str, part: str) -> ClassList:
    """Return the superclasses of a BREEDS list with their source or target subclasses only.

    >>> get_subclasses("breeds-living-17", "target").members[0]
    ('n01631663', 'n01632458')
    """
    split = _read_lists()[name]["split"]
    return _build_list({key: parts[part] for key, parts in split.items()})


def _build_list(numbers_of: Mapping[str, list[int]]) -> ClassList:
    wnids = imagenet_wnids()
    members = tuple(tuple(wnids[number] for number in numbers) for numbers in numbers_of.values())
    return ClassList(tuple(numbers_of), members)
