"""Subjects: what measures share, and why some do not apply."""

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
class Plain:
    """A measure that gives a bare number."""

    name: str = "plain"
    label: str = "Plain"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "nothing"
    paper: str = "none"

    def measure(self, subject: Subject) -> float:
        return 3


class Whole(Plain):
    """One that gives a whole score."""

    def measure(self, subject: Subject) -> Any:
        return Score(1.0, 0.0, 2.0, ("a note",))


def test_what_is_shared_is_made_once_and_so_is_a_refusal() -> None:
    subject, made = toy_subject(), []

    def make() -> int:
        made.append(1)
        return len(made)

    def refuse() -> int:
        made.append(1)
        raise NotApplicable("no")

    assert [subject.cached("a", make), subject.cached("a", make), subject.cached("b", make)] == [
        1,
        1,
        2,
    ]
    refusals = set()
    for _ in range(2):
        with pytest.raises(NotApplicable, match=r"^no$") as caught:
            subject.cached("c", refuse)
        refusals.add(caught.value)
    assert len(made) == 3
    # One that is raised again and again would hold more and more frames.
    assert len(refusals) == 2
    assert subject.features is subject.features
    assert subject.network is subject.target.network


def test_the_papers_s_is_the_training_data_where_there_are_any() -> None:
    subject = toy_subject()
    assert subject.reference is subject.training
    alone = Subject(subject.source, subject.target)
    assert alone.reference is alone.source
    by_training, by_source = (measure_one(EntropySource(), one).value for one in (subject, alone))
    assert by_training != by_source
    assert subject.training is not None
    expected = -np.mean([row @ np.log(row) for row in subject.training.outputs.probs])
    assert by_training == pytest.approx(expected, rel=1e-6)


def test_source_error_is_of_the_held_out_source() -> None:
    subject = toy_subject()
    wrong = np.mean(subject.source.outputs.classes != subject.source.labels)
    assert measure_one(SourceError(), subject).value == pytest.approx(wrong)


def test_a_domain_is_a_subject_of_its_own_and_is_kept() -> None:
    subject = toy_subject()
    assert subject.training is not None
    one = subject.select_domain("one")
    assert one is subject.select_domain("one")
    assert one.reference.n == 60
    assert one.target is subject.target
    assert one.source is subject.source
    assert subject.select_domain("other").reference.domain_names == ("other",)
    assert toy_subject(3).select_domain("one").seed == 3
    alone = Subject(subject.source, subject.target).select_domain("other")
    assert (alone.source.n, alone.training) == (52, None)


def test_a_sample_has_a_share_of_every_side_and_asks_the_model_nothing() -> None:
    subject = toy_subject()
    some = subject.subsample(0.8, rng_for(0, "x"))
    assert (some.source.n, some.target.n, some.reference.n) == (90, 48, 96)
    rows = some.target.keys
    assert len(set(rows.tolist())) == 48
    assert set(rows.tolist()) <= set(subject.target.keys.tolist())
    assert some.target.parent is subject.target
    assert some.target.index is not None
    assert (np.diff(some.target.index) > 0).all()
    assert set(subject.subsample(0.8, rng_for(0, "y")).target.keys.tolist()) != set(rows.tolist())
    assert toy_subject(3).subsample(0.8, rng_for(0, "x")).seed == 3
    assert (
        features_only(np.ones((3, 1)), np.ones((3, 1))).subsample(0.1, rng_for(0, "x")).reference.n
        == 1
    )
    for share in (0.0, 1.0, 2.0):
        with pytest.raises(InputError, match="share must be between 0 and 1"):
            subject.subsample(share, rng_for(0, "x"))


def test_what_is_lacking_is_said_in_words() -> None:
    subject = toy_subject()
    needs: tuple[Need, ...] = (
        "outputs", "labels", "features", "gradients", "weights", "training data", "mixable inputs",
        "source domains",
    )  # fmt: skip
    assert all(subject.missing(need) is None for need in needs)
    bare: Any = np.ones((3, 2))
    poor = Subject(
        ModelView(ViewSource("s", features=bare)), ModelView(ViewSource("t", features=bare))
    )
    assert poor.k == 2
    assert poor.missing("features") is None
    assert poor.missing("training data") == "no training data were given"
    assert "there is no word of any; give the source as several datasets by name" in str(
        poor.missing("source domains")
    )
    single = Subject(
        ModelView(ViewSource("s", features=bare, domains=np.array(["a"] * 3))), poor.target
    )
    assert "there is 1;" in str(single.missing("source domains"))
    with pytest.raises(NotApplicable, match=r"it needs outputs: .* has neither outputs"):
        measure_one(Plain(), poor)


def test_what_is_lacking_is_looked_for_on_the_side_that_a_measure_reads() -> None:
    rows, said = np.ones((3, 2)), Predictions.from_probs(np.full((3, 2), 0.5))
    wide, bare = ModelView(ViewSource("z", features=rows)), ModelView(ViewSource("p", outputs=said))
    labelled = ModelView(ViewSource("y", outputs=replace(said, labels=np.zeros(3, dtype=np.int64))))
    domains = ModelView(ViewSource("d", features=rows, domains=np.array(["a", "b", "b"])))
    assert Subject(wide, wide, wide).missing("features") is None
    assert Subject(bare, wide, wide).missing("features") is None
    for poor in (Subject(wide, bare), Subject(bare, wide), Subject(wide, wide, bare)):
        assert poor.missing("features") == "'p' has no features and no model"
    assert Subject(labelled, bare, bare).missing("labels") is None
    assert Subject(bare, bare, labelled).missing("labels") == "'p' has no labels"
    assert Subject(wide, wide, domains).missing("source domains") is None
    assert Subject(domains, wide, wide).missing("source domains") is not None
    with pytest.raises(NotApplicable, match="it needs labels: 'p' has no labels"):
        measure_one(SourceError(), Subject(bare, bare))


def test_gradients_are_those_of_the_model_whatever_is_known_of_the_source() -> None:
    subject = toy_subject()
    closed = ModelView(ViewSource("z", features=subject.source.features))
    assert Subject(closed, subject.target).missing("gradients") is None
    assert Subject(subject.source, closed).missing("weights") == "no model was given"


# Features ---------------------------------------------------------------------------------------


def features_only(known: Any, new: Any) -> Subject:
    return Subject(
        ModelView(ViewSource("s", features=known)), ModelView(ViewSource("t", features=new))
    )


def test_features_are_those_of_s_and_of_the_target() -> None:
    subject = toy_subject()
    known, new = subject.features
    assert known is subject.reference.features
    assert new is subject.target.features


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("odd", [np.nan, -np.inf])
def test_features_that_are_not_finite_are_named(side: int, odd: float) -> None:
    sides = np.random.default_rng(0).normal(size=(2, 4, 3))
    sides[side, 2, 1] = odd
    with pytest.raises(InputError, match=f"row 2 of '{'st'[side]}' has {odd} in column 1"):
        _ = features_only(*sides).features


def test_features_must_be_as_wide_and_vary() -> None:
    ones = np.ones((3, 2))
    with pytest.raises(InputError, match="'s' are 2 wide, those of 't' 1; both must come from one"):
        _ = features_only(ones, ones[:, :1]).features
    with pytest.raises(NotApplicable, match="no feature varies over both sides"):
        _ = features_only(ones, ones[:1]).features
    for known, new in ((ones, 2 * ones), (np.eye(2), ones), (ones, np.eye(2))):
        assert features_only(known, new).features[1] is new


def test_a_bare_number_is_a_score_and_one_that_is_not_finite_is_none() -> None:
    assert measure_one(Plain(), toy_subject()) == Score(3.0)
    assert measure_one(Whole(), toy_subject()) == Score(1.0, 0.0, 2.0, ("a note",))
    for value in (float("nan"), float("inf")):
        with pytest.raises(NotApplicable, match="the value is"):
            Score(value)


def test_the_number_of_classes_is_the_models() -> None:
    said = Predictions.from_probs(np.full((4, 5), 0.2))
    assert (
        Subject(
            ModelView(ViewSource("s", outputs=said)), ModelView(ViewSource("t", outputs=said))
        ).k
        == 5
    )
