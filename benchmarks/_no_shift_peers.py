"""Batches of tables beside NannyML's CBPE: error of accuracy, F1 and AUROC, and CPU time."""

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
ADULT_GROUPS = ("marital-status", "occupation", "relationship", "race", "sex")
METRICS = ("accuracy", "f1", "auroc")


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
    """Source, and target rows in batches that end at the rows `ends`."""

    source: Outputs
    target: Outputs
    ends: Ints

    def changed(self, variant: Variant) -> tuple[Floats, Ints, Floats, Ints]:
        """Return probabilities and decisions of source and target under a variant."""
        results: list[Any] = []
        for rows in (self.source, self.target):
            probs = rows.probs[:, 1]
            if variant.decimals is not None:
                probs = probs.round(variant.decimals)
            results += [probs, (probs >= variant.threshold).astype(np.int64)]
        return tuple(results)


def acs_batches(data: Path) -> Batches:
    """Return ACS 2015 as source, and the later years in file order in batches of 5,000 rows."""
    rows = acs(data, 0, years=(2015, 2016, 2017, 2018))
    is_source = rows.columns["year"] == 2015
    target = rows.rows(~is_source)
    ends = np.arange(ACS_BATCH_ROWS, target.n + 1, ACS_BATCH_ROWS)
    return Batches(rows.rows(is_source), target.rows(slice(int(ends[-1]))), ends)


def adult_batches(data: Path) -> Batches:
    """Return a random source, and every group of the other rows that has at least 500 rows."""
    source, rest = adult(data, 0).split(0, SOURCE_ROWS)
    index: list[Ints] = []
    for column in ADULT_GROUPS:
        for value in np.unique(rest.columns[column]):
            group = np.flatnonzero(rest.columns[column] == value)
            if len(group) >= MIN_GROUP_ROWS:
                index.append(group)
    ends = np.cumsum([len(group) for group in index])
    return Batches(source, rest.rows(np.concatenate(index)), ends)


TABLES = {"acs by year": acs_batches, "adult by group": adult_batches}


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


def measure_batch(batches: Batches, variant: Variant, number: int) -> dict[str, Any]:
    """Return true and estimated metrics of one batch, and the CPU times of the estimates."""
    source_probs, source_decisions, probs, decisions = batches.changed(variant)
    end = int(batches.ends[number])
    rows = slice(int(batches.ends[number - 1]) if number else 0, end)
    labels = batches.target.labels[rows]
    has_decisions = variant.threshold != 0.5
    source = Predictions.from_probs(
        np.column_stack([1 - source_probs, source_probs]),
        labels=batches.source.labels,
        class_names=("0", "1"),
        decisions=source_decisions if has_decisions else None,
    )
    target = Predictions.from_probs(
        np.column_stack([1 - probs[rows], probs[rows]]),
        class_names=("0", "1"),
        decisions=decisions[rows] if has_decisions else None,
    )
    begin = time.process_time()
    result = oodometer.estimate(source, target)
    seconds = time.process_time() - begin
    additional = run_additional(
        AdditionalRequests(metrics=("f1", "auroc")), source, target, temperature=result.temperature
    )
    estimates: dict[str, float | None] = {"accuracy": result.headline.estimate.value}
    for metric in additional.metrics:
        if metric.scope == "1":
            estimates[metric.metric] = metric.value
    chosen = np.where(decisions[rows] == 1, probs[rows], 1 - probs[rows])
    noise = math.sqrt(2 / math.pi) * math.sqrt(float((chosen * (1 - chosen)).sum())) / len(chosen)
    return {
        "n": len(labels),
        "method": result.headline.estimate.method,
        "truth": _true_metrics(probs[rows], decisions[rows], labels),
        "estimates": estimates,
        "by_method": {estimate.method: estimate.value for estimate in result.estimates},
        "label_noise": noise,
        "cpu": seconds,
    }


def measure_table(
    name: str, data: Path, folder: Path, *, only_finished: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the results of both programs on every variant of a table; finished ones are cached.

    If `only_finished` is true, nothing is computed, and variants that are not finished are left
    out.
    """
    batches = TABLES[name](data)
    results: dict[str, dict[str, Any]] = {}
    for variant in VARIANTS:
        stem = f"{name}-{variant.name}".replace(" ", "_")
        path = folder / f"{stem}-nannyml.json"
        paths = [folder / f"{stem}-{number}.json" for number in range(len(batches.ends))]
        if only_finished and not all(each.exists() for each in (path, *paths)):
            continue
        theirs = None
        if path.exists() or PEER_PYTHON.exists():
            theirs = cached_json(path, partial(run_nannyml, batches, variant))
        ours = [
            cached_json(each, partial(measure_batch, batches, variant, number))
            for number, each in enumerate(paths)
        ]
        results[variant.name] = {"ours": ours, "theirs": theirs}
    return results
