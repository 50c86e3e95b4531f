"""Conformance check of models: check_model() tests that a model follows the protocol."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.core.stats import rng_for

# The probabilities of a row that is classified alone or in a batch may differ by rounding.
PROBABILITY_TOLERANCE = 1e-4


def check_model(model: Model, inputs: Inputs) -> None:
    """Raise if a model violates a rule that all models must satisfy.

    Parameters
    ----------
    model : Model
        Model to check.
    inputs : Inputs
        Batch of inputs that the model can classify.

    Raises
    ------
    AssertionError
        If a rule is violated; the message names the first such rule.

    Examples
    --------
    >>> from oodometer import as_model
    >>> model = as_model(lambda rows: np.full((len(rows), 2), 0.5), name="uniform")
    >>> check_model(model, np.ones((3, 4)))
    """
    before = inputs if batches.is_table(inputs) else copy.deepcopy(inputs)
    for rule in MODEL_RULES:
        rule(model, inputs)
        assert batches.batches_equal(before, inputs), f"{model.name} changes its inputs"


def _returns_one_row_per_input(model: Model, inputs: Inputs) -> None:
    assert isinstance(model, Model), f"{model!r} lacks name or classify"
    assert model.name, f"{model!r} must have a name"
    result = model.classify(inputs)
    assert isinstance(result, Predictions), f"{model.name} must return Predictions, not {result!r}"
    assert result.n == len(inputs), f"{model.name} returns {result.n} rows for {len(inputs)} inputs"


def _is_deterministic(model: Model, inputs: Inputs) -> None:
    first, second = model.classify(inputs), model.classify(inputs)
    _assert_close(model, first, second, "differs between two calls")


def _classifies_single_rows(model: Model, inputs: Inputs) -> None:
    expected = model.classify(inputs)
    for number in range(len(inputs)):
        row = slice(number, number + 1)
        alone = model.classify(batches.take(inputs, row))
        _assert_close(
            model, alone, expected.rows(row), f"predicts differently for row {number} alone"
        )


def _follows_row_order(model: Model, inputs: Inputs) -> None:
    order = rng_for(0, "order of rows").permutation(len(inputs))
    permuted = model.classify(batches.take(inputs, order))
    expected = model.classify(inputs).rows(order)
    _assert_close(model, permuted, expected, "depends on the order of rows")


def _assert_close(
    model: Model, predictions: Predictions, expected: Predictions, problem: str
) -> None:
    assert np.array_equal(predictions.classes, expected.classes), (
        f"{model.name} {problem}: other classes"
    )
    assert predictions.score_type == expected.score_type, (
        f"{model.name} {problem}: {predictions.score_type} and {expected.score_type}"
    )
    if predictions.has_probs:
        gap = float(np.abs(predictions.probs - expected.probs).max())
        assert gap <= PROBABILITY_TOLERANCE, (
            f"{model.name} {problem}: probabilities differ by {gap:.2g}"
        )


MODEL_RULES: tuple[Callable[[Model, Inputs], None], ...] = (
    _returns_one_row_per_input,
    _is_deterministic,
    _classifies_single_rows,
    _follows_row_order,
)
