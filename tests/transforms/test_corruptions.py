"""Properties of every corruption at every severity, and their names."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import sys
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, MissingExtra, UnknownName
from oodometer.core.inputs import hash_rows
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import (
    CORRUPTION_GROUPS,
    CORRUPTION_SETS,
    CORRUPTIONS,
    SEVERITIES,
    Corruption,
    imagenet_c,
    parse_corruptions,
)
from oodometer.transforms.corruptions.noise import Images, smooth_noise
from tests.support.cases import check_cases
from tests.support.small_images import batch, drawn_for, many_draws

EVERY = parse_corruptions("all") + parse_corruptions("all", severities="relative")
RELATIVE = [name for name, definition in CORRUPTIONS.items() if definition.relative is not None]
SCALES = [("published", name) for name in CORRUPTIONS] + [("relative", name) for name in RELATIVE]
SHAPES = [(8, 8), (17, 12), (12, 8, 1), (32, 32, 3)]


def textured(n: int, side: int) -> Images:
    """Return colour images of smooth noise with a disk, a box and stripes."""
    draws = many_draws(3 * n)
    noise = smooth_noise(draws, (side, side), cells=3) + 0.5 * smooth_noise(
        draws.substream("fine"), (side, side), cells=9
    )
    values = np.moveaxis(noise.reshape(n, 3, side, side), 1, 3) * 130 + 20
    y, x = np.mgrid[:side, :side] / side
    # Shapes are at random positions, so that block edges match those of some images only.
    for row, u in zip(values, many_draws(n).substream("shapes").uniforms(7), strict=True):
        row[(y - u[0]) ** 2 + (x - u[1]) ** 2 < 0.04] = (200, 60, 40)
        row[(abs(y - u[2]) < 0.15) & (abs(x - u[3]) < 0.1)] = (30, 90, 190)
        stripes = np.floor(x * (5 + 4 * u[4]) + u[5]) % 2 == 0
        row[(y > 0.6 + 0.3 * u[6]) & stripes] = 225
    return values.astype(np.uint8)


def change(corruption: Corruption, images: Images) -> float:
    """Return the mean absolute change of the pixels."""
    corrupted = corruption.apply(images, drawn_for(images))
    return float(np.abs(corrupted.astype(float) - images).mean())


def test_published_corruptions_are_in_four_groups() -> None:
    assert list(CORRUPTION_GROUPS) == ["noise", "blur", "weather", "digital"]
    assert [len(names) for names in CORRUPTION_GROUPS.values()] == [4, 5, 5, 5]
    assert sorted(name for names in CORRUPTION_GROUPS.values() for name in names) == sorted(
        CORRUPTIONS
    )
    expected = {"gaussian_noise", "shot_noise", "impulse_noise", "gaussian_blur", "defocus_blur",
              "motion_blur", "fog", "frost", "brightness", "contrast", "pixelate", "jpeg",
              "elastic"}  # fmt: skip
    assert expected <= set(CORRUPTIONS)
    assert set(CORRUPTIONS) - set(RELATIVE) == {"glass_blur", "spatter", "saturate"}
    standard, extra = CORRUPTION_SETS["standard"], CORRUPTION_SETS["extra"]
    assert (len(standard), len(extra)) == (15, 4)
    assert {*standard, *extra} == set(CORRUPTION_SETS["all"]) == set(CORRUPTIONS)


def _stays(corruption: Corruption, shape: tuple[int, ...]) -> bool:
    """Return whether images of this shape are not changed.

    Gray images have no saturation, and factors up to 1.05 enlarge no part of 8 pixels.
    """
    if corruption.name == "saturate":
        return shape[2:] != (3,)
    return corruption == Corruption("zoom_blur", 1) and shape == (8, 8)


def test_output_has_shape_and_type_of_the_input_which_is_unchanged() -> None:
    def check(corruption: Corruption, shape: tuple[int, ...]) -> None:
        images = batch(5, *shape)
        original = images.copy()
        images.flags.writeable = False
        draws = drawn_for(images)
        first, second = (corruption.apply(images, draws) for _ in range(2))
        assert (first.shape, first.dtype) == (images.shape, np.uint8)
        assert np.array_equal(first, second)
        assert np.array_equal(images, original)
        assert np.array_equal(first, images) == _stays(corruption, shape)
        assert not np.shares_memory(first, images)

    check_cases(check, itertools.product(EVERY, SHAPES))


def test_rows_do_not_depend_on_order_and_batch() -> None:
    images = batch(30, 12, 16, 3)
    draws = drawn_for(images)
    order = np.random.default_rng(0).permutation(30)

    def check(corruption: Corruption) -> None:
        whole = corruption.apply(images, draws)
        assert np.array_equal(corruption.apply(images[order], draws.rows(order)), whole[order])
        for part in (slice(0, 1), slice(1, 12), slice(12, 30)):
            assert np.array_equal(corruption.apply(images[part], draws.rows(part)), whole[part])

    check_cases(check, zip(EVERY))


def test_splitting_large_batches_changes_nothing() -> None:
    def check(severities: Any, name: str) -> None:
        images = batch(20, 70, 64, 3)
        draws = drawn_for(images)
        corruption = Corruption(name, severities=severities)
        whole = corruption.apply(images, draws)
        one_by_one = [
            corruption.apply(images[i : i + 1], draws.rows(slice(i, i + 1))) for i in range(20)
        ]
        assert np.array_equal(whole, np.concatenate(one_by_one))

    check_cases(check, SCALES)


@pytest.mark.parametrize("side", [16, 32, 64])
@pytest.mark.parametrize("name", RELATIVE)
def test_change_increases_with_relative_severity(name: str, side: int) -> None:
    colour = textured(40, side)
    grey = colour[..., 1].copy()
    for images in (colour, grey, grey[..., None]):
        changes = [
            change(Corruption(name, severity, "relative"), images) for severity in SEVERITIES
        ]
        steps = np.diff([0.5, *changes])
        assert np.all(steps > 0), f"{name} at {side} changes by {changes}"


@pytest.mark.parametrize(
    "name", [name for name in RELATIVE if name not in CORRUPTION_GROUPS["noise"]]
)
def test_relative_severity_is_comparable_across_image_sizes(name: str) -> None:
    small, large = textured(12, 32), textured(12, 128)
    corruption = Corruption(name, severities="relative")
    ratio = change(corruption, small) / change(corruption, large)
    assert 1 / 2 < ratio < 2


@pytest.mark.parametrize(("severities", "name"), SCALES)
def test_random_corruptions_differ_by_draw_seed_and_row(severities: Any, name: str) -> None:
    images = textured(1, 16).repeat(6, axis=0)
    same = np.zeros(6, dtype=np.uint64)
    numbers = np.arange(1, 7)
    ones = np.ones(6, dtype=np.int64)
    fixed = name in ("gaussian_blur", "defocus_blur", "zoom_blur", "brightness", "contrast",
                     "pixelate", "jpeg", "saturate")  # fmt: skip
    corruption = Corruption(name, severities=severities)
    for draws in (RowStreams(0, same, numbers), RowStreams(0, numbers.astype(np.uint64), ones)):
        corrupted = corruption.apply(images, draws)
        n_different = len(set(hash_rows(corrupted).tolist()))
        # Published motion blur moves by whole pixels, so that two angles may give one result.
        assert n_different == (1 if fixed else 6) or (name == "motion_blur" and n_different >= 4)
    first, second = (corruption.apply(images, RowStreams(seed, same, ones)) for seed in (0, 1))
    assert np.array_equal(first, second) == fixed


def test_noises_of_different_corruptions_are_independent() -> None:
    images = np.full((1, 32, 32), 128, dtype=np.uint8)
    corrupted = [Corruption(name).apply(images, drawn_for(images)).ravel().astype(float)
            for name in ("gaussian_noise", "speckle_noise")]  # fmt: skip
    assert abs(np.corrcoef(corrupted)[0, 1]) < 0.2


def test_grey_images_with_and_without_channel_agree() -> None:
    def check(name: str) -> None:
        images = batch(4, 12, 9)
        draws = drawn_for(images)
        corrupted = Corruption(name).apply(images[..., None], draws)
        assert np.array_equal(corrupted[..., 0], Corruption(name).apply(images, draws))

    check_cases(check, zip(CORRUPTIONS))


def test_odd_sizes_and_empty_batches_are_accepted() -> None:
    def check(name: str, shape: tuple[int, ...], severity: int) -> None:
        images = batch(*shape)
        corrupted = Corruption(name, severity).apply(images, many_draws(len(images)))
        assert (corrupted.shape, corrupted.dtype) == (shape, np.uint8)

    shapes = [(2, 1, 1), (2, 2, 3, 3), (2, 5, 60), (0, 8, 8, 3)]
    check_cases(check, itertools.product(CORRUPTIONS, shapes, (1, 5)))


def test_non_contiguous_images_give_the_same_result() -> None:
    def check(name: str) -> None:
        images = batch(3, 3, 8, 9)
        permuted = np.moveaxis(images, 1, 3)
        draws = drawn_for(permuted)
        corrupted = Corruption(name).apply(permuted, draws)
        assert corrupted.flags.c_contiguous
        assert np.array_equal(corrupted, Corruption(name).apply(permuted.copy(order="C"), draws))

    check_cases(check, zip(CORRUPTIONS))


@pytest.mark.parametrize("severity", [0, 6, -1, 2.5, 3.0, True, "3", None])
def test_invalid_severity_raises(severity: Any) -> None:
    message = f"The severity of fog must be a whole number from 1 to 5; got {severity!r}."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Corruption("fog", severity)


def test_numpy_integers_are_severities() -> None:
    assert Corruption("fog", np.int64(2)) == Corruption("fog", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [(["a text"], "text"), ([("a", "b")], "pairs"), (np.ones((1, 3)), "vectors")],
)
def test_other_kinds_of_inputs_raise(inputs: Any, kind: str) -> None:
    message = (
        f"jpeg applies to images; got {kind}. Images are uint8 arrays of shape (n, height, width) or "
        f"(n, height, width, 3); for {kind}, choose another transform."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Corruption("jpeg").apply(inputs, many_draws(1))


def test_images_of_other_types_or_without_pixels_raise() -> None:
    with pytest.raises(InputError, match=r"An array of int64 of shape \(1, 8, 8\) is not a batch"):
        Corruption("jpeg").apply(np.ones((1, 8, 8), dtype=np.int64), many_draws(1))
    with pytest.raises(InputError, match=r"got vectors"):
        Corruption("jpeg").apply(np.ones((1, 8, 8, 3), dtype=np.float32), many_draws(1))
    with pytest.raises(
        InputError,
        match=r"images must have shape \(n, height, width, …\) with pixels; got \(2, 0, 5\)",
    ):
        Corruption("jpeg").apply(np.ones((2, 0, 5), dtype=np.uint8), many_draws(2))


def test_unknown_names_raise_with_a_suggestion() -> None:
    with pytest.raises(UnknownName, match=r"No corruption is called 'frog'. Did you mean 'fog'"):
        Corruption("frog")
    for text in ("frog", "frog-3", "fog-x", "", "fog-"):
        with pytest.raises(UnknownName, match=rf"No corruption is called '{text}'\..* extra\.$"):
            parse_corruptions(text)


@pytest.mark.parametrize("text", ["fog-0", "fog:6", "fog-2.5", "noise-7", "all:-1", "fog--3"])
def test_names_with_invalid_severity_raise(text: str) -> None:
    with pytest.raises(InputError, match=r"must be a whole number from 1 to 5; got"):
        parse_corruptions(text)


def test_parse_corruptions_accepts_names_groups_and_severities() -> None:
    assert parse_corruptions("fog") == tuple(Corruption("fog", severity) for severity in SEVERITIES)
    assert (
        parse_corruptions("fog-3")
        == parse_corruptions("fog:3")
        == parse_corruptions(" Fog-3")
        == (Corruption("fog", 3),)
    )
    assert (
        parse_corruptions("gaussian-noise-2")
        == parse_corruptions("gaussian_noise:2")
        == (Corruption("gaussian_noise", 2),)
    )
    for group, names in CORRUPTION_GROUPS.items():
        result = parse_corruptions(group)
        assert {(corruption.name, corruption.severity) for corruption in result} == {
            (name, severity) for name in names for severity in SEVERITIES
        }
        assert len(result) == 5 * len(names)
        assert {corruption.group for corruption in result} == {group}
        assert [corruption.name for corruption in parse_corruptions(f"{group}-4")] == list(names)
    assert len(set(EVERY)) == len(EVERY) == 95 + 80
    assert parse_corruptions("standard-2") == tuple(
        Corruption(name, 2) for name in CORRUPTION_SETS["standard"]
    )
    assert len(parse_corruptions("extra")) == 20
    assert {corruption.severity for corruption in parse_corruptions("all-2")} == {2}


def test_labels_parse_to_their_corruption() -> None:
    def check(corruption: Corruption) -> None:
        severities = corruption.severities
        assert parse_corruptions(corruption.label, severities=severities) == (corruption,)
        assert pickle.loads(pickle.dumps(corruption)) == copy.deepcopy(corruption) == corruption

    check_cases(check, zip(EVERY))


def test_relative_amounts_are_monotone_in_severity() -> None:
    def check(name: str) -> None:
        amounts = [Corruption(name, severity, "relative").parameters(32) for severity in SEVERITIES]
        steps = np.diff(amounts, axis=0)
        assert np.all(steps > 0) or np.all(steps < 0)

    check_cases(check, zip(RELATIVE))


def test_invalid_severities_raise() -> None:
    message = r"severities must be published or relative; got 'own'\."
    with pytest.raises(InputError, match=message):
        Corruption("fog", severities="own")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        parse_corruptions("all", severities="own")  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"glass_blur has no relative severities\. Use severities="
    ):
        parse_corruptions("glass_blur-2", severities="relative")


@pytest.mark.parametrize(
    ("package", "corruption"),
    [
        ("cv2", Corruption("jpeg", severities="relative")),
        ("cv2", Corruption("defocus_blur")),
        ("PIL.Image", Corruption("jpeg")),
    ],
)
def test_missing_packages_name_the_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, corruption: Corruption
) -> None:
    imagenet_c.smoothed_disk.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    images = batch(1, 8, 8)
    with pytest.raises(MissingExtra, match=r"^Processing images needs the package .*images"):
        corruption.apply(images, drawn_for(images))
