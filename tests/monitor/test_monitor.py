"""Monitor: batches, alarms, order of arrival and time, segments, labels, audits."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oodometer import InputError, Monitor, Predictions
from oodometer.data import batch_reader
from oodometer.monitor.store import AUDIT, SEGMENT_PREFIX
from tests.monitor.conftest import draw, write_batch


def add_quiet(monitor: Monitor, n: int = 12, rows: int = 500) -> None:
    for seed in range(n):
        monitor.add(draw(rows, seed))


def add_shifted(monitor: Monitor, n: int = 8, rows: int = 500) -> None:
    for seed in range(n):
        monitor.add(draw(rows, 500 + seed, shift=1.5))


# Alarms ------------------------------------------------------------------------------------------


def test_state_is_cannot_tell_then_quiet_then_alarm(monitor: Monitor) -> None:
    assert monitor.status().state == "cannot tell"
    assert monitor.status().latest is None
    add_quiet(monitor, 10)
    status = monitor.status()
    assert (status.state, status.exit_code) == ("cannot tell", 3)
    assert "10 batches" in status.reason
    monitor.add(draw(500, 11))
    assert (monitor.status().state, monitor.status().exit_code) == ("quiet", 0)
    add_shifted(monitor)
    status = monitor.status()
    assert (status.state, status.exit_code) == ("alarm", 1)
    assert status.evidence >= status.limit == 400
    assert status.reason.count("\n") == 0
    assert f"below {100 * status.level:.1f} %" in status.reason
    assert "at most 1 %" in status.promise


def test_acknowledged_alarm_restarts_with_a_smaller_share(monitor: Monitor) -> None:
    add_quiet(monitor)
    add_shifted(monitor)
    assert monitor.acknowledge() == 1
    status = monitor.status()
    assert (status.state, status.limit) == ("cannot tell", 1200)
    assert [alarm.acknowledged is not None for alarm in status.alarms] == [True]
    assert monitor.acknowledge() == 0
    for seed in range(20):
        monitor.add(draw(500, 700 + seed, shift=1.5))
    assert [alarm.run for alarm in monitor.status().alarms] == [1, 2]


def test_row_form_needs_no_burn_in(source: Predictions, tmp_path: Path) -> None:
    monitor = Monitor.create(tmp_path, source, form="row")
    add_shifted(monitor, 2)
    assert monitor.status().state == "alarm"
    with pytest.raises(InputError, match="score='atc'"):
        Monitor.create(tmp_path / "other", source, form="row", score="confidence")


def test_same_content_is_counted_once(monitor: Monitor, tmp_path: Path) -> None:
    path = write_batch(tmp_path / "a.parquet", draw(500, 1))
    first = monitor.add(path)
    renamed = write_batch(tmp_path / "b.parquet", draw(500, 1), extra=np.arange(500))
    again = monitor.add(renamed)
    assert (first.is_new, again.is_new) == (True, False)
    assert (again.number, again.name) == (1, "a.parquet")
    assert monitor.status().n_rows == 500
    other = monitor.add(draw(500, 1, ids=True))
    assert other.is_new  # rows with other ids are other rows


def test_small_batches_wait_for_the_next(monitor: Monitor) -> None:
    for seed in range(24):
        monitor.add(draw(15, seed))
    state = monitor._store.streams()["all rows"].state
    assert (state.n_batches, state.n_bets, state.pooled_rows) == (12, 2, 0)


# Time --------------------------------------------------------------------------------------------


def test_bets_follow_arrival_and_display_follows_time(source: Predictions, tmp_path: Path) -> None:
    batches = {f"2026-01-{day:02d}": draw(400, day) for day in range(1, 16)}
    by_time = Monitor.create(tmp_path / "a", source)
    by_arrival = Monitor.create(tmp_path / "b", source)
    late = ["2026-01-03"]
    for day in batches:
        by_time.add(batches[day], time=day)
    for day in [day for day in batches if day not in late] + late:
        by_arrival.add(batches[day], time=day)
    assert [batch.time for batch in by_arrival.batches()] == list(batches)
    assert [batch.estimate for batch in by_arrival.batches()] == [
        batch.estimate for batch in by_time.batches()
    ]
    assert by_arrival.status().evidence != by_time.status().evidence
    latest = by_arrival.status().latest
    assert latest is not None
    assert (latest.time, latest.number) == ("2026-01-15", 14)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-03-01 12:30", "2026-03-01T12:30"),
        (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-01T12:00:00"),
        (None, "2026-02-28"),
    ],
)
def test_times(monitor: Monitor, time: object, expected: str) -> None:
    assert monitor.add(draw(100, 1), name="scores-2026-02-28.csv", time=time).time == expected


def test_invalid_time_is_rejected(monitor: Monitor) -> None:
    with pytest.raises(InputError, match="time must be a date"):
        monitor.add(draw(100, 1), time="yesterday")
    assert monitor.status().n_batches == 0


def test_periods_of_one_file(monitor: Monitor, tmp_path: Path) -> None:
    times = np.array("2026-01-01", dtype="datetime64[D]") + np.arange(600) // 10
    rows = draw(600, 1)
    path = write_batch(tmp_path / "year.parquet", rows, ts=times)
    added = monitor.add_periods(path, time_column="ts", period="month")
    assert [(each.time, each.n) for each in added] == [("2026-01", 310), ("2026-02", 280),
                                                       ("2026-03", 10)]  # fmt: skip
    january = monitor.add(rows.rows(slice(310)))
    assert not january.is_new
    assert not any(
        each.is_new for each in monitor.add_periods(path, time_column="ts", period="month")
    )
    longer = write_batch(tmp_path / "longer.parquet", draw(700, 1),
                         ts=np.append(times, times[-1:].repeat(100)))  # fmt: skip
    with pytest.raises(InputError, match="when it is complete"):
        monitor.add_periods(longer, time_column="ts", period="month")


# Files -------------------------------------------------------------------------------------------


def test_files_in_parts_equal_arrays(
    source: Predictions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = draw(3000, 5, ids=True)
    sites = np.array(["north", "south", "west"])[np.arange(3000) % 3]
    path = write_batch(tmp_path / "batch.parquet", rows, site=sites)
    whole = Monitor.create(tmp_path / "whole", source)
    parts = Monitor.create(tmp_path / "parts", source)
    in_memory = Monitor.create(tmp_path / "memory", source)
    in_memory.add(rows, segment_by=sites)
    whole.add(path, segment_by="site")
    monkeypatch.setattr(batch_reader, "MAX_WHOLE_FILE_BYTES", 1)
    monkeypatch.setattr(batch_reader, "MAX_BATCH_ROWS", 128)
    parts.add(path, segment_by="site")
    tables = ("SELECT hash, n, audit_rows, sums, sample FROM batches", "SELECT * FROM segments")
    for query in tables:
        results = [
            [tuple(row) for row in each._store.rows(query)] for each in (whole, parts, in_memory)
        ]
        if "hash" in query:
            assert len({row[0][:3] for row in results}) == 1
            assert results[0][0][4] == results[1][0][4] == results[2][0][4]
        else:
            for other in results[1:]:
                assert [row[:3] for row in other] == [row[:3] for row in results[0]]
    values = [each.batches()[0] for each in (whole, parts, in_memory)]
    for each in values[1:]:
        assert each.estimate == values[0].estimate
        assert each.low == pytest.approx(values[0].low, abs=1e-12)
    assert whole.status().evidence == parts.status().evidence


def test_batch_with_other_classes_is_rejected(monitor: Monitor) -> None:
    with pytest.raises(InputError, match="3"):
        monitor.add(Predictions.from_probs(np.full((50, 3), 1 / 3)))
    assert monitor.status().n_batches == 0


# Segments ----------------------------------------------------------------------------------------


def test_segments_have_detectors_and_share_the_rate(tmp_path: Path) -> None:
    source = draw(6000, 1, labelled=True)
    sites = np.array(["north", "south"])[np.arange(6000) % 2]
    sites[:5] = "rare"
    monitor = Monitor.create(tmp_path, source, segment_by=sites)
    streams = monitor._store.streams()
    assert set(streams) == {"all rows", SEGMENT_PREFIX + "north", SEGMENT_PREFIX + "south", AUDIT}
    assert streams["all rows"].settings.alpha == pytest.approx(0.01 / 3 / 2)
    for seed in range(25):
        north, south = draw(400, seed), draw(400, 100 + seed, shift=1.5 if seed >= 13 else 0.0)
        assert north.scores is not None
        assert south.scores is not None
        rows = Predictions.from_probs(np.vstack([north.scores, south.scores]))
        monitor.add(rows, segment_by=["north"] * 400 + ["south"] * 400)
    status = monitor.status()
    assert [segment.name for segment in status.segments] == ["south", "north"]
    assert [segment.is_alarm for segment in status.segments] == [True, False]
    assert {alarm.stream for alarm in status.alarms} >= {SEGMENT_PREFIX + "south"}
    assert SEGMENT_PREFIX + "north" not in {alarm.stream for alarm in status.alarms}


def test_segments_without_source_rows_have_estimates_only(monitor: Monitor) -> None:
    monitor.add(draw(100, 1), segment_by=["x"] * 40 + ["y"] * 60)
    segments = monitor.status().segments
    assert {(each.name, each.n, each.evidence) for each in segments} == {
        ("x", 40, None), ("y", 60, None)
    }  # fmt: skip


# Labels and audits -------------------------------------------------------------------------------


def truth(seed: int, n: int, shift: float = 0.0) -> Predictions:
    return draw(n, seed, shift=shift, labelled=True)


def test_labels_give_an_estimate_and_tighten_the_typical_range(
    source: Predictions, tmp_path: Path
) -> None:
    monitor = Monitor.create(tmp_path / "m", source)
    for seed in range(6):
        path = write_batch(tmp_path / f"{seed}.parquet", truth(seed, 400))
        batch = monitor.add(path)
        assert (batch.typical_low is None) == (seed < 5)
        result = monitor.label(batch=path)
        assert result.n_labels == 400
        accuracy = float(truth(seed, 400).correct.mean())
        assert result.batches[0].label_estimate == pytest.approx(accuracy)
    last = monitor.batches()[-1]
    assert last.typical_low is not None
    assert last.typical_high is not None
    assert last.typical_low < last.estimate < last.typical_high
    assert monitor.status().n_labelled_batches == 6
    assert monitor.label(batch=path).n_labels == 0  # idempotent


def test_labels_of_sampled_rows_use_the_scores_of_all_rows(monitor: Monitor) -> None:
    rows = truth(3, 2000)
    monitor.add(rows.without_labels())
    chosen = monitor.audit(150)
    assert rows.labels is not None
    result = monitor.label({each.row: int(rows.labels[int(each.row)]) for each in chosen})
    batch = result.batches[0]
    assert (result.n_labels, result.n_audited, batch.n_labels) == (150, 150, 150)
    assert batch.label_low is not None
    assert batch.label_high is not None
    assert batch.label_low < rows.correct.mean() < batch.label_high


def test_unknown_rows_changed_batches_and_other_labels_are_rejected(
    monitor: Monitor, tmp_path: Path
) -> None:
    rows = truth(3, 1000)
    monitor.add(rows.without_labels())
    with pytest.raises(InputError, match="not one of the audited rows"):
        monitor.label({"5": 1})
    with pytest.raises(InputError, match="no batch with this content"):
        monitor.label({"5": 1}, batch=draw(1000, 4))
    with pytest.raises(InputError, match="has no row '9999'"):
        monitor.label({"9999": 1}, batch=rows)
    monitor.label({"5": 1}, batch=rows)
    with pytest.raises(InputError, match="already has another label"):
        monitor.label({"5": 0}, batch=rows)
    with pytest.raises(InputError, match="Pass labels"):
        monitor.label()


def test_audit_share_is_raised_with_the_evidence(monitor: Monitor) -> None:
    add_quiet(monitor, 11, rows=250)
    assert monitor.status().audit.share == 0.01
    # 1 % of 250 rows is 2.5: fractions are carried to the next batch.
    per_batch = Counter(each.batch for each in monitor.audit())
    assert [per_batch[number] for number in range(1, 12)] == [2, 3] * 5 + [2]
    for seed in range(8):
        monitor.add(draw(250, 500 + seed, shift=2.0))
    assert monitor.status().audit.share == 0.1
    per_batch = Counter(each.batch for each in monitor.audit())
    assert per_batch[19] == 25


def test_audit_rows_are_repeated_until_they_are_labelled(monitor: Monitor) -> None:
    rows = truth(3, 1000)
    monitor.add(rows.without_labels())
    first = monitor.audit(20)
    assert monitor.audit(20) == first
    assert len({each.row for each in first}) == 20
    assert rows.labels is not None
    monitor.label({each.row: int(rows.labels[int(each.row)]) for each in first[:15]})
    second = monitor.audit(20)
    assert second[:5] != first[:5]
    assert not {each.row for each in first[:15]} & {each.row for each in second}


def test_audited_labels_find_concept_drift(source: Predictions, tmp_path: Path) -> None:
    monitor = Monitor.create(tmp_path, source, audit_shares=(0.1, 0.1))
    rng = np.random.default_rng(0)
    for seed in range(16):
        rows = truth(seed, 500)
        monitor.add(rows.without_labels())
        chosen = monitor.audit(50)
        # Labels are random from batch 6 on, while the scores stay the same.
        assert rows.labels is not None
        labels = rows.labels if seed < 6 else rng.integers(0, 2, 500)
        table = pd.DataFrame(
            [(each.batch, each.row, labels[int(each.row)]) for each in chosen],
            columns=["batch", "row", "label"],
        )
        monitor.label(table)
    status = monitor.status()
    assert status.audit.is_alarm
    assert {alarm.stream for alarm in status.alarms} == {AUDIT}
    assert status.alarms[0].batch > 6
    assert "accuracy of audited rows" in status.reason


def test_labels_that_were_not_drawn_do_not_feed_the_audit(monitor: Monitor) -> None:
    rows = truth(3, 500)
    monitor.add(rows.without_labels())
    result = monitor.label({str(row): 0 for row in range(100)}, batch=rows)
    assert (result.n_labels, result.n_audited) == (100, 0)
    assert monitor.status().audit.evidence == 1


def test_ids_identify_rows(monitor: Monitor) -> None:
    rows = draw(300, 3, ids=True)
    monitor.add(rows)
    chosen = monitor.audit(3)
    assert all(each.row.startswith("r3-") for each in chosen)
    assert monitor.label({each.row: 1 for each in chosen}).n_audited == 3


# Forgetting --------------------------------------------------------------------------------------


def test_forgetting_does_not_undo_a_bet(monitor: Monitor) -> None:
    add_quiet(monitor)
    evidence = monitor.status().evidence
    monitor.forget(12)
    assert monitor.status().evidence == evidence
    assert len(monitor.batches()) == 11
    assert not monitor.add(draw(500, 11)).is_new
    assert monitor.status().evidence == evidence
    monitor.forget("12")
    with pytest.raises(InputError, match="no batch 13"):
        monitor.forget(13)


def test_names_identify_batches_if_they_are_unique(monitor: Monitor) -> None:
    monitor.add(draw(100, 1), name="a")
    monitor.add(draw(100, 2), name="a")
    monitor.add(draw(100, 3), name="b")
    with pytest.raises(InputError, match="2 batches are named 'a'"):
        monitor.forget("a")
    monitor.forget("b")
    assert [batch.number for batch in monitor.batches()] == [1, 2]
