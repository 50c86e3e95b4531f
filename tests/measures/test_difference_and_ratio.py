"""The forms of a mean on the target beside that on the source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, NoAnswer
from oodometer.measures._difference_and_ratio import FORMS, Form, compared, means_compared
from oodometer.measures.subject import Subject
from oodometer.models.model_view import Given, View

POSITIVE = st.floats(1e-6, 1e6)


def test_by_hand() -> None:
    assert [compared(6.0, 2.0, form) for form in FORMS] == [
        6.0,
        4.0,
        3.0,
        pytest.approx(math.log(3)),
    ]


@given(POSITIVE, POSITIVE)
def test_forms_are_told_from_one_another(target: float, source: float) -> None:
    assert compared(target, source, "plain") == target
    assert compared(target, source, "diff") == -compared(source, target, "diff")
    ratio = compared(target, source, "ratio")
    assert ratio * compared(source, target, "ratio") == pytest.approx(1)
    assert compared(target, source, "log-diff") == pytest.approx(math.log(ratio), abs=1e-9)


def test_plain_and_diff_take_what_can_not_be_divided_by() -> None:
    assert compared(2.0, 0.0, "plain") == compared(2.0, 0.0, "diff") == 2.0
    assert compared(0.0, 2.0, "ratio") == 0.0


@pytest.mark.parametrize("form", ["ratio", "log-diff"])
def test_nothing_is_divided_by_zero(form: Form) -> None:
    with pytest.raises(NoAnswer, match="it is 0 on the source"):
        compared(1.0, 0.0, form)


@pytest.mark.parametrize(("target", "source"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_there_is_no_logarithm_of_zero_or_less(target: float, source: float) -> None:
    with pytest.raises(NoAnswer, match="no logarithm"):
        compared(target, source, "log-diff")


def test_an_unknown_form_is_named() -> None:
    unknown: Any = "square"
    with pytest.raises(InputError, match=r"one of plain, diff, ratio, log-diff; got 'square'"):
        compared(1.0, 1.0, unknown)


# Means of values ------------------------------------------------------------------------------


def side(name: str, *values: float) -> View:
    return View(Given(name, features=np.array(values)[:, None]))


SUBJECT = Subject(side("source", 9.0), side("target", 2.0, 4.0, 6.0), side("training", 1.0, 3.0))


def first_feature(view: View) -> np.ndarray:
    return np.asarray(view.features[:, 0])


def test_a_mean_on_the_target_stands_beside_that_on_the_papers_s() -> None:
    by_form = {
        form: means_compared(SUBJECT, form, first_feature, rows=9, purpose="x") for form in FORMS
    }
    assert [one.value for one in by_form.values()] == [4.0, 2.0, 2.0, pytest.approx(math.log(2))]
    assert by_form["plain"].facts == {"target": 4.0, "target_rows": 3}
    both = {"target": 4.0, "target_rows": 3, "source": 2.0, "source_rows": 2}
    assert by_form["ratio"].facts == both
    assert all(one.notes == () for one in by_form.values())


def test_of_many_rows_some_are_drawn_for_the_purpose_and_it_is_said() -> None:
    drawn = {}
    for purpose in ("a", "b", "c", "d"):
        found = means_compared(SUBJECT, "diff", first_feature, rows=1, purpose=purpose)
        target, source = (view.first(1, purpose) for view in (SUBJECT.target, SUBJECT.known))
        assert found.value == float(target.features[0, 0] - source.features[0, 0])
        assert (found.facts["target_rows"], found.facts["source_rows"]) == (1, 1)
        assert found.notes == (
            "only 1 of 3 rows of 'target' were used, drawn at random",
            "only 1 of 2 rows of 'training' were used, drawn at random",
        )
        drawn[purpose] = found.value
    assert len(set(drawn.values())) > 1
