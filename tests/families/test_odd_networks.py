"""Measures and metrics on unusual networks: a score, or NotApplicable with the right reason."""

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
# One measure of each kind that reads the network.
NETWORK_MEASURES = ("entropy-source", "mmd-gaussian", "fisher-eigval-diff", "fisher-align", "jacobian-diff", "mixup", "l2-path-norm", "sharpness", "frobenius-norm")  # fmt: skip


class Head(nn.Module):
    """Linear head on 2x + 1."""

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


class IntegerParameter(Head):
    """Network with an integer parameter, which is not a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.order = nn.Parameter(torch.arange(6), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x[:, self.order])


class NoGrad(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return super().forward(x)


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise ValueError("backward is not supported\nat all")


class BackwardFails(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return NoBackward.apply(super().forward(x))  # type: ignore[no-any-return, no-untyped-call]


class RepeatedRows(Head):
    """Network whose linear layer receives every row twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.cat([x, x])).reshape(2, len(x), 3).mean(0)


class Constant(Head):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head.bias.expand(len(x), 3)


class NoWeights(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :3] * 1.0


def batch_statistics() -> nn.Module:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6, track_running_stats=False)
    return nn.Sequential(nn.Linear(6, 6), norm, nn.Linear(6, 3))


def run_measure(module: nn.Module, *names: str) -> Measurements:
    source = as_dataset(ROWS[:24].copy(), labels=LABELS[:24])
    model = TorchModel(module, name="odd")
    return measure(
        model, source, as_dataset(ROWS[24:].copy()), measures=names, training_data=source
    )


def run_evaluate(module: nn.Module) -> Evaluation:
    return evaluate(TorchModel(module, name="odd"), as_dataset(ROWS.copy(), labels=LABELS))


@pytest.mark.parametrize("module", [InPlace(), IntegerParameter()], ids=["in place", "numbered"])
def test_equivalent_networks_have_equal_scores(module: nn.Module) -> None:
    result, expected = (
        run_measure(module, *NETWORK_MEASURES),
        run_measure(Head(), *NETWORK_MEASURES),
    )
    assert set(result) == set(expected) == set(NETWORK_MEASURES)
    for name in NETWORK_MEASURES:
        assert result[name].value == pytest.approx(expected[name].value, rel=1e-5, abs=1e-9)
    assert run_evaluate(module).scores == run_evaluate(Head()).scores


def test_in_place_networks_do_not_change_the_data() -> None:
    rows = ROWS.copy()
    data = as_dataset(rows, labels=LABELS)
    model = TorchModel(InPlace(), name="odd", prepare=torch.from_numpy)
    measure(model, data, data, measures=NETWORK_MEASURES, training_data=data)
    evaluate(model, data)
    model.classify(rows)
    assert np.array_equal(rows, ROWS)


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        (NoGrad(), "sharpness", "loss under changed weights cannot be computed: element 0"),
        (NoGrad(), "jacobian", "not differentiable with respect to its inputs"),
        (
            BackwardFails(),
            "fisher-align",
            "gradients cannot be computed: backward is not supported",
        ),
        (
            BackwardFails(),
            "jacobian",
            "by its inputs cannot be computed: backward is not supported",
        ),
        (
            BackwardFails(),
            "sharpness",
            "changed weights cannot be computed: backward is not supported",
        ),
        (Constant(), "jacobian", "not differentiable with respect to its inputs"),
        (Constant(), "h-divergence", "was not reached in the forward pass"),
        (NoWeights(), "sharpness", "'odd' has no weights"),
        (NoWeights(), "fisher-align", "'odd' has no weights"),
        (NoWeights(), "h-divergence", "'odd' has no linear layer"),
        (RepeatedRows(), "h-divergence", r"is \(48, 6\) for 24 inputs.*name a layer"),
        (
            batch_statistics(),
            "l2-path-norm",
            "squared weights cannot be computed: Expected more than 1",
        ),
    ],
)
def test_unsupported_operations_are_not_applicable_with_one_line(
    module: nn.Module, name: str, reason: str
) -> None:
    result = run_measure(module, name, "entropy-source")
    assert set(result) == {"entropy-source"}
    assert re.search(reason, result.skipped[name])
    assert "\n" not in result.skipped[name]


@pytest.mark.parametrize(
    "module",
    [NoGrad(), BackwardFails(), Constant(), RepeatedRows(), NoWeights(), batch_statistics()],
)
def test_metrics_do_not_need_features_or_gradients(module: nn.Module) -> None:
    result = run_evaluate(module)
    assert {"error", "nll", "ece"} <= set(result.scores)
    attacks = {"adversarial_error", "adversarial_error_0.001", "adversarial_error_0.02"}
    assert set(result.skipped) <= {*attacks, "demographic_disparity"}
    assert all("\n" not in why for why in result.skipped.values())
