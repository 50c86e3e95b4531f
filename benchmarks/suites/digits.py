"""Digits: models trained on MNIST or USPS, tested under corruptions and on other digits.

The source and the corrupted targets are different test images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from benchmarks._digit_classifiers import light_on_dark
from benchmarks.suites._features import Images, corrupt
from benchmarks.suites.heads import Classifier, TorchHead, fit_all, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.stats import rng_for

SIDE = 28
TRAINING_ROWS = 4000
TARGET_ROWS = 2000
CORRUPTIONS = (
    "gaussian_noise", "impulse_noise", "defocus_blur", "motion_blur", "elastic", "pixelate",
    "contrast", "brightness", "fog",
)  # fmt: skip
SEVERITIES = (1, 3, 5)
ROTATIONS = (10, 20, 30, 45)


@cache
def load(space: Workspace) -> dict[str, tuple[Images, Ints]]:
    """Return images of 28 × 28 pixels and labels of all digit datasets, in random order."""
    cv2, parts = opencv(), {}
    for name in ("mnist", "usps"):
        with np.load(space.data / "digits" / f"{name}.npz", allow_pickle=False) as archive:
            for part in ("train", "test"):
                images, labels = archive[f"x_{part}"], archive[f"y_{part}"].astype(np.int64)
                order = rng_for(0, "digits", name, part).permutation(len(labels))[:10_000]
                parts[f"{name} {part}"] = images[order], labels[order]
    for name in ("usps train", "usps test"):
        images, labels = parts[name]
        # USPS digits fill the image; MNIST digits have a margin of four pixels.
        large = [cv2.resize(image, (20, 20), interpolation=cv2.INTER_LINEAR) for image in images]
        parts[name] = np.pad(np.stack(large), ((0, 0), (4, 4), (4, 4))), labels
    with np.load(space.data / "digits" / "street_digits.npz", allow_pickle=False) as archive:
        photos = [light_on_dark(photo) for photo in archive["x"]]
        images = [cv2.resize(photo, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for photo in photos]
        parts["street digits"] = np.stack(images), archive["y"].astype(np.int64)
    return parts


def rotate(images: Images, degrees: float) -> Images:
    """Rotate images around their center."""
    cv2, middle = opencv(), (SIDE - 1) / 2
    matrix = cv2.getRotationMatrix2D((middle, middle), degrees, 1.0)
    return np.stack([cv2.warpAffine(image, matrix, (SIDE, SIDE)) for image in images])


def groups(space: Workspace) -> Sequence[str]:
    return ("many", "few")


def _predict(space: Workspace, name: str, group: str) -> Iterator[Domain]:
    parts = load(space)
    images, labels = parts[f"{name} train"]
    n_training = TRAINING_ROWS if group == "many" else TRAINING_ROWS // 10
    models = fit_all(_models(), _inputs(images[:n_training]), labels[:n_training])
    for target, (inputs, truth) in _domains(parts, name, n_training).items():
        yield Domain(target, truth, predict_all(models, _inputs(inputs)))


def _domains(
    parts: Mapping[str, tuple[Images, Ints]], name: str, n_training: int
) -> dict[str, tuple[Images, Ints]]:
    """Return the held-out images and all targets."""
    images, labels = parts[f"{name} test"]
    if name == "usps":  # its test part is small
        images = np.concatenate([images, parts["usps train"][0][TRAINING_ROWS:]])
        labels = np.concatenate([labels, parts["usps train"][1][TRAINING_ROWS:]])
    half = len(images) // 2
    domains = {HOME: (images[:half], labels[:half])}
    images, labels = images[half:], labels[half:]
    for corruption in CORRUPTIONS:
        for severity in SEVERITIES:
            rows = rng_for(0, "digits", corruption, severity).permutation(len(labels))[:TARGET_ROWS]
            changed = corrupt(images[rows], corruption, severity)
            domains[f"{corruption}-{severity}"] = changed, labels[rows]
    for degrees in ROTATIONS:
        domains[f"rotated {degrees}"] = rotate(images, degrees), labels
    for other in ("mnist test", "usps test", "street digits"):
        if not other.startswith(name):
            domains[other] = parts[other]
    return domains


def _inputs(images: Images) -> Images:
    return (images.reshape(len(images), -1) / np.float32(255)).astype(np.float32)


def _models() -> Mapping[str, Classifier]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB

    return {
        "logistic": LogisticRegression(max_iter=40),
        "mlp": TorchHead(10, hidden=128, epochs=15),
        "mlp-smoothed": TorchHead(10, hidden=64, epochs=10, label_smoothing=0.1, seed=1),
        "forest": RandomForestClassifier(60, random_state=0),
        "naive-bayes": BernoulliNB(binarize=0.3),
    }


def predict_mnist(space: Workspace, group: str) -> Iterator[Domain]:
    """Train on 4,000 or 400 digits of MNIST."""
    return _predict(space, "mnist", group)


def predict_usps(space: Workspace, group: str) -> Iterator[Domain]:
    """Train on 4,000 or 400 digits of USPS."""
    return _predict(space, "usps", group)


SUITES = (
    Suite(name="mnist", family="digits", k=10, groups=groups, predict=predict_mnist,
          outputs="mnist", cases=320),
    Suite(name="usps", family="digits", k=10, groups=groups, predict=predict_usps, outputs="usps",
          cases=240),
    Suite(name="mnist-rounded", family="digits", k=10, groups=groups, predict=predict_mnist,
          outputs="mnist", decimals=2, cases=96),
)  # fmt: skip
