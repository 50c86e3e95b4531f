"""Parse which estimators, measures, metrics and transforms a study computes, and make their keys.

A request contains all settings that its values depend on. The settings are part of the key under
which a value is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from oodometer import estimators, measures, metrics, transforms
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.function_members import wrap_function
from oodometer.core.inputs import InputKind
from oodometer.core.keys import settings_key
from oodometer.core.protocols import Estimator, Measure, Metric, Transform
from oodometer.core.registry import resolve_members
from oodometer.models.function import import_member, is_import_path
from oodometer.neighborhood.results import MEASURES, measure_name
from oodometer.studies._toml import Field as PydanticField
from oodometer.studies._toml import PositiveInt, StrictModel, prefix_errors, validate
from oodometer.studies.analysis.evaluation_table import PRE_CALIBRATION_SUFFIX
from oodometer.studies.store.export import ACCURACY
from oodometer.transforms.registry import is_smoothness_name

Family = Literal["accuracy", "metric", "estimator", "invariance", "measure"]
TemperatureMode = Literal["fit", "none"]
# A measure or metric with only these needs can be computed from stored predictions, without the
# model.
NEEDS_MET_BY_PREDICTIONS = ("outputs", "labels", "source domains")
ALL = "all"
# Keys of a study spec whose values can be `module:name`.
CODE_KEYS = ("estimators", "measures", "metrics", "invariance", "transform", "metric")
NONE = "none"
Member = TypeVar("Member")


@dataclass(frozen=True)
class RequestedValue:
    """One computation, which results in one or more values.

    names       names of the values in tables
    settings    all settings that the values depend on, except model, rows and source
    component   metric, estimator, measure or transform that is computed; None for accuracy
    option      `EstimatorOptions` for an estimator, `NeighborhoodOptions` for a transform, the maximum
                number of test rows or None for a measure, else None
    """

    family: Family
    names: tuple[str, ...]
    settings: str
    component: Any = None
    option: Any = None

    @property
    def needs_source(self) -> bool:
        return self.family in ("estimator", "measure")

    @property
    def needs_only_predictions(self) -> bool:
        """Return whether the values can be computed from stored predictions, without the model."""
        if self.family in ("metric", "measure"):
            return set(self.component.needs) <= set(NEEDS_MET_BY_PREDICTIONS)
        return self.family != "invariance"

    @property
    def needs_other_model(self) -> bool:
        needs = getattr(self.component, "needs", ())
        return self.family == "estimator" and "second model" in needs


@dataclass(frozen=True)
class EstimatorOptions:
    """Temperature mode of an estimator, and whether its confidence interval is computed."""

    temperature: TemperatureMode
    intervals: bool = True


@dataclass(frozen=True)
class NeighborhoodOptions:
    """Options of the neighborhoods of a transform.

    draws      number of draws per row
    identity   whether the row itself belongs to its neighborhood
    rows       maximum number of test rows with a neighborhood; None for all test rows
    """

    draws: int
    identity: bool = True
    rows: int | None = None

    def __str__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"{self.draws} draws{'' if self.identity else ', no identity'}{rows}"


@dataclass(frozen=True)
class TransformRequest:
    """Transform, options of its neighborhoods, and the names of its values."""

    transform: Transform
    options: NeighborhoodOptions
    names: tuple[str, ...]


def build_requests(
    *,
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    temperatures: Sequence[TemperatureMode],
    invariance: Sequence[TransformRequest],
    measures: Sequence[Measure],
    measure_rows: int | None = None,
    seed: int,
    intervals: bool = True,
) -> tuple[RequestedValue, ...]:
    """Return requests for accuracy and all given components; raise if two values share a name."""
    random = f"seed {seed}"
    requests = [RequestedValue("accuracy", (ACCURACY,), "")]
    for metric in metrics:
        settings = f"{settings_key(metric)}, {random}"
        requests.append(RequestedValue("metric", (metric.name,), settings, metric))
    for estimator in estimators:
        for mode in temperatures:
            suffix = "" if mode == "fit" else PRE_CALIBRATION_SUFFIX
            settings = f"{settings_key(estimator)}, temperature {mode}, {random}"
            if getattr(estimator, "reads_probabilities", False):
                # Earlier versions also calibrated these probabilities by other methods.
                settings += ", no further calibration"
            settings += "" if intervals else ", no intervals"
            name = f"{estimator.name}{suffix}"
            option = EstimatorOptions(mode, intervals)
            requests.append(RequestedValue("estimator", (name,), settings, estimator, option))
    for request in invariance:
        settings = f"{settings_key(request.transform)}, {request.options}, {random}"
        requests.append(
            RequestedValue(
                "invariance", request.names, settings, request.transform, request.options
            )
        )
    for measure in measures:
        rows = "" if measure_rows is None else f", {measure_rows} rows"
        settings = f"{settings_key(measure)}, {random}{rows}"
        requests.append(RequestedValue("measure", (measure.name,), settings, measure, measure_rows))
    _check_unique([name for request in requests for name in request.names])
    return tuple(requests)


def _check_unique(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"Two values would have the name {name!r}. Remove one, or change its settings."
            )


# Parsing of requests in a study spec -------------------------------------------------------------


def select_estimators(names: Any) -> list[Estimator]:
    """Return the named estimators; "all" selects all estimators, "none" selects none."""
    return _select_members(names, Estimator, estimators)


class MetricKeys(StrictModel):
    """Key of a metric in a study spec, in addition to its own settings."""

    metric: str


def select_metrics(entries: Any) -> list[Metric]:
    """Return the requested metrics: names, metric objects or tables of settings.

    "all" selects all metrics, "none" selects none.
    """
    listed = (entries,) if isinstance(entries, Mapping) else entries
    if isinstance(listed, list | tuple):
        with prefix_errors("metrics"):
            listed = tuple(
                _parse_metric(entry) if isinstance(entry, Mapping) else entry for entry in listed
            )
    return _select_members(listed, Metric, metrics)


def _parse_metric(table: Mapping[str, Any]) -> Metric:
    """Return a metric with the settings of a table such as {metric = "…", steps = 10}."""
    own = {key: value for key, value in table.items() if key in MetricKeys.model_fields}
    settings = {key: value for key, value in table.items() if key not in own}
    name = validate(MetricKeys, own, "a metric").metric
    changed: Metric = _apply_settings(metrics.get(name), settings, Path())
    return changed


def select_measures(names: Any) -> list[Measure]:
    """Return the named measures; "all" selects all measures, "none" selects none."""
    return _select_members(names, Measure, measures)


def import_named_code(table: Mapping[str, Any], *, trust_code: bool) -> dict[str, Any]:
    """Return the content of a study spec with `module:name` replaced by the imported objects.

    Importing a module runs its code, so this raises unless the user trusts the file.
    """

    def load(value: Any) -> Any:
        if isinstance(value, str) and is_import_path(value):
            if not trust_code:
                raise InputError(
                    f"{value!r} is Python code, which is imported only from files that you trust. "
                    "If you trust this file, pass --trust-code (in Python, trust_code=True)."
                )
            return import_member(value)
        if isinstance(value, list | tuple):
            return [load(each) for each in value]
        if isinstance(value, Mapping):
            return {key: load(part) if key in CODE_KEYS else part for key, part in value.items()}
        return value

    return {key: load(value) if key in CODE_KEYS else value for key, value in table.items()}


def _select_members(names: Any, member_type: Any, family: Any) -> list[Any]:
    if names is None or names == NONE or names == ():
        return []
    with prefix_errors(f"{member_type.__name__.lower()}s"):
        return list(
            resolve_members(
                None if names == ALL else names,
                member_type,
                available=family.available,
                get=family.get,
            )
        )


class TransformKeys(StrictModel):
    """Keys that every transform in a study spec accepts, in addition to its own settings."""

    transform: str | Transform | Callable[..., Any] = PydanticField(
        description="the name of a transform, a transform object or a function"
    )
    draws: PositiveInt | None = None
    identity: bool | None = None


def parse_transforms(
    entries: Any, *, draws: int, kind: InputKind, folder: Path, rows: int | None = None
) -> list[TransformRequest]:
    """Parse the key `invariance`: one or more names, transform objects or tables of settings."""
    if entries == NONE:
        return []
    single = isinstance(entries, str | Transform | Mapping) or not isinstance(entries, Sequence)
    with prefix_errors("invariance"):
        requests = [
            _parse_transform(entry, draws, rows, folder)
            for entry in ([entries] if single else entries)
        ]
        for request in requests:
            _check_kind(request.transform, kind)
    return requests


def _parse_transform(
    entry: Any, default_draws: int, rows: int | None, folder: Path
) -> TransformRequest:
    table = entry if isinstance(entry, Mapping) else {"transform": entry}
    own = {key: value for key, value in table.items() if key in TransformKeys.model_fields}
    settings = {key: value for key, value in table.items() if key not in own}
    checked = validate(TransformKeys, own, "a transform")
    base = checked.transform
    identity = checked.identity
    if identity is None:
        identity = not is_smoothness_name(base)
    base = transforms.get(base) if isinstance(base, str) else wrap_function(base, Transform)
    transform = _apply_settings(base, settings, folder, other_keys=("draws", "identity"))
    return TransformRequest(
        transform,
        NeighborhoodOptions(checked.draws or default_draws, identity, rows),
        tuple(_value_name(measure, transform, identity, checked.draws) for measure in MEASURES),
    )


def _apply_settings(
    member: Any, settings: Mapping[str, Any], folder: Path, *, other_keys: Sequence[str] = ()
) -> Any:
    """Return a transform or metric with changed settings; messages also name `other_keys`."""
    known = {field.name: field for field in fields(member) if field.init}
    for key in settings:
        if key not in known:
            raise UnknownName(f"setting of {member.name}", key, [*other_keys, *known])
    values = {key: _convert_setting(known[key], value, folder) for key, value in settings.items()}
    try:
        return replace(member, **values)
    except TypeError as error:
        raise InputError(f"{member.name} does not accept these settings: {error}.") from error


def _convert_setting(setting: Field[Any], value: Any, folder: Path) -> Any:
    """Convert a TOML value to the type of a setting, such as text to a path."""
    kind = str(setting.type)
    if kind.startswith("tuple[") and isinstance(value, list):
        return tuple(value)
    if kind == "float" and type(value) is int:
        return float(value)
    if isinstance(value, str) and "Path" in kind:
        return folder / value
    if setting.name == "translator" and isinstance(value, list | tuple) and len(value) == 2:
        from oodometer.transforms.text.marian import Marian

        return Marian(*(folder / str(side) for side in value))
    return value


def _value_name(measure: str, transform: Any, identity: bool, draws: int | None) -> str:
    """Return the name of a value with all settings that differ from the default.

    Examples are `ni-gaussian magnitude=0.5` and `ms-ssmba`. The settings that the name `ms` or
    `mse` implies are left out.
    """
    strength = getattr(transform, "strength", None)
    name = measure_name(measure, identity=identity, strength=strength)
    changed = _changed_settings(transform)
    if draws is not None:
        changed["draws"] = draws
    if name != measure:
        changed.pop("strength", None)
    elif not identity:
        changed["identity"] = "false"
    settings = [f"{key}={_format_setting(value)}" for key, value in sorted(changed.items())]
    return " ".join([f"{name}-{transform.name}", *settings])


def _changed_settings(transform: Any) -> dict[str, Any]:
    """Return the settings of a transform that differ from those of the registered transform."""
    members = {member.name: member for member in transforms.available()}
    default = members.get(transform.name, transform)
    return {
        field.name: getattr(transform, field.name)
        for field in fields(transform)
        if field.init
        and field.repr
        and getattr(transform, field.name) != getattr(default, field.name, None)
    }


def _format_setting(value: Any) -> str:
    if isinstance(value, Path):
        return value.name
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_kind(transform: Transform, kind: InputKind) -> None:
    if kind not in transform.kinds:
        suitable = ", ".join(member.name for member in transforms.available_for_kind(kind))
        raise InputError(
            f"{transform.name!r} applies to {' and '.join(transform.kinds)}, and the domains hold "
            f"{kind}. Transforms for {kind}: {suitable}."
        )
