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
from oodometer.studies.training.config import TrainingConfig

SETTING_PREFIX = "settings."
# TOML has no null: it is written so, where a key may be without a value.
NONE_VALUE = "none"
# Set by the spec as a whole.
_POOL_LEVEL_KEYS = ("group", "domains", "architecture", "settings", "seed")


@cache
def recipe_key_types() -> dict[str, tuple[type, ...]]:
    """The keys of a recipe that a spec may set, and the types that their values have."""
    hints = get_type_hints(TrainingConfig)
    return {key: _hint_types(hint) for key, hint in hints.items() if key not in _POOL_LEVEL_KEYS}


@cache
def is_integer_key(key: str) -> bool:
    """Whether the values of a key, or of an architecture's setting, are whole numbers.

    >>> [is_integer_key(key) for key in ("batch", "settings.width", "lr", "settings.dropout")]
    [True, True, False, False]
    """
    if not key.startswith(SETTING_PREFIX):
        return int in recipe_key_types().get(key, ())
    name = key.removeprefix(SETTING_PREFIX)
    return any(get_type_hints(one).get(name) is int for one in architectures.available().values())


def _hint_types(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, type):
        return (hint,)
    return tuple(part if isinstance(part, type) else type(part) for part in get_args(hint))


def flatten_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table whose settings stand beside the other keys, which are checked.

    >>> flatten_settings({"lr": 0.1, "settings": {"width": 16}})
    {'lr': 0.1, 'settings.width': 16}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key == SETTING_PREFIX[:-1] and isinstance(value, Mapping):
            found |= {f"{SETTING_PREFIX}{name}": one for name, one in value.items()}
        elif key.startswith(SETTING_PREFIX) or key in recipe_key_types():
            found[key] = value
        else:
            raise UnknownName(
                "key of a recipe", key, [*recipe_key_types(), f"{SETTING_PREFIX}<name>"]
            )
    return found


def canonical_value(key: str, value: Any) -> Any:
    """A value as the recipe has it; settings are seen to with their architecture.

    >>> canonical_value("weight_decay", 0), canonical_value("few_shot", "none")
    (0.0, None)
    """
    if key.startswith(SETTING_PREFIX):
        return value
    allowed = recipe_key_types()[key]
    if value == NONE_VALUE and NoneType in allowed:
        return None
    if float in allowed and type(value) is int:
        return float(value)
    if type(value) not in allowed:
        raise InputError(
            f"{key} must be {_describe_types(allowed)}; got {value!r}. Correct it in the spec."
        )
    return value


def _describe_types(allowed: tuple[type, ...]) -> str:
    words = {int: "a whole number", float: "a number", str: "a word", NoneType: f'"{NONE_VALUE}"'}
    return " or ".join(words[one] for one in dict.fromkeys(allowed))


def full_settings(architecture: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of an architecture, those that are not given at their defaults.

    >>> full_settings("mlp", {"width": 8, "dropout": 0})
    {'width': 8, 'depth': 1, 'dropout': 0.0}
    """
    made: Any = architectures.get(architecture, settings)
    hints = get_type_hints(type(made))
    return {
        name: float(value) if hints[name] is float else value
        for name, value in asdict(made).items()
    }
