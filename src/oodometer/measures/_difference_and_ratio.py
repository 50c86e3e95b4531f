"""A mean on the target beside the same mean on the source: the forms of Jacobian and Mixup. DG §7."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Literal, get_args

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.protocols import Score
from oodometer.core.softmax_kernels import Floats
from oodometer.measures.subject import Subject
from oodometer.models.model_view import View, left_out

Form = Literal["plain", "diff", "ratio", "log-diff"]
FORMS: tuple[Form, ...] = get_args(Form)


def compared(target: float, source: float, form: Form) -> float:
    """T alone, T − S, T / S or log T − log S.

    >>> [round(compared(3.0, 2.0, form), 3) for form in FORMS]
    [3.0, 1.0, 1.5, 0.405]
    """
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}; got {form!r}. Name one of them.")
    if form == "plain":
        return target
    if form == "diff":
        return target - source
    if source == 0:
        raise NoAnswer("it is 0 on the source, and nothing can be divided by that")
    if form == "ratio":
        return target / source
    if target <= 0 or source < 0:
        raise NoAnswer(f"it is {target:g} on the target and {source:g} on the source: no logarithm")
    return log(target) - log(source)


def means_compared(
    subject: Subject, form: Form, values: Callable[[View], Floats], *, rows: int, purpose: str
) -> Score:
    """The mean of a value a row on T, or beside that on S, of at most so many rows a side."""
    sides = {"target": subject.target}
    if form != "plain":
        sides["source"] = subject.known
    facts: dict[str, float] = {}
    notes: list[str] = []
    for side, view in sides.items():
        some = view.first(rows, purpose)
        facts |= {side: float(values(some).mean()), f"{side}_rows": some.n}
        notes += left_out(some, view)
    value = compared(facts["target"], facts.get("source", 0.0), form)
    return Score(value, notes=tuple(notes), facts=facts)
