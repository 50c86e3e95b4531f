"""Batches of a binary classifier with a known accuracy, and monitors of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from oodometer import Monitor, Predictions


def draw(
    n: int, seed: int, *, shift: float = 0.0, labelled: bool = False, ids: bool = False
) -> Predictions:
    """Return predictions whose labels follow the probabilities; a shift lowers the confidence."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(2.0 - shift, 1.5, n)
    second = 1 / (1 + np.exp(-odds))
    labels = (rng.random(n) < second).astype(int) if labelled else None
    probs = np.stack([1 - second, second], axis=1)
    names = [f"r{seed}-{j}" for j in range(n)] if ids else None
    return Predictions.from_probs(probs, labels=labels, ids=names)


def write_batch(path: Path, rows: Predictions, **columns: object) -> Path:
    """Write predictions to a Parquet file, with further columns."""
    assert rows.scores is not None
    table = {f"prob_{j}": rows.scores[:, j] for j in range(rows.k)}
    if rows.labels is not None:
        table["label"] = rows.labels
    if rows.ids is not None:
        table["id"] = rows.ids
    parquet.write_table(pa.table({**table, **columns}), path)
    return path


@pytest.fixture(scope="session")
def source() -> Predictions:
    return draw(5000, 1000, labelled=True)


@pytest.fixture
def monitor(tmp_path: Path, source: Predictions) -> Monitor:
    return Monitor.create(tmp_path / "monitor", source)
