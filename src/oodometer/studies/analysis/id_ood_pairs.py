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

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.correlation_matrix import round_means
from oodometer.studies.analysis.evaluation_table import EvaluationTable

DOMAIN_ROLES = ("ID", "ID corrupted", "OOD", "held-out OOD")
# Told from the accuracy, whatever else the table has.
ERROR_METRIC = "error"
# A mean over domains is only fair over the same domains for all. So those that fewer than this
# share of the models have are not asked of any, and who lacks one of the others has no mean.
MIN_MODEL_SHARE = 0.5
# The one task or shift where a table names none.
UNNAMED_LABEL = "unnamed"
_CORRUPTED_DOMAIN = re.compile(r"(.+)/[^/]+-\d+")


@dataclass(frozen=True, eq=False)
class IdOodPair:
    """An ID and an OOD domain, and the models trained on the first.

    `values` has a table (models, quantities) a role, NaN where there is no answer; the ID ones are
    means over so many domains as `n_id_domains` says.
    """

    training: str
    target: str
    task: str
    shift: str
    models: Ints
    values: Mapping[str, Floats]
    n_id_domains: int


@dataclass(frozen=True, eq=False)
class IdOodPairs:
    """All pairs of a table, the quantities looked at, and how many rows have no role, and why."""

    quantities: tuple[str, ...]
    pairs: tuple[IdOodPair, ...]
    left_out: Mapping[str, int]


def select_metrics(
    table: EvaluationTable, metrics: Sequence[str] | None = None
) -> dict[str, Floats]:
    """The error of every row, 1 − accuracy, and the measures named, or all.

    >>> table = EvaluationTable.read({"model": ["m"], "trained_on": ["a"], "tested_on": ["a"],
    ...     "accuracy": [0.75], "ece": [0.1]})
    >>> {name: values.tolist() for name, values in select_metrics(table).items()}
    {'error': [0.25], 'ece': [0.1]}
    """
    for name in metrics or ():
        if name not in table.measures and name != ERROR_METRIC:
            raise UnknownName("metric", name, [ERROR_METRIC, *table.measures])
    chosen = table.measures if metrics is None else metrics
    measures = {name: table.measures[name] for name in chosen if name != ERROR_METRIC}
    return {ERROR_METRIC: 1.0 - table.accuracy, **measures}


def find_pairs(table: EvaluationTable, quantities: Mapping[str, Floats]) -> IdOodPairs:
    """Every pair of the table, with quantities that have one value a row.

    >>> table = EvaluationTable.read({"model": ["m", "m", "m"], "trained_on": ["a", "a", "a"],
    ...     "tested_on": ["a", "b", "c"], "accuracy": [0.9, 0.7, 0.5]}, measures=())
    >>> found = find_pairs(table, {"accuracy": table.accuracy})
    >>> [(pair.target, pair.values["held-out OOD"].tolist()) for pair in found.pairs]
    [('b', [[0.5]]), ('c', [[0.7]])]
    """
    standing = _DomainRoles.from_table(table)
    cubes = _values_by_training_set(table, quantities, standing)
    found = [pair for cube in cubes for pair in _pairs_of_training_set(table, cube)]
    if not found:
        raise NotApplicable(
            "no model is tested on a domain that it was not trained on: there is no pair of an ID "
            "and an OOD domain. Add rows with another tested_on"
        )
    lost = int(standing.other_corrupted[table.trained_on, table.tested_on].sum())
    reason = "corrupted domains that the model was not trained on"
    return IdOodPairs(tuple(quantities), tuple(found), {reason: lost} if lost else {})


def model_means_by_role(
    table: EvaluationTable, quantities: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Of every model of the table its mean in each role, OOD over all such domains: a table a role.

    >>> table = EvaluationTable.read({"model": ["m", "m", "m"], "trained_on": ["a", "a", "a"],
    ...     "tested_on": ["a", "b", "c"], "accuracy": [0.9, 0.75, 0.5]}, measures=())
    >>> model_means_by_role(table, {"accuracy": table.accuracy})["OOD"].tolist()
    [[0.625]]
    """
    shape = len(table.models), len(quantities)
    found: dict[str, Floats] = {role: np.full(shape, np.nan) for role in DOMAIN_ROLES[:3]}
    for cube in _values_by_training_set(table, quantities, _DomainRoles.from_table(table)):
        for role, domains in zip(
            DOMAIN_ROLES, (cube.in_training, cube.corrupted, cube.ood), strict=False
        ):
            found[role][cube.models] = cube.mean(domains)
    return found


@dataclass(frozen=True, eq=False)
class _DomainRoles:
    """Of training sets × domains: own ones, own ones corrupted, others corrupted."""

    in_training: Bools
    corrupted: Bools
    other_corrupted: Bools

    @classmethod
    def from_table(cls, table: EvaluationTable) -> _DomainRoles:
        own = table.domain_in_training
        place = {name: j for j, name in enumerate(table.domains)}
        matches = (_CORRUPTED_DOMAIN.fullmatch(name) for name in table.domains)
        plain = np.array([place.get(match.group(1), -1) if match else -1 for match in matches])
        corrupted = own[:, plain] & (plain >= 0) & ~own
        return cls(own, corrupted, (plain >= 0) & ~corrupted & ~own)


@dataclass(frozen=True, eq=False)
class _TrainingSetValues:
    """Quantities of the models of one training set: (models, domains of the table, quantities)."""

    rows: Ints
    models: Ints
    values: Floats
    in_training: Bools
    corrupted: Bools
    ood: Bools

    def mean(self, domains: Bools) -> Floats:
        """The mean over some domains: (models, quantities)."""
        some = self.values[:, domains]
        known = ~np.isnan(some)
        asked = known.sum(axis=0) >= np.maximum(MIN_MODEL_SHARE * known.any(axis=1).sum(axis=0), 1)
        total, several = np.where(asked, some, 0.0).sum(axis=1), asked.sum(axis=0)
        with np.errstate(invalid="ignore"):
            means = total / several
        return np.where(several > 1, round_means(means), means)


def _values_by_training_set(
    table: EvaluationTable, quantities: Mapping[str, Floats], roles: _DomainRoles
) -> Iterator[_TrainingSetValues]:
    for code in np.unique(table.trained_on):
        rows = np.flatnonzero(table.trained_on == code)
        models, place = np.unique(table.model[rows], return_inverse=True)
        values: Floats = np.full((len(models), len(table.domains), len(quantities)), np.nan)
        for number, column in enumerate(quantities.values()):
            values[place, table.tested_on[rows], number] = column[rows]
        own, corrupted = roles.in_training[code], roles.corrupted[code]
        outside = ~(own | corrupted | roles.other_corrupted[code])
        yield _TrainingSetValues(rows, models, values, own, corrupted, outside)


def _pairs_of_training_set(
    table: EvaluationTable, training_values: _TrainingSetValues
) -> Iterator[IdOodPair]:
    tested = table.tested_on[training_values.rows]
    targets = [int(j) for j in np.unique(tested) if training_values.ood[j]]
    tasks = {j: _common_label(table, "task", training_values.rows[tested == j]) for j in targets}
    within = (
        training_values.mean(training_values.in_training),
        training_values.mean(training_values.corrupted),
    )
    for target in targets:
        further = np.zeros_like(training_values.ood)
        further[[j for j in targets if j != target and tasks[j] == tasks[target]]] = True
        parts = (*within, training_values.values[:, target], training_values.mean(further))
        yield IdOodPair(
            table.training(int(table.trained_on[training_values.rows[0]])),
            table.domains[target],
            tasks[target],
            _common_label(table, "shift", training_values.rows[tested == target]),
            training_values.models,
            dict(zip(DOMAIN_ROLES, parts, strict=True)),
            int(training_values.in_training[np.unique(tested)].sum()),
        )


def _common_label(table: EvaluationTable, column: str, rows: Ints) -> str:
    """The one task or shift of the rows of a pair."""
    if column not in table.columns:
        return UNNAMED_LABEL
    labels = sorted({table.columns[column][row] for row in rows})
    if len(labels) > 1:
        training, target = table.training(int(table.trained_on[rows[0]])), table.tested_on[rows[0]]
        raise InputError(
            f"Rows trained on {training!r} and tested on {table.domains[target]!r} have the "
            f"{column} {labels[0]!r} and {labels[1]!r}; a pair has one. Correct the column {column}."
        )
    return labels[0] or UNNAMED_LABEL
