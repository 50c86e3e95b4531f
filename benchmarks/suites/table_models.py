"""Classifiers of tables: one-hot encoded columns and six types of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.suites.heads import Classifier, TorchHead
from oodometer.core.array_types import Array, Floats


def encode(table: Any, numbers: Sequence[str], categories: Sequence[str]) -> Floats:
    """Return standardized numbers and one-hot encoded categories."""
    import pandas as pd

    values = table[list(numbers)].to_numpy(dtype=float)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    dummies = pd.get_dummies(table[list(categories)].astype(str)).to_numpy(dtype=float)
    return np.hstack([values, dummies]).astype(np.float32)


def bands(values: Array, edges: Sequence[int]) -> Array:
    """Return names of bands of values: below the first edge, from each edge on.

    >>> bands(np.array([5, 20]), [18]).tolist()
    ['below 18', 'from 18']
    """
    names = [f"below {edges[0]}", *(f"from {edge}" for edge in edges)]
    return np.array(names)[np.searchsorted(edges, values, side="right")]


def table_models() -> Mapping[str, Classifier]:
    """Return untrained models by name."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.tree import DecisionTreeClassifier

    return {
        "logistic": LogisticRegression(max_iter=300),
        "boosting": HistGradientBoostingClassifier(max_iter=80, random_state=0),
        "forest": RandomForestClassifier(60, min_samples_leaf=3, random_state=0),
        "naive-bayes": BernoulliNB(),
        "tree": DecisionTreeClassifier(min_samples_leaf=20, random_state=0),
        "mlp": TorchHead(2, hidden=64, epochs=25),
    }
