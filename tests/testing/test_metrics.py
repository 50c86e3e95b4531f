"""Conformance rules of metrics detect violations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.models.model_view import ModelView
from oodometer.testing import check_metric
from oodometer.testing.metrics import toy_view


@dataclass(frozen=True)
class Conforming:
    """Mean confidence."""

    name: str = "conforming"
    label: str = "Conforming"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "something"
    paper: str = "none"

    def evaluate(self, view: ModelView) -> Score:
        return Score(self.value(view))

    def value(self, view: ModelView) -> float:
        return float(view.outputs.confidence.mean())


class Constant(Conforming):
    def value(self, view: ModelView) -> float:
        return 1.0


class FirstRow(Conforming):
    def value(self, view: ModelView) -> float:
        return float(view.outputs.confidence[0])


class SetsTrainingMode(Conforming):
    def value(self, view: ModelView) -> float:
        result = super().value(view)
        view.network.module.train()
        return result


class BelowInterval(Conforming):
    def evaluate(self, view: ModelView) -> Score:
        return Score(self.value(view), 2.0, 3.0)


class AboveInterval(Conforming):
    def evaluate(self, view: ModelView) -> Score:
        return Score(self.value(view), 0.0, 0.1)


class NoReasonIfAllCorrect(Conforming):
    """Raise NotApplicable without a reason if all rows are correct."""

    def evaluate(self, view: ModelView) -> Score:
        if view.n > 1 and view.outputs.correct.all():
            raise NotApplicable("")
        return super().evaluate(view)


class ReturnsNumber(Conforming):
    def evaluate(self, view: ModelView) -> Any:
        return self.value(view)


class DependsOnView(Conforming):
    """Return another value for every new view."""

    seen: ClassVar[list[ModelView]] = []

    def value(self, view: ModelView) -> float:
        if not any(view is known_view for known_view in self.seen):
            self.seen.append(view)
        return super().value(view) + [view is known_view for known_view in self.seen].index(True)


class DependsOnCall(Conforming):
    """Return another value at every call with the same view."""

    seen: ClassVar[list[ModelView]] = []

    def value(self, view: ModelView) -> float:
        self.seen.append(view)
        return super().value(view) + sum(view is known_view for known_view in self.seen)


class NotADataclass:
    """Metric that is not a dataclass."""

    name, label, needs, assumes, paper = "plain", "Plain", ("outputs",), "something", "none"

    def evaluate(self, view: ModelView) -> Score:
        return Score(float(view.outputs.confidence.mean()))


@dataclass
class NotFrozen(NotADataclass):
    """Dataclass that is not frozen."""


class NoReasonForOneRow(Conforming):
    def evaluate(self, view: ModelView) -> Score:
        if view.n == 1:
            raise NotApplicable("")
        return super().evaluate(view)


class CountsCalls(Conforming):
    calls = 0

    def value(self, view: ModelView) -> float:
        CountsCalls.calls += 1
        return super().value(view) + CountsCalls.calls


def test_conforming_metric_passes() -> None:
    check_metric(Conforming())


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
        (FirstRow(), "depends on the order of rows"),
        (SetsTrainingMode(), "changes the network"),
        (BelowInterval(), r"is not in \[2.0, 3.0\]"),
        (AboveInterval(), r"is not in \[0.0, 0.1\]"),
        (ReturnsNumber(), "must return a Score"),
        (CountsCalls(), "differs between two calls"),
        (DependsOnView(), "differs between two calls"),
        (DependsOnCall(), "differs between two calls"),
        (NotADataclass(), "must be a frozen dataclass"),
        (NotFrozen(), "must be a frozen dataclass"),
        (object(), "lacks name, label, needs, assumes, paper or evaluate"),
        (NoReasonIfAllCorrect(), "raises NotApplicable without a reason"),
        (NoReasonForOneRow(), "raises NotApplicable without a reason"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_violated_rules_are_detected(member: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_metric(member)


def test_toy_view_has_the_seed_and_permuted_rows_keep_their_labels() -> None:
    original, shuffled = toy_view(3), toy_view(3, permuted=True)
    assert original.view_source.seed == 3
    order = [original.keys.tolist().index(key) for key in shuffled.keys.tolist()]
    assert order != sorted(order)
    assert shuffled.labels.tolist() == original.labels[order].tolist()
