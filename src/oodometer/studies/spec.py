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
from oodometer.studies._spec_values import ALL, naming, wanted_of, whole
from oodometer.studies._toml import known
from oodometer.studies.domains.group import Group
from oodometer.studies.requested_values import Wanted
from oodometer.studies.splits import Domain
from oodometer.studies.study_models import Members, Own, Pool, members_of
from oodometer.studies.training.spec import Spec, group_of

KEYS = (
    "name", "about", "pools", "models", "group", "domains", "split", "rows", "source_rows",
    "converged", "estimators", "temperature", "invariance", "measures", "metrics", "draws", "seed",
)  # fmt: skip
_OF_A_POOL = ("spec", "folder")
_OF_A_MODEL = ("name", "path", "architecture", "trained_on")
# The architecture of models of which none is named.
UNNAMED = "unnamed"


@dataclass(frozen=True)
class Study:
    """Models × test domains × values; `domains` has the test domains by what tables call them."""

    name: str
    about: str
    pools: tuple[Pool, ...]
    models: tuple[Own, ...]
    groups: tuple[Group, ...]
    domains: Mapping[str, Domain]
    split: Literal["test", "all"]
    rows: int | None
    source_rows: int | None
    converged: bool
    wanted: tuple[Wanted, ...]
    seed: int

    @classmethod
    def open(
        cls,
        thing: str | Path | Mapping[str, Any],
        *,
        data: str | Path | None = None,
        trust_pickle: bool = False,
    ) -> Study:
        """The study of a TOML file, or of the table of one.

        `data` is the folder of the domains' files, or else $OODOMETER_DATA. `trust_pickle` opens
        models of the user's that are pickles too, which can run any code; a spec can't say so.
        """
        made = _opened(thing, data)
        own = tuple(replace(one, trust_pickle=trust_pickle) for one in made.models)
        return replace(made, models=own)

    def members(self) -> Members:
        """The models that are there now."""
        groups = (*self.groups, *(pool.spec.group for pool in self.pools))
        shown = {(one.group.name, one.name): name for name, one in _domains(groups).items()}
        found = members_of(self.pools, self.models, converged=self.converged, shown=shown)
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


def _opened(thing: str | Path | Mapping[str, Any], data: str | Path | None) -> Study:
    if isinstance(thing, Mapping):
        return _study(thing, "study", Path(), data)
    path = Path(thing)
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}. Give the path of a TOML file.")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is no TOML: {error}. Correct it there.") from error
    return _study(table, path.stem, path.parent, data)


def _study(table: Mapping[str, Any], name: str, folder: Path, data: str | Path | None) -> Study:
    known(table, KEYS, "key of a study")
    pools = tuple(_pool(one, folder, data) for one in _list(table, "pools"))
    groups = _groups(table.get("group"), pools, folder, data)
    domains = _domains(groups)
    own = tuple(_own(one, domains, folder) for one in _list(table, "models"))
    if not pools and not own:
        raise InputError("pools and models are both missing. Name a pool or a model to look at.")
    _check_alike(groups, [pool.spec.group for pool in pools])
    return Study(
        name=_text(table, "name", name),
        about=_text(table, "about", ""),
        pools=pools,
        models=own,
        groups=groups,
        domains=_chosen(table.get("domains", ALL), domains),
        split=_split(table.get("split", "test")),
        rows=_at_most(table, "rows"),
        source_rows=_at_most(table, "source_rows"),
        converged=_truth(table, "converged"),
        wanted=wanted_of(table, groups[0].kind, folder),
        seed=whole(table, "seed", 0, None),
    )


# How a spec is read -----------------------------------------------------------------------------


def _list(table: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = table.get(key, ())
    if isinstance(found, str | Path | Spec):
        return [found]
    if not isinstance(found, list | tuple):
        raise InputError(f"{key} must be a list; got {found!r}.")
    return found


def _pool(told: Any, folder: Path, data: str | Path | None) -> Pool:
    given = told if isinstance(told, Mapping) else {"spec": told}
    known(given, _OF_A_POOL, "key of a pool of a study")
    if "spec" not in given:
        raise InputError(f"pools: a pool must say spec = …; got {dict(given)!r}.")
    with naming("pools"):
        spec = _spec(given["spec"], folder, data)
    place = given.get("folder")
    return Pool(spec, Path("pools") / spec.name if place is None else folder / str(place))


def _spec(told: Any, folder: Path, data: str | Path | None) -> Spec:
    if isinstance(told, Spec):
        return told
    if not isinstance(told, str | Path | Mapping):
        raise InputError(f"A pool is named, or is a TOML file; got {told!r}.")
    seen = folder / told if str(told).endswith(".toml") and not isinstance(told, Mapping) else told
    return Spec.open(seen, data=data)


def _groups(
    told: Any, pools: Sequence[Pool], folder: Path, data: str | Path | None
) -> tuple[Group, ...]:
    if told is None:
        found = [pool.spec.group for pool in pools]
        if not found:
            raise InputError("group is missing: models of your own are tested on its domains.")
    else:
        several = told if isinstance(told, list | tuple) and told else [told]
        found = [group_of(one, folder, data) for one in several]
    return tuple({group.name: group for group in found}.values())


def _domains(groups: Sequence[Group]) -> dict[str, Domain]:
    """All domains by what tables call them."""
    found: dict[str, Domain] = {}
    for group in {group.name: group for group in groups}.values():
        for name in group.domains:
            found[f"{group.name}/{name}" if name in found else name] = Domain(group, name)
    return found


def _chosen(told: Any, domains: Mapping[str, Domain]) -> dict[str, Domain]:
    if told == ALL:
        return dict(domains)
    if not isinstance(told, list | tuple) or not told:
        raise InputError(f'domains must be "{ALL}" or a list of names; got {told!r}.')
    for name in told:
        if name not in domains:
            raise UnknownName("test domain", str(name), domains)
    return {name: domains[name] for name in told}


def _own(told: Any, domains: Mapping[str, Domain], folder: Path) -> Own:
    if not isinstance(told, Mapping):
        raise InputError(f"models must be tables, [[models]] each; got {told!r}.")
    known(told, _OF_A_MODEL, "key of a model of a study")
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
    return Own(
        _text(told, "name", ""),
        (folder / path).absolute() if beside else path,
        _text(told, "architecture", UNNAMED),
        trained,
    )


def _check_alike(groups: Sequence[Group], trained: Sequence[Group]) -> None:
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


def _text(table: Mapping[str, Any], key: str, default: str) -> str:
    found = table.get(key, default)
    if not isinstance(found, str) or (key == "name" and not found):
        raise InputError(f"{key} must be a text; got {found!r}.")
    return found


def _truth(table: Mapping[str, Any], key: str) -> bool:
    found = table.get(key, True)
    if not isinstance(found, bool):
        raise InputError(f"{key} must be true or false; got {found!r}.")
    return found


def _at_most(table: Mapping[str, Any], key: str) -> int | None:
    return whole(table, key, 1, 1) if key in table else None


def _split(told: Any) -> Literal["test", "all"]:
    if told not in ("test", "all"):
        raise InputError(f'split must be "test" or "all"; got {told!r}.')
    return "all" if told == "all" else "test"
