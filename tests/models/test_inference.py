"""Predictions of a whole dataset are those of its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood._invariance import invariance
from tests.support.stub_models import ByContent

DATA = np.random.default_rng(0).normal(size=(23, 4))


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("batch", [1, 5, 100])
def test_batches_make_no_difference(batch: int, hard: bool) -> None:
    model = ByContent(hard=hard)
    whole = model.classify(DATA)
    found = predict_dataset(model, as_dataset(DATA), batch_size=batch)
    assert np.array_equal(found.classes, whole.classes)
    assert found.score_type == whole.score_type
    if not hard:
        assert np.array_equal(found.probs, whole.probs)
    assert not found.is_labelled


def test_labels_come_along_by_name() -> None:
    model = as_model(lambda x: np.tile([0.2, 0.8], (len(x), 1)), class_names=["cat", "dog"])
    labels = np.array(["dog", "cat"] * 11 + ["dog"])
    found = predict_dataset(model, as_dataset(DATA, labels=labels), batch_size=4)
    assert found.correct.mean() == pytest.approx(12 / 23)


def test_hard_classes_seen_late_count_too() -> None:
    later = iter([2, 9, 4])
    model = as_model(lambda x: np.full(len(x), next(later)))
    assert predict_dataset(model, as_dataset(DATA), batch_size=10).k == 10


def test_too_few_rows_are_refused_by_name() -> None:
    @dataclass
    class Short:
        name: str = "short"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_classes([0], k=2)

    with pytest.raises(InputError, match="'short' gave 1 rows for 7 inputs"):
        predict_dataset(Short(), as_dataset(DATA), batch_size=7)


def test_labels_beyond_the_classes_that_hard_answers_have_are_wrong_answers() -> None:
    labels = np.arange(23) % 7
    found = predict_dataset(
        as_model(lambda x: np.zeros(len(x), dtype=int)), as_dataset(DATA, labels=labels)
    )
    assert found.k == 7
    assert found.correct.mean() == pytest.approx(4 / 23)


@dataclass
class Changing:
    """Another number of classes, or another form, from the second batch on."""

    hard: bool
    name: str = "changing"
    asked: int = 0

    def classify(self, inputs: Any) -> Predictions:
        self.asked += 1
        if self.hard and self.asked > 1:
            return Predictions.from_classes([0] * len(inputs), k=2)
        return Predictions.from_logits(np.zeros((len(inputs), 1 + self.asked)))


@pytest.mark.parametrize(("hard", "other"), [(False, "of 3 classes"), (True, "classes only")])
def test_a_model_that_changes_between_batches_is_refused(hard: bool, other: str) -> None:
    words = f"'changing' gave probabilities of 2 classes for one batch and .*{other} for another"
    with pytest.raises(InputError, match=words):
        predict_dataset(Changing(hard), as_dataset(DATA), batch_size=10)
    with pytest.raises(InputError, match=words):
        invariance(Changing(hard), DATA, transform="sphere", batch_size=22)


def test_a_temperature_is_kept() -> None:
    @dataclass
    class Warm:
        name: str = "warm"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_logits(inputs).at_temperature(2.5)

    found = predict_dataset(Warm(), as_dataset(DATA), batch_size=10)
    assert np.array_equal(found.confidence, Warm().classify(DATA).confidence)


def test_progress_counts_rows() -> None:
    seen: list[int] = []
    predict_dataset(
        ByContent(), as_dataset(DATA), batch_size=10, progress=lambda a, b, _: seen.append(a)
    )
    assert seen == [10, 20, 23]
