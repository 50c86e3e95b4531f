"""Every rule for metrics catches a metric that breaks it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from oodometer.core import Score
from oodometer.errors import NoAnswer
from oodometer.testing import check_metric
from oodometer.view import Need, View


@dataclass(frozen=True)
class Good:
    """Mean confidence."""

    name: str = "good"
    label: str = "Good"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "something"
    paper: str = "none"

    def score(self, view: View) -> Score:
        return Score(self.value(view))

    def value(self, view: View) -> float:
        return float(view.outputs.confidence.mean())


class Constant(Good):
    def value(self, view: View) -> float:
        return 1.0


class First(Good):
    def value(self, view: View) -> float:
        return float(view.outputs.confidence[0])


class Trains(Good):
    def value(self, view: View) -> float:
        found = super().value(view)
        view.network.module.train()
        return found


class Outside(Good):
    def score(self, view: View) -> Score:
        return Score(self.value(view), 2.0, 3.0)


class Silent(Good):
    def score(self, view: View) -> Score:
        if view.n == 1:
            raise NoAnswer("")
        return super().score(view)


class Forgetful(Good):
    asked = 0

    def value(self, view: View) -> float:
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
        (Forgetful(), "differs when asked again"),
        (Silent(), "refuses without a reason"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Good) else one,
)
def test_a_broken_metric_is_caught(member: Good, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_metric(member)
