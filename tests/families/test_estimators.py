"""The rules of the family, run on every member, including those not written yet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import Line
from oodometer.estimators import LinearCorrection, Mandoline, available, get
from oodometer.testing import ESTIMATOR_RULES, toy_pair

VARIANTS: tuple[Estimator, ...] = (
    Mandoline(20, "equal-mass"),
    LinearCorrection(get("doc"), Line(0.8, 0.1)),
)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("rule", ESTIMATOR_RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("member", [*available(), *VARIANTS], ids=lambda member: member.name)
def test_every_estimator_keeps_the_rules(member: Estimator, rule: object, seed: int) -> None:
    assert callable(rule)
    rule(member, seed)


@dataclass(frozen=True)
class Theirs:
    name: ClassVar[str] = "theirs"
    assumes: ClassVar[str] = "that it is installed"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.confidence.min()))


@settings(max_examples=40)
@given(
    member=st.sampled_from(
        [m for m in available() if isinstance(m, StreamingEstimator) and m.is_mergeable]
    ),
    cuts=st.lists(st.integers(0, 300), max_size=6),
    seed=st.integers(0, 50),
)
def test_batches_of_any_sizes_add_up_to_the_whole(
    member: StreamingEstimator[Any, Any], cuts: list[int], seed: int
) -> None:
    source, target = toy_pair(seed)
    learned = member.learn(source)
    edges = [0, *sorted(cuts), target.n]
    parts = [target.rows(slice(a, b)) for a, b in pairwise(edges) if b > a]
    total = reduce(add, (member.summarize(learned, part) for part in parts))
    whole = member.estimate(source, target).value
    assert member.finish(learned, total).value == pytest.approx(whole, abs=1e-9)


def test_names_are_unique_and_found_whatever_their_case() -> None:
    names = [member.name for member in available()]
    assert len(set(names)) == len(names)
    assert get("ATC-MC").name == "atc-mc"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'atc-mc'\? There are: ac, doc, atc-mc"):
        get("atc-cm")


def test_an_entry_point_adds_an_estimator_and_a_wrong_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Entry:
        def __init__(self, thing: object) -> None:
            self.name, self.thing = "theirs", thing

        def load(self) -> object:
            return self.thing

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry(Theirs)])
    assert get("theirs") == Theirs()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry(dict)])
    with pytest.raises(InputError, match="'theirs' returns a dict, which is not a valid estimator"):
        available()
