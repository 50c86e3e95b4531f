"""The forms of a mean on the target beside that on the source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, NotApplicable
from oodometer.measures._difference_and_ratio import (
    COMPARISON_FORMS,
    ComparisonForm,
    compare,
    compare_means,
)
from oodometer.measures.subject import Subject
from oodometer.models.model_view import ModelView, ViewSource

POSITIVE = st.floats(1e-6, 1e6)


def test_by_hand() -> None:
    assert [compare(6.0, 2.0, form) for form in COMPARISON_FORMS] == [
        6.0,
        4.0,
        3.0,
        pytest.approx(math.log(3)),
    ]


@given(POSITIVE, POSITIVE)
def test_forms_are_told_from_one_another(target: float, source: float) -> None:
    assert compare(target, source, "plain") == target
    assert compare(target, source, "diff") == -compare(source, target, "diff")
    ratio = compare(target, source, "ratio")
    assert ratio * compare(source, target, "ratio") == pytest.approx(1)
    assert compare(target, source, "log-diff") == pytest.approx(math.log(ratio), abs=1e-9)


def test_plain_and_diff_take_what_can_not_be_divided_by() -> None:
    assert compare(2.0, 0.0, "plain") == compare(2.0, 0.0, "diff") == 2.0
    assert compare(0.0, 2.0, "ratio") == 0.0


@pytest.mark.parametrize("form", ["ratio", "log-diff"])
def test_nothing_is_divided_by_zero(form: ComparisonForm) -> None:
    with pytest.raises(NotApplicable, match="it is 0 on the source"):
        compare(1.0, 0.0, form)


@pytest.mark.parametrize(("target", "source"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_there_is_no_logarithm_of_zero_or_less(target: float, source: float) -> None:
    with pytest.raises(NotApplicable, match="no logarithm"):
        compare(target, source, "log-diff")


def test_an_unknown_form_is_named() -> None:
    unknown: Any = "square"
    with pytest.raises(InputError, match=r"one of plain, diff, ratio, log-diff; got 'square'"):
        compare(1.0, 1.0, unknown)


# Means of values ------------------------------------------------------------------------------


def side(name: str, *values: float) -> ModelView:
    return ModelView(ViewSource(name, features=np.array(values)[:, None]))


SUBJECT = Subject(side("source", 9.0), side("target", 2.0, 4.0, 6.0), side("training", 1.0, 3.0))


def first_feature(view: ModelView) -> np.ndarray:
    return np.asarray(view.features[:, 0])


def test_a_mean_on_the_target_stands_beside_that_on_the_papers_s() -> None:
    by_form = {
        form: compare_means(SUBJECT, form, first_feature, max_rows=9, purpose="x")
        for form in COMPARISON_FORMS
    }
    assert [one.value for one in by_form.values()] == [4.0, 2.0, 2.0, pytest.approx(math.log(2))]
    assert by_form["plain"].facts == {"target": 4.0, "target_rows": 3}
    both = {"target": 4.0, "target_rows": 3, "source": 2.0, "source_rows": 2}
    assert by_form["ratio"].facts == both
    assert all(one.notes == () for one in by_form.values())


def test_of_many_rows_some_are_drawn_for_the_purpose_and_it_is_said() -> None:
    drawn = {}
    for purpose in ("a", "b", "c", "d"):
        found = compare_means(SUBJECT, "diff", first_feature, max_rows=1, purpose=purpose)
        target, source = (
            view.subsample(1, purpose) for view in (SUBJECT.target, SUBJECT.reference)
        )
        assert found.value == float(target.features[0, 0] - source.features[0, 0])
        assert (found.facts["target_rows"], found.facts["source_rows"]) == (1, 1)
        assert found.notes == (
            "only 1 of 3 rows of 'target' were used, drawn at random",
            "only 1 of 2 rows of 'training' were used, drawn at random",
        )
        drawn[purpose] = found.value
    assert len(set(drawn.values())) > 1
