"""Domain groups: named datasets of one kind with the same classes, to train on and to test on.

Built-in groups are declared in `groups.toml` and looked for in $OODOMETER_DATA; a user's own are
declared in the same way (see `parse_group`), beside the user's files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import TransformedDataset
from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.studies.domains._reader import ImageSize, find_file
from oodometer.studies.domains.row_sources import (
    DerivedDomain,
    DomainFiles,
    Split,
    SubsetDataset,
    encode_class_labels,
    part_mask,
)
from oodometer.studies.domains.spec import (
    DomainOrigin,
    get_group_tables,
    parse_group,
    read_group_tables,
)
from oodometer.studies.domains.synthetic import ResizeAndCrop

BUILT_IN_FILE = Path(__file__).with_name("groups.toml")


@dataclass(frozen=True)
class DomainGroup:
    """Domains of one kind with the same classes.

    shape     what all images are brought to; as they are where it is None
    sources   where each domain comes from: the first source whose files are there is read
    root      the folder that the files are looked for in
    base      the group whose domains those that are made are made of; this one if there is none
    """

    name: str
    kind: InputKind
    classes: tuple[str, ...]
    sources: tuple[tuple[str, tuple[DomainOrigin, ...]], ...]
    root: Path | None = None
    shape: tuple[int, ...] | None = None
    about: str = ""
    base: DomainGroup | None = None

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the domains, in the order they are declared."""
        return tuple(name for name, _ in self.sources)

    @property
    def available_domains(self) -> tuple[str, ...]:
        """The domains whose files are on this machine."""
        return tuple(name for name in self.domains if self.missing_reason(name) is None)

    def domain(self, name: str, split: Split) -> Dataset:
        """The rows of a domain, with labels 0…k−1 in the order of the classes.

        Those for testing are the files' own, or a share by content, and never among the others.
        """
        if split not in ("train", "test"):
            raise UnknownName("split", str(split), ("train", "test"))
        why = self.missing_reason(name)
        if why is not None:
            raise InputError(why)
        try:
            return self._load_domain(name, split)
        except UnknownName:
            raise
        except InputError as error:
            raise InputError(f"{self.name}/{name}: {error}") from error

    def missing_reason(self, *names: str) -> str | None:
        """Why one of these domains, or of all, can't be read here; None if all can."""
        return next(
            filter(None, (self._domain_missing_reason(name) for name in names or self.domains)),
            None,
        )

    def _domain_missing_reason(self, name: str) -> str | None:
        sources = self._alternatives(name)
        if any(self._is_available(source) for source in sources):
            return None
        files = [
            source.missing_files(self.root) for source in sources if isinstance(source, DomainFiles)
        ]
        if not files:
            under, of = self._base_domain(
                next(one for one in sources if isinstance(one, DerivedDomain))
            )
            return f"{self.name}/{name} is made of another: {under.missing_reason(of)}"
        if not all(files):
            return f"{self.name}/{name}: the domain whose folders are the classes is not there."
        wanted = ", or ".join(map(_format_files, files))
        if self.root is None:
            return (
                f"{self.name}/{name}: set {DATA_FOLDER_VARIABLE} to the folder that has {wanted}."
            )
        return f"{self.name}/{name}: there is no {wanted} in {self.root}; put it there."

    def _is_available(self, source: DomainOrigin) -> bool:
        if isinstance(source, DerivedDomain):
            under, of = self._base_domain(source)
            return under.missing_reason(of) is None
        return bool(self.classes) and not source.missing_files(self.root)

    def _alternatives(self, name: str) -> tuple[DomainOrigin, ...]:
        found = dict(self.sources).get(name)
        if found is None:
            raise UnknownName(f"domain of {self.name}", name, self.domains)
        return found

    def _base_domain(self, source: DerivedDomain) -> tuple[DomainGroup, str]:
        """The group and the domain that another is made of."""
        under = self.base or self
        if source.of in under.domains or "/" not in source.of:
            return under, source.of
        group, of = source.of.split("/", 1)
        return get(group, root=self.root), of

    def _load_domain(self, name: str, split: Split) -> Dataset:
        alternatives = self._alternatives(name)
        source = next(one for one in alternatives if self._is_available(one))
        title = f"{self.name}/{name}"
        if isinstance(source, DomainFiles):
            return self._resize(self._read_files(source, split, title))
        under, of = self._base_domain(source)
        dataset = source.derivation.derive(
            self._resize(_select_part(under.domain_in_native_shape(of, split, title), source))
        )
        encode_class_labels(dataset.labels, self.classes)
        return dataset

    def domain_in_native_shape(self, name: str, split: Split, title: str) -> Dataset:
        """The rows of a domain in their own shape, for another to be made of them."""
        source = next(one for one in self._alternatives(name) if self._is_available(one))
        return self._read_files(source, split, title) if isinstance(source, DomainFiles) else self._load_domain(name, split)  # fmt: skip

    def _read_files(self, source: DomainFiles, split: Split, title: str) -> SubsetDataset:
        if self.root is None:  # never: there are files
            raise InputError(f"Set {DATA_FOLDER_VARIABLE} to the folder of the data.")
        dataset, index = source.read(self.root, split, self._image_size)
        if dataset.kind != self.kind:
            raise InputError(
                f"It holds {dataset.kind}, and the group is of {self.kind}. Say kind = "
                f"'{dataset.kind}', or name other files."
            )
        labels = encode_class_labels(dataset.labels, self.classes, source.rename)
        return _check_not_empty(
            SubsetDataset(title, dataset, index, labels[index]), split, len(dataset)
        )

    @property
    def _image_size(self) -> ImageSize:
        return None if self.shape is None else (self.shape[0], self.shape[1])

    def _resize(self, dataset: Dataset) -> Dataset:
        """The images in the group's shape; each is brought to it when it is taken."""
        if self.shape is None or dataset.take(slice(0, 1)).shape[1:] == self.shape:
            return dataset
        return TransformedDataset(dataset, ResizeAndCrop(self.shape))


def _format_files(files: tuple[str, ...]) -> str:
    """The first of some files, and how many there are more.

    >>> _format_files(("a.bin", "b.bin", "c.bin"))
    "'a.bin' (and 2 files more)"
    """
    more = len(files) - 1
    return f"{files[0]!r}" + (f" (and {more} file{'s' if more > 1 else ''} more)" if more else "")


def _check_not_empty(rows: SubsetDataset, split: Split, n: int) -> SubsetDataset:
    if not len(rows):
        raise InputError(
            f"None of its {n} rows are for split {split!r}; at least one was expected. Give more "
            "rows, another share, or files for testing: test = …."
        )
    return rows


def _select_part(dataset: Dataset, source: DerivedDomain) -> Dataset:
    if source.part is None:
        return dataset
    rows: Ints = np.flatnonzero(part_mask(dataset.keys, source.part))
    if not len(rows):
        raise InputError(
            f"Part {list(source.part)} of {len(dataset)} rows is empty. Give fewer parts."
        )
    return dataset.rows(rows)


def available(*, root: str | Path | None = None) -> tuple[DomainGroup, ...]:
    """The built-in groups; their files are looked for in `root`, or in $OODOMETER_DATA."""
    return tuple(
        _build_group(name, table, _resolve_root(root))
        for name, table in read_group_tables(BUILT_IN_FILE).items()
    )


def available_names() -> tuple[str, ...]:
    """What the built-in groups are called."""
    return tuple(read_group_tables(BUILT_IN_FILE))


def get(name: str, *, root: str | Path | None = None) -> DomainGroup:
    """A built-in group by its name.

    >>> get("pacs").domains
    ('art_painting', 'cartoon', 'photo', 'sketch')
    """
    tables = read_group_tables(BUILT_IN_FILE)
    if name not in tables:
        raise UnknownName("domain group", name, tables)
    return _build_group(name, tables[name], _resolve_root(root))


def open_group(
    path_or_table: str | Path | Mapping[str, Any],
    *,
    name: str | None = None,
    root: str | Path | None = None,
) -> DomainGroup:
    """The group of a user's own TOML file, or of the same as a dict.

    Files are looked for in `root`, or in the group's own `root`, seen from the TOML file.

    >>> group = open_group({"groups": {"sites": {"classes": ["cat", "dog"], "domains": {
    ...     "north": {"reader": "folder", "path": "north/"}}}}}, root="/nowhere")
    >>> group.kind, group.domains, group.missing_reason()
    ('images', ('north',), "sites/north: there is no 'north/' in /nowhere; put it there.")
    """
    beside = (
        Path.cwd() if isinstance(path_or_table, Mapping) else Path(path_or_table).absolute().parent
    )
    tables = (
        get_group_tables(path_or_table)
        if isinstance(path_or_table, Mapping)
        else read_group_tables(Path(path_or_table))
    )
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
    return _build_group(chosen, table, Path(root) if root is not None else beside / str(own))


def _resolve_root(root: str | Path | None) -> Path | None:
    found = root if root is not None else os.environ.get(DATA_FOLDER_VARIABLE)
    return None if found is None else Path(found)


def _build_group(name: str, table: Any, root: Path | None) -> DomainGroup:
    found = parse_group(table, name)
    classes = found.classes
    if found.classes_of is not None:
        classes = _folder_names(dict(found.sources)[found.classes_of], root)
    return DomainGroup(
        name, found.kind, classes, found.sources, root, found.shape, found.about
    )  # fmt: skip


def _folder_names(sources: tuple[DomainOrigin, ...], root: Path | None) -> tuple[str, ...]:
    """The names of the folders of the first source that is there."""
    for source in sources:
        folder = None
        if root is not None and isinstance(source, DomainFiles):
            folder = find_file(root, source.train.files[0])
        if folder is not None and folder.is_dir():
            inner = (path for path in folder.iterdir() if path.is_dir())
            return tuple(sorted(path.name for path in inner if not path.name.startswith(".")))
    return ()
