"""Subjects: what measures share, and why some do not apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oodometer.core import Score
from oodometer.errors import InputError, NoAnswer
from oodometer.measures import EntropySource, SourceError
from oodometer.predictions import Predictions
from oodometer.stats import stream
from oodometer.subject import Subject, scored
from oodometer.testing import toy_subject
from oodometer.view import Given, Need, View


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


def test_what_is_shared_is_made_once_and_so_is_a_refusal() -> None:
    subject, made = toy_subject(), []

    def make() -> int:
        made.append(1)
        return len(made)

    def refuse() -> int:
        made.append(1)
        raise NoAnswer("no")

    assert [subject.once("a", make), subject.once("a", make), subject.once("b", make)] == [1, 1, 2]
    for _ in range(2):
        with pytest.raises(NoAnswer, match=r"^no$"):
            subject.once("c", refuse)
    assert len(made) == 3


def test_the_papers_s_is_the_training_data_where_there_are_any() -> None:
    subject = toy_subject()
    assert subject.known is subject.training
    alone = Subject(subject.source, subject.target)
    assert alone.known is alone.source
    by_training, by_source = (scored(EntropySource(), one).value for one in (subject, alone))
    assert by_training != by_source
    assert subject.training is not None
    expected = -np.mean([row @ np.log(row) for row in subject.training.outputs.probs])
    assert by_training == pytest.approx(expected, rel=1e-6)


def test_source_error_is_of_the_held_out_source() -> None:
    subject = toy_subject()
    wrong = np.mean(subject.source.outputs.classes != subject.source.labels)
    assert scored(SourceError(), subject).value == pytest.approx(wrong)


def test_a_domain_is_a_subject_of_its_own_and_is_kept() -> None:
    subject = toy_subject()
    assert subject.training is not None
    one = subject.of_domain("one")
    assert one is subject.of_domain("one")
    assert one.known.n == 60
    assert one.target is subject.target
    alone = Subject(subject.source, subject.target).of_domain("other")
    assert (alone.source.n, alone.training) == (52, None)


def test_a_sample_has_a_share_of_every_side_and_asks_the_model_nothing() -> None:
    subject = toy_subject()
    some = subject.sampled(0.8, stream(0, "x"))
    assert (some.source.n, some.target.n, some.known.n) == (90, 48, 96)
    rows = some.target.keys
    assert len(set(rows.tolist())) == 48
    assert set(rows.tolist()) <= set(subject.target.keys.tolist())
    assert some.target.whole is subject.target
    for share in (0.0, 1.0, 2.0):
        with pytest.raises(InputError, match="share must be between 0 and 1"):
            subject.sampled(share, stream(0, "x"))


def test_what_is_lacking_is_said_in_words() -> None:
    subject = toy_subject()
    needs: tuple[Need, ...] = (
        "outputs", "labels", "features", "gradients", "weights", "training data", "mixable inputs",
        "source domains",
    )  # fmt: skip
    assert all(subject.lacks(need) is None for need in needs)
    bare: Any = np.ones((3, 2))
    poor = Subject(View(Given("s", features=bare)), View(Given("t", features=bare)))
    assert poor.k == 2
    assert poor.lacks("features") is None
    assert poor.lacks("training data") == "no training data were given"
    assert "several datasets by name" in str(poor.lacks("source domains"))
    single = Subject(View(Given("s", features=bare, domains=np.array(["a"] * 3))), poor.target)
    assert "there is 1;" in str(single.lacks("source domains"))
    with pytest.raises(NoAnswer, match="it needs outputs: there are neither outputs"):
        scored(Plain(), poor)


def test_a_bare_number_is_a_score_and_one_that_is_not_finite_is_none() -> None:
    assert scored(Plain(), toy_subject()) == Score(3.0)
    for value in (float("nan"), float("inf")):
        with pytest.raises(NoAnswer, match="the value is"):
            Score(value)


def test_the_number_of_classes_is_the_models() -> None:
    said = Predictions.from_probs(np.full((4, 5), 0.2))
    assert Subject(View(Given("s", outputs=said)), View(Given("t", outputs=said))).k == 5
