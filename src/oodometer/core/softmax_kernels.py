"""Row-wise quantities of score arrays: pure numpy, no checks.

Reducing a C-ordered array over a short class axis wastes most of its time, so rows are taken in
blocks that stay in cache, and narrow blocks are turned so that classes run down the first axis.
Nothing here is larger than a block but the results.

A score array holds probabilities or logits; `score_type` says which. A temperature divides logits, or
the logarithms of probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Floats, Ints, ScoreType

# A probability of 0 has no logarithm; everything below this is taken as this.
MIN_PROBABILITY = 1e-12
# Blocks of about this many cells fit the second-level cache with room for a copy.
BLOCK_CELLS = 163_840
# From this many classes on, rows are long enough to be reduced as they lie.
MIN_ROWWISE_CLASSES = 33


def row_blocks(n: int, k: int) -> Iterator[slice]:
    """Yield slices that cut n rows of k cells into blocks that stay in cache.

    A last row that would be alone joins the block before it: numpy may sum the cells of a single
    row in another order than those of several.

    >>> [rows.stop - rows.start for rows in row_blocks(33, BLOCK_CELLS // 16)]
    [16, 17]
    """
    step = max(BLOCK_CELLS // k, 16)
    starts = range(0, n - 1 if n > 1 else n, step)
    return (slice(start, n if start == starts[-1] else start + step) for start in starts)


def work_dtype(scores: Array) -> npt.DTypeLike:
    """float64 for what came in 8 bytes (or more), float32 for everything narrower."""
    return np.float64 if scores.dtype.itemsize >= 8 else np.float32


def block_copies(scores: Array) -> Iterator[tuple[slice, Floats, int]]:
    """Block by block: its rows, a float copy free to be overwritten, the axis of its classes.

    All copies share one buffer: memory fresh from the system costs more than the work done in it.
    """
    n, k = scores.shape
    axis = 1 if k >= MIN_ROWWISE_CLASSES else 0
    slices = list(row_blocks(n, k))
    largest = max((rows.stop - rows.start for rows in slices), default=0)
    buffer: Floats = np.empty((largest, k)[:: 1 if axis == 1 else -1], dtype=work_dtype(scores))
    for rows in slices:
        block = scores[rows] if axis == 1 else scores[rows].T
        copy = buffer[: block.shape[0], : block.shape[1]]
        np.copyto(copy, block, casting="unsafe")
        yield rows, copy, axis


def _subtract_row_max(block: Floats, axis: int, score_type: ScoreType) -> None:
    """Turn a block into logits less the largest of their row, in place."""
    if score_type == "probs":
        np.maximum(block, MIN_PROBABILITY, out=block)
        np.log(block, out=block)
    block -= np.expand_dims(block.max(axis=axis), axis)


def _exp_scaled(block: Floats, inverse_temperature: float, out: Floats | None = None) -> Floats:
    """exp(logits / T) of what `_subtract_row_max` gave.

    A class is often masked by the lowest number there is as its logit, which T makes overflow;
    its weight is 0 all the same.
    """
    if inverse_temperature != 1.0:
        with np.errstate(over="ignore"):
            block = out = np.multiply(block, inverse_temperature, out=out)
    return np.exp(block, out=out)


def first_maximum(block: Floats, axis: int) -> tuple[Floats, Ints]:
    """The largest value and the lowest index that has it."""
    if axis == 1:
        where = block.argmax(axis=1)
        return block[np.arange(len(block)), where], where.astype(np.int32)
    best = np.asarray(block.max(axis=0))
    # The first class that has it weighs most of those that do: three calls, not three a class.
    falling = np.arange(len(block), 0, -1, dtype=np.uint8)
    weight = np.equal(block, best).view(np.uint8)
    np.multiply(weight, falling[:, None], out=weight)
    return best, len(block) - weight.max(axis=0).astype(np.int32)


def _max_probability(block: Floats, axis: int, score_type: ScoreType, temperature: float) -> Floats:
    """The largest probability of each row; overwrites the block."""
    if score_type == "probs" and temperature == 1.0:
        return np.asarray(block.max(axis=axis))
    _subtract_row_max(block, axis, score_type)
    return np.asarray(1.0 / _exp_scaled(block, 1.0 / temperature, out=block).sum(axis=axis))


def confidence(scores: Array, score_type: ScoreType, temperature: float = 1.0) -> Floats:
    """The largest probability of each row.

    >>> confidence(np.array([[0.2, 0.5, 0.3]]), "probs")
    array([0.5])
    """
    n, k = scores.shape
    result: Floats = np.empty(n, dtype=confidence_dtype(scores))
    if k == 2:
        for rows in row_blocks(n, k):
            result[rows] = _binary_confidence_and_class(scores[rows], score_type, temperature)[0]
        return result
    for rows, block, axis in block_copies(scores):
        result[rows] = _max_probability(block, axis, score_type, temperature)
    return result


def confidence_and_class(
    scores: Array, score_type: ScoreType, temperature: float = 1.0
) -> tuple[Floats, Ints]:
    """The largest probability of each row and the class that has it, lowest index on ties.

    >>> confidence_and_class(np.array([[0.2, 0.5, 0.3]]), "probs")
    (array([0.5]), array([1], dtype=int32))
    """
    n, k = scores.shape
    peaks, classes = np.empty(n, dtype=confidence_dtype(scores)), np.empty(n, dtype=np.int32)
    if k == 2:
        for rows in row_blocks(n, k):
            peaks[rows], classes[rows] = _binary_confidence_and_class(
                scores[rows], score_type, temperature
            )
        return peaks, classes
    as_given = score_type == "probs" and temperature == 1.0
    for rows, block, axis in block_copies(scores):
        best, classes[rows] = first_maximum(block, axis)
        peaks[rows] = best if as_given else _max_probability(block, axis, score_type, temperature)
    return peaks, classes


def confidence_dtype(scores: Array) -> npt.DTypeLike:
    """Two classes are worked on in float64: they need one exp a row, and saturate later."""
    return np.float64 if scores.shape[1] == 2 else work_dtype(scores)


def _binary_confidence_and_class(
    block: Array, score_type: ScoreType, temperature: float
) -> tuple[Floats, Ints]:
    """Two classes: the confidence is a function of the gap between the two."""
    first, second = (block[:, j].astype(np.float64) for j in (0, 1))
    classes = (second > first).astype(np.int32)
    if score_type == "probs" and temperature == 1.0:
        return np.maximum(first, second), classes
    if score_type == "probs":
        first, second = (
            np.log(np.maximum(first, MIN_PROBABILITY)),
            np.log(np.maximum(second, MIN_PROBABILITY)),
        )
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-np.abs(first - second) / temperature)), classes


def negative_entropy(scores: Array, score_type: ScoreType, temperature: float = 1.0) -> Floats:
    """Σ p log p of each row: 0 for a sure row, −log k for an even one.

    >>> negative_entropy(np.array([[0.0, 1.0, 0.0], [0.5, 0.25, 0.25]]), "probs")
    array([ 0.        , -1.03972077])
    """
    n, k = scores.shape
    if k == 2:
        return binary_negative_entropy(confidence(scores, score_type, temperature))
    result: Floats = np.empty(n, dtype=work_dtype(scores))
    for rows, block, axis in block_copies(scores):
        if score_type == "probs" and temperature == 1.0:
            logs = np.log(np.maximum(block, MIN_PROBABILITY))
            result[rows] = np.multiply(block, logs, out=block).sum(axis=axis)
            continue
        _subtract_row_max(block, axis, score_type)
        weights = _exp_scaled(block, 1.0 / temperature)
        total = weights.sum(axis=axis)
        weights *= block
        result[rows] = weights.sum(axis=axis) / (total * temperature) - np.log(total)
    np.minimum(result, 0.0, out=result)
    return result


def binary_negative_entropy(confidences: Floats) -> Floats:
    """Negative entropy of two classes from the confidence alone, so that both rank rows alike.

    It is flat around 1/2, where rounding would put rows out of order; its series does not.
    """
    larger = np.clip(confidences.astype(np.float64), 0.5, 1.0)
    smaller = 1.0 - larger
    logs = np.log(np.maximum(smaller, np.finfo(np.float64).tiny))
    result: Floats = larger * np.log(larger) + smaller * logs
    near = np.flatnonzero(larger < 0.5005)
    square = (larger[near] - smaller[near]) ** 2
    result[near] = square * (0.5 + square / 12.0) - np.log(2.0)
    return result


def softmax(scores: Array, score_type: ScoreType, temperature: float = 1.0) -> Floats:
    """Probabilities at a temperature, as an (n, k) array.

    >>> softmax(np.array([[0.0, np.log(3.0)]]), "logits")
    array([[0.25, 0.75]])
    """
    result = np.empty(scores.shape, dtype=work_dtype(scores))
    for rows, block, axis in block_copies(scores):
        _subtract_row_max(block, axis, score_type)
        _exp_scaled(block, 1.0 / temperature, out=block)
        block /= np.expand_dims(block.sum(axis=axis), axis)
        result[rows] = block if axis == 1 else block.T
    return result


def log_probs(scores: Array, score_type: ScoreType, temperature: float = 1.0) -> Floats:
    """Logarithms of the probabilities at a temperature, none below log FLOOR."""
    return np.log(np.maximum(softmax(scores, score_type, temperature), MIN_PROBABILITY))


def nll_derivatives(
    scores: Array, score_type: ScoreType, labels: Ints, inverse_temperature: float
) -> tuple[float, float, float]:
    """Mean negative log-likelihood of the labels and its two derivatives in 1/T."""
    sums = np.zeros(3)
    for rows, block, axis in block_copies(scores):
        _subtract_row_max(block, axis, score_type)
        own = np.take_along_axis(block, np.expand_dims(labels[rows], axis), axis).squeeze(axis)
        weights = _exp_scaled(block, inverse_temperature)
        total = weights.sum(axis=axis)
        weights *= block
        mean = weights.sum(axis=axis) / total
        weights *= block
        spread = weights.sum(axis=axis) / total - mean * mean
        nll = np.log(total) - inverse_temperature * own
        sums += [part.sum(dtype=np.float64) for part in (nll, mean - own, spread)]
    nll_mean, slope, curvature = sums / len(scores)
    return float(nll_mean), float(slope), float(curvature)
