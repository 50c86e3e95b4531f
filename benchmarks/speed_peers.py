"""Comparison with peer packages and straightforward loops: CPU time, memory, values.

Each computation runs in a process of its own on the same arrays, after a small warm-up. CPU time is
that of all threads, without imports and reading. Peers run in an environment of their own
(`make bench-peers`); the row of a peer that is not installed says so.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks._peer_comparison import (
    HEAD,
    Comparison,
    Row,
    Run,
    RunResult,
    array_path,
    run_in_turns,
)
from benchmarks._results import Bound, Section, markdown_table

MILLION, FEW, FEATURES = "1M x 10", "4,000 x 10", "4,000 x 512"
HALVED, TENTH = ("25,000 x 10", "50,000 x 10"), "100,000 x 10"
SIZES = {MILLION: 1_000_000, TENTH: 100_000, HALVED[0]: 25_000, HALVED[1]: 50_000, FEW: 4000}
# Repetitions of runs that take a minute.
SLOW_ROUNDS = 2


def ours(name: str, arrays: str, rounds: int = 3, threads: int | None = None) -> Run:
    return Run("benchmarks._own_methods", arrays, (name,), rounds, threads)


POT, QUAPY = "benchmarks.peers.pot_cot", "benchmarks.peers.quapy_em"
CBPE = Run("benchmarks.peers.nannyml_cbpe", MILLION, rounds=SLOW_ROUNDS)
GROWING = [Run(POT, size, ("classes",)) for size in HALVED]

COMPARISONS = (
    Comparison("all array methods, 200 replicates / NannyML's CBPE", ours("everything", MILLION, SLOW_ROUNDS), CBPE, 10.0),
    Comparison("average confidence, uncalibrated / NannyML's CBPE", ours("ac", MILLION, SLOW_ROUNDS), CBPE),
    Comparison("ATC-MC / straightforward loop", ours("atc", MILLION), ours("atc-loop", MILLION), None, 1e-5),
    Comparison("COT / POT's emd, rows to classes", ours("cot", TENTH), Run(POT, TENTH, ("classes",)), None, 1e-3),
    Comparison("COT / POT's emd, rows to labels", ours("cot", FEW), Run(POT, FEW, ("labels",)), None, 1e-3),
    Comparison("MLLS / QuaPy's EM, own stopping rule", ours("mlls", MILLION), Run(QUAPY, MILLION), None, 1e-3),
    Comparison("MLLS / QuaPy's EM, same precision", ours("mlls", MILLION), Run(QUAPY, MILLION, ("1e-8",)), None, 1e-5),
    Comparison("MMD-Gaussian / direct, torch", ours("mmd", FEATURES), ours("mmd-direct", FEATURES), None, 1e-7),
)  # fmt: skip


def write_arrays(folder: Path) -> float:
    """Write every set of arrays; return the true accuracy on the target of a million rows."""
    from benchmarks.speed_estimators import made
    from benchmarks.speed_mmd import gaussian

    (source, labels), (target, truth) = made(1, 2.2), made(2, 1.5)
    for name, n in SIZES.items():
        np.savez(array_path(folder, name), source=source[:n], labels=labels[:n], target=target[:n])
    first, second = (gaussian(4000, 1.0, seed) for seed in (0, 1))
    np.savez(array_path(folder, FEATURES), source=first, target=second)
    return float((target.argmax(axis=1) == truth).mean())


def compare_peers() -> tuple[list[Row], list[str]]:
    """Return the rows of the table and the notes below it."""
    with tempfile.TemporaryDirectory(prefix="oodometer-") as name:
        truth = write_arrays(Path(name))
        runs = [run for pair in COMPARISONS for run in (pair.ours, pair.theirs)]
        results = run_in_turns([*runs, *GROWING], Path(name))
    rows = []
    for pair in COMPARISONS:
        ours_result = results[pair.ours]
        if isinstance(ours_result, str):
            raise RuntimeError(f"{pair.title}: our run {ours_result}; see its output above.")
        rows.append(Row(pair, ours_result, results[pair.theirs]))
    return rows, [*notes(results, truth), *growth(results)]


def notes(results: dict[Run, RunResult | str], truth: float) -> list[str]:
    peers = {"NannyML": CBPE.module, "POT": POT, "QuaPy": QUAPY}
    versions = ", ".join(f"{name} {version(results, module)}" for name, module in peers.items())
    return [
        f"Peers: {versions}. Each computation is a process of its own, repeated three times "
        f"({SLOW_ROUNDS} times in the rows of CBPE); the least CPU time counts on both sides. Memory "
        "is the peak of the process, including imports and input.",
        f"The true accuracy on the million rows is {truth:.4f}. CBPE calibrates each class by isotonic "
        "regression on the source; `estimate()` fits one temperature, and its value here is the "
        "average confidence. Creating the data frames for NannyML is not timed; validating our input "
        "arrays is.",
        "QuaPy's EM stops when the mean change of a class share is below 0.0001; ours stops when the "
        "total change is below 0.0000001. Both precisions are shown.",
    ]


def version(results: dict[Run, RunResult | str], module: str) -> str:
    """Return the version of a peer, or the reason why it has no result."""
    result = next(result for run, result in results.items() if run.module == module)
    return f"({result})" if isinstance(result, str) else result.version


def growth(results: dict[Run, RunResult | str]) -> list[str]:
    """Describe how POT's CPU time grows with the number of rows, by a fitted power law."""
    runs = [run for run in results if run.module == POT and run.arguments == ("classes",)]
    times = {
        SIZES[run.arrays]: result.cpu
        for run in runs
        if isinstance(result := results[run], RunResult)
    }
    if len(times) < len(runs):
        return []
    exponent, factor = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)
    minutes = np.exp(factor) * SIZES[MILLION] ** exponent / 60
    measured = ", ".join(f"{cpu:.2f} s at {n:,}" for n, cpu in sorted(times.items()))
    return [
        f"POT's transport of rows to classes took {measured}: it grows with exponent {exponent:.2f}, "
        f"which extrapolates to {minutes:.0f} minutes at a million rows."
    ]


def section() -> Section:
    rows, note_texts = compare_peers()
    bounds = [
        Bound(f"ratio of CPU times: {row.comparison.title}", row.ratio, row.comparison.min_ratio)
        for row in rows
        if row.ratio is not None and row.comparison.min_ratio is not None
    ]
    bounds += [
        Bound(
            f"difference of values: {row.comparison.title}",
            row.difference,
            row.comparison.tolerance,
            least=False,
        )
        for row in rows
        if row.difference is not None and row.comparison.tolerance is not None
    ]
    table = markdown_table(HEAD, [row.cells() for row in rows])
    return Section("Peers", bounds, "\n\n".join([table, *note_texts]))
