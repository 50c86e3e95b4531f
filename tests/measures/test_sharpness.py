"""Sharpness: the search and the ascent by closed forms, then networks whose answer is known."""

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

# Five rows of the second class at 0.1 … 0.5, and five of the first that are far away.
POINTS = np.concatenate([np.arange(1, 6) / 10, np.full(5, -5.0)]).astype(np.float32)[:, None]
SIDES = (POINTS[:, 0] > 0).astype(int)
CLOUD = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
HALVES = (CLOUD @ np.array([1.0, -1.0, 0.5, 0.0]) > 0).astype(int)


class Threshold(nn.Module):
    """The second class above −bias."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = x[:, 0] + self.bias
        return torch.stack([torch.zeros_like(score), score], dim=1)


def opposed(margin: float, width: int = 1) -> nn.Module:
    """Logits −margin · x and margin · x."""
    module = nn.Linear(width, 2, bias=False)
    module.weight.data = torch.tensor([[-margin], [margin]]).repeat(1, width)
    return module


def layered() -> nn.Module:
    """A fitted network with a batch norm and a dropout."""
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
def test_the_bracket_holds_the_largest_and_is_as_tight_as_asked(
    limit: float, tolerance: float
) -> None:
    low, high = bracket_largest(lambda alpha: alpha <= limit, cap=2.0, tolerance=tolerance)
    assert low <= limit < high
    assert high <= (1 + tolerance) * low


def test_the_cap_is_the_answer_where_all_keep() -> None:
    assert bracket_largest(lambda alpha: True, cap=2.0, tolerance=0.1) == (2.0, 2.0)
    assert bracket_largest(lambda alpha: alpha < 2, cap=2.0, tolerance=0.1)[1] == 2.0


def test_what_breaks_in_a_small_box_is_not_forgotten_in_a_large_one() -> None:
    low, high = bracket_largest(lambda alpha: not 0.1 < alpha < 0.5, cap=2.0, tolerance=0.01)
    assert low <= 0.1 < high


def test_what_never_keeps_is_refused() -> None:
    with pytest.raises(
        NotApplicable, match="changes of 2e-12 of the weights cost too much accuracy"
    ):
        bracket_largest(lambda alpha: False, cap=2.0, tolerance=0.1)


# The ascent ---------------------------------------------------------------------------------


@given(
    bends=st.lists(st.floats(0.1, 10), min_size=1, max_size=6),
    allowed=st.floats(0.01, 1),
    seed=st.integers(0, 1000),
)
def test_of_a_quadratic_the_closed_form_is_found(
    bends: list[float], allowed: float, seed: int
) -> None:
    """½ Σ h u² is ½ α² Σ h s² in the worst corner of |u| ≤ α s."""
    h = torch.tensor(bends, dtype=torch.float64)
    s = torch.linspace(1, 2, len(bends), dtype=torch.float64)
    drawn = torch.Generator().manual_seed(seed)
    start = torch.rand(len(bends), generator=drawn, dtype=torch.float64) - 0.5

    def keeps(alpha: float) -> bool:
        corner = ascend(lambda change, step: h * alpha**2 * s**2 * change, start, steps=20)
        worst = 0.5 * (h * (alpha * s * corner) ** 2).sum()
        assert float(worst) == pytest.approx(0.5 * alpha**2 * float((h * s**2).sum()))
        return bool(worst <= allowed)

    low, high = bracket_largest(keeps, cap=64.0, tolerance=0.001)
    exact = sqrt(2 * allowed / float((h * s**2).sum()))
    assert low * (1 - 1e-9) <= exact <= high * (1 + 1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.integers(1, 40))
def test_the_ascent_stays_in_the_box_and_reaches_every_corner(
    slope: list[float], steps: int
) -> None:
    up = torch.tensor(slope)
    found = ascend(lambda change, step: up, -up.sign(), steps=steps)
    assert torch.allclose(found, up.sign(), atol=1e-5)
    assert found.abs().max() <= 1


# Networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("deviation", "alpha"), [(0.1, 0.2), (0.2, 0.3), (0.3, 0.4)])
def test_a_threshold_moves_to_the_first_row_that_must_stay(deviation: float, alpha: float) -> None:
    """The bias may move by α(0 + 1), and one row in ten may be lost for every 0.1."""
    found = measure_one(Sharpness(deviation), subject(Threshold(), POINTS, SIDES))
    low, high = found.facts["alpha_low"], found.facts["alpha_high"]
    assert low <= alpha * (1 + 1e-6)
    assert alpha <= high * (1 + 1e-6)
    assert high <= 1.01 * low
    assert found.value == pytest.approx(1 / (low * high))
    assert found.value == pytest.approx(alpha**-2, rel=0.02)
    assert found.notes == ()


def test_a_larger_margin_is_less_sharp() -> None:
    """Weights ±a turn round when α(a + 1) = a."""
    margins = [0.25, 1.0, 4.0, 20.0]
    found = [value(opposed(margin), POINTS, SIDES) for margin in margins]
    expected = [((margin + 1) / margin) ** 2 for margin in margins]
    assert found == pytest.approx(expected, rel=0.02)
    assert found == sorted(found, reverse=True)


def test_the_ascent_finds_what_random_changes_of_that_size_do_not() -> None:
    task_of = subject(LAYERED, CLOUD, HALVES)
    assert task_of.training is not None
    task = WeightPerturbation.from_view(task_of.training, 0.1)
    alpha = measure_one(Sharpness(), task_of).facts["alpha_high"] * 1.01
    drawn = torch.Generator().manual_seed(0)
    for _ in range(50):
        corner = torch.rand(len(task.center), generator=drawn).sub(0.5).sign()
        assert task.keeps_accuracy(corner, alpha)


def test_a_slope_is_the_derivative_by_the_change() -> None:
    view = subject(deepcopy(LAYERED).double(), CLOUD.astype(float), HALVES).source
    task = WeightPerturbation.from_view(view, 0.1)
    rows, alpha = np.arange(150, 214), 0.03  # counted round: 150 … 199 and 0 … 13
    change = torch.full_like(task.center, 0.2)

    def loss(moved: Any) -> float:
        some = rows % 200
        logits = task.logits(some, task.changed_weights(moved, alpha))
        return float(nn.functional.cross_entropy(logits, task.labels[some], reduction="sum"))

    found, step = task.loss_gradient(change, alpha, rows), 1e-5
    for place in range(0, len(change), 7):
        nudge = torch.zeros_like(change)
        nudge[place] = step
        by_hand = (loss(change + nudge) - loss(change - nudge)) / (2 * step)
        assert float(found[place]) == pytest.approx(by_hand, abs=1e-6)


def test_it_is_the_same_again_and_in_any_order_of_rows() -> None:
    order = np.random.default_rng(1).permutation(200)
    first = value(LAYERED, CLOUD, HALVES)
    assert value(LAYERED, CLOUD, HALVES) == first
    assert value(LAYERED, CLOUD[order], HALVES[order]) == first


def test_how_many_rows_a_network_is_shown_at_once_changes_nothing() -> None:
    small, rows, labels = TorchModel(LAYERED, batch_size=7), CLOUD[:50], HALVES[:50]
    assert value(small, rows, labels) == pytest.approx(value(LAYERED, rows, labels), rel=0.03)


def test_capped_rows_and_a_capped_search_are_noted() -> None:
    found = measure_one(Sharpness(rows=50), subject(LAYERED, CLOUD, HALVES))
    assert found.notes == ("only 50 of 200 training rows were used, drawn at random",)
    assert found.facts["rows"] == 50
    capped = measure_one(Sharpness(cap=0.01), subject(opposed(1.0), POINTS, SIDES))
    words = "no change up to the cap, α = 0.01, costs as much: an upper bound"
    assert capped.notes == (words,)
    assert capped.value == pytest.approx(1e4)
    assert capped.facts["alpha_low"] == capped.facts["alpha_high"] == 0.01


class Breaks(nn.Linear):
    """Gives no numbers once a weight has moved by a half; of these the first counts as the largest."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = (self.weight.abs() - 20).abs().max() > 0.5
        return super().forward(x) * torch.where(moved, torch.nan, 1.0)


def test_logits_that_are_no_numbers_are_wrong() -> None:
    module = Breaks(1, 2, bias=False)
    module.weight.data = torch.tensor([[20.0], [-20.0]])
    found = measure_one(Sharpness(), subject(module, POINTS[:5], np.zeros(5, dtype=int)))
    assert found.value == pytest.approx((0.5 / 21) ** -2, rel=0.02)


class Turned(TorchModel):
    """A model that names its classes in another order than its network has them."""

    def to_predictions(self, raw: RawOutputs) -> Predictions:
        return super().to_predictions(raw).reorder_classes(("b", "c", "a"))


@pytest.mark.parametrize("form", ["logits", "probs"])
def test_labels_are_matched_to_the_networks_own_columns(form: Any) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(4, 3)
    module = nn.Sequential(linear, nn.Softmax(dim=1)) if form == "probs" else linear
    with torch.no_grad():
        classes = linear(torch.tensor(CLOUD)).argmax(dim=1).numpy()
    labels = np.array(["a", "b", "c"])[classes]
    plain = TorchModel(module, class_names=["a", "b", "c"], outputs=form)
    turned = Turned(module, class_names=["a", "b", "c"], outputs=form)
    assert value(turned, CLOUD, labels) == value(plain, CLOUD, labels)


def test_the_network_is_left_as_it_was() -> None:
    made = subject(LAYERED, CLOUD, HALVES)
    module = made.network.module
    before = {name: part.clone() for name, part in module.state_dict().items()}
    measure_one(Sharpness(), made)
    assert all(torch.equal(part, before[name]) for name, part in module.state_dict().items())
    assert not any(part.training for part in module.modules())
    assert all(part.grad is None and part.requires_grad for part in module.parameters())


# Refusals -----------------------------------------------------------------------------------


def refusal(made: Subject) -> str:
    with pytest.raises(NotApplicable) as caught:
        measure_one(Sharpness(), made)
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_it_can_not_answer_is_refused() -> None:
    made = subject(Threshold(), POINTS, SIDES)
    bare = Subject(made.source, made.target)
    assert refusal(bare) == "it needs training data: no training data were given"
    unlabelled = ModelView(ViewSource("training", as_dataset(POINTS), TorchModel(Threshold())))
    words = "it needs labels of the training data, and there are none"
    assert refusal(Subject(made.source, made.target, unlabelled)) == words
    words = "the training accuracy is 0.000, and can't fall by 0.1"
    assert refusal(subject(Threshold(), POINTS, 1 - SIDES)) == words
    scripted = torch.jit.trace(Threshold(), torch.zeros(1, 1))  # type: ignore[no-untyped-call]
    words = "'net' is scripted and cannot run with other weights"
    assert refusal(subject(scripted, POINTS, SIDES)) == words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "steps must be 1 or more; got 0. 20 is usual."),
        ({"rows": -1}, "rows must be 1 or more; got -1. 1000 is usual."),
        ({"deviation": 0.0}, "deviation must be above 0; got 0.0. 0.1 is usual."),
        ({"cap": float("nan")}, "cap must be above 0; got nan. 2.0 is usual."),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Sharpness(**settings)
    assert str(caught.value) == words


def test_every_change_that_is_tried_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    rows, model = as_dataset(POINTS, labels=SIDES), TorchModel(Threshold())
    view = ModelView(ViewSource("data", rows, model, progress=lambda *words: told.append(words)))
    measure_one(Sharpness(), Subject(view, view, view))
    tried = [words for words in told if words[2].startswith("changing weights by ")]
    assert len(tried) > 10
    assert all(0 <= done <= total for done, total, _ in tried)
