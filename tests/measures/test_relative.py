"""The forms of a mean on the target beside that on the source."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.errors import InputError, NoAnswer
from oodometer.measures.relative import FORMS, Form, compared

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
