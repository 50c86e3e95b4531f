"""Comparison forms of a mean on the target with the mean on the source."""

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
def test_forms_obey_their_definitions(target: float, source: float) -> None:
    assert compare(target, source, "plain") == target
    assert compare(target, source, "diff") == -compare(source, target, "diff")
    ratio = compare(target, source, "ratio")
    assert ratio * compare(source, target, "ratio") == pytest.approx(1)
    assert compare(target, source, "log-diff") == pytest.approx(math.log(ratio), abs=1e-9)


def test_plain_and_diff_accept_a_zero_source() -> None:
    assert compare(2.0, 0.0, "plain") == compare(2.0, 0.0, "diff") == 2.0
    assert compare(0.0, 2.0, "ratio") == 0.0


@pytest.mark.parametrize("form", ["ratio", "log-diff"])
def test_ratio_of_a_zero_source_is_not_applicable(form: ComparisonForm) -> None:
    with pytest.raises(NotApplicable, match="the value on the source is 0"):
        compare(1.0, 0.0, form)


@pytest.mark.parametrize(("target", "source"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_log_diff_needs_positive_values(target: float, source: float) -> None:
    with pytest.raises(NotApplicable, match="the logarithm is undefined"):
        compare(target, source, "log-diff")


def test_unknown_form_raises() -> None:
    unknown: Any = "square"
    with pytest.raises(InputError, match=r"one of plain, diff, ratio, log-diff; got 'square'"):
        compare(1.0, 1.0, unknown)


# Means of values ------------------------------------------------------------------------------


def side(name: str, *values: float) -> ModelView:
    return ModelView(ViewSource(name, features=np.array(values)[:, None]))


SUBJECT = Subject(side("source", 9.0), side("target", 2.0, 4.0, 6.0), side("training", 1.0, 3.0))


def first_feature(view: ModelView) -> np.ndarray:
    return np.asarray(view.features[:, 0])


def test_target_mean_is_compared_with_reference_mean() -> None:
    by_form = {
        form: compare_means(SUBJECT, form, first_feature, max_rows=9, purpose="x")
        for form in COMPARISON_FORMS
    }
    assert [score.value for score in by_form.values()] == [
        4.0,
        2.0,
        2.0,
        pytest.approx(math.log(2)),
    ]
    assert by_form["plain"].facts == {"target": 4.0, "target_rows": 3}
    expected_facts = {"target": 4.0, "target_rows": 3, "source": 2.0, "source_rows": 2}
    assert by_form["ratio"].facts == expected_facts
    assert all(score.notes == () for score in by_form.values())


def test_rows_are_subsampled_per_purpose_with_a_note() -> None:
    drawn = {}
    for purpose in ("a", "b", "c", "d"):
        score = compare_means(SUBJECT, "diff", first_feature, max_rows=1, purpose=purpose)
        target, source = (
            view.subsample(1, purpose) for view in (SUBJECT.target, SUBJECT.reference)
        )
        assert score.value == float(target.features[0, 0] - source.features[0, 0])
        assert (score.facts["target_rows"], score.facts["source_rows"]) == (1, 1)
        assert score.notes == (
            "only 1 of 3 rows of 'target' were used, drawn at random",
            "only 1 of 2 rows of 'training' were used, drawn at random",
        )
        drawn[purpose] = score.value
    assert len(set(drawn.values())) > 1
