"""Few-shot selection, label noise and the order of batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Ints
from oodometer.core.inputs import RowHashes
from oodometer.core.stats import rng_for
from oodometer.studies.training.sampling import (
    add_label_noise,
    balanced_batches,
    batches,
    count_balanced_steps,
    count_steps,
    row_streams,
    sample_per_class,
)

SEEDS = st.integers(0, 2**32)


def rows(n: int, classes: int, seed: int) -> tuple[Ints, RowHashes]:
    rng = rng_for(seed, "rows")
    return rng.integers(0, classes, n), rng.integers(0, 2**64, n, dtype=np.uint64)


def naive_few_shot(labels: Ints, keys: RowHashes, count: int, seed: int) -> list[int]:
    """Return the rows with the lowest priorities of every class."""
    luck = row_streams(seed, keys, "few-shot").uniforms(1)[:, 0]
    kept: list[int] = []
    for label in set(labels.tolist()):
        own = [row for row in range(len(labels)) if labels[row] == label]
        kept += sorted(own, key=lambda row: float(luck[row]))[:count]
    return sorted(kept)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 12), SEEDS)
def test_few_shot_matches_the_loop(n: int, classes: int, count: int, seed: int) -> None:
    labels, keys = rows(n, classes, seed)
    found = sample_per_class(labels, keys, count=count, seed=seed)
    assert found.tolist() == naive_few_shot(labels, keys, count, seed)
    sizes = np.minimum(np.bincount(labels, minlength=classes), count)
    assert np.array_equal(np.bincount(labels[found], minlength=classes), sizes)


@given(st.integers(2, 60), SEEDS)
def test_draws_do_not_depend_on_the_position_of_a_row(n: int, seed: int) -> None:
    labels, keys = rows(n, 3, seed)
    order = rng_for(seed, "order").permutation(n)
    few = sample_per_class(labels, keys, count=4, seed=seed)
    moved = sample_per_class(labels[order], keys[order], count=4, seed=seed)
    assert set(keys[few]) == set(keys[order][moved])
    noisy = add_label_noise(labels, keys, classes=3, share=0.5, seed=seed)
    again = add_label_noise(labels[order], keys[order], classes=3, share=0.5, seed=seed)
    assert np.array_equal(noisy[order], again)


def test_another_seed_gives_other_draws() -> None:
    labels, keys = rows(400, 4, 0)
    one, other = (sample_per_class(labels, keys, count=10, seed=seed) for seed in (1, 2))
    assert not np.array_equal(one, other)
    one, other = (add_label_noise(labels, keys, classes=4, share=0.5, seed=seed) for seed in (1, 2))
    assert not np.array_equal(one, other)


def test_label_noise_matches_the_loop() -> None:
    labels, keys = rows(200, 5, 3)
    drawn = row_streams(7, keys, "label noise").uniforms(2)
    expected = [
        int(u[1] * 5) if u[0] < 0.3 else int(label) for u, label in zip(drawn, labels, strict=True)
    ]
    assert add_label_noise(labels, keys, classes=5, share=0.3, seed=7).tolist() == expected


def test_label_noise_draws_from_all_classes() -> None:
    n, share = 20_000, 0.4
    labels, keys = np.zeros(n, dtype=np.int64), rows(n, 4, 1)[1]
    noisy = add_label_noise(labels, keys, classes=4, share=share, seed=0)
    counts = np.bincount(noisy, minlength=4) / n
    # Each of the four classes gets a quarter of the selected rows, including the correct one.
    assert np.abs(counts - [1 - share * 3 / 4, *[share / 4] * 3]).max() < 0.01
    everywhere = add_label_noise(labels, keys, classes=4, share=1.0, seed=0)
    assert np.abs(np.bincount(everywhere) / n - 0.25).max() < 0.01


def test_zero_noise_keeps_all_labels() -> None:
    labels, keys = rows(300, 3, 2)
    assert np.array_equal(add_label_noise(labels, keys, classes=3, share=0.0, seed=0), labels)


@given(st.integers(1, 80), st.integers(1, 20), st.integers(0, 9), st.integers(1, 4))
def test_epoch_has_every_row_once_except_a_single_last_row(
    n: int, batch: int, seed: int, epoch: int
) -> None:
    found = list(batches(n, batch_size=batch, seed=seed, epoch=epoch))
    shown = np.concatenate(found)
    lone = n % batch == 1 and n > 1 and batch > 1
    assert len(set(shown.tolist())) == len(shown) == n - lone
    assert len(found) == count_steps(n, batch)
    assert all(len(one) == batch for one in found[:-1])
    assert len(found[-1]) > 1 or batch == 1 or n == 1


def test_order_depends_on_epoch_and_seed() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return [
            int(row) for one in batches(50, batch_size=8, seed=seed, epoch=epoch) for row in one
        ]

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


@pytest.mark.parametrize("batch", [4, 7, 12])
def test_balanced_batches_have_equally_many_rows_of_each_domain(batch: int) -> None:
    domains = np.array([1, 0, 0, 1, 0, 0, 0])
    found = list(balanced_batches(domains, 2, batch_size=batch, seed=0, epoch=1))
    assert len(found) == count_balanced_steps(domains, 2, batch) == math.ceil(5 / (batch // 2))
    for index in found:
        assert domains[index].tolist() == [0] * (batch // 2) + [1] * (batch // 2)
    shown = np.concatenate(found)
    assert set(shown.tolist()) == set(range(7))
    # A row is repeated only after all other rows of its domain have occurred.
    for domain in (0, 1):
        counts = np.bincount(shown[domains[shown] == domain], minlength=7)[domains == domain]
        assert counts.max() - counts.min() <= 1


def test_balanced_order_depends_on_epoch_and_seed() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        domains = np.arange(40) % 2
        found = balanced_batches(domains, 2, batch_size=8, seed=seed, epoch=epoch)
        return [index.tolist() for index in found]

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)
