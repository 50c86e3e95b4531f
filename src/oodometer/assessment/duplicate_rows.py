"""Notes on rows that occur more than once: in the source, in the target, or in both.

Equal scores alone do not show that rows are copies: a table with few different inputs, or a small
tree, has many rows with equal scores. Such rows obey a law. If rows are drawn independently, the
numbers f_j of outputs that occur j times satisfy, for every distribution of outputs,

    ((j + 1)! E f_{j+1}) ((j − 1)! E f_{j−1}) ≥ (j! E f_j)²,

because j! E f_j = Σ_v λ_v^j exp(−λ_v) are moments of a measure (Poisson approximation with rates λ_v;
the argument is that of the birthday problem and of Good, 1953). Copied rows break the law: if 100 of
1000 rows are added a second time, 100 outputs occur twice and none three times, where the law
requires about seven. Rows that were drawn with replacement obey the law, and are not reported.

Rounded scores and scores of very confident rows are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oodometer.core import validation
from oodometer.core.array_types import Bools, Ints
from oodometer.core.predictions import Predictions

RowHashes = npt.NDArray[np.uint64]

# With fewer rows, equal scores say little.
MIN_ROWS = 50
# Shares of copies from which on a note is given.
MIN_COPIES_WITHIN = 0.1
MIN_COPIES_ACROSS = 0.05
# Number of outputs that occur equally often from which on the law above is tested, the number of
# standard deviations by which their number may be too large by chance, and the largest probability
# of so few outputs that occur once more.
MIN_REPEATED_OUTPUTS = 20
CHANCE_DEVIATIONS = 2.0
MAX_PROBABILITY_BY_CHANCE = 0.01
# The share of target rows with the scores of a source row must exceed this many times the share of
# rows that have equal scores within source or target.
MIN_RATIO_ACROSS = 5.0
# Classes whose scores are compared, and rows, chosen by their hashes, that are counted.
MAX_CLASSES = 4
MAX_ROWS = 50_000
# Odd multiplier that mixes the bits of a score (Steele et al., 2014).
HASH_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
# Probabilities above this are saturated.
MAX_PROBABILITY = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class _RepeatedRows:
    """Rows of one dataset with equal scores.

    `hashes` has the scores of each row; of many rows, only hashes that are multiples of `step`.
    `tied_share` is the share of rows whose scores another row has, and `copied_share` is the share of
    rows that are copies; 0 if they can be equal by chance.
    """

    hashes: RowHashes
    step: int
    tied_share: float
    copied_share: float

    @classmethod
    def find(cls, rows: Predictions) -> _RepeatedRows | None:
        """Return the repeated rows; None if the scores are rounded, or rows are too few."""
        hashed = _row_hashes(rows)
        if hashed is None or len(hashed[0]) < MIN_ROWS:
            return None
        hashes, numbers = hashed
        _, codes, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        tied = counts[codes] > 1
        times = _occurrences(rows, codes[tied], numbers[tied])
        copied_share = float((times - 1).sum()) / len(hashes)
        if copied_share < MIN_COPIES_WITHIN or not _are_copied(times, len(hashes)):
            copied_share = 0.0
        return cls(hashes, _sampling_step(rows.n), float(tied.mean()), copied_share)

    @property
    def chance_share(self) -> float:
        """Share of rows whose scores another row has by chance."""
        return 0.0 if self.copied_share else self.tied_share


def duplicate_notes(source: Predictions, target: Predictions) -> Iterator[str]:
    """Yield notes on copies of rows within source and target, and in both."""
    repeated = {"source": _RepeatedRows.find(source), "target": _RepeatedRows.find(target)}
    for name, rows in repeated.items():
        if rows is not None and rows.copied_share:
            yield (
                f"{100 * rows.copied_share:.0f} % of the {name} rows seem to be copies of another "
                f"{name} row: they have exactly the same scores. If so, remove the copies: the "
                "confidence intervals are too narrow."
            )
    first, second = repeated.values()
    if first is None or second is None:
        return
    compared = second.hashes[second.hashes % np.uint64(first.step) == 0]
    share = float(np.isin(compared, first.hashes).mean()) if len(compared) >= MIN_ROWS else 0.0
    by_chance = max(first.chance_share, second.chance_share)
    if share >= MIN_COPIES_ACROSS + MIN_RATIO_ACROSS * by_chance:
        yield (
            f"{100 * share:.0f} % of the target rows have exactly the scores of a source row. If "
            "the same examples are in both, remove them from one of the two: they make the target "
            "look like the source."
        )


def _occurrences(rows: Predictions, codes: Ints, numbers: Ints) -> Ints:
    """Return how often each different row occurs, with its label, decision and id.

    `codes` are equal for rows with equal scores, and `numbers` are the numbers of these rows.
    """
    for values in (rows.labels, rows.classes if rows.has_decisions else None, rows.ids):
        if values is not None:
            column = values[numbers]
            column = column.astype(str) if column.dtype == object else column
            _, column_codes = np.unique(column, return_inverse=True)
            codes = codes * (len(codes) + 1) + column_codes
            _, codes = np.unique(codes, return_inverse=True)
    return np.unique(codes, return_counts=True)[1]


def _are_copied(times: Ints, n_rows: int) -> bool:
    """Return whether rows occur together more regularly than independent rows would.

    `times` are the numbers of occurrences of the different rows with equal scores.
    """
    counts = np.bincount(times, minlength=3)
    counts[1] = n_rows - int(times[times > 1].sum())
    for j in range(2, len(counts)):
        repeated, fewer = int(counts[j]), int(counts[j - 1])
        if repeated < max(MIN_REPEATED_OUTPUTS, MIN_COPIES_WITHIN * n_rows / (j - 1)):
            continue
        low = repeated - CHANCE_DEVIATIONS * math.sqrt(repeated)
        high = fewer + CHANCE_DEVIATIONS * (math.sqrt(fewer) + 1)
        expected = j / (j + 1) * low**2 / high
        more = int(counts[j + 1]) if j + 1 < len(counts) else 0
        if _poisson_cdf(more, expected) < MAX_PROBABILITY_BY_CHANCE:
            return True
    return False


def _poisson_cdf(count: int, mean: float) -> float:
    """Return the probability of at most `count` events.

    >>> round(_poisson_cdf(1, 2.0), 4)
    0.406
    """
    from scipy import special

    return float(special.pdtr(count, mean))


def _sampling_step(n_rows: int) -> int:
    """Return the power of two whose multiples are the hashes of at most about `MAX_ROWS` rows.

    >>> _sampling_step(MAX_ROWS), _sampling_step(3 * MAX_ROWS)
    (1, 4)
    """
    return 1 << max(math.ceil(math.log2(max(n_rows, 1) / MAX_ROWS)), 0)


def _row_hashes(rows: Predictions) -> tuple[RowHashes, Ints] | None:
    """Return hashes of the scores and numbers of rows, a sample if many; None if rounded."""
    scores = rows.scores
    if scores is None or scores.dtype.kind != "f" or scores.dtype.itemsize < 4:
        return None
    if validation.rounding_step(scores[: validation.PREVIEW_ROWS]) is not None:
        return None
    bits = np.uint64 if scores.dtype.itemsize == 8 else np.uint32
    hashes: RowHashes = np.zeros(rows.n, dtype=np.uint64)
    for column in np.unique(np.linspace(0, rows.k - 1, min(rows.k, MAX_CLASSES)).astype(int)):
        values = np.ascontiguousarray(scores[:, column]).view(bits).astype(np.uint64)
        with np.errstate(over="ignore"):
            hashes = (hashes ^ values) * HASH_MULTIPLIER
            hashes ^= hashes >> np.uint64(32)
    # Rows are chosen by their hashes, so that all copies of a row are chosen or none.
    chosen: Bools = hashes % np.uint64(_sampling_step(rows.n)) == 0
    if rows.score_type == "probs":
        chosen &= np.asarray(scores.max(axis=1) < MAX_PROBABILITY)
    numbers = np.flatnonzero(chosen)
    return hashes[numbers], numbers
