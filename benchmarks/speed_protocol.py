"""CPU time of all statistics of the neighborhood-invariance paper compared with bare scipy calls.

The table is simulated with the shape of NI Table 1: ten pools with 4,644 models and 112,118
evaluations in total, and ten measures. The bound is 1.5 times the time of `scipy.stats.kendalltau` for
the τ values only, on prepared arrays. CPU time in one run on one thread. The script exits with 1 if
the bound is missed. Run: make bench
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kendalltau

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.studies.analysis._compare_measures import (
    STATISTIC_LABELS,
    MeasureComparison,
    compare_measures,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import RowGroups
from oodometer.studies.analysis.kendall_family import TAU_STATISTICS

MEASURES, MOST = 10, 1.5


class Pool(NamedTuple):
    """Row of NI Table 1; each model has evaluations / models test domains."""

    architecture: str
    data: str
    trained_on: range
    models: int
    evaluations: int


POOLS = (
    Pool("CNN", "amazon", range(10), 2418, 24_180),
    Pool("CNN", "mnli", range(5), 796, 39_800),
    Pool("RoBERTa", "amazon", range(10), 332, 33_200),
    Pool("RoBERTa", "mnli", range(5), 213, 10_650),
    Pool("various", "imagenet", range(1), 401, 2_406),
    Pool("NiN", "numbers", range(1), 54, 162),
    Pool("NiN", "ci10", range(1), 32, 128),
    Pool("VGG", "ci10", range(1), 54, 216),
    Pool("ResNet", "ci10", range(1), 216, 864),
    Pool("CNN", "ci10", range(1, 2), 128, 512),
)


def evaluations(seed: int = 0) -> EvaluationTable:
    """Simulate the table: accuracies on 2,000 rows, with ties, and correlated measures."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("model", "architecture", "trained_on", "tested_on")
    }
    for number, pool in enumerate(POOLS):
        tests = pool.evaluations // pool.models
        for model in range(pool.models):
            columns["model"] += [f"{number}-{model}"] * tests
            columns["architecture"] += [pool.architecture] * tests
            training = pool.trained_on[model % len(pool.trained_on)]
            columns["trained_on"] += [f"{pool.data}-{training}"] * tests
            columns["tested_on"] += [f"{pool.data}-{j}" for j in range(tests)]
    n = len(columns["model"])
    accuracy = rng.binomial(2000, rng.beta(8, 4, size=n)) / 2000
    measures = {f"measure {j}": accuracy + rng.normal(0, 0.05 * j, size=n) for j in range(MEASURES)}
    return EvaluationTable.read({**columns, "accuracy": accuracy, **measures})


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def bare_calls(table: EvaluationTable) -> dict[str, tuple[int, float]]:
    """Return the number of calls of each τ and their CPU time on prepared arrays."""
    found = {}
    for one in TAU_STATISTICS:
        groups = list(
            RowGroups.from_columns(
                table, one.key_columns, table.in_distribution == one.in_distribution
            )
        )
        sides = [
            (values[rows], table.accuracy[rows])
            for values in table.measures.values()
            for rows in groups
            if len(rows) > 1
        ]
        taken = seconds(lambda sides=sides: [kendalltau(x, y) for x, y in sides])  # type: ignore[misc]
        found[one.name] = (len(sides), taken)
    return found


def agree(judged: MeasureComparison, table: EvaluationTable) -> None:
    """Check that the timed values equal scipy's, for the noisiest measure."""
    values = list(table.measures.values())[-1]
    scores = {one.statistic: one for one in judged.scores}
    for one in TAU_STATISTICS:
        groups = RowGroups.from_columns(
            table, one.key_columns, table.in_distribution == one.in_distribution
        )
        for rows, found in zip(groups, scores[one.name].values[-1], strict=True):
            if len(rows) > 1:
                expected = kendalltau(values[rows], table.accuracy[rows]).statistic
                assert np.isclose(found, expected, equal_nan=True), (one.name, found, expected)


def page(bare: dict[str, tuple[int, float]], ours: float, n: int) -> str:
    rows = [
        (STATISTIC_LABELS[name], f"{calls:,}", f"{taken:.2f}")
        for name, (calls, taken) in bare.items()
    ]
    total = sum(taken for _, taken in bare.values())
    ratio, verdict = ours / total, "is kept" if ours <= MOST * total else "is MISSED"
    few = total - bare["cross_domain_tau"][1]
    return (
        f"{n:,} evaluations × {MEASURES} measures with the shape of NI Table 1, CPU seconds on one "
        f"thread. Bare calls of `scipy.stats.kendalltau`:\n\n"
        f"{markdown_table(('statistic', 'calls', 's'), rows)}\n\nAll NI statistics of all measures "
        f"(τ, R2, r2_pearson, MAE; means, deviations, reasons): {ours:.2f} s, {ratio:.2f} times the "
        f"bare calls ({total:.2f} s), or {ours / few:.2f} times those without Cross-domain τ "
        f"({few:.2f} s). The bound of {MOST:g} times {verdict}.\n\n{machine_facts()}"
    )


def main() -> int:
    with one_thread():
        table = evaluations()
        agree(compare_measures(table), table)  # also a warm-up
        ours = seconds(lambda: compare_measures(table))
        bare = bare_calls(table)
    write_results("speed_protocol", page(bare, ours, len(table)))
    return 1 if ours > MOST * sum(taken for _, taken in bare.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
