"""Demo on the handwritten digits of scikit-learn under fifteen distribution shifts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from oodometer.assessment import estimate
from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.core.stats import rng_for
from oodometer.estimators import ATC, FalselyIdentified
from oodometer.report.demo_page import Comparison

# Few training rows, so that the model makes enough errors on the source.
TRAIN_ROWS = 250
SOURCE_ROWS = 800
# The images of 8×8 pixels are enlarged by this factor before a shift is applied, and reduced again
# afterwards.
ENLARGEMENT_FACTOR = 4

Images = Array
Shift = Callable[[Images, np.random.Generator], Images]


@dataclass(frozen=True)
class ShiftedTarget:
    """Target under one shift: labelled predictions of the model and of a second model."""

    name: str
    predictions: Predictions
    other_models: Predictions


@dataclass(frozen=True)
class DigitsSuite:
    """Labelled predictions on the source, those of a second model, and the shifted targets."""

    source: Predictions
    other_models: Predictions
    targets: tuple[ShiftedTarget, ...]


def _rotate(degrees: float) -> Shift:
    angle = np.deg2rad(degrees)
    cos, sin = np.cos(angle), np.sin(angle)
    centre = (8 * ENLARGEMENT_FACTOR - 1) / 2
    x, y = (1 - cos) * centre - sin * centre, sin * centre + (1 - cos) * centre
    return _warp([[cos, sin, x], [-sin, cos, y]])


def _warp(matrix: list[list[float]]) -> Shift:
    """Return the affine map of (x, y) with a 2×3 matrix; pixels from outside are black."""
    # scipy computes the input position of each output pixel, in the order (y, x).
    inverse = np.linalg.inv(np.vstack([matrix, [0.0, 0.0, 1.0]]))

    def warp(images: Images, rng: np.random.Generator) -> Images:
        linear, offset = inverse[1::-1, 1::-1], inverse[1::-1, 2]
        warped = [
            ndimage.affine_transform(image, linear, offset, order=1, mode="grid-constant")
            for image in images
        ]
        return np.stack(warped)

    return warp


def _blur(images: Images, rng: np.random.Generator) -> Images:
    return np.asarray(ndimage.gaussian_filter(images, (0, 3, 3), mode="mirror"))


def _add_noise(images: Images, rng: np.random.Generator) -> Images:
    return np.asarray(images + rng.normal(0, 14.0, images.shape).astype(np.float32))


def _add_speckles(images: Images, rng: np.random.Generator) -> Images:
    hit = (
        rng.random((len(images), 8, 8))
        .repeat(ENLARGEMENT_FACTOR, axis=1)
        .repeat(ENLARGEMENT_FACTOR, axis=2)
    )
    return np.where(hit < 0.03, 0.0, np.where(hit > 0.97, 16.0, images)).astype(np.float32)


def _occlude(images: Images, rng: np.random.Generator) -> Images:
    result, size = images.copy(), images.shape[1]
    width = size // 4
    for image, (top, left) in zip(
        result, rng.integers(0, size - width, (len(images), 2)), strict=True
    ):
        image[top : top + width, left : left + width] = 0.0
    return result


def _reduce_contrast(images: Images, rng: np.random.Generator) -> Images:
    return images * np.float32(0.6)


def _brighten(images: Images, rng: np.random.Generator) -> Images:
    return images + np.float32(2.0)


def _thicken_strokes(images: Images, rng: np.random.Generator) -> Images:
    return np.asarray(ndimage.maximum_filter(images, (1, 4, 4), mode="constant", cval=-np.inf))


def _thin_strokes(images: Images, rng: np.random.Generator) -> Images:
    return np.asarray(ndimage.minimum_filter(images, (1, 4, 4), mode="constant", cval=np.inf))


def _keep_unchanged(images: Images, rng: np.random.Generator) -> Images:
    return images


SHIFTS: dict[str, Shift] = {
    "no shift": _keep_unchanged,
    "rotated 10°": _rotate(10),
    "rotated 25°": _rotate(25),
    "sheared": _warp([[1, 0.2, -3.1], [0, 1, 0]]),
    "moved right": _warp([[1, 0, 2], [0, 1, 0]]),
    "smaller": _warp([[0.88, 0, 1.9], [0, 0.88, 1.9]]),
    "blurred": _blur,
    "noisy": _add_noise,
    "speckled": _add_speckles,
    "occluded": _occlude,
    "low contrast": _reduce_contrast,
    "bright": _brighten,
    "thick strokes": _thicken_strokes,
    "thin strokes": _thin_strokes,
}


def _apply_shift(images: Images, shift: Shift, rng: np.random.Generator) -> Array:
    """Apply a shift; return each image flattened to 64 gray values from 0 to 16."""
    weights = _cubic_weights(8)
    changed = shift((weights @ images @ weights.T).astype(np.float32), rng)
    blocks = changed.reshape(len(images), 8, ENLARGEMENT_FACTOR, 8, ENLARGEMENT_FACTOR)
    small = blocks.mean(axis=(2, 4), dtype=np.float32)
    return np.asarray(np.clip(small, 0.0, 16.0).reshape(len(images), 64))


def _cubic_weights(n: int) -> Array:
    """Return the matrix that enlarges n values by cubic convolution (Keys 1981, a = −3/4)."""
    a = -0.75
    centres = (np.arange(n * ENLARGEMENT_FACTOR) + 0.5) / ENLARGEMENT_FACTOR - 0.5
    weights = np.zeros((len(centres), n))
    for step in range(-1, 3):
        positions = np.floor(centres).astype(int) + step
        d = np.abs(centres - positions)
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        far = a * (d**3 - 5 * d**2 + 8 * d - 4)
        # Values outside of the image are those of its edge.
        columns = np.clip(positions, 0, n - 1)
        np.add.at(weights, (np.arange(len(centres)), columns), np.where(d <= 1, near, far))
    return weights


def _train_model(inputs: Array, labels: Ints, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPClassifier((64,), max_iter=400, random_state=seed).fit(inputs / 16.0, labels)


def make_digits_suite(seed: int = 0) -> DigitsSuite:
    """Train two small networks on some digits; use the other digits as source and targets."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = rng_for(seed, "split").permutation(len(digits.target))
    images, labels = digits.images[order].astype(np.float32), digits.target[order]
    # Enlarging and reducing the images blurs them a little, so it is done with all images.
    flat = _apply_shift(images, _keep_unchanged, rng_for(seed, "shift", "no shift"))
    models = [_train_model(flat[:TRAIN_ROWS], labels[:TRAIN_ROWS], seed + j) for j in (0, 1)]

    def predict(j: int, inputs: Array, labels: Ints) -> Predictions:
        return Predictions.from_probs(models[j].predict_proba(inputs / 16.0), labels=labels)

    source_end = TRAIN_ROWS + SOURCE_ROWS
    rows = slice(TRAIN_ROWS, source_end)
    sources = [predict(j, flat[rows], labels[rows]) for j in (0, 1)]
    images, labels = images[source_end:], labels[source_end:]
    targets = []
    for name, shift in SHIFTS.items():
        inputs = _apply_shift(images, shift, rng_for(seed, "shift", name))
        targets.append(ShiftedTarget(name, predict(0, inputs, labels), predict(1, inputs, labels)))
    return DigitsSuite(sources[0], sources[1], (*targets, _apply_label_shift(targets[0], seed)))


def _apply_label_shift(plain: ShiftedTarget, seed: int) -> ShiftedTarget:
    """Resample the unshifted target so that most of its rows belong to the classes 8 and 9."""
    labels = plain.predictions.labels
    assert labels is not None
    weights = np.where(labels >= 8, 12.0, 1.0)
    rows = rng_for(seed, "labels").choice(len(labels), len(labels), p=weights / weights.sum())
    return ShiftedTarget("label shift", plain.predictions.rows(rows), plain.other_models.rows(rows))


def compare_methods(
    suite: DigitsSuite, *, seed: int = 0, progress: ProgressCallback | None = None
) -> list[Comparison]:
    """Return the headline, the estimates of all methods and the true accuracy for each target."""
    rows = []
    for done, target in enumerate(suite.targets):
        if progress:
            progress(done, len(suite.targets), target.name)
        assessment = estimate(
            suite.source,
            target.predictions,
            other_models=target.other_models,
            other_models_on_source=suite.other_models,
            seed=seed,
        )
        values = {result.method: result for result in assessment.estimates}
        truth = float(target.predictions.correct.mean())
        identified = _falsely_identified(suite.source, target.predictions, assessment.temperature)
        rows.append(
            Comparison(
                target.name,
                truth,
                values,
                identified,
                headline=assessment.headline.estimate,
                shift=assessment.shift,
                status=assessment.headline.status,
            )
        )
    return rows


def _falsely_identified(
    source: Predictions, target: Predictions, temperature: float | None
) -> FalselyIdentified:
    """Return the falsely identified predictions of atc-mc at the temperature of its estimate."""
    if temperature is not None:
        source, target = (rows.at_temperature(temperature) for rows in (source, target))
    return ATC("mc").falsely_identified(source, target)


def save_suite(suite: DigitsSuite, folder: Path) -> list[Path]:
    """Write Parquet files of the source, with labels, and of each target, without labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot create the folder {str(folder)!r}: {error.strerror}.") from error
    named = {"source": suite.source}
    named |= {t.name.replace("°", "").replace(" ", "_"): t.predictions for t in suite.targets}
    written = []
    for name, rows in named.items():
        columns = {f"prob_{j}": column for j, column in enumerate(rows.probs.T)}
        if name == "source" and rows.labels is not None:
            columns["label"] = rows.labels
        written.append(folder / f"{name}.parquet")
        pq.write_table(pa.table(columns), written[-1])
    return written
