"""What a model gave back, made into predictions, and the words of refusal where it can't be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array

OutputType = Literal["probs", "logits", "classes"]
OUTPUT_TYPES: tuple[OutputType, ...] = get_args(OutputType)
ClassNames = tuple[str, ...]


class RawOutputs(NamedTuple):
    """Values as the model gave them, what they are, and the class names that the model knows.

    A form of None is told from the shape: (n,) is classes, (n, k) is probabilities.
    """

    values: Any
    output_type: OutputType | None = None
    class_names: ClassNames | None = None


def exception_summary(error: BaseException) -> str:
    """The type of an exception and its message, on one short line.

    >>> exception_summary(KeyError("age"))
    "KeyError: 'age'"
    """
    words = " ".join(str(error).split()).rstrip(". ")
    shown = words if len(words) <= 200 else f"{words[:199]}…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def check_row_count(raw: RawOutputs, n: int, name: str) -> RawOutputs:
    """The same with its values as an array that has one row an input."""
    values = _to_array(raw.values, name)
    if values.ndim == 0 or len(values) != n:
        rows = "a single value" if values.ndim == 0 else f"{len(values)} rows"
        raise InputError(
            f"The model {name!r} gave {rows} for {n} inputs. It must give one row an input."
        )
    return raw._replace(values=values)


def _to_array(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"The model {name!r} gave rows of different lengths. It must give one number a class "
            "in every row."
        ) from error


def concat_outputs(batches: Sequence[RawOutputs], name: str) -> RawOutputs:
    """One answer of those to successive batches."""
    if len(batches) == 1:
        return batches[0]
    shapes = {answer.values.shape[1:] for answer in batches}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise InputError(
            f"The model {name!r} gave rows of shape {first} for one batch and {second} for "
            "another. All rows must have as many classes."
        )
    return batches[0]._replace(values=np.concatenate([answer.values for answer in batches]))


def as_predictions(raw: RawOutputs, name: str, class_names: ClassNames | None) -> Predictions:
    """Predictions of a checked answer; a refusal names the model.

    >>> as_predictions(RawOutputs(np.array([[0.2, 0.8]])), "toy", ("cat", "dog")).class_names
    ('cat', 'dog')
    """
    try:
        return _apply_class_names(_build_predictions(raw, class_names), class_names)
    except InputError as error:
        words = str(error).replace("Predictions.from_logits", 'outputs="logits"')
        raise InputError(f"The model {name!r} gave what can't be used: {words}") from error


def _build_predictions(raw: RawOutputs, class_names: ClassNames | None) -> Predictions:
    values, form, names = raw.values, raw.output_type, raw.class_names or class_names
    form = form or ("classes" if values.ndim == 1 else "probs")
    if form == "classes":
        return _from_hard_classes(values, names)
    if values.ndim == 1:
        raise InputError(
            f"{form} must have a column a class; got one value a row. "
            'If these are classes, pass outputs="classes".'
        )
    door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    return door(values, class_names=names)


def _from_hard_classes(values: Array, names: ClassNames | None) -> Predictions:
    if values.dtype.kind == "O":
        values = np.asarray(values.tolist())
    if names is None and values.dtype.kind in "US":
        raise InputError(
            f"row 0 is {values.tolist()[0]!r}, and which classes there are is not known. "
            "Pass their names, as class_names=[…] or --class-names."
        )
    if values.dtype.kind == "f":
        _check_whole_numbers(values.ravel())
    counted = values.dtype.kind in "iufb"
    k = len(names) if names is not None else max(2, int(values.max()) + 1) if counted else 2
    return Predictions.from_classes(values, k=k, class_names=names)


def _check_whole_numbers(values: Array) -> None:
    wrong = np.flatnonzero(~(np.isfinite(values) & (np.floor(values) == values)))
    if wrong.size:
        raise InputError(
            f"one number a row is a class, and row {wrong[0]} is {values[wrong[0]]}. "
            "For a probability p of the second class give the two columns 1 - p and p."
        )


def _apply_class_names(predictions: Predictions, class_names: ClassNames | None) -> Predictions:
    """In the order of the classes where the model knows them, else with these as new names."""
    known = predictions.class_names
    if class_names is None or known is None or known == class_names:
        return predictions
    shared = set(known) & set(class_names)
    if shared and len(shared) == len(known) == len(class_names):
        return predictions.reorder_classes(class_names)
    if shared or len(known) != len(class_names):
        raise InputError(
            f"its classes are {', '.join(known[:8])}, but class_names= says {', '.join(class_names[:8])}. "
            "Give the same names in any order, or a new name for each in the model's order."
        )
    return replace(predictions, class_names=class_names)
