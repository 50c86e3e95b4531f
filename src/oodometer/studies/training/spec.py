"""TOML specification of a pool: models described by a grid or a random search.

name = "digits"
about = "a sentence"                    # optional
group = "numbers"                       # name of a domain group, or path of its TOML file
domains = "each"                        # training domains of each model, see below
architecture = "mlp"                    # or a list of architectures; "timm:NAME" is the network
                                        # NAME of the package timm
seeds = [0, 1]                          # or the number of seeds; default: the seed 0, or in a
                                        # random search the index of the draw
weights_dir = "weights"                 # optional: the models are pretrained networks of timm that
                                        # are only evaluated; the folder holds NAME.safetensors
[fixed]                                 # values that are the same for all models
lr = 1e-3
[grid]                                  # lists of values; one model per combination is trained
batch = [32, 64]
settings.width = [16, 32]               # a setting of the architecture
[sweep]                                 # random search: the values are drawn for each model
count = 20                              # number of draws
label_noise = { uniform = [0, 0.3] }    # or log10 or log2 (the bounds are exponents), or choice
[[parts]]                               # optional: a pool can have several parts; the keys of a
architecture = "small-cnn"              # part replace the keys above
grid.settings.width = [8, 16]

The key `domains` selects the training domains of each model:

"each"                  each model is trained on a single domain, and every domain is used
"all-but-one"           each model is trained on all domains except one, and every domain is left
                        out once
["mnist", "usps"]       each model is trained on a single domain of this list
[["mnist", "usps"]]     each model is trained on all domains of one inner list together

The keys in [fixed], [grid] and [sweep] are those of a training configuration. The list of models is
always in the same order: domains vary fastest, then architectures, then the last key of the grid.
The first models of the list therefore already cover all domains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.random_streams import RowStreams
from oodometer.studies._toml import (
    AfterValidator,
    Field,
    NonEmpty,
    PositiveInt,
    StrictModel,
    prefix_errors,
    read_toml,
    validate,
    validate_field,
)
from oodometer.studies.domains import group as groups
from oodometer.studies.domains.corrupted_groups import get_group as group_named
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.hypersphere_group import HYPERSPHERE_NAME, hypersphere
from oodometer.studies.training import architectures
from oodometer.studies.training.config import TrainingConfig
from oodometer.transforms.corruptions import SeverityScale

BUILT_IN_FOLDER = Path(__file__).parent / "grids"
# A pool with more models is rejected, because it is probably a mistake in the grid.
MAX_MODELS = 100_000
SETTING_PREFIX = "settings."
# Text that stands for None in TOML files, because TOML has no null.
NONE_VALUE = "none"
# Keys of a training configuration that cannot be set in [fixed], [grid] or [sweep], and what sets
# them.
_POOL_LEVEL_KEYS = {
    "group": "the key group of the pool",
    "domains": "the key domains of the pool",
    "architecture": "the key architecture of the pool",
    "settings": "settings.<name>, one key per setting of the architecture",
    "seed": "the key seeds of the pool, a list of seeds or their number",
}
_SWEEP_KEYS = ("count", "seed")
EACH = "each"
ALL_BUT_ONE = "all-but-one"


# Keys and values of training configurations -------------------------------------------------------


@cache
def config_key_types() -> dict[str, Any]:
    """Return the type of each key that [fixed], [grid] and [sweep] may contain."""
    hints = get_type_hints(TrainingConfig)
    return {key: hint for key, hint in hints.items() if key not in _POOL_LEVEL_KEYS}


@cache
def is_integer_key(key: str) -> bool:
    """Return whether the values of a key, or of a setting of an architecture, are integers.

    >>> [is_integer_key(key) for key in ("batch", "settings.width", "lr", "settings.dropout")]
    [True, True, False, False]
    """
    if not key.startswith(SETTING_PREFIX):
        hint = config_key_types().get(key)
        return hint is int or int in get_args(hint)
    name = key.removeprefix(SETTING_PREFIX)
    members = architectures.available().values()
    return any(get_type_hints(member).get(name) is int for member in members)


def flatten_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the subtable `settings` by keys `settings.<name>`; raise if a key is unknown.

    >>> flatten_settings({"lr": 0.1, "settings": {"width": 16}})
    {'lr': 0.1, 'settings.width': 16}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if key == SETTING_PREFIX[:-1] and isinstance(value, Mapping):
            flat |= {f"{SETTING_PREFIX}{name}": setting for name, setting in value.items()}
        elif key.startswith(SETTING_PREFIX) or key in config_key_types():
            flat[key] = value
        elif key in _POOL_LEVEL_KEYS:
            raise InputError(
                f"No key of a training configuration is called {key!r}. Use {_POOL_LEVEL_KEYS[key]}."
            )
        else:
            known = [*config_key_types(), f"{SETTING_PREFIX}<name>"]
            raise UnknownName("key of a training configuration", key, known)
    return flat


def canonical_value(key: str, value: Any) -> Any:
    """Validate a value and convert it to the type that the training configuration requires.

    Settings of architectures are returned unchanged, because the architecture validates them.

    >>> canonical_value("weight_decay", 0), canonical_value("few_shot", "none")
    (0.0, None)
    """
    if key.startswith(SETTING_PREFIX):
        return value
    if value == NONE_VALUE and NoneType in get_args(config_key_types()[key]):
        return None
    return validate_field(TrainingConfig, key, value, "the training configuration")


# Random search ----------------------------------------------------------------------------------

DISTRIBUTIONS: dict[str, Callable[[float], float]] = {
    "uniform": lambda value: value,
    "log10": lambda value: 10.0**value,
    "log2": lambda value: 2.0**value,
}
CHOICE_DISTRIBUTION = "choice"
# Largest absolute value of a bound, keyed by distribution. With larger bounds, the drawn values
# could overflow.
MAX_ABS_BOUND = {"uniform": 1e300, "log10": 300.0, "log2": 1000.0}


@dataclass(frozen=True)
class SweepParameter:
    """Distribution of one key in a random search.

    key      key of the training configuration
    name     name of the distribution
    values   the two bounds of the distribution, or the list of choices
    """

    key: str
    name: str
    values: tuple[Any, ...]

    @classmethod
    def from_table(cls, key: str, table: Any) -> SweepParameter:
        """Parse a table such as { log10 = [-5, -3] }."""
        if not isinstance(table, Mapping) or len(table) != 1:
            raise InputError(
                f"sweep: {key} must be a distribution such as {{ uniform = [0, 1] }}; got "
                f"{table!r}. Values of all models belong in [fixed], lists of values in [grid]."
            )
        ((name, values),) = table.items()
        if name not in (*DISTRIBUTIONS, CHOICE_DISTRIBUTION):
            raise UnknownName("distribution", name, [*DISTRIBUTIONS, CHOICE_DISTRIBUTION])
        if not isinstance(values, list | tuple) or not values:
            raise InputError(f"sweep: {key}: {name} must be a list of values; got {values!r}.")
        if name != CHOICE_DISTRIBUTION:
            _check_bounds(key, name, values)
            return cls(key, name, tuple(map(float, values)))
        return cls(key, name, tuple(canonical_value(key, value) for value in values))

    def value_at(self, quantile: float) -> Any:
        """Return the quantile of the distribution for a probability in [0, 1).

        >>> SweepParameter("lr", "log10", (-4.0, -2.0)).value_at(0.5), SweepParameter("batch", "log2", (3.0, 9.0)).value_at(0.25)
        (0.001, 22)
        """
        if self.name == CHOICE_DISTRIBUTION:
            return self.values[int(quantile * len(self.values))]
        low, high = self.values
        value = DISTRIBUTIONS[self.name](low + quantile * (high - low))
        if is_integer_key(self.key):
            return int(value)
        # Round to six digits: the last digits of powers can differ between machines, and the ids of
        # models depend on all digits.
        return float(f"{value:.6g}")

    def extreme_values(self) -> tuple[Any, ...]:
        """Return the choices, or the smallest and nearly the largest value of the distribution."""
        if self.name == CHOICE_DISTRIBUTION:
            return self.values
        return self.value_at(0.0), self.value_at(1 - 1e-9)


def _check_bounds(key: str, name: str, values: Any) -> None:
    limit = MAX_ABS_BOUND[name]
    numbers = all(type(value) in (int, float) and abs(value) <= limit for value in values)
    if len(values) != 2 or not numbers or values[0] > values[1]:
        raise InputError(
            f"sweep: {key}: {name} must be two bounds, the lower one first, within ±{limit:g}; got "
            f"{list(values)!r}."
        )


class SweepKeys(StrictModel):
    """Keys of the table [sweep] that are not keys of a training configuration."""

    count: PositiveInt
    seed: int = 0


@dataclass(frozen=True)
class Sweep:
    """Random search with `count` draws; each draw has one value for every parameter."""

    count: int
    seed: int = 0
    parameters: tuple[SweepParameter, ...] = ()

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Sweep:
        """Parse the table [sweep] of a pool spec."""
        own = validate(
            SweepKeys, {key: table[key] for key in table if key in _SWEEP_KEYS}, "the sweep"
        )
        drawn = {key: value for key, value in table.items() if key not in _SWEEP_KEYS}
        parameters = [
            SweepParameter.from_table(key, value) for key, value in flatten_settings(drawn).items()
        ]
        return cls(own.count, own.seed, tuple(parameters))

    def draw_models(self) -> list[dict[str, Any]]:
        """Return the drawn values of each model; a larger `count` only adds models at the end.

        >>> sweep = Sweep.from_table({"count": 3, "lr": {"log10": [-4, -2]}})
        >>> longer = Sweep.from_table({"count": 9, "lr": {"log10": [-4, -2]}})
        >>> sweep.draw_models() == longer.draw_models()[:3]
        True
        """
        numbers = np.arange(1, self.count + 1)
        streams = RowStreams(self.seed, np.zeros(self.count, dtype=np.uint64), numbers, "sweep")
        quantiles = [streams.substream(one.key).uniforms(1)[:, 0] for one in self.parameters]
        return [
            {
                parameter.key: parameter.value_at(float(draws[model]))
                for parameter, draws in zip(self.parameters, quantiles, strict=True)
            }
            for model in range(self.count)
        ]


# Tables of a spec -------------------------------------------------------------------------------


def _check_pool_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w .-]*", name):
        raise ValueError("letters, digits, spaces, dots and dashes, because it names a folder")
    return name


def _flatten_sweep(table: dict[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in table.items() if key in _SWEEP_KEYS}
    return own | flatten_settings({key: table[key] for key in table if key not in own})


ValueTable = Annotated[dict[str, Any], AfterValidator(flatten_settings)]


class PartKeys(StrictModel):
    """Keys that can be set both for the whole pool and in a table [[parts]]."""

    domains: Literal["each", "all-but-one"] | NonEmpty[str | tuple[str, ...]] = Field(
        default="each",
        description="'each', 'all-but-one', or a list of domains or of lists of domains",
    )
    architecture: str | NonEmpty[str] = Field(default=(), description="a name or a list of names")
    seeds: PositiveInt | NonEmpty[int] | None = Field(
        default=None, description="a list of whole numbers, or their number"
    )
    weights_dir: Annotated[str, Field(min_length=1)] | None = None
    fixed: ValueTable = Field(default_factory=dict)
    grid: ValueTable = Field(default_factory=dict)
    sweep: Annotated[dict[str, Any], AfterValidator(_flatten_sweep)] | None = None

    def updated(self, part: PartKeys) -> PartKeys:
        """Return a copy in which the keys of `part` replace these keys; tables are merged."""
        own = {name: getattr(part, name) for name in part.model_fields_set}
        for name in own.keys() & {"fixed", "grid", "sweep"}:
            own[name] = {**(getattr(self, name) or {}), **own[name]}
        return self.model_copy(update=own)


class PoolKeys(PartKeys):
    """Keys of a pool's TOML file."""

    name: Annotated[str, AfterValidator(_check_pool_name)] | None = None
    about: str = ""
    group: Any = None
    parts: NonEmpty[Any] = Field(default=({},), description="a list of tables [[parts]]")


def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in pool specs."""
    return tuple(sorted(path.stem for path in BUILT_IN_FOLDER.glob("*.toml")))


def built_in_path(name: str) -> Path:
    """Return the path of a built-in pool spec."""
    if name not in built_in_names():
        raise UnknownName("built-in pool", name, built_in_names())
    return BUILT_IN_FOLDER / f"{name}.toml"


@dataclass(frozen=True)
class PoolPart:
    """Part of a pool: all combinations of domains, architectures, grid values, draws and seeds."""

    domains: tuple[tuple[str, ...], ...]
    architectures: tuple[str, ...]
    seeds: tuple[int, ...] | None
    fixed: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    sweep: Sweep | None

    @classmethod
    def from_table(cls, table: PartKeys, group: DomainGroup) -> PoolPart:
        """Convert the validated keys of a part."""
        sweep = None if table.sweep is None else Sweep.from_table(table.sweep)
        drawn = [parameter.key for parameter in sweep.parameters] if sweep else []
        evaluated_only = {}
        if table.weights_dir is not None:
            evaluated_only = {"part": "none", f"{SETTING_PREFIX}weights": table.weights_dir}
        _check_set_once([*evaluated_only, *table.fixed, *table.grid, *drawn])
        if isinstance(table.seeds, int):
            _check_count(table.seeds)
        seeds = tuple(range(table.seeds)) if isinstance(table.seeds, int) else table.seeds
        return cls(
            domains=_parse_domains(table.domains, group),
            architectures=_parse_architectures(table.architecture, group),
            seeds=seeds,
            fixed={
                key: canonical_value(key, value)
                for key, value in {**table.fixed, **evaluated_only}.items()
            },
            grid={key: _grid_values(key, values) for key, values in table.grid.items()},
            sweep=sweep,
        )

    @property
    def count(self) -> int:
        """Number of training configurations; equal configurations are counted more than once."""
        n_draws = 1 if self.sweep is None else self.sweep.count
        lists = (self.domains, self.architectures, self.seeds or (0,), *self.grid.values())
        return n_draws * prod(map(len, lists))

    def probe_values(self) -> Iterator[dict[str, Any]]:
        """Yield values in which each value of the grid and each bound of the sweep occurs once.

        All other keys have the first value of their list. A check of these values is much cheaper
        than a check of all combinations.
        """
        drawn = () if self.sweep is None else self.sweep.parameters
        axes = {**self.grid, **{parameter.key: parameter.extreme_values() for parameter in drawn}}
        first = {"seed": 0, **self.fixed, **{key: values[0] for key, values in axes.items()}}
        yield first
        for key, values in axes.items():
            yield from ({**first, key: value} for value in values[1:])

    def config_values(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each configuration, without group, domains and architecture."""
        models = [{}] if self.sweep is None else self.sweep.draw_models()
        points = [
            dict(zip(self.grid, point, strict=True)) for point in product(*self.grid.values())
        ]
        for index, drawn in enumerate(models):
            for seed, point in product(self.seeds or (index,), points):
                yield {"seed": seed, **self.fixed, **point, **drawn}


@dataclass(frozen=True)
class PoolSpec:
    """Description of a pool: the models to train on the domains of one group.

    Parameters
    ----------
    name : str
        Name of the pool, and of the folder that holds its models.
    about : str
        Description of the pool in one sentence.
    group : DomainGroup
        Group of the domains to train on.
    parts : tuple of PoolPart
        Parts of the pool; each consists of all combinations of its domains, architectures and
        values.
    file : str, optional
        Name of the TOML file of the pool. Messages about the pool name it.

    Examples
    --------
    >>> spec = PoolSpec.open({"group": "hypersphere", "domains": ["0"], "architecture": "mlp",
    ...                       "grid": {"batch": [32, 64]}})
    >>> [config.batch for config in spec.recipes()]
    [32, 64]
    """

    name: str
    about: str
    group: DomainGroup
    parts: tuple[PoolPart, ...]
    file: str | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """Name of the file, or else of the pool, in messages."""
        return self.file or f"the pool {self.name!r}"

    @classmethod
    def open(
        cls, path_or_table: str | Path | Mapping[str, Any], *, data: str | Path | None = None
    ) -> PoolSpec:
        """Return a built-in spec, or the spec that a TOML file or a mapping describes.

        Parameters
        ----------
        path_or_table : str, path or mapping
            Name of a built-in spec, path of a TOML file, or the content of a file as a mapping.
        data : str or path, optional
            Folder with the data files of the domains. Default: ``$OODOMETER_DATA``.

        Raises
        ------
        InputError
            If the file cannot be read or a value is not allowed.
        UnknownName
            If a name or key does not exist.
        """
        if isinstance(path_or_table, Mapping):
            return cls._from_table(path_or_table, "pool", Path(), data)
        if str(path_or_table) in built_in_names():
            path = built_in_path(str(path_or_table))
        else:
            path = Path(path_or_table)
            if path.suffix != ".toml" and not path.is_file():
                raise UnknownName("pool", str(path_or_table), built_in_names())
        table = read_toml(path)
        with prefix_errors(path.name):
            spec = cls._from_table(table, path.stem, path.parent, data)
        return replace(spec, file=path.name)

    @classmethod
    def _from_table(
        cls, table: Mapping[str, Any], name: str, folder: Path, data: str | Path | None
    ) -> PoolSpec:
        pool = validate(PoolKeys, table, "the pool")
        group = resolve_group(pool.group, folder, data)
        parts = [
            pool.updated(validate(PartKeys, part, "a part of the pool")) for part in pool.parts
        ]
        spec = cls(
            name=pool.name or name,
            about=pool.about,
            group=group,
            parts=tuple(PoolPart.from_table(part, group) for part in parts),
        )
        spec._check_values()
        return spec

    def _check_values(self) -> None:
        """Raise if an architecture lacks a setting, or if a value is not allowed."""
        full_settings: dict[str, dict[str, Any]] = {}
        for part in self.parts:
            # Some values of coral and batch fit only some numbers of training domains.
            smallest, largest = (choose(part.domains, key=len) for choose in (min, max))
            probed = replace(part, domains=(smallest, largest))
            for _ in self._expand(probed, part.probe_values(), full_settings):
                pass

    def recipes(self) -> tuple[TrainingConfig, ...]:
        """Return the training configurations of all models in a fixed order, without duplicates."""
        _check_count(sum(part.count for part in self.parts))
        full_settings: dict[str, dict[str, Any]] = {}
        configs = (
            config
            for part in self.parts
            for config in self._expand(part, part.config_values(), full_settings)
        )
        return tuple({config.id: config for config in configs}.values())

    def _expand(
        self,
        part: PoolPart,
        config_values: Iterable[dict[str, Any]],
        full_settings: dict[str, dict[str, Any]],
    ) -> Iterator[TrainingConfig]:
        """Yield the configurations of a part; `full_settings` is a cache of complete settings."""
        for values in config_values:
            settings = {
                key.removeprefix(SETTING_PREFIX): value
                for key, value in values.items()
                if key.startswith(SETTING_PREFIX)
            }
            own = {key: values[key] for key in values if not key.startswith(SETTING_PREFIX)}
            for name in part.architectures:
                key = repr((name, settings))
                if key not in full_settings:
                    architecture = architectures.get(name, settings)
                    full_settings[key] = architectures.stored_settings(architecture)
                for domains in part.domains:
                    yield TrainingConfig(self.group.name, domains, name, full_settings[key], **own)


def _check_set_once(keys: list[str]) -> None:
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(
                f"{key} is set in more than one of [fixed], [grid], [sweep] and weights_dir (which "
                "sets part and settings.weights). Set it once."
            )


def _check_count(count: int) -> None:
    if count > MAX_MODELS:
        raise InputError(
            f"The pool would have {count:,} models; the maximum is {MAX_MODELS:,}. Use shorter "
            "lists, or draw some combinations with [sweep]."
        )


def _grid_values(key: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(
            f"grid: {key} must be a list of at least one value; got {values!r}. A value of all "
            "models belongs in [fixed]."
        )
    return tuple(canonical_value(key, value) for value in values)


def resolve_group(
    group: Any, folder: Path, data: str | Path | None, severities: SeverityScale = "published"
) -> DomainGroup:
    """Return the domain group for the key `group` of a spec in `folder`.

    The key is the name of a group, the path of a TOML file relative to `folder`, or a mapping.
    `severities` is the scale of the severities of a corrupted group.
    """
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
        return group_named(group, root=data, severities=severities)
    except UnknownName as error:
        raise UnknownName(
            "domain group", group, (HYPERSPHERE_NAME, *groups.available_names())
        ) from error


def _parse_domains(
    domains: str | tuple[str | tuple[str, ...], ...], group: DomainGroup
) -> tuple[tuple[str, ...], ...]:
    """Return the sets of training domains; a model is trained on all domains of one set."""
    if domains == EACH:
        return tuple((name,) for name in group.domains)
    if domains == ALL_BUT_ONE:
        if len(group.domains) < 2:
            raise InputError(
                f"The group {group.name!r} has a single domain; {ALL_BUT_ONE!r} needs two or more."
            )
        return tuple(
            tuple(name for name in group.domains if name != left_out) for left_out in group.domains
        )
    sets = [(names,) if isinstance(names, str) else names for names in domains]
    for name in (name for names in sets for name in names):
        if name not in group.domains:
            raise UnknownName(f"domain of the group {group.name!r}", name, group.domains)
    # Use the order of the group, because the id of a model depends on the order of its domains.
    return tuple(tuple(name for name in group.domains if name in names) for names in sets)


def _parse_architectures(names: str | tuple[str, ...], group: DomainGroup) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else names
    if not names:
        raise InputError("The key 'architecture' is missing. Add architecture = ….")
    for name in names:
        architecture: Any = architectures.find(name)
        kinds = architecture.kinds
        if group.kind not in kinds:
            raise InputError(
                f"The architecture {name!r} accepts {' or '.join(kinds)}, and the group "
                f"{group.name!r} holds {group.kind}. Choose another architecture."
            )
    return names
