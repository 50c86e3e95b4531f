"""Difference and ratio of a mean on target and source: the four forms of Jacobian and Mixup.

With T the mean on the target and S the mean on the source, the forms of a measure are T, T − S,
T / S and log T − log S (Vedantam et al., NeurIPS 2021, §7.3).
"""

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


def check_form(form: str) -> None:
    """Raise if `form` is not a comparison form."""
    if form not in COMPARISON_FORMS:
        raise InputError(f"form must be one of {', '.join(COMPARISON_FORMS)}; got {form!r}.")


def compare(target: float, source: float, form: ComparisonForm) -> float:
    """Return T, T − S, T / S or log T − log S, where T is `target` and S is `source`.

    >>> [round(compare(3.0, 2.0, form), 3) for form in COMPARISON_FORMS]
    [3.0, 1.0, 1.5, 0.405]
    """
    check_form(form)
    if form == "plain":
        return target
    if form == "diff":
        return target - source
    if source == 0:
        raise NotApplicable("the value on the source is 0, so the ratio is undefined")
    if form == "ratio":
        return target / source
    if target <= 0 or source < 0:
        raise NotApplicable(
            f"the value is {target:g} on the target and {source:g} on the source, so the logarithm "
            "is undefined"
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
    """Compare the mean of `row_values` on the target with its mean on the reference data.

    Each mean is over at most `max_rows` random rows. `purpose` is the label of the random stream
    that selects these rows.
    """
    sides = {"target": subject.target}
    if form != "plain":
        sides["source"] = subject.reference
    facts: dict[str, float] = {}
    notes: list[str] = []
    for side, view in sides.items():
        sample = view.subsample(max_rows, purpose)
        facts |= {side: float(row_values(sample).mean()), f"{side}_rows": sample.n}
        notes += subsample_note(sample, view)
    value = compare(facts["target"], facts.get("source", 0.0), form)
    return Score(value, notes=tuple(notes), facts=facts)
