"""Predictions on a whole dataset equal those on one batch, in one process or by workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.inference import predict_dataset, predict_models
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.ranking import rank
from oodometer.parallel import runners
from oodometer.parallel.runners import distributed, processes, serial
from oodometer.testing import toy_inputs
from tests.neighborhood.test_invariance import vectors
from tests.support.distributed_work import Bright, Columns, Words, mailed
from tests.support.stub_models import ByContent

DATA = np.random.default_rng(0).normal(size=(23, 4))
MODELS: dict[InputKind, dict[str, Any]] = {
    "images": {"one": Bright(), "other": Bright("wild", 0.7)},
    "text": {"words": Words(), "hashed": ByContent()},
    "table": {"columns": Columns(), "hard": ByContent(hard=True)},
}


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_batch_size_does_not_change_predictions(batch_size: int, hard: bool) -> None:
    model = ByContent(hard=hard)
    whole = model.classify(DATA)
    predictions = predict_dataset(model, as_dataset(DATA), batch_size=batch_size)
    assert np.array_equal(predictions.classes, whole.classes)
    assert predictions.score_type == whole.score_type
    if not hard:
        assert np.array_equal(predictions.probs, whole.probs)
    assert not predictions.is_labelled


def test_labels_are_matched_by_class_name() -> None:
    model = as_model(lambda x: np.tile([0.2, 0.8], (len(x), 1)), class_names=["cat", "dog"])
    labels = np.array(["dog", "cat"] * 11 + ["dog"])
    predictions = predict_dataset(model, as_dataset(DATA, labels=labels), batch_size=4)
    assert predictions.correct.mean() == pytest.approx(12 / 23)


def test_number_of_hard_classes_is_the_maximum_over_batches() -> None:
    classes = iter([2, 9, 4])
    model = as_model(lambda x: np.full(len(x), next(classes)))
    assert predict_dataset(model, as_dataset(DATA), batch_size=10).k == 10


def test_labels_beyond_the_predicted_hard_classes_extend_the_classes() -> None:
    labels = np.arange(23) % 7
    predictions = predict_dataset(
        as_model(lambda x: np.zeros(len(x), dtype=int)), as_dataset(DATA, labels=labels)
    )
    assert predictions.k == 7
    assert predictions.correct.mean() == pytest.approx(4 / 23)


def test_missing_rows_raise_and_name_the_model() -> None:
    @dataclass
    class Short:
        name: str = "short"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_classes([0], k=2)

    with pytest.raises(InputError, match="'short' returned 1 rows for 7 inputs"):
        predict_dataset(Short(), as_dataset(DATA), batch_size=7)


@dataclass
class Changing:
    """Model with another number of classes, or hard classes, from the second batch on."""

    hard: bool
    name: str = "changing"
    n_calls: int = 0

    def classify(self, inputs: Any) -> Predictions:
        self.n_calls += 1
        if self.hard and self.n_calls > 1:
            return Predictions.from_classes([0] * len(inputs), k=2)
        return Predictions.from_logits(np.zeros((len(inputs), 1 + self.n_calls)))


@pytest.mark.parametrize(("hard", "other"), [(False, "of 3 classes"), (True, "classes only")])
def test_outputs_that_change_form_between_batches_raise(hard: bool, other: str) -> None:
    words = (
        f"'changing' returned probabilities of 2 classes for one batch and .*{other} for another"
    )
    with pytest.raises(InputError, match=words):
        predict_dataset(Changing(hard), as_dataset(DATA), batch_size=10)
    with pytest.raises(InputError, match=words):
        invariance(Changing(hard), DATA, transform="sphere", batch_size=22)


def test_temperature_is_kept() -> None:
    @dataclass
    class Warm:
        name: str = "warm"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_logits(inputs).at_temperature(2.5)

    predictions = predict_dataset(Warm(), as_dataset(DATA), batch_size=10)
    assert np.array_equal(predictions.confidence, Warm().classify(DATA).confidence)


def test_progress_counts_rows() -> None:
    n_done: list[int] = []
    predict_dataset(
        ByContent(), as_dataset(DATA), batch_size=10, progress=lambda a, b, _: n_done.append(a)
    )
    assert n_done == [10, 20, 23]


# Workers ----------------------------------------------------------------------------------------


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the rows into many tasks."""
    monkeypatch.setattr(runners, "MAX_TASK_ROWS", 40)


def to_bytes(predictions: dict[str, Predictions]) -> list[Any]:
    return [
        (name, part.n, part.k, part.classes.tobytes(), np.asarray(part.scores).tobytes(),
         None if part.labels is None else part.labels.tobytes())
        for name, part in predictions.items()
    ]  # fmt: skip


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("batch_size", [None, 1, 7])
@pytest.mark.parametrize("kind", MODELS)
def test_workers_return_the_same_predictions(
    kind: InputKind, batch_size: int | None, labelled: bool
) -> None:
    dataset = as_dataset(toy_inputs(kind, n=45), labels=np.arange(45) % 2)

    def predict(runner: Any) -> list[Any]:
        return to_bytes(
            predict_models(
                MODELS[kind], dataset, labelled=labelled, batch_size=batch_size, runner=runner
            )
        )

    expected = predict(None)
    for runner in (serial, mailed(3)):
        assert predict(runner) == expected


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("runner", [None, mailed(0)])
def test_progress_counts_rows_once_for_all_models(runner: Any) -> None:
    reports: list[tuple[int, int, str]] = []
    predict_models(
        MODELS["text"],
        as_dataset(toy_inputs("text", n=45)),
        batch_size=10,
        runner=runner,
        progress=lambda *report: reports.append(report),
    )
    assert reports == [(n_done, 45, "classifying text") for n_done in (10, 20, 30, 40, 45)]


def source_and_target() -> tuple[Any, Any]:
    data = vectors(90)
    return as_dataset(data[:60], labels=(data[:60, 0] > 0).astype(int)), as_dataset(data[60:])


@pytest.mark.usefixtures("small_tasks")
def test_rankings_by_processes_and_a_cluster_are_equal(two_workers: str) -> None:
    source, target = source_and_target()
    models = {"two": ByContent(k=2), "salted": ByContent(k=2, salt=5)}
    requests: list[dict[str, Any]] = [
        {"score": "atc-mc", "source": source},
        {"score": "pa", "transform": "gaussian", "draws": 2},
        {"score": confidence},
    ]
    for request in requests:
        expected = rank(models, target, batch_size=8, **request)
        for runner in (serial, mailed(1)):
            assert rank(models, target, batch_size=8, runner=runner, **request) == expected
    expected = rank(models, target, batch_size=8, **requests[0])
    for runner in (processes(2), distributed(two_workers)):
        assert rank(models, target, batch_size=8, runner=runner, **requests[0]) == expected


def confidence(predictions: Predictions) -> Any:
    return predictions.confidence


def test_model_that_cannot_be_pickled_is_named() -> None:
    source, target = source_and_target()
    models = {"fine": ByContent(k=2), "mine": lambda x: np.tile([0.5, 0.5], (len(x), 1))}
    with pytest.raises(InputError, match="The model 'mine' cannot be sent to workers"):
        rank(models, target, score="ac", source=source, runner=processes(2))
