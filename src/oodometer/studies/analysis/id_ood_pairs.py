"""Build pairs of ID and OOD domains with the accuracies of all models (Wenzel et al., 2022).

A pair is a training set and a domain outside it. For a pair, a domain has one of four roles:

- ID: the domain belongs to the training set;
- ID corrupted: it is a domain of the training set with a common corruption, such as `photo/fog-3`;
- OOD: it is the domain outside the training set that belongs to the pair (the target);
- held-out OOD: it is any other OOD domain of the same task.

The column `task` names the task of a row; without this column, the domain group is the task. The
column `shift` names the type of shift; without this column, the types of the domains in Table S1 of
the paper determine it.
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
from oodometer.studies.analysis.shift_types import shift_type

DOMAIN_ROLES = ("ID", "ID corrupted", "OOD", "held-out OOD")
# Metric 1 − accuracy, which every table has because it is computed from the accuracy.
ERROR_METRIC = "error"
# Means of models are comparable only if they are over the same domains. A domain is therefore
# ignored if fewer than this share of the models have a value on it, and a model that has no value
# on one of the remaining domains gets no mean.
MIN_MODEL_SHARE = 0.5
# Name of the task or shift if the table does not name it.
UNNAMED_LABEL = "unnamed"
_CORRUPTED_DOMAIN = re.compile(r"(.+)/[^/]+-\d+")


@dataclass(frozen=True, eq=False)
class IdOodPair:
    """Training set and OOD domain, with the values of all models trained on this set.

    `values` maps each domain role to an array (models, quantities), which is NaN where a value is
    missing. ID values are means over `n_id_domains` domains.
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
    """All pairs of a table, and the names of the quantities that their values refer to.

    `left_out` counts, by reason, the rows of the table that belong to no pair.
    """

    quantities: tuple[str, ...]
    pairs: tuple[IdOodPair, ...]
    left_out: Mapping[str, int]


def select_metrics(
    table: EvaluationTable, metrics: Sequence[str] | None = None
) -> dict[str, Floats]:
    """Return the error (1 − accuracy) and the given measures per row, by default all measures.

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
    """Return every pair of the table; each of the `quantities` has one value per row of the table.

    >>> table = EvaluationTable.read({"model": ["m", "m", "m"], "trained_on": ["a", "a", "a"],
    ...     "tested_on": ["a", "b", "c"], "accuracy": [0.9, 0.7, 0.5]}, measures=())
    >>> result = find_pairs(table, {"accuracy": table.accuracy})
    >>> [(pair.target, pair.values["held-out OOD"].tolist()) for pair in result.pairs]
    [('b', [[0.5]]), ('c', [[0.7]])]
    """
    roles = _DomainRoles.from_table(table)
    pairs = [
        pair
        for training_values in _values_by_training_set(table, quantities, roles)
        for pair in _pairs_of_training_set(table, training_values)
    ]
    if not pairs:
        raise NotApplicable(
            "no model is tested on a domain that it was not trained on: there is no pair of an ID "
            "and an OOD domain. Add rows with another tested_on"
        )
    n_left_out = int(roles.other_corrupted[table.trained_on, table.tested_on].sum())
    reason = "corrupted domains that the model was not trained on"
    left_out = {reason: n_left_out} if n_left_out else {}
    return IdOodPairs(tuple(quantities), tuple(pairs), left_out)


def model_means_by_role(
    table: EvaluationTable, quantities: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Return, per domain role, the means of all models over its domains, (models, quantities).

    The role OOD comprises all OOD domains here.

    >>> table = EvaluationTable.read({"model": ["m", "m", "m"], "trained_on": ["a", "a", "a"],
    ...     "tested_on": ["a", "b", "c"], "accuracy": [0.9, 0.75, 0.5]}, measures=())
    >>> model_means_by_role(table, {"accuracy": table.accuracy})["OOD"].tolist()
    [[0.625]]
    """
    shape = len(table.models), len(quantities)
    means: dict[str, Floats] = {role: np.full(shape, np.nan) for role in DOMAIN_ROLES[:3]}
    roles = _DomainRoles.from_table(table)
    for training_values in _values_by_training_set(table, quantities, roles):
        masks = (training_values.in_training, training_values.corrupted, training_values.ood)
        for role, domains in zip(means, masks, strict=True):
            means[role][training_values.models] = training_values.mean(domains)
    return means


@dataclass(frozen=True, eq=False)
class _DomainRoles:
    """Masks of shape (training sets, domains).

    They select the domains of each training set, the corrupted versions of these domains, and the
    corrupted versions of all other domains.
    """

    in_training: Bools
    corrupted: Bools
    other_corrupted: Bools

    @classmethod
    def from_table(cls, table: EvaluationTable) -> _DomainRoles:
        own = table.domain_in_training
        index = {name: j for j, name in enumerate(table.domains)}
        matches = (_CORRUPTED_DOMAIN.fullmatch(name) for name in table.domains)
        # Index of the clean version of each corrupted domain; −1 for domains without corruption.
        clean = np.array([index.get(match.group(1), -1) if match else -1 for match in matches])
        corrupted = own[:, clean] & (clean >= 0) & ~own
        return cls(own, corrupted, (clean >= 0) & ~corrupted & ~own)


@dataclass(frozen=True, eq=False)
class _TrainingSetValues:
    """Values of all models trained on one set; `values` is (models, domains, quantities)."""

    rows: Ints
    models: Ints
    values: Floats
    in_training: Bools
    corrupted: Bools
    ood: Bools

    def mean(self, domains: Bools) -> Floats:
        """Return the means over the given domains, shape (models, quantities)."""
        values = self.values[:, domains]
        known = ~np.isnan(values)
        n_models = known.any(axis=1).sum(axis=0)
        used = known.sum(axis=0) >= np.maximum(MIN_MODEL_SHARE * n_models, 1)
        n_domains = used.sum(axis=0)
        with np.errstate(invalid="ignore"):
            means = np.where(used, values, 0.0).sum(axis=1) / n_domains
        return np.where(n_domains > 1, round_means(means), means)


def _values_by_training_set(
    table: EvaluationTable, quantities: Mapping[str, Floats], roles: _DomainRoles
) -> Iterator[_TrainingSetValues]:
    for code in np.unique(table.trained_on):
        rows = np.flatnonzero(table.trained_on == code)
        models, position = np.unique(table.model[rows], return_inverse=True)
        values: Floats = np.full((len(models), len(table.domains), len(quantities)), np.nan)
        for j, column in enumerate(quantities.values()):
            values[position, table.tested_on[rows], j] = column[rows]
        own = roles.in_training[code]
        corrupted = roles.corrupted[code]
        yield _TrainingSetValues(
            rows=rows,
            models=models,
            values=values,
            in_training=own,
            corrupted=corrupted,
            ood=~(own | corrupted | roles.other_corrupted[code]),
        )


def _pairs_of_training_set(
    table: EvaluationTable, training_values: _TrainingSetValues
) -> Iterator[IdOodPair]:
    tested = table.tested_on[training_values.rows]
    targets = [int(j) for j in np.unique(tested) if training_values.ood[j]]
    tasks = {j: _task_label(table, training_values.rows[tested == j]) for j in targets}
    id_means = training_values.mean(training_values.in_training)
    corrupted_means = training_values.mean(training_values.corrupted)
    for target in targets:
        held_out = np.zeros_like(training_values.ood)
        held_out[[j for j in targets if j != target and tasks[j] == tasks[target]]] = True
        by_role = (
            id_means,
            corrupted_means,
            training_values.values[:, target],
            training_values.mean(held_out),
        )
        yield IdOodPair(
            training=table.training(int(table.trained_on[training_values.rows[0]])),
            target=table.domains[target],
            task=tasks[target],
            shift=_shift_label(table, training_values.rows[tested == target], tasks[target]),
            models=training_values.models,
            values=dict(zip(DOMAIN_ROLES, by_role, strict=True)),
            n_id_domains=int(training_values.in_training[np.unique(tested)].sum()),
        )


def _task_label(table: EvaluationTable, rows: Ints) -> str:
    """Return the task of a pair: its cell in the column `task`, or else its domain group."""
    if "task" in table.columns:
        return _common_label(table, "task", rows)
    cells = table.columns.get("group")
    groups = {cells[row] for row in rows} - {""} if cells is not None else set()
    return groups.pop() if len(groups) == 1 else UNNAMED_LABEL


def _shift_label(table: EvaluationTable, rows: Ints, task: str) -> str:
    """Return the type of shift of a pair: its cell in the column `shift`, or else Table S1."""
    if "shift" in table.columns:
        return _common_label(table, "shift", rows)
    training = table.trainings[table.trained_on[rows[0]]]
    target = table.domains[table.tested_on[rows[0]]]
    return shift_type(task, training, target) or UNNAMED_LABEL


def _common_label(table: EvaluationTable, column: str, rows: Ints) -> str:
    """Return the task or shift of the rows of a pair; raise if they differ."""
    labels = sorted({table.columns[column][row] for row in rows})
    if len(labels) > 1:
        training = table.training(int(table.trained_on[rows[0]]))
        target = table.domains[table.tested_on[rows[0]]]
        raise InputError(
            f"Rows trained on {training!r} and tested on {target!r} have the {column} "
            f"{labels[0]!r} and {labels[1]!r}; a pair has one. Correct the column {column}."
        )
    return labels[0] or UNNAMED_LABEL
