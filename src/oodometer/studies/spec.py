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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies._spec_values import ALL, parse_int, parse_requested_values, prefix_errors
from oodometer.studies._toml import check_keys
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.splits import Domain
from oodometer.studies.study_models import Pool, StudyModels, UserModel, collect_models
from oodometer.studies.training.spec import PoolSpec, resolve_group

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
