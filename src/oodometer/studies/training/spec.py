"""Specs: which models a pool has, as a grid or a random sweep, in TOML.

name = "digits"
about = "a sentence"                    # optional
group = "numbers"                       # a domain group: its name, or a TOML file of one
domains = "each"                        # or "all-but-one", ["mnist", "usps"], [["mnist", "usps"]]
architecture = "mlp"                    # or a list of several
seeds = [0, 1]                          # or how many; without it 0, of a sweep the model's number

[fixed]                                 # what all models have
lr = 1e-3
[grid]                                  # lists, of which every combination is trained
batch = [32, 64]
settings.width = [16, 32]               # settings are the architecture's
[sweep]                                 # values that are drawn: see _random_search.py
count = 20
label_noise = { uniform = [0, 0.3] }
[[parts]]                               # optional: a pool of several parts, each of which has its
architecture = "small-cnn"              # own keys before those of the whole
grid.settings.width = [8, 16]

Keys are those of a recipe. Expansion is deterministic: domains change fastest, then architectures,
then the grid's last key; what is cut short has a bit of everything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.random_streams import RowStreams
from oodometer.studies.domains import group as groups
from oodometer.studies.domains.corrupted_groups import get_group as group_named
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.hypersphere_group import HYPERSPHERE_NAME, hypersphere
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


DISTRIBUTIONS: dict[str, Callable[[float], float]] = {
    "uniform": lambda value: value,
    "log10": lambda value: 10.0**value,
    "log2": lambda value: 2.0**value,
}
CHOICE_DISTRIBUTION = "choice"
# What bounds may be: powers beyond these are no numbers.
MAX_ABS_BOUND = {"uniform": 1e300, "log10": 300.0, "log2": 1000.0}


@dataclass(frozen=True)
class SweepParameter:
    """How the values of one key are drawn: a distribution's name, and its bounds or choices."""

    key: str
    name: str
    values: tuple[Any, ...]

    @classmethod
    def from_table(cls, key: str, table: Any) -> SweepParameter:
        """As it stands in a spec: { log10 = [-5, -3] }."""
        if not isinstance(table, Mapping) or len(table) != 1:
            raise InputError(
                f"{key} of a sweep must say how it is drawn, such as {{ uniform = [0, 1] }}; got "
                f"{table!r}. Values that all models have stand in [fixed], lists of them in [grid]."
            )
        ((name, values),) = table.items()
        if name not in (*DISTRIBUTIONS, CHOICE_DISTRIBUTION):
            raise UnknownName("distribution", name, [*DISTRIBUTIONS, CHOICE_DISTRIBUTION])
        if not isinstance(values, list | tuple) or not values:
            raise InputError(f"{key}: {name} must have a list of values; got {values!r}.")
        if name != CHOICE_DISTRIBUTION:
            _check_bounds(key, name, values)
            return cls(key, name, tuple(map(float, values)))
        return cls(key, name, tuple(canonical_value(key, value) for value in values))

    def value_at(self, share: float) -> Any:
        """The value at a share of the distribution, in [0, 1).

        >>> SweepParameter("lr", "log10", (-4.0, -2.0)).value_at(0.5), SweepParameter("batch", "log2", (3.0, 9.0)).value_at(0.25)
        (0.001, 22)
        """
        if self.name == CHOICE_DISTRIBUTION:
            return self.values[int(share * len(self.values))]
        low, high = self.values
        value = DISTRIBUTIONS[self.name](low + share * (high - low))
        if is_integer_key(self.key):
            return int(value)
        # Six digits: powers may differ in the last one from machine to machine, and ids with them.
        return float(f"{value:.6g}")


def _check_bounds(key: str, name: str, values: Any) -> None:
    numbers = all(
        type(value) in (int, float) and abs(value) <= MAX_ABS_BOUND[name] for value in values
    )
    if len(values) != 2 or not numbers or values[0] > values[1]:
        raise InputError(
            f"{key}: {name} must have two bounds, the lower one first, and none beyond "
            f"±{MAX_ABS_BOUND[name]:g}; got {list(values)!r}."
        )


@dataclass(frozen=True)
class Sweep:
    """So many models, each with values of its own."""

    count: int
    seed: int = 0
    parameters: tuple[SweepParameter, ...] = field(default=())

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Sweep:
        """As it stands in a spec."""
        own = {key: table[key] for key in ("count", "seed") if key in table}
        if type(own.get("count")) is not int or own["count"] < 1:
            raise InputError(
                f"count of a sweep must be a whole number, 1 or more; got {own.get('count')!r}. It "
                "is how many models are drawn."
            )
        if type(own.get("seed", 0)) is not int:
            raise InputError(f"seed of a sweep must be a whole number; got {own['seed']!r}.")
        others = flatten_settings({key: value for key, value in table.items() if key not in own})
        return cls(
            **own,
            parameters=tuple(SweepParameter.from_table(key, told) for key, told in others.items()),
        )

    def draw_models(self) -> list[dict[str, Any]]:
        """The values of every model.

        >>> sweep = Sweep.from_table({"count": 3, "lr": {"log10": [-4, -2]}})
        >>> longer = Sweep.from_table({"count": 9, "lr": {"log10": [-4, -2]}})
        >>> sweep.draw_models() == longer.draw_models()[:3]
        True
        """
        numbers = np.arange(1, self.count + 1)
        draws = RowStreams(self.seed, np.zeros(self.count, dtype=np.uint64), numbers, "sweep")
        columns = {
            one.key: (one, draws.substream(one.key).uniforms(1)[:, 0]) for one in self.parameters
        }
        return [
            {key: one.value_at(float(shares[model])) for key, (one, shares) in columns.items()}
            for model in range(self.count)
        ]


BUILT_IN_FOLDER = Path(__file__).parent / "grids"
# More models than this are a slip: a list too many.
MAX_MODELS = 100_000
_NAME_PATTERN = re.compile(r"\w[\w .-]*")
EACH, ALL_BUT_ONE = "each", "all-but-one"
_TABLES = ("fixed", "grid", "sweep")
_PART_KEYS = ("domains", "architecture", "seeds", *_TABLES)
_SPEC_KEYS = ("name", "about", "group", *_PART_KEYS, "parts")


def built_in_names() -> tuple[str, ...]:
    """The names of the specs that come with the package."""
    return tuple(sorted(path.stem for path in BUILT_IN_FOLDER.glob("*.toml")))


@dataclass(frozen=True)
class PoolPart:
    """Every combination of domains, architectures, a grid's values, draws and seeds."""

    domains: tuple[tuple[str, ...], ...]
    architectures: tuple[str, ...]
    seeds: tuple[int, ...] | None
    fixed: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    sweep: Sweep | None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], group: DomainGroup) -> PoolPart:
        """As it stands in a spec."""
        _check_keys(table, _PART_KEYS, "part of a pool")
        fixed, grid = (flatten_settings(_get_table(table, name)) for name in ("fixed", "grid"))
        sweep = Sweep.from_table(_get_table(table, "sweep")) if "sweep" in table else None
        _check_unique(fixed, grid, sweep)
        return cls(
            domains=_parse_domains(table.get("domains", EACH), group),
            architectures=_parse_architectures(table.get("architecture"), group),
            seeds=_parse_seeds(table["seeds"]) if "seeds" in table else None,
            fixed={key: canonical_value(key, value) for key, value in fixed.items()},
            grid={key: _grid_values(key, values) for key, values in grid.items()},
            sweep=sweep,
        )

    @property
    def count(self) -> int:
        """How many recipes it has, those counted that stand there twice."""
        drawn = 1 if self.sweep is None else self.sweep.count
        lists = (self.domains, self.architectures, self.seeds or (0,), *self.grid.values())
        return drawn * prod(map(len, lists))

    def recipe_values(self) -> Iterator[dict[str, Any]]:
        """The keys of recipes, but for group, domains and architecture."""
        models = [{}] if self.sweep is None else self.sweep.draw_models()
        points = [dict(zip(self.grid, one, strict=True)) for one in product(*self.grid.values())]
        for number, drawn in enumerate(models):
            own = 0 if self.sweep is None else number
            for seed, point in product(self.seeds or (own,), points):
                yield {"seed": seed, **self.fixed, **point, **drawn}


@dataclass(frozen=True)
class PoolSpec:
    """A pool to be trained: its parts, on the domains of one group."""

    name: str
    about: str
    group: DomainGroup
    parts: tuple[PoolPart, ...]

    @classmethod
    def open(
        cls, path_or_table: str | Path | Mapping[str, Any], *, data: str | Path | None = None
    ) -> PoolSpec:
        """A spec that comes with the package by its name, a TOML file, or the table of one.

        `data` is the folder of the domains' files, or else $OODOMETER_DATA.
        """
        if isinstance(path_or_table, Mapping):
            return cls._from_table(path_or_table, "pool", Path(), data)
        own = BUILT_IN_FOLDER / f"{path_or_table}.toml"
        path = own if str(path_or_table) in built_in_names() else Path(path_or_table)
        if not path.is_file():
            if path.suffix == ".toml":
                raise InputError(f"There is no file {str(path)!r}. Give the path of a TOML file.")
            raise UnknownName("pool", str(path_or_table), built_in_names())
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{str(path)!r} is no TOML: {error}. Correct it there.") from error
        return cls._from_table(table, path.stem, path.parent, data)

    @classmethod
    def _from_table(
        cls, table: Mapping[str, Any], name: str, folder: Path, data: str | Path | None
    ) -> PoolSpec:
        _check_keys(table, _SPEC_KEYS, "pool")
        group = resolve_group(table.get("group"), folder, data)
        whole = {key: table[key] for key in _PART_KEYS if key in table}
        parts = table.get("parts", [{}])
        if not isinstance(parts, list) or not parts:
            raise InputError(f"parts must be tables, [[parts]] each; got {parts!r}.")
        return cls(
            name=_check_name(table["name"]) if "name" in table else name,
            about=str(table.get("about", "")),
            group=group,
            parts=tuple(PoolPart.from_table(_merge_tables(whole, part), group) for part in parts),
        )

    def recipes(self) -> tuple[TrainingConfig, ...]:
        """Every recipe once, always in the same order."""
        _check_count(sum(part.count for part in self.parts))
        known: dict[str, dict[str, Any]] = {}
        found = (recipe for part in self.parts for recipe in self._expand(part, known))
        return tuple({recipe.id: recipe for recipe in found}.values())

    def _expand(self, part: PoolPart, known: dict[str, dict[str, Any]]) -> Iterator[TrainingConfig]:
        for values in part.recipe_values():
            given = {
                key: value for key, value in values.items() if not key.startswith(SETTING_PREFIX)
            }
            own = {
                key.removeprefix(SETTING_PREFIX): values[key] for key in values if key not in given
            }
            for architecture in part.architectures:
                key = repr((architecture, own))
                if key not in known:
                    known[key] = full_settings(architecture, own)
                for domains in part.domains:
                    yield TrainingConfig(
                        self.group.name, domains, architecture, known[key], **given
                    )


# How a spec is read -----------------------------------------------------------------------------


def _check_keys(table: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"A {what} is a table of {', '.join(known)}; got {table!r}.")
    for key in table:
        if key not in known:
            raise UnknownName(f"key of a {what}", key, known)


def _get_table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{name} must be a table of keys of a recipe; got {found!r}.")
    return found


def _merge_tables(whole: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """A part's keys before those of the whole; of a table, key by key."""
    _check_keys(part, _PART_KEYS, "part of a pool")
    tables = {
        name: {**_flatten_table(name, whole), **_flatten_table(name, part)}
        for name in _TABLES
        if name in whole or name in part
    }
    return {**whole, **part, **tables}


def _flatten_table(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table whose settings stand beside the other keys, so that a part has one of them anew."""
    found = dict(_get_table(table, name))
    given = ("count", "seed") if name == "sweep" else ()
    own: dict[str, Any] = {key: found.pop(key) for key in given if key in found}
    return {**own, **flatten_settings(found)}


def _check_unique(fixed: Mapping[str, Any], grid: Mapping[str, Any], sweep: Sweep | None) -> None:
    drawn = [one.key for one in sweep.parameters] if sweep else []
    keys = [*fixed, *grid, *drawn]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(
                f"{key} stands in more than one of [fixed], [grid] and [sweep]. Set it once."
            )


def _grid_values(key: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(
            f"{key} of a grid must be a list of one value or more; got {values!r}. A value that "
            "all models have stands in [fixed]."
        )
    return tuple(canonical_value(key, value) for value in values)


def _check_count(count: int) -> None:
    if count > MAX_MODELS:
        raise InputError(
            f"The pool would have {count:,} models; {MAX_MODELS:,} at most were expected. Take shorter "
            "lists, or draw some of all: [sweep]."
        )


def _check_name(told: Any) -> str:
    """A name that can be a folder's, for that is where the models are."""
    if not isinstance(told, str) or not _NAME_PATTERN.fullmatch(told):
        raise InputError(
            f"name must be letters, digits, spaces, dots, dashes; got {told!r}. It is the name of "
            "the folder of the models too."
        )
    return told


def _parse_seeds(told: Any) -> tuple[int, ...]:
    if type(told) is int:
        _check_count(told)
    seeds = range(told) if type(told) is int else told
    if not isinstance(seeds, Sequence) or not seeds or any(type(one) is not int for one in seeds):
        raise InputError(f"seeds must be whole numbers, or how many there are; got {told!r}.")
    return tuple(seeds)


def resolve_group(group: Any, folder: Path, data: str | Path | None) -> DomainGroup:
    """A domain group as a spec names it; a TOML file of one is seen from the spec's folder."""
    if isinstance(group, DomainGroup):
        return group
    if isinstance(group, Mapping):
        return groups.open_group(group, root=data)
    if not isinstance(group, str):
        raise InputError(f"group must be the name of a domain group; got {group!r}.")
    if group.endswith(".toml"):
        return groups.open_group(folder / group, root=data)
    if group == HYPERSPHERE_NAME:
        return hypersphere()
    try:
        return group_named(group, root=data)
    except UnknownName as error:
        raise UnknownName(
            "domain group", group, (HYPERSPHERE_NAME, *groups.available_names())
        ) from error


def _parse_domains(told: Any, group: DomainGroup) -> tuple[tuple[str, ...], ...]:
    """Sets of training domains, of which each has its models."""
    if told == EACH:
        return tuple((name,) for name in group.domains)
    if told == ALL_BUT_ONE:
        if len(group.domains) < 2:
            raise InputError(f"The group {group.name!r} has one domain; none is left but one.")
        return tuple(tuple(name for name in group.domains if name != one) for one in group.domains)
    if not isinstance(told, list | tuple) or not told:
        raise InputError(
            f'domains must be "{EACH}", "{ALL_BUT_ONE}", or a list of domains or of lists of them; '
            f"got {told!r}."
        )
    sets = [one if isinstance(one, list | tuple) else [one] for one in told]
    for name in (name for one in sets for name in one):
        if name not in group.domains:
            raise UnknownName(f"domain of the group {group.name!r}", str(name), group.domains)
    # In the group's order, for a model's id hangs on it.
    return tuple(tuple(name for name in group.domains if name in one) for one in sets)


def _parse_architectures(told: Any, group: DomainGroup) -> tuple[str, ...]:
    names = (told,) if isinstance(told, str) else told
    if not isinstance(names, list | tuple) or not names:
        raise InputError(f"architecture must be a name, or a list of names; got {told!r}.")
    known: dict[str, Any] = dict(architectures.available())
    for name in names:
        if name not in known:
            raise UnknownName("architecture", str(name), known)
        takes = known[name].kinds
        if group.kind not in takes:
            raise InputError(
                f"The architecture {name!r} takes {' or '.join(takes)}, and the group "
                f"{group.name!r} holds {group.kind}. Choose another of them."
            )
    return tuple(names)
