"""Read the TOML files of domain groups, pools and studies, and validate values with pydantic."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from dataclasses import Field as DataclassField
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from oodometer.core.errors import InputError, UnknownName, did_you_mean, not_a_file
from oodometer.core.optional_imports import require

require("pydantic", extra="studies", purpose="Reading domains, pools and studies")
from pydantic import (  # noqa: E402
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

# The other modules of `studies` import pydantic's names from this module, so that the check above
# always runs before pydantic is imported.
__all__ = [
    "TABLE_ITEMS",
    "AfterValidator",
    "BeforeValidator",
    "Field",
    "NonEmpty",
    "PositiveInt",
    "StrictModel",
    "Table",
    "build",
    "freeze",
    "prefix_errors",
    "read_toml",
    "validate",
    "validate_field",
    "validate_fields",
    "validate_type",
]

Table = Mapping[str, Any]
PositiveInt = Annotated[int, Field(ge=1)]
ItemT = TypeVar("ItemT")
NonEmpty = Annotated[tuple[ItemT, ...], Field(min_length=1)]
STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)
# Description of the allowed values for each error type of pydantic. The names in braces are
# replaced by values from the error's context.
_ALLOWED = {
    "string_type": "a text",
    "string_too_short": "a non-empty text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "missing": "a longer list",
    "too_short": "a list of at least {min_length}",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "finite_number": "finite",
    "value_error": "{error}",
}


class StrictModel(BaseModel):
    """Base class for tables of a TOML file; it rejects unknown keys and values of a wrong type."""

    model_config = STRICT


ModelT = TypeVar("ModelT", bound=BaseModel)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    if not path.is_file():
        raise not_a_file(path, expected="a TOML file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is not valid TOML: {error}. Correct the file.") from error


@contextmanager
def prefix_errors(place: str) -> Iterator[None]:
    """Add a file name or key as a prefix to the message of every InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def validate(model: type[ModelT], table: Any, where: str, other_keys: Iterable[str] = ()) -> ModelT:
    """Validate a table and return it as an instance of `model`; lists become tuples.

    `other_keys` are further valid keys, which other code reads. They must not be in the table; the
    message about an unknown key lists them as possible keys.

    Raises
    ------
    InputError
        If a value is not allowed. The message names the table (`where`), the key, the allowed
        values and the actual value in one line.
    UnknownName
        If a key does not exist; the message suggests the most similar one.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{_capitalize(where)} must be a table; got {table!r:.60}.")
    try:
        return model.model_validate({str(key): freeze(value) for key, value in table.items()})
    except ValidationError as error:
        keys = [*model.model_fields, *other_keys]
        raise _as_input_error(error, model, table, where, keys) from None


def build(cls: type, table: Any, where: str, other_keys: Iterable[str] = ()) -> Any:
    """Validate a table whose keys are the fields of a dataclass; return the dataclass instance."""
    checked = validate(_field_model(cls), table, where, other_keys)
    return cls(**{name: getattr(checked, name) for name in checked.model_fields_set})


def validate_fields(instance: Any, where: str) -> None:
    """Validate the fields of a frozen dataclass in place; convert integers in float fields."""
    cls: type = type(instance)
    checked = validate(_field_model(cls), vars(instance), where)
    for name in checked.model_fields_set:
        object.__setattr__(instance, name, getattr(checked, name))


def validate_field(cls: type, name: str, value: Any, where: str) -> Any:
    """Return the validated value of one field of a dataclass."""
    return getattr(validate(_field_model(cls, (name,)), {name: value}, where), name)


def validate_type(expected: Any, value: Any, where: str) -> Any:
    """Return a value that was read from a JSON file; raise if it does not have the expected type.

    `where` names the file. The message also names the position of the wrong value.

    >>> validate_type(dict[str, list[int]], {"a": [1], "b": ["x"]}, "labels.json")
    Traceback (most recent call last):
    oodometer.core.errors.InputError: labels.json: 'b', item 0 must be a whole number; got 'x'.
    """
    try:
        return _type_adapter(expected).validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        steps = (f"item {step}" if isinstance(step, int) else repr(step) for step in problem["loc"])
        place = ": ".join([where, *filter(None, [", ".join(steps)])])
        allowed = _describe_allowed(problem)
        raise InputError(f"{place} must be {allowed}; got {problem['input']!r:.60}.") from None


@cache
def _type_adapter(expected: Any) -> TypeAdapter[Any]:
    return TypeAdapter(expected, config=ConfigDict(strict=True))


def freeze(value: Any) -> Any:
    """Convert lists to tuples, including nested lists; return other values unchanged."""
    return tuple(map(freeze, value)) if isinstance(value, list | tuple) else value


def _table_items(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((str(key), freeze(item)) for key, item in value.items())
    if isinstance(value, tuple):
        return value
    raise ValueError("a table")


# Validator of a field that stores a TOML table as a tuple of (key, value) pairs, because the
# dataclass must be hashable.
TABLE_ITEMS = BeforeValidator(_table_items)


@cache
def _field_model(cls: type, names: tuple[str, ...] | None = None) -> type[BaseModel]:
    """Return a pydantic model with all fields of a dataclass, or only with the given fields."""
    hints = get_type_hints(cls, include_extras=True)
    own: dict[str, Any] = {
        field.name: (hints[field.name], _default(field))
        for field in fields(cls)
        if field.init and (names is None or field.name in names)
    }
    return create_model(cls.__name__, __config__=STRICT, **own)


def _default(field: DataclassField[Any]) -> Any:
    required = field.default is MISSING and field.default_factory is MISSING
    return ... if required else None if field.default is MISSING else field.default


def _as_input_error(
    error: ValidationError, model: type[BaseModel], table: Table, where: str, keys: list[str]
) -> InputError:
    """Return one problem as a one-line error; an unknown key is preferred over other problems."""
    problems = error.errors(include_url=False)
    unknown = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    if unknown:
        return UnknownName(f"key of {where}", str(unknown[0]["loc"][0]), keys)
    cause = problems[0].get("ctx", {}).get("error")
    if isinstance(cause, InputError):  # raised by a validator; its message needs no additions
        return cause
    key, *path = problems[0]["loc"]
    if problems[0]["type"] == "missing" and not path:
        return InputError(f"{_capitalize(where)} has no key {key!r}. Add {key} = ….")
    same_key = [problem for problem in problems if problem["loc"][0] == key]
    derived = " or ".join(dict.fromkeys(map(_allowed, same_key)))
    allowed = model.model_fields[str(key)].description or derived
    value = table[str(key)]
    hint = did_you_mean(value, re.findall("'(.*?)'", allowed)) if isinstance(value, str) else ""
    return InputError(f"{key} of {where} must be {allowed}; got {value!r:.60}.{hint}")


def _allowed(problem: Any) -> str:
    """Describe the allowed values; used if the field has no `description` of its own."""
    phrase = _describe_allowed(problem)
    depth = sum(isinstance(step, int) for step in problem["loc"])
    if problem["type"] == "missing" or not depth:
        return phrase
    return f"a list, each item {phrase}" if depth == 1 else f"a table, each value {phrase}"


def _describe_allowed(problem: Any) -> str:
    """Describe the values that are allowed at the position of a problem."""
    if problem["type"] in _ALLOWED:
        return _ALLOWED[problem["type"]].format(**problem.get("ctx", {}))
    return str(problem["msg"]).removeprefix("Input should be ")


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith(("the ", "a ")) else text
