"""Small images for tests of transforms, and random streams for them."""

from __future__ import annotations

import numpy as np

from oodometer.core.inputs import hash_rows
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.color_ops import Image

SHAPES = [(8, 8), (9, 13), (32, 32), (64, 48), (8, 8, 3), (9, 13, 3), (32, 32, 3), (64, 48, 3)]


def pictures(shape: tuple[int, ...], seed: int = 0) -> dict[str, Image]:
    """Return images with random, narrow-range, constant, two-valued and gradient pixels."""
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.choice(256, 2, replace=False))
    ramp = np.arange(np.prod(shape)).reshape(shape)
    made = {
        "random": rng.integers(0, 256, shape),
        "narrow": rng.integers(low, high + 1, shape),
        "constant": np.full(shape, low),
        "two values": rng.choice([low, high], shape),
        "gradient": ramp * 255 // ramp.max(),
    }
    return {name: image.astype(np.uint8) for name, image in made.items()}


def batch(n: int, *shape: int, seed: int = 0) -> Image:
    """Return random images without pixels of value 0."""
    return np.random.default_rng(seed).integers(1, 256, (n, *shape), dtype=np.uint8)


def drawn_for(images: Image, number: int = 1, seed: int = 0) -> RowStreams:
    """Return the streams of a draw index; each row's stream depends on its content."""
    return RowStreams(
        seed=seed, row_keys=hash_rows(images), draw_index=np.full(len(images), number)
    )


def many_draws(n: int, seed: int = 0) -> RowStreams:
    """Return the streams of draws 1 … n of one example."""
    return RowStreams(
        seed=seed, row_keys=np.zeros(n, dtype=np.uint64), draw_index=np.arange(1, n + 1)
    )
