"""Demo on the handwritten digits of scikit-learn under fifteen distribution shifts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment import estimate
from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require
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
Shift = Callable[[Any, Images, np.random.Generator], Images]


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
    def rotate(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
        size = images.shape[1]
        matrix = cv2.getRotationMatrix2D(((size - 1) / 2, (size - 1) / 2), degrees, 1.0)
        return np.stack([cv2.warpAffine(image, matrix, (size, size)) for image in images])

    return rotate


def _warp(matrix: list[list[float]]) -> Shift:
    def warp(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
        size = images.shape[1]
        transform = np.array(matrix, dtype=np.float32)
        return np.stack([cv2.warpAffine(image, transform, (size, size)) for image in images])

    return warp


def _blur(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    return np.stack([cv2.GaussianBlur(image, (0, 0), 3.0) for image in images])


def _add_noise(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    return np.asarray(images + rng.normal(0, 14.0, images.shape).astype(np.float32))


def _add_speckles(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    hit = (
        rng.random((len(images), 8, 8))
        .repeat(ENLARGEMENT_FACTOR, axis=1)
        .repeat(ENLARGEMENT_FACTOR, axis=2)
    )
    return np.where(hit < 0.03, 0.0, np.where(hit > 0.97, 16.0, images)).astype(np.float32)


def _occlude(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    result, size = images.copy(), images.shape[1]
    width = size // 4
    for image, (top, left) in zip(
        result, rng.integers(0, size - width, (len(images), 2)), strict=True
    ):
        image[top : top + width, left : left + width] = 0.0
    return result


def _reduce_contrast(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    return images * np.float32(0.6)


def _brighten(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    return images + np.float32(2.0)


def _thicken_strokes(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    return np.stack([cv2.dilate(image, np.ones((4, 4), np.uint8)) for image in images])


def _thin_strokes(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
    return np.stack([cv2.erode(image, np.ones((4, 4), np.uint8)) for image in images])


def _keep_unchanged(cv2: Any, images: Images, rng: np.random.Generator) -> Images:
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
    cv2 = require("cv2", extra="images", purpose="The demo")
    size = 8 * ENLARGEMENT_FACTOR
    large = np.stack([cv2.resize(image, (size, size), interpolation=cv2.INTER_CUBIC)
                      for image in images])  # fmt: skip
    changed = shift(cv2, large, rng).astype(np.float32)
    small = [cv2.resize(image, (8, 8), interpolation=cv2.INTER_AREA) for image in changed]
    return np.asarray(np.clip(np.stack(small), 0.0, 16.0).reshape(len(images), 64))


def _train_model(inputs: Array, labels: Ints, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPClassifier((64,), max_iter=400, random_state=seed).fit(inputs / 16.0, labels)


def make_digits_suite(seed: int = 0) -> DigitsSuite:
    """Train two small networks on some digits; use the other digits as source and targets."""
    from sklearn.datasets import load_digits

    require("cv2", extra="images", purpose="The demo")
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
