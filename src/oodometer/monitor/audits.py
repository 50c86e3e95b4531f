"""Two-tier audits: random rows to label, more of them while the label-free evidence is high.

A fixed share of the rows of each batch is drawn for labelling; while the evidence M is at least 1/√α,
the share is raised. The same e-detector on the correctness of the audited rows then tests the
accuracy itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from oodometer.monitor import learned_codec
from oodometer.monitor.e_detector import DetectorState
from oodometer.monitor.learned_scores import LearnedScores
from oodometer.monitor.store import MonitorStore, Stream


@dataclass(frozen=True)
class AuditRow:
    """Row to label.

    Parameters
    ----------
    batch, name
        Number and name of its batch.
    row : str
        Id of the row, or its number in the batch, counted from 0.
    predicted : str
        Predicted class.
    score : float
        Watched score.
    """

    batch: int
    name: str
    row: str
    predicted: str
    score: float


@dataclass(frozen=True)
class SampledRow:
    """Sampled row of a batch: its id or number, the predicted class, and the watched score."""

    row: str
    predicted: int
    score: float


def is_raised(stream: Stream, state: DetectorState) -> bool:
    """Return whether the evidence is at least 1/√α, so that more rows are audited."""
    return state.log_evidence >= -math.log(stream.settings.run_alpha(state.run)) / 2


def decode_sample(data: bytes) -> list[SampledRow]:
    """Return the sampled rows of a batch in the order of their random priorities."""
    sample: dict[str, Any] = learned_codec.decode(data)
    keys = sample["id"] if "id" in sample else sample["position"]
    return [
        SampledRow(str(keys[j]), int(sample["class"][j]), float(sample["score"][j]))
        for j in np.argsort(sample["priority"], kind="stable")
    ]


def choose_rows(store: MonitorStore, learned: LearnedScores, rows: int | None) -> list[AuditRow]:
    """Return rows to label: those of the audit shares, then further sampled rows."""
    planned = islice(_candidates(store, learned, within_share=True), rows)
    chosen = {(each.batch, each.row): each for each in planned}
    if rows is not None and len(chosen) < rows:
        for each in _candidates(store, learned, within_share=False):
            if len(chosen) >= rows:
                break
            chosen.setdefault((each.batch, each.row), each)
    return list(chosen.values())


def _candidates(
    store: MonitorStore, learned: LearnedScores, *, within_share: bool
) -> Iterator[AuditRow]:
    """Yield sampled rows without labels, latest batch first, in the order of their priorities."""
    query = "SELECT number FROM batches WHERE sample IS NOT NULL"
    if within_share:
        query += """ AND audit_rows >
        (SELECT count(*) FROM labels WHERE labels.batch = number AND audited)"""
    for (number,) in store.rows(f"{query} ORDER BY number DESC"):
        batch = store.row("SELECT name, sample, audit_rows FROM batches WHERE number = ?", number)
        assert batch is not None
        labelled = {row[0] for row in store.rows("SELECT row FROM labels WHERE batch = ?", number)}
        sample = decode_sample(batch["sample"])
        for each in sample[: batch["audit_rows"]] if within_share else sample:
            if each.row not in labelled:
                predicted = learned.class_name(each.predicted)
                yield AuditRow(number, batch["name"], each.row, predicted, each.score)
