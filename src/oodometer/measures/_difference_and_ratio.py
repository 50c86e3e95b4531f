"""A mean on the target beside the same mean on the source: the forms of Jacobian and Mixup. DG §7."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Literal, get_args

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.results import Score
from oodometer.measures.subject import Subject
from oodometer.models.model_view import ModelView, subsample_note

ComparisonForm = Literal["plain", "diff", "ratio", "log-diff"]
COMPARISON_FORMS: tuple[ComparisonForm, ...] = get_args(ComparisonForm)


def compare(target: float, source: float, form: ComparisonForm) -> float:
    """T alone, T − S, T / S or log T − log S.

    >>> [round(compare(3.0, 2.0, form), 3) for form in COMPARISON_FORMS]
    [3.0, 1.0, 1.5, 0.405]
    """
    if form not in COMPARISON_FORMS:
        raise InputError(
            f"form must be one of {', '.join(COMPARISON_FORMS)}; got {form!r}. Name one of them."
        )
    if form == "plain":
        return target
    if form == "diff":
        return target - source
    if source == 0:
        raise NotApplicable("it is 0 on the source, and nothing can be divided by that")
    if form == "ratio":
        return target / source
    if target <= 0 or source < 0:
        raise NotApplicable(
            f"it is {target:g} on the target and {source:g} on the source: no logarithm"
        )
    return log(target) - log(source)


def compare_means(
    subject: Subject,
    form: ComparisonForm,
    row_values: Callable[[ModelView], Floats],
    *,
    max_rows: int,
    purpose: str,
) -> Score:
    """The mean of a value a row on T, or beside that on S, of at most so many rows a side."""
    sides = {"target": subject.target}
    if form != "plain":
        sides["source"] = subject.reference
    facts: dict[str, float] = {}
    notes: list[str] = []
    for side, view in sides.items():
        some = view.subsample(max_rows, purpose)
        facts |= {side: float(row_values(some).mean()), f"{side}_rows": some.n}
        notes += subsample_note(some, view)
    value = compare(facts["target"], facts.get("source", 0.0), form)
    return Score(value, notes=tuple(notes), facts=facts)
