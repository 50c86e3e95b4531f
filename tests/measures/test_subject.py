"""Subjects: cached intermediate results and reasons why measures do not apply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.measures import EntropySource, SourceError
from oodometer.measures.subject import Subject, measure_one
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.testing import toy_subject


@dataclass(frozen=True)
class BareNumber:
    """Measure that returns a bare number."""

    name: str = "plain"
    label: str = "Plain"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "nothing"
    paper: str = "none"

    def measure(self, subject: Subject) -> float:
        return 3


class FullScore(BareNumber):
    """Measure that returns a Score."""

    def measure(self, subject: Subject) -> Any:
        return Score(1.0, 0.0, 2.0, ("a note",))


def test_cached_values_and_errors_are_computed_once() -> None:
    subject, calls = toy_subject(), []

    def count_calls() -> int:
        calls.append(1)
        return len(calls)

    def fail() -> int:
        calls.append(1)
        raise NotApplicable("no")

    assert [
        subject.cached("a", count_calls),
        subject.cached("a", count_calls),
        subject.cached("b", count_calls),
    ] == [
        1,
        1,
        2,
    ]
    errors = set()
    for _ in range(2):
        with pytest.raises(NotApplicable, match=r"^no$") as caught:
            subject.cached("c", fail)
        errors.add(caught.value)
    assert len(calls) == 3
    # A fresh exception each time: raising one object again would accumulate traceback frames.
    assert len(errors) == 2
    assert subject.features is subject.features
    assert subject.network is subject.target.network


def test_reference_is_the_training_data_if_given() -> None:
    subject = toy_subject()
    assert subject.reference is subject.training
    alone = Subject(subject.source, subject.target)
    assert alone.reference is alone.source
    by_training, by_source = (
        measure_one(EntropySource(), domain_subject).value for domain_subject in (subject, alone)
    )
    assert by_training != by_source
    assert subject.training is not None
    expected = -np.mean([row @ np.log(row) for row in subject.training.outputs.probs])
    assert by_training == pytest.approx(expected, rel=1e-6)


def test_source_error_uses_the_held_out_source() -> None:
    subject = toy_subject()
    wrong = np.mean(subject.source.outputs.classes != subject.source.labels)
    assert measure_one(SourceError(), subject).value == pytest.approx(wrong)


def test_domain_is_a_cached_subject() -> None:
    subject = toy_subject()
    assert subject.training is not None
    domain_subject = subject.select_domain("one")
    assert domain_subject is subject.select_domain("one")
    assert domain_subject.reference.n == 60
    assert domain_subject.target is subject.target
    assert domain_subject.source is subject.source
    assert subject.select_domain("other").reference.domain_names == ("other",)
    assert toy_subject(3).select_domain("one").seed == 3
    alone = Subject(subject.source, subject.target).select_domain("other")
    assert (alone.source.n, alone.training) == (52, None)


def test_subsample_takes_a_share_of_every_view() -> None:
    subject = toy_subject()
    sample = subject.subsample(0.8, rng_for(0, "x"))
    assert (sample.source.n, sample.target.n, sample.reference.n) == (90, 48, 96)
    rows = sample.target.keys
    assert len(set(rows.tolist())) == 48
    assert set(rows.tolist()) <= set(subject.target.keys.tolist())
    assert sample.target.parent is subject.target
    assert sample.target.index is not None
    assert (np.diff(sample.target.index) > 0).all()
    assert set(subject.subsample(0.8, rng_for(0, "y")).target.keys.tolist()) != set(rows.tolist())
    assert toy_subject(3).subsample(0.8, rng_for(0, "x")).seed == 3
    assert (
        features_only(np.ones((3, 1)), np.ones((3, 1))).subsample(0.1, rng_for(0, "x")).reference.n
        == 1
    )
    for share in (0.0, 1.0, 2.0):
        with pytest.raises(InputError, match="share must be above 0 and below 1"):
            subject.subsample(share, rng_for(0, "x"))


def test_missing_returns_the_reason() -> None:
    subject = toy_subject()
    needs: tuple[Need, ...] = (
        "outputs", "labels", "features", "gradients", "weights", "training data", "mixable inputs",
        "source domains",
    )  # fmt: skip
    assert all(subject.missing(need) is None for need in needs)
    bare: Any = np.ones((3, 2))
    incomplete = Subject(
        ModelView(ViewSource("s", features=bare)), ModelView(ViewSource("t", features=bare))
    )
    assert incomplete.k == 2
    assert incomplete.missing("features") is None
    assert incomplete.missing("training data") == "no training data were given"
    assert "none are known; pass the source as a mapping from domain names to datasets" in str(
        incomplete.missing("source domains")
    )
    single = Subject(
        ModelView(ViewSource("s", features=bare, domains=np.array(["a"] * 3))), incomplete.target
    )
    assert "only one is known;" in str(single.missing("source domains"))
    with pytest.raises(NotApplicable, match=r"it needs outputs: .* has neither outputs"):
        measure_one(BareNumber(), incomplete)


def test_missing_checks_the_view_that_measures_read() -> None:
    rows, outputs = np.ones((3, 2)), Predictions.from_probs(np.full((3, 2), 0.5))
    wide, bare = (
        ModelView(ViewSource("z", features=rows)),
        ModelView(ViewSource("p", outputs=outputs)),
    )
    labelled = ModelView(
        ViewSource("y", outputs=replace(outputs, labels=np.zeros(3, dtype=np.int64)))
    )
    domains = ModelView(ViewSource("d", features=rows, domains=np.array(["a", "b", "b"])))
    assert Subject(wide, wide, wide).missing("features") is None
    assert Subject(bare, wide, wide).missing("features") is None
    for incomplete in (Subject(wide, bare), Subject(bare, wide), Subject(wide, wide, bare)):
        assert incomplete.missing("features") == "'p' has no features and no model"
    assert Subject(labelled, bare, bare).missing("labels") is None
    assert Subject(bare, bare, labelled).missing("labels") == "'p' has no labels"
    assert Subject(wide, wide, domains).missing("source domains") is None
    assert Subject(domains, wide, wide).missing("source domains") is not None
    with pytest.raises(NotApplicable, match="it needs labels: 'p' has no labels"):
        measure_one(SourceError(), Subject(bare, bare))


def test_gradients_depend_on_the_target_model_only() -> None:
    subject = toy_subject()
    closed = ModelView(ViewSource("z", features=subject.source.features))
    assert Subject(closed, subject.target).missing("gradients") is None
    assert Subject(subject.source, closed).missing("weights") == "no model was given"


# Features ---------------------------------------------------------------------------------------


def features_only(reference: Any, target: Any) -> Subject:
    return Subject(
        ModelView(ViewSource("s", features=reference)), ModelView(ViewSource("t", features=target))
    )


def test_features_are_those_of_reference_and_target() -> None:
    subject = toy_subject()
    reference, target = subject.features
    assert reference is subject.reference.features
    assert target is subject.target.features


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("invalid", [np.nan, -np.inf])
def test_non_finite_features_are_located(side: int, invalid: float) -> None:
    sides = np.random.default_rng(0).normal(size=(2, 4, 3))
    sides[side, 2, 1] = invalid
    with pytest.raises(InputError, match=f"row 2 of '{'st'[side]}' has {invalid} in column 1"):
        _ = features_only(*sides).features


def test_features_need_equal_width_and_variation() -> None:
    ones = np.ones((3, 2))
    with pytest.raises(InputError, match="'s' has 2 features per row and 't' has 1"):
        _ = features_only(ones, ones[:, :1]).features
    with pytest.raises(NotApplicable, match="all features are constant over source and target"):
        _ = features_only(ones, ones[:1]).features
    for reference, target in ((ones, 2 * ones), (np.eye(2), ones), (ones, np.eye(2))):
        assert features_only(reference, target).features[1] is target


def test_bare_numbers_become_scores_and_must_be_finite() -> None:
    assert measure_one(BareNumber(), toy_subject()) == Score(3.0)
    assert measure_one(FullScore(), toy_subject()) == Score(1.0, 0.0, 2.0, ("a note",))
    for value in (float("nan"), float("inf")):
        with pytest.raises(NotApplicable, match="the value is"):
            Score(value)


def test_k_is_the_number_of_model_classes() -> None:
    outputs = Predictions.from_probs(np.full((4, 5), 0.2))
    assert (
        Subject(
            ModelView(ViewSource("s", outputs=outputs)), ModelView(ViewSource("t", outputs=outputs))
        ).k
        == 5
    )
