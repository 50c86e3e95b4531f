"""Confidence, class and entropy of every row in one pass, checks included.

`Predictions` computes each of them when it is asked for; who needs all of them of rows that are
read once, and never again, saves a logarithm and an exponential a cell. The arithmetic is the same
step by step, so that a row has the same numbers to the last bit either way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oodometer.core import softmax_kernels, validation
from oodometer.core._row_statistics import Signals
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import FLOOR, Array, Floats, Form, Ints


def checked(
    scores: Array, form: Form, *, temperature: float = 1.0, names: tuple[str, ...] | None = None
) -> Predictions:
    """Unlabelled predictions at a temperature, with all signals known.

    >>> rows = checked(np.array([[0.2, 0.5, 0.3]]), "probs")
    >>> rows.confidence, rows.classes, rows.negative_entropy.round(3)
    (array([0.5]), array([1], dtype=int32), array([-1.03]))
    """
    validation.matrix(scores, form)
    n, k = scores.shape
    known = _of_two(scores, form, temperature) if k == 2 else _of_many(scores, form, temperature)
    return Predictions(
        n=n,
        k=k,
        form=form,
        scores=scores,
        class_names=validation.names(names, k),
        temperature=float(temperature),
        known=known,
    )


def _of_two(scores: Array, form: Form, temperature: float) -> Signals:
    """Two classes take one exponential a row; the entropy follows from the confidence."""
    _check(scores, form)
    peaks, classes = softmax_kernels.top(scores, form, temperature)
    return Signals(confidence=peaks, classes=classes)


def _of_many(scores: Array, form: Form, temperature: float) -> Signals:
    n, _ = scores.shape
    dtype = softmax_kernels.work_dtype(scores)
    peaks: Floats = np.empty(n, dtype=dtype)
    entropies: Floats = np.empty(n, dtype=dtype)
    classes: Ints = np.empty(n, dtype=np.int32)
    # A class is often masked by the lowest number there is, which a temperature makes overflow.
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, block, (logs, weights), axis in _blocks(scores):
            best, classes[rows] = softmax_kernels.first_maximum(block, axis)
            lowest = float(block.min())
            if not _good(block, axis, form, lowest, float(best.max())):
                _check(scores, form)
            if form == "probs" and temperature == 1.0:
                peaks[rows] = best
                _logarithms(block, lowest, logs)
                entropies[rows] = np.multiply(block, logs, out=logs).sum(axis=axis)
                continue
            if form == "probs":
                _logarithms(block, lowest, logs)
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
    return Signals(confidence=peaks, negative_entropy=entropies, classes=classes)


def _logarithms(block: Floats, lowest: float, out: Floats) -> None:
    """Those of probabilities, none below the floor."""
    if lowest < FLOOR:
        block = np.maximum(block, FLOOR, out=out)
    np.log(block, out=out)


def _blocks(scores: Array) -> Iterator[tuple[slice, Floats, tuple[Floats, Floats], int]]:
    """Block by block: its rows, itself, room for two more like it, and the axis of its classes.

    It is a copy only where it does not lie as it is worked on; it is not to be overwritten.
    """
    n, k = scores.shape
    axis = 1 if k >= softmax_kernels.WIDE else 0
    turned, dtype = scores if axis == 1 else scores.T, softmax_kernels.work_dtype(scores)
    slices = list(softmax_kernels.blocks(n, k))
    most = max((rows.stop - rows.start for rows in slices), default=0)
    rooms = [np.empty((most, k) if axis == 1 else (k, most), dtype=dtype) for _ in range(2)]
    for rows in slices:
        block = turned[rows] if axis == 1 else turned[:, rows]
        if block.dtype != dtype or block.strides[1] != block.itemsize:
            block = np.ascontiguousarray(block, dtype=dtype)
        some = slice(0, rows.stop - rows.start)
        logs, weights = (room[some] if axis == 1 else room[:, some] for room in rooms)
        yield rows, block, (logs, weights), axis


def _good(block: Floats, axis: int, form: Form, lowest: float, highest: float) -> bool:
    """Whether every row is what it should be; which one is not is told by who looks again."""
    if form == "logits":
        return bool(np.isfinite(lowest) and np.isfinite(highest))
    off = block.sum(axis=axis) - 1.0
    inside = lowest >= -validation.RANGE_TOLERANCE and highest <= 1.0 + validation.RANGE_TOLERANCE
    return bool(
        inside and off.min() >= -validation.SUM_TOLERANCE and off.max() <= validation.SUM_TOLERANCE
    )


def _check(scores: Array, form: Form) -> None:
    """The checks of the usual door; but no warning, for this is done batch by batch."""
    if form == "probs":
        validation.are_probs(scores, classes=False)
    else:
        validation.all_finite(scores)
