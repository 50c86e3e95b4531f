"""Monitor: accuracy of a model over time without labels, with a bound on false alarms.

Batches are reduced to sums when they arrive, and one bet per batch is placed on each stream (all rows,
each segment of the source, audited labels). Bets are placed in the order of arrival; results are shown
in the order of time.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oodometer.assessment.conformal_interval import History, ShiftInterval
from oodometer.assessment.learned_reference import SourceRows
from oodometer.assessment.ppi import MIN_LABELS
from oodometer.assessment.prediction_inputs import is_frame, segment_columns
from oodometer.assessment.reference import Reference
from oodometer.assessment.segments import PERIOD_UNITS, group_rows
from oodometer.assessment.source_files import read_source, whole_source
from oodometer.core.array_types import Array, Ints
from oodometer.core.calibration import CalibrationMethod
from oodometer.core.errors import InputError, UnknownName, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.monitor import e_detector, learned_codec
from oodometer.monitor.audits import AuditRow, choose_rows, is_raised
from oodometer.monitor.baseline import MIN_SOURCE_ROWS, Baseline
from oodometer.monitor.batch_sums import BatchColumns, BatchSums, read_chunks, sum_batches
from oodometer.monitor.e_detector import DetectorForm, DetectorState
from oodometer.monitor.label_input import read_labels
from oodometer.monitor.labels import (
    estimate_from_labels,
    find_rows_of_batch,
    find_sampled_rows,
    insert_labels,
    label_history,
)
from oodometer.monitor.learned_scores import LearnedScores, ScoreName, source_scores
from oodometer.monitor.status import (
    Alarm,
    AuditStatus,
    MonitoredBatch,
    MonitorStatus,
    SegmentStatus,
    StateName,
)
from oodometer.monitor.store import (
    ALL_ROWS,
    AUDIT,
    SEGMENT_PREFIX,
    STORE_FILE,
    WRITE_TIMEOUT,
    MonitorStore,
    Stream,
    insert_stream,
    now,
    write_bet,
    write_state,
)

# Columns of `MonitoredBatch` that are columns of the table of batches.
BATCH_QUERY = """SELECT b.number, b.name, b.time, b.arrived, b.n, b.estimate, b.low, b.high,
b.log_evidence, b.estimates, l.value AS label_estimate, l.low AS label_low, l.high AS label_high,
COALESCE(l.n, 0) AS n_labels FROM batches b LEFT JOIN label_estimates l ON l.batch = b.number
WHERE NOT b.forgotten"""
_DATE_IN_NAME = re.compile(r"(?<!\d)(\d{4}-\d{2}(?:-\d{2})?)(?!\d)")


@dataclass(frozen=True)
class LabelResult:
    """Result of `Monitor.label`.

    Parameters
    ----------
    n_labels, n_audited : int
        Number of new labels, and how many of them are of audited rows.
    batches : tuple of MonitoredBatch
        Batches of the labelled rows.
    """

    n_labels: int
    n_audited: int
    batches: tuple[MonitoredBatch, ...]


class Monitor:
    """Accuracy of a classifier over time, without labels and with a bound on false alarms.

    A monitor is a folder with one SQLite file. `create` learns from a labelled source and fixes the
    watched score, its level m0, the margin and the false-alarm rate. `add` stores the sums and a random
    sample of 200 rows of each batch and updates a weighted e-detector. If new batches come from the
    source distribution, the probability of ever raising an alarm is at most `false_alarms`, however
    often one looks.

    Use `Monitor.create` or `Monitor.open`, not the constructor.

    Parameters
    ----------
    store : MonitorStore
        Opened store.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def draw(n, shift=0.0):
    ...     second = 1 / (1 + np.exp(-rng.normal(1.5 - shift, 1.5, n)))
    ...     return np.stack([1 - second, second], axis=1)
    >>> probs = draw(4000)
    >>> labels = (rng.random(4000) < probs[:, 1]).astype(int)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     monitor = Monitor.create(folder, Predictions.from_probs(probs, labels=labels))
    ...     for day in range(20):
    ...         _ = monitor.add(draw(500), name=f"day {day}")
    ...     quiet = monitor.status().state
    ...     for day in range(20, 26):
    ...         _ = monitor.add(draw(500, shift=1.0), name=f"day {day}")
    ...     quiet, monitor.status().state
    ('quiet', 'alarm')
    """

    def __init__(self, store: MonitorStore) -> None:
        self._store = store

    # Creation -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        folder: str | Path,
        source: Any,
        *,
        alarm_margin: float = 0.01,
        false_alarms: float = 0.01,
        score: ScoreName = "atc",
        form: DetectorForm = "batch",
        segment_by: Any = None,
        audit_shares: tuple[float, float] = (0.01, 0.1),
        temperature: float | Literal["fit"] | None = "fit",
        calibration: CalibrationMethod = "auto",
        columns: PredictionColumns | None = None,
        keep_rows: bool = False,
        exist_ok: bool = False,
        seed: int = 0,
        timeout: float = WRITE_TIMEOUT,
    ) -> Monitor:
        """Create a monitor in a folder from a labelled source.

        Parameters
        ----------
        folder : str or Path
            Folder of the monitor; it must not contain a monitor yet.
        source : Predictions, path, data frame or arrays
            Predictions on labelled held-out data; see `oodometer.estimate`.
        alarm_margin : float
            Fall of the mean score that is tolerated, as a fraction.
        false_alarms : float
            Largest probability of ever raising an alarm if nothing changes.
        score : {"atc", "confidence"}
            Watched score: ATC's indicator, or the calibrated confidence.
        form : {"batch", "row"}
            Form of the test. "row" is exact for independent rows and needs the score "atc".
        segment_by : str, list of str, or array, optional
            Columns of the source, or one value per row. Each value with at least 30 source rows has a
            detector of its own; the false-alarm rate is divided by the number of detectors.
        audit_shares : tuple of float
            Shares of the rows of a batch to label: normally, and while the evidence is at least
            1/√α.
        temperature, calibration
            See `oodometer.estimate`.
        columns : PredictionColumns, optional
            Names of the columns of source and batches.
        keep_rows : bool
            Also store the rows of the source, for `Monitor.reference`.
        exist_ok : bool
            Open a monitor that was created before with the same source and settings.
        seed : int
            Random seed.
        timeout : float
            Seconds to wait for another process that writes.

        Returns
        -------
        Monitor
            The new monitor.

        Raises
        ------
        InputError
            If the folder already has a monitor, or an argument is not valid.
        """
        _check_options(score, form, audit_shares)
        columns = columns or PredictionColumns()
        names = segment_columns(segment_by)
        rows = _open_source(source, columns, names, seed)
        reference = Reference(
            rows,
            temperature=temperature,
            calibration=calibration,
            segment_by=segment_by,
            seed=seed,
        )
        learned = reference.learned(target_has_probs=True)
        scores = LearnedScores.learn(learned, score, seed=seed, replicates=reference.replicates)
        watched = source_scores(learned.source, scores)
        streams = _make_streams(
            watched,
            learned.source.predictions.correct,
            reference.segment_by,
            margin=alarm_margin,
            alpha=false_alarms,
            form=form,
        )
        settings = {
            "score": score,
            "form": form,
            "alarm_margin": alarm_margin,
            "false_alarms": false_alarms,
            "segment_by": names,
            "audit_shares": audit_shares,
            "columns": asdict(columns),
            "seed": seed,
            "n_source": reference.source.n,
            "source_accuracy": float(reference.source.correct.mean()),
        }

        def write(connection: sqlite3.Connection) -> None:
            for stream in streams:
                insert_stream(connection, stream)
            _insert_blob(connection, "learned", scores.to_bytes())
            if keep_rows:
                _insert_blob(connection, "source rows", _encode_rows(reference.source))
            for key, value in (("settings", settings), ("audit carry", 0.0)):
                connection.execute("INSERT INTO meta VALUES (?, ?)", (key, json.dumps(value)))

        if exist_ok and (Path(folder) / STORE_FILE).is_file():
            return cls.open(folder, timeout=timeout)._check_same(settings, scores)
        return cls(MonitorStore.create(Path(folder), write, timeout=timeout))

    def _check_same(self, settings: dict[str, Any], scores: LearnedScores) -> Monitor:
        """Return this monitor if it was created with the same settings and source, else raise."""
        if self.settings != json.loads(json.dumps(settings)) or (
            self._store.blob("learned") != scores.to_bytes()
        ):
            raise InputError(
                f"The monitor in {str(self.folder)!r} was created from another source or with other "
                "settings. Use the same ones, or create a new monitor in another folder."
            )
        return self

    @classmethod
    def open(cls, folder: str | Path, *, timeout: float = WRITE_TIMEOUT) -> Monitor:
        """Open the monitor in a folder.

        Raises
        ------
        InputError
            If there is no monitor, or another version of oodometer wrote it.
        """
        return cls(MonitorStore(Path(folder), timeout=timeout))

    def close(self) -> None:
        """Close the file of the monitor."""
        self._store.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Return the folder of the monitor."""
        return self._store.folder

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return the settings that were fixed when the monitor was created."""
        return dict(self._store.setting("settings"))

    @cached_property
    def learned(self) -> LearnedScores:
        """Return what was learned from the source."""
        return LearnedScores.from_bytes(self._store.blob("learned"))

    @property
    def baseline(self) -> Baseline:
        """Return the baseline of all rows, with the cost of the size of the source."""
        return Baseline(**self._store.streams()[ALL_ROWS].baseline)

    @cached_property
    def columns(self) -> PredictionColumns:
        """Return the names of columns that were given when the monitor was created."""
        values = self.settings["columns"]
        for name in ("class_names", "thresholds"):
            values[name] = None if values[name] is None else tuple(values[name])
        return PredictionColumns(**values)

    def reference(self) -> Reference:
        """Return the source for further estimates; it needs a monitor with `keep_rows`.

        Raises
        ------
        InputError
            If the rows of the source were not kept.
        """
        if self._store.row("SELECT 1 FROM blobs WHERE name = 'source rows'") is None:
            raise InputError(
                "The monitor does not have the rows of the source. Create it with keep_rows=True "
                "(--keep-rows)."
            )
        return Reference(_decode_rows(self._store.blob("source rows")), seed=self.settings["seed"])

    # Batches ------------------------------------------------------------------------------------

    def add(
        self, batch: Any, *, name: str | None = None, time: Any = None, segment_by: Any = None
    ) -> MonitoredBatch:
        """Add a batch; a batch with the same content is not counted again.

        Parameters
        ----------
        batch : path, data frame, Predictions or array of probabilities
            Predictions on new data. Large files are read in parts.
        name : str, optional
            Name of the batch; by default the name of the file.
        time : str, date or datetime, optional
            Time of the batch; by default the date in the name, if there is one.
        segment_by : str, list of str, or array, optional
            Segment column of the table, or one value per row. By default the columns of the source's
            segments.

        Returns
        -------
        MonitoredBatch
            Estimate and evidence; `is_new` is False if the monitor already has this batch.

        Raises
        ------
        InputError
            If the batch does not match the source, or another process writes for too long.
        """
        columns, segments = self._batch_columns(batch, segment_by)
        sums = sum_batches(read_chunks(batch, columns, segments), self.learned)[""]
        name = name or (Path(batch).name if isinstance(batch, str | Path) else "")
        return self._commit(sums, name, _as_time(time, name))

    def add_periods(
        self, batch: Any, *, time_column: str, period: str = "day", segment_by: Any = None
    ) -> list[MonitoredBatch]:
        """Add each period of a table as a batch, in the order of time.

        Parameters
        ----------
        batch : path or data frame
            Predictions with a column of times.
        time_column : str
            Column of times.
        period : {"hour", "day", "week", "month"}
            Length of a batch.
        segment_by : str or list of str, optional
            Segment columns of the table.

        Returns
        -------
        list of MonitoredBatch
            One batch per period.

        Raises
        ------
        InputError
            If a period was added before with other rows: it was not complete then.
        """
        if period not in PERIOD_UNITS:
            raise UnknownName("period", period, PERIOD_UNITS)
        columns, segments = self._batch_columns(batch, segment_by)
        columns = replace(columns, time_column=time_column)
        batches = sum_batches(read_chunks(batch, columns, segments), self.learned, period=period)
        for key, sums in batches.items():
            known = self._store.row(
                "SELECT 1 FROM batches WHERE name = ? AND hash != ?", key, sums.content_hash
            )
            if known is not None:
                raise InputError(
                    f"The {period} {key} was added before with other rows. Add a period when it is "
                    "complete; a bet cannot be taken back."
                )
        return [self._commit(sums, key, key) for key, sums in batches.items()]

    def _batch_columns(self, batch: Any, segment_by: Any) -> tuple[BatchColumns, Any]:
        """Return the columns to read, and segment values that were given instead of columns.

        A list of texts names columns of a table; for other batches, it is one value per row.
        """
        names = segment_columns(segment_by)
        is_table = isinstance(batch, str | Path) or is_frame(batch)
        if segment_by is None:
            names = tuple(self.settings["segment_by"])
        elif not is_table and not isinstance(segment_by, str):
            names = ()
        segments = segment_by if segment_by is not None and not names else None
        return BatchColumns(predictions=self.columns, segment_by=names), segments

    def _commit(self, sums: BatchSums, name: str, time: str | None) -> MonitoredBatch:
        """Store a batch and place its bets in one transaction."""
        estimate = self.learned.estimate(sums.totals, sums.moments, sums.n)
        estimates = self.learned.estimates(sums.totals)
        with self._store.transaction() as connection:
            known = self._find("b.hash = ?", sums.content_hash, with_forgotten=True)
            if known is not None:
                return known
            streams = self._store.streams()
            states = {
                stream: self._bet(streams[stream], n, total)
                for stream, n, total in _stream_sums(sums, streams)
            }
            state = states[ALL_ROWS]
            cursor = connection.execute(
                """INSERT INTO batches (hash, name, time, arrived, n, total, squares, estimate, low,
                high, log_evidence, estimates, sums, sample, audit_rows)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    sums.content_hash,
                    name,
                    time,
                    now(),
                    sums.n,
                    sums.scores.total,
                    sums.scores.squares,
                    estimate.value,
                    estimate.low,
                    estimate.high,
                    state.log_evidence,
                    json.dumps(estimates),
                    learned_codec.encode(_compact(sums.totals)),
                    _encode_sample(sums),
                    self._audit_rows(connection, streams[ALL_ROWS], state, sums.n),
                ),
            )
            number = int(cursor.lastrowid or 0)
            for segment, each in sums.segments.items():
                segment_state = states.get(SEGMENT_PREFIX + segment)
                evidence = None if segment_state is None else segment_state.log_evidence
                connection.execute(
                    "INSERT INTO segments VALUES (?, ?, ?, ?, ?)",
                    (number, segment, each.n, each.total, evidence),
                )
            for stream, new in states.items():
                write_bet(connection, streams[stream], new, number)
            added = self._find("b.number = ?", number)
            assert added is not None
        return replace(added, is_new=True)

    @staticmethod
    def _bet(stream: Stream, n: int, total: float) -> DetectorState:
        return e_detector.update(stream.settings, stream.state, n=n, total=total)

    def _audit_rows(
        self, connection: sqlite3.Connection, stream: Stream, state: DetectorState, n: int
    ) -> int:
        """Return how many rows of a batch to label; fractions are carried to the next batch."""
        share = self._audit_share(stream, state)
        exact = float(self._store.setting("audit carry")) + share * n
        connection.execute(
            "UPDATE meta SET value = ? WHERE key = 'audit carry'", (json.dumps(exact % 1.0),)
        )
        return math.floor(exact)

    def _audit_share(self, stream: Stream, state: DetectorState) -> float:
        """Return the share of rows to label: raised while the evidence is at least 1/√α."""
        usual, raised = self.settings["audit_shares"]
        return float(raised if is_raised(stream, state) else usual)

    def batches(self) -> list[MonitoredBatch]:
        """Return all batches in the order of time; those without a time follow as they arrived."""
        history = label_history(self._store)
        order = "b.time IS NULL, b.time, b.number"
        return [
            _as_batch(row, history) for row in self._store.rows(f"{BATCH_QUERY} ORDER BY {order}")
        ]

    def segment_history(self) -> dict[str, list[tuple[int, int, float]]]:
        """Return number of the batch, rows and mean score of each segment over all batches."""
        result: dict[str, list[tuple[int, int, float]]] = {}
        query = "SELECT name, batch, n, total FROM segments ORDER BY name, batch"
        for name, batch, n, total in self._store.rows(query):
            result.setdefault(name, []).append((batch, n, total / n))
        return result

    def _find(
        self, condition: str, value: Any, *, with_forgotten: bool = False
    ) -> MonitoredBatch | None:
        query = BATCH_QUERY
        if with_forgotten:
            query = query.replace("NOT b.forgotten", "TRUE")
        row = self._store.row(f"{query} AND {condition}", value)
        return None if row is None else _as_batch(row, label_history(self._store))

    def forget(self, batch: int | str) -> None:
        """Delete the sums, the sample and the labels of a batch, given by its number or name.

        Its bet is not undone, and its content is not counted again if it is added later. A batch
        that was forgotten before is left as it is.

        Raises
        ------
        InputError
            If there is no such batch.
        """
        with self._store.transaction() as connection:
            number = self._batch_number(batch)
            connection.execute(
                "UPDATE batches SET forgotten = 1, sums = NULL, sample = NULL WHERE number = ?",
                (number,),
            )
            for table in ("segments", "labels", "label_estimates", "audits"):
                connection.execute(f"DELETE FROM {table} WHERE batch = ?", (number,))

    def _batch_number(self, batch: int | str) -> int:
        condition = "b.number = ?" if isinstance(batch, int) else "b.name = ?"
        found = self._store.rows(f"SELECT number FROM batches b WHERE {condition}", batch)
        if not found and isinstance(batch, str) and batch.isdigit():
            return self._batch_number(int(batch))
        if len(found) != 1:
            problem = "There is no batch" if not found else f"{len(found)} batches are named"
            raise InputError(f"{problem} {batch!r}. Give the number of a batch.")
        return int(found[0]["number"])

    # Labels -------------------------------------------------------------------------------------

    def audit(self, rows: int | None = None) -> list[AuditRow]:
        """Return rows to label next, drawn at random from the latest batches.

        The number of rows of each batch is the audit share of its rows, which is raised while the
        evidence is at least 1/√α. Rows that were returned before and have no label are included.

        Parameters
        ----------
        rows : int, optional
            Number of rows to return, at most what the samples have. By default all rows of the
            audit shares that have no label.

        Returns
        -------
        list of AuditRow
            Rows to label, those of the latest batch first.
        """
        if rows is not None and rows < 1:
            raise out_of_range("rows", rows, low=1)
        with self._store.transaction() as connection:
            chosen = choose_rows(self._store, self.learned, rows)
            for each in chosen:
                connection.execute(
                    "INSERT OR IGNORE INTO audits VALUES (?, ?, ?)", (each.batch, each.row, now())
                )
        return chosen

    def label(self, labels: Any = None, *, batch: Any = None) -> LabelResult:
        """Add labels of rows, which arrived later.

        The accuracy of each batch is estimated from its labels and scores (PPI++), and batches with
        at least 25 labels make the typical range of all batches tighter. Rows that `audit` returned
        also feed the test of the true accuracy.

        Parameters
        ----------
        labels : path, data frame, or mapping from row to label
            Table with the columns `row` (or `id`) and `label`, and `batch`, as `audit` returned
            them. Rows with a blank label are ignored.
        batch : path, data frame or Predictions, optional
            The batch itself, whose content must be the same as when it was added. Then any of its
            rows can be labelled, not only sampled ones. Without `labels`, its label column is read.

        Returns
        -------
        LabelResult
            Number of new labels, and the batches that they belong to.

        Raises
        ------
        InputError
            If a row is unknown, a label is not a class, or the batch was changed.
        """
        if labels is None and batch is None:
            raise InputError("Pass labels, or a batch that has labels.")
        rows = read_labels(batch if labels is None else labels, self.columns)
        if not rows:
            raise InputError("No row has a label.")
        with self._store.transaction() as connection:
            if batch is None:
                places = find_sampled_rows(self._store, rows)
            else:
                places = find_rows_of_batch(self._store, self.learned, self.columns, rows, batch)
            n_new, n_audited = insert_labels(self._store, connection, self.learned, rows, places)
            numbers = sorted({place.batch for place in places})
            for number in numbers:
                estimate_from_labels(self._store, connection, number, self.settings["seed"])
            found = [self._find("b.number = ?", number) for number in numbers]
        return LabelResult(n_new, n_audited, tuple(each for each in found if each is not None))

    # Alarms -------------------------------------------------------------------------------------

    def acknowledge(self) -> int:
        """Acknowledge all alarms and restart their detectors; return how many there were.

        The k-th run of a detector has the false-alarm rate α/(k (k + 1)), so that all runs together
        keep the promise.
        """
        with self._store.transaction() as connection:
            alarmed = [each for each in self._store.streams().values() if each.state.is_alarm]
            for stream in alarmed:
                state = e_detector.restart(stream.settings, stream.state)
                write_state(connection, stream.name, state)
            connection.execute(
                "UPDATE alarms SET acknowledged = ? WHERE acknowledged IS NULL", (now(),)
            )
        return len(alarmed)

    def status(self) -> MonitorStatus:
        """Return the state, the latest batch, the evidence, alarms, segments and audits."""
        streams = self._store.streams()
        overall = streams[ALL_ROWS]
        baseline = Baseline(**overall.baseline)
        alarms = tuple(_as_alarm(row) for row in self._store.rows("SELECT * FROM alarms"))
        state, reason = self._state(streams, [each for each in alarms if not each.acknowledged])
        latest = self._latest()
        return MonitorStatus(
            state=state,
            reason=reason,
            n_batches=self._store.count("SELECT count(*) FROM batches"),
            n_rows=self._store.count("SELECT sum(n) FROM batches"),
            level=baseline.level,
            margin=baseline.margin,
            source_mean=baseline.source_mean,
            source_accuracy=float(self.settings["source_accuracy"]),
            false_alarms=float(self.settings["false_alarms"]),
            evidence=overall.state.evidence,
            limit=1 / overall.settings.run_alpha(overall.state.run),
            latest=latest,
            alarms=alarms,
            segments=self._segments(streams),
            audit=self._audit_status(streams),
            n_labelled_batches=self._store.count(
                "SELECT count(*) FROM label_estimates WHERE n >= ?", MIN_LABELS
            ),
        )

    def _latest(self) -> MonitoredBatch | None:
        """Return the latest batch by time; if no batch has a time, the last one that arrived."""
        query = "SELECT number FROM batches WHERE NOT forgotten AND time IS NOT NULL"
        row = self._store.row(f"{query} ORDER BY time DESC, number DESC")
        if row is None:
            row = self._store.row(
                "SELECT number FROM batches WHERE NOT forgotten ORDER BY number DESC"
            )
        return None if row is None else self._find("b.number = ?", row[0])

    def _state(
        self, streams: Mapping[str, Stream], alarms: Sequence[Alarm]
    ) -> tuple[StateName, str]:
        """Return the state of the monitor, and the reason in one line."""
        if alarms:
            first = alarms[0]
            stream = streams[first.stream]
            limit = 1 / stream.settings.run_alpha(first.run)
            others = f" and {len(alarms) - 1} more" if len(alarms) > 1 else ""
            what = "accuracy of audited rows" if first.stream == AUDIT else "mean score"
            where = "" if first.stream in (ALL_ROWS, AUDIT) else f" of {first.stream}"
            return "alarm", (
                f"the {what}{where} is below {100 * stream.settings.level:.1f} %: evidence "
                f"{first.evidence:.3g} ≥ {limit:.3g} at batch {self._batch_label(first.batch)}{others}"
            )
        overall = streams[ALL_ROWS]
        if not overall.state.n_bets:
            needed = overall.settings.burn_in if overall.settings.form == "batch" else 0
            return "cannot tell", (
                f"{overall.state.n_batches} batches of at least {overall.settings.min_rows} rows "
                f"were added; the first {needed} only show how much batches vary"
            )
        limit = 1 / overall.settings.run_alpha(overall.state.run)
        return "quiet", (
            f"evidence {overall.state.evidence:.3g} of {limit:.3g} that the mean score is below "
            f"{100 * overall.settings.level:.1f} %"
        )

    def _batch_label(self, number: int) -> str:
        row = self._store.row("SELECT name, time FROM batches WHERE number = ?", number)
        label = "" if row is None else row["time"] or row["name"]
        return f"{number} ({label})" if label else str(number)

    def _segments(self, streams: Mapping[str, Stream]) -> tuple[SegmentStatus, ...]:
        """Return the segments of the latest batch that has segments, the largest drop first."""
        rows = self._store.rows(
            "SELECT * FROM segments WHERE batch = (SELECT max(batch) FROM segments)"
        )
        result = []
        for row in rows:
            stream = streams.get(SEGMENT_PREFIX + row["name"])
            mean = row["total"] / row["n"]
            drop = None if stream is None else stream.baseline["source_mean"] - mean
            estimate = (
                mean if stream is None else stream.baseline["source_accuracy"] - (drop or 0.0)
            )
            result.append(
                SegmentStatus(
                    name=row["name"],
                    n=row["n"],
                    estimate=min(max(estimate, 0.0), 1.0),
                    drop=drop,
                    evidence=None if stream is None else stream.state.evidence,
                    is_alarm=stream is not None and stream.state.is_alarm,
                )
            )
        return tuple(
            sorted(result, key=lambda each: -math.inf if each.drop is None else -each.drop)
        )

    def _audit_status(self, streams: Mapping[str, Stream]) -> AuditStatus:
        stream = streams[AUDIT]
        overall = streams[ALL_ROWS]
        query = "SELECT count(*) FROM labels WHERE audited"
        waiting = """SELECT count(*) FROM audits a LEFT JOIN labels l ON l.batch = a.batch AND
        l.row = a.row WHERE l.row IS NULL"""
        return AuditStatus(
            n_labels=self._store.count(query),
            n_correct=self._store.count(f"{query} AND correct"),
            n_waiting=self._store.count(waiting),
            share=self._audit_share(overall, overall.state),
            evidence=stream.state.evidence,
            level=stream.settings.level,
            is_alarm=stream.state.is_alarm,
        )


# Creation ----------------------------------------------------------------------------------------


def _check_options(score: str, form: str, audit_shares: tuple[float, float]) -> None:
    if form == "row" and score != "atc":
        raise InputError("form='row' needs scores of 0 or 1, that is score='atc'.")
    for share in audit_shares:
        if not 0 <= share <= 1:
            raise out_of_range("audit_shares", share, low=0, high=1)


def _open_source(source: Any, columns: PredictionColumns, names: tuple[str, ...], seed: int) -> Any:
    """Return the rows of a table with named columns; other sources unchanged."""
    if isinstance(source, SourceRows | Predictions):
        return source
    if isinstance(source, str | Path):
        return read_source(source, columns, segment_by=names, seed=seed)
    if is_frame(source):
        return whole_source(ScoreFile.from_frame(source, "source"), columns, names)
    return source


def _make_streams(
    scores: Array,
    correct: Array,
    segments: Array | None,
    *,
    margin: float,
    alpha: float,
    form: DetectorForm,
) -> list[Stream]:
    """Return the streams: all rows, each segment with enough source rows, and audited labels.

    The false-alarm rate is divided by the number of label-free streams (Bonferroni). The test of
    audited labels has the whole rate, because its promise is another one.
    """
    groups: dict[str, Ints] = {}
    if segments is not None:
        groups = {name: rows for name, rows in group_rows(segments) if len(rows) >= MIN_SOURCE_ROWS}
    share = alpha / (1 + len(groups))
    streams = [_stream(ALL_ROWS, Baseline.fit(scores, correct, margin=margin, alpha=share), form)]
    for name, rows in groups.items():
        baseline = Baseline.fit(scores[rows], correct[rows], margin=margin, alpha=share)
        streams.append(_stream(SEGMENT_PREFIX + name, baseline, form))
    audit = Baseline.fit(correct.astype(float), correct, margin=margin, alpha=alpha)
    return [*streams, _stream(AUDIT, audit, "row")]


def _stream(name: str, baseline: Baseline, form: DetectorForm) -> Stream:
    settings = baseline.detector(form)
    return Stream(name, settings, DetectorState.start(settings), asdict(baseline))


def _insert_blob(connection: sqlite3.Connection, name: str, data: bytes) -> None:
    connection.execute("INSERT INTO blobs VALUES (?, ?)", (name, data))


def _encode_rows(source: Predictions) -> bytes:
    return learned_codec.encode(
        {
            "score_type": source.score_type,
            "scores": source.scores,
            "labels": source.labels,
            "decisions": source.classes if source.has_decisions else None,
            "class_names": source.class_names,
        }
    )


def _decode_rows(data: bytes) -> Predictions:
    stored = learned_codec.decode(data)
    names, decisions = stored["class_names"], stored["decisions"]
    is_probs = stored["score_type"] == "probs"
    create = Predictions.from_probs if is_probs else Predictions.from_logits

    def named(classes: Array) -> Array:
        return classes if names is None else np.array(names)[classes]

    return create(
        stored["scores"],
        labels=named(stored["labels"]),
        class_names=names,
        decisions=None if decisions is None else named(decisions),
    )


# Batches -----------------------------------------------------------------------------------------


def _stream_sums(
    sums: BatchSums, streams: Mapping[str, Stream]
) -> Iterator[tuple[str, int, float]]:
    """Yield the stream, the number of rows and the sum of scores of each bet of a batch."""
    yield ALL_ROWS, sums.n, sums.scores.total
    for name, each in sums.segments.items():
        if SEGMENT_PREFIX + name in streams:
            yield SEGMENT_PREFIX + name, each.n, each.total


def _compact(totals: Mapping[str, Any]) -> dict[str, Any]:
    """Return sums with whole numbers in the smallest type, which compresses well."""
    return {
        name: total.astype(np.min_scalar_type(int(total.max())))
        if isinstance(total, np.ndarray) and total.dtype.kind in "iu" and total.min() >= 0
        else total
        for name, total in totals.items()
    }


def _encode_sample(sums: BatchSums) -> bytes:
    sample = sums.sample
    return learned_codec.encode(
        {"position": sample.positions, "priority": sample.priorities, **sample.columns}
    )


def _as_batch(row: sqlite3.Row, history: History | None) -> MonitoredBatch:
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 (a row iterates over values)
    evidence = math.exp(min(values.pop("log_evidence"), 709.0))
    values["estimates"] = json.loads(values["estimates"])
    typical: ShiftInterval | None = None
    if history is not None:
        typical = history.interval(values["estimate"])
    return MonitoredBatch(
        **values,
        evidence=evidence,
        typical_low=None if typical is None else typical.low,
        typical_high=None if typical is None else typical.high,
    )


def _as_alarm(row: sqlite3.Row) -> Alarm:
    return Alarm(
        stream=row["stream"],
        batch=row["batch"],
        run=row["run"],
        evidence=math.exp(min(row["log_evidence"], 709.0)),
        raised=row["raised"],
        acknowledged=row["acknowledged"],
    )


def _as_time(time: Any, name: str) -> str | None:
    """Return a time as text that sorts by time; without one, the date in the name of the batch.

    >>> _as_time(None, "scores_2026-03-01.parquet"), _as_time("2026-03-01 12:00", "")
    ('2026-03-01', '2026-03-01T12:00')
    """
    if time is None:
        match = _DATE_IN_NAME.search(name)
        return None if match is None else match[1]
    if isinstance(time, datetime):
        time = time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    text = time.isoformat() if isinstance(time, date) else str(time)
    try:
        return str(np.datetime64(text))
    except ValueError as error:
        raise InputError(
            f"time must be a date or a time such as 2026-03-01 or 2026-03-01T12:00; got {time!r}."
        ) from error
