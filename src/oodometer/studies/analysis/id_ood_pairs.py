"""Pairs of an ID and an OOD domain, and what models say on them. Wenzel et al., NeurIPS 2022.

A pair is a training set and a domain that is not in it. The four roles that a domain can have in
it: ID, a domain the model was trained on; ID corrupted, one of these corrupted in a common way
(`photo/fog-3`); OOD, the pair's other domain; held-out OOD, the further ones of the same task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import InputError, NoAnswer, UnknownName
from oodometer.core.softmax_kernels import Bools, Floats, Ints
from oodometer.studies.analysis.correlation_matrix import tied
from oodometer.studies.analysis.evaluation_table import Table

ROLES = ("ID", "ID corrupted", "OOD", "held-out OOD")
# Told from the accuracy, whatever else the table has.
ERROR = "error"
# A mean over domains is only fair over the same domains for all. So those that fewer than this
# share of the models have are not asked of any, and who lacks one of the others has no mean.
SHARED = 0.5
# The one task or shift where a table names none.
UNNAMED = "unnamed"
_CORRUPTED = re.compile(r"(.+)/[^/]+-\d+")


@dataclass(frozen=True, eq=False)
class Pair:
    """An ID and an OOD domain, and the models trained on the first.

    `values` has a table (models, quantities) a role, NaN where there is no answer; the ID ones are
    means over so many domains as `id_domains` says.
    """

    training: str
    target: str
    task: str
    shift: str
    models: Ints
    values: Mapping[str, Floats]
    id_domains: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of a table, the quantities looked at, and how many rows have no role, and why."""

    quantities: tuple[str, ...]
    pairs: tuple[Pair, ...]
    left_out: Mapping[str, int]


def metrics_of(table: Table, names: Sequence[str] | None = None) -> dict[str, Floats]:
    """The error of every row, 1 − accuracy, and the measures named, or all.

    >>> table = Table.read({"model": ["m"], "trained_on": ["a"], "tested_on": ["a"],
    ...     "accuracy": [0.75], "ece": [0.1]})
    >>> {name: values.tolist() for name, values in metrics_of(table).items()}
    {'error': [0.25], 'ece': [0.1]}
    """
    for name in names or ():
        if name not in table.measures and name != ERROR:
            raise UnknownName("metric", name, [ERROR, *table.measures])
    chosen = table.measures if names is None else names
    measures = {name: table.measures[name] for name in chosen if name != ERROR}
    return {ERROR: 1.0 - table.accuracy, **measures}


def pairs(table: Table, quantities: Mapping[str, Floats]) -> Pairs:
    """Every pair of the table, with quantities that have one value a row.

    >>> table = Table.read({"model": ["m", "m", "m"], "trained_on": ["a", "a", "a"],
    ...     "tested_on": ["a", "b", "c"], "accuracy": [0.9, 0.7, 0.5]}, measures=())
    >>> found = pairs(table, {"accuracy": table.accuracy})
    >>> [(pair.target, pair.values["held-out OOD"].tolist()) for pair in found.pairs]
    [('b', [[0.5]]), ('c', [[0.7]])]
    """
    standing = _Standing.of(table)
    cubes = _cubes(table, quantities, standing)
    found = [pair for cube in cubes for pair in _pairs_of(table, cube)]
    if not found:
        raise NoAnswer(
            "no model is tested on a domain that it was not trained on: there is no pair of an ID "
            "and an OOD domain. Add rows with another tested_on"
        )
    lost = int(standing.elsewhere[table.trained_on, table.tested_on].sum())
    reason = "corrupted domains that the model was not trained on"
    return Pairs(tuple(quantities), tuple(found), {reason: lost} if lost else {})


def by_model(table: Table, quantities: Mapping[str, Floats]) -> dict[str, Floats]:
    """Of every model of the table its mean in each role, OOD over all such domains: a table a role.

    >>> table = Table.read({"model": ["m", "m", "m"], "trained_on": ["a", "a", "a"],
    ...     "tested_on": ["a", "b", "c"], "accuracy": [0.9, 0.75, 0.5]}, measures=())
    >>> by_model(table, {"accuracy": table.accuracy})["OOD"].tolist()
    [[0.625]]
    """
    shape = len(table.models), len(quantities)
    found: dict[str, Floats] = {role: np.full(shape, np.nan) for role in ROLES[:3]}
    for cube in _cubes(table, quantities, _Standing.of(table)):
        for role, domains in zip(ROLES, (cube.own, cube.corrupted, cube.outside), strict=False):
            found[role][cube.models] = cube.mean(domains)
    return found


@dataclass(frozen=True, eq=False)
class _Standing:
    """Of training sets × domains: own ones, own ones corrupted, others corrupted."""

    own: Bools
    corrupted: Bools
    elsewhere: Bools

    @classmethod
    def of(cls, table: Table) -> _Standing:
        own = table.includes
        place = {name: j for j, name in enumerate(table.domains)}
        matches = (_CORRUPTED.fullmatch(name) for name in table.domains)
        plain = np.array([place.get(match.group(1), -1) if match else -1 for match in matches])
        corrupted = own[:, plain] & (plain >= 0) & ~own
        return cls(own, corrupted, (plain >= 0) & ~corrupted & ~own)


@dataclass(frozen=True, eq=False)
class _Cube:
    """Quantities of the models of one training set: (models, domains of the table, quantities)."""

    rows: Ints
    models: Ints
    values: Floats
    own: Bools
    corrupted: Bools
    outside: Bools

    def mean(self, domains: Bools) -> Floats:
        """The mean over some domains: (models, quantities)."""
        some = self.values[:, domains]
        known = ~np.isnan(some)
        asked = known.sum(axis=0) >= np.maximum(SHARED * known.any(axis=1).sum(axis=0), 1)
        total, several = np.where(asked, some, 0.0).sum(axis=1), asked.sum(axis=0)
        with np.errstate(invalid="ignore"):
            means = total / several
        return np.where(several > 1, tied(means), means)


def _cubes(table: Table, quantities: Mapping[str, Floats], standing: _Standing) -> Iterator[_Cube]:
    for code in np.unique(table.trained_on):
        rows = np.flatnonzero(table.trained_on == code)
        models, place = np.unique(table.model[rows], return_inverse=True)
        values: Floats = np.full((len(models), len(table.domains), len(quantities)), np.nan)
        for number, column in enumerate(quantities.values()):
            values[place, table.tested_on[rows], number] = column[rows]
        own, corrupted = standing.own[code], standing.corrupted[code]
        outside = ~(own | corrupted | standing.elsewhere[code])
        yield _Cube(rows, models, values, own, corrupted, outside)


def _pairs_of(table: Table, cube: _Cube) -> Iterator[Pair]:
    tested = table.tested_on[cube.rows]
    targets = [int(j) for j in np.unique(tested) if cube.outside[j]]
    tasks = {j: _label(table, "task", cube.rows[tested == j]) for j in targets}
    within = cube.mean(cube.own), cube.mean(cube.corrupted)
    for target in targets:
        further = np.zeros_like(cube.outside)
        further[[j for j in targets if j != target and tasks[j] == tasks[target]]] = True
        parts = (*within, cube.values[:, target], cube.mean(further))
        yield Pair(
            table.training(int(table.trained_on[cube.rows[0]])),
            table.domains[target],
            tasks[target],
            _label(table, "shift", cube.rows[tested == target]),
            cube.models,
            dict(zip(ROLES, parts, strict=True)),
            int(cube.own[np.unique(tested)].sum()),
        )


def _label(table: Table, column: str, rows: Ints) -> str:
    """The one task or shift of the rows of a pair."""
    if column not in table.columns:
        return UNNAMED
    labels = sorted({table.columns[column][row] for row in rows})
    if len(labels) > 1:
        training, target = table.training(int(table.trained_on[rows[0]])), table.tested_on[rows[0]]
        raise InputError(
            f"Rows trained on {training!r} and tested on {table.domains[target]!r} have the "
            f"{column} {labels[0]!r} and {labels[1]!r}; a pair has one. Correct the column {column}."
        )
    return labels[0] or UNNAMED
