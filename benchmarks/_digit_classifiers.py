"""Digit classifiers trained on MNIST, and the digit datasets they are tested on.

All digits are light on dark, 16 × 16 pixels. USPS digits fill the image, MNIST digits have a margin
of four pixels, which can be cropped. Street digits are photographs of either polarity: each is
converted to grey, and each pixel is replaced by its distance from the background, the median of the
border, so that all digits are light on dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from oodometer.core.array_types import Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.protocols import Dataset
from oodometer.data import as_dataset
from oodometer.models import TorchModel
from oodometer.transforms.color_ops import Image

SIDE, CLASSES = 16, 10
TRAINED_ON, BATCH, RATE = 10_000, 128, 1e-3


@dataclass(frozen=True)
class Recipe:
    """Training configuration: architecture, width, share of wrong labels, epochs, seed."""

    kind: str
    width: int
    noise: float
    epochs: int
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.width}, noise {self.noise:.0%}, {self.epochs} epochs"

    def network(self) -> nn.Module:
        if self.kind == "mlp":
            return nn.Sequential(
                nn.Flatten(), nn.Linear(SIDE**2, self.width), nn.ReLU(),
                nn.Linear(self.width, CLASSES),
            )  # fmt: skip
        wide, small = 2 * self.width, SIDE // 4
        return nn.Sequential(
            nn.Conv2d(1, self.width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(self.width, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(wide * small**2, CLASSES),
        )  # fmt: skip


def resized(images: Image) -> Image:
    """Resize images to 16 × 16: by area means to shrink, bilinear to enlarge."""
    cv2 = opencv()
    method = cv2.INTER_AREA if images.shape[1] > SIDE else cv2.INTER_LINEAR
    return np.stack([cv2.resize(image, (SIDE, SIDE), interpolation=method) for image in images])


def light_on_dark(photo: Image) -> Image:
    """Return each pixel's distance from the background, scaled to 0 … 255."""
    grey = opencv().cvtColor(photo, opencv().COLOR_RGB2GRAY).astype(np.float64)
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    far = np.abs(grey - np.median(border))
    stretched: Image = (255 * far / max(far.max(), 1.0)).astype(np.uint8)
    return stretched


def street_digits(path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as archive:
        photos, labels = archive["x"], archive["y"].astype(np.int64)
    images = resized(np.stack([light_on_dark(photo) for photo in photos]))
    return as_dataset(images, labels=labels, name="street digits")


def handwritten(path: Path, *, margin: int = 0, n: int | None = None) -> Dataset:
    """Return the first `n` test images of MNIST or USPS with the margin cropped."""
    with np.load(path, allow_pickle=False) as archive:
        images, labels = archive["x_test"][:n], archive["y_test"][:n].astype(np.int64)
    return as_dataset(resized(_inner(images, margin)), labels=labels, name=path.stem)


def training_digits(path: Path, *, margin: int) -> tuple[Image, Ints]:
    with np.load(path, allow_pickle=False) as archive:
        images, labels = archive["x_train"][:TRAINED_ON], archive["y_train"][:TRAINED_ON]
    return resized(_inner(images, margin)), labels.astype(np.int64)


def _inner(images: Image, margin: int) -> Image:
    far = images.shape[1] - margin
    return images[:, margin:far, margin:far]


def noisy(labels: Ints, share: float, rng: np.random.Generator) -> Ints:
    """Replace a random share of the labels by random other classes."""
    is_wrong = rng.random(len(labels)) < share
    others = (labels + rng.integers(1, CLASSES, len(labels))) % CLASSES
    return np.where(is_wrong, others, labels)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: a second one slows down small batches."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def trained(recipe: Recipe, images: Image, labels: Ints) -> TorchModel:
    """Train one classifier by Adam; the seed determines the result."""
    rng = np.random.default_rng([recipe.seed, recipe.width, recipe.epochs])
    training_labels = torch.from_numpy(noisy(labels, recipe.noise, rng))
    inputs = torch.from_numpy(images[:, None]).float() / 255
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        network = recipe.network()
    adam = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(recipe.epochs):
        for rows in _batches(len(labels), rng):
            loss = nn.functional.cross_entropy(network(inputs[rows]), training_labels[rows])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    return TorchModel(network, name=recipe.name, device="cpu")


def _batches(n: int, rng: np.random.Generator) -> Iterator[torch.Tensor]:
    order = torch.from_numpy(rng.permutation(n))
    yield from (order[start : start + BATCH] for start in range(0, n, BATCH))
