"""Error of every estimator on the demo's digits, without and with temperature scaling, five seeds."""

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
                result = oodometer.estimate(
                    suite.source,
                    target.predictions,
                    other_models=target.other_models,
                    temperature=temperature,  # type: ignore[arg-type]
                    seed=seed,
                )
                for estimate in result.estimates:
                    error = 100 * (estimate.value - truth)
                    errors[when].setdefault(estimate.method, []).append(error)
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
    head = ("method", "MAE without T", "MAE with T", "bias with T", "largest error with T")
    count = len(errors["after"]["ac"])
    text = (
        f"Errors in points of accuracy over {count} pairs of seed and shift: a small network on "
        "digits under the shifts of `oodometer demo`. T is temperature scaling; MAE is the mean "
        f"absolute error.\n\n{markdown_table(head, rows)}\n\n{machine_facts()}"
    )
    write_results("quality_digits", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
