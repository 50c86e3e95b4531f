"""evaluate(): metrics on data as they are and as they are after corruption."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import oodometer
from oodometer import metrics
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Need
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Score
from oodometer.metrics._evaluate import evaluate
from oodometer.models import TorchModel
from oodometer.models.model_view import ModelView
from oodometer.transforms.corruptions import Corruption

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 12, 12, 3), dtype=np.uint8)
LABELS = np.random.default_rng(1).integers(0, 3, 40)
DATA = oodometer.as_dataset(IMAGES, labels=LABELS, name="tiles")


@dataclass(frozen=True)
class Fickle:
    """Has no answer at one severity; 0 is the data as they are."""

    name: str
    refuses: int = -1
    needs: tuple[Need, ...] = ("outputs", "labels")
    label: str = "Fickle"
    assumes: str = "nothing"
    paper: str = "none"

    def evaluate(self, view: ModelView) -> Score:
        change: Any = getattr(view.view_source.dataset, "transform", None)
        severity = 0 if change is None else change.severity
        if severity == self.refuses:
            raise NotApplicable("not at this severity")
        return Score(severity)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 3)
    )


def model() -> TorchModel:
    return TorchModel(network(), name="net")


def test_all_metrics_of_a_network() -> None:
    found = evaluate(model(), DATA)
    assert list(found.scores) == [member.name for member in metrics.available()]
    assert not found.skipped
    said = model().classify(IMAGES)
    assert found["error"].value == pytest.approx(np.mean(said.classes != LABELS))
    assert found["adversarial_error"].value >= found["error"].value
    assert (found.model, found.data, found.n) == ("net", "tiles", 40)


def test_a_model_that_can_not_be_attacked_has_all_but_that() -> None:
    closed = oodometer.as_model(lambda rows: model().classify(rows).probs, name="closed")
    found = evaluate(closed, DATA)
    assert list(found.skipped) == ["adversarial_error"]
    assert "'closed' is a FunctionModel" in found.skipped["adversarial_error"]
    with pytest.raises(NotApplicable, match="adversarial_error is not applicable"):
        _ = found["adversarial_error"]
    with pytest.raises(NotApplicable, match="adversarial_error is not applicable"):
        evaluate(closed, DATA, metrics="adversarial_error")


def test_outputs_alone() -> None:
    said = Predictions.from_logits(np.eye(3)[LABELS] * 2, labels=LABELS)
    found = evaluate(None, said)
    assert found["error"].value == 0
    assert found.model is None
    assert set(found.skipped) == {"adversarial_error", "demographic_disparity"}


def test_hard_classes_have_error_and_f1_and_say_why_not_more() -> None:
    hard = Predictions.from_classes(LABELS, k=3, labels=LABELS[::-1])
    found = evaluate(None, hard)
    assert {"error", "f1", "balanced_accuracy"} <= set(found.scores)
    assert {"nll", "ece", "auroc"} <= set(found.skipped)


def test_after_a_corruption_as_a_loop_over_changed_images_says() -> None:
    found = evaluate(model(), DATA, corruptions=["fog-2", "gaussian_noise-5"], seed=7)
    assert [one.corruption for one in found.by_corruption] == [
        Corruption("fog", 2), Corruption("gaussian_noise", 5),
    ]  # fmt: skip
    errors = []
    for one in found.by_corruption:
        draws = RowStreams(7, DATA.keys, np.ones(40, dtype=np.int64))
        said = model().classify(one.corruption.apply(IMAGES, draws))
        errors.append(float(np.mean(said.classes != LABELS)))
        assert one.scores["error"].value == pytest.approx(errors[-1])
        assert "adversarial_error" not in one.scores
    assert found.mean_under_corruption["error"] == pytest.approx(np.mean(errors))
    assert found["error"].value == evaluate(model(), DATA)["error"].value


def test_a_group_is_all_its_members_at_five_severities() -> None:
    found = evaluate(model(), DATA, metrics=["error"], corruptions="blur")
    assert len(found.by_corruption) == 20
    assert {one.corruption.group for one in found.by_corruption} == {"blur"}


def test_a_metric_without_an_answer_has_no_mean_and_one_without_a_score_is_not_corrupted() -> None:
    asked: list[Any] = ["error", Fickle("often"), Fickle("early", 2), Fickle("late", 0)]
    found = evaluate(model(), DATA, metrics=asked, corruptions=["fog-1", "fog-2", "fog-1"])
    assert list(found.scores) == ["error", "often", "early"]
    assert found.skipped == {"late": "not at this severity"}
    assert [list(one.scores) for one in found.by_corruption] == [
        ["error", "often", "early"], ["error", "often"],
    ]  # fmt: skip
    assert list(found.mean_under_corruption) == ["error", "often"]
    assert found.mean_under_corruption["often"] == 1.5
    lines = str(found).splitlines()
    assert lines[1:] == [
        "often    0.0000  corrupted 1.5000", "early    0.0000", "late   not applicable: not at this severity",
    ]  # fmt: skip


def test_every_need_is_looked_for() -> None:
    found = evaluate(model(), IMAGES, metrics=[Fickle("fickle")])
    assert found.skipped == {"fickle": "it needs labels: 'data' has no labels"}
    assert str(found) == "fickle  not applicable: it needs labels: 'data' has no labels"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"metrics": []}, "No metric was named"),
        ({"metrics": "errors"}, "No metric is called 'errors'. Did you mean 'error'"),
        ({"corruptions": "fogg"}, "No corruption is called 'fogg'. Did you mean 'fog'"),
        ({"corruptions": "fog-9"}, "severity of fog must be a whole number from 1 to 5"),
    ],
)
def test_what_can_not_be_used_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        evaluate(model(), DATA, **settings)


def test_corruptions_are_of_images() -> None:
    said = Predictions.from_probs([[0.4, 0.6]], labels=[0])
    with pytest.raises(InputError, match="these data are outputs"):
        evaluate(None, said, corruptions="fog")
    vectors = oodometer.as_dataset(np.ones((3, 2)), labels=[0, 1, 1])
    with pytest.raises(InputError, match="these data are vectors"):
        evaluate(lambda rows: np.full((len(rows), 2), 0.5), vectors, corruptions="fog")


def test_data_without_labels_have_no_metric() -> None:
    found = evaluate(model(), IMAGES)
    assert not found.scores
    assert set(found.skipped.values()) == {"it needs labels: 'data' has no labels"}


def test_it_prints_and_goes_into_json() -> None:
    asked: list[Any] = ["error", "f1", Fickle("late", 0)]
    found = evaluate(model(), DATA, metrics=asked, corruptions="jpeg-2", seed=4)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["metrics"][0]["metric"] == "error"
    assert plain["metrics"][1]["by_class"].keys() == {"0", "1", "2"}
    assert plain["corrupted"][0]["corruption"] == "jpeg"
    assert plain["corrupted"][0]["severity"] == 2
    after = found.by_corruption[0].scores
    assert [row["metric"] for row in plain["corrupted"][0]["metrics"]] == ["error", "f1"]
    assert plain["corrupted"][0]["metrics"][0]["value"] == after["error"].value
    assert plain["under_corruption"] == {name: one.value for name, one in after.items()}
    assert plain["skipped"] == [{"metric": "late", "reason": "not at this severity"}]
    assert [plain[key] for key in ("model", "data", "n", "seed")] == ["net", "tiles", 40, 4]
    assert str(found).startswith("error  ")
    assert "corrupted" in str(found)


def test_a_metric_is_taken_once_and_by_any_spelling() -> None:
    outputs = Predictions.from_logits(np.eye(3), labels=[0, 1, 2])
    result = evaluate(None, outputs, metrics=["NLL", "nll", "Balanced-Accuracy"])
    assert list(result.scores) == ["nll", "balanced_accuracy"]


def test_progress_is_told_corruption_by_corruption() -> None:
    told: list[tuple[int, int, str]] = []
    evaluate(
        model(), DATA, metrics=["error"], corruptions=["fog-1", "fog-2"],
        progress=lambda done, total, what: told.append((done, total, what)),
    )  # fmt: skip
    assert told[-2:] == [(0, 2, "fog 1"), (1, 2, "fog 2")]


def test_a_metric_of_ones_own_may_be_given_alone() -> None:
    assert set(evaluate(network(), DATA, metrics=Fickle("own")).scores) == {"own"}
    with pytest.raises(NotApplicable, match="own is not applicable: not at this severity"):
        evaluate(network(), DATA, metrics=Fickle("own", refuses=0))


def test_features_are_taken_for_a_metric_that_needs_them() -> None:
    @dataclass(frozen=True)
    class Wide(Fickle):
        needs: tuple[Need, ...] = ("features",)

        def evaluate(self, view: ModelView) -> Score:
            return Score(view.features.shape[1])

    model = TorchModel(nn.Sequential(nn.Flatten(), nn.Linear(432, 3)))
    assert evaluate(model, DATA, metrics=[Wide("wide"), "error"])["wide"].value == 432


def test_no_corruption_is_not_the_same_as_none() -> None:
    with pytest.raises(InputError, match=r"No corruption was named\. Name one, such as fog"):
        evaluate(network(), DATA, corruptions=[])
