"""What a spec of a study asks for: members of families by name, and transforms with settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from oodometer import estimators, measures, metrics, transforms
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Estimator, Transform
from oodometer.core.registry import resolve_members
from oodometer.studies.requested_values import (
    RequestedValue,
    TemperatureMode,
    TransformRequest,
    build_requests,
)

ALL, NONE, BOTH = "all", "none", "both"
_TEMPERATURES: dict[str, tuple[TemperatureMode, ...]] = {
    "fit": ("fit",),
    "none": ("none",),
    BOTH: ("fit", "none"),
}
Member = TypeVar("Member")


def parse_requested_values(
    table: Mapping[str, Any], kind: InputKind, folder: Path
) -> tuple[RequestedValue, ...]:
    """All values that a spec asks for, of data of a kind; its paths are seen from a folder."""
    draws, seed = (parse_int(table, *given) for given in (("draws", 10, 1), ("seed", 0, None)))
    with prefix_errors("estimators"):
        direct = _select_members(table.get("estimators", ALL), _select_estimators)
    with prefix_errors("metrics"):
        scores = _select_members(table.get("metrics"), metrics.resolve_metrics)
    with prefix_errors("measures"):
        inner = _select_members(table.get("measures"), measures.resolve_measures)
    with prefix_errors("invariance"):
        stirs = [
            _parse_transform(one, draws, folder) for one in _as_list(table.get("invariance", ()))
        ]
        for stir in stirs:
            _check_kind(stir.transform, kind)
    return build_requests(
        metrics=scores,
        estimators=direct,
        temperatures=_parse_temperatures(table.get("temperature", "fit")),
        invariance=stirs,
        measures=inner,
        seed=seed,
    )


@contextmanager
def prefix_errors(key: str) -> Iterator[None]:
    """What is wrong is told with the key that it stands under."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{key}: {error}") from error


def parse_int(table: Mapping[str, Any], key: str, default: int, minimum: int | None) -> int:
    """A whole number of a spec, or its default."""
    found = table.get(key, default)
    if type(found) is not int or (minimum is not None and found < minimum):
        bound = "" if minimum is None else f" of {minimum} or more"
        raise InputError(f"{key} must be a whole number{bound}; got {found!r}.")
    return found


def _select_members(told: Any, pick: Callable[[Any], list[Member]]) -> list[Member]:
    """Members by name; all of them, or none, by these words."""
    if told is None or told == NONE or told in ([], ()):
        return []
    return pick(None if told == ALL else told)


def _select_estimators(names: Any) -> list[Estimator]:
    if names is None:
        return list(estimators.available())
    return resolve_members(names, Estimator, family="estimator", get=estimators.get)  # type: ignore[type-abstract]


def _parse_temperatures(told: Any) -> tuple[TemperatureMode, ...]:
    if isinstance(told, list | tuple) and set(told) == set(_TEMPERATURES[BOTH]):
        told = BOTH
    if not isinstance(told, str) or told not in _TEMPERATURES:
        raise InputError(f"temperature must be {_join_alternatives(_TEMPERATURES)}; got {told!r}.")
    return _TEMPERATURES[told]


def _join_alternatives(words: Mapping[str, Any] | Sequence[str]) -> str:
    return " or ".join(f'"{word}"' for word in words)


def _as_list(told: Any) -> Sequence[Any]:
    if told == NONE:
        return ()
    alone = isinstance(told, str | Transform | Mapping)
    return [told] if alone or not isinstance(told, Sequence) else told


def _parse_transform(told: Any, draws: int, folder: Path) -> TransformRequest:
    """A transform by name, as it is, or a table of its name and settings."""
    if not isinstance(told, Mapping):
        told = {"transform": told}
    if "transform" not in told:
        raise InputError(f"It must say transform = …; got {dict(told)!r}.")
    given = {key: value for key, value in told.items() if key not in ("transform", "draws")}
    plain = told["transform"]
    if not isinstance(plain, str | Transform):
        raise InputError(f"A transform is given by its name or as it is; got {plain!r}.")
    found = transforms.get(plain) if isinstance(plain, str) else plain
    made = _apply_settings(found, given, folder)
    own = {"draws": parse_int(told, "draws", draws, 1)} if "draws" in told else {}
    usual = {one.name: one for one in transforms.available()}.get(made.name, made)
    return TransformRequest(made, own.get("draws", draws), _transform_label(made, usual, own))


def _apply_settings(transform: Any, given: Mapping[str, Any], folder: Path) -> Transform:
    known = {one.name: one for one in fields(transform) if one.init}
    for key in given:
        if key not in known:
            raise UnknownName(f"setting of {transform.name}", key, ["draws", *known])
    values = {key: _convert_setting(known[key], value, folder) for key, value in given.items()}
    try:
        made: Transform = replace(transform, **values)
    except TypeError as error:
        raise InputError(f"{transform.name} can't be set so: {error}. Correct it.") from error
    return made


def _convert_setting(setting: Field[Any], value: Any, folder: Path) -> Any:
    """A setting as the transform has it: TOML has no paths, and 1 is not written 1.0 there."""
    kind = str(setting.type)
    if kind == "float" and type(value) is int:
        return float(value)
    if isinstance(value, str) and "Path" in kind:
        return folder / value
    if setting.name == "translator" and isinstance(value, list) and len(value) == 2:
        from oodometer.transforms.text.marian import Marian

        return Marian(*(folder / str(side) for side in value))
    return value


def _transform_label(made: Any, usual: Any, own: Mapping[str, Any]) -> str:
    """The transform's name, and what is not as usual: `gaussian magnitude=0.5`."""
    changed = {
        one.name: getattr(made, one.name)
        for one in fields(made)
        if one.init and one.repr and getattr(made, one.name) != getattr(usual, one.name, None)
    }
    words = [f"{key}={_format_setting(value)}" for key, value in sorted({**changed, **own}.items())]
    return " ".join([made.name, *words])


def _format_setting(value: Any) -> str:
    if isinstance(value, Path):
        return value.name
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_kind(transform: Transform, kind: InputKind) -> None:
    if kind not in transform.kinds:
        fit = ", ".join(one.name for one in transforms.available_for_kind(kind))
        raise InputError(
            f"{transform.name!r} changes {' and '.join(transform.kinds)}, and the domains are of "
            f"{kind}. For {kind} there are: {fit}."
        )
