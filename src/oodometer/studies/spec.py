"""Studies: which models are looked at on which domains, and what is wanted of each, in TOML.

name = "digits"
about = "a sentence"                    # optional
pools = ["digits.toml", "toy-mlp"]      # specs; or tables { spec = "digits.toml", folder = "…" }
group = "numbers"                       # the domains to test on; without it, the pools' groups
domains = "all"                         # or a list of them
split = "test"                          # or "all": of domains not trained on, all rows
rows = 1000                             # at most so many rows a test domain
source_rows = 1000                      # at most so many rows a source domain
converged = true                        # models that did not converge are left out, and counted
estimators = "all"                      # or names, or "none"
temperature = "fit"                     # or "none" (names end in " (pre-T)"), or "both"
invariance = ["randaugment", { transform = "translate", magnitude = 0.2, draws = 20 }]
measures = ["mmd-gaussian"]             # or "all"; what looks into models
metrics = ["nll", "ece"]                # or "all"
draws = 10                              # of each example, under every transform
seed = 0

[[models]]                              # the user's own
name = "mine"
path = "mine.onnx"                      # anything that as_model opens; in Python also objects
architecture = "resnet"
trained_on = ["mnist"]

Groups may be several; a domain whose name an earlier group has is called `group/domain`. Paths are
seen from the file; a pool without a folder is in pools/, by its name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from oodometer import estimators, measures, metrics, transforms
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Estimator, Transform
from oodometer.core.registry import resolve_members
from oodometer.studies._toml import check_keys
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.requested_values import (
    RequestedValue,
    TemperatureMode,
    TransformRequest,
    build_requests,
)
from oodometer.studies.splits import Domain
from oodometer.studies.study_models import Pool, StudyModels, UserModel, collect_models
from oodometer.studies.training.spec import PoolSpec, resolve_group

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


STUDY_KEYS = (
    "name", "about", "pools", "models", "group", "domains", "split", "rows", "source_rows",
    "converged", "estimators", "temperature", "invariance", "measures", "metrics", "draws", "seed",
)  # fmt: skip
_POOL_KEYS = ("spec", "folder")
_MODEL_KEYS = ("name", "path", "architecture", "trained_on")
# The architecture of models of which none is named.
UNNAMED_ARCHITECTURE = "unnamed"


@dataclass(frozen=True)
class Study:
    """Models × test domains × values; `domains` has the test domains by what tables call them."""

    name: str
    about: str
    pools: tuple[Pool, ...]
    models: tuple[UserModel, ...]
    groups: tuple[DomainGroup, ...]
    domains: Mapping[str, Domain]
    split: Literal["test", "all"]
    rows: int | None
    source_rows: int | None
    converged: bool
    requests: tuple[RequestedValue, ...]
    seed: int

    @classmethod
    def open(
        cls,
        path_or_table: str | Path | Mapping[str, Any],
        *,
        data: str | Path | None = None,
        trust_pickle: bool = False,
    ) -> Study:
        """The study of a TOML file, or of the table of one.

        `data` is the folder of the domains' files, or else $OODOMETER_DATA. `trust_pickle` opens
        models of the user's that are pickles too, which can run any code; a spec can't say so.
        """
        made = _read_study(path_or_table, data)
        own = tuple(replace(one, trust_pickle=trust_pickle) for one in made.models)
        return replace(made, models=own)

    def available_models(self) -> StudyModels:
        """The models that are there now."""
        groups = (*self.groups, *(pool.spec.group for pool in self.pools))
        shown = {(one.group.name, one.name): name for name, one in _label_domains(groups).items()}
        found = collect_models(
            self.pools, self.models, only_converged=self.converged, domain_labels=shown
        )
        if found.models:
            return found
        if found.left_out:
            raise InputError(
                f"None of the {found.left_out} models converged. Say converged = false to look at "
                "them nevertheless."
            )
        folders = ", ".join(repr(str(pool.folder)) for pool in self.pools)
        raise InputError(
            f"There is no trained model in {folders}. Train them first: oodometer pool run "
            f"{self.pools[0].spec.name}."
        )


def _read_study(thing: str | Path | Mapping[str, Any], data: str | Path | None) -> Study:
    if isinstance(thing, Mapping):
        return _parse_study(thing, "study", Path(), data)
    path = Path(thing)
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}. Give the path of a TOML file.")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is no TOML: {error}. Correct it there.") from error
    return _parse_study(table, path.stem, path.parent, data)


def _parse_study(
    table: Mapping[str, Any], name: str, folder: Path, data: str | Path | None
) -> Study:
    check_keys(table, STUDY_KEYS, "key of a study")
    pools = tuple(_parse_pool(one, folder, data) for one in _get_list(table, "pools"))
    groups = _parse_groups(table.get("group"), pools, folder, data)
    domains = _label_domains(groups)
    own = tuple(_parse_user_model(one, domains, folder) for one in _get_list(table, "models"))
    if not pools and not own:
        raise InputError("pools and models are both missing. Name a pool or a model to look at.")
    _check_compatible(groups, [pool.spec.group for pool in pools])
    return Study(
        name=_get_text(table, "name", name),
        about=_get_text(table, "about", ""),
        pools=pools,
        models=own,
        groups=groups,
        domains=_select_domains(table.get("domains", ALL), domains),
        split=_parse_split(table.get("split", "test")),
        rows=_get_limit(table, "rows"),
        source_rows=_get_limit(table, "source_rows"),
        converged=_get_bool(table, "converged"),
        requests=parse_requested_values(table, groups[0].kind, folder),
        seed=parse_int(table, "seed", 0, None),
    )


# How a spec is read -----------------------------------------------------------------------------


def _get_list(table: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = table.get(key, ())
    if isinstance(found, str | Path | PoolSpec):
        return [found]
    if not isinstance(found, list | tuple):
        raise InputError(f"{key} must be a list; got {found!r}.")
    return found


def _parse_pool(told: Any, folder: Path, data: str | Path | None) -> Pool:
    given = told if isinstance(told, Mapping) else {"spec": told}
    check_keys(given, _POOL_KEYS, "key of a pool of a study")
    if "spec" not in given:
        raise InputError(f"pools: a pool must say spec = …; got {dict(given)!r}.")
    with prefix_errors("pools"):
        spec = _load_pool_spec(given["spec"], folder, data)
    place = given.get("folder")
    return Pool(spec, Path("pools") / spec.name if place is None else folder / str(place))


def _load_pool_spec(told: Any, folder: Path, data: str | Path | None) -> PoolSpec:
    if isinstance(told, PoolSpec):
        return told
    if not isinstance(told, str | Path | Mapping):
        raise InputError(f"A pool is named, or is a TOML file; got {told!r}.")
    seen = folder / told if str(told).endswith(".toml") and not isinstance(told, Mapping) else told
    return PoolSpec.open(seen, data=data)


def _parse_groups(
    told: Any, pools: Sequence[Pool], folder: Path, data: str | Path | None
) -> tuple[DomainGroup, ...]:
    if told is None:
        found = [pool.spec.group for pool in pools]
        if not found:
            raise InputError("group is missing: models of your own are tested on its domains.")
    else:
        several = told if isinstance(told, list | tuple) and told else [told]
        found = [resolve_group(one, folder, data) for one in several]
    return tuple({group.name: group for group in found}.values())


def _label_domains(groups: Sequence[DomainGroup]) -> dict[str, Domain]:
    """All domains by what tables call them."""
    found: dict[str, Domain] = {}
    for group in {group.name: group for group in groups}.values():
        for name in group.domains:
            found[f"{group.name}/{name}" if name in found else name] = Domain(group, name)
    return found


def _select_domains(told: Any, domains: Mapping[str, Domain]) -> dict[str, Domain]:
    if told == ALL:
        return dict(domains)
    if not isinstance(told, list | tuple) or not told:
        raise InputError(f'domains must be "{ALL}" or a list of names; got {told!r}.')
    for name in told:
        if name not in domains:
            raise UnknownName("test domain", str(name), domains)
    return {name: domains[name] for name in told}


def _parse_user_model(told: Any, domains: Mapping[str, Domain], folder: Path) -> UserModel:
    if not isinstance(told, Mapping):
        raise InputError(f"models must be tables, [[models]] each; got {told!r}.")
    check_keys(told, _MODEL_KEYS, "key of a model of a study")
    for key in ("name", "path", "trained_on"):
        if key not in told:
            raise InputError(
                f"models: {told.get('name', 'a model')} must say {key} = …; it does not."
            )
    names = told["trained_on"]
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list | tuple) or not names:
        raise InputError(f"models: trained_on must be a domain or a list of them; got {names!r}.")
    for name in names:
        if name not in domains:
            raise UnknownName("domain (trained_on)", str(name), domains)
    trained = tuple(domain for name, domain in domains.items() if name in names)
    path = told["path"]
    beside = isinstance(path, str | Path) and (folder / path).exists()
    return UserModel(
        _get_text(told, "name", ""),
        (folder / path).absolute() if beside else path,
        _get_text(told, "architecture", UNNAMED_ARCHITECTURE),
        trained,
    )


def _check_compatible(groups: Sequence[DomainGroup], trained: Sequence[DomainGroup]) -> None:
    """One kind of inputs, and the same classes wherever files or a spec tell them."""
    first = groups[0]
    for group in (*groups, *trained):
        if group.kind != first.kind:
            raise InputError(
                f"group: {group.name!r} holds {group.kind}, and {first.name!r} {first.kind}. Give "
                "groups of one kind."
            )
        if group.classes and first.classes and set(group.classes) != set(first.classes):
            raise InputError(
                f"group: {group.name!r} has the classes {', '.join(group.classes)}, and "
                f"{first.name!r} {', '.join(first.classes)}. Give groups of the same classes."
            )


def _get_text(table: Mapping[str, Any], key: str, default: str) -> str:
    found = table.get(key, default)
    if not isinstance(found, str) or (key == "name" and not found):
        raise InputError(f"{key} must be a text; got {found!r}.")
    return found


def _get_bool(table: Mapping[str, Any], key: str) -> bool:
    found = table.get(key, True)
    if not isinstance(found, bool):
        raise InputError(f"{key} must be true or false; got {found!r}.")
    return found


def _get_limit(table: Mapping[str, Any], key: str) -> int | None:
    return parse_int(table, key, 1, 1) if key in table else None


def _parse_split(told: Any) -> Literal["test", "all"]:
    if told not in ("test", "all"):
        raise InputError(f'split must be "test" or "all"; got {told!r}.')
    return "all" if told == "all" else "test"
