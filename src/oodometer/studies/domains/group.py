"""DomainGroup: domains with the same kind of inputs and the same classes; built-in groups.

Each dataset of a group is called a domain and has a training split and a test split. Built-in
groups are declared in `groups.toml`, and their files are looked up in $OODOMETER_DATA. Users can
declare their own groups in a TOML file of the same format, which `spec.py` describes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from oodometer.studies.domains.label_sets import encode_label_sets
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
    """Group of domains with the same kind of inputs and the same classes.

    sources   name and alternatives of each domain; the first alternative whose files exist is read
    root      folder of the data files
    shape     shape that all images are resized to; None keeps the original shapes
    about     description in one sentence
    base      group that contains the original domains of derived domains; None means this group
    members   WordNet ids of the ImageNet classes that each class consists of; models with the 1000
              classes of ImageNet can be evaluated on the group if it is not empty
    """

    name: str
    kind: InputKind
    classes: tuple[str, ...]
    sources: tuple[tuple[str, tuple[DomainOrigin, ...]], ...]
    root: Path | None = None
    shape: tuple[int, ...] | None = None
    about: str = ""
    base: DomainGroup | None = None
    members: tuple[tuple[str, ...], ...] = ()

    def __hash__(self) -> int:
        # Rows of domains are cached by their group; a hash of all fields would take a millisecond
        # for a corrupted group with hundreds of domains.
        return hash((self.name, self.root))

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of all domains, in the order in which they are declared."""
        return tuple(name for name, _ in self.sources)

    @property
    def available_domains(self) -> tuple[str, ...]:
        """Names of the domains whose files exist."""
        return tuple(name for name in self.domains if self.missing_reason(name) is None)

    def domain(self, name: str, split: Split) -> Dataset:
        """Return the rows of the training or test split of a domain, with their class numbers.

        If there are no separate test files, a fraction of the rows is held out as the test split.
        The held-out rows are chosen by a hash of their content, so equal rows are in one split.
        """
        if split not in ("train", "test"):
            raise UnknownName("split", str(split), ("train", "test"))
        reason = self.missing_reason(name)
        if reason is not None:
            raise InputError(reason)
        try:
            return self._load_domain(name, split)
        except UnknownName:
            raise
        except InputError as error:
            raise InputError(f"{self.name}/{name}: {error}") from error

    def missing_reason(self, *names: str) -> str | None:
        """Return why one of the named domains cannot be read; None if all can be read.

        Without names, all domains of the group are checked.
        """
        return next(
            filter(None, (self._domain_missing_reason(name) for name in names or self.domains)),
            None,
        )

    def expected_files(self) -> tuple[tuple[str, bool, tuple[str, ...]], ...]:
        """Return each file or folder of the group, whether it exists, and the domains that need it.

        Files of alternatives are included; files of other groups, which derived domains need, are
        not.
        """
        domains_of: dict[str, list[str]] = {}
        for name, alternatives in self.sources:
            files = [one.files for one in alternatives if isinstance(one, DomainFiles)]
            for file in dict.fromkeys(file for of in files for file in of):
                domains_of.setdefault(file, []).append(name)
        root = self.root
        return tuple(
            (file, root is not None and find_file(root, file) is not None, tuple(names))
            for file, names in domains_of.items()
        )

    def _domain_missing_reason(self, name: str) -> str | None:
        sources = self._alternatives(name)
        if any(self._is_available(source) for source in sources):
            return None
        files = [
            source.missing_files(self.root) for source in sources if isinstance(source, DomainFiles)
        ]
        if not files:
            derived = next(source for source in sources if isinstance(source, DerivedDomain))
            group, base = self._base_domain(derived)
            return (
                f"{self.name}/{name} is derived from another domain: {group.missing_reason(base)}"
            )
        if not all(files):
            return f"{self.name}/{name}: the domain whose folders are the classes does not exist."
        missing = ", or ".join(map(_format_files, files))
        if self.root is None:
            return (
                f"{self.name}/{name}: set {DATA_FOLDER_VARIABLE} to the folder that has {missing}."
            )
        return f"{self.name}/{name}: there is no {missing} in {self.root}; copy it there."

    def _is_available(self, source: DomainOrigin) -> bool:
        if isinstance(source, DerivedDomain):
            group, base = self._base_domain(source)
            return group.missing_reason(base) is None
        return bool(self.classes) and not source.missing_files(self.root)

    def _alternatives(self, name: str) -> tuple[DomainOrigin, ...]:
        alternatives = dict(self.sources).get(name)
        if alternatives is None:
            raise UnknownName(f"domain of {self.name}", name, self.domains)
        return alternatives

    def _base_domain(self, source: DerivedDomain) -> tuple[DomainGroup, str]:
        """Return the original domain of a derived domain, as its group and its name."""
        group = self.base or self
        if source.of in group.domains or "/" not in source.of:
            return group, source.of
        group_name, domain = source.of.split("/", 1)
        return get(group_name, root=self.root), domain

    def _load_domain(self, name: str, split: Split) -> Dataset:
        source = self._available_source(name)
        title = f"{self.name}/{name}"
        if isinstance(source, DomainFiles):
            return self._resize(self._read_files(source, split, title))
        group, base = self._base_domain(source)
        rows = _select_part(group.domain_in_native_shape(base, split, title), source)
        dataset = source.derivation.derive(self._resize(rows))
        encode_class_labels(dataset.labels, self.classes)
        return dataset

    def domain_in_native_shape(self, name: str, split: Split, title: str) -> Dataset:
        """Return the rows of a domain before they are resized to the shape of the group.

        Derived domains start from these rows.
        """
        source = self._available_source(name)
        if isinstance(source, DomainFiles):
            return self._read_files(source, split, title)
        return self._load_domain(name, split)

    def _available_source(self, name: str) -> DomainOrigin:
        return next(one for one in self._alternatives(name) if self._is_available(one))

    def _read_files(self, source: DomainFiles, split: Split, title: str) -> SubsetDataset:
        if self.root is None:  # not reached: without a root, missing files are reported earlier
            raise InputError(f"Set {DATA_FOLDER_VARIABLE} to the folder of the data.")
        dataset, index = source.read(self.root, split, self._image_size)
        if dataset.kind != self.kind:
            raise InputError(
                f"The files hold {dataset.kind}, and the kind of the group is {self.kind}. Set "
                f"kind = '{dataset.kind}', or choose other files."
            )
        labels = encode_class_labels(dataset.labels, self.classes, source.rename)
        rows = SubsetDataset(title, dataset, index, labels[index])
        label_sets = getattr(dataset, "label_sets", None)
        if label_sets is not None:
            accepted = encode_label_sets(label_sets, self.classes)
            rows = replace(rows, accepted=accepted[index])
        return _check_not_empty(rows, split, len(dataset))

    @property
    def _image_size(self) -> ImageSize:
        return None if self.shape is None else (self.shape[0], self.shape[1])

    def _resize(self, dataset: Dataset) -> Dataset:
        """Return a dataset that resizes each image to the shape of the group on access."""
        if self.shape is None or dataset.take(slice(0, 1)).shape[1:] == self.shape:
            return dataset
        return TransformedDataset(dataset, ResizeAndCrop(self.shape))


def _format_files(files: tuple[str, ...]) -> str:
    """Return the name of the first file and the number of further files as text.

    >>> _format_files(("a.bin", "b.bin", "c.bin"))
    "'a.bin' (and 2 more files)"
    """
    n_more = len(files) - 1
    if not n_more:
        return f"{files[0]!r}"
    return f"{files[0]!r} (and {n_more} more file{'s' if n_more > 1 else ''})"


def _check_not_empty(rows: SubsetDataset, split: Split, n: int) -> SubsetDataset:
    if not len(rows):
        raise InputError(
            f"None of the {n} rows is in the split {split!r}; expected at least one. Add rows, "
            "change share, or set files for testing: test = …."
        )
    return rows


def _select_part(dataset: Dataset, source: DerivedDomain) -> Dataset:
    if source.part is None:
        return dataset
    rows: Ints = np.flatnonzero(part_mask(dataset.keys, source.part))
    if not len(rows):
        raise InputError(
            f"Part {list(source.part)} of {len(dataset)} rows is empty. Use fewer parts."
        )
    return dataset.rows(rows)


def available(*, root: str | Path | None = None) -> tuple[DomainGroup, ...]:
    """Return all built-in groups; their files are looked up in `root`, or else $OODOMETER_DATA."""
    return tuple(
        _build_group(name, table, _resolve_root(root))
        for name, table in read_group_tables(BUILT_IN_FILE).items()
    )


def available_names() -> tuple[str, ...]:
    """Return the names of the built-in groups."""
    return tuple(read_group_tables(BUILT_IN_FILE))


def get(name: str, *, root: str | Path | None = None) -> DomainGroup:
    """Return a built-in group by name.

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
    """Return a group that a TOML file or a mapping of the same content declares.

    `name` selects the group if there are several. Data files are looked up in the folder `root`.
    By default, this is the folder in the group's key `root`, relative to the TOML file.

    >>> group = open_group({"groups": {"sites": {"classes": ["cat", "dog"], "domains": {
    ...     "north": {"reader": "folder", "path": "north/"}}}}}, root="/nowhere")
    >>> group.kind, group.domains, group.missing_reason()
    ('images', ('north',), "sites/north: there is no 'north/' in /nowhere; copy it there.")
    """
    if isinstance(path_or_table, Mapping):
        folder = Path.cwd()
        tables = get_group_tables(path_or_table)
    else:
        folder = Path(path_or_table).absolute().parent
        tables = read_group_tables(Path(path_or_table))
    if name is None and len(tables) != 1:
        raise InputError(
            f"There are {len(tables)} groups: {', '.join(tables)}. Choose one with name='…', or "
            "use a file with a single group."
        )
    chosen = next(iter(tables)) if name is None else name
    if chosen not in tables:
        raise UnknownName("domain group", chosen, tables)
    table = tables[chosen]
    own = table.get("root", "") if isinstance(table, Mapping) else ""
    return _build_group(chosen, table, Path(root) if root is not None else folder / str(own))


def _resolve_root(root: str | Path | None) -> Path | None:
    folder = root if root is not None else os.environ.get(DATA_FOLDER_VARIABLE)
    return None if folder is None else Path(folder)


def _build_group(name: str, table: Any, root: Path | None) -> DomainGroup:
    declared = parse_group(table, name)
    classes = declared.classes
    if declared.classes_of is not None:
        classes = _folder_names(dict(declared.sources)[declared.classes_of], root)
    return DomainGroup(
        name=name,
        kind=declared.kind,
        classes=classes,
        sources=declared.sources,
        root=root,
        shape=declared.shape,
        about=declared.about,
        members=declared.members,
    )


def _folder_names(sources: tuple[DomainOrigin, ...], root: Path | None) -> tuple[str, ...]:
    """Return the names of the subfolders of the first alternative that is an existing folder."""
    for source in sources:
        folder = None
        if root is not None and isinstance(source, DomainFiles):
            folder = find_file(root, source.train.files[0])
        if folder is not None and folder.is_dir():
            names = [path.name for path in folder.iterdir() if path.is_dir()]
            return tuple(sorted(name for name in names if not name.startswith(".")))
    return ()
