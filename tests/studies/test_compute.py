"""Values equal those of the library's own functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.data.dataset import ConcatDataset
from oodometer.measures import Sharpness
from oodometer.models.inference import predict_dataset
from oodometer.studies import Study, run
from oodometer.studies.plan import StudyEvaluation, plan_study
from oodometer.studies.store import Store
from tests.support import study_tasks, tiny_pool

# Measures that need the network, and measures that do not.
INNER: list[Any] = [
    "mmd-mean-cov",
    "jacobian-diff",
    "mixup",
    "l2-path-norm",
    Sharpness(rows=40, starts=1, steps=3),
]
OUTER = ["entropy-source", "source-error"]
SPEC: dict[str, Any] = {
    "domains": ["0", "30"],
    "rows": 80,
    "source_rows": 90,
    "estimators": ["atc-mc", "doc", "gde", "bbse"],
    "temperature": "both",
    "invariance": ["gaussian"],
    "measures": [*OUTER, *INNER, "h-divergence-ms"],
    "metrics": ["nll", "ece", "adversarial_error_0.001", "adversarial_error_0.02"],
    "draws": 3,
    "seed": 5,
}


class Ran:
    """A finished study with its values by evaluation and name."""

    def __init__(self, study: Study, folder: Path) -> None:
        assert not run(study, folder).failed
        self.plan = plan_study(study)
        with Store.open(folder) as store:
            rows = store.to_table(self.plan.result_keys()).to_pylist()
        self.rows = {(f"{r['model']} on {r['tested_on']}", r["measure"]): r for r in rows}

    def sides(self, each: StudyEvaluation) -> tuple[Model, dict[str, Dataset], Dataset]:
        """Return the model, its source by domain, and its target."""
        source = {unit.rows.domain.name: unit.rows.dataset() for unit in each.sources}
        return each.unit.model.load(), source, each.unit.rows.dataset()

    def check(self, each: StudyEvaluation, name: str, found: Any) -> None:
        row = self.rows[each.name, name]
        assert (row["value"], row["low"], row["high"]) == (found.value, found.low, found.high)


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("networks")
    spec = tiny_pool.train_pool(
        folder / "pool", grid={"stop_at": [9.0]}, domains=["0", ["0", "90"]]
    )
    study = Study.open({**SPEC, "pools": [{"spec": spec, "folder": folder / "pool"}]})
    return Ran(study, folder / "study")


@pytest.fixture(scope="module")
def balls(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(study_tasks.study(), tmp_path_factory.mktemp("balls"))


def predictions_of(model: Model, dataset: Dataset) -> Predictions:
    return predict_dataset(model, dataset)


def test_accuracy_is_the_share_of_correct_rows(networks: Ran) -> None:
    for each in networks.plan.evaluations:
        model, _, target = networks.sides(each)
        right = predictions_of(model, target).correct.mean()
        row = networks.rows[each.name, "doc"]
        assert row["accuracy"] == right
        assert row["n"] == 80
    assert len(networks.plan.evaluations) == 8


def test_estimates_equal_those_of_estimate(networks: Ran) -> None:
    for each in networks.plan.evaluations:
        model, source, target = networks.sides(each)
        known = predictions_of(model, ConcatDataset("source", tuple(source.values())))
        assert each.other_model is not None
        second = predictions_of(each.other_model.model.load(), target)
        for temperature, end in (("fit", ""), (None, " (pre-T)")):
            for name in SPEC["estimators"]:
                expected: Any = temperature
                found = oodometer.estimate(
                    known,
                    predictions_of(model, target),
                    other_models=second,
                    methods=[name],
                    temperature=expected,
                    seed=5,
                )
                networks.check(each, f"{name}{end}", found.estimates[0])
                facts = json.loads(networks.rows[each.name, f"{name}{end}"]["facts"] or "{}")
                assert facts.get("temperature") == found.temperature


def test_metrics_equal_those_of_evaluate(networks: Ran) -> None:
    for each in networks.plan.evaluations[:3]:
        model, _, target = networks.sides(each)
        found = oodometer.evaluate(model, target, metrics=SPEC["metrics"], seed=5)
        for name in SPEC["metrics"]:
            networks.check(each, name, found[name])


def test_measures_equal_those_of_measure(networks: Ran) -> None:
    for each in (networks.plan.evaluations[0], networks.plan.evaluations[-1]):
        model, source, target = networks.sides(each)
        found = oodometer.measure(model, source, target, measures=[*OUTER, *INNER[:-1]], seed=5)
        for name, one in found.items():
            networks.check(each, name, one)
        several = len(source) > 1
        row = networks.rows[each.name, "h-divergence-ms"]
        assert (row["value"] is not None) == several
        assert ("source domains" in (row["reason"] or "")) != several
        # Measures of the training data receive them.
        assert networks.rows[each.name, "sharpness"]["value"] is not None


@pytest.mark.parametrize("kind", ["networks", "balls"])
def test_invariance_values_equal_those_of_invariance(
    kind: str, request: pytest.FixtureRequest
) -> None:
    ran: Ran = request.getfixturevalue(kind)
    seed, transform = 5 if kind == "networks" else 0, "gaussian"
    for each in ran.plan.evaluations[::3]:
        model, _, target = ran.sides(each)
        found = oodometer.invariance(model, target, transform=transform, draws=3, seed=seed)[0]
        for name in ("ni", "ne", "ei", "pa"):
            ran.check(each, f"{name}-{transform}", found.mean_with_interval(name))
        facts = json.loads(ran.rows[each.name, f"ni-{transform}"]["facts"])
        assert facts["entropy_difference"] == found.entropy_difference


def test_missing_second_model_is_a_reason(balls: Ran) -> None:
    for each in balls.plan.evaluations:
        row = balls.rows[each.name, "gde (pre-T)"]
        reason = "no other model of the study differs only in the seed"
        assert (row["value"], row["reason"]) == (None, reason)


def test_models_without_probabilities_have_reasons(tmp_path: Path) -> None:
    models = [study_tasks.model("m", "tests.support.study_tasks:classes_only")]
    ran = Ran(study_tasks.study(models=models), tmp_path)
    each = ran.plan.evaluations[1]
    answered = {
        name
        for (place, name), row in ran.rows.items()
        if place == each.name and row["reason"] is None
    }
    assert {"ni-gaussian", "ne-gaussian", "pa-gaussian", "error", "source-error"} <= answered
    assert "needs probabilities" in ran.rows[each.name, "ei-gaussian"]["reason"]
    assert ran.rows[each.name, "atc-mc"]["reason"]
    _, _, target = ran.sides(each)
    norms = np.linalg.norm(target.take(slice(None)), axis=1)
    assert ran.rows[each.name, "error"]["accuracy"] == 1.0
    assert np.array_equal(norms < 1.0, np.asarray(target.labels))
