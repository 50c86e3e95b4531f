"""Comparison of benchmarks with peers: results are parsed, and bounds need numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _peer_comparison
from benchmarks._peer_comparison import (
    FAILED,
    HEAD,
    NOT_INSTALLED,
    Comparison,
    Row,
    Run,
    RunResult,
    array_path,
    best_result,
    parse_result,
    run_process,
)
from benchmarks.peers import _timing
from benchmarks.speed_peers import COMPARISONS, POT, SIZES, growth

OURS, THEIRS = Run("benchmarks._own_methods", "1M x 10"), Run("benchmarks.peers.pot_cot", "1M x 10")


def result(cpu: float, value: float | list[float] = 0.5, memory: float = 100) -> RunResult:
    return RunResult(value, cpu, cpu, memory, "1.0")


def test_reported_run_is_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    n_rows: list[int] = []

    def work(arrays: _timing.Arrays) -> np.ndarray:
        n_rows.append(len(arrays["target"]))
        return np.array([0.25, 0.75], dtype=np.float32)

    print("output of a peer")
    _timing.report_run(work, {"target": np.zeros(2000)}, "2.1")
    parsed = parse_result(capsys.readouterr().out)
    assert n_rows == [_timing.WARM_UP_ROWS, 2000]
    assert (parsed.value, parsed.version) == ([0.25, 0.75], "2.1")
    assert parsed.memory > 10
    assert parsed.cpu < 5


@pytest.mark.parametrize(
    ("theirs", "min_ratio", "tolerance", "kept"),
    [
        (result(10.0), 10.0, None, True),
        (result(9.9), 10.0, None, False),
        (result(10.0, value=0.6), 10.0, 0.01, False),
        (result(1.0, value=0.505), None, 0.01, True),
        (result(1.0, value=0.6), None, None, None),
        (NOT_INSTALLED, 10.0, 0.01, None),
        (FAILED, 10.0, None, None),
    ],
)
def test_bounds_are_kept_only_by_numbers(
    theirs: RunResult | str, min_ratio: float | None, tolerance: float | None, kept: bool | None
) -> None:
    row = Row(Comparison("a / b", OURS, THEIRS, min_ratio, tolerance), result(1.0), theirs)
    cells = dict(zip(HEAD, row.cells(), strict=True))
    assert row.is_kept is kept
    assert cells["kept"] == {True: "yes", False: "NO", None: "–"}[kept]
    assert cells["theirs CPU s"] == (theirs if isinstance(theirs, str) else f"{theirs.cpu:.3f}")


def test_shares_are_compared_by_the_largest_difference() -> None:
    comparison = Comparison("a / b", OURS, THEIRS)
    row = Row(comparison, result(1.0, [0.5, 0.5]), result(3.0, [0.52, 0.48]))
    assert row.cells()[-1] == "2 shares, at most 2e-02 apart"
    assert row.cells()[4] == "3.0"


def test_least_time_and_largest_memory_are_reported() -> None:
    best = best_result([result(2.0, memory=50), result(1.0, memory=40)])
    assert isinstance(best, RunResult)
    assert (best.cpu, best.memory) == (1.0, 50)
    assert best_result([result(1.0), FAILED]) == FAILED


def test_missing_and_failing_peers_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_peer_comparison, "PEER_PYTHON", tmp_path / "python")
    assert run_process(THEIRS, tmp_path) == NOT_INSTALLED
    # An interpreter without POT, and a file that does not exist.
    monkeypatch.setattr(_peer_comparison, "PEER_PYTHON", Path(sys.executable))
    assert run_process(THEIRS, tmp_path) == FAILED
    assert "Error" in capsys.readouterr().err


def test_run_in_a_process_returns_its_result(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 600).astype(np.float32)
    labels = rng.integers(0, 3, 600)
    np.savez(array_path(tmp_path, "600 x 3"), source=probs, labels=labels, target=probs)
    values = []
    for name in ("atc", "atc-loop"):
        process_result = run_process(Run("benchmarks._own_methods", "600 x 3", (name,)), tmp_path)
        assert isinstance(process_result, RunResult)
        values.append(process_result.value)
    assert values[0] == pytest.approx(values[1], abs=0.01)


def test_growth_is_fitted_to_the_times() -> None:
    results: dict[Run, RunResult | str] = {
        Run(POT, name, ("classes",)): result(1e-9 * SIZES[name] ** 2)
        for name in ("25,000 x 10", "50,000 x 10", "100,000 x 10")
    }
    (note,) = growth(results)
    assert "exponent 2.00" in note
    assert "17 minutes" in note
    assert growth({**results, Run(POT, "1M x 10", ("classes",)): NOT_INSTALLED}) == []


def test_both_sides_of_a_comparison_use_the_same_arrays_and_repetitions() -> None:
    for comparison in COMPARISONS:
        assert comparison.ours.rounds == comparison.theirs.rounds
        assert comparison.ours.arrays == comparison.theirs.arrays


def test_peers_are_pinned_and_install_neither_cuda_nor_this_package() -> None:
    lines = (Path(_timing.__file__).parent / "requirements.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {"nannyml", "POT", "QuaPy"} <= versions.keys()
    unwanted = ("nvidia", "torch", "oodometer")
    assert not any(word in json.dumps(versions).lower() for word in unwanted)
