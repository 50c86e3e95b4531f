"""Ours, and what one would write without us, each in a process of its own, as the peers are run.

Run by benchmarks/speed_peers.py: python -m benchmarks._ours arrays.npz name
"""

from __future__ import annotations

import sys
from typing import Any

import oodometer
from benchmarks.peers._took import Arrays, Work, arrays_of, told
from benchmarks.speed_estimators import looped_atc, our_atc
from oodometer.core.predictions import Predictions
from oodometer.estimators import COT, MLLS, AverageConfidence
from oodometer.measures._mmd_kernels import gaussian_mmd


def sides(given: Arrays) -> tuple[Predictions, Predictions]:
    """Both sides from raw arrays: what checking them costs is counted."""
    known = Predictions.from_probs(given["source"], labels=given["labels"])
    return known, Predictions.from_probs(given["target"])


def everything(given: Arrays) -> float:
    """Every method with 200 replicates, a temperature fitted, diagnostics; the value is that of ac."""
    found = oodometer.estimate(*sides(given), seed=0)
    return next(one.value for one in found.estimates if one.method == "ac")


def confidence(given: Arrays) -> float:
    return AverageConfidence().estimate(*sides(given)).value


def transport(given: Arrays) -> float:
    return COT().estimate(*sides(given)).value


def shares(given: Arrays) -> Any:
    known, new = sides(given)
    member = MLLS()
    learned = member.learn(known)
    seen = member.summarize(learned, new)
    member.finish(learned, seen)
    return seen.shares


def direct_mmd(given: Arrays) -> float:
    # Here, as torch would count as memory of all the others.
    from benchmarks.speed_mmd import direct

    return direct(given["source"], given["target"], "products", 1)


WORKS: dict[str, Work] = {
    "everything": everything,
    "ac": confidence,
    "atc": lambda given: our_atc(given["source"], given["labels"], given["target"]),
    "atc-loop": lambda given: looped_atc(given["source"], given["labels"], given["target"]),
    "cot": transport,
    "mlls": shares,
    "mmd": lambda given: gaussian_mmd(given["source"], given["target"]),
    "mmd-direct": direct_mmd,
}

if __name__ == "__main__":
    told(WORKS[sys.argv[2]], arrays_of(sys.argv[1]), oodometer.__version__)
