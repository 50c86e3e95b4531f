"""Convert dataclasses and arrays to values that JSON can store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np


def to_jsonable(value: Any) -> Any:
    """Convert `value` to dictionaries, lists, strings, numbers, booleans and None.

    An object with a method `to_dict` is converted by this method; any other dataclass is converted
    field by field. Arrays and tuples become lists, and paths become strings.

    Parameters
    ----------
    value : object
        Dataclass, mapping, sequence, array, path or plain value.

    Returns
    -------
    dict, list, str, int, float, bool or None
        A value that `json.dumps` accepts.

    Raises
    ------
    TypeError
        If a value has no counterpart in JSON.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Interval:
    ...     bounds: tuple[float, float]
    ...     rows: np.ndarray
    >>> to_jsonable(Interval((0.5, 0.75), np.array([3, 7])))
    {'bounds': [0.5, 0.75], 'rows': [3, 7]}
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value.item() if isinstance(value, np.generic) else value
    if hasattr(value, "to_dict"):
        return to_jsonable(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return fields_to_jsonable(value)
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [to_jsonable(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no counterpart in JSON.")


def fields_to_jsonable(instance: Any) -> dict[str, Any]:
    """Convert the fields of a dataclass to values for JSON.

    Use it in a `to_dict` that adds or renames keys.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Count:
    ...     n: int
    ...     def to_dict(self):
    ...         return {**fields_to_jsonable(self), "unit": "rows"}
    >>> to_jsonable(Count(3))
    {'n': 3, 'unit': 'rows'}
    """
    return {field.name: to_jsonable(getattr(instance, field.name)) for field in fields(instance)}
