"""QuaPy's EM: maximum likelihood class shares of the target.

The optional second argument is the tolerance per class; without it QuaPy's own rule stops the EM.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import quapy
from quapy.method.aggregative import EMQ

from benchmarks.peers._timing import Arrays, load_arrays, report_run


def class_shares(arrays: Arrays, **settings: float) -> Any:
    labels, target = arrays["labels"], arrays["target"]
    prior = np.bincount(labels, minlength=target.shape[1]) / len(labels)
    shares, _ = EMQ.EM(prior, target, **settings)
    return shares


if __name__ == "__main__":
    settings: dict[str, Any] = {"epsilon": float(sys.argv[2])} if len(sys.argv) > 2 else {}
    report_run(partial(class_shares, **settings), load_arrays(sys.argv[1]), quapy.__version__)
