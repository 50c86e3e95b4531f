"""Digital corruptions against block means, Pillow's JPEG and loops over pixels."""

from __future__ import annotations

import io
import itertools
import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as pil

from oodometer.core.array_types import Floats
from oodometer.transforms.corruptions import digital
from oodometer.transforms.corruptions.noise import Images, smooth_noise
from tests.support.cases import check_cases
from tests.support.small_images import batch, drawn_for, many_draws

SHAPES = [(8, 8), (9, 13), (32, 32), (16, 24, 3), (40, 33, 3)]


def lively(n: int, *shape: int) -> Images:
    """Return images with some structure, for which JPEG is designed."""
    noise = smooth_noise(many_draws(n * 3), shape[:2], cells=5).reshape(n, 3, *shape[:2])
    colour = np.moveaxis((255 * noise).astype(np.uint8), 1, 3)
    return np.ascontiguousarray(colour if len(shape) == 3 else colour[..., 0])


@pytest.mark.parametrize("shape", SHAPES)
def test_contrast_matches_the_formula(shape: tuple[int, ...]) -> None:
    images = batch(4, *shape)
    for image, corrupted in zip(images, digital.contrast(images, 0.3), strict=True):
        for channel, own in zip(np.atleast_3d(image).T, np.atleast_3d(corrupted).T, strict=True):
            mean = channel.astype(float).mean()
            assert np.abs(own - (mean + 0.3 * (channel - mean))).max() < 0.5 + 1e-9


def overlaps(size: int, count: int) -> Floats:
    """Return the fraction of every block on every pixel, (count, size)."""
    block = size / count
    corrupted = np.zeros((count, size))
    for b in range(count):
        for p in range(size):
            corrupted[b, p] = max(0.0, min((b + 1) * block, p + 1) - max(b * block, p)) / block
    return corrupted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.02, 0.05, 0.11, 0.4])
def test_pixelate_replaces_blocks_by_their_means(shape: tuple[int, ...], share: float) -> None:
    images = batch(3, *shape)
    block = math.hypot(1, share * min(shape[:2]))
    counts = [int(size / block) for size in shape[:2]]
    down, across = (overlaps(size, n) for size, n in zip(shape[:2], counts, strict=True))
    # The block that a pixel's centre lies in.
    rows, columns = ([math.floor((2 * p + 1) * n / (2 * size)) for p in range(size)]
                     for size, n in zip(shape[:2], counts, strict=True))  # fmt: skip
    for image, corrupted in zip(images, digital.pixelate(images, share), strict=True):
        means = np.einsum("bp,pq...,cq->bc...", down, image.astype(float), across)
        assert np.abs(corrupted - means[rows][:, columns]).max() < 0.5 + 1e-3


def test_pixelate_with_side_2_averages_four_pixels() -> None:
    images = batch(3, 32, 32, 3)
    share = math.sqrt(1.98**2 - 1) / 32
    means = images.reshape(3, 16, 2, 16, 2, 3).astype(float).mean(axis=(2, 4))
    corrupted = digital.pixelate(images, share)
    assert np.array_equal(corrupted, np.rint(means).repeat(2, axis=1).repeat(2, axis=2))


def test_constant_images_are_not_changed() -> None:
    def check(shape: tuple[int, ...], value: int) -> None:
        images = np.full(shape, value, dtype=np.uint8)
        assert np.array_equal(digital.contrast(images, 0.2), images)
        assert np.array_equal(digital.pixelate(images, 0.05), images)
        assert np.array_equal(digital.elastic(images, 0.05, many_draws(2)), images)

    check_cases(check, itertools.product([(2, 8, 8), (2, 33, 20, 3), (2, 1, 1)], [0, 77, 255]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("percent", [0.5, 2.0, 8.0])
def test_jpeg_is_close_to_pillow(shape: tuple[int, ...], percent: float) -> None:
    images = lively(4, *shape)
    quality = digital.jpeg_quality(percent * min(shape[:2]))
    for image, corrupted in zip(images, digital.jpeg(images, percent), strict=True):
        file = io.BytesIO()
        pil.fromarray(image).save(file, "jpeg", quality=quality)
        # Encoders may round differently, by a value or two.
        assert np.abs(corrupted - np.asarray(pil.open(file)).astype(float)).mean() < 0.5


def test_jpeg_matches_opencv() -> None:
    image = lively(1, 32, 40)[0]
    quality = digital.jpeg_quality(3.0 * 32)
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert np.array_equal(digital.jpeg(image[None], 3.0)[0], np.asarray(cv2.imdecode(data, 0)))


def test_jpeg_keeps_the_channel_order() -> None:
    image = np.zeros((1, 16, 16, 3), dtype=np.uint8)
    image[..., 0] = 200
    assert np.abs(digital.jpeg(image, 1.0)[0, 8, 8] - np.array([200.0, 0, 0])).max() < 12


@given(st.floats(0, 6000))
def test_jpeg_quality_has_the_requested_steps(steps: float) -> None:
    quality = digital.jpeg_quality(steps)
    assert 1 <= quality <= 100
    # The encoder's own scale, on either side of the whole number.
    scale = [5000 / q if q < 50 else 200 - 2 * q for q in (quality + 0.51, max(quality - 0.51, 1))]
    assert scale[0] <= max(steps, 0) <= scale[1] or quality == 1


def test_jpeg_quality_is_constant_beyond_224_pixels() -> None:
    image = lively(1, 300, 260)
    _, data = cv2.imencode(
        ".jpg", image[0], [cv2.IMWRITE_JPEG_QUALITY, digital.jpeg_quality(2.0 * 224)]
    )
    assert np.array_equal(digital.jpeg(image, 2.0)[0], np.asarray(cv2.imdecode(data, 0)))


@pytest.mark.parametrize("shape", SHAPES)
def test_elastic_with_share_0_is_the_identity(shape: tuple[int, ...]) -> None:
    images = batch(3, *shape)
    assert np.array_equal(digital.elastic(images, 0.0, drawn_for(images)), images)


def test_elastic_displaces_a_ramp() -> None:
    side, share = 64, 0.06
    ramp = np.broadcast_to(3 * np.arange(side, dtype=np.uint8), (5, side, side)).copy()
    draws = many_draws(5)
    for way, images in (("x", ramp), ("y", ramp.swapaxes(1, 2).copy())):
        corrupted = digital.elastic(images, share, draws)
        moves = (
            share
            * side
            * (
                2 * smooth_noise(draws.substream(way), (side, side), cells=digital.ELASTIC_CELLS)
                - 1
            )
        )
        inner = (slice(None), slice(5, -5), slice(5, -5))
        # OpenCV 4 interpolates at 1/32 pixel.
        assert np.abs(corrupted[inner] - (images + 3 * moves)[inner]).max() < 0.5 + 3 / 32
        assert np.abs(moves).max() <= share * side
        assert np.abs(moves).max() > 0.8 * share * side
