"""Tiny bodies that tests use instead of pretrained networks; they count the rows they receive."""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.models.bodies import Body, Extractor, open_body

WIDTH = 16
# Location of `projection`, for TOML files and workers.
PROJECTION = "tests.support.tiny_bodies:projection"
BRIGHTNESS = "tests.support.tiny_bodies:brightness"
# Number of rows that each body has received in this process.
ROWS_SEEN: dict[str, int] = {}


def count_rows(name: str, rows: Array) -> None:
    ROWS_SEEN[name] = ROWS_SEEN.get(name, 0) + len(rows)


def tiny_body(name: str = "projection", fingerprint: str = "tiny 1", seed: int = 0) -> Body:
    """Return a body of vectors: tanh of a random projection."""

    def load() -> Extractor:
        def extract(rows: Array) -> Floats:
            count_rows(name, rows)
            flat = rows.reshape(len(rows), -1)
            weights = np.random.default_rng(seed).normal(size=(flat.shape[1], WIDTH))
            # Summed row by row, so that the features do not depend on the batch.
            sums = (flat[:, :, None] * weights).sum(axis=1)
            return np.asarray(np.tanh(sums / np.sqrt(flat.shape[1])), dtype=np.float32)

        return extract

    return Body(name=name, kinds=("vectors",), width=WIDTH, fingerprint=fingerprint, load=load)


def projection() -> Body:
    return tiny_body()


def brightness() -> Body:
    """Return a body of images: mean and spread of blocks of rows of each channel."""

    def load() -> Extractor:
        def extract(images: Array) -> Floats:
            count_rows("brightness", images)
            values = images.reshape(len(images), -1, 3).astype(np.float32) / 255
            parts = np.array_split(values, 2, axis=1)
            stats = [f(part, axis=1) for part in parts for f in (np.mean, np.std)]
            features = np.concatenate([*stats, values[:, :4, 0]], axis=1)
            return np.asarray(features, dtype=np.float32)

        return extract

    return Body(name="brightness", kinds=("images",), width=WIDTH, fingerprint="b1", load=load)


def open_tiny_body() -> Body:
    """Return `projection` with its location, so that it can be sent to workers."""
    return open_body(PROJECTION)
