"""Notes on rows that occur more than once: in the source, in the target, or in both.

Two rows count as copies if their scores are equal to the last bit. Rounded scores and scores of
very confident rows are often equal by coincidence, so they are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from oodometer.core import validation
from oodometer.core.array_types import Bools
from oodometer.core.predictions import Predictions

RowHashes = npt.NDArray[np.uint64]

# With fewer rows, equal scores say little.
MIN_ROWS = 50
# Shares of copies from which on a note is given.
MIN_COPIES_WITHIN = 0.1
MIN_COPIES_ACROSS = 0.05
# If fewer rows than this share are distinct, the model has few different outputs, as a small tree.
MIN_DISTINCT_SHARE = 0.25
# Classes whose scores are compared, and rows, chosen by their hashes, that are counted.
MAX_CLASSES = 4
MAX_ROWS = 50_000
# Odd multiplier that mixes the bits of a score (Steele et al., 2014).
HASH_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
# Probabilities above this are saturated.
MAX_PROBABILITY = 1 - 1e-6


def duplicate_notes(source: Predictions, target: Predictions) -> Iterator[str]:
    """Yield notes on copies of rows within source and target, and in both."""
    hashes = {"source": _row_hashes(source), "target": _row_hashes(target)}
    distinct = {}
    for name, values in hashes.items():
        if values is None or len(values) < MIN_ROWS:
            return
        distinct[name] = np.unique(values)
        if len(distinct[name]) < MIN_DISTINCT_SHARE * len(values):
            return
    for name, values in hashes.items():
        assert values is not None
        share = 1 - len(distinct[name]) / len(values)
        if share >= MIN_COPIES_WITHIN:
            yield (
                f"{100 * share:.0f} % of the {name} rows have exactly the scores of another {name} "
                "row. If rows were repeated, remove the copies: the confidence intervals are too "
                "narrow."
            )
    assert hashes["target"] is not None
    share = float(np.isin(hashes["target"], distinct["source"]).mean())
    if share >= MIN_COPIES_ACROSS:
        yield (
            f"{100 * share:.0f} % of the target rows have exactly the scores of a source row. If "
            "the same examples are in both, remove them from one of the two: they make the target "
            "look like the source."
        )


def _row_hashes(rows: Predictions) -> RowHashes | None:
    """Return hashes of the scores of rows, a sample of them if there are many; None if rounded."""
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
    if rows.score_type == "probs":
        unsaturated: Bools = np.asarray(scores.max(axis=1) < MAX_PROBABILITY)
        hashes = hashes[unsaturated]
    # Rows are chosen by their hashes, so that all copies of a row are chosen or none.
    chosen: RowHashes = hashes[hashes % np.uint64(rows.n // MAX_ROWS + 1) == 0]
    return chosen
