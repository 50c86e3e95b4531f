"""The rules that every model keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.core.stats import stream

# Rows scored alone and in a batch differ by the order of sums.
CLOSE = 1e-4


def check_model(model: Model, inputs: Inputs) -> None:
    """Raise AssertionError, with a sentence, on the first rule that a model breaks on a batch."""
    before = inputs if batches.is_table(inputs) else copy.deepcopy(inputs)
    for rule in MODEL_RULES:
        rule(model, inputs)
        assert batches.same(before, inputs), f"{model.name} changes its inputs"


def _gives_a_row_an_input(model: Model, inputs: Inputs) -> None:
    assert isinstance(model, Model), f"{model!r} lacks name or classify"
    assert model.name, f"{model!r} must have a name"
    found = model.classify(inputs)
    assert isinstance(found, Predictions), f"{model.name} must give Predictions, not {found!r}"
    assert found.n == len(inputs), f"{model.name} gives {found.n} rows for {len(inputs)} inputs"


def _says_the_same_twice(model: Model, inputs: Inputs) -> None:
    _alike(model, model.classify(inputs), model.classify(inputs), "differs when asked twice")


def _takes_rows_one_at_a_time(model: Model, inputs: Inputs) -> None:
    whole = model.classify(inputs)
    for row in range(len(inputs)):
        alone = model.classify(batches.take(inputs, slice(row, row + 1)))
        _alike(model, alone, whole.rows(slice(row, row + 1)), f"says other of row {row} alone")


def _follows_the_order_of_rows(model: Model, inputs: Inputs) -> None:
    order = stream(0, "order of rows").permutation(len(inputs))
    mixed = model.classify(batches.take(inputs, order))
    _alike(model, mixed, model.classify(inputs).rows(order), "depends on the order of rows")


def _alike(model: Model, one: Predictions, other: Predictions, what: str) -> None:
    assert np.array_equal(one.classes, other.classes), f"{model.name} {what}: the classes"
    assert one.form == other.form, f"{model.name} {what}: {one.form} and {other.form}"
    if one.has_probs:
        gap = float(np.abs(one.probs - other.probs).max())
        assert gap <= CLOSE, f"{model.name} {what}: probabilities by {gap:.2g}"


MODEL_RULES: tuple[Callable[[Model, Inputs], None], ...] = (
    _gives_a_row_an_input,
    _says_the_same_twice,
    _takes_rows_one_at_a_time,
    _follows_the_order_of_rows,
)
