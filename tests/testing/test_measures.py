"""Conformance rules of measures detect violations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures.subject import Subject
from oodometer.testing import check_measure, toy_subject
from oodometer.testing.measures import MeasureTestSubjects, toy_data, toy_network


@dataclass(frozen=True)
class Conforming:
    """Mean confidence on the target."""

    name: str = "conforming"
    label: str = "Conforming"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "something"
    paper: str = "none"

    def measure(self, subject: Subject) -> Score:
        return Score(self.value(subject))

    def value(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence.mean())


class Constant(Conforming):
    def value(self, subject: Subject) -> float:
        return 1.0


class FirstRow(Conforming):
    def value(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence[0])


class ReadsTargetLabels(Conforming):
    def value(self, subject: Subject) -> float:
        dataset: Any = subject.target.view_source.dataset
        assert dataset is not None
        return float(super().value(subject) + dataset.labels[0])


class SetsTrainingMode(Conforming):
    def value(self, subject: Subject) -> float:
        result = super().value(subject)
        subject.network.module.train()
        return result


class ChangesStatistics(Conforming):
    def value(self, subject: Subject) -> float:
        module = subject.network.module
        module[1].running_mean.add_(1.0)
        return super().value(subject)


class AddsHook(Conforming):
    def value(self, subject: Subject) -> float:
        subject.network.module.register_forward_hook(lambda *_: None)
        return super().value(subject)


class AddsPreHook(Conforming):
    def value(self, subject: Subject) -> float:
        subject.network.module.register_forward_pre_hook(lambda *_: None)
        return super().value(subject)


class ChangesRequiresGrad(Conforming):
    def value(self, subject: Subject) -> float:
        subject.network.module.requires_grad_(False)
        return super().value(subject)


class LeavesGradient(Conforming):
    def value(self, subject: Subject) -> float:
        network = subject.network
        network.module[0].weight.grad = network.module[0].weight.detach().clone()
        return super().value(subject)


class ByBatch(Conforming):
    def value(self, subject: Subject) -> float:
        model: Any = subject.target.view_source.model
        return super().value(subject) + (model.batch_size or 0)


@dataclass(frozen=True)
class ReadsMore(Conforming):
    """Measure that reads more than it declares."""

    read: Callable[[Subject], Any] = bool

    def value(self, subject: Subject) -> float:
        return float(np.mean(self.read(subject)))


def training(subject: Subject) -> Any:
    if subject.training is None:
        raise NotApplicable("there are no training data")
    return subject.training.outputs.confidence


class NoReason(Conforming):
    def measure(self, subject: Subject) -> Score:
        if subject.source.n == subject.target.n:
            raise NotApplicable("")
        return super().measure(subject)


@dataclass(frozen=True)
class CountsCalls(Conforming):
    calls: list[int] = field(default_factory=list, compare=False)

    def value(self, subject: Subject) -> float:
        self.calls.append(1)
        return super().value(subject) + len(self.calls)


class Unseeded(Conforming):
    def value(self, subject: Subject) -> float:
        return subject.cached("drawn", lambda: float(np.random.default_rng().random()))


class ReturnsText(Conforming):
    def measure(self, subject: Subject) -> Any:
        return "much"


class NotADataclass:
    """Measure that is not a dataclass."""

    name, label, needs, assumes, paper = "plain", "Plain", ("outputs",), "something", "none"

    def measure(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence.mean())


@dataclass
class NotFrozen(NotADataclass):
    """Dataclass that is not frozen."""


def test_conforming_measure_passes() -> None:
    check_measure(Conforming())


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (replace(Conforming(), name="Upper"), "must be lower case"),
        (replace(Conforming(), name="a b"), "must be one word"),
        (replace(Conforming(), label=""), "empty attribute 'label'"),
        (replace(Conforming(), assumes=""), "empty attribute 'assumes'"),
        (replace(Conforming(), paper=""), "empty attribute 'paper'"),
        (replace(Conforming(), needs=()), "empty attribute 'needs'"),
        (replace(Conforming(), needs=("magic",)), "unknown needs {'magic'}"),  # type: ignore[arg-type]
        (Constant(), "for different models and data"),
        (FirstRow(), "the order of rows"),
        (ReadsTargetLabels(), "reads the target labels"),
        (SetsTrainingMode(), "changes the network"),
        (ChangesStatistics(), "changes the network"),
        (AddsHook(), "changes the network"),
        (AddsPreHook(), "changes the network"),
        (ChangesRequiresGrad(), "changes the network"),
        (LeavesGradient(), "changes the network"),
        (ByBatch(), "the batch size"),
        (CountsCalls(), "differs between two calls"),
        (Unseeded(), "differs between two calls"),
        (NotFrozen(), "must be a frozen dataclass"),
        (NotADataclass(), "must be a frozen dataclass"),
        (object(), "lacks name, label, needs, assumes, paper or measure"),
        (ReturnsText(), "returned 'much'. A measure must return a Score or a number"),
        (NoReason(), "raises NotApplicable without a reason"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_violated_rules_are_detected(member: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_measure(member)


@pytest.mark.parametrize(
    ("needs", "read", "message"),
    [
        ("outputs", lambda subject: subject.target.features, "it needs features"),
        ("outputs", lambda subject: subject.source.labels, "it needs labels"),
        (
            "outputs",
            lambda subject: subject.select_domain("one").reference.outputs.confidence,
            "no domain",
        ),
        ("outputs", training, "there are no training data"),
        ("features", lambda subject: subject.target.outputs.confidence, "it needs outputs"),
    ],
)
def test_undeclared_needs_are_detected(needs: Any, read: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=f"needs more than .*{message}"):
        check_measure(ReadsMore(needs=(needs,), read=read))


def test_toy_subject_depends_on_its_seed_only() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (toy_network(seed)[0].weight for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not np.array_equal(toy_data(1)[0], toy_data(2)[0])
    assert np.mean(toy_data(1, 5.0, 900)[0]) - np.mean(toy_data(1, 0.0, 900)[0]) > 4
    subject = toy_subject(7)
    assert (subject.seed, subject.target.view_source.seed) == (7, 7)
    assert subject.training is not None


def test_permuted_rows_keep_their_labels() -> None:
    subjects = MeasureTestSubjects()
    original, shuffled = subjects.baseline.source, subjects.permuted.source
    order = [original.keys.tolist().index(key) for key in shuffled.keys.tolist()]
    assert order != sorted(order)
    assert np.array_equal(shuffled.labels, original.labels[order])


def test_toy_network_has_non_initial_statistics() -> None:
    norm = toy_network()[1]
    assert float(np.abs(norm.running_mean.numpy()).max()) > 0.05
    assert not norm.training


def test_failure_on_the_toy_subject_is_reported() -> None:
    class AlwaysNan(Conforming):
        def value(self, subject: Subject) -> float:
            return float("nan")

    with pytest.raises(AssertionError, match="conforming fails on a toy subject: the value is nan"):
        check_measure(AlwaysNan())
