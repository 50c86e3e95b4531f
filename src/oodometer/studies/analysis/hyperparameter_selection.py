"""Errors of each architecture with the best hyperparameters (Wenzel et al., 2022, App. F, Table S2).

For each architecture, training set and training-set size, the configuration with the lowest error
on held-out ID data (the source rows of a study) is chosen. Its errors on ID test data and on the
other domains of the task are averaged over the training sets of the task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import ERROR_METRIC, IdOodPair, find_pairs
from oodometer.studies.analysis.id_ood_scatter import standard_error
from oodometer.studies.analysis.training_recipes import (
    FEW_SHOT_KEY,
    recipe_cells,
    setting_keys,
    sort_sizes,
    training_sizes,
    varying_settings,
)

# Measure with the error on the held-out ID rows of a study, which are not test rows.
VALIDATION_ERROR = "source-error"


@dataclass(frozen=True)
class ConfigurationChoice:
    """Configuration chosen for one architecture on one training set.

    Parameters
    ----------
    training : str
        Training domains.
    settings : mapping of str to str
        Those training settings of the chosen configuration that differ between models of the table.
    models : tuple of str
        Models with this configuration; they differ only in the seed.
    candidates : int
        Number of configurations to choose from.
    validation_error, id_error, ood_error : float
        Means over `models`: error on held-out ID data, error on ID test data, and mean error over
        the other domains of the task.
    """

    training: str
    settings: Mapping[str, str]
    models: tuple[str, ...]
    candidates: int
    validation_error: float
    id_error: float
    ood_error: float


@dataclass(frozen=True)
class ArchitecturePerformance:
    """Errors of one architecture with the chosen configurations, averaged over training sets.

    Parameters
    ----------
    architecture : str
        Name of the architecture.
    task : str
        Name of the task.
    size : str
        Size of the training sets: ``full`` or the number of rows per class.
    id_error, ood_error, gap : float
        Mean errors on ID and OOD domains, and the mean difference (OOD − ID).
    id_error_se, ood_error_se, gap_se : float or None
        Standard errors over training sets; None for a single training set.
    choices : tuple of ConfigurationChoice
        Chosen configuration per training set.
    left_out : int
        Number of models without a validation, ID or OOD error.
    """

    architecture: str
    task: str
    size: str
    id_error: float
    id_error_se: float | None
    ood_error: float
    ood_error_se: float | None
    gap: float
    gap_se: float | None
    choices: tuple[ConfigurationChoice, ...]
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def best_configurations(
    table: EvaluationTable, *, criterion: str = VALIDATION_ERROR
) -> tuple[ArchitecturePerformance, ...]:
    """Return the errors of each architecture with hyperparameters chosen on held-out ID data.

    A configuration comprises all columns `recipe.…`; models that differ only in the seed have the
    same configuration, and their errors are averaged. Without such columns, every model is a
    configuration of its own. If two configurations have the same validation error, the first one in
    alphabetical order of their settings is chosen.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    criterion : str, default "source-error"
        Measure of the table with the error of a model on held-out ID data.

    Returns
    -------
    tuple of ArchitecturePerformance
        One result per architecture, task and training-set size.

    Raises
    ------
    NotApplicable
        If the table does not have the criterion, or no model has all errors.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkll"], "trained_on": ["a"] * 4, "tested_on":
    ...     [*"abab"], "accuracy": [0.75, 0.5, 0.875, 0.25], "recipe.lr": [0.1, 0.1, 0.2, 0.2],
    ...     "source-error": [0.2, 0.2, 0.3, 0.3]})
    >>> (result,) = best_configurations(table)
    >>> result.id_error, result.ood_error, result.gap, dict(result.choices[0].settings)
    (0.25, 0.5, 0.25, {'lr': '0.1'})
    """
    if criterion not in table.measures:
        raise NotApplicable(
            f"the table has no measure {criterion!r}, the error on held-out ID data. Add it to the "
            "measures of the study"
        )
    candidates = _find_candidates(table, _model_means(table, table.measures[criterion]))
    groups: dict[tuple[str, str, str], list[_Candidates]] = defaultdict(list)
    for entry in candidates:
        groups[entry.architecture, entry.task, entry.size].append(entry)
    order = sort_sizes([size for _, _, size in groups])
    configurations = _Configurations.from_table(table)
    results = [
        _average_choices(configurations, key, groups[key])
        for key in sorted(groups, key=lambda key: (key[0], key[1], order.index(key[2])))
    ]
    known = tuple(result for result in results if result is not None)
    if not known:
        raise NotApplicable(
            "no model has an error on held-out ID data, on ID test data and on all OOD domains"
        )
    return known


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Models of one architecture and size that are trained on one set.

    `errors` has the shape (models, 3): validation error, ID error and OOD error.
    """

    architecture: str
    task: str
    size: str
    training: str
    models: tuple[int, ...]
    errors: Floats


@dataclass(frozen=True, eq=False)
class _Configurations:
    """Configuration of every model, and the settings that are shown.

    `cells` has the values of all training settings per model, or the name of the model if the table
    has no settings. `shown` maps the settings that differ between models to their positions.
    """

    models: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    shown: Mapping[str, int]

    @classmethod
    def from_table(cls, table: EvaluationTable) -> _Configurations:
        keys = setting_keys(table)
        columns = [recipe_cells(table, key) for key in keys] or [table.models]
        shown = {key: keys.index(key) for key in varying_settings(table) if key != FEW_SHOT_KEY}
        return cls(table.models, tuple(zip(*columns, strict=True)), shown)


def _model_means(table: EvaluationTable, values: Floats) -> Floats:
    """Return the mean of the known values of every model; NaN if none is known."""
    known = np.isfinite(values)
    total = np.bincount(table.model[known], values[known], minlength=len(table.models))
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.bincount(table.model[known], minlength=len(table.models)))


def _find_candidates(table: EvaluationTable, validation: Floats) -> Iterator[_Candidates]:
    architecture_of = dict(zip(table.model.tolist(), table.architecture.tolist(), strict=True))
    sizes = training_sizes(table)
    for (task, training), pairs in _pairs_by_training_set(table).items():
        models = pairs[0].models
        errors = np.stack(
            [
                validation[models],
                pairs[0].values["ID"][:, 0],
                np.mean([pair.values["OOD"][:, 0] for pair in pairs], axis=0),
            ],
            axis=1,
        )
        kinds = [
            (table.architectures[architecture_of[model]], sizes[model]) for model in models.tolist()
        ]
        for kind in sorted(set(kinds)):
            rows = [row for row, other in enumerate(kinds) if other == kind]
            yield _Candidates(
                kind[0], task, kind[1], training, tuple(models[rows].tolist()), errors[rows]
            )


def _pairs_by_training_set(table: EvaluationTable) -> dict[tuple[str, str], list[IdOodPair]]:
    groups: dict[tuple[str, str], list[IdOodPair]] = defaultdict(list)
    for pair in find_pairs(table, {ERROR_METRIC: 1.0 - table.accuracy}).pairs:
        groups[pair.task, pair.training].append(pair)
    return groups


def _average_choices(
    configurations: _Configurations, key: tuple[str, str, str], groups: Sequence[_Candidates]
) -> ArchitecturePerformance | None:
    choices = [_choose_configuration(configurations, group) for group in groups]
    known = tuple(choice for choice in choices if choice is not None)
    if not known:
        return None
    architecture, task, size = key
    id_errors = np.array([choice.id_error for choice in known])
    ood_errors = np.array([choice.ood_error for choice in known])
    return ArchitecturePerformance(
        architecture=architecture,
        task=task,
        size=size,
        id_error=float(id_errors.mean()),
        id_error_se=standard_error(id_errors),
        ood_error=float(ood_errors.mean()),
        ood_error_se=standard_error(ood_errors),
        gap=float((ood_errors - id_errors).mean()),
        gap_se=standard_error(ood_errors - id_errors),
        choices=known,
        left_out=sum(int((~np.isfinite(group.errors).all(axis=1)).sum()) for group in groups),
    )


def _choose_configuration(
    configurations: _Configurations, group: _Candidates
) -> ConfigurationChoice | None:
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, model in enumerate(group.models):
        if np.isfinite(group.errors[row]).all():
            members[configurations.cells[model]].append(row)
    if not members:
        return None
    means = {own: group.errors[rows].mean(axis=0) for own, rows in members.items()}
    best = min(sorted(means), key=lambda own: means[own][0])
    return ConfigurationChoice(
        training=group.training,
        settings={key: best[j] for key, j in configurations.shown.items()},
        models=tuple(configurations.models[group.models[row]] for row in members[best]),
        candidates=len(members),
        validation_error=float(means[best][0]),
        id_error=float(means[best][1]),
        ood_error=float(means[best][2]),
    )
