"""AugMix against a naive_augmix implementation and the distributions of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.studies.training.augment import AUGMIX_OPERATIONS, N_CHAINS, AugMix, augmentation
from oodometer.studies.training.sampling import row_streams
from oodometer.testing import check_transform, toy_inputs
from oodometer.transforms import FlipCrop, RandAugment
from oodometer.transforms.corruptions import CORRUPTIONS


def draws(n: int, seed: int = 0) -> RowStreams:
    return row_streams(seed, np.arange(n, dtype=np.uint64), "augment")


def naive_augmix(member: AugMix, images: Array, drawn: RowStreams) -> Array:
    """Return (1 − m) x + m Σ wᵢ chainᵢ(x), image by image, in double precision."""
    plan, rows = member.draw_plan(drawn), []
    for row, image in enumerate(images):
        mix = np.zeros(image.shape)
        for chain in range(N_CHAINS):
            changed = image
            for step in range(plan.lengths[row, chain]):
                operation = AUGMIX_OPERATIONS[plan.operation_index[row, chain, step]]
                changed = operation.change(changed, float(plan.amounts[row, chain, step]))
            mix += plan.weights[row, chain] * changed.astype(np.float64)
        share = plan.mix_share[row]
        rows.append((1 - share) * image + share * mix)
    return np.stack(rows)


def test_augmix_passes_the_conformance_check() -> None:
    check_transform(AugMix())


@pytest.mark.parametrize("magnitude", [1.0, 3.0, 10.0])
def test_augmix_matches_the_formula(magnitude: float) -> None:
    images, member = toy_inputs("images", n=30), AugMix(magnitude)
    found = member.apply(images, draws(30))
    # Single precision may round halves differently.
    assert np.abs(found - naive_augmix(member, images, draws(30))).max() < 0.501


def test_grey_images_do_not_need_a_channel_axis() -> None:
    grey = toy_inputs("images", n=10)[..., 0]
    found = AugMix().apply(grey, draws(10))
    assert found.shape == grey.shape
    assert np.array_equal(AugMix().apply(grey[..., None], draws(10))[..., 0], found)
    assert np.abs(found - naive_augmix(AugMix(), grey, draws(10))).max() < 0.501


def test_draws_have_the_distributions_of_the_paper() -> None:
    plan = AugMix(3.0).draw_plan(draws(20_000))
    assert plan.mix_share.mean() == pytest.approx(1 / 2, abs=0.01)
    assert plan.mix_share.var() == pytest.approx(1 / 12, abs=0.005)
    assert np.allclose(plan.weights.sum(axis=1), 1)
    # Dirichlet(1, 1, 1): mean 1/3, variance 1/18.
    assert np.allclose(plan.weights.mean(axis=0), 1 / 3, atol=0.01)
    assert np.allclose(plan.weights.var(axis=0), 1 / 18, atol=0.005)
    assert np.allclose(np.bincount(plan.lengths.ravel())[1:] / 60_000, 1 / 3, atol=0.01)
    assert np.allclose(np.bincount(plan.operation_index.ravel()) / 180_000, 1 / 9, atol=0.01)


def test_amounts_are_within_the_magnitude_and_signed() -> None:
    plan = AugMix(3.0).draw_plan(draws(5_000))
    for place, operation in enumerate(AUGMIX_OPERATIONS):
        own = plan.amounts[plan.operation_index == place]
        reach = 0.3 * abs(operation.at_10 - operation.at_0)
        assert np.abs(own - operation.at_0).max() <= reach
        assert np.abs(own - operation.at_0).max() >= 0.9 * reach
        assert (own < operation.at_0).any() == (reach > 0)
        assert (own > operation.at_0).any() == operation.signed


def test_no_operation_is_a_corruption() -> None:
    names = {operation.name for operation in AUGMIX_OPERATIONS}
    assert not names & (set(CORRUPTIONS) | {"contrast", "color", "brightness", "sharpness"})
    assert len(names) == 9


def test_augmentations_by_name() -> None:
    assert augmentation("none") is None
    assert augmentation("randaugment") == RandAugment(n_ops=2)
    assert augmentation("augmix") == augmentation("augmix-jsd") == AugMix()
    # NI A.5: at least 8 % of the area.
    assert augmentation("flip-crop") == FlipCrop(0.92)


def test_unknown_augmentation_is_rejected() -> None:
    with pytest.raises(
        InputError, match="magnitude of augmix must be a number from 0 to 10; got 11"
    ):
        AugMix(11)
    with pytest.raises(InputError, match="augmix applies to images; got text"):
        AugMix().apply(["a"], draws(1))
