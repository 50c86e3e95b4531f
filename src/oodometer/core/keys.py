"""Keys of settings: text that identifies a member of a family and does not depend on class names.

Stores keep these keys, so renaming a class must not change them. A setting's name and a member's
public name are data: renaming one of them changes the key.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from oodometer.core.errors import InputError


def settings_key(member: Any) -> str:
    """Return `name{setting=value, …}` of a dataclass of settings, the same in every process.

    Parameters
    ----------
    member : object with a `name`
        An estimator, measure, metric, transform or corruption. Settings are the fields of a
        dataclass that its `repr` shows; a setting that is itself a dataclass with a name is keyed
        likewise. Anything that is not a dataclass has no settings.

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
            f"A {type(member).__name__} has no name, so its results can't be stored. "
            "Give the class an attribute `name`."
        )
    settings = [] if not is_dataclass(member) else [f for f in fields(member) if f.repr]
    pairs = [f"{f.name}={_value(getattr(member, f.name))}" for f in settings if f.name != "name"]
    return f"{name}{{{', '.join(pairs)}}}"


def _value(value: Any) -> str:
    nested = is_dataclass(value) and not isinstance(value, type)
    return settings_key(value) if nested else repr(value)
