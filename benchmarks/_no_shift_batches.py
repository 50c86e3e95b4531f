"""Headline and segments on real data without shift: source and target are random parts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oodometer
from benchmarks._no_shift_data import DATASETS, SEGMENTED_DATASETS, SOURCE_ROWS, Outputs
from oodometer.core.predictions import Predictions

BATCH_ROWS = 1000
BATCHES_PER_SPLIT = 10
# Methods among which the headline is chosen; the others would not change the segments.
HEADLINE_METHODS = ("ac", "doc", "atc-mc", "cot")
SEGMENT_TARGET_ROWS = 10_000


def cached_json(path: Path, compute: Callable[[], Any]) -> Any:
    """Return the content of a JSON file; compute and write it if the file does not exist."""
    if path.exists():
        return json.loads(path.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    content = compute()
    temporary = path.with_suffix(f".{os.getpid()}.part")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)
    print(f"finished {path.stem}", flush=True)
    return content


def predictions(rows: Outputs) -> Predictions:
    return Predictions.from_probs(rows.probs, labels=rows.labels)


def measure_batches(name: str, data: Path, seed: int) -> list[dict[str, Any]]:
    """Return estimate, interval and true accuracy of every method in batches of 1,000 rows."""
    source, rest = DATASETS[name](data, seed).split(seed, SOURCE_ROWS)
    results = []
    for number in range(min(BATCHES_PER_SPLIT, rest.n // BATCH_ROWS)):
        batch = predictions(rest.rows(slice(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)))
        result = oodometer.estimate(predictions(source), batch.without_labels(), seed=seed)
        results.append(
            {
                "truth": float(batch.correct.mean()),
                "source": result.source_accuracy,
                "headline": result.headline.estimate.method,
                "calibration": result.calibration,
                "estimates": {
                    estimate.method: [estimate.value, estimate.low, estimate.high]
                    for estimate in result.estimates
                },
            }
        )
    return results


def measure_segments(name: str, data: Path, seed: int) -> list[dict[str, Any]]:
    """Return estimate, interval and true accuracy of every segment of six columns."""
    source, rest = DATASETS[name](data, seed).split(seed, SOURCE_ROWS)
    target = rest.rows(slice(SEGMENT_TARGET_ROWS))
    rows = predictions(target)
    results = []
    for column in SEGMENTED_DATASETS[name]:
        result = oodometer.estimate(
            predictions(source),
            rows.without_labels(),
            methods=HEADLINE_METHODS,
            segment_by=target.columns[column],
            source_segment_by=source.columns[column],
            seed=seed,
        )
        counts = np.array([segment.n for segment in result.segments])
        values = np.array([s.estimate.value for s in result.segments if s.estimate is not None])
        total = float(counts @ values / counts.sum())
        for segment in result.segments:
            assert segment.estimate is not None
            is_inside = target.columns[column].astype(str) == segment.value
            results.append(
                {
                    "column": column,
                    "segment": segment.value,
                    "n": segment.n,
                    "truth": float(rows.correct[is_inside].mean()),
                    "value": segment.estimate.value,
                    "low": segment.estimate.low,
                    "high": segment.estimate.high,
                    "total_difference": abs(total - result.headline.estimate.value),
                }
            )
    return results
