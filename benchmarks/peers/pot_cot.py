"""COT with POT's exact solver: the target's rows are moved to classes, or to as many labels.

As "classes" the rows go to k heaps, as large as the source's class shares; as "labels", the way it
is mostly published, each to a label of the source: as many source labels as target rows.
"""

from __future__ import annotations

import sys

import numpy as np
import ot

from benchmarks.peers._took import Arrays, arrays_of, told

# Far above what is needed: it must not stop early.
STEPS = 100_000_000


def to_classes(given: Arrays) -> float:
    probs, labels = given["target"].astype(np.float64), given["labels"]
    shares = np.bincount(labels, minlength=probs.shape[1]) / len(labels)
    rows = np.full(len(probs), 1 / len(probs))
    return 1 - float(ot.emd2(rows, shares, 1 - probs, numItermax=STEPS))


def to_labels(given: Arrays) -> float:
    probs, labels = given["target"].astype(np.float64), given["labels"]
    weights = np.full(len(probs), 1 / len(probs))
    return 1 - float(ot.emd2(weights, weights, 1 - probs[:, labels], numItermax=STEPS))


if __name__ == "__main__":
    work = {"classes": to_classes, "labels": to_labels}[sys.argv[2]]
    told(work, arrays_of(sys.argv[1]), ot.__version__)
