"""Which rows a model is tested on, and which labelled ones are its source: never the same.

The rows for testing of a domain are cut in two halves by content. A model's source is the first half
of each domain that it was trained on; it is tested on what has not the content of any of these: on
the other half of such a domain, and of a domain that is made of the same rows (corrupted, turned),
and on all rows of others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import RowHashes, splitmix64
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import ConcatDataset
from oodometer.neighborhood.sampling import shuffled_order
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import Split
from oodometer.studies.store import DatasetRecord

# source: the first half of those for testing; test: all of those; all: those for training too
DomainPart = Literal["source", "test", "all"]
# So that the halves don't hang together with other cuts by content.
_HALF_SALT = np.uint64(0x4A1F)
# So many domains are kept at hand in a process.
MAX_CACHED_DOMAINS = 64


class Domain(NamedTuple):
    """A domain of a group."""

    group: DomainGroup
    name: str


@dataclass(frozen=True)
class DomainRows:
    """Rows of a domain, as a worker can be told of them.

    part       which they are
    name       what they are called in tables
    max_rows   at most so many, chosen by content; None for all
    excluded   domains whose sources (of part "all" also what they are trained on) are left out
    """

    domain: Domain
    part: DomainPart
    name: str
    max_rows: int | None = None
    seed: int = 0
    excluded: tuple[Domain, ...] = ()

    def excluding_sources_of(self, training_domains: tuple[Domain, ...]) -> DomainRows:
        """These rows as they are shown to a model that was trained on some domains."""
        own = self.domain_keys
        met = tuple(
            one for one in training_domains if np.isin(own, _excluded_hashes(one, self.part)).any()
        )
        return replace(self, excluded=met)

    @property
    def domain_keys(self) -> RowHashes:
        """Those of all rows that may be chosen from."""
        return _load_domain_rows(self.domain, self.part).keys

    def dataset(self) -> Dataset:
        """The rows."""
        return _select_rows(self)

    def record(self) -> DatasetRecord:
        """What the store knows of them."""
        return DatasetRecord(self.key, self.name, _row_labels(self), self.domain.group.classes)

    @property
    def key(self) -> str:
        """A hash of their name, their content and their labels."""
        return _rows_key(self)


def first_half(keys: RowHashes) -> Ints:
    """The numbers of the rows that are in the first half.

    >>> keys = np.arange(10_000, dtype=np.uint64)
    >>> 4800 < len(first_half(keys)) < 5200
    True
    """
    return np.flatnonzero(splitmix64(keys ^ _HALF_SALT) & np.uint64(1))


def combined_key(rows: tuple[DomainRows, ...]) -> str:
    """The key of several as one: that of the only one, or a hash of theirs."""
    keys = [one.key for one in rows]
    return keys[0] if len(keys) == 1 else _hash(" ".join(keys).encode())


def training_rows(training_domains: tuple[Domain, ...], max_rows: int, seed: int) -> Dataset:
    """Some of what a model was trained on, the same for all models of these domains."""
    parts = tuple(_load_split(one, "train") for one in training_domains)
    whole = ConcatDataset(" + ".join(one.name for one in training_domains), parts)
    return whole.rows(_sample_rows(whole.keys, max_rows, seed))


@lru_cache(maxsize=MAX_CACHED_DOMAINS)
def _load_split(domain: Domain, split: Split) -> Dataset:
    return domain.group.domain(domain.name, split)


def _load_training_split(domain: Domain) -> Dataset | None:
    """What there is to train on; None where all rows are for testing."""
    try:
        return _load_split(domain, "train")
    except InputError:
        return None


def _load_domain_rows(domain: Domain, part: DomainPart) -> Dataset:
    test, train = (
        _load_split(domain, "test"),
        _load_training_split(domain) if part == "all" else None,
    )
    return test if train is None else ConcatDataset(test.name, (train, test))


@lru_cache(maxsize=MAX_CACHED_DOMAINS)
def _excluded_hashes(domain: Domain, part: DomainPart) -> RowHashes:
    """The content that a model trained on the domain may not be tested on."""
    test = _load_split(domain, "test").keys
    source, train = test[first_half(test)], _load_training_split(domain) if part == "all" else None
    return source if train is None else np.concatenate([source, train.keys])


@lru_cache(maxsize=MAX_CACHED_DOMAINS)
def _select_rows(rows: DomainRows) -> Dataset:
    whole = _load_domain_rows(rows.domain, rows.part)
    keys = whole.keys
    index = first_half(keys) if rows.part == "source" else np.arange(len(keys))
    for other in rows.excluded:
        index = index[~np.isin(keys[index], _excluded_hashes(other, rows.part))]
    if not len(index):
        raise InputError(
            f"The domain {rows.domain.name!r} of {rows.domain.group.name!r} has {len(keys)} rows "
            "for testing, and none is left for one of its halves. Give it more of them."
        )
    return whole.rows(index[_sample_rows(keys[index], rows.max_rows, rows.seed)])


def _sample_rows(keys: RowHashes, most: int | None, seed: int) -> Ints:
    """At most so many rows, by content, in their order."""
    return np.sort(shuffled_order(keys, seed)[:most])


def _row_labels(rows: DomainRows) -> Ints:
    return np.asarray(rows.dataset().labels, dtype=np.int64)


@cache
def _rows_key(rows: DomainRows) -> str:
    head = f"{rows.name} {rows.dataset().fingerprint} {list(rows.domain.group.classes)}"
    return _hash(head.encode() + _row_labels(rows).tobytes())


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def clear_cache() -> None:
    """Read files anew when they are next asked for; they may have changed."""
    for kept in (_load_split, _excluded_hashes, _select_rows, _rows_key):
        kept.cache_clear()
