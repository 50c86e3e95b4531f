"""Evaluations of fine-tuned networks with training settings, metrics, corruptions and tasks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oodometer.studies.analysis.evaluation_table import EvaluationTable

Row = dict[str, Any]
# Training sets and test domains of each group; fmow has one OOD domain only.
GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pacs": (("photo", "sketch", "cartoon"), ("photo", "sketch", "cartoon")),
    "terra-incognita": (("location_38", "location_43"), ("location_38", "location_43", "location_46")),
    "fmow": (("fmow-id",), ("fmow-id", "fmow-ood")),
}  # fmt: skip
DROPS = {"pacs": 0.25, "terra-incognita": 0.4, "fmow": 0.05}
ATTACKS = ("adversarial_error_0.001", "adversarial_error_0.02")
METRICS = ("nll", "ece", "demographic_disparity", *ATTACKS)
SETTINGS: dict[str, tuple[Any, ...]] = {
    "part": ("whole", "head"),
    "few_shot": (None, 10),
    "augment": ("none", "augmix"),
    "lr": (0.0005, 0.00005),
}
ARCHITECTURES = ("resnet50d", "vit_base_patch16_224")
PRETRAINED: dict[str, list[Any]] = {
    "model": list(ARCHITECTURES),
    "imagenet": [80.5, 84.5],
    "imagenet-a": [14.0, 43.0],
}


def fine_tuning_rows(seed: int = 0, *, groups: Sequence[str] = tuple(GROUPS)) -> list[Row]:
    """Return one row per model and test domain; `seed` also removes a few models at random."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for group in groups:
        trainings, domains = GROUPS[group]
        for training, architecture, *values in itertools.product(
            trainings, ARCHITECTURES, *SETTINGS.values()
        ):
            if rng.random() < 0.05:
                continue
            settings = dict(zip(SETTINGS, values, strict=True))
            rows += _model_rows(rng, group, training, architecture, settings, domains)
    return rows


def _model_rows(
    rng: np.random.Generator,
    group: str,
    training: str,
    architecture: str,
    settings: Row,
    domains: Sequence[str],
) -> list[Row]:
    skill = rng.uniform(0.6, 0.85) - 0.1 * (settings["part"] == "head")
    skill -= 0.15 * (settings["few_shot"] is not None)
    name = "-".join([group, training, architecture, *(str(value) for value in settings.values())])
    common = {
        "model": name,
        "architecture": architecture,
        "trained_on": training,
        "group": group,
        **{f"recipe.{key}": value for key, value in settings.items()},
        "source-error": round(1 - skill + rng.normal(0, 0.02), 3),
    }
    corrupted = [f"{training}/fog-3", f"{training}/jpeg_compression-3"]
    return [
        {**common, "tested_on": domain, **_values(rng, group, training, domain, skill)}
        for domain in (*domains, *corrupted)
    ]


def _values(
    rng: np.random.Generator, group: str, training: str, domain: str, skill: float
) -> dict[str, float]:
    own = domain.split("/")[0] == training
    accuracy = skill - (0.0 if own else DROPS[group]) - 0.1 * ("/" in domain)
    accuracy = round(float(np.clip(accuracy + rng.normal(0, 0.04), 0.05, 0.98)), 3)
    noise = rng.normal(0, 0.05, size=5)
    attacked = "/" not in domain
    return {
        "accuracy": accuracy,
        "nll": -math.log(accuracy) + noise[0],
        "ece": 0.2 * (1 - accuracy) + noise[1],
        "demographic_disparity": 0.3 + noise[2],
        ATTACKS[0]: 1 - accuracy + abs(noise[3]) if attacked else math.nan,
        ATTACKS[1]: 1.2 - accuracy + noise[4] if attacked else math.nan,
    }


def to_columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def to_table(rows: Sequence[Row]) -> EvaluationTable:
    return EvaluationTable.read(to_columns(rows))


def is_ood(row: Row) -> bool:
    """Return whether a row is on a clean domain outside the training set."""
    return row["tested_on"] != row["trained_on"] and "/" not in row["tested_on"]


def is_id(row: Row) -> bool:
    return bool(row["tested_on"] == row["trained_on"])


def size_of(row: Row) -> str:
    few = row["recipe.few_shot"]
    return "full" if few is None else f"{few} per class"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def mean_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean by its definition."""
    if len(values) < 2:
        return None
    center = mean(values)
    variance = sum((value - center) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))
