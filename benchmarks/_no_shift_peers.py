"""Batches of tables beside NannyML's CBPE: errors, alarms and CPU time of accuracy, F1, AUROC."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import oodometer
from benchmarks._no_shift_batches import cached_json
from benchmarks._no_shift_data import SOURCE_ROWS, Outputs, acs, adult
from benchmarks._peer_comparison import PEER_PYTHON, ROOT, TIMEOUT_SECONDS
from oodometer.assessment.optional_analyses import AdditionalRequests, run_additional
from oodometer.core.array_types import Floats, Ints
from oodometer.core.predictions import Predictions
from oodometer.core.stats import auroc

ACS_BATCH_ROWS = 5000
MIN_GROUP_ROWS = 500
ADULT_SOURCE_BATCH_ROWS = 1000
ADULT_GROUPS = ("marital-status", "occupation", "relationship", "race", "sex")
ADULT_SPLITS = 10
METRICS = ("accuracy", "f1", "auroc")
# An alarm is raised below the mean of the source's batches minus this many standard deviations.
ALARM_DEVIATIONS = 3


@dataclass(frozen=True)
class Variant:
    """Change of a table: decimals of the probabilities, and threshold of the decisions."""

    name: str
    decimals: int | None = None
    threshold: float = 0.5


VARIANTS = (
    Variant("as is"),
    Variant("2 decimals", decimals=2),
    Variant("threshold 0.3", threshold=0.3),
    Variant("threshold 0.7", threshold=0.7),
)


@dataclass(frozen=True, eq=False)
class Batches:
    """Source, and target rows in batches that end at the rows `ends`.

    `source_batch_rows` is the number of rows of the source's batches, which define the alarms.
    """

    source: Outputs
    target: Outputs
    ends: Ints
    source_batch_rows: int

    @property
    def slices(self) -> list[slice]:
        starts = [0, *self.ends[:-1].tolist()]
        return [slice(start, end) for start, end in zip(starts, self.ends.tolist(), strict=True)]

    def changed(self, variant: Variant) -> tuple[Floats, Ints, Floats, Ints]:
        """Return probabilities and decisions of source and target under a variant."""
        results: list[Any] = []
        for rows in (self.source, self.target):
            probs = rows.probs[:, 1]
            if variant.decimals is not None:
                probs = probs.round(variant.decimals)
            results += [probs, (probs >= variant.threshold).astype(np.int64)]
        return tuple(results)


def acs_batches(data: Path, seed: int) -> Batches:
    """Return ACS 2015 as source, and the later years in file order in batches of 5,000 rows."""
    rows = acs(data, seed, years=(2015, 2016, 2017, 2018))
    is_source = rows.columns["year"] == 2015
    target = rows.rows(~is_source)
    ends = np.arange(ACS_BATCH_ROWS, target.n + 1, ACS_BATCH_ROWS)
    target = target.rows(slice(int(ends[-1])))
    return Batches(rows.rows(is_source), target, ends, ACS_BATCH_ROWS)


def adult_batches(data: Path, seed: int) -> Batches:
    """Return a random source, and every group of the other rows that has at least 500 rows."""
    source, rest = adult(data, seed).split(seed, SOURCE_ROWS)
    index: list[Ints] = []
    for column in ADULT_GROUPS:
        for value in np.unique(rest.columns[column]):
            group = np.flatnonzero(rest.columns[column] == value)
            if len(group) >= MIN_GROUP_ROWS:
                index.append(group)
    ends = np.cumsum([len(group) for group in index])
    return Batches(source, rest.rows(np.concatenate(index)), ends, ADULT_SOURCE_BATCH_ROWS)


# Table, and the seeds of its splits; the batches of all splits are compared together.
TABLES = {
    "acs by year": (acs_batches, (0,)),
    "adult by group": (adult_batches, tuple(range(ADULT_SPLITS))),
}


def run_nannyml(batches: Batches, variant: Variant) -> dict[str, Any]:
    """Return the estimates of NannyML, computed in the environment of peers."""
    source_probs, source_decisions, probs, decisions = batches.changed(variant)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arrays.npz"
        np.savez(
            path,
            source_probs=source_probs,
            source_decisions=source_decisions,
            source_labels=batches.source.labels,
            probs=probs,
            decisions=decisions,
            ends=batches.ends,
        )
        command = [str(PEER_PYTHON), "-W", "ignore", "-m", "benchmarks.peers.nannyml_batches"]
        process = subprocess.run(
            [*command, str(path)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
    result: dict[str, Any] = json.loads(process.stdout.strip().splitlines()[-1])
    return result


def _true_metrics(probs: Floats, decisions: Ints, labels: Ints) -> dict[str, float]:
    true_positives = np.count_nonzero((decisions == 1) & (labels == 1))
    area = auroc(probs, labels == 1)
    return {
        "accuracy": float((decisions == labels).mean()),
        "f1": float(2 * true_positives / max((decisions == 1).sum() + (labels == 1).sum(), 1)),
        "auroc": math.nan if area is None else area,
    }


def measure_split(name: str, data: Path, seed: int, variant: Variant) -> dict[str, Any]:
    """Return true and estimated metrics of each batch, alarm limits, and CPU times.

    The CPU times are per batch, and include what is learned from the source once: of the results
    that NannyML gives (accuracy, F1 and AUROC), and of all methods and diagnostics.
    """
    batches = TABLES[name][0](data, seed)
    source, targets = _predictions(batches, variant)
    begin = time.process_time()
    reference = oodometer.Reference(source)
    assessments = [reference.estimate(target) for target in targets]
    all_seconds = time.process_time() - begin
    begin = time.process_time()
    lean = oodometer.Reference(source, methods="ac")
    requests = AdditionalRequests(metrics=METRICS)
    additional = [run_additional(requests, lean, target) for target in targets]
    seconds = time.process_time() - begin
    truths = [
        _true_metrics(target.probs[:, 1], target.classes, batches.target.labels[rows])
        for target, rows in zip(targets, batches.slices, strict=True)
    ]
    estimates = []
    for assessment, result in zip(assessments, additional, strict=True):
        values = {
            m.metric: m.value for m in result.metrics if m.scope == "1" and m.metric != "accuracy"
        }
        estimates.append({"accuracy": assessment.headline.estimate.value, **values})
    return {
        "truths": truths,
        "estimates": estimates,
        "methods": [assessment.headline.estimate.method for assessment in assessments],
        "label_noise": [_label_noise(target) for target in targets],
        "limits": _alarm_limits(source, batches.source_batch_rows),
        "cpu": seconds / len(targets),
        "cpu_all_methods": all_seconds / len(targets),
        "nannyml": run_nannyml(batches, variant),
    }


def _predictions(batches: Batches, variant: Variant) -> tuple[Predictions, list[Predictions]]:
    """Return the source and the batches; decisions are given if the threshold is not ½."""
    source_probs, source_decisions, probs, decisions = batches.changed(variant)
    has_decisions = variant.threshold != 0.5
    source = Predictions.from_probs(
        np.column_stack([1 - source_probs, source_probs]),
        labels=batches.source.labels,
        class_names=("0", "1"),
        decisions=source_decisions if has_decisions else None,
    )
    targets = [
        Predictions.from_probs(
            np.column_stack([1 - probs[rows], probs[rows]]),
            class_names=("0", "1"),
            decisions=decisions[rows] if has_decisions else None,
        )
        for rows in batches.slices
    ]
    return source, targets


def _label_noise(rows: Predictions) -> float:
    """Return the error that the random labels alone cause, sqrt(2/π) · sqrt(Σ p (1 − p)) / n."""
    p = rows.confidence.astype(np.float64)
    return math.sqrt(2 / math.pi) * math.sqrt(float((p * (1 - p)).sum())) / rows.n


def _alarm_limits(source: Predictions, batch_rows: int) -> dict[str, float]:
    """Return the mean minus three standard deviations of each metric over the source's batches."""
    assert source.labels is not None
    metrics = []
    for start in range(0, source.n - batch_rows + 1, batch_rows):
        rows = slice(start, start + batch_rows)
        metrics.append(
            _true_metrics(source.probs[rows, 1], source.classes[rows], source.labels[rows])
        )
    values = {name: np.array([metric[name] for metric in metrics]) for name in METRICS}
    return {
        name: float(value.mean() - ALARM_DEVIATIONS * value.std(ddof=1))
        for name, value in values.items()
    }


def _paths(name: str, variant: Variant, folder: Path) -> dict[int, Path]:
    """Return the file of each split of a variant of a table, by seed."""
    stem = f"{name}-{variant.name}".replace(" ", "_")
    return {seed: folder / f"{stem}-{seed}.json" for seed in TABLES[name][1]}


def measure_table(name: str, data: Path, folder: Path) -> None:
    """Compute the results of both programs on every variant and split of a table."""
    for variant in VARIANTS:
        for seed, path in _paths(name, variant, folder).items():
            cached_json(path, partial(measure_split, name, data, seed, variant))


def finished_tables(name: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the results of the variants of which all splits are finished."""
    results = {}
    for variant in VARIANTS:
        paths = _paths(name, variant, folder).values()
        if all(path.exists() for path in paths):
            results[variant.name] = [json.loads(path.read_text()) for path in paths]
    return results
