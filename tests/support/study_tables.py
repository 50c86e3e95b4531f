"""Tables of evaluations whose measures have a given amount of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oodometer.studies.analysis.evaluation_table import EvaluationTable

DOMAINS = ("photo", "sketch", "art")


def evaluation_columns(
    *,
    models: int = 12,
    domains: Sequence[str] = DOMAINS,
    kinds: Sequence[str] = ("cnn",),
    noise: Mapping[str, float] | None = None,
    names: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, list[Any]]:
    """Return columns of evaluations: `models` per training domain and architecture, on all domains.

    A measure is the accuracy plus noise of the given standard deviation; with a negative value its
    sign is inverted.
    """
    rng = np.random.default_rng(seed)
    noises = {"near": 0.02, "far": 0.3, "wrong": -0.05} if noise is None else noise
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("model", "architecture", "trained_on", "tested_on", "accuracy", *noises)
    }
    for kind in kinds:
        for trained in domains[:2]:
            for number in range(models):
                skill = rng.uniform(0.3, 0.8)
                for tested in domains:
                    accuracy = float(
                        np.clip(skill + 0.1 * (tested == trained) + rng.normal(0, 0.03), 0, 1)
                    )
                    columns["model"].append("-".join([*names[:1], kind, trained, str(number)]))
                    columns["architecture"].append(kind)
                    columns["trained_on"].append(trained)
                    columns["tested_on"].append(tested)
                    columns["accuracy"].append(accuracy)
                    for name, amount in noises.items():
                        sign = -1 if amount < 0 else 1
                        columns[name].append(sign * (accuracy + rng.normal(0, abs(amount))))
    return columns


def table_of(columns: Mapping[str, Sequence[Any]]) -> EvaluationTable:
    return EvaluationTable.read(columns)
