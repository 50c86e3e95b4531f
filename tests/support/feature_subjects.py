"""Subjects made of feature arrays, for the tests of divergences."""

from __future__ import annotations

from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.measures.subject import Subject
from oodometer.models.model_view import ModelView, ViewSource


def normal(n: int, d: int, *, seed: int, shift: float = 0.0) -> Floats:
    """Return independent standard normal numbers plus `shift`."""
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def outputs(n: int, k: int, *, seed: int) -> Predictions:
    """Return random labelled outputs."""
    rng = np.random.default_rng(seed)
    return Predictions.from_logits(rng.normal(size=(n, k)), labels=rng.integers(0, k, n))


def subject(source: Floats, target: Floats, *, seed: int = 0, **given: Any) -> Subject:
    """Return a subject with features only; `given` are options of the source."""
    known = ModelView(ViewSource("source", features=source, seed=seed, **given))
    return Subject(known, ModelView(ViewSource("target", features=target, seed=seed)), seed=seed)


def with_classes(source: Floats, target: Floats, k: int, domains: Array | None = None) -> Subject:
    """Return a subject with features and outputs of k classes."""
    sides = [
        ModelView(
            ViewSource(
                name, features=features, outputs=outputs(len(features), k, seed=i), domains=of
            )
        )
        for i, (name, features, of) in enumerate(
            [("source", source, domains), ("target", target, None)]
        )
    ]
    return Subject(sides[0], sides[1])


def subject_with_row_keys(source: Floats, target: Floats, seed: int = 0) -> Subject:
    """Return a subject whose row keys do not depend on the features."""
    sides = []
    for name, features in (("source", source), ("target", target)):
        rows = as_dataset(normal(len(features), 1, seed=len(name)))
        sides.append(ModelView(ViewSource(name, rows, features=features, seed=seed)))
    return Subject(sides[0], sides[1], seed=seed)


def shuffled(one: Subject, seed: int) -> Subject:
    """Return a subject with the same rows in another order and an empty cache."""
    rng = np.random.default_rng(seed)
    sides = []
    for view in (one.source, one.target):
        order, given = rng.permutation(view.n), view.view_source
        assert given.features is not None
        said = None if given.outputs is None else given.outputs.rows(order)
        of = None if given.domains is None else given.domains[order]
        sides.append(
            ModelView(
                ViewSource(given.name, features=given.features[order], outputs=said, domains=of)
            )
        )
    return Subject(sides[0], sides[1], seed=one.seed)
