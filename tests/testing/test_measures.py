"""Every rule for measures catches a measure that breaks it."""

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
        dataset: Any = subject.target.view_source.dataset
        assert dataset is not None
        return float(super().value(subject) + dataset.labels[0])


class Trains(Good):
    def value(self, subject: Subject) -> float:
        found = super().value(subject)
        subject.network.module.train()
        return found


class Counts(Good):
    def value(self, subject: Subject) -> float:
        module = subject.network.module
        module[1].running_mean.add_(1.0)
        return super().value(subject)


class Hooks(Good):
    def value(self, subject: Subject) -> float:
        subject.network.module.register_forward_hook(lambda *_: None)
        return super().value(subject)


class Listens(Good):
    def value(self, subject: Subject) -> float:
        subject.network.module.register_forward_pre_hook(lambda *_: None)
        return super().value(subject)


class Freezes(Good):
    def value(self, subject: Subject) -> float:
        subject.network.module.requires_grad_(False)
        return super().value(subject)


class Differentiates(Good):
    def value(self, subject: Subject) -> float:
        network = subject.network
        network.module[0].weight.grad = network.module[0].weight.detach().clone()
        return super().value(subject)


class ByBatch(Good):
    def value(self, subject: Subject) -> float:
        model: Any = subject.target.view_source.model
        return super().value(subject) + (model.batch_size or 0)


@dataclass(frozen=True)
class Hungry(Good):
    """Looks at more than outputs, or than features, of a subject."""

    eats: Callable[[Subject], Any] = bool

    def value(self, subject: Subject) -> float:
        return float(np.mean(self.eats(subject)))


def training(subject: Subject) -> Any:
    if subject.training is None:
        raise NotApplicable("there are no training data")
    return subject.training.outputs.confidence


class Silent(Good):
    def measure(self, subject: Subject) -> Score:
        if subject.source.n == subject.target.n:
            raise NotApplicable("")
        return super().measure(subject)


@dataclass(frozen=True)
class Forgetful(Good):
    asked: list[int] = field(default_factory=list, compare=False)

    def value(self, subject: Subject) -> float:
        self.asked.append(1)
        return super().value(subject) + len(self.asked)


class Unseeded(Good):
    def value(self, subject: Subject) -> float:
        return subject.cached("drawn", lambda: float(np.random.default_rng().random()))


class Speaks(Good):
    def measure(self, subject: Subject) -> Any:
        return "much"


class Plain:
    """No dataclass, though it has all else."""

    name, label, needs, assumes, paper = "plain", "Plain", ("outputs",), "something", "none"

    def measure(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence.mean())


@dataclass
class Thawed(Plain):
    """A dataclass whose settings can change."""


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
        (Listens(), "changes the network"),
        (Freezes(), "changes the network"),
        (Differentiates(), "changes the network"),
        (ByBatch(), "the size of the batch"),
        (Forgetful(), "differs when asked again"),
        (Unseeded(), "differs when asked again"),
        (Thawed(), "must be a frozen dataclass"),
        (Plain(), "must be a frozen dataclass"),
        (object(), "lacks name, label, needs, assumes or measure"),
        (Speaks(), "returned 'much'. A measure must return a Score or a number"),
        (Silent(), "refuses without a reason"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_broken_measure_is_caught(member: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_measure(member)


@pytest.mark.parametrize(
    ("needs", "eats", "words"),
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
def test_a_measure_that_needs_more_than_it_says_is_caught(
    needs: Any, eats: Any, words: str
) -> None:
    with pytest.raises(AssertionError, match=f"needs more than .*{words}"):
        check_measure(Hungry(needs=(needs,), eats=eats))


def test_a_toy_hangs_on_its_seed_and_draws_from_no_stream_of_others() -> None:
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


def test_rows_in_another_order_keep_their_labels() -> None:
    bench = MeasureTestSubjects()
    plain, mixed = bench.baseline.source, bench.permuted.source
    order = [plain.keys.tolist().index(key) for key in mixed.keys.tolist()]
    assert order != sorted(order)
    assert np.array_equal(mixed.labels, plain.labels[order])


def test_the_toy_networks_statistics_are_not_those_of_a_fresh_layer() -> None:
    norm = toy_network()[1]
    assert float(np.abs(norm.running_mean.numpy()).max()) > 0.05
    assert not norm.training


def test_a_measure_without_an_answer_is_told_so() -> None:
    class Lost(Good):
        def value(self, subject: Subject) -> float:
            return float("nan")

    with pytest.raises(AssertionError, match="good has no answer for a toy: the value is nan"):
        check_measure(Lost())
