"""Studies of in-distribution metrics, of inference and of Tiny-ImageNet, on made-up evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.studies import ao, nli, tiny_imagenet
from benchmarks.studies._aligned_translations import Aligned
from benchmarks.studies._comparison_page import with_shift
from benchmarks.studies._line_estimates import with_line
from oodometer.core.errors import NotApplicable
from oodometer.core.keys import settings_key
from oodometer.core.random_streams import RowStreams
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import ATTACK_METRICS, MEAN_ATTACK_METRIC
from oodometer.studies.analysis.id_ood_predictors import predictor_table
from oodometer.studies.analysis.id_ood_scatter import id_ood_scatters
from oodometer.studies.training.spec import PoolSpec


def evaluation(model: str, tested_on: str, accuracy: float, **cells: Any) -> dict[str, Any]:
    return {"model": model, "trained_on": "photo", "tested_on": tested_on, "accuracy": accuracy,
            **cells}  # fmt: skip


def ao_table(models: int = 20) -> EvaluationTable:
    random = np.random.default_rng(0)
    rows = []
    for number in range(models):
        skill = random.uniform(0.3, 0.9)
        for domain, drop in (("photo", 0.0), ("photo/fog-3", 0.1), ("sketch", 0.2), ("art", 0.1)):
            accuracy = skill - drop + random.normal(0, 0.02)
            values = {name: random.normal() for name in (*ao.METRICS, *ATTACK_METRICS)}
            mean = {MEAN_ATTACK_METRIC: np.mean([values[name] for name in ATTACK_METRICS])}
            cells = {**values, **mean, "task": "PACS", "n": 500}
            rows.append(evaluation(f"m{number}", domain, accuracy, **cells))
    return EvaluationTable.read(pa.Table.from_pylist(rows))


def test_attacked_models_are_models_of_the_pools() -> None:
    for task in ao.TASKS.values():
        pool = PoolSpec.open(ao.POOLS / f"{task.pool}.toml")
        attacked = PoolSpec.open(task.attacked_pool())
        ids = {config.id for config in attacked.recipes()}
        assert ids <= {config.id for config in pool.recipes()}
        assert 50 <= len(ids) <= 100


def test_errors_under_attack_are_joined_by_model_and_domain() -> None:
    rows = pa.Table.from_pylist([evaluation("m", "a", 0.5), evaluation("n", "a", 0.6)])
    attacked = evaluation("n", "a", 0.6, **dict(zip(ATTACK_METRICS, (0.4, 0.8), strict=True)))
    joined = ao.with_attacks(rows, pa.Table.from_pylist([attacked])).to_pylist()
    assert [row[MEAN_ATTACK_METRIC] for row in joined] == [None, pytest.approx(0.6)]


def test_tables_show_the_papers_figures() -> None:
    table = ao_table()
    predictors = predictor_table(table, metrics=ao.ALL_METRICS)
    ((head, rows),) = ao.predictor_rows(predictors).values()
    by_name = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_name["ID error"]["the paper's"] == "+0.49"
    assert by_name["ID error"]["PACS"].startswith("+0.9")
    assert by_name["ID corrupted error"]["the paper's, adjusted"] == "+0.01"
    ((_, patterns),) = ao.pattern_rows(id_ood_scatters(table)).values()
    assert patterns == [("PACS", "2", "functional or vertical")]


def test_factors_and_patterns_give_verdicts() -> None:
    table = ao_table()
    factors = ao.task_factors(table)
    assert len(factors["PACS"].names) == 16
    results = {
        result.id: result for result in ao.page_results(table, id_ood_scatters(table), factors)
    }
    assert results["ao-pacs-patterns"].verdict == "held"
    kept = factors["PACS"].loadings.shape[1]
    assert results["ao-four-factors"].verdict == ("held" if kept == 4 else "refuted")


def test_page_states_tasks_and_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ao, "REPLICATES", 1000)
    text = ao.page(ao_table()).text()
    assert "by task: PACS (2)." in text
    assert "PACS: loadings of 16 metrics after equamax" in text
    assert "four factors have an eigenvalue of 1 or more" in text


def test_genres_of_the_training_set_are_in_distribution() -> None:
    rows = [{**evaluation("m", domain, 0.5), "trained_on": "mnli"} for domain in ("fiction", "oup")]
    table = EvaluationTable.read(nli.with_genres(pa.Table.from_pylist(rows)), measures=())
    inside = {table.domains[table.tested_on[i]]: bool(table.in_distribution[i]) for i in range(2)}
    assert inside == {"fiction": True, "oup": False}


def test_pairs_without_translation_are_not_applicable() -> None:
    aligned = Aligned("test", {("a", "b"): (("c", "d"),)})
    draws = RowStreams(0, np.array([1], dtype=np.uint64), draw_index=np.array([1]))
    assert aligned.apply([("a", "b")], draws) == [("c", "d")]
    assert settings_key(aligned) == "backtranslate-aligned{source='test', magnitude=1.0}"
    with pytest.raises(NotApplicable, match="has no translation"):
        aligned.apply([("x", "y")], draws)


def test_doc_is_corrected_by_a_line_through_the_same_subclasses() -> None:
    rows = []
    for number in range(6):
        estimate = 0.4 + number / 20
        for half in ("first", "second"):
            row = evaluation("m", f"{half}/fog-{number}", 0.5 * estimate + 0.1)
            rows.append({**row, "trained_on": "first", "measure": "doc", "value": estimate})
    shifted = with_shift(pa.Table.from_pylist(rows), tiny_imagenet.shift)
    lined = with_line(shifted, "doc", shift="same", name=tiny_imagenet.CORRECTED, by="model")
    added = [row for row in lined.to_pylist() if row["measure"] == tiny_imagenet.CORRECTED]
    assert {row["shift"] for row in added} == {"same", "novel"}
    assert [row["value"] for row in added] == pytest.approx([row["accuracy"] for row in added])
