"""Plain functions as estimators, measures, metrics and transforms.

The name of the function is the name of the method, and the first line of its docstring says what
the method assumes.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import INPUT_KINDS, InputKind, Inputs, is_table
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, Measure, Metric, Need, Transform
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Estimate, Score

NO_DOCSTRING = "not stated: the function has no docstring"


def is_function(candidate: Any) -> bool:
    """Return whether an object is a plain function, and not a class or a member of a family.

    >>> is_function(len), is_function(int), is_function("ac")
    (True, False, False)
    """
    return isinstance(candidate, FunctionType | BuiltinFunctionType | MethodType | partial)


def wrap_function(candidate: Any, member_type: type) -> Any:
    """Return a function as a member of a family; return any other object unchanged."""
    wrappers: dict[type, Callable[[Any], Any]] = {
        Estimator: FunctionEstimator,
        Measure: FunctionMeasure,
        Metric: FunctionMetric,
        Transform: FunctionTransform,
    }
    wrapper = wrappers.get(member_type)
    return wrapper(candidate) if wrapper is not None and is_function(candidate) else candidate


def function_name(function: Any) -> str:
    """Return the name of a function; that of a lambda function is "lambda".

    >>> function_name(function_name), function_name(lambda: 0)
    ('function_name', 'lambda')
    """
    while isinstance(function, partial):
        function = function.func
    return str(function.__name__).strip("<>")


def first_line(function: Any) -> str:
    """Return the first line of a function's docstring."""
    while isinstance(function, partial):
        function = function.func
    lines = (inspect.getdoc(function) or "").strip().splitlines()
    return lines[0] if lines else NO_DOCSTRING


def code_hash(function: Any) -> str:
    """Return a hash of the function's source, which is part of the key of stored results."""
    settings = ""
    while isinstance(function, partial):
        settings += f"{function.args!r} {sorted(function.keywords.items())!r}"
        function = function.func
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # functions of compiled modules have no source
        source = f"{getattr(function, '__module__', '')}:{function_name(function)}"
    return hashlib.sha256(f"{settings}{source}".encode()).hexdigest()[:12]


@dataclass(frozen=True, repr=False)
class _FunctionMember:
    """Function with the attributes that describe a member of a family."""

    function: Callable[..., Any] = field(repr=False)
    code: str = field(init=False, compare=False)

    paper: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", code_hash(self.function))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({function_name(self.function)}, code={self.code!r})"

    @property
    def name(self) -> str:
        return function_name(self.function)

    @property
    def label(self) -> str:
        return self.name

    @property
    def assumes(self) -> str:
        return first_line(self.function)


@dataclass(frozen=True, repr=False)
class FunctionEstimator(_FunctionMember):
    """Function from source and target predictions to an accuracy, as an estimator.

    Parameters
    ----------
    function : callable
        Function of the labelled source and the unlabelled target, both Predictions. It returns a
        number from 0 to 1, or an Estimate.

    Examples
    --------
    >>> def pessimist(source, target):
    ...     '''The accuracy halves.'''
    ...     return source.correct.mean() / 2
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 1])
    >>> estimator = FunctionEstimator(pessimist)
    >>> estimator.estimate(source, source).value, estimator.assumes
    (0.5, 'The accuracy halves.')
    """

    needs: ClassVar[tuple[str, ...]] = ("source labels",)

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        result = self.function(source, target)
        if isinstance(result, Estimate):
            return result
        value = _as_number(result, self.name, "an accuracy from 0 to 1, or an Estimate")
        if not 0.0 <= value <= 1.0:
            raise InputError(
                f"The function {self.name!r} returned {value:g}; expected an accuracy from 0 to 1."
            )
        return Estimate(value, self.name, assumes=self.assumes)


@dataclass(frozen=True, repr=False)
class FunctionMeasure(_FunctionMember):
    """Function from a subject (model, source and target) to a number, as a measure.

    Parameters
    ----------
    function : callable
        Function of the subject that `Measure.measure` receives. It returns a number or a Score.
    """

    needs: ClassVar[tuple[Need, ...]] = ()

    def measure(self, subject: Any) -> Score | float:
        result = self.function(subject)
        return result if isinstance(result, Score) else _as_number(result, self.name, "a number")


@dataclass(frozen=True, repr=False)
class FunctionMetric(_FunctionMember):
    """Function from a view of a model on labelled data to a number, as a metric.

    Parameters
    ----------
    function : callable
        Function of the view that `Metric.evaluate` receives. It returns a number or a Score.
    """

    needs: ClassVar[tuple[Need, ...]] = ("labels",)

    def evaluate(self, view: Any) -> Score:
        result = self.function(view)
        return result if isinstance(result, Score) else Score(
            _as_number(result, self.name, "a number")
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class FunctionTransform(_FunctionMember, Transform):
    """Function that changes one example, as a transform.

    Parameters
    ----------
    function : callable
        Function of one example (an image, a text, a pair of texts, a vector, or a dict of the
        columns of a table row) and, if it takes two arguments, a random generator of numpy. It
        returns a changed example of the same type and shape.

    Examples
    --------
    >>> def shout(text):
    ...     return text.upper()
    >>> draws = RowStreams(0, np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.int64))
    >>> FunctionTransform(shout).apply(["quiet"], draws)
    ['QUIET']
    """

    kinds: ClassVar[tuple[InputKind, ...]] = INPUT_KINDS
    magnitude: ClassVar[float] = 1.0

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        rows = inputs.to_pylist() if is_table(inputs) else list(inputs)
        if self._takes_generator:
            pairs = zip(rows, draws.generators(), strict=True)
            changed = [self.function(row, rng) for row, rng in pairs]
        else:
            changed = [self.function(row) for row in rows]
        if isinstance(inputs, np.ndarray):
            return self._stack(changed, inputs)
        self._check_types(changed, rows)
        if is_table(inputs):
            return type(inputs).from_pylist(changed, schema=inputs.schema)
        return changed

    @property
    def _takes_generator(self) -> bool:
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):  # some compiled functions have no signature
            return False
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = [each for each in parameters if each.default is each.empty]
        return len([each for each in required if each.kind in positional]) > 1

    def _stack(self, changed: list[Any], inputs: Array) -> Array:
        for row, value in enumerate(changed):
            array = np.asarray(value)
            is_pixels = inputs.dtype == np.uint8
            if array.shape != inputs.shape[1:] or (is_pixels and array.dtype != np.uint8):
                raise InputError(
                    f"The function {self.name!r} returned {array.dtype} of shape {array.shape} for "
                    f"row {row}; expected {inputs.dtype} of shape {inputs.shape[1:]}, as its argument."
                )
        return np.stack([np.asarray(value, dtype=inputs.dtype) for value in changed])

    def _check_types(self, changed: list[Any], rows: list[Any]) -> None:
        for number, (value, row) in enumerate(zip(changed, rows, strict=True)):
            if type(value) is not type(row) or (isinstance(row, dict) and set(value) != set(row)):
                raise InputError(
                    f"The function {self.name!r} returned {value!r:.40} for row {number}; expected "
                    f"{type(row).__name__}, as its argument {row!r:.40}."
                )


def _as_number(value: Any, name: str, expected: str) -> float:
    if isinstance(value, int | float | np.number | np.ndarray) and np.ndim(value) == 0:
        return float(value)
    raise InputError(f"The function {name!r} returned {value!r:.60}; expected {expected}.")
