"""Conformance rules on every estimator, and the registry."""

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
from oodometer.estimators import ON_REQUEST, LinearCorrection, Mandoline, available, get
from oodometer.testing import ESTIMATOR_RULES, toy_pair
from tests.support.cases import assert_conformance

VARIANTS: tuple[Estimator, ...] = (
    Mandoline(20, "equal-mass"),
    LinearCorrection(get("doc"), Line(0.8, 0.1)),
)


def test_every_estimator_keeps_the_rules() -> None:
    assert_conformance(ESTIMATOR_RULES, [*available(), *ON_REQUEST, *VARIANTS], range(3))


@dataclass(frozen=True)
class ThirdParty:
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
def test_batches_of_any_size_merge_to_the_whole(
    member: StreamingEstimator[Any, Any], cuts: list[int], seed: int
) -> None:
    source, target = toy_pair(seed)
    learned = member.learn(source)
    edges = [0, *sorted(cuts), target.n]
    batches = [target.rows(slice(a, b)) for a, b in pairwise(edges) if b > a]
    total = reduce(add, (member.summarize(learned, batch) for batch in batches))
    expected = member.estimate(source, target).value
    assert member.finish(learned, total).value == pytest.approx(expected, abs=1e-9)


def test_names_are_unique_and_case_insensitive() -> None:
    names = [member.name for member in (*available(), *ON_REQUEST)]
    assert len(set(names)) == len(names)
    assert get("ATC-MC").name == "atc-mc"


def test_estimators_on_request_are_found_by_name_only() -> None:
    assert not {member.name for member in ON_REQUEST} & {member.name for member in available()}
    assert [get(member.name) for member in ON_REQUEST] == list(ON_REQUEST)


def test_unknown_name_suggests_the_closest() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'atc-mc'\? There are: ac, doc, atc-mc"):
        get("atc-cm")


def test_entry_points_add_estimators_and_reject_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Entry:
        def __init__(self, value: object) -> None:
            self.name, self.value = "theirs", value

        def load(self) -> object:
            return self.value

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry(ThirdParty)])
    assert get("theirs") == ThirdParty()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry(dict)])
    with pytest.raises(InputError, match="'theirs' returns a dict, which is not a valid estimator"):
        available()
