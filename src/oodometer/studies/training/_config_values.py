"""What a spec may set of a recipe, and the values that it may have, each written in one way only.

A model's id is a hash, and 0 and 0.0 are other letters: a number is brought to the kind that the
recipe or the architecture has it in, and settings that are not named are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.training import architectures
from oodometer.studies.training.config import Recipe

SETTING = "settings."
# TOML has no null: it is written so, where a key may be without a value.
NONE = "none"
# Set by the spec as a whole.
_NOT_HERE = ("group", "domains", "architecture", "settings", "seed")


@cache
def kinds() -> dict[str, tuple[type, ...]]:
    """The keys of a recipe that a spec may set, and the types that their values have."""
    hints = get_type_hints(Recipe)
    return {key: _types(hint) for key, hint in hints.items() if key not in _NOT_HERE}


@cache
def is_whole(key: str) -> bool:
    """Whether the values of a key, or of an architecture's setting, are whole numbers.

    >>> [is_whole(key) for key in ("batch", "settings.width", "lr", "settings.dropout")]
    [True, True, False, False]
    """
    if not key.startswith(SETTING):
        return int in kinds().get(key, ())
    name = key.removeprefix(SETTING)
    return any(get_type_hints(one).get(name) is int for one in architectures.every().values())


def _types(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, type):
        return (hint,)
    return tuple(part if isinstance(part, type) else type(part) for part in get_args(hint))


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table whose settings stand beside the other keys, which are checked.

    >>> flat({"lr": 0.1, "settings": {"width": 16}})
    {'lr': 0.1, 'settings.width': 16}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key == SETTING[:-1] and isinstance(value, Mapping):
            found |= {f"{SETTING}{name}": one for name, one in value.items()}
        elif key.startswith(SETTING) or key in kinds():
            found[key] = value
        else:
            raise UnknownName("key of a recipe", key, [*kinds(), f"{SETTING}<name>"])
    return found


def canonical(key: str, value: Any) -> Any:
    """A value as the recipe has it; settings are seen to with their architecture.

    >>> canonical("weight_decay", 0), canonical("few_shot", "none")
    (0.0, None)
    """
    if key.startswith(SETTING):
        return value
    allowed = kinds()[key]
    if value == NONE and NoneType in allowed:
        return None
    if float in allowed and type(value) is int:
        return float(value)
    if type(value) not in allowed:
        raise InputError(f"{key} must be {_told(allowed)}; got {value!r}. Correct it in the spec.")
    return value


def _told(allowed: tuple[type, ...]) -> str:
    words = {int: "a whole number", float: "a number", str: "a word", NoneType: f'"{NONE}"'}
    return " or ".join(words[one] for one in dict.fromkeys(allowed))


def full_settings(architecture: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of an architecture, those that are not given at their defaults.

    >>> full_settings("mlp", {"width": 8, "dropout": 0})
    {'width': 8, 'depth': 1, 'dropout': 0.0}
    """
    made: Any = architectures.named(architecture, settings)
    hints = get_type_hints(type(made))
    return {
        name: float(value) if hints[name] is float else value
        for name, value in asdict(made).items()
    }
