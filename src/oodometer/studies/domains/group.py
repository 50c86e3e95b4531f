"""Domain groups: named datasets of one kind with the same classes, to train on and to test on.

Built-in groups are declared in `groups.toml` and looked for in $OODOMETER_DATA; a user's own are
declared in the same way (see `declared`), beside the user's files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import Kind
from oodometer.core.protocols import Dataset
from oodometer.core.softmax_kernels import Ints
from oodometer.data._transformed_dataset import Changed
from oodometer.parallel.pickling import VARIABLE
from oodometer.studies.domains._reader import Size, located
from oodometer.studies.domains.row_sources import (
    Chosen,
    Made,
    Source,
    Split,
    class_numbers,
    in_part,
)
from oodometer.studies.domains.spec import Origin, declared, groups_of, tables_of
from oodometer.studies.domains.synthetic import Fit

BUILT_IN = Path(__file__).with_name("groups.toml")


@dataclass(frozen=True)
class Group:
    """Domains of one kind with the same classes.

    shape     what all images are brought to; as they are where it is None
    sources   where each domain comes from: the first source whose files are there is read
    root      the folder that the files are looked for in
    base      the group whose domains those that are made are made of; this one if there is none
    """

    name: str
    kind: Kind
    classes: tuple[str, ...]
    sources: tuple[tuple[str, tuple[Origin, ...]], ...]
    root: Path | None = None
    shape: tuple[int, ...] | None = None
    about: str = ""
    base: Group | None = None

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the domains, in the order they are declared."""
        return tuple(name for name, _ in self.sources)

    @property
    def found(self) -> tuple[str, ...]:
        """The domains whose files are on this machine."""
        return tuple(name for name in self.domains if self.missing(name) is None)

    def domain(self, name: str, split: Split) -> Dataset:
        """The rows of a domain, with labels 0…k−1 in the order of the classes.

        Those for testing are the files' own, or a share by content, and never among the others.
        """
        if split not in ("train", "test"):
            raise UnknownName("split", str(split), ("train", "test"))
        why = self.missing(name)
        if why is not None:
            raise InputError(why)
        try:
            return self._domain(name, split)
        except UnknownName:
            raise
        except InputError as error:
            raise InputError(f"{self.name}/{name}: {error}") from error

    def missing(self, *names: str) -> str | None:
        """Why one of these domains, or of all, can't be read here; None if all can."""
        return next(filter(None, (self._missing(name) for name in names or self.domains)), None)

    def _missing(self, name: str) -> str | None:
        sources = self._alternatives(name)
        if any(self._is_there(source) for source in sources):
            return None
        files = [source.absent(self.root) for source in sources if isinstance(source, Source)]
        if not files:
            under, of = self._below(next(one for one in sources if isinstance(one, Made)))
            return f"{self.name}/{name} is made of another: {under.missing(of)}"
        if not all(files):
            return f"{self.name}/{name}: the domain whose folders are the classes is not there."
        wanted = ", or ".join(map(_worded, files))
        if self.root is None:
            return f"{self.name}/{name}: set {VARIABLE} to the folder that has {wanted}."
        return f"{self.name}/{name}: there is no {wanted} in {self.root}; put it there."

    def _is_there(self, source: Origin) -> bool:
        if isinstance(source, Made):
            under, of = self._below(source)
            return under.missing(of) is None
        return bool(self.classes) and not source.absent(self.root)

    def _alternatives(self, name: str) -> tuple[Origin, ...]:
        found = dict(self.sources).get(name)
        if found is None:
            raise UnknownName(f"domain of {self.name}", name, self.domains)
        return found

    def _below(self, source: Made) -> tuple[Group, str]:
        """The group and the domain that another is made of."""
        under = self.base or self
        if source.of in under.domains or "/" not in source.of:
            return under, source.of
        group, of = source.of.split("/", 1)
        return named(group, root=self.root), of

    def _domain(self, name: str, split: Split) -> Dataset:
        alternatives = self._alternatives(name)
        source = next(one for one in alternatives if self._is_there(one))
        title = f"{self.name}/{name}"
        if isinstance(source, Source):
            return self._fitted(self._read(source, split, title))
        under, of = self._below(source)
        dataset = source.maker.make(self._fitted(_part(under.plain(of, split, title), source)))
        class_numbers(dataset.labels, self.classes)
        return dataset

    def plain(self, name: str, split: Split, title: str) -> Dataset:
        """The rows of a domain in their own shape, for another to be made of them."""
        source = next(one for one in self._alternatives(name) if self._is_there(one))
        return self._read(source, split, title) if isinstance(source, Source) else self._domain(name, split)  # fmt: skip

    def _read(self, source: Source, split: Split, title: str) -> Chosen:
        if self.root is None:  # never: there are files
            raise InputError(f"Set {VARIABLE} to the folder of the data.")
        dataset, index = source.read(self.root, split, self._size)
        if dataset.kind != self.kind:
            raise InputError(
                f"It holds {dataset.kind}, and the group is of {self.kind}. Say kind = "
                f"'{dataset.kind}', or name other files."
            )
        labels = class_numbers(dataset.labels, self.classes, source.rename)
        return _some(Chosen(title, dataset, index, labels[index]), split, len(dataset))

    @property
    def _size(self) -> Size:
        return None if self.shape is None else (self.shape[0], self.shape[1])

    def _fitted(self, dataset: Dataset) -> Dataset:
        """The images in the group's shape; each is brought to it when it is taken."""
        if self.shape is None or dataset.take(slice(0, 1)).shape[1:] == self.shape:
            return dataset
        return Changed(dataset, Fit(self.shape))


def _worded(files: tuple[str, ...]) -> str:
    """The first of some files, and how many there are more.

    >>> _worded(("a.bin", "b.bin", "c.bin"))
    "'a.bin' (and 2 files more)"
    """
    more = len(files) - 1
    return f"{files[0]!r}" + (f" (and {more} file{'s' if more > 1 else ''} more)" if more else "")


def _some(rows: Chosen, split: Split, n: int) -> Chosen:
    if not len(rows):
        raise InputError(
            f"None of its {n} rows are for split {split!r}; at least one was expected. Give more "
            "rows, another share, or files for testing: test = …."
        )
    return rows


def _part(dataset: Dataset, source: Made) -> Dataset:
    if source.part is None:
        return dataset
    rows: Ints = np.flatnonzero(in_part(dataset.keys, source.part))
    if not len(rows):
        raise InputError(
            f"Part {list(source.part)} of {len(dataset)} rows is empty. Give fewer parts."
        )
    return dataset.rows(rows)


def every(*, root: str | Path | None = None) -> tuple[Group, ...]:
    """The built-in groups; their files are looked for in `root`, or in $OODOMETER_DATA."""
    return tuple(_group(name, table, _given(root)) for name, table in tables_of(BUILT_IN).items())


def names() -> tuple[str, ...]:
    """What the built-in groups are called."""
    return tuple(tables_of(BUILT_IN))


def named(name: str, *, root: str | Path | None = None) -> Group:
    """A built-in group by its name.

    >>> named("pacs").domains
    ('art_painting', 'cartoon', 'photo', 'sketch')
    """
    tables = tables_of(BUILT_IN)
    if name not in tables:
        raise UnknownName("domain group", name, tables)
    return _group(name, tables[name], _given(root))


def opened(
    thing: str | Path | Mapping[str, Any],
    *,
    name: str | None = None,
    root: str | Path | None = None,
) -> Group:
    """The group of a user's own TOML file, or of the same as a dict.

    Files are looked for in `root`, or in the group's own `root`, seen from the TOML file.

    >>> group = opened({"groups": {"sites": {"classes": ["cat", "dog"], "domains": {
    ...     "north": {"reader": "folder", "path": "north/"}}}}}, root="/nowhere")
    >>> group.kind, group.domains, group.missing()
    ('images', ('north',), "sites/north: there is no 'north/' in /nowhere; put it there.")
    """
    beside = Path.cwd() if isinstance(thing, Mapping) else Path(thing).absolute().parent
    tables = groups_of(thing) if isinstance(thing, Mapping) else tables_of(Path(thing))
    if name is None and len(tables) != 1:
        raise InputError(
            f"There are {len(tables)} groups: {', '.join(tables)}. Say which, name='…', or give a "
            "file of one alone."
        )
    chosen = next(iter(tables)) if name is None else name
    if chosen not in tables:
        raise UnknownName("domain group", chosen, tables)
    table = tables[chosen]
    own = table.get("root", "") if isinstance(table, Mapping) else ""
    return _group(chosen, table, Path(root) if root is not None else beside / str(own))


def _given(root: str | Path | None) -> Path | None:
    found = root if root is not None else os.environ.get(VARIABLE)
    return None if found is None else Path(found)


def _group(name: str, table: Any, root: Path | None) -> Group:
    found = declared(table, name)
    classes = found.classes
    if found.classes_of is not None:
        classes = _folders(dict(found.sources)[found.classes_of], root)
    return Group(
        name, found.kind, classes, found.sources, root, found.shape, found.about
    )  # fmt: skip


def _folders(sources: tuple[Origin, ...], root: Path | None) -> tuple[str, ...]:
    """The names of the folders of the first source that is there."""
    for source in sources:
        folder = None
        if root is not None and isinstance(source, Source):
            folder = located(root, source.train.files[0])
        if folder is not None and folder.is_dir():
            inner = (path for path in folder.iterdir() if path.is_dir())
            return tuple(sorted(path.name for path in inner if not path.name.startswith(".")))
    return ()
