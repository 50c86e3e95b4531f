"""evaluate(): metrics on data as they are and as they are after corruption."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import oodometer
from oodometer import metrics
from oodometer.draws import Draws
from oodometer.errors import InputError, NoAnswer
from oodometer.evaluation import chosen, evaluate
from oodometer.metrics.corruption import Corruption
from oodometer.models import TorchModel
from oodometer.predictions import Predictions

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 12, 12, 3), dtype=np.uint8)
LABELS = np.random.default_rng(1).integers(0, 3, 40)
DATA = oodometer.as_dataset(IMAGES, labels=LABELS, name="tiles")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 3)
    )


def model() -> TorchModel:
    return TorchModel(network(), name="net")


def test_all_metrics_of_a_network() -> None:
    found = evaluate(model(), DATA)
    assert list(found.scores) == [member.name for member in metrics.every()]
    assert not found.refused
    said = model().classify(IMAGES)
    assert found["error"].value == pytest.approx(np.mean(said.classes != LABELS))
    assert found["adversarial_error"].value >= found["error"].value
    assert (found.model, found.data, found.n) == ("net", "tiles", 40)


def test_a_model_that_can_not_be_attacked_has_all_but_that() -> None:
    closed = oodometer.as_model(lambda rows: model().classify(rows).probs, name="closed")
    found = evaluate(closed, DATA)
    assert list(found.refused) == ["adversarial_error"]
    assert "'closed' is a FunctionModel" in found.refused["adversarial_error"]
    with pytest.raises(NoAnswer, match="adversarial_error gave no answer"):
        _ = found["adversarial_error"]
    with pytest.raises(NoAnswer, match="adversarial_error has no answer"):
        evaluate(closed, DATA, metrics="adversarial_error")


def test_outputs_alone() -> None:
    said = Predictions.from_logits(np.eye(3)[LABELS] * 2, labels=LABELS)
    found = evaluate(None, said)
    assert found["error"].value == 0
    assert found.model is None
    assert set(found.refused) == {"adversarial_error", "demographic_disparity"}


def test_hard_classes_have_error_and_f1_and_say_why_not_more() -> None:
    hard = Predictions.from_classes(LABELS, k=3, labels=LABELS[::-1])
    found = evaluate(None, hard)
    assert {"error", "f1", "balanced_accuracy"} <= set(found.scores)
    assert {"nll", "ece", "auroc"} <= set(found.refused)


def test_after_a_corruption_as_a_loop_over_changed_images_says() -> None:
    found = evaluate(model(), DATA, corrupt=["fog-2", "gaussian_noise-5"], seed=7)
    assert [one.corruption for one in found.corrupted] == [
        Corruption("fog", 2), Corruption("gaussian_noise", 5),
    ]  # fmt: skip
    errors = []
    for one in found.corrupted:
        draws = Draws(7, DATA.keys, np.ones(40, dtype=np.int64))
        said = model().classify(one.corruption.apply(IMAGES, draws))
        errors.append(float(np.mean(said.classes != LABELS)))
        assert one.scores["error"].value == pytest.approx(errors[-1])
        assert "adversarial_error" not in one.scores
    assert found.under_corruption["error"] == pytest.approx(np.mean(errors))
    assert found["error"].value == evaluate(model(), DATA)["error"].value


def test_a_group_is_all_its_members_at_five_severities() -> None:
    found = evaluate(model(), DATA, metrics=["error"], corrupt="blur")
    assert len(found.corrupted) == 20
    assert {one.corruption.group for one in found.corrupted} == {"blur"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"metrics": []}, "No metric was named"),
        ({"metrics": "errors"}, "No metric is called 'errors'. Did you mean 'error'"),
        ({"corrupt": "fogg"}, "No corruption is called 'fogg'. Did you mean 'fog'"),
        ({"corrupt": "fog-9"}, "severity of fog must be a whole number from 1 to 5"),
    ],
)
def test_what_can_not_be_used_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        evaluate(model(), DATA, **settings)


def test_corruptions_are_of_images() -> None:
    said = Predictions.from_probs([[0.4, 0.6]], labels=[0])
    with pytest.raises(InputError, match="these data are outputs"):
        evaluate(None, said, corrupt="fog")
    vectors = oodometer.as_dataset(np.ones((3, 2)), labels=[0, 1, 1])
    with pytest.raises(InputError, match="these data are vectors"):
        evaluate(lambda rows: np.full((len(rows), 2), 0.5), vectors, corrupt="fog")


def test_data_without_labels_have_no_metric() -> None:
    found = evaluate(model(), IMAGES)
    assert not found.scores
    assert set(found.refused.values()) == {"it needs labels: 'data' has no labels"}


def test_it_prints_and_goes_into_json() -> None:
    found = evaluate(model(), DATA, metrics=["error", "f1"], corrupt="jpeg-1")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["metrics"][0]["metric"] == "error"
    assert plain["metrics"][1]["by_class"].keys() == {"0", "1", "2"}
    assert plain["corrupted"][0]["corruption"] == "jpeg"
    assert plain["corrupted"][0]["severity"] == 1
    assert str(found).startswith("error  ")
    assert "corrupted" in str(found)


def test_a_metric_is_taken_once_and_by_any_spelling() -> None:
    assert [one.name for one in chosen(["NLL", "nll", "Balanced-Accuracy"])] == [
        "nll", "balanced_accuracy",
    ]  # fmt: skip


def test_progress_is_told_corruption_by_corruption() -> None:
    told: list[tuple[int, int, str]] = []
    evaluate(
        model(), DATA, metrics=["error"], corrupt=["fog-1", "fog-2"],
        progress=lambda done, total, what: told.append((done, total, what)),
    )  # fmt: skip
    assert told[-2:] == [(0, 2, "fog 1"), (1, 2, "fog 2")]
