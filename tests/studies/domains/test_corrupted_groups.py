"""Corrupted groups: every domain under every corruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.random_streams import RowStreams
from oodometer.studies.domains import corrupted_groups
from oodometer.studies.domains.group import get
from oodometer.studies.splits import Domain, DomainRows
from oodometer.transforms.corruptions import Corruption


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pacs").mkdir()
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "pacs" / "pacs32.npz",
        x=random.integers(0, 256, (40, 32, 32, 3), dtype=np.uint8),
        y=np.arange(40) % 7,
        domain=np.zeros(40, dtype=np.uint8),
        domains=np.array(["photo", "sketch"]),
    )
    return tmp_path


def test_corrupted_domain_equals_the_corruption_of_the_domain(root: Path) -> None:
    clean = get("pacs", root=root).domain("photo", "train")
    group = corrupted_groups.get_group("pacs-c", root=root)
    data = group.domain("photo/fog-3", "train")
    draws = RowStreams(0, clean.keys, np.ones(len(clean), dtype=np.int64))
    assert np.array_equal(
        data.take(slice(None)), Corruption("fog", 3).apply(clean.take(slice(None)), draws)
    )
    assert data.labels is not None
    assert clean.labels is not None
    assert np.array_equal(data.labels, clean.labels)
    assert len(group.domains) == 4 * 19 * 5


def test_corruptions_can_be_selected(root: Path) -> None:
    group = corrupted_groups.corrupt_group(get("pacs", root=root), "fog-3", seed=7)
    assert (group.name, len(group.domains), group.classes) == ("pacs-c", 4, get("pacs").classes)
    other = corrupted_groups.corrupt_group(get("pacs", root=root), "fog-3")
    first, second = (one.domain("photo/fog-3", "test") for one in (group, other))
    assert not np.array_equal(first.take(slice(None)), second.take(slice(None)))


def test_severities_change_pixels_and_fingerprint(root: Path) -> None:
    published, relative = (
        corrupted_groups.get_group("pacs-c", root=root, severities=severities)
        for severities in ("published", "relative")
    )
    assert len(relative.domains) == 4 * 16 * 5
    assert set(relative.domains) < set(published.domains)
    first, second = (group.domain("photo/fog-3", "test") for group in (published, relative))
    assert first.fingerprint != second.fingerprint
    assert not np.array_equal(first.take(slice(None)), second.take(slice(None)))
    keys = [
        DomainRows(Domain(group, "photo/fog-3"), "test", "photo/fog-3").key
        for group in (published, relative)
    ]
    assert keys[0] != keys[1]


def test_missing_files_are_those_of_the_clean_group(tmp_path: Path) -> None:
    why = corrupted_groups.get_group("pacs-c", root=tmp_path).missing_reason("photo/fog-3")
    assert why is not None
    assert (
        "pacs-c/photo/fog-3 is derived from another domain: pacs/photo: there is no 'pacs/pacs32.npz'"
        in why
    )


def test_unknown_names_are_rejected(tmp_path: Path) -> None:
    assert corrupted_groups.get_group("pacs", root=tmp_path) == get("pacs", root=tmp_path)
    for name in ("pac", "pac-c"):
        with pytest.raises(UnknownName, match=f"No domain group is called '{name}'. Did you mean"):
            corrupted_groups.get_group(name)
    with pytest.raises(InputError, match="Only images can be corrupted; sentiment holds text"):
        corrupted_groups.get_group("sentiment-c")
