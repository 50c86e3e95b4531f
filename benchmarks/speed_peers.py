"""Ours against what others wrote, and against what one would write: CPU time, memory, answers.

Each work is done by a process of its own on the same arrays, after a small one that loads what is
needed; CPU time is that of all threads, without imports and reading. Peers are run by an interpreter
of their own (`make bench-peers`); a row of one that is not installed says so.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks._matches import HEAD, Match, Row, Run, Took, path_of, taken
from benchmarks._results import Bound, Section, markdown_table

MILLION, FEW, FEATURES = "1M x 10", "4,000 x 10", "4,000 x 512"
HALVED, TENTH = ("25,000 x 10", "50,000 x 10"), "100,000 x 10"
SIZES = {MILLION: 1_000_000, TENTH: 100_000, HALVED[0]: 25_000, HALVED[1]: 50_000, FEW: 4000}
# Of what takes a minute.
LONG = 2


def ours(name: str, arrays: str, rounds: int = 3, threads: int | None = None) -> Run:
    return Run("benchmarks._ours", arrays, (name,), rounds, threads)


POT, QUAPY = "benchmarks.peers.pot_cot", "benchmarks.peers.quapy_em"
CBPE = Run("benchmarks.peers.nannyml_cbpe", MILLION, rounds=LONG)
GROWING = [Run(POT, size, ("classes",)) for size in HALVED]

MATCHES = (
    Match("all array methods, 200 replicates / NannyML's CBPE", ours("everything", MILLION, LONG), CBPE, 10.0),
    Match("mean confidence as it is / NannyML's CBPE", ours("ac", MILLION, LONG), CBPE),
    Match("ATC-MC / the obvious loop", ours("atc", MILLION), ours("atc-loop", MILLION), None, 1e-5),
    Match("COT / POT's emd, rows to classes", ours("cot", TENTH), Run(POT, TENTH, ("classes",)), None, 1e-3),
    Match("COT / POT's emd, rows to labels", ours("cot", FEW), Run(POT, FEW, ("labels",)), None, 1e-3),
    Match("MLLS / QuaPy's EM as it stops", ours("mlls", MILLION), Run(QUAPY, MILLION), None, 1e-3),
    Match("MLLS / QuaPy's EM until it is as near", ours("mlls", MILLION), Run(QUAPY, MILLION, ("1e-8",)), None, 1e-5),
    Match("MMD-Gaussian / direct, torch", ours("mmd", FEATURES), ours("mmd-direct", FEATURES), None, 1e-7),
)  # fmt: skip


def write_arrays(folder: Path) -> float:
    """Every set of arrays as a file; the true accuracy on the target of a million rows."""
    from benchmarks.speed_estimators import made
    from benchmarks.speed_mmd import gaussian

    (source, labels), (target, truth) = made(1, 2.2), made(2, 1.5)
    for name, n in SIZES.items():
        np.savez(path_of(folder, name), source=source[:n], labels=labels[:n], target=target[:n])
    first, second = (gaussian(4000, 1.0, seed) for seed in (0, 1))
    np.savez(path_of(folder, FEATURES), source=first, target=second)
    return float((target.argmax(axis=1) == truth).mean())


def compared() -> tuple[list[Row], list[str]]:
    """Rows of the table, and notes to put below."""
    with tempfile.TemporaryDirectory(prefix="oodometer-") as name:
        truth = write_arrays(Path(name))
        runs = [run for match in MATCHES for run in (match.ours, match.theirs)]
        found = taken([*runs, *GROWING], Path(name))
    rows = []
    for match in MATCHES:
        mine = found[match.ours]
        if isinstance(mine, str):
            raise RuntimeError(f"{match.what}: ours {mine}; what it said stands above.")
        rows.append(Row(match, mine, found[match.theirs]))
    return rows, [*notes(found, truth), *growth(found)]


def notes(found: dict[Run, Took | str], truth: float) -> list[str]:
    peers = {"NannyML": CBPE.module, "POT": POT, "QuaPy": QUAPY}
    versions = ", ".join(f"{name} {version(found, module)}" for name, module in peers.items())
    return [
        f"Peers: {versions}. Each work is a process of its own, done three times ({LONG} in the rows "
        "of CBPE), the least CPU time counts on both sides. Memory is the most that a process held, "
        "imports and input included.",
        f"The true accuracy on the million is {truth:.4f}. CBPE calibrates each class by isotonic "
        "regression on the source; `estimate()` fits one temperature, and its value here is that of "
        "mean confidence. Making the frames that NannyML reads is not counted, checking the arrays "
        "that we read is.",
        "QuaPy's EM stops by itself once a share moves less than 0.0001 on average; ours goes on "
        "until all move less than 0.0000001 together. Both are shown.",
    ]


def version(found: dict[Run, Took | str], module: str) -> str:
    """Of a peer, or why it has none."""
    one = next(took for run, took in found.items() if run.module == module)
    return f"({one})" if isinstance(one, str) else one.version


def growth(found: dict[Run, Took | str]) -> list[str]:
    """How POT's time grows with the rows, by a power law of its own times."""
    runs = [run for run in found if run.module == POT and run.more == ("classes",)]
    times = {SIZES[run.arrays]: one.cpu for run in runs if isinstance(one := found[run], Took)}
    if len(times) < len(runs):
        return []
    power, factor = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)
    minutes = np.exp(factor) * SIZES[MILLION] ** power / 60
    said = ", ".join(f"{cpu:.2f} s at {n:,}" for n, cpu in sorted(times.items()))
    return [
        f"POT's transport of rows to classes took {said}: it grows with the power {power:.2f}, "
        f"which would make {minutes:.0f} minutes at a million."
    ]


def section() -> Section:
    rows, said = compared()
    bounds = [
        Bound(f"times less CPU time: {row.match.what}", row.ratio, row.match.bound)
        for row in rows
        if row.ratio is not None and row.match.bound is not None
    ]
    bounds += [
        Bound(
            f"how far the answers are apart: {row.match.what}",
            row.apart,
            row.match.within,
            least=False,
        )
        for row in rows
        if row.apart is not None and row.match.within is not None
    ]
    table = markdown_table(HEAD, [row.cells() for row in rows])
    return Section("Peers", bounds, "\n\n".join([table, *said]))
