"""Select the source rows and test rows of each model, without test rows that repeat source rows.

The test split of each domain is divided into two halves by a hash of each row's content. The source
of a model consists of the first halves of its training domains. The model is tested on all test
rows whose content is not in its source. These are the second half of each training domain, the
second half of each domain that is derived from a training domain (for example by a corruption or a
rotation), and all test rows of the other domains.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import RowHashes
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import ConcatDataset
from oodometer.neighborhood.sampling import shuffled_order
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.label_sets import accepted_classes
from oodometer.studies.domains.row_sources import Split, first_half
from oodometer.studies.store import DatasetRecord

# "source" is the first half of the test split, "test" is the whole test split, and "all" is the
# training split and the test split together.
DomainPart = Literal["source", "test", "all"]

# Maximum number of domains that a process keeps in each cache.
MAX_CACHED_DOMAINS = 64


class Domain(NamedTuple):
    """Domain, identified by its group and its name in the group."""

    group: DomainGroup
    name: str


@dataclass(frozen=True)
class DomainRows:
    """Selection of rows of a domain, described by a few values that can be sent to a worker.

    part       rows to select from: "source", "test" or "all"
    name       name of the selection in tables
    max_rows   maximum number of rows; the choice depends on the rows' content; None keeps all
    excluded   training domains of the model; a row is removed from the selection if a source row of
               these domains (if part is "all": a source row or training row) has the same content
    """

    domain: Domain
    part: DomainPart
    name: str
    max_rows: int | None = None
    seed: int = 0
    excluded: tuple[Domain, ...] = ()

    def excluding_sources_of(self, training_domains: tuple[Domain, ...]) -> DomainRows:
        """Return the rows on which a model trained on these domains may be tested."""
        keys = self.domain_keys
        overlapping = tuple(
            domain
            for domain in training_domains
            if np.isin(keys, _excluded_hashes(domain, self.part)).any()
        )
        return replace(self, excluded=overlapping)

    @property
    def domain_keys(self) -> RowHashes:
        """Hashes of all rows of the domain part, before rows are excluded or sampled."""
        return self.whole_domain().keys

    def dataset(self) -> Dataset:
        """Load the selected rows."""
        return _select_rows(self)

    def whole_domain(self) -> Dataset:
        """Load all rows of the domain part, before rows are excluded or sampled."""
        return _load_domain_rows(self.domain, self.part)

    def record(self) -> DatasetRecord:
        """Return the record that is stored for the selected rows."""
        return DatasetRecord(self.key, self.name, _row_labels(self), self.domain.group.classes)

    @property
    def key(self) -> str:
        """Hash of the selection's name, the rows' content, the labels and the class names."""
        return _rows_key(self)


def combined_key(rows: tuple[DomainRows, ...]) -> str:
    """Return one key for several selections; a single selection keeps its own key."""
    keys = [selection.key for selection in rows]
    return keys[0] if len(keys) == 1 else _hash(" ".join(keys).encode())


def training_rows(training_domains: tuple[Domain, ...], max_rows: int, seed: int) -> Dataset:
    """Return a sample of at most `max_rows` training rows of the given domains.

    The sample is the same for all models with the same training domains.
    """
    parts = tuple(_load_split(domain, "train") for domain in training_domains)
    whole = ConcatDataset(" + ".join(domain.name for domain in training_domains), parts)
    return whole.rows(sample_rows(whole.keys, max_rows, seed))


@lru_cache(maxsize=MAX_CACHED_DOMAINS)
def _load_split(domain: Domain, split: Split) -> Dataset:
    return domain.group.domain(domain.name, split)


def _load_training_split(domain: Domain) -> Dataset | None:
    """Return the training split; None if the domain has no training rows."""
    try:
        return _load_split(domain, "train")
    except InputError:
        return None


def _load_domain_rows(domain: Domain, part: DomainPart) -> Dataset:
    test = _load_split(domain, "test")
    train = _load_training_split(domain) if part == "all" else None
    return test if train is None else ConcatDataset(test.name, (train, test))


@lru_cache(maxsize=MAX_CACHED_DOMAINS)
def _excluded_hashes(domain: Domain, part: DomainPart) -> RowHashes:
    """Return the hashes of the rows on which a model trained on the domain must not be tested."""
    test = _load_split(domain, "test").keys
    source = test[first_half(test)]
    train = _load_training_split(domain) if part == "all" else None
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
            f"The domain {rows.domain.name!r} of {rows.domain.group.name!r} has {len(keys)} test "
            "rows, and one of its halves is empty. Add test rows."
        )
    return whole.rows(index[sample_rows(keys[index], rows.max_rows, rows.seed)])


def sample_rows(keys: RowHashes, max_rows: int | None, seed: int) -> Ints:
    """Return sorted numbers of at most `max_rows` rows, sampled by a hash of seed and content."""
    return np.sort(shuffled_order(keys, seed)[:max_rows])


def _row_labels(rows: DomainRows) -> Ints:
    return np.asarray(rows.dataset().labels, dtype=np.int64)


@cache
def _rows_key(rows: DomainRows) -> str:
    head = f"{rows.name} {rows.dataset().fingerprint} {list(rows.domain.group.classes)}"
    accepted = accepted_classes(rows.dataset())
    label_sets = b"" if accepted is None else accepted.tobytes()
    return _hash(head.encode() + _row_labels(rows).tobytes() + label_sets)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def clear_cache() -> None:
    """Clear all caches, so that files that may have changed are read again."""
    for function in (_load_split, _excluded_hashes, _select_rows, _rows_key):
        function.cache_clear()
