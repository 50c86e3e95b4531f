"""Sharpness: search and ascent against closed forms; networks with a known value."""

from __future__ import annotations

from copy import deepcopy
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.measures.sharpness import Sharpness, WeightPerturbation, ascend, bracket_largest
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import TorchModel
from oodometer.models.base import RawOutputs
from oodometer.models.model_view import ModelView, ViewSource

# Five rows of the second class at 0.1 … 0.5, and five distant rows of the first class.
POINTS = np.concatenate([np.arange(1, 6) / 10, np.full(5, -5.0)]).astype(np.float32)[:, None]
SIDES = (POINTS[:, 0] > 0).astype(int)
CLOUD = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
HALVES = (CLOUD @ np.array([1.0, -1.0, 0.5, 0.0]) > 0).astype(int)


class Threshold(nn.Module):
    """Predict the second class above −bias."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = x[:, 0] + self.bias
        return torch.stack([torch.zeros_like(score), score], dim=1)


def opposed(margin: float, width: int = 1) -> nn.Module:
    """Return a layer with logits −margin · x and margin · x."""
    module = nn.Linear(width, 2, bias=False)
    module.weight.data = torch.tensor([[-margin], [margin]]).repeat(1, width)
    return module


def layered() -> nn.Module:
    """Return a fitted network with batch norm and dropout."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2)
    )
    steps = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(60):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(module(torch.tensor(CLOUD)), torch.tensor(HALVES))
        loss.backward()  # type: ignore[no-untyped-call]
        steps.step()
    module.zero_grad()
    return module


LAYERED = layered()


def subject(module: Any, rows: Any, labels: Any, **settings: Any) -> Subject:
    model = module if isinstance(module, TorchModel) else TorchModel(module, name="net")
    view = ModelView(ViewSource("data", as_dataset(rows, labels=labels), model))
    return Subject(view, view, view, **settings)


def value(module: Any, rows: Any, labels: Any) -> float:
    return measure_one(Sharpness(), subject(module, rows, labels)).value


# The search ---------------------------------------------------------------------------------


@given(limit=st.floats(1e-9, 1.99), tolerance=st.floats(1e-3, 0.5))
def test_bracket_contains_the_limit_within_tolerance(limit: float, tolerance: float) -> None:
    low, high = bracket_largest(lambda alpha: alpha <= limit, cap=2.0, tolerance=tolerance)
    assert low <= limit < high
    assert high <= (1 + tolerance) * low


def test_bracket_ends_at_the_cap() -> None:
    assert bracket_largest(lambda alpha: True, cap=2.0, tolerance=0.1) == (2.0, 2.0)
    assert bracket_largest(lambda alpha: alpha < 2, cap=2.0, tolerance=0.1)[1] == 2.0


def test_failure_in_a_small_box_ends_the_search() -> None:
    low, high = bracket_largest(lambda alpha: not 0.1 < alpha < 0.5, cap=2.0, tolerance=0.01)
    assert low <= 0.1 < high


def test_bracket_without_a_lower_end_is_not_applicable() -> None:
    with pytest.raises(
        NotApplicable, match="even perturbations of α = 2e-12 cost too much accuracy"
    ):
        bracket_largest(lambda alpha: False, cap=2.0, tolerance=0.1)


# The ascent ---------------------------------------------------------------------------------


@given(
    bends=st.lists(st.floats(0.1, 10), min_size=1, max_size=6),
    allowed=st.floats(0.01, 1),
    seed=st.integers(0, 1000),
)
def test_quadratic_loss_matches_closed_form(bends: list[float], allowed: float, seed: int) -> None:
    """The maximum of ½ Σ h u² over |u| ≤ α s is ½ α² Σ h s²."""
    h = torch.tensor(bends, dtype=torch.float64)
    s = torch.linspace(1, 2, len(bends), dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    start = torch.rand(len(bends), generator=generator, dtype=torch.float64) - 0.5

    def keeps(alpha: float) -> bool:
        corner = ascend(lambda change, step: h * alpha**2 * s**2 * change, start, steps=20)
        worst = 0.5 * (h * (alpha * s * corner) ** 2).sum()
        assert float(worst) == pytest.approx(0.5 * alpha**2 * float((h * s**2).sum()))
        return bool(worst <= allowed)

    low, high = bracket_largest(keeps, cap=64.0, tolerance=0.001)
    exact = sqrt(2 * allowed / float((h * s**2).sum()))
    assert low * (1 - 1e-9) <= exact <= high * (1 + 1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.integers(1, 40))
def test_ascent_stays_in_the_box_and_reaches_every_corner(slope: list[float], steps: int) -> None:
    up = torch.tensor(slope)
    result = ascend(lambda change, step: up, -up.sign(), steps=steps)
    assert torch.allclose(result, up.sign(), atol=1e-5)
    assert result.abs().max() <= 1


# Networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("deviation", "alpha"), [(0.1, 0.2), (0.2, 0.3), (0.3, 0.4)])
def test_threshold_model_matches_closed_form(deviation: float, alpha: float) -> None:
    """The bias can move by α(0 + 1), and each 0.1 misclassifies one row in ten."""
    result = measure_one(Sharpness(deviation), subject(Threshold(), POINTS, SIDES))
    low, high = result.facts["alpha_low"], result.facts["alpha_high"]
    assert low <= alpha * (1 + 1e-6)
    assert alpha <= high * (1 + 1e-6)
    assert high <= 1.01 * low
    assert result.value == pytest.approx(1 / (low * high))
    assert result.value == pytest.approx(alpha**-2, rel=0.02)
    assert result.notes == ()


def test_larger_margins_are_less_sharp() -> None:
    """Weights ±a change sign when α(a + 1) = a."""
    margins = [0.25, 1.0, 4.0, 20.0]
    result = [value(opposed(margin), POINTS, SIDES) for margin in margins]
    expected = [((margin + 1) / margin) ** 2 for margin in margins]
    assert result == pytest.approx(expected, rel=0.02)
    assert result == sorted(result, reverse=True)


def test_ascent_beats_random_perturbations() -> None:
    toy = subject(LAYERED, CLOUD, HALVES)
    assert toy.training is not None
    perturbation = WeightPerturbation.from_view(toy.training, 0.1)
    alpha = measure_one(Sharpness(), toy).facts["alpha_high"] * 1.01
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        corner = torch.rand(len(perturbation.center), generator=generator).sub(0.5).sign()
        assert perturbation.keeps_accuracy(corner, alpha)


def test_gradient_matches_finite_differences() -> None:
    view = subject(deepcopy(LAYERED).double(), CLOUD.astype(float), HALVES).source
    perturbation = WeightPerturbation.from_view(view, 0.1)
    rows, alpha = np.arange(150, 214), 0.03  # wraps around: 150 … 199 and 0 … 13
    change = torch.full_like(perturbation.center, 0.2)

    def loss(changed: Any) -> float:
        some = rows % 200
        logits = perturbation.logits(some, perturbation.changed_weights(changed, alpha))
        return float(
            nn.functional.cross_entropy(logits, perturbation.labels[some], reduction="sum")
        )

    result, step = perturbation.loss_gradient(change, alpha, rows), 1e-5
    for index in range(0, len(change), 7):
        nudge = torch.zeros_like(change)
        nudge[index] = step
        numeric = (loss(change + nudge) - loss(change - nudge)) / (2 * step)
        assert float(result[index]) == pytest.approx(numeric, abs=1e-6)


def test_repetition_and_row_order_do_not_matter() -> None:
    order = np.random.default_rng(1).permutation(200)
    first = value(LAYERED, CLOUD, HALVES)
    assert value(LAYERED, CLOUD, HALVES) == first
    assert value(LAYERED, CLOUD[order], HALVES[order]) == first


def test_batch_size_does_not_matter() -> None:
    small, rows, labels = TorchModel(LAYERED, batch_size=7), CLOUD[:50], HALVES[:50]
    assert value(small, rows, labels) == pytest.approx(value(LAYERED, rows, labels), rel=0.03)


def test_row_limit_and_cap_are_noted() -> None:
    result = measure_one(Sharpness(rows=50), subject(LAYERED, CLOUD, HALVES))
    assert result.notes == ("only 50 of 200 training rows were used, drawn at random",)
    assert result.facts["rows"] == 50
    capped = measure_one(Sharpness(cap=0.01), subject(opposed(1.0), POINTS, SIDES))
    message = (
        "no perturbation up to the cap, α = 0.01, costs that much accuracy: the value is an upper "
        "bound"
    )
    assert capped.notes == (message,)
    assert capped.value == pytest.approx(1e4)
    assert capped.facts["alpha_low"] == capped.facts["alpha_high"] == 0.01


class NanWhenMoved(nn.Linear):
    """Return NaN once a weight has moved by 0.5; argmax of NaN is the first class."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed = (self.weight.abs() - 20).abs().max() > 0.5
        return super().forward(x) * torch.where(changed, torch.nan, 1.0)


def test_nan_logits_count_as_errors() -> None:
    module = NanWhenMoved(1, 2, bias=False)
    module.weight.data = torch.tensor([[20.0], [-20.0]])
    result = measure_one(Sharpness(), subject(module, POINTS[:5], np.zeros(5, dtype=int)))
    assert result.value == pytest.approx((0.5 / 21) ** -2, rel=0.02)


class ReorderedClasses(TorchModel):
    """Model with another class order than its network."""

    def to_predictions(self, raw: RawOutputs) -> Predictions:
        return super().to_predictions(raw).reorder_classes(("b", "c", "a"))


@pytest.mark.parametrize("form", ["logits", "probs"])
def test_labels_follow_the_class_order_of_the_network(form: Any) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(4, 3)
    module = nn.Sequential(linear, nn.Softmax(dim=1)) if form == "probs" else linear
    with torch.no_grad():
        classes = linear(torch.tensor(CLOUD)).argmax(dim=1).numpy()
    labels = np.array(["a", "b", "c"])[classes]
    plain = TorchModel(module, class_names=["a", "b", "c"], outputs=form)
    reordered = ReorderedClasses(module, class_names=["a", "b", "c"], outputs=form)
    assert value(reordered, CLOUD, labels) == value(plain, CLOUD, labels)


def test_network_is_unchanged() -> None:
    toy = subject(LAYERED, CLOUD, HALVES)
    module = toy.network.module
    before = {name: part.clone() for name, part in module.state_dict().items()}
    measure_one(Sharpness(), toy)
    assert all(torch.equal(part, before[name]) for name, part in module.state_dict().items())
    assert not any(part.training for part in module.modules())
    assert all(part.grad is None and part.requires_grad for part in module.parameters())


# Errors -------------------------------------------------------------------------------------


def not_applicable_reason(toy: Subject) -> str:
    with pytest.raises(NotApplicable) as caught:
        measure_one(Sharpness(), toy)
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_unsuitable_subjects_are_not_applicable() -> None:
    toy = subject(Threshold(), POINTS, SIDES)
    bare = Subject(toy.source, toy.target)
    assert not_applicable_reason(bare) == "it needs training data: no training data were given"
    unlabelled = ModelView(ViewSource("training", as_dataset(POINTS), TorchModel(Threshold())))
    message = "it needs labels of the training data, and there are none"
    assert not_applicable_reason(Subject(toy.source, toy.target, unlabelled)) == message
    message = "the training accuracy is 0.000, and cannot fall by 0.1"
    assert not_applicable_reason(subject(Threshold(), POINTS, 1 - SIDES)) == message
    scripted = torch.jit.trace(Threshold(), torch.zeros(1, 1))  # type: ignore[no-untyped-call]
    message = "'net' is scripted and cannot run with other weights"
    assert not_applicable_reason(subject(scripted, POINTS, SIDES)) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be at least 1; got 0."),
        ({"rows": -1}, "rows must be at least 1; got -1."),
        ({"deviation": 0.0}, "deviation must be above 0; got 0.0."),
        ({"cap": float("nan")}, "cap must be above 0; got nan."),
    ],
)
def test_invalid_settings_raise(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Sharpness(**settings)
    assert str(caught.value) == message


def test_progress_is_reported_per_try() -> None:
    reports: list[tuple[int, int, str]] = []
    rows, model = as_dataset(POINTS, labels=SIDES), TorchModel(Threshold())
    view = ModelView(
        ViewSource("data", rows, model, progress=lambda *message: reports.append(message))
    )
    measure_one(Sharpness(), Subject(view, view, view))
    tries = [message for message in reports if message[2].startswith("perturbing weights by ")]
    assert len(tries) > 10
    assert all(0 <= done <= total for done, total, _ in tries)
