"""CPU time that the headline and the typical range add to estimate(), at 1,000,000 × 10.

The source looks like the target, so batches of the source are estimated as well, which is the
slowest case. CPU times are on one thread, in turns in one run. Exits with 1 if the bound is missed.
"""

from __future__ import annotations

import sys
import time
from unittest.mock import patch

import numpy as np

import oodometer
from benchmarks._results import Bound, bounds_table, machine_facts, write_results
from oodometer import Predictions, estimators
from oodometer.assessment import headline

NAME = "speed_headline"
N, K, REPEATS, MAX_RATIO = 1_000_000, 10, 5, 1.2
HEADLINE = "regime"
# Methods that need features or other models.
LEFT_OUT = ("gde", "atc-near", "aline-s", "aline-d")


def outputs(seed: int) -> Predictions:
    """Return labelled outputs of a simulated model with an accuracy of about 70 %."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, N)
    logits = rng.normal(size=(N, K)).astype(np.float32)
    logits[np.arange(N), labels] += 2.5
    return Predictions.from_logits(logits, labels=labels)


def seconds(source: Predictions, target: Predictions, *, with_headline: bool) -> float:
    """Return the CPU time of estimate() with all applicable methods."""
    names = [each.name for each in estimators.available() if each.name not in LEFT_OUT]
    if not with_headline:
        names.remove(HEADLINE)
    needed = headline.NEEDED_METHODS if with_headline else ()
    # Fresh rows, because results are cached with the rows.
    rows = Predictions.from_logits(source.scores, labels=source.labels)
    start = time.process_time()
    with patch.object(headline, "NEEDED_METHODS", needed):
        result = oodometer.estimate(rows, Predictions.from_logits(target.scores), methods=names)
    spent = time.process_time() - start
    if with_headline:
        assert result.headline.estimate.method == HEADLINE
        assert result.shift is not None
        assert result.shift.n_source_batches > 0
    return spent


def main() -> int:
    source, target = outputs(0), outputs(1)
    times: dict[bool, list[float]] = {False: [], True: []}
    for repeat in range(REPEATS + 1):
        for with_headline in (False, True):
            spent = seconds(source, target, with_headline=with_headline)
            if repeat:  # the first run includes imports
                times[with_headline].append(spent)
    without, with_ = (float(np.median(times[key])) for key in (False, True))
    bounds = [
        Bound(
            "CPU time of estimate() with the headline and the typical range / without",
            with_ / without,
            MAX_RATIO,
            least=False,
        )
    ]
    text = (
        f"{bounds_table(bounds)}\n\nMedian of {REPEATS} runs at {N:,} × {K}: {without:.2f} s without "
        f"and {with_:.2f} s with them.\n\n{machine_facts()}"
    )
    write_results(NAME, text)
    return 0 if all(bound.kept for bound in bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
