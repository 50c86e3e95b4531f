"""COT with POT's exact solver: transport of target rows to classes or to labels.

With "classes" the rows are transported to k classes with the source's class shares; with "labels",
as in most publications, to one source label per target row.
"""

from __future__ import annotations

import sys

import numpy as np
import ot

from benchmarks.peers._timing import Arrays, load_arrays, report_run

# Far more iterations than needed, so that the solver does not stop early.
MAX_ITERATIONS = 100_000_000


def to_classes(arrays: Arrays) -> float:
    probs, labels = arrays["target"].astype(np.float64), arrays["labels"]
    shares = np.bincount(labels, minlength=probs.shape[1]) / len(labels)
    rows = np.full(len(probs), 1 / len(probs))
    return 1 - float(ot.emd2(rows, shares, 1 - probs, numItermax=MAX_ITERATIONS))


def to_labels(arrays: Arrays) -> float:
    probs, labels = arrays["target"].astype(np.float64), arrays["labels"]
    weights = np.full(len(probs), 1 / len(probs))
    return 1 - float(ot.emd2(weights, weights, 1 - probs[:, labels], numItermax=MAX_ITERATIONS))


if __name__ == "__main__":
    work = {"classes": to_classes, "labels": to_labels}[sys.argv[2]]
    report_run(work, load_arrays(sys.argv[1]), ot.__version__)
