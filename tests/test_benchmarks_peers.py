"""What benchmarks say of peers: read as it was told, kept only where there is a number."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _matches
from benchmarks._matches import (
    ABSENT,
    FAILED,
    HEAD,
    Match,
    Row,
    Run,
    Took,
    best,
    done,
    path_of,
    read,
)
from benchmarks.peers import _took
from benchmarks.speed_peers import MATCHES, POT, SIZES, growth

OURS, THEIRS = Run("benchmarks._ours", "1M x 10"), Run("benchmarks.peers.pot_cot", "1M x 10")


def took(cpu: float, value: float | list[float] = 0.5, memory: float = 100) -> Took:
    return Took(value, cpu, cpu, memory, "1.0")


def test_what_is_told_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []

    def work(given: _took.Arrays) -> np.ndarray:
        seen.append(len(given["target"]))
        return np.array([0.25, 0.75], dtype=np.float32)

    print("a peer may talk")
    _took.told(work, {"target": np.zeros(2000)}, "2.1")
    found = read(capsys.readouterr().out)
    assert seen == [_took.WARM_ROWS, 2000]
    assert (found.value, found.version) == ([0.25, 0.75], "2.1")
    assert found.memory > 10
    assert found.cpu < 5


@pytest.mark.parametrize(
    ("theirs", "bound", "within", "kept"),
    [
        (took(10.0), 10.0, None, True),
        (took(9.9), 10.0, None, False),
        (took(10.0, value=0.6), 10.0, 0.01, False),
        (took(1.0, value=0.505), None, 0.01, True),
        (took(1.0, value=0.6), None, None, None),
        (ABSENT, 10.0, 0.01, None),
        (FAILED, 10.0, None, None),
    ],
)
def test_a_row_is_kept_only_by_numbers(
    theirs: Took | str, bound: float | None, within: float | None, kept: bool | None
) -> None:
    row = Row(Match("a / b", OURS, THEIRS, bound, within), took(1.0), theirs)
    cells = dict(zip(HEAD, row.cells(), strict=True))
    assert row.kept is kept
    assert cells["kept"] == {True: "yes", False: "NO", None: "–"}[kept]
    assert cells["theirs CPU s"] == (theirs if isinstance(theirs, str) else f"{theirs.cpu:.3f}")


def test_shares_are_compared_by_the_largest_difference() -> None:
    row = Row(Match("a / b", OURS, THEIRS), took(1.0, [0.5, 0.5]), took(3.0, [0.52, 0.48]))
    assert row.cells()[-1] == "2 shares, at most 2e-02 apart"
    assert row.cells()[4] == "3.0"


def test_the_least_time_and_the_most_memory_count() -> None:
    found = best([took(2.0, memory=50), took(1.0, memory=40)])
    assert isinstance(found, Took)
    assert (found.cpu, found.memory) == (1.0, 50)
    assert best([took(1.0), FAILED]) == FAILED


def test_an_absent_peer_is_said_to_be_and_one_that_fails_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_matches, "PEERS", tmp_path / "python")
    assert done(THEIRS, tmp_path) == ABSENT
    # As an interpreter that has no POT, or no such file.
    monkeypatch.setattr(_matches, "PEERS", Path(sys.executable))
    assert done(THEIRS, tmp_path) == FAILED
    assert "Error" in capsys.readouterr().err


def test_a_process_of_its_own_says_what_it_took(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 600).astype(np.float32)
    labels = rng.integers(0, 3, 600)
    np.savez(path_of(tmp_path, "600 x 3"), source=probs, labels=labels, target=probs)
    values = []
    for name in ("atc", "atc-loop"):
        found = done(Run("benchmarks._ours", "600 x 3", (name,)), tmp_path)
        assert isinstance(found, Took)
        values.append(found.value)
    assert values[0] == pytest.approx(values[1], abs=0.01)


def test_growth_is_that_of_the_times() -> None:
    found: dict[Run, Took | str] = {
        Run(POT, name, ("classes",)): took(1e-9 * SIZES[name] ** 2)
        for name in ("25,000 x 10", "50,000 x 10", "100,000 x 10")
    }
    (said,) = growth(found)
    assert "with the power 2.00" in said
    assert "17 minutes" in said
    assert growth({**found, Run(POT, "1M x 10", ("classes",)): ABSENT}) == []


def test_both_sides_of_a_match_are_run_as_often_and_on_the_same_arrays() -> None:
    for match in MATCHES:
        assert match.ours.rounds == match.theirs.rounds
        assert match.ours.arrays == match.theirs.arrays


def test_peers_are_pinned_and_bring_neither_cuda_nor_ours() -> None:
    listed = (Path(_took.__file__).parent / "requirements.txt").read_text().splitlines()
    names = dict(one.split("==") for one in listed if one and not one.startswith("#"))
    assert {"nannyml", "POT", "QuaPy"} <= names.keys()
    assert not any(word in json.dumps(names).lower() for word in ("nvidia", "torch", "oodometer"))
