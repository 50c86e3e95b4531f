"""Sweeps: recipes whose values are drawn at random, each model's by a stream of its own.

[sweep]
count = 20
lr = { log10 = [-4.5, -2.5] }              # 10 to a power that is drawn evenly
batch = { log2 = [3, 9] }                  # 2 to a power; whole numbers are rounded down
label_noise = { uniform = [0, 0.3] }
settings.dropout = { choice = [0, 0.1, 0.5] }

What a model draws hangs on the sweep's seed, the model's number and the key: a larger count keeps
the models of a smaller one, and another key keeps what is drawn for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.random_streams import RowStreams
from oodometer.studies.training._config_values import (
    canonical_value,
    flatten_settings,
    is_integer_key,
)

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
