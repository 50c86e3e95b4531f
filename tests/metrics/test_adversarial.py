"""Adversarial error: closed form, invariances, notes, and an unchanged model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import wilson_interval
from oodometer.data import as_dataset
from oodometer.metrics import adversarial
from oodometer.metrics._apgd import apgd
from oodometer.metrics.adversarial import AdversarialError
from oodometer.metrics.basic import Error
from oodometer.models import TorchModel, as_model
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView, ViewSource

SIZES = (0.02, 0.1)
# Sizes at which the attack changes some predictions of the toy networks.
RMS = AdversarialError(sizes=SIZES, unit="rms")


def convolutions() -> nn.Sequential:
    """Return a small network with batch norm and dropout, in training mode."""
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5),
        nn.Flatten(), nn.Linear(6 * 36, 4),
    )  # fmt: skip
    for _ in range(5):
        made(3 * torch.rand(16, 3, 8, 8) + 1)
    return made


IMAGES = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
VECTORS = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)


def noisy_labels(module: nn.Module, inputs: Array) -> Ints:
    """Return the predicted classes as labels, with every fifth label changed."""
    labels = as_model(module).classify(inputs).classes.copy()
    labels[::5] = (labels[::5] + 1) % 3
    return labels


def view_of(model: Any, inputs: Any, labels: Any, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", as_dataset(inputs, labels=labels), model, **settings))


def image_view(**settings: Any) -> ModelView:
    net = convolutions()
    return view_of(as_model(net, name="net"), IMAGES, noisy_labels(net, IMAGES), **settings)


def linear() -> nn.Linear:
    torch.manual_seed(2)
    return nn.Linear(5, 3)


# Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.05, 0.3, 1.0])
@pytest.mark.parametrize(("unit", "factor"), [("l2", 1.0), ("rms", math.sqrt(5))])
def test_linear_model_matches_its_margins(size: float, unit: Any, factor: float) -> None:
    """Two classes: a row flips if its distance to the boundary is below the radius."""
    torch.manual_seed(3)
    net = nn.Linear(5, 2)
    view = view_of(as_model(net), VECTORS, noisy_labels(net, VECTORS) % 2)
    weights, offsets = net.weight.detach().numpy(), net.bias.detach().numpy()
    logits = VECTORS @ weights.T + offsets
    signs = np.where(view.labels == 1, 1, -1)
    margins = signs * (logits[:, 1] - logits[:, 0]) / np.linalg.norm(weights[1] - weights[0])
    assert np.abs(margins - size * factor).min() > 1e-4
    score = AdversarialError(sizes=(size,), unit=unit).evaluate(view)
    assert score.value == pytest.approx(np.mean(margins < size * factor))
    assert score.facts["error"] == pytest.approx(np.mean(margins < 0))


def test_value_matches_a_loop_over_rows() -> None:
    view = image_view()
    module = convolutions().eval()
    wrong = []
    for image, label in zip(IMAGES, view.labels, strict=True):
        point = torch.tensor(image / 255, dtype=torch.float32).permute(2, 0, 1)[None]
        known, fooled = torch.tensor([int(label)]), []
        for size in SIZES:
            radius = size * math.sqrt(8 * 8 * 3)
            end = apgd(module, point, known, radius=radius, steps=20, box=(0.0, 1.0))
            fooled.append(int(module(end).argmax()) != int(label))
        wrong.append(fooled)
    score = RMS.evaluate(view)
    assert [score.facts["error_at_0.02"], score.facts["error_at_0.1"]] == pytest.approx(
        np.mean(wrong, axis=0)
    )
    assert score.value == pytest.approx(np.mean(wrong))
    assert (score.low, score.high) == pytest.approx(wilson_interval(40 * score.value, 40))
    assert score.notes == ()


def test_both_units_describe_the_same_attack() -> None:
    view, d = image_view(), 8 * 8 * 3
    first = RMS.evaluate(view)
    lengths = tuple(size * math.sqrt(d) for size in SIZES)
    second = AdversarialError(sizes=lengths, unit="l2").evaluate(view)
    assert (first.value, first.low, first.high) == (second.value, second.low, second.high)


def test_defaults_are_the_printed_radii() -> None:
    assert AdversarialError() == AdversarialError(sizes=(0.001, 0.02), unit="l2")


def test_sizes_are_separate_metrics_with_the_values_of_the_mean() -> None:
    """A size alone has the rate of the joint metric, because larger attacks find every error."""
    joint = RMS.evaluate(image_view())
    single = [AdversarialError(sizes=(size,), unit="rms") for size in SIZES]
    assert [metric.name for metric in single] == ["adversarial_error_0.02", "adversarial_error_0.1"]
    values = [metric.evaluate(image_view()).value for metric in single]
    assert values == [joint.facts["error_at_0.02"], joint.facts["error_at_0.1"]]
    assert values[0] < values[1]
    assert joint.value == pytest.approx(np.mean(values))


def test_metrics_of_one_view_share_the_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    radii: list[float] = []

    def counting_apgd(*arguments: Any, radius: float, **options: Any) -> Any:
        radii.append(radius)
        return apgd(*arguments, radius=radius, **options)

    monkeypatch.setattr(adversarial, "apgd", counting_apgd)
    view = image_view()
    for sizes in ((0.3, 0.5), (0.5,), (0.3,), (0.7,)):
        AdversarialError(sizes=sizes).evaluate(view)
    AdversarialError(sizes=(0.3,), steps=5).evaluate(view)
    assert radii == [0.3, 0.5, 0.7, 0.3]


# Invariances ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.floats(0.001, 0.5), st.floats(0.001, 0.5))
@settings(max_examples=20)
def test_error_increases_with_the_size(seed: int, first: float, second: float) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    labels = np.random.default_rng(seed).integers(0, 3, 60)
    view = view_of(as_model(net), VECTORS, labels)
    score = AdversarialError(sizes=(first, second), steps=5).evaluate(view)
    low, high = (score.facts[f"error_at_{size:g}"] for size in sorted((first, second)))
    assert Error().evaluate(view).value == score.facts["error"] <= low <= high
    assert score.value == pytest.approx((low + high) / 2)


def test_order_and_batch_size_do_not_matter() -> None:
    net = convolutions()
    labels = noisy_labels(net, IMAGES)
    order = np.random.default_rng(0).permutation(40)
    whole = RMS.evaluate(view_of(as_model(net), IMAGES, labels))
    others = (
        RMS.evaluate(view_of(as_model(net), IMAGES, labels)),
        AdversarialError(sizes=SIZES[::-1], unit="rms").evaluate(
            view_of(as_model(net), IMAGES, labels)
        ),
        RMS.evaluate(view_of(as_model(net), IMAGES[order], labels[order])),
        RMS.evaluate(view_of(as_model(net, batch_size=7), IMAGES, labels)),
    )
    assert 0 < whole.facts["error"] < whole.value < 1
    assert all(first == whole for first in others)


def test_reading_in_batches_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RMS.evaluate(image_view())
    monkeypatch.setattr(adversarial, "DEFAULT_BATCH_ROWS", 9)
    assert RMS.evaluate(image_view()) == whole


def test_normalisation_is_part_of_the_attacked_model() -> None:
    """Normalisation inside the network or in the adapter gives the same attack."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = convolutions().eval()

        def forward(self, x: Tensor) -> Tensor:
            score: Tensor = self.inner((x - 0.4) / 0.2)
            return score

    settings: dict[str, Any] = {"mean": [0.4] * 3, "std": [0.2] * 3}
    labels = noisy_labels(Scaled(), IMAGES)
    inside = view_of(as_model(Scaled()), IMAGES, labels)
    outside = view_of(TorchModel(convolutions(), **settings), IMAGES, labels)
    first, second = (
        AdversarialError(sizes=(0.01,), unit="rms").evaluate(view) for view in (inside, outside)
    )
    assert first.value == second.value > first.facts["error"]


def test_probability_outputs_are_attacked_like_logits() -> None:
    net = nn.Sequential(linear(), nn.Softmax(dim=1))
    labels = noisy_labels(linear(), VECTORS)
    probs = view_of(as_model(net, outputs="probs"), VECTORS, labels)
    logits = view_of(as_model(linear()), VECTORS, labels)
    first, second = (RMS.evaluate(view) for view in (probs, logits))
    assert first == second


@dataclass
class ReorderedModel:
    """Model with another class order than its network."""

    inner: TorchModel
    order: tuple[str, ...]
    name: str = "reordered"

    def reorder(self, outputs: Predictions) -> Predictions:
        return replace(outputs, class_names=("ant", "bee", "cat")).reorder_classes(self.order)

    def classify(self, inputs: Any) -> Predictions:
        return self.reorder(self.inner.classify(inputs))

    def torch_network(self) -> Network:
        network = self.inner.torch_network()
        return replace(network, to_predictions=lambda v: self.reorder(network.to_predictions(v)))


@pytest.mark.parametrize("order", [("cat", "ant", "bee"), ("bee", "ant", "cat")])
def test_class_order_does_not_matter(order: tuple[str, ...]) -> None:
    inner = as_model(linear())
    assert isinstance(inner, TorchModel)
    labels = noisy_labels(linear(), VECTORS)
    plain = RMS.evaluate(view_of(inner, VECTORS, labels))
    names = np.array(["ant", "bee", "cat"])[labels]
    assert RMS.evaluate(view_of(ReorderedModel(inner, order), VECTORS, names)) == plain


# Notes ---------------------------------------------------------------------------------------


def test_rows_are_subsampled_by_content() -> None:
    net = convolutions()
    labels = noisy_labels(net, IMAGES)
    order = np.random.default_rng(0).permutation(40)
    metric = AdversarialError(sizes=SIZES, unit="rms", rows=15)
    first = metric.evaluate(view_of(as_model(net), IMAGES, labels))
    second = metric.evaluate(view_of(as_model(net), IMAGES[order], labels[order]))
    assert first == second
    assert first.facts["rows"] == 15
    assert first.notes == ("only 15 of 40 rows were attacked, drawn at random",)


def test_inputs_other_than_pixels_are_noted() -> None:
    score = AdversarialError().evaluate(
        view_of(as_model(linear()), VECTORS, noisy_labels(linear(), VECTORS))
    )
    assert score.notes == (
        "inputs are not pixels in [0, 1], so sizes are in the unit of the inputs",
    )


def test_rows_without_gradient_are_noted() -> None:
    """Rounded inputs have no gradient, so an unchanged error says nothing about robustness."""

    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear()

        def forward(self, x: Tensor) -> Tensor:
            score: Tensor = self.inner(x.round())
            return score

    score = RMS.evaluate(view_of(as_model(Rounded()), VECTORS, noisy_labels(Rounded(), VECTORS)))
    assert score.value == score.facts["error"] == pytest.approx(12 / 60)
    assert score.notes[-1] == "48 rows were not moved: their gradient is 0 or misleading"


def test_progress_is_reported() -> None:
    reports: list[tuple[int, int, str]] = []
    view = image_view()
    _ = view.outputs
    reporting_view = ModelView(
        replace(view.view_source, progress=lambda *noisy_labels: reports.append(noisy_labels))
    )
    AdversarialError(sizes=(0.01,), steps=1).evaluate(reporting_view)
    assert reports[-1] == (40, 40, "attacking toy")


def test_network_is_unchanged() -> None:
    view = image_view()
    network = view.network.module
    before = {name: part.clone() for name, part in network.state_dict().items()}
    RMS.evaluate(view)
    assert all(torch.equal(part, before[name]) for name, part in network.state_dict().items())
    assert all(part.grad is None and part.requires_grad for part in network.parameters())
    assert not any(part.training for part in network.modules())


# Errors --------------------------------------------------------------------------------------


def test_function_models_are_not_applicable() -> None:
    model = as_model(lambda inputs: np.full((len(inputs), 2), 0.5), name="half")
    with pytest.raises(NotApplicable, match="only torch modules and Hugging Face folders"):
        AdversarialError().evaluate(view_of(model, VECTORS, np.zeros(60, dtype=int)))


def test_text_models_are_not_applicable() -> None:
    def ids(texts: list[str]) -> Array:
        return np.array([[len(text) % 7, 1] for text in texts])

    net = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(8, 2))
    model = as_model(net, prepare=ids)
    with pytest.raises(NotApplicable, match="takes tokens or several tensors"):
        AdversarialError().evaluate(view_of(model, ["one", "two", "three"], [0, 1, 0]))


def test_model_and_labels_are_required() -> None:
    outputs = Predictions.from_probs([[0.9, 0.1]], labels=[0])
    with pytest.raises(NotApplicable, match="it needs gradients: no model was given"):
        AdversarialError().evaluate(ModelView(ViewSource("toy", outputs=outputs)))
    with pytest.raises(NotApplicable, match="it needs labels"):
        AdversarialError().evaluate(image_view(labelled=False))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": ()}, r"sizes must be one or more finite numbers above 0; got \(\)\."),
        (
            {"sizes": (0.1, 0.0)},
            r"sizes must be one or more finite numbers above 0; got \(0\.1, 0\.0\)",
        ),
        ({"sizes": (math.nan,)}, r"got \(nan,\)"),
        ({"steps": 0}, r"steps must be at least 1; got 0\."),
        ({"rows": 0}, r"rows must be at least 1; got 0\."),
        ({"unit": "linf"}, r"unit must be l2 or rms; got 'linf'\."),
    ],
)
def test_invalid_settings_raise(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AdversarialError(**settings)
