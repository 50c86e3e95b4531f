"""Every rule for metrics catches a metric that breaks it."""

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
class Good:
    """Mean confidence."""

    name: str = "good"
    label: str = "Good"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "something"
    paper: str = "none"

    def evaluate(self, view: ModelView) -> Score:
        return Score(self.value(view))

    def value(self, view: ModelView) -> float:
        return float(view.outputs.confidence.mean())


class Constant(Good):
    def value(self, view: ModelView) -> float:
        return 1.0


class First(Good):
    def value(self, view: ModelView) -> float:
        return float(view.outputs.confidence[0])


class Trains(Good):
    def value(self, view: ModelView) -> float:
        found = super().value(view)
        view.network.module.train()
        return found


class Outside(Good):
    def evaluate(self, view: ModelView) -> Score:
        return Score(self.value(view), 2.0, 3.0)


class Above(Good):
    def evaluate(self, view: ModelView) -> Score:
        return Score(self.value(view), 0.0, 0.1)


class Speechless(Good):
    """Says nothing of rows that are all right."""

    def evaluate(self, view: ModelView) -> Score:
        if view.n > 1 and view.outputs.correct.all():
            raise NotApplicable("")
        return super().evaluate(view)


class Bare(Good):
    def evaluate(self, view: ModelView) -> Any:
        return self.value(view)


class ByView(Good):
    """Another value for every view that it has not seen before."""

    seen: ClassVar[list[ModelView]] = []

    def value(self, view: ModelView) -> float:
        if not any(view is one for one in self.seen):
            self.seen.append(view)
        return super().value(view) + [view is one for one in self.seen].index(True)


class ByTurn(Good):
    """Another value when one view is asked again."""

    seen: ClassVar[list[ModelView]] = []

    def value(self, view: ModelView) -> float:
        self.seen.append(view)
        return super().value(view) + sum(view is one for one in self.seen)


class Plain:
    """No dataclass, though it has all else."""

    name, label, needs, assumes, paper = "plain", "Plain", ("outputs",), "something", "none"

    def evaluate(self, view: ModelView) -> Score:
        return Score(float(view.outputs.confidence.mean()))


@dataclass
class Thawed(Plain):
    """A dataclass whose settings can change."""


class Silent(Good):
    def evaluate(self, view: ModelView) -> Score:
        if view.n == 1:
            raise NotApplicable("")
        return super().evaluate(view)


class Forgetful(Good):
    asked = 0

    def value(self, view: ModelView) -> float:
        Forgetful.asked += 1
        return super().value(view) + Forgetful.asked


def test_a_metric_that_keeps_the_rules_passes() -> None:
    check_metric(Good())


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (replace(Good(), name="Good"), "must be lower case"),
        (replace(Good(), name="a b"), "must be one word"),
        (replace(Good(), label=""), "lacks label"),
        (replace(Good(), assumes=""), "lacks assumes"),
        (replace(Good(), paper=""), "lacks paper"),
        (replace(Good(), needs=()), "lacks needs"),
        (replace(Good(), needs=("luck",)), "which nothing can give"),  # type: ignore[arg-type]
        (Constant(), "whatever the model and the data"),
        (First(), "hangs on the order"),
        (Trains(), "changes the network"),
        (Outside(), "is not in 2.0 … 3.0"),
        (Above(), "is not in 0.0 … 0.1"),
        (Bare(), "must give a Score"),
        (Forgetful(), "differs when asked again"),
        (ByView(), "differs when asked again"),
        (ByTurn(), "differs when asked again"),
        (Plain(), "must be a frozen dataclass"),
        (Thawed(), "must be a frozen dataclass"),
        (object(), "lacks name, label, needs, assumes or score"),
        (Speechless(), "refuses without a reason"),
        (Silent(), "refuses without a reason"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_broken_metric_is_caught(member: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_metric(member)


def test_a_toy_view_has_the_seed_and_its_rows_keep_their_labels() -> None:
    plain, mixed = toy_view(3), toy_view(3, permuted=True)
    assert plain.view_source.seed == 3
    order = [plain.keys.tolist().index(key) for key in mixed.keys.tolist()]
    assert order != sorted(order)
    assert mixed.labels.tolist() == plain.labels[order].tolist()
