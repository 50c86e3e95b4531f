"""Text keys that identify an estimator, measure, metric or transform together with its settings.

Results are stored under these keys. A key does not contain the name of the Python class, so a class
may be renamed. It contains the public name and the names of the settings, so renaming one of these
would make stored results unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from oodometer.core.errors import InputError

# Metadata of a setting that was added after results had been stored. Keys and reprs leave such a
# setting out at its default value, so that they equal those that were made before it existed.
OMIT_DEFAULT: Mapping[str, bool] = MappingProxyType({"omit_default": True})
# Key in the metadata of a setting that was added together with a new default. Keys and reprs leave
# the setting out at the given value, which is the one that applied before it existed.
OMITTED_VALUE = "omitted_value"


def settings_key(member: Any) -> str:
    """Return the key `name{setting=value, …}`, which is the same in every process.

    Parameters
    ----------
    member : object with a `name`
        An estimator, measure, metric, transform or corruption. Its settings are the dataclass
        fields that its `repr` shows; a field with the metadata `OMIT_DEFAULT` is left out at its
        default value, and one with the metadata `{OMITTED_VALUE: value}` at this value. If the value of a setting is itself a dataclass, its own key is used. An
        object that is not a dataclass has no settings.

    Raises
    ------
    InputError
        If the object, or a dataclass among its settings, has no `name`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Turn:
    ...     magnitude: float = 15.0
    ...     name = "turn"
    >>> settings_key(Turn()), settings_key(Turn(magnitude=20.0))
    ('turn{magnitude=15.0}', 'turn{magnitude=20.0}')
    """
    name = getattr(member, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(
            f"A {type(member).__name__} has no name, so its results cannot be stored. "
            "Give the class an attribute `name`."
        )
    settings = [] if not is_dataclass(member) else _shown_fields(member)
    pairs = [f"{f.name}={_value(getattr(member, f.name))}" for f in settings if f.name != "name"]
    return f"{name}{{{', '.join(pairs)}}}"


def settings_repr(member: Any) -> str:
    """Return the `repr` of a dataclass without the settings that are left out of its key.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Turn:
    ...     magnitude: float = 15.0
    ...     sides: int = field(default=2, metadata=OMIT_DEFAULT)
    ...     __repr__ = settings_repr
    >>> Turn(), Turn(sides=1)
    (Turn(magnitude=15.0), Turn(magnitude=15.0, sides=1))
    """
    pairs = [f"{f.name}={getattr(member, f.name)!r}" for f in _shown_fields(member)]
    return f"{type(member).__qualname__}({', '.join(pairs)})"


def _shown_fields(member: Any) -> list[Field[Any]]:
    return [f for f in fields(member) if f.repr and not _is_omitted(f, getattr(member, f.name))]


def _is_omitted(setting: Field[Any], value: Any) -> bool:
    if "omit_default" in setting.metadata:
        return bool(value == setting.default)
    return OMITTED_VALUE in setting.metadata and bool(value == setting.metadata[OMITTED_VALUE])


def _value(value: Any) -> str:
    nested = is_dataclass(value) and not isinstance(value, type)
    return settings_key(value) if nested else repr(value)
