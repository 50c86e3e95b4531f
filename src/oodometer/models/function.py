"""Adapter of Python functions, passed as objects or as `package.module:function`."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, is_table
from oodometer.core.optional_imports import require
from oodometer.models.base import ModelAdapter, RawOutputs, exception_summary

_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, eq=False, repr=False)
class FunctionModel(ModelAdapter):
    """A callable that returns classes (n,) or probabilities (n, k) for a batch of n inputs.

    The callable receives images as uint8 arrays, vectors as float arrays, texts and pairs as lists,
    and tables as pandas data frames.

    Parameters
    ----------
    function : callable
        Callable that takes one batch as its only argument.
    name, class_names, batch_size
        See `ModelAdapter`.
    outputs : {"probs", "logits", "classes"}, optional
        Type of the function's outputs. By default, values of shape (n,) are classes and values of
        shape (n, k) are probabilities.
    prepare : callable, optional
        Function that converts a batch to the argument of `function`.

    Raises
    ------
    InputError
        If the object cannot be called with a batch.

    Examples
    --------
    >>> model = FunctionModel(lambda texts: ["good" in text for text in texts], name="keyword")
    >>> model.classify(["a good film", "a film"]).classes
    array([1, 0])
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.function, type) or not callable(self.function):
            raise InputError(
                f"{self.function!r} cannot be called with a batch. Pass a function or a callable "
                "object."
            )
        if _takes_no_arguments(self.function):
            raise InputError(
                f"The function {self.name!r} takes no arguments, so it is not a model. "
                f"If it creates a model, pass its result: {self.name}()."
            )

    def default_name(self) -> str:
        """Return the name of the function, or the class name of another callable object."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        return RawOutputs(self.function((self.prepare or _to_function_input)(inputs)), self.outputs)


def _to_function_input(inputs: Inputs) -> Any:
    if not is_table(inputs):
        return inputs
    require("pandas", extra="tables", purpose="Passing a table to a function")
    return inputs.to_pandas()


def _takes_no_arguments(function: Callable[[Any], Any]) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):  # some compiled callables have no signature
        return False


def is_import_path(text: str) -> bool:
    """Return whether a string has the form `package.module:function`.

    >>> is_import_path("my.scores:classify"), is_import_path("model.onnx")
    (True, False)
    """
    return _IMPORT_PATH.fullmatch(text) is not None


def import_object(import_path: str) -> Any:
    """Import the object at `package.module:function`; modules in the current folder come first.

    >>> import_object("math:sqrt")(4.0)
    2.0
    """
    module_name, _, path = import_path.partition(":")
    value = _import_module(module_name)
    for part in path.split("."):
        if not hasattr(value, part):
            public = [name for name in vars(value) if not name.startswith("_")]
            raise InputError(
                f"{module_name!r} has no {path!r}. It has: {', '.join(sorted(public)[:12])}."
            )
        value = getattr(value, part)
    return value


def import_member(import_path: str) -> Any:
    """Import an estimator, measure, metric, transform or function; create an instance of a class.

    >>> import_member("math:sqrt")
    <built-in function sqrt>
    """
    value = import_object(import_path)
    if not isinstance(value, type):
        return value
    try:
        return value()
    except TypeError as error:
        raise InputError(
            f"{import_path} is a class that needs arguments: {exception_summary(error)}. Name a class "
            "whose settings have defaults, or an instance."
        ) from error


def _import_module(name: str) -> Any:
    with _current_folder_first():
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _import_failure(name, error) from error
            raise InputError(
                f"There is no module {error.name!r} in the current folder or among the installed "
                "packages. Pass package.module:function."
            ) from error
        except (Exception, SystemExit) as error:
            raise _import_failure(name, error) from error


def _import_failure(name: str, error: BaseException) -> InputError:
    return InputError(
        f"Importing {name!r} failed: {exception_summary(error)}. "
        f"To reproduce the error, run python -c 'import {name}'."
    )


@contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
