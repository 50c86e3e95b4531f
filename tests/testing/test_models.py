"""Conformance rules of models detect violations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oodometer.core.inputs import INPUT_KINDS, InputKind, Inputs
from oodometer.core.predictions import Predictions
from oodometer.testing import check_model, toy_inputs


class Toy:
    """Model with an exchangeable function."""

    name = "toy"

    def __init__(self, classify_rows: Callable[[Inputs], Any] | None = None) -> None:
        self.classify_rows = classify_rows or predict

    def classify(self, inputs: Inputs) -> Any:
        return self.classify_rows(inputs)


def probabilities(inputs: Inputs) -> np.ndarray:
    rows = inputs.to_pylist() if hasattr(inputs, "to_pylist") else inputs
    second = np.array([sum(str(row).encode()) % 97 / 97 for row in rows])
    return np.column_stack([1 - second, second])


def predict(inputs: Inputs) -> Predictions:
    return Predictions.from_probs(probabilities(inputs))


@pytest.mark.parametrize("kind", INPUT_KINDS)
def test_conforming_model_passes(kind: InputKind) -> None:
    check_model(Toy(), toy_inputs(kind, n=5))
    check_model(
        Toy(lambda x: Predictions.from_classes(predict(x).classes, k=2)), toy_inputs(kind, n=5)
    )


def change_inputs(rows: np.ndarray) -> Predictions:
    result = predict(rows)
    rows[0] = 0.0
    return result


def changing_with_calls() -> Callable[[Inputs], Predictions]:
    calls = [0]

    def classify_rows(rows: Inputs) -> Predictions:
        calls[0] += 1
        probs = probabilities(rows)
        return Predictions.from_probs(0.99 ** calls[0] * probs + (1 - 0.99 ** calls[0]) * 0.5)

    return classify_rows


def centred_by_batch(rows: Inputs) -> Predictions:
    """Return predictions that depend on the whole batch, as in training mode."""
    logits = rows[:, :2] - rows[:, :2].mean(axis=0)
    return Predictions.from_logits(logits)


def first_row_differs(rows: Inputs) -> Predictions:
    """Return different predictions for the first row of a batch."""
    probs = probabilities(rows)
    probs[0] = probs[0] if len(rows) == 1 else probs[0][::-1]
    return Predictions.from_probs(probs)


@pytest.mark.parametrize(
    ("classify_rows", "message"),
    [
        (lambda x: probabilities(x), "must return Predictions"),
        (lambda x: predict(x[1:]), "returns 4 rows for 5 inputs"),
        (change_inputs, "toy changes its inputs"),
        (changing_with_calls(), "differs between two calls"),
        (centred_by_batch, "predicts differently for row 0 alone"),
        (first_row_differs, "predicts differently for row 0 alone"),
        (lambda x: Predictions.from_classes([0], k=2) if len(x) == 1 else Predictions.from_probs([[0.8, 0.2]] * len(x)), "classes and probs"),
    ],
)  # fmt: skip
def test_violated_rules_are_detected(classify_rows: Callable[[Inputs], Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_model(Toy(classify_rows), toy_inputs("vectors", n=5))


def test_dependence_on_row_order_is_detected() -> None:
    rows = toy_inputs("vectors", n=5)
    positions = {row.tobytes(): number for number, row in enumerate(rows)}

    def by_order(batch: Inputs) -> Predictions:
        """Return other predictions if the rows are not in their original order."""
        probs = probabilities(batch)
        numbers = [positions[row.tobytes()] for row in batch]
        return Predictions.from_probs(probs if numbers == sorted(numbers) else probs[:, ::-1])

    with pytest.raises(AssertionError, match="depends on the order of rows"):
        check_model(Toy(by_order), rows)


def test_missing_attributes_are_detected() -> None:
    class WithoutName:
        def classify(self, inputs: Inputs) -> Predictions:
            return predict(inputs)

    with pytest.raises(AssertionError, match="lacks name or classify"):
        check_model(WithoutName(), toy_inputs("vectors"))  # type: ignore[arg-type]
