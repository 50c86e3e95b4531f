"""Results of cases: one row per case, stored line by line and as one Parquet file per suite."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

import oodometer
from benchmarks.suites.case import MANY_CLASSES, Case, CaseKey, iterate_cases, plan_cases
from benchmarks.suites.files import write_atomically
from benchmarks.suites.outputs import group_outputs
from benchmarks.suites.suite import Suite, Workspace
from oodometer import estimators
from oodometer.core.array_types import Ints
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.parallel.runners import limit_to_one_thread

# Methods that take seconds with many classes.
SLOW_METHODS = ("leap",)
METHODS_NEEDING_FEATURES = ("atc-near",)
METHODS_NEEDING_OTHERS = ("aline-s", "aline-d", "gde")


def result_row(case: Case, replicates: int) -> dict[str, Any]:
    """Return all values of a case: names, truth, estimates, diagnostics, statistics."""
    start = time.process_time()
    source, target = case.source, case.target
    others = source.other_models
    alone = replace(source, other_models=())
    reference = oodometer.Reference(alone, methods=_methods(source), replicates=replicates)
    result = reference.estimate(replace(target, other_models=()))
    headline = result.headline.estimate
    row: dict[str, Any] = {
        **_names(case),
        "truth": float(target.correct.mean()),
        "truth_se": _standard_error(target),
        "source_accuracy": result.source_accuracy,
        "source_se": _standard_error(source),
        "headline": headline.value,
        "headline_low": headline.low,
        "headline_high": headline.high,
        "headline_method": headline.method,
        "headline_status": result.headline.status,
        "calibration": result.calibration,
    }
    for each in result.estimates:
        row |= {f"est_{each.method}": each.value, f"low_{each.method}": each.low,
                f"high_{each.method}": each.high}  # fmt: skip
        if each.method == "regime":
            row |= each.facts
            row["source_batches"] = _batches(reference)
    if others and source.has_probs:
        row |= _with_other_models(source, target, replicates)
    for check in result.diagnostics:
        row |= {f"diag_{check.name}": check.value, f"status_{check.name}": check.status}
    smallest = min(np.bincount(_labels(source), minlength=source.k)) if source.has_probs else None
    return row | {
        "smallest_class": smallest if smallest is None else int(smallest),
        "ks_noise": math.sqrt(1 / source.n + 1 / target.n),
        "seconds": time.process_time() - start,
    }


def _with_other_models(source: Predictions, target: Predictions, replicates: int) -> dict[str, Any]:
    """Return the estimates of methods that use other models, and of the headline method with them."""
    reference = oodometer.Reference(
        source, methods="regime", other_models=list(source.other_models), replicates=replicates
    )
    learned, rows = reference.prepare(target.without_labels(), list(target.other_models))
    with limit_to_one_thread():
        row: dict[str, Any] = {"est_regime-others": learned.runs["regime"].run(rows).value}
    for name in METHODS_NEEDING_OTHERS:
        try:
            row[f"est_{name}"] = estimators.get(name).estimate(source, target).value
        except oodometer.NotApplicable:
            continue
    return row


def _batches(reference: oodometer.Reference) -> str:
    """Return estimate, accuracy and covariates of the batches of the source, as JSON."""
    cases = reference.learned(target_has_probs=True).batches.cases
    return json.dumps([[case.estimate, case.accuracy, *astuple(case.covariates)] for case in cases])


def _labels(rows: Predictions) -> Ints:
    assert rows.labels is not None
    return rows.labels


def _methods(source: Predictions) -> list[str] | None:
    """Return the methods to run; None for all."""
    if source.k <= MANY_CLASSES or not source.has_probs:
        return None
    left_out = [*SLOW_METHODS, *METHODS_NEEDING_FEATURES, *METHODS_NEEDING_OTHERS]
    return [each.name for each in estimators.available() if each.name not in left_out]


def _names(case: Case) -> dict[str, Any]:
    suite, key = case.suite, case.key
    true_tv = None
    first, second = case.source.labels, case.target.labels
    if first is not None and second is not None:
        shares = [
            np.bincount(labels, minlength=suite.k) / len(labels) for labels in (first, second)
        ]
        true_tv = float(np.abs(shares[0] - shares[1]).sum() / 2)
    regime = key.regime
    if regime in ("shift", "both") and key.target in suite.target_regimes:
        regime = suite.target_regimes[key.target] if key.regime == "shift" else "label"
    return {
        "suite": suite.name, "family": suite.family, "body": suite.body, "regime": regime,
        "group": key.group, "model": key.model, "target": key.target, "draw": key.draw,
        "key": key.text, "k": suite.k, "decimals": suite.decimals, "threshold": suite.threshold,
        "n_source": case.source.n, "n_target": case.target.n,
        "n_other_models": len(case.source.other_models),
        "alpha": None if math.isnan(case.alpha) else case.alpha, "true_tv": true_tv,
    }  # fmt: skip


def _standard_error(rows: Predictions) -> float:
    accuracy = float(rows.correct.mean())
    return math.sqrt(accuracy * (1 - accuracy) / rows.n)


def build(
    space: Workspace,
    suite: Suite,
    *,
    n_cases: int | None = None,
    replicates: int = 20,
    progress: ProgressCallback | None = None,
) -> Path:
    """Compute the missing rows of a suite, and write all rows as a Parquet file.

    Every row is stored as soon as it is computed, so that a killed run resumes.
    """
    names = suite.groups(space)
    groups = {}
    for done, group in enumerate(names):
        if progress:
            progress(done, len(names), f"{suite.name}: models of {group}")
        groups[group] = group_outputs(space, suite, group)
    keys = plan_cases(suite, groups, n_cases or suite.cases)
    folder = space.folder / "results"
    lines = folder / f"{suite.name}.jsonl"
    rows = read_rows(lines)
    missing = [key for key in keys if key.text not in rows]
    with lines.open("a") as file:
        for done, case in enumerate(iterate_cases(space, suite, missing)):
            if progress:
                progress(done, len(missing), f"{suite.name}: cases")
            row = result_row(case, replicates)
            rows[case.key.text] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
    return _write_table(space, suite, [rows[key.text] for key in keys])


def read_rows(lines: Path) -> dict[str, dict[str, Any]]:
    """Return the stored rows by key; remove a line that a killed run did not finish."""
    lines.parent.mkdir(parents=True, exist_ok=True)
    lines.touch()
    content = lines.read_text()
    complete = content[: content.rfind("\n") + 1]
    if complete != content:
        write_atomically(lines, lambda path: path.write_text(complete))
    rows = [json.loads(line) for line in complete.splitlines()]
    return {row["key"]: row for row in rows}


def write_stored_rows(space: Workspace, suite: Suite) -> None:
    """Write all stored rows of a suite as a Parquet file, also if some cases are missing."""
    lines = space.folder / "results" / f"{suite.name}.jsonl"
    rows = read_rows(lines) if lines.exists() else {}
    if rows:
        _write_table(space, suite, list(rows.values()))


def _write_table(space: Workspace, suite: Suite, rows: Sequence[dict[str, Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Families and bodies can change after rows were stored.
    names = {"family": suite.family, "body": suite.body}
    rows = [row | names for row in rows]
    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    path = space.folder / "results" / f"{suite.name}.parquet"
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))
    return path


def key_of(row: dict[str, Any]) -> CaseKey:
    """Return the key of a stored row, from which `iterate_cases` makes the case again."""
    group, model, target, regime, draw = row["key"].split(" | ")
    return CaseKey(group, model, target, regime, int(draw))
