"""Accuracy by training strategy and by augmentation (Wenzel et al., NeurIPS 2022, App. C).

The accuracy of a strategy on a dataset is the mean over all models trained with it. An ID dataset
is a training set; an OOD dataset is a pair of a training set and another domain. Accuracies are
averaged over the datasets of a task on which all compared strategies have a model, so that the
means of different strategies are over the same datasets. Standard errors are over these datasets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import find_pairs
from oodometer.studies.analysis.id_ood_scatter import accuracy_gap, standard_error
from oodometer.studies.analysis.training_recipes import (
    recipe_cells,
    require_recipe_values,
    sort_sizes,
    training_sizes,
)

Role = Literal["ID", "OOD"]
ROLES: tuple[Role, ...] = ("ID", "OOD")
PART_KEY = "part"
WHOLE_PART = "whole"
HEAD_PART = "head"
AUGMENT_KEY = "augment"
# Augmentations of the paper, which come first; other augmentations follow in alphabetical order.
PAPER_AUGMENTATIONS = ("none", "randaugment", "augmix")


@dataclass(frozen=True)
class StrategyGap:
    """Accuracy of models trained as a whole and of models of which only the head is trained.

    Parameters
    ----------
    task : str
        Name of the task.
    size : str
        Size of the training sets: ``full`` or the number of rows per class.
    role : {"ID", "OOD"}
        Whether the models are tested on their training domains or on other domains.
    whole, head : float
        Mean accuracies.
    whole_se, head_se : float or None
        Standard errors over datasets; None for a single dataset.
    gap : float or None
        Normalized gap, ``(whole − head) / whole``; None if the whole models have accuracy 0.
    gap_se : float or None
        Standard error of the gap by the delta method.
    datasets : int
        Number of datasets.
    left_out : int
        Number of datasets that lack one of the two strategies.
    """

    task: str
    size: str
    role: Role
    whole: float
    whole_se: float | None
    head: float
    head_se: float | None
    gap: float | None
    gap_se: float | None
    datasets: int
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True)
class AugmentationAccuracy:
    """Mean accuracy of the models trained with one augmentation.

    Parameters
    ----------
    task : str
        Name of the task.
    size : str
        Size of the training sets: ``full`` or the number of rows per class.
    role : {"ID", "OOD"}
        Whether the models are tested on their training domains or on other domains.
    augmentation : str
        Name of the augmentation.
    accuracy : float
        Mean accuracy.
    se : float or None
        Standard error over datasets; None for a single dataset.
    datasets : int
        Number of datasets.
    left_out : int
        Number of datasets that lack one of the augmentations.
    """

    task: str
    size: str
    role: Role
    augmentation: str
    accuracy: float
    se: float | None
    datasets: int
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def training_strategy_gaps(table: EvaluationTable) -> tuple[StrategyGap, ...]:
    """Compare models trained as a whole with models of which only the head is trained.

    The normalized gap (equation S1) is ``(acc_whole − acc_head) / acc_whole`` of accuracies
    averaged over all datasets of a task. It is computed separately for ID and OOD data and for each
    size of the training sets.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains. The column `recipe.part` is ``whole`` or ``head``. The
        optional column `recipe.few_shot` is the number of training rows per class, or empty.

    Returns
    -------
    tuple of StrategyGap
        One gap per task, size and role; larger training sets come first.

    Raises
    ------
    NotApplicable
        If the table does not have both strategies on the same dataset.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkll"], "trained_on": ["a"] * 4, "tested_on":
    ...     [*"abab"], "accuracy": [0.8, 0.5, 0.6, 0.6], "recipe.part": ["whole"] * 2 + ["head"] * 2},
    ...     measures=())
    >>> [(gap.role, round(gap.gap, 6)) for gap in training_strategy_gaps(table)]
    [('ID', 0.25), ('OOD', -0.2)]
    """
    require_recipe_values(table, PART_KEY, (WHOLE_PART, HEAD_PART))
    cells = _strategy_cells(table, PART_KEY)
    gaps = [
        _strategy_gap(*key, accuracies[WHOLE_PART], accuracies[HEAD_PART], left_out)
        for key, accuracies, left_out in _shared_accuracies(cells, (WHOLE_PART, HEAD_PART))
    ]
    if not gaps:
        raise NotApplicable(
            "no training set has both models trained as a whole and models with a trained head"
        )
    return tuple(gaps)


def augmentation_effects(table: EvaluationTable) -> tuple[AugmentationAccuracy, ...]:
    """Compare the accuracies of models that are trained with different augmentations.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains. The column `recipe.augment` names the augmentation, such
        as ``none``, ``randaugment`` or ``augmix``. The optional column `recipe.few_shot` is the
        number of training rows per class, or empty.

    Returns
    -------
    tuple of AugmentationAccuracy
        One accuracy per task, size, role and augmentation; larger training sets come first.

    Raises
    ------
    NotApplicable
        If the table does not have two augmentations on the same dataset.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkll"], "trained_on": ["a"] * 4,
    ...     "tested_on": [*"abab"], "accuracy": [0.8, 0.5, 0.6, 0.6],
    ...     "recipe.augment": ["none"] * 2 + ["augmix"] * 2}, measures=())
    >>> [(mean.role, mean.augmentation, mean.accuracy) for mean in augmentation_effects(table)]
    [('ID', 'none', 0.8), ('ID', 'augmix', 0.6), ('OOD', 'none', 0.5), ('OOD', 'augmix', 0.6)]
    """
    require_recipe_values(table, AUGMENT_KEY, PAPER_AUGMENTATIONS)
    means = []
    for key, datasets in _strategy_cells(table, AUGMENT_KEY).items():
        names = sort_augmentations(name for means in datasets.values() for name in means if name)
        if len(names) < 2:
            continue
        for _, accuracies, left_out in _shared_accuracies({key: datasets}, names):
            means += [
                AugmentationAccuracy(
                    *key, name, float(values.mean()), standard_error(values), len(values), left_out
                )
                for name, values in accuracies.items()
            ]
    if not means:
        raise NotApplicable("no training set has models with two augmentations")
    return tuple(means)


def sort_augmentations(names: Iterable[str]) -> list[str]:
    """Return the distinct augmentations, those of the paper first.

    >>> sort_augmentations(["flip-crop", "augmix", "none", "augmix"])
    ['none', 'augmix', 'flip-crop']
    """
    order = {name: j for j, name in enumerate(PAPER_AUGMENTATIONS)}
    return sorted(set(names), key=lambda name: (order.get(name, len(order)), name))


# Task, size of the training sets and role.
_CellKey = tuple[str, str, Role]
# Mean accuracy of each strategy on each dataset of a cell.
_CellAccuracies = Mapping[str, Mapping[str, float]]


def _strategy_cells(table: EvaluationTable, key: str) -> dict[_CellKey, _CellAccuracies]:
    """Return the mean accuracy per task, size, role, dataset and value of `recipe.<key>`."""
    strategies = recipe_cells(table, key)
    sizes = training_sizes(table)
    values: dict[_CellKey, dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    seen = set()
    for pair in find_pairs(table, {"accuracy": table.accuracy}).pairs:
        for role in ROLES:
            dataset = pair.training if role == "ID" else f"{pair.training} → {pair.target}"
            # All pairs of a training set have the same ID accuracies.
            if (pair.task, dataset) in seen:
                continue
            seen.add((pair.task, dataset))
            for model, accuracy in zip(pair.models, pair.values[role][:, 0], strict=True):
                if np.isfinite(accuracy):
                    cell = values[pair.task, sizes[model], role]
                    cell[dataset][strategies[model]].append(float(accuracy))
    means = {
        cell: {
            dataset: {name: float(np.mean(row)) for name, row in by_strategy.items()}
            for dataset, by_strategy in datasets.items()
        }
        for cell, datasets in values.items()
    }
    order = sort_sizes(sizes)
    return dict(
        sorted(means.items(), key=lambda item: (item[0][0], order.index(item[0][1]), item[0][2]))
    )


def _shared_accuracies(
    cells: Mapping[_CellKey, _CellAccuracies], strategies: Sequence[str]
) -> list[tuple[_CellKey, dict[str, Floats], int]]:
    """Return the accuracies on the datasets that have all strategies, and how many do not.

    Cells without any such dataset are left out.
    """
    shared = []
    for key, datasets in cells.items():
        used = [means for means in datasets.values() if all(name in means for name in strategies)]
        any_strategy = sum(any(name in means for name in strategies) for means in datasets.values())
        if used:
            accuracies = {name: np.array([means[name] for means in used]) for name in strategies}
            shared.append((key, accuracies, any_strategy - len(used)))
    return shared


def _strategy_gap(
    task: str, size: str, role: Role, whole: Floats, head: Floats, left_out: int
) -> StrategyGap:
    gap = accuracy_gap(whole, head)
    return StrategyGap(
        task=task,
        size=size,
        role=role,
        whole=float(whole.mean()),
        whole_se=gap.id_se,
        head=float(head.mean()),
        head_se=gap.ood_se,
        gap=gap.value,
        gap_se=gap.value_se,
        datasets=len(whole),
        left_out=left_out,
    )
