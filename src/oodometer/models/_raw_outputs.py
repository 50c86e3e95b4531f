"""What a model gave back, made into predictions, and the words of refusal where it can't be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array

Form = Literal["probs", "logits", "classes"]
FORMS: tuple[Form, ...] = get_args(Form)
Names = tuple[str, ...]


class Answer(NamedTuple):
    """Values as the model gave them, what they are, and the class names that the model knows.

    A form of None is told from the shape: (n,) is classes, (n, k) is probabilities.
    """

    values: Any
    form: Form | None = None
    names: Names | None = None


def one_line(error: BaseException) -> str:
    """The type of an exception and its message, on one short line.

    >>> one_line(KeyError("age"))
    "KeyError: 'age'"
    """
    words = " ".join(str(error).split()).rstrip(". ")
    shown = words if len(words) <= 200 else f"{words[:199]}…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def checked(answer: Answer, n: int, name: str) -> Answer:
    """The same with its values as an array that has one row an input."""
    values = _array(answer.values, name)
    if values.ndim == 0 or len(values) != n:
        rows = "a single value" if values.ndim == 0 else f"{len(values)} rows"
        raise InputError(
            f"The model {name!r} gave {rows} for {n} inputs. It must give one row an input."
        )
    return answer._replace(values=values)


def _array(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"The model {name!r} gave rows of different lengths. It must give one number a class "
            "in every row."
        ) from error


def joined(answers: Sequence[Answer], name: str) -> Answer:
    """One answer of those to successive batches."""
    if len(answers) == 1:
        return answers[0]
    shapes = {answer.values.shape[1:] for answer in answers}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise InputError(
            f"The model {name!r} gave rows of shape {first} for one batch and {second} for "
            "another. All rows must have as many classes."
        )
    return answers[0]._replace(values=np.concatenate([answer.values for answer in answers]))


def as_predictions(answer: Answer, name: str, classes: Names | None) -> Predictions:
    """Predictions of a checked answer; a refusal names the model.

    >>> as_predictions(Answer(np.array([[0.2, 0.8]])), "toy", ("cat", "dog")).class_names
    ('cat', 'dog')
    """
    try:
        return _renamed(_through_the_door(answer, classes), classes)
    except InputError as error:
        words = str(error).replace("Predictions.from_logits", 'outputs="logits"')
        raise InputError(f"The model {name!r} gave what can't be used: {words}") from error


def _through_the_door(answer: Answer, classes: Names | None) -> Predictions:
    values, form, names = answer.values, answer.form, answer.names or classes
    form = form or ("classes" if values.ndim == 1 else "probs")
    if form == "classes":
        return _hard(values, names)
    if values.ndim == 1:
        raise InputError(
            f"{form} must have a column a class; got one value a row. "
            'If these are classes, pass outputs="classes".'
        )
    door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    return door(values, class_names=names)


def _hard(values: Array, names: Names | None) -> Predictions:
    if values.dtype.kind == "O":
        values = np.asarray(values.tolist())
    if names is None and values.dtype.kind in "US":
        raise InputError(
            f"row 0 is {values.tolist()[0]!r}, and which classes there are is not known. "
            "Pass their names, as classes=[…] or --classes."
        )
    if values.dtype.kind == "f":
        _are_whole(values.ravel())
    counted = values.dtype.kind in "iufb"
    k = len(names) if names is not None else max(2, int(values.max()) + 1) if counted else 2
    return Predictions.from_classes(values, k=k, class_names=names)


def _are_whole(values: Array) -> None:
    wrong = np.flatnonzero(~(np.isfinite(values) & (np.floor(values) == values)))
    if wrong.size:
        raise InputError(
            f"one number a row is a class, and row {wrong[0]} is {values[wrong[0]]}. "
            "For a probability p of the second class give the two columns 1 - p and p."
        )


def _renamed(made: Predictions, classes: Names | None) -> Predictions:
    """In the order of the classes where the model knows them, else with these as new names."""
    known = made.class_names
    if classes is None or known is None or known == classes:
        return made
    shared = set(known) & set(classes)
    if shared and len(shared) == len(known) == len(classes):
        return made.in_class_order(classes)
    if shared or len(known) != len(classes):
        raise InputError(
            f"its classes are {', '.join(known[:8])}, but classes= says {', '.join(classes[:8])}. "
            "Give the same names in any order, or a new name for each in the model's order."
        )
    return replace(made, class_names=classes)
