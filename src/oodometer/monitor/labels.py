"""Labels that arrive later: accuracy of a batch by PPI++, and bets on audited rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.assessment.conformal_interval import MIN_DOMAINS, History
from oodometer.assessment.ppi import MIN_LABELS, UnlabelledMoments, ppi_estimate
from oodometer.core.errors import InputError
from oodometer.core.labels import encode_labels
from oodometer.core.stats import rng_for
from oodometer.data.prediction_files import PredictionColumns
from oodometer.monitor import e_detector
from oodometer.monitor.audits import SampledRow, decode_sample
from oodometer.monitor.batch_sums import BatchColumns, BatchSums, read_chunks
from oodometer.monitor.label_input import RowLabel
from oodometer.monitor.learned_scores import LearnedScores
from oodometer.monitor.store import AUDIT, MonitorStore, now, write_bet


@dataclass(frozen=True)
class BatchRow:
    """Row of a batch with the predicted class and the watched score."""

    batch: int
    sampled: SampledRow


def find_sampled_rows(store: MonitorStore, rows: Sequence[RowLabel]) -> list[BatchRow]:
    """Return labelled rows that are in the samples of their batches.

    Raises
    ------
    InputError
        If a row is not in a sample, or its batch is not known.
    """
    samples: dict[int, dict[str, SampledRow]] = {}
    found = []
    for row in rows:
        number = row.batch if row.batch is not None else _audited_batch(store, row.row)
        if number not in samples:
            samples[number] = _read_sample(store, number)
        if row.row not in samples[number]:
            raise InputError(
                f"Row {row.row} of batch {number} is not in its sample. Pass the batch itself with "
                "batch=… (--batch)."
            )
        found.append(BatchRow(number, samples[number][row.row]))
    return found


def _read_sample(store: MonitorStore, number: int) -> dict[str, SampledRow]:
    found = store.row("SELECT sample FROM batches WHERE number = ?", number)
    if found is None or found[0] is None:
        raise InputError(f"There is no batch {number}, or it was forgotten.")
    return {each.row: each for each in decode_sample(found[0])}


def _audited_batch(store: MonitorStore, row: str) -> int:
    found = store.rows("SELECT batch FROM audits WHERE row = ?", row)
    if len(found) != 1:
        problem = "is not one of the audited rows" if not found else "is in several batches"
        raise InputError(f"Row {row} {problem}. Add a column batch with the number of its batch.")
    return int(found[0][0])


def find_rows_of_batch(
    store: MonitorStore,
    learned: LearnedScores,
    columns: PredictionColumns,
    rows: Sequence[RowLabel],
    batch: Any,
) -> list[BatchRow]:
    """Return labelled rows of a batch that is read again and must not have changed.

    Raises
    ------
    InputError
        If no stored batch has the same content, or it has no such row.
    """
    wanted = {row.row for row in rows}
    values: dict[str, SampledRow] = {}
    sums = BatchSums(learned)
    for chunk in read_chunks(batch, BatchColumns(predictions=columns)):
        positions = chunk.first_position + np.arange(chunk.rows.n)
        sums.update(chunk.rows, positions, np.zeros(chunk.rows.n, dtype=np.uint32), None)
        keys = (positions if chunk.rows.ids is None else chunk.rows.ids).astype(str).tolist()
        index = [j for j, key in enumerate(keys) if key in wanted]
        chosen = learned.prepare(chunk.rows.rows(np.array(index, dtype=np.int64)))
        scores = learned.scores(chosen).tolist()
        for j, predicted, score in zip(index, chosen.classes.tolist(), scores, strict=True):
            values[keys[j]] = SampledRow(keys[j], predicted, score)
    query = "SELECT number FROM batches WHERE hash = ? AND NOT forgotten"
    found = store.row(query, sums.content_hash)
    if found is None:
        raise InputError(
            "The monitor has no batch with this content. Add the batch first, or pass the file as "
            "it was when it was added."
        )
    missing = wanted - set(values)
    if missing:
        raise InputError(f"The batch has no row {min(missing)!r}.")
    return [BatchRow(int(found[0]), values[row.row]) for row in rows]


def insert_labels(
    store: MonitorStore,
    connection: sqlite3.Connection,
    learned: LearnedScores,
    rows: Sequence[RowLabel],
    batch_rows: Sequence[BatchRow],
) -> tuple[int, int]:
    """Insert labels and bet on the audited ones; return the numbers of both.

    Raises
    ------
    InputError
        If a label is not a class, or a row already has another label.
    """
    classes = encode_labels(
        np.array([row.label for row in rows], dtype=object),
        len(rows),
        learned.k,
        learned.class_names,
        "labels",
        numeric_text=True,
    )
    assert classes is not None
    audited: dict[int, list[bool]] = {}
    n_new = 0
    for place, label in zip(batch_rows, classes.tolist(), strict=True):
        number, row = place.batch, place.sampled.row
        is_correct = place.sampled.predicted == label
        if not _is_new(store, number, row, is_correct):
            continue
        n_new += 1
        is_audited = store.row("SELECT 1 FROM audits WHERE batch = ? AND row = ?", number, row)
        if is_audited is not None:
            audited.setdefault(number, []).append(is_correct)
        connection.execute(
            "INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?)",
            (number, row, is_correct, place.sampled.score, is_audited is not None, now()),
        )
    stream = store.streams()[AUDIT]
    for number, correct in sorted(audited.items()):
        state = e_detector.update(
            stream.settings, stream.state, n=len(correct), total=float(sum(correct))
        )
        write_bet(connection, stream, state, number)
        stream = replace(stream, state=state)
    return n_new, sum(map(len, audited.values()))


def _is_new(store: MonitorStore, batch: int, row: str, is_correct: bool) -> bool:
    known = store.row("SELECT correct FROM labels WHERE batch = ? AND row = ?", batch, row)
    if known is not None and bool(known[0]) != is_correct:
        raise InputError(f"Row {row} of batch {batch} already has another label.")
    return known is None


def estimate_from_labels(
    store: MonitorStore, connection: sqlite3.Connection, number: int, seed: int
) -> None:
    """Estimate the accuracy of a batch from its labels and from the scores of all its rows."""
    rows = store.rows("SELECT correct, score FROM labels WHERE batch = ?", number)
    sums = store.row("SELECT n, total, squares FROM batches WHERE number = ?", number)
    assert sums is not None
    correct = np.array([bool(row["correct"]) for row in rows])
    scores = np.array([row["score"] for row in rows])
    n = int(sums["n"]) - len(rows)
    total = float(sums["total"]) - float(scores.sum())
    squares = float(sums["squares"]) - float(np.dot(scores, scores))
    variance = max(squares - total**2 / max(n, 1), 0.0) / max(n - 1, 1)
    unlabelled = UnlabelledMoments(n, total / max(n, 1), variance)
    result = ppi_estimate(correct, scores, unlabelled, rng=rng_for(seed, "few labels"))
    connection.execute(
        "INSERT OR REPLACE INTO label_estimates VALUES (?, ?, ?, ?, ?, ?, ?)",
        (number, len(rows), result.value, result.low, result.high, result.method, now()),
    )


def label_history(store: MonitorStore) -> History | None:
    """Return estimates and accuracies of batches with enough labels; None if they are few."""
    rows = store.rows(
        """SELECT b.estimate, l.value FROM label_estimates l JOIN batches b
        ON b.number = l.batch WHERE l.n >= ?""",
        MIN_LABELS,
    )
    if len(rows) < MIN_DOMAINS:
        return None
    estimates, truths = np.array([tuple(row) for row in rows]).T
    return History(estimates, np.clip(truths, 0, 1))
