"""Weighted e-detector: literal loop, martingale under the hypothesis, Ville's bound, delays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.monitor.e_detector import DetectorSettings, DetectorState, restart, update

ROW = DetectorSettings(level=0.8, alpha=0.05, form="row")
BATCH = DetectorSettings(level=0.8, alpha=0.05)


def run(settings: DetectorSettings, batches: list[tuple[int, float]]) -> list[DetectorState]:
    states = [DetectorState.start(settings)]
    for n, total in batches:
        states.append(update(settings, states[-1], n=n, total=total))
    return states


def literal_row_evidence(batches: list[list[int]], level: float) -> list[float]:
    """Return M after each batch: the mixture over start times and alternatives, row by row."""
    alternatives = [
        level - 0.002 * (0.3 / 0.002) ** (j / 23) for j in range(24)
        if 0.002 * (0.3 / 0.002) ** (j / 23) < 0.99 * level
    ]  # fmt: skip
    evidence = []
    for t in range(1, len(batches) + 1):
        total = 1 - sum(1 / (s * (s + 1)) for s in range(1, t + 1))
        for start in range(1, t + 1):
            for q in alternatives:
                ratio = 1.0
                for batch in batches[start - 1 : t]:
                    for score in batch:
                        ratio *= q / level if score else (1 - q) / (1 - level)
                total += ratio / (start * (start + 1)) / len(alternatives)
        evidence.append(total)
    return evidence


def literal_batch_evidence(means: list[float], n: int, settings: DetectorSettings) -> list[float]:
    """Return M after each batch beyond the burn-in, with s from the means of all earlier ones."""
    steps = [0.1 * 60 ** (j / 15) for j in range(16)]
    floor = math.sqrt(settings.level * (1 - settings.level) / n)
    ratios: list[list[float]] = []
    evidence = []
    for j in range(settings.burn_in, len(means)):
        s = max(float(np.std(means[:j], ddof=1)), floor)
        z = (settings.level - means[j]) / s
        ratios.append([math.exp(g * z - g * g / 2) for g in steps])
        t = len(ratios)
        total = 1 / (t + 1)
        for start in range(1, t + 1):
            products = np.prod(np.array(ratios[start - 1 :]), axis=0)
            total += float(products.mean()) / (start * (start + 1))
        evidence.append(total)
    return evidence


def test_row_form_equals_a_literal_loop_over_rows() -> None:
    rng = np.random.default_rng(0)
    rows = [(rng.random(n) < 0.75).astype(int).tolist() for n in (7, 30, 1, 12, 20)]
    states = run(ROW, [(len(batch), sum(batch)) for batch in rows])
    assert [state.evidence for state in states[1:]] == pytest.approx(
        literal_row_evidence(rows, 0.8)
    )


def test_batch_form_equals_a_literal_loop_over_batches() -> None:
    rng = np.random.default_rng(1)
    means = rng.normal(0.81, 0.02, 25).tolist()
    states = run(BATCH, [(500, 500 * mean) for mean in means])
    assert [state.evidence for state in states[11:]] == pytest.approx(
        literal_batch_evidence(means, 500, BATCH)
    )
    assert all(state.evidence == 1 for state in states[:11])


def test_mean_evidence_is_one_at_the_level() -> None:
    rng = np.random.default_rng(2)
    # Few and small batches, so that the heavy tail of M is seen in the simulation.
    finals = [
        run(ROW, [(5, float(k)) for k in rng.binomial(5, 0.8, 4)])[-1].evidence for _ in range(4000)
    ]
    error = np.std(finals) / math.sqrt(len(finals))
    assert abs(np.mean(finals) - 1) < 4 * error
    assert error < 0.02


@pytest.mark.parametrize("settings", [ROW, BATCH])
def test_alarms_at_the_level_are_rarer_than_alpha(settings: DetectorSettings) -> None:
    rng = np.random.default_rng(3)
    settings = replace(settings, alpha=0.1)
    n_streams = 150
    n_alarms = sum(
        run(settings, [(400, float(k)) for k in rng.binomial(400, 0.8, 80)])[-1].is_alarm
        for _ in range(n_streams)
    )
    # The first run has α/2 = 0.05; the bound allows for three standard errors.
    assert n_alarms / n_streams < 0.05 + 3 * math.sqrt(0.05 * 0.95 / n_streams)


@pytest.mark.parametrize("form", ["row", "batch"])
def test_delay_does_not_grow_with_the_quiet_time(form: str) -> None:
    rng = np.random.default_rng(4)
    settings = DetectorSettings(level=0.84, alpha=0.005, form=form)  # type: ignore[arg-type]
    delays = []
    for quiet in (12, 600):
        found = []
        for _ in range(9):
            totals = [*rng.binomial(1000, 0.85, quiet), *rng.binomial(1000, 0.80, 40)]
            states = run(settings, [(1000, float(total)) for total in totals])
            first = next(j for j, state in enumerate(states) if state.is_alarm)
            found.append(first - quiet)
        delays.append(float(np.median(found)))
    assert 1 <= delays[0] <= 6
    assert delays[1] <= 2 * delays[0]


def test_small_batches_are_pooled_with_the_next() -> None:
    pooled = run(BATCH, [(20, 15.0), (20, 15.0)])[-1]
    whole = run(BATCH, [(40, 30.0)])[-1]
    assert pooled == whole
    assert run(BATCH, [(20, 15.0)])[-1].n_batches == 0
    assert run(BATCH, [(20, 15.0)])[-1].pooled_rows == 20


def test_empty_batch_changes_nothing() -> None:
    start = DetectorState.start(BATCH)
    assert update(BATCH, start, n=0, total=0.0) is start


def test_extreme_batches_do_not_overflow() -> None:
    states = run(BATCH, [(10**9, 0.99 * 10**9)] * 12 + [(10**9, 0.0)] * 5)
    assert states[-1].is_alarm
    assert math.isfinite(states[-1].log_evidence)
    assert math.isfinite(states[-1].evidence)
    assert run(ROW, [(10**9, 10.0**9)])[-1].evidence < 1


def test_runs_share_the_false_alarm_rate() -> None:
    assert sum(ROW.run_alpha(run) for run in range(1, 10_000)) == pytest.approx(0.05, rel=1e-3)
    alarmed = run(ROW, [(1000, 500.0)])[-1]
    assert alarmed.is_alarm
    fresh = restart(ROW, alarmed)
    assert (fresh.run, fresh.is_alarm, fresh.evidence) == (2, False, 1.0)


def test_alarm_stays_until_the_restart() -> None:
    states = run(ROW, [(1000, 500.0)] + [(1000, 990.0)] * 5)
    assert states[-1].log_evidence < 0
    assert states[-1].is_alarm


def test_restart_keeps_the_variation_between_batches() -> None:
    state = run(BATCH, [(100, 80.0 + j) for j in range(12)])[-1]
    assert restart(BATCH, state).between == state.between > 0


@pytest.mark.parametrize("values", [{"level": 0.0}, {"level": 1.0}, {"alpha": 0.0}, {"form": "x"}])
def test_invalid_settings_are_rejected(values: dict[str, object]) -> None:
    with pytest.raises(InputError):
        DetectorSettings(**{"level": 0.5, "alpha": 0.05, **values})  # type: ignore[arg-type]


def test_low_levels_have_alternatives_above_zero() -> None:
    for level in (0.001, 0.05, 0.5):
        q = DetectorSettings(level=level, alpha=0.05, form="row").alternatives
        assert ((q > 0) & (q < level)).all()
