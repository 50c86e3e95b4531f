"""Methods of this package and straightforward loops, run in processes like the peers.

Called by benchmarks/speed_peers.py: python -m benchmarks._own_methods arrays.npz name
"""

from __future__ import annotations

import sys
from typing import Any

import oodometer
from benchmarks.peers._timing import Arrays, Work, load_arrays, report_run
from benchmarks.speed_estimators import looped_atc, our_atc
from oodometer.core.predictions import Predictions
from oodometer.estimators import COT, MLLS, AverageConfidence
from oodometer.measures._mmd_kernels import gaussian_mmd


def source_and_target(arrays: Arrays) -> tuple[Predictions, Predictions]:
    """Create the predictions from raw arrays; validation is part of the measured time."""
    source = Predictions.from_probs(arrays["source"], labels=arrays["labels"])
    return source, Predictions.from_probs(arrays["target"])


def all_methods(arrays: Arrays) -> float:
    """Run every method with 200 replicates, a fitted temperature and diagnostics; return AC."""
    return oodometer.estimate(*source_and_target(arrays), seed=0)["ac"].value


def average_confidence(arrays: Arrays) -> float:
    return AverageConfidence().estimate(*source_and_target(arrays)).value


def cot(arrays: Arrays) -> float:
    return COT().estimate(*source_and_target(arrays)).value


def mlls_shares(arrays: Arrays) -> Any:
    source, target = source_and_target(arrays)
    estimator = MLLS()
    learned = estimator.learn(source)
    summary = estimator.summarize(learned, target)
    estimator.finish(learned, summary)
    return summary.shares


def direct_mmd(arrays: Arrays) -> float:
    # Imported here, because torch would add to the memory of all other runs.
    from benchmarks.speed_mmd import direct

    return direct(arrays["source"], arrays["target"], "products", 1)


WORKS: dict[str, Work] = {
    "everything": all_methods,
    "ac": average_confidence,
    "atc": lambda arrays: our_atc(arrays["source"], arrays["labels"], arrays["target"]),
    "atc-loop": lambda arrays: looped_atc(arrays["source"], arrays["labels"], arrays["target"]),
    "cot": cot,
    "mlls": mlls_shares,
    "mmd": lambda arrays: gaussian_mmd(arrays["source"], arrays["target"]),
    "mmd-direct": direct_mmd,
}

if __name__ == "__main__":
    report_run(WORKS[sys.argv[2]], load_arrays(sys.argv[1]), oodometer.__version__)
