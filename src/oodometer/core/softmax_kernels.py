"""Softmax, confidence and entropy of each row of a score array, in numpy and without validation.

A sum over few classes is slow if the classes of a row are adjacent in memory. Therefore rows are
processed in blocks that fit the processor cache, and a block with few classes is transposed first,
so that its classes run along the first axis. Apart from the results, no array is larger than a
block.

A score array holds probabilities or logits; `score_type` says which of the two. A temperature
divides the logits, or the logarithms of the probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Floats, Ints, ScoreType

# Lower limit of probabilities before taking logarithms.
MIN_PROBABILITY = 1e-12
# A block with this number of cells fits into the second-level cache together with a copy.
BLOCK_CELLS = 163_840
# Blocks with at least this number of classes are not transposed, because their rows are long.
MIN_ROWWISE_CLASSES = 33


def row_blocks(n: int, k: int) -> Iterator[slice]:
    """Return slices that divide n rows of k cells into blocks that fit the cache.

    If only one row is left for the last block, it is added to the block before, because numpy may
    sum the cells of a single row in a different order.

    >>> [rows.stop - rows.start for rows in row_blocks(33, BLOCK_CELLS // 16)]
    [16, 17]
    """
    step = max(BLOCK_CELLS // k, 16)
    starts = range(0, n - 1 if n > 1 else n, step)
    return (slice(start, n if start == starts[-1] else start + step) for start in starts)


def work_dtype(scores: Array) -> npt.DTypeLike:
    """Return the type for computations: float64 for scores of 8 bytes or more, else float32."""
    return np.float64 if scores.dtype.itemsize >= 8 else np.float32


def block_copies(scores: Array) -> Iterator[tuple[slice, Floats, int]]:
    """Yield for each block the slice of its rows, a float copy, and the copy's axis of classes.

    The caller may overwrite the copy. All copies use the same memory, because allocating memory
    takes longer than the computation.
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
    """Convert a block to logits in place, and subtract the highest logit of each row."""
    if score_type == "probs":
        np.maximum(block, MIN_PROBABILITY, out=block)
        np.log(block, out=block)
    block -= np.expand_dims(block.max(axis=axis), axis)


def _exp_scaled(block: Floats, inverse_temperature: float, out: Floats | None = None) -> Floats:
    """Return exp(logits / T) of a block to which `_subtract_row_max` was applied.

    Models often exclude a class by the lowest representable logit, which overflows when it is
    divided by T. The overflow is ignored, because the result is 0 in any case.
    """
    if inverse_temperature != 1.0:
        with np.errstate(over="ignore"):
            block = out = np.multiply(block, inverse_temperature, out=out)
    return np.exp(block, out=out)


def first_maximum(block: Floats, axis: int) -> tuple[Floats, Ints]:
    """Return the highest value of each row and its class, the first one if several are equal."""
    if axis == 1:
        classes = block.argmax(axis=1)
        return block[np.arange(len(block)), classes], classes.astype(np.int32)
    highest = np.asarray(block.max(axis=0))
    # Among the classes with the highest value, the first has the largest weight. This takes three
    # numpy calls in total instead of three per class.
    descending = np.arange(len(block), 0, -1, dtype=np.uint8)
    weight = np.equal(block, highest).view(np.uint8)
    np.multiply(weight, descending[:, None], out=weight)
    return highest, len(block) - weight.max(axis=0).astype(np.int32)


def _max_probability(block: Floats, axis: int, score_type: ScoreType, temperature: float) -> Floats:
    """Return the highest probability of each row, overwriting the block."""
    if score_type == "probs" and temperature == 1.0:
        return np.asarray(block.max(axis=axis))
    _subtract_row_max(block, axis, score_type)
    return np.asarray(1.0 / _exp_scaled(block, 1.0 / temperature, out=block).sum(axis=axis))


def confidence(scores: Array, score_type: ScoreType, temperature: float = 1.0) -> Floats:
    """Return the highest probability of each row.

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
    """Return the highest probability of each row and its class, the first one if several are equal.

    >>> confidence_and_class(np.array([[0.2, 0.5, 0.3]]), "probs")
    (array([0.5]), array([1], dtype=int32))
    """
    n, k = scores.shape
    confidences = np.empty(n, dtype=confidence_dtype(scores))
    classes = np.empty(n, dtype=np.int32)
    if k == 2:
        for rows in row_blocks(n, k):
            confidences[rows], classes[rows] = _binary_confidence_and_class(
                scores[rows], score_type, temperature
            )
        return confidences, classes
    is_final = score_type == "probs" and temperature == 1.0
    for rows, block, axis in block_copies(scores):
        highest, classes[rows] = first_maximum(block, axis)
        confidences[rows] = (
            highest if is_final else _max_probability(block, axis, score_type, temperature)
        )
    return confidences, classes


def class_probability(
    scores: Array, score_type: ScoreType, classes: Ints, temperature: float = 1.0
) -> Floats:
    """Return the probability of one given class per row.

    >>> class_probability(np.array([[0.2, 0.5, 0.3]]), "probs", np.array([2]))
    array([0.3])
    """
    result: Floats = np.empty(len(scores), dtype=confidence_dtype(scores))
    for rows, block, axis in block_copies(scores):
        if score_type == "logits" or temperature != 1.0:
            _subtract_row_max(block, axis, score_type)
            _exp_scaled(block, 1.0 / temperature, out=block)
            block /= np.expand_dims(block.sum(axis=axis), axis)
        index = np.expand_dims(classes[rows], axis)
        result[rows] = np.take_along_axis(block, index, axis).squeeze(axis)
    return result


def confidence_dtype(scores: Array) -> npt.DTypeLike:
    """Return the type of confidences: float64 for two classes, otherwise `work_dtype`.

    With two classes, confidences in float32 would often round to 1, and float64 costs little
    because each row needs only one exponential.
    """
    return np.float64 if scores.shape[1] == 2 else work_dtype(scores)


def _binary_confidence_and_class(
    block: Array, score_type: ScoreType, temperature: float
) -> tuple[Floats, Ints]:
    """Return confidence and class of two classes from the difference of their logits."""
    first = block[:, 0].astype(np.float64)
    second = block[:, 1].astype(np.float64)
    classes = (second > first).astype(np.int32)
    if score_type == "probs" and temperature == 1.0:
        return np.maximum(first, second), classes
    if score_type == "probs":
        first = np.log(np.maximum(first, MIN_PROBABILITY))
        second = np.log(np.maximum(second, MIN_PROBABILITY))
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-np.abs(first - second) / temperature)), classes


def negative_entropy(scores: Array, score_type: ScoreType, temperature: float = 1.0) -> Floats:
    """Return Σ p log p of each row: 0 for a certain prediction, −log k for a uniform one.

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
    """Return the negative entropy of two classes, a strictly increasing function of the confidence.

    Near a confidence of 1/2 the function is so flat that rounding could change the order of rows;
    a power series is used there.
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
    """Return probabilities at a temperature, as an (n, k) array.

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
    """Return the logarithms of probabilities, which are raised to at least `MIN_PROBABILITY`."""
    return np.log(np.maximum(softmax(scores, score_type, temperature), MIN_PROBABILITY))


def nll_derivatives(
    scores: Array, score_type: ScoreType, labels: Ints, inverse_temperature: float
) -> tuple[float, float, float]:
    """Return the mean negative log-likelihood and its first two derivatives with respect to 1/T."""
    sums = np.zeros(3)
    for rows, block, axis in block_copies(scores):
        _subtract_row_max(block, axis, score_type)
        label_logit = np.take_along_axis(block, np.expand_dims(labels[rows], axis), axis).squeeze(
            axis
        )
        weights = _exp_scaled(block, inverse_temperature)
        total = weights.sum(axis=axis)
        weights *= block
        mean = weights.sum(axis=axis) / total
        weights *= block
        variance = weights.sum(axis=axis) / total - mean * mean
        nll = np.log(total) - inverse_temperature * label_logit
        sums += [part.sum(dtype=np.float64) for part in (nll, mean - label_logit, variance)]
    mean_nll, slope, curvature = sums / len(scores)
    return float(mean_nll), float(slope), float(curvature)
