"""QuaPy's EM: the class shares that make the target's probabilities likeliest.

With a second argument, until two steps differ by less than that, a class; else as it does itself.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import quapy
from quapy.method.aggregative import EMQ

from benchmarks.peers._took import Arrays, arrays_of, told


def shares(given: Arrays, **settings: float) -> Any:
    labels, target = given["labels"], given["target"]
    prior = np.bincount(labels, minlength=target.shape[1]) / len(labels)
    found, _ = EMQ.EM(prior, target, **settings)
    return found


if __name__ == "__main__":
    settings: dict[str, Any] = {"epsilon": float(sys.argv[2])} if len(sys.argv) > 2 else {}
    told(partial(shares, **settings), arrays_of(sys.argv[1]), quapy.__version__)
