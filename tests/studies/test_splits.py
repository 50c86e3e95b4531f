"""Source and test rows are disjoint by content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.studies import splits
from oodometer.studies.domains import group
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.hypersphere_group import hypersphere
from oodometer.studies.domains.row_sources import first_half
from oodometer.studies.splits import Domain, DomainRows, combined_key, training_rows

SPHERE = hypersphere()
POLE, SIDE = Domain(SPHERE, "0"), Domain(SPHERE, "90")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    splits.clear_cache()


def contents(some: DomainRows) -> set[bytes]:
    taken: Array = some.dataset().take(slice(None))
    return {row.tobytes() for row in taken}


def sizes_of(some: DomainRows) -> int:
    """Return the numbers of rows; 0 for an error."""
    try:
        return len(some.dataset())
    except InputError:
        return 0


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_halves_are_split_by_content(numbers: list[int]) -> None:
    keys = np.array([*numbers, *numbers], dtype=np.uint64)
    half = set(first_half(keys).tolist())
    assert all((j in half) == (j + len(numbers) in half) for j in range(len(numbers)))


def test_training_domain_is_tested_on_the_other_half() -> None:
    whole = DomainRows(POLE, "test", "0")
    source = DomainRows(POLE, "source", "0, source")
    own = whole.excluding_sources_of((POLE,))
    assert contents(source) | contents(own) == contents(whole)
    assert not contents(source) & contents(own)
    assert 400 < len(contents(source)) < 600
    assert own.key != whole.key


def test_other_domains_are_tested_on_all_test_rows() -> None:
    whole = DomainRows(SIDE, "test", "90")
    assert whole.excluding_sources_of((POLE,)) == whole
    assert whole.excluding_sources_of((POLE, SIDE)).excluded == (SIDE,)
    assert len(whole.dataset()) == 1000


def test_part_all_includes_training_rows_except_the_models_own() -> None:
    whole = DomainRows(SIDE, "all", "90")
    assert len(whole.excluding_sources_of((POLE,)).dataset()) == 2000
    own = whole.excluding_sources_of((SIDE,))
    assert contents(own) == contents(DomainRows(SIDE, "test", "90").excluding_sources_of((SIDE,)))


def test_domain_without_training_rows_is_accepted(tmp_path: Path) -> None:
    image_group(tmp_path)
    table = {"groups": {"new": {"kind": "images", "classes": ["a", "b"], "domains": {
        "one": {"reader": "npz", "path": "base.npz", "share": 1.0}}}}}  # fmt: skip
    domain = Domain(group.open_group(table, root=tmp_path), "one")
    assert len(DomainRows(domain, "all", "one").dataset()) == 120


def test_max_rows_are_chosen_by_content() -> None:
    whole = DomainRows(SIDE, "test", "90")
    few, more = replace(whole, max_rows=50), replace(whole, max_rows=80)
    assert len(few.dataset()) == 50
    assert contents(few) < contents(more) < contents(whole)
    other = replace(few, seed=1)
    assert contents(other) != contents(few)
    labels = few.record().labels
    norms = np.linalg.norm(few.dataset().take(slice(None)), axis=1)
    assert np.array_equal(labels, norms < 1.0)


def image_group(folder: Path) -> DomainGroup:
    """Return a domain of images, its negatives, and a domain of other images."""
    rng = np.random.default_rng(0)
    for name in ("base", "other"):
        images = rng.integers(0, 255, size=(120, 8, 8), dtype=np.uint8)
        np.savez(folder / f"{name}.npz", x=images, y=np.arange(120) % 2)
    table: dict[str, Any] = {"groups": {"pictures": {
        "kind": "images", "classes": ["a", "b"], "domains": {
            "base": {"reader": "npz", "path": "base.npz"},
            "other": {"reader": "npz", "path": "other.npz"},
        },
    }}}  # fmt: skip
    return group.open_group(table, root=folder)


@pytest.mark.parametrize("part", ["test", "all"])
def test_derived_domain_excludes_the_same_rows(part: Any, tmp_path: Path) -> None:
    from oodometer.studies.domains.corrupted_groups import corrupt_group

    plain = image_group(tmp_path)
    changed = corrupt_group(plain, "fog-3")
    base, fog = Domain(plain, "base"), Domain(changed, "base/fog-3")
    source = DomainRows(base, "source", "source").dataset()
    tested = DomainRows(fog, part, "fog").excluding_sources_of((base,))
    assert tested.excluded == (base,)
    learned = {*source.keys.tolist(), *plain.domain("base", "train").keys.tolist()}
    assert not learned & set(tested.dataset().keys.tolist())
    test = plain.domain("base", "test")
    assert len(tested.dataset()) == len(test) - len(source)
    assert (
        not DomainRows(Domain(changed, "other/fog-3"), part, "x")
        .excluding_sources_of((base,))
        .excluded
    )


def test_key_depends_on_content_name_and_labels(tmp_path: Path) -> None:
    first = DomainRows(Domain(image_group(tmp_path), "base"), "test", "base")
    key = first.key
    assert replace(first, name="another").key != key
    images = np.load(tmp_path / "base.npz")["x"]
    np.savez(tmp_path / "base.npz", x=images, y=np.ones(120, dtype=np.int64))
    assert first.key == key, "kept for the run"
    splits.clear_cache()
    changed = DomainRows(Domain(image_group(tmp_path), "other"), "test", "base").key
    assert changed != key
    np.savez(tmp_path / "base.npz", x=images, y=np.ones(120, dtype=np.int64))
    splits.clear_cache()
    assert first.key != key


def test_domain_with_an_empty_half_is_named(tmp_path: Path) -> None:
    image_group(tmp_path)
    images = np.load(tmp_path / "base.npz")["x"][:1]
    np.savez(tmp_path / "test.npz", x=images, y=np.zeros(1, dtype=np.int64))
    table = {"groups": {"few": {"kind": "images", "classes": ["a", "b"], "domains": {
        "one": {"reader": "npz", "path": "base.npz", "test": {"path": "test.npz"}}}}}}  # fmt: skip
    domain = Domain(group.open_group(table, root=tmp_path), "one")
    halves = [
        DomainRows(domain, "source", "s"),
        DomainRows(domain, "test", "t").excluding_sources_of((domain,)),
    ]
    (empty,) = (half for half in halves if not sizes_of(half))
    with pytest.raises(
        InputError, match=r"'one' of 'few' has 1 test rows, and one of its halves is empty"
    ):
        empty.dataset()


def test_several_sources_have_a_combined_key() -> None:
    first, second = (DomainRows(domain, "source", "s") for domain in (POLE, SIDE))
    assert combined_key((first,)) == first.key
    assert len({combined_key((first, second)), combined_key((second, first)), first.key}) == 3


def test_training_rows_are_a_subset_of_the_training_split() -> None:
    some = training_rows((POLE, SIDE), 300, 0)
    assert len(some) == 300
    known = {key for name in ("0", "90") for key in SPHERE.domain(name, "train").keys.tolist()}
    assert set(some.keys.tolist()) < known
