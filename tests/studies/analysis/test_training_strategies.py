"""Accuracies by training strategy against hand-computed values and loops over plain rows."""

from __future__ import annotations

import itertools
import json

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import to_jsonable
from oodometer.studies.analysis import (
    EvaluationTable,
    augmentation_effects,
    training_strategy_gaps,
)
from tests.support.fine_tuning_rows import (
    GROUPS,
    Row,
    fine_tuning_rows,
    is_id,
    is_ood,
    mean,
    mean_error,
    size_of,
    to_table,
)


def dataset_means(
    rows: list[Row], key: str, task: str, size: str, role: str
) -> dict[str, dict[str, float]]:
    """Return the mean accuracy per dataset and value of `key`, by loops."""
    chosen = [
        row
        for row in rows
        if row["group"] == task
        and size_of(row) == size
        and (is_id(row) if role == "ID" else is_ood(row))
    ]
    datasets = sorted({(row["trained_on"], row["tested_on"]) for row in chosen})
    means: dict[str, dict[str, float]] = {}
    for trained, tested in datasets:
        own = [row for row in chosen if (row["trained_on"], row["tested_on"]) == (trained, tested)]
        means[f"{trained} {tested}"] = {
            value: mean([row["accuracy"] for row in own if row[key] == value])
            for value in sorted({row[key] for row in own})
        }
    return means


def test_gap_of_two_datasets_by_hand() -> None:
    columns = {
        "model": [*"abcd"] * 2,
        "trained_on": ["x", "x", "y", "y"] * 2,
        "tested_on": ["x", "x", "y", "y", "y", "y", "x", "x"],
        "accuracy": [0.9, 0.6, 0.7, 0.6, 0.5, 0.5, 0.3, 0.5],
        "recipe.part": ["whole", "head"] * 4,
    }
    inside, outside = training_strategy_gaps(EvaluationTable.read(columns, measures=()))
    assert (inside.role, inside.size, inside.task, inside.datasets) == ("ID", "full", "unnamed", 2)
    # Whole: (0.9 + 0.7) / 2; head: (0.6 + 0.6) / 2.
    assert (inside.whole, inside.head) == pytest.approx((0.8, 0.6))
    assert inside.gap == pytest.approx(0.25)
    assert inside.whole_se == pytest.approx(0.1)
    assert inside.head_se == pytest.approx(0)
    # Residuals head − 0.75 · whole are −0.075 and 0.075; se 0.075, divided by 0.8.
    assert inside.gap_se == pytest.approx(0.075 / 0.8)
    assert outside.gap == pytest.approx(-0.25)


@pytest.mark.parametrize("seed", [0, 1])
def test_gaps_match_loops(seed: int) -> None:
    rows = fine_tuning_rows(seed)
    gaps = training_strategy_gaps(to_table(rows))
    cells = list(itertools.product(sorted(GROUPS), ("full", "10 per class"), ("ID", "OOD")))
    assert [(gap.task, gap.size, gap.role) for gap in gaps] == cells
    for gap, cell in zip(gaps, cells, strict=True):
        means = dataset_means(rows, "recipe.part", *cell).values()
        whole = [row["whole"] for row in means if len(row) == 2]
        head = [row["head"] for row in means if len(row) == 2]
        assert gap.datasets == len(whole)
        assert (gap.whole, gap.head) == pytest.approx((mean(whole), mean(head)))
        assert (gap.whole_se, gap.head_se) == pytest.approx((mean_error(whole), mean_error(head)))
        ratio = mean(head) / mean(whole)
        assert gap.gap == pytest.approx((mean(whole) - mean(head)) / mean(whole))
        residual = mean_error([y - ratio * x for x, y in zip(whole, head, strict=True)])
        expected = None if residual is None else residual / mean(whole)
        assert gap.gap_se == pytest.approx(expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_augmentation_means_match_loops(seed: int) -> None:
    rows = fine_tuning_rows(seed)
    effects = augmentation_effects(to_table(rows))
    assert len(effects) == 3 * 2 * 2 * 2
    for effect in effects:
        means = dataset_means(rows, "recipe.augment", effect.task, effect.size, effect.role)
        values = [row[effect.augmentation] for row in means.values() if len(row) == 2]
        assert effect.datasets == len(values)
        assert effect.accuracy == pytest.approx(mean(values))
        assert effect.se == pytest.approx(mean_error(values))
    json.dumps(to_jsonable(effects), allow_nan=False)


def test_datasets_without_one_strategy_are_counted() -> None:
    rows = [
        row
        for row in fine_tuning_rows(groups=["pacs"])
        if row["trained_on"] != "photo" or row["recipe.part"] == "whole"
    ]
    gaps = {(gap.size, gap.role): gap for gap in training_strategy_gaps(to_table(rows))}
    assert (gaps["full", "ID"].datasets, gaps["full", "ID"].left_out) == (2, 1)
    assert (gaps["full", "OOD"].datasets, gaps["full", "OOD"].left_out) == (4, 2)


def test_other_augmentations_are_compared_too() -> None:
    rows = [
        {**row, "recipe.augment": {"augmix": "flip-crop"}.get(row["recipe.augment"], "none")}
        for row in fine_tuning_rows(groups=["fmow"])
    ]
    effects = augmentation_effects(to_table(rows))
    assert [effect.augmentation for effect in effects[:2]] == ["none", "flip-crop"]


def test_missing_settings_are_not_applicable() -> None:
    rows = fine_tuning_rows(groups=["pacs"])
    whole = [row for row in rows if row["recipe.part"] == "whole"]
    with pytest.raises(NotApplicable, match=r"recipe\.part must have .*; it has only 'whole'"):
        training_strategy_gaps(to_table(whole))
    plain = [{key: row[key] for key in row if not key.startswith("recipe.")} for row in rows]
    with pytest.raises(NotApplicable, match=r"no column 'recipe\.part'"):
        training_strategy_gaps(to_table(plain))
    with pytest.raises(NotApplicable, match=r"no column 'recipe\.augment'"):
        augmentation_effects(to_table(plain))
    apart = [
        row for row in rows if (row["recipe.part"] == "whole") == (row["trained_on"] == "photo")
    ]
    with pytest.raises(NotApplicable, match="no training set has both"):
        training_strategy_gaps(to_table(apart))
