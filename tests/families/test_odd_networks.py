"""Every measure and metric on networks that are unlike most: a score or a reason, and the right one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.data import as_dataset
from oodometer.measures._measure import Measurements, measure
from oodometer.metrics._evaluate import Evaluation, evaluate
from oodometer.models import TorchModel

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 6)).astype(np.float32)
LABELS = RNG.integers(0, 3, 40)
# Those that look into a network, one of each kind.
INSIDE = ("entropy-source", "mmd-gaussian", "fisher-eigval-diff", "fisher-align", "jacobian-diff", "mixup", "l2-path-norm", "sharpness", "frobenius-norm")  # fmt: skip


class Head(nn.Module):
    """A linear head on what subclasses make of the rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(2 * x + 1)  # type: ignore[no-any-return]


class InPlace(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        x += 1
        return self.head(x)  # type: ignore[no-any-return]


class Numbered(Head):
    """Has whole numbers among its parameters, which are no weights."""

    def __init__(self) -> None:
        super().__init__()
        self.order = nn.Parameter(torch.arange(6), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x[:, self.order])


class Closed(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return super().forward(x)


class OneWay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise ValueError("there is no way back\nat all")


class Forward(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return OneWay.apply(super().forward(x))  # type: ignore[no-any-return, no-untyped-call]


class Words(Head):
    """The linear layer sees every row twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.cat([x, x])).reshape(2, len(x), 3).mean(0)


class Constant(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head.bias.expand(len(x), 3)


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :3] * 1.0


def of_batch() -> nn.Module:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6, track_running_stats=False)
    return nn.Sequential(nn.Linear(6, 6), norm, nn.Linear(6, 3))


def measured(module: nn.Module, *names: str) -> Measurements:
    known = as_dataset(ROWS[:24].copy(), labels=LABELS[:24])
    model = TorchModel(module, name="odd")
    return measure(model, known, as_dataset(ROWS[24:].copy()), measures=names, training_data=known)


def evaluated(module: nn.Module) -> Evaluation:
    return evaluate(TorchModel(module, name="odd"), as_dataset(ROWS.copy(), labels=LABELS))


@pytest.mark.parametrize("module", [InPlace(), Numbered()], ids=["in place", "numbered"])
def test_scores_are_those_of_the_network_that_says_the_same(module: nn.Module) -> None:
    found, plain = measured(module, *INSIDE), measured(Head(), *INSIDE)
    assert set(found) == set(plain) == set(INSIDE)
    for name in INSIDE:
        assert found[name].value == pytest.approx(plain[name].value, rel=1e-5, abs=1e-9)
    assert evaluated(module).scores == evaluated(Head()).scores


def test_a_network_that_writes_into_its_inputs_does_not_write_into_the_data() -> None:
    rows = ROWS.copy()
    data = as_dataset(rows, labels=LABELS)
    model = TorchModel(InPlace(), name="odd", prepare=torch.from_numpy)
    measure(model, data, data, measures=INSIDE, training_data=data)
    evaluate(model, data)
    model.classify(rows)
    assert np.array_equal(rows, ROWS)


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        (Closed(), "sharpness", "loss under changed weights can't be computed: element 0"),
        (Closed(), "jacobian", "does not hang on its inputs by any derivative"),
        (Forward(), "fisher-align", "gradients can't be computed: there is no way back"),
        (Forward(), "jacobian", "by its inputs can't be computed: there is no way back"),
        (Forward(), "sharpness", "changed weights can't be computed: there is no way back"),
        (Constant(), "jacobian", "does not hang on its inputs by any derivative"),
        (Constant(), "h-divergence", "was not reached in the pass"),
        (Plain(), "sharpness", "'odd' has no weights"),
        (Plain(), "fisher-align", "'odd' has no weights"),
        (Plain(), "h-divergence", "'odd' has no linear layer"),
        (Words(), "h-divergence", r"is \(48, 6\) for 24 inputs.*name a layer"),
        (of_batch(), "l2-path-norm", "squared weights can't be computed: Expected more than 1"),
    ],
)
def test_what_a_network_can_not_do_is_a_reason_of_one_line(
    module: nn.Module, name: str, reason: str
) -> None:
    found = measured(module, name, "entropy-source")
    assert set(found) == {"entropy-source"}
    assert re.search(reason, found.skipped[name])
    assert "\n" not in found.skipped[name]


@pytest.mark.parametrize("module", [Closed(), Forward(), Constant(), Words(), Plain(), of_batch()])
def test_metrics_are_scored_whatever_the_features_and_gradients(module: nn.Module) -> None:
    found = evaluated(module)
    assert {"error", "nll", "ece"} <= set(found.scores)
    assert set(found.skipped) <= {"adversarial_error", "demographic_disparity"}
    assert all("\n" not in why for why in found.skipped.values())
