"""evaluate(): metrics on the original data and after corruptions."""

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
class BySeverity:
    """Severity of the corruption (0 for none); NotApplicable at one severity."""

    name: str
    fails_at: int = -1
    needs: tuple[Need, ...] = ("outputs", "labels")
    label: str = "By-severity"
    assumes: str = "nothing"
    paper: str = "none"

    def evaluate(self, view: ModelView) -> Score:
        change: Any = getattr(view.view_source.dataset, "transform", None)
        severity = 0 if change is None else change.severity
        if severity == self.fails_at:
            raise NotApplicable("not at this severity")
        return Score(severity)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 3)
    )


ATTACKS = {"adversarial_error", "adversarial_error_0.001", "adversarial_error_0.02"}


def model() -> TorchModel:
    return TorchModel(network(), name="net")


def test_all_metrics_of_a_network() -> None:
    result = evaluate(model(), DATA)
    assert list(result.scores) == [member.name for member in metrics.available()]
    assert not result.skipped
    outputs = model().classify(IMAGES)
    assert result["error"].value == pytest.approx(np.mean(outputs.classes != LABELS))
    assert result["adversarial_error"].value >= result["error"].value
    assert (result.model, result.data, result.n) == ("net", "tiles", 40)


def test_function_models_lack_only_the_adversarial_error() -> None:
    function_model = oodometer.as_model(lambda rows: model().classify(rows).probs, name="closed")
    result = evaluate(function_model, DATA)
    assert set(result.skipped) == ATTACKS
    assert "'closed' is a FunctionModel" in result.skipped["adversarial_error"]
    with pytest.raises(NotApplicable, match="adversarial_error is not applicable"):
        _ = result["adversarial_error"]
    with pytest.raises(NotApplicable, match="adversarial_error is not applicable"):
        evaluate(function_model, DATA, metrics="adversarial_error")


def test_outputs_need_no_model() -> None:
    outputs = Predictions.from_logits(np.eye(3)[LABELS] * 2, labels=LABELS)
    result = evaluate(None, outputs)
    assert result["error"].value == 0
    assert result.model is None
    assert set(result.skipped) == {*ATTACKS, "demographic_disparity"}


def test_hard_classes_skip_metrics_that_need_probabilities() -> None:
    hard = Predictions.from_classes(LABELS, k=3, labels=LABELS[::-1])
    result = evaluate(None, hard)
    assert {"error", "f1", "balanced_accuracy"} <= set(result.scores)
    assert {"nll", "ece", "auroc"} <= set(result.skipped)


def test_corrupted_scores_match_a_loop_over_corrupted_images() -> None:
    result = evaluate(model(), DATA, corruptions=["fog-2", "gaussian_noise-5"], seed=7)
    assert [entry.corruption for entry in result.by_corruption] == [
        Corruption("fog", 2), Corruption("gaussian_noise", 5),
    ]  # fmt: skip
    errors = []
    for entry in result.by_corruption:
        draws = RowStreams(7, DATA.keys, np.ones(40, dtype=np.int64))
        outputs = model().classify(entry.corruption.apply(IMAGES, draws))
        errors.append(float(np.mean(outputs.classes != LABELS)))
        assert entry.scores["error"].value == pytest.approx(errors[-1])
        assert not ATTACKS & set(entry.scores)
    assert result.mean_under_corruption["error"] == pytest.approx(np.mean(errors))
    assert result["error"].value == evaluate(model(), DATA)["error"].value


def test_corruption_group_has_all_members_at_five_severities() -> None:
    result = evaluate(model(), DATA, metrics=["error"], corruptions="blur")
    assert len(result.by_corruption) == 25
    assert {entry.corruption.group for entry in result.by_corruption} == {"blur"}


def test_severities_select_the_scale_of_the_corruptions() -> None:
    published, relative = (
        evaluate(model(), DATA, metrics=["nll"], corruptions="fog-4", severities=severities)
        for severities in ("published", "relative")
    )
    assert relative.by_corruption[0].corruption == Corruption("fog", 4, "relative")
    assert relative.to_dict()["corrupted"][0]["severities"] == "relative"
    assert published.mean_under_corruption != relative.mean_under_corruption
    with pytest.raises(InputError, match="severities must be published or relative; got 'own'"):
        evaluate(model(), DATA, metrics=["nll"], severities="own")  # type: ignore[arg-type]


def test_means_need_scores_at_every_corruption() -> None:
    requested: list[Any] = [
        "error",
        BySeverity("often"),
        BySeverity("early", 2),
        BySeverity("late", 0),
    ]
    result = evaluate(model(), DATA, metrics=requested, corruptions=["fog-1", "fog-2", "fog-1"])
    assert list(result.scores) == ["error", "often", "early"]
    assert result.skipped == {"late": "not at this severity"}
    assert [list(entry.scores) for entry in result.by_corruption] == [
        ["error", "often", "early"], ["error", "often"],
    ]  # fmt: skip
    assert list(result.mean_under_corruption) == ["error", "often"]
    assert result.mean_under_corruption["often"] == 1.5
    lines = str(result).splitlines()
    assert lines[1:] == [
        "often    0.0000  corrupted 1.5000", "early    0.0000", "late   not applicable: not at this severity",
    ]  # fmt: skip


def test_missing_needs_are_reported() -> None:
    result = evaluate(model(), IMAGES, metrics=[BySeverity("custom")])
    assert result.skipped == {"custom": "it needs labels: 'data' has no labels"}
    assert str(result) == "custom  not applicable: it needs labels: 'data' has no labels"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": []}, "No metric was named"),
        ({"metrics": "errors"}, "No metric is called 'errors'. Did you mean 'error'"),
        ({"corruptions": "fogg"}, "No corruption is called 'fogg'. Did you mean 'fog'"),
        ({"corruptions": "fog-9"}, "severity of fog must be a whole number from 1 to 5"),
    ],
)
def test_invalid_arguments_raise(settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(model(), DATA, **settings)


def test_corruptions_need_images() -> None:
    outputs = Predictions.from_probs([[0.4, 0.6]], labels=[0])
    with pytest.raises(InputError, match="these data are model outputs"):
        evaluate(None, outputs, corruptions="fog")
    vectors = oodometer.as_dataset(np.ones((3, 2)), labels=[0, 1, 1])
    with pytest.raises(InputError, match="these data are vectors"):
        evaluate(lambda rows: np.full((len(rows), 2), 0.5), vectors, corruptions="fog")


def test_data_without_labels_have_no_scores() -> None:
    result = evaluate(model(), IMAGES)
    assert not result.scores
    assert set(result.skipped.values()) == {"it needs labels: 'data' has no labels"}


def test_result_prints_and_converts_to_json() -> None:
    requested: list[Any] = ["error", "f1", BySeverity("late", 0)]
    result = evaluate(model(), DATA, metrics=requested, corruptions="jpeg-2", seed=4)
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["metrics"][0]["metric"] == "error"
    assert data["metrics"][1]["by_class"].keys() == {"0", "1", "2"}
    assert data["corrupted"][0]["corruption"] == "jpeg"
    assert data["corrupted"][0]["severity"] == 2
    corrupted = result.by_corruption[0].scores
    assert [row["metric"] for row in data["corrupted"][0]["metrics"]] == ["error", "f1"]
    assert data["corrupted"][0]["metrics"][0]["value"] == corrupted["error"].value
    assert data["under_corruption"] == {name: entry.value for name, entry in corrupted.items()}
    assert data["skipped"] == [{"metric": "late", "reason": "not at this severity"}]
    assert [data[key] for key in ("model", "data", "n", "seed")] == ["net", "tiles", 40, 4]
    assert str(result).startswith("error  ")
    assert "corrupted" in str(result)


def test_metric_names_are_normalised_and_deduplicated() -> None:
    outputs = Predictions.from_logits(np.eye(3), labels=[0, 1, 2])
    result = evaluate(None, outputs, metrics=["NLL", "nll", "Balanced-Accuracy"])
    assert list(result.scores) == ["nll", "balanced_accuracy"]


def test_progress_is_reported_per_corruption() -> None:
    reports: list[tuple[int, int, str]] = []
    evaluate(
        model(), DATA, metrics=["error"], corruptions=["fog-1", "fog-2"],
        progress=lambda done, total, what: reports.append((done, total, what)),
    )  # fmt: skip
    assert reports[-2:] == [(0, 2, "fog 1"), (1, 2, "fog 2")]


def test_custom_metrics_are_accepted() -> None:
    assert set(evaluate(network(), DATA, metrics=BySeverity("own")).scores) == {"own"}
    with pytest.raises(NotApplicable, match="own is not applicable: not at this severity"):
        evaluate(network(), DATA, metrics=BySeverity("own", fails_at=0))


def test_features_are_extracted_if_needed() -> None:
    @dataclass(frozen=True)
    class FeatureWidth(BySeverity):
        needs: tuple[Need, ...] = ("features",)

        def evaluate(self, view: ModelView) -> Score:
            return Score(view.features.shape[1])

    model = TorchModel(nn.Sequential(nn.Flatten(), nn.Linear(432, 3)))
    assert evaluate(model, DATA, metrics=[FeatureWidth("wide"), "error"])["wide"].value == 432


def test_empty_list_of_corruptions_raises() -> None:
    with pytest.raises(InputError, match=r"No corruption was named\. Name one, such as fog"):
        evaluate(network(), DATA, corruptions=[])
