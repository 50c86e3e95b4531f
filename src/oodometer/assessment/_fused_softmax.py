"""Confidence, class and entropy of every row in one pass, checks included.

`Predictions` computes each of them when it is asked for; who needs all of them of rows that are
read once, and never again, saves a logarithm and an exponential a cell. The arithmetic is the same
step by step, so that a row has the same numbers to the last bit either way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oodometer.core import softmax_kernels, validation
from oodometer.core.array_types import Array, Floats, Ints, ScoreType
from oodometer.core.predictions import Predictions, RowStatistics
from oodometer.core.softmax_kernels import MIN_PROBABILITY


def validated_predictions(
    scores: Array,
    score_type: ScoreType,
    *,
    temperature: float = 1.0,
    class_names: tuple[str, ...] | None = None,
) -> Predictions:
    """Unlabelled predictions at a temperature, with all signals known.

    >>> rows = validated_predictions(np.array([[0.2, 0.5, 0.3]]), "probs")
    >>> rows.confidence, rows.classes, rows.negative_entropy.round(3)
    (array([0.5]), array([1], dtype=int32), array([-1.03]))
    """
    validation.validate_score_matrix(scores, score_type)
    n, k = scores.shape
    known = (
        _binary_statistics(scores, score_type, temperature)
        if k == 2
        else _multiclass_statistics(scores, score_type, temperature)
    )
    return Predictions(
        n=n,
        k=k,
        score_type=score_type,
        scores=scores,
        class_names=validation.validate_class_names(class_names, k),
        temperature=float(temperature),
        precomputed=known,
    )


def _binary_statistics(scores: Array, score_type: ScoreType, temperature: float) -> RowStatistics:
    """Two classes take one exponential a row; the entropy follows from the confidence."""
    _validate_scores(scores, score_type)
    peaks, classes = softmax_kernels.confidence_and_class(scores, score_type, temperature)
    return RowStatistics(confidence=peaks, classes=classes)


def _multiclass_statistics(
    scores: Array, score_type: ScoreType, temperature: float
) -> RowStatistics:
    n, _ = scores.shape
    dtype = softmax_kernels.work_dtype(scores)
    peaks: Floats = np.empty(n, dtype=dtype)
    entropies: Floats = np.empty(n, dtype=dtype)
    classes: Ints = np.empty(n, dtype=np.int32)
    # A class is often masked by the lowest number there is, which a temperature makes overflow.
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, block, (logs, weights), axis in _iter_blocks(scores):
            best, classes[rows] = softmax_kernels.first_maximum(block, axis)
            lowest = float(block.min())
            if not _is_valid_block(block, axis, score_type, lowest, float(best.max())):
                _validate_scores(scores, score_type)
            if score_type == "probs" and temperature == 1.0:
                peaks[rows] = best
                _clipped_log(block, lowest, logs)
                entropies[rows] = np.multiply(block, logs, out=logs).sum(axis=axis)
                continue
            if score_type == "probs":
                _clipped_log(block, lowest, logs)
                block, best = logs, logs.max(axis=axis)
            np.subtract(block, best if axis == 0 else best[:, None], out=logs)
            np.multiply(logs, 1.0 / temperature, out=weights)
            np.exp(weights, out=weights)
            total = weights.sum(axis=axis)
            np.divide(1.0, total, out=peaks[rows])
            weights *= logs
            sums = weights.sum(axis=axis)
            entropies[rows] = sums / (total * temperature) - np.log(total)
    np.minimum(entropies, 0.0, out=entropies)
    return RowStatistics(confidence=peaks, negative_entropy=entropies, classes=classes)


def _clipped_log(block: Floats, lowest: float, out: Floats) -> None:
    """Those of probabilities, none below the floor."""
    if lowest < MIN_PROBABILITY:
        block = np.maximum(block, MIN_PROBABILITY, out=out)
    np.log(block, out=out)


def _iter_blocks(scores: Array) -> Iterator[tuple[slice, Floats, tuple[Floats, Floats], int]]:
    """Block by block: its rows, itself, room for two more like it, and the axis of its classes.

    It is a copy only where it does not lie as it is worked on; it is not to be overwritten.
    """
    n, k = scores.shape
    axis = 1 if k >= softmax_kernels.MIN_ROWWISE_CLASSES else 0
    turned, dtype = scores if axis == 1 else scores.T, softmax_kernels.work_dtype(scores)
    slices = list(softmax_kernels.row_blocks(n, k))
    most = max((rows.stop - rows.start for rows in slices), default=0)
    rooms = [np.empty((most, k) if axis == 1 else (k, most), dtype=dtype) for _ in range(2)]
    for rows in slices:
        block = turned[rows] if axis == 1 else turned[:, rows]
        if block.dtype != dtype or block.strides[1] != block.itemsize:
            block = np.ascontiguousarray(block, dtype=dtype)
        some = slice(0, rows.stop - rows.start)
        logs, weights = (room[some] if axis == 1 else room[:, some] for room in rooms)
        yield rows, block, (logs, weights), axis


def _is_valid_block(
    block: Floats, axis: int, score_type: ScoreType, lowest: float, highest: float
) -> bool:
    """Whether every row is what it should be; which one is not is told by who looks again."""
    if score_type == "logits":
        return bool(np.isfinite(lowest) and np.isfinite(highest))
    off = block.sum(axis=axis) - 1.0
    inside = lowest >= -validation.RANGE_TOLERANCE and highest <= 1.0 + validation.RANGE_TOLERANCE
    return bool(
        inside and off.min() >= -validation.SUM_TOLERANCE and off.max() <= validation.SUM_TOLERANCE
    )


def _validate_scores(scores: Array, score_type: ScoreType) -> None:
    """The checks of the usual door; but no warning, for this is done batch by batch."""
    if score_type == "probs":
        validation.validate_probs(scores, with_classes=False)
    else:
        validation.check_finite_logits(scores)
