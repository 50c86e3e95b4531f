"""Every method before and after temperature scaling on the demo's digits, over five seeds."""

from __future__ import annotations

import sys

import numpy as np

import oodometer
from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.studies.demo import make_digits_suite

SEEDS = range(5)


def main() -> int:
    errors: dict[str, dict[str, list[float]]] = {"before": {}, "after": {}}
    for seed in SEEDS:
        suite = make_digits_suite(seed)
        for target in suite.targets:
            truth = float(target.predictions.correct.mean())
            for when, temperature in (("before", None), ("after", "fit")):
                found = oodometer.estimate(
                    suite.source,
                    target.predictions,
                    other_models=target.other_models,
                    temperature=temperature,  # type: ignore[arg-type]
                    seed=seed,
                )
                for one in found.estimates:
                    errors[when].setdefault(one.method, []).append(100 * (one.value - truth))
    rows = [
        (
            method,
            f"{np.abs(errors['before'][method]).mean():.2f}",
            f"{np.abs(gaps).mean():.2f}",
            f"{np.mean(gaps):+.2f}",
            f"{np.abs(gaps).max():.1f}",
        )
        for method, gaps in errors["after"].items()
    ]
    head = ("method", "before T", "after T", "bias after T", "worst after T")
    count = len(errors["after"]["ac"])
    text = (
        f"Error in points of accuracy over {count} (seed, shift) pairs: digits, a small network, "
        "the shifts of `oodometer demo`. Mean absolute error before and after temperature "
        f"scaling.\n\n{markdown_table(head, rows)}\n\n{machine_facts()}"
    )
    write_results("quality_digits", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
