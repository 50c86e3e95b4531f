"""The rules that every model keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.core.stats import rng_for

# Rows scored alone and in a batch differ by the order of sums.
PROBABILITY_TOLERANCE = 1e-4


def check_model(model: Model, inputs: Inputs) -> None:
    """Raise AssertionError, with a sentence, on the first rule that a model breaks on a batch."""
    before = inputs if batches.is_table(inputs) else copy.deepcopy(inputs)
    for rule in MODEL_RULES:
        rule(model, inputs)
        assert batches.batches_equal(before, inputs), f"{model.name} changes its inputs"


def _returns_one_row_per_input(model: Model, inputs: Inputs) -> None:
    assert isinstance(model, Model), f"{model!r} lacks name or classify"
    assert model.name, f"{model!r} must have a name"
    found = model.classify(inputs)
    assert isinstance(found, Predictions), f"{model.name} must give Predictions, not {found!r}"
    assert found.n == len(inputs), f"{model.name} gives {found.n} rows for {len(inputs)} inputs"


def _is_deterministic(model: Model, inputs: Inputs) -> None:
    _assert_close(model, model.classify(inputs), model.classify(inputs), "differs when asked twice")


def _classifies_single_rows(model: Model, inputs: Inputs) -> None:
    whole = model.classify(inputs)
    for row in range(len(inputs)):
        alone = model.classify(batches.take(inputs, slice(row, row + 1)))
        _assert_close(
            model, alone, whole.rows(slice(row, row + 1)), f"says other of row {row} alone"
        )


def _follows_row_order(model: Model, inputs: Inputs) -> None:
    order = rng_for(0, "order of rows").permutation(len(inputs))
    mixed = model.classify(batches.take(inputs, order))
    _assert_close(model, mixed, model.classify(inputs).rows(order), "depends on the order of rows")


def _assert_close(
    model: Model, predictions: Predictions, expected: Predictions, problem: str
) -> None:
    assert np.array_equal(predictions.classes, expected.classes), (
        f"{model.name} {problem}: the classes"
    )
    assert predictions.score_type == expected.score_type, (
        f"{model.name} {problem}: {predictions.score_type} and {expected.score_type}"
    )
    if predictions.has_probs:
        gap = float(np.abs(predictions.probs - expected.probs).max())
        assert gap <= PROBABILITY_TOLERANCE, f"{model.name} {problem}: probabilities by {gap:.2g}"


MODEL_RULES: tuple[Callable[[Model, Inputs], None], ...] = (
    _returns_one_row_per_input,
    _is_deterministic,
    _classifies_single_rows,
    _follows_row_order,
)
