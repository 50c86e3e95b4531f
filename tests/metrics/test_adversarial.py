"""Adversarial error: a closed form, laws, what is told of it, and a model left as it was."""

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


def convolutions() -> nn.Sequential:
    """Small, with statistics and dropout that matter, left in training mode."""
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


def told(module: nn.Module, inputs: Array) -> Ints:
    """What a module says of inputs, with every fifth label turned into another class."""
    labels = as_model(module).classify(inputs).classes.copy()
    labels[::5] = (labels[::5] + 1) % 3
    return labels


def seen(model: Any, inputs: Any, labels: Any, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", as_dataset(inputs, labels=labels), model, **settings))


def of_images(**settings: Any) -> ModelView:
    net = convolutions()
    return seen(as_model(net, name="net"), IMAGES, told(net, IMAGES), **settings)


def linear() -> nn.Linear:
    torch.manual_seed(2)
    return nn.Linear(5, 3)


# What it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.05, 0.3, 1.0])
def test_a_linear_model_by_its_margins(size: float) -> None:
    """Two classes: a row flips where its distance to the boundary is less than size · √d."""
    torch.manual_seed(3)
    net = nn.Linear(5, 2)
    view = seen(as_model(net), VECTORS, told(net, VECTORS) % 2)
    weights, offsets = net.weight.detach().numpy(), net.bias.detach().numpy()
    logits = VECTORS @ weights.T + offsets
    signs = np.where(view.labels == 1, 1, -1)
    margins = signs * (logits[:, 1] - logits[:, 0]) / np.linalg.norm(weights[1] - weights[0])
    assert np.abs(margins - size * math.sqrt(5)).min() > 1e-4
    found = AdversarialError(sizes=(size,)).evaluate(view)
    assert found.value == pytest.approx(np.mean(margins < size * math.sqrt(5)))
    assert found.facts["error"] == pytest.approx(np.mean(margins < 0))


def test_it_is_what_a_loop_over_rows_finds() -> None:
    view = of_images()
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
    found = AdversarialError(sizes=SIZES).evaluate(view)
    assert [found.facts["error_at_0.02"], found.facts["error_at_0.1"]] == pytest.approx(
        np.mean(wrong, axis=0)
    )
    assert found.value == pytest.approx(np.mean(wrong))
    assert (found.low, found.high) == pytest.approx(wilson_interval(40 * found.value, 40))
    assert found.notes == ()


def test_length_and_root_mean_square_are_one_attack() -> None:
    view, d = of_images(), 8 * 8 * 3
    one = AdversarialError(sizes=SIZES).evaluate(view)
    lengths = tuple(size * math.sqrt(d) for size in SIZES)
    other = AdversarialError(sizes=lengths, unit="l2").evaluate(view)
    assert (one.value, one.low, one.high) == (other.value, other.low, other.high)


# Laws ----------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.floats(0.001, 0.5), st.floats(0.001, 0.5))
@settings(max_examples=20)
def test_never_below_the_error_and_no_smaller_at_a_larger_size(
    seed: int, one: float, other: float
) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    labels = np.random.default_rng(seed).integers(0, 3, 60)
    view = seen(as_model(net), VECTORS, labels)
    found = AdversarialError(sizes=(one, other), steps=5).evaluate(view)
    low, high = (found.facts[f"error_at_{size:g}"] for size in sorted((one, other)))
    assert Error().evaluate(view).value == found.facts["error"] <= low <= high
    assert found.value == pytest.approx((low + high) / 2)


def test_the_order_of_sizes_and_rows_and_the_batch_change_nothing() -> None:
    net = convolutions()
    labels = told(net, IMAGES)
    order = np.random.default_rng(0).permutation(40)
    whole = AdversarialError(sizes=SIZES).evaluate(seen(as_model(net), IMAGES, labels))
    others = (
        AdversarialError(sizes=SIZES).evaluate(seen(as_model(net), IMAGES, labels)),
        AdversarialError(sizes=SIZES[::-1]).evaluate(seen(as_model(net), IMAGES, labels)),
        AdversarialError(sizes=SIZES).evaluate(seen(as_model(net), IMAGES[order], labels[order])),
        AdversarialError(sizes=SIZES).evaluate(seen(as_model(net, batch_size=7), IMAGES, labels)),
    )
    assert 0 < whole.facts["error"] < whole.value < 1
    assert all(one == whole for one in others)


def test_many_rows_are_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = AdversarialError(sizes=SIZES).evaluate(of_images())
    monkeypatch.setattr(adversarial, "DEFAULT_BATCH_ROWS", 9)
    assert AdversarialError(sizes=SIZES).evaluate(of_images()) == whole


def test_a_model_and_its_scaling_are_attacked_as_one() -> None:
    """Pixels less a mean and divided by a deviation: the same model, attacked the same."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = convolutions().eval()

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.inner((x - 0.4) / 0.2)
            return found

    settings: dict[str, Any] = {"mean": [0.4] * 3, "std": [0.2] * 3}
    labels = told(Scaled(), IMAGES)
    inside = seen(as_model(Scaled()), IMAGES, labels)
    outside = seen(TorchModel(convolutions(), **settings), IMAGES, labels)
    one, other = (AdversarialError(sizes=(0.01,)).evaluate(view) for view in (inside, outside))
    assert one.value == other.value > one.facts["error"]


def test_probabilities_are_attacked_as_logits_are() -> None:
    net = nn.Sequential(linear(), nn.Softmax(dim=1))
    labels = told(linear(), VECTORS)
    probs = seen(as_model(net, outputs="probs"), VECTORS, labels)
    logits = seen(as_model(linear()), VECTORS, labels)
    one, other = (AdversarialError(sizes=SIZES).evaluate(view) for view in (probs, logits))
    assert one == other


@dataclass
class Turned:
    """A network whose classes the user has in another order."""

    inner: TorchModel
    order: tuple[str, ...]
    name: str = "turned"

    def turned(self, said: Predictions) -> Predictions:
        return replace(said, class_names=("ant", "bee", "cat")).reorder_classes(self.order)

    def classify(self, inputs: Any) -> Predictions:
        return self.turned(self.inner.classify(inputs))

    def torch_network(self) -> Network:
        network = self.inner.torch_network()
        return replace(network, to_predictions=lambda v: self.turned(network.to_predictions(v)))


@pytest.mark.parametrize("order", [("cat", "ant", "bee"), ("bee", "ant", "cat")])
def test_classes_in_another_order_are_attacked_by_name(order: tuple[str, ...]) -> None:
    inner = as_model(linear())
    assert isinstance(inner, TorchModel)
    labels = told(linear(), VECTORS)
    plain = AdversarialError(sizes=SIZES).evaluate(seen(inner, VECTORS, labels))
    names = np.array(["ant", "bee", "cat"])[labels]
    assert (
        AdversarialError(sizes=SIZES).evaluate(seen(Turned(inner, order), VECTORS, names)) == plain
    )


# What is told --------------------------------------------------------------------------------


def test_more_rows_than_asked_for_are_drawn_from_by_content() -> None:
    net = convolutions()
    labels = told(net, IMAGES)
    order = np.random.default_rng(0).permutation(40)
    metric = AdversarialError(sizes=SIZES, rows=15)
    one = metric.evaluate(seen(as_model(net), IMAGES, labels))
    other = metric.evaluate(seen(as_model(net), IMAGES[order], labels[order]))
    assert one == other
    assert one.facts["rows"] == 15
    assert one.notes == ("only 15 of 40 rows were attacked, drawn at random",)


def test_what_is_no_pixel_is_told_of() -> None:
    found = AdversarialError().evaluate(seen(as_model(linear()), VECTORS, told(linear(), VECTORS)))
    assert found.notes == ("inputs are not pixels from 0 to 1, so sizes are in their own unit",)


def test_rows_without_a_slope_are_told_of() -> None:
    """Rounded inputs hide every slope: that the error does not grow says nothing of the model."""

    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear()

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.inner(x.round())
            return found

    found = AdversarialError(sizes=SIZES).evaluate(
        seen(as_model(Rounded()), VECTORS, told(Rounded(), VECTORS))
    )
    assert found.value == found.facts["error"] == pytest.approx(12 / 60)
    assert found.notes[-1] == "48 rows could not be moved, for their slope is 0 or misleads"


def test_progress_is_told() -> None:
    heard: list[tuple[int, int, str]] = []
    view = of_images()
    _ = view.outputs
    telling = ModelView(replace(view.view_source, progress=lambda *told: heard.append(told)))
    AdversarialError(sizes=(0.01,), steps=1).evaluate(telling)
    assert heard[-1] == (40, 40, "attacking toy")


def test_the_network_is_left_as_it_was() -> None:
    view = of_images()
    network = view.network.module
    before = {name: part.clone() for name, part in network.state_dict().items()}
    AdversarialError(sizes=SIZES).evaluate(view)
    assert all(torch.equal(part, before[name]) for name, part in network.state_dict().items())
    assert all(part.grad is None and part.requires_grad for part in network.parameters())
    assert not any(part.training for part in network.modules())


# Refusals ------------------------------------------------------------------------------------


def test_no_answer_of_a_function() -> None:
    model = as_model(lambda inputs: np.full((len(inputs), 2), 0.5), name="half")
    with pytest.raises(NotApplicable, match="only torch modules and Hugging Face folders"):
        AdversarialError().evaluate(seen(model, VECTORS, np.zeros(60, dtype=int)))


def test_no_answer_of_text() -> None:
    def ids(texts: list[str]) -> Array:
        return np.array([[len(text) % 7, 1] for text in texts])

    net = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(8, 2))
    model = as_model(net, prepare=ids)
    with pytest.raises(NotApplicable, match="takes tokens or several tensors"):
        AdversarialError().evaluate(seen(model, ["one", "two", "three"], [0, 1, 0]))


def test_no_answer_of_outputs_alone_or_without_labels() -> None:
    said = Predictions.from_probs([[0.9, 0.1]], labels=[0])
    with pytest.raises(NotApplicable, match="it needs gradients: no model was given"):
        AdversarialError().evaluate(ModelView(ViewSource("toy", outputs=said)))
    with pytest.raises(NotApplicable, match="it needs labels"):
        AdversarialError().evaluate(of_images(labelled=False))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": ()}, r"sizes must be numbers above 0, one or more; got \(\)\. 0\.001 and"),
        ({"sizes": (0.1, 0.0)}, r"sizes must be numbers above 0, one or more; got \(0\.1, 0\.0\)"),
        ({"sizes": (math.nan,)}, r"got \(nan,\)"),
        ({"steps": 0}, r"steps must be 1 or more; got 0\. 20 is usual\."),
        ({"rows": 0}, r"rows must be 1 or more; got 0\. 1000 is usual\."),
        ({"unit": "linf"}, r"unit must be 'rms' or 'l2'; got 'linf'\."),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AdversarialError(**settings)
