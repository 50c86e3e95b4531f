"""Every rule for measures catches a measure that breaks it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from oodometer.core import Score
from oodometer.errors import NoAnswer
from oodometer.subject import Subject
from oodometer.testing import check_measure
from oodometer.view import Need


@dataclass(frozen=True)
class Good:
    """Mean confidence on the target."""

    name: str = "good"
    label: str = "Good"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "something"
    paper: str = "none"

    def measure(self, subject: Subject) -> Score:
        return Score(self.value(subject))

    def value(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence.mean())


class Constant(Good):
    def value(self, subject: Subject) -> float:
        return 1.0


class First(Good):
    def value(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence[0])


class Peeks(Good):
    def value(self, subject: Subject) -> float:
        dataset: Any = subject.target.given.dataset
        assert dataset is not None
        return float(super().value(subject) + dataset.labels[0])


class Trains(Good):
    def value(self, subject: Subject) -> float:
        subject.network.module.train()
        return super().value(subject)


class Counts(Good):
    def value(self, subject: Subject) -> float:
        module = subject.network.module
        module[1].running_mean.add_(1.0)
        return super().value(subject)


class Hooks(Good):
    def value(self, subject: Subject) -> float:
        subject.network.module.register_forward_hook(lambda *_: None)
        return super().value(subject)


class Differentiates(Good):
    def value(self, subject: Subject) -> float:
        network = subject.network
        network.module[0].weight.grad = network.module[0].weight.detach().clone()
        return super().value(subject)


class ByBatch(Good):
    def value(self, subject: Subject) -> float:
        model: Any = subject.target.given.model
        return super().value(subject) + (model.batch or 0)


class Hungry(Good):
    def value(self, subject: Subject) -> float:
        return float(super().value(subject) + subject.target.features.mean())


class Silent(Good):
    def measure(self, subject: Subject) -> Score:
        if subject.source.n == subject.target.n:
            raise NoAnswer("")
        return super().measure(subject)


@dataclass(frozen=True)
class Forgetful(Good):
    asked: list[int] = field(default_factory=list, compare=False)

    def value(self, subject: Subject) -> float:
        self.asked.append(1)
        return super().value(subject) + len(self.asked)


def test_a_measure_that_keeps_the_rules_passes() -> None:
    check_measure(Good())


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (replace(Good(), name="Good"), "must be lower case"),
        (replace(Good(), name="a b"), "must be one word"),
        (replace(Good(), label=""), "must have a label"),
        (replace(Good(), assumes=""), "what it assumes"),
        (replace(Good(), paper=""), "where it comes from"),
        (replace(Good(), needs=()), "must say what it needs"),
        (replace(Good(), needs=("luck",)), "which nothing can give"),  # type: ignore[arg-type]
        (Constant(), "whatever the model and the data"),
        (First(), "the order of rows"),
        (Peeks(), "reads the target's labels"),
        (Trains(), "changes the network"),
        (Counts(), "changes the network"),
        (Hooks(), "changes the network"),
        (Differentiates(), "changes the network"),
        (ByBatch(), "the size of the batch"),
        (Forgetful(), "differs when asked again"),
        (Silent(), "refuses without a reason"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Good) else one,
)
def test_a_broken_measure_is_caught(member: Good, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_measure(member)


def test_a_measure_that_needs_more_than_it_says_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"needs more than .*it needs features"):
        check_measure(Hungry())


def test_the_toy_networks_statistics_are_not_those_of_a_fresh_layer() -> None:
    from oodometer.testing.measures import toy_network

    norm = toy_network()[1]
    assert float(np.abs(norm.running_mean.numpy()).max()) > 0.05
    assert not norm.training


def test_a_measure_without_an_answer_is_told_so() -> None:
    class Lost(Good):
        def value(self, subject: Subject) -> float:
            return float("nan")

    with pytest.raises(AssertionError, match="good has no answer for a toy: the value is nan"):
        check_measure(Lost())
