"""check_model finds each rule that a model breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oodometer.core.inputs import INPUT_KINDS, InputKind, Inputs
from oodometer.core.predictions import Predictions
from oodometer.testing import check_model, toy_inputs


class Toy:
    """A good model, but for what a test changes."""

    name = "toy"

    def __init__(self, answer: Callable[[Inputs], Any] | None = None) -> None:
        self.answer = answer or said

    def classify(self, inputs: Inputs) -> Any:
        return self.answer(inputs)


def shares(inputs: Inputs) -> np.ndarray:
    rows = inputs.to_pylist() if hasattr(inputs, "to_pylist") else inputs
    second = np.array([sum(str(row).encode()) % 97 / 97 for row in rows])
    return np.column_stack([1 - second, second])


def said(inputs: Inputs) -> Predictions:
    return Predictions.from_probs(shares(inputs))


@pytest.mark.parametrize("kind", INPUT_KINDS)
def test_a_good_model_keeps_every_rule(kind: InputKind) -> None:
    check_model(Toy(), toy_inputs(kind, n=5))
    check_model(
        Toy(lambda x: Predictions.from_classes(said(x).classes, k=2)), toy_inputs(kind, n=5)
    )


def spoil(rows: np.ndarray) -> Predictions:
    found = said(rows)
    rows[0] = 0.0
    return found


def counting() -> Callable[[Inputs], Predictions]:
    asked = [0]

    def answer(rows: Inputs) -> Predictions:
        asked[0] += 1
        probs = shares(rows)
        return Predictions.from_probs(0.99 ** asked[0] * probs + (1 - 0.99 ** asked[0]) * 0.5)

    return answer


def normed(rows: Inputs) -> Predictions:
    """Each row hangs on the whole batch, as in training mode."""
    logits = rows[:, :2] - rows[:, :2].mean(axis=0)
    return Predictions.from_logits(logits)


def placed(rows: Inputs) -> Predictions:
    """The first row of several is special."""
    probs = shares(rows)
    probs[0] = probs[0] if len(rows) == 1 else probs[0][::-1]
    return Predictions.from_probs(probs)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: shares(x), "must give Predictions"),
        (lambda x: said(x[1:]), "gives 4 rows for 5 inputs"),
        (spoil, "toy changes its inputs"),
        (counting(), "differs when asked twice"),
        (normed, "says other of row 0 alone"),
        (placed, "says other of row 0 alone"),
        (lambda x: Predictions.from_classes([0], k=2) if len(x) == 1 else Predictions.from_probs([[0.8, 0.2]] * len(x)), "classes and probs"),
    ],
)  # fmt: skip
def test_each_broken_rule_is_found(answer: Callable[[Inputs], Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_model(Toy(answer), toy_inputs("vectors", n=5))


def test_the_order_of_rows_is_tried() -> None:
    rows = toy_inputs("vectors", n=5)
    known = {row.tobytes(): number for number, row in enumerate(rows)}

    def by_place(batch: Inputs) -> Predictions:
        """Right alone and in order, wrong in any other order."""
        probs = shares(batch)
        numbers = [known[row.tobytes()] for row in batch]
        return Predictions.from_probs(probs if numbers == sorted(numbers) else probs[:, ::-1])

    with pytest.raises(AssertionError, match="depends on the order of rows"):
        check_model(Toy(by_place), rows)


def test_what_lacks_a_part_is_no_model() -> None:
    class Nameless:
        def classify(self, inputs: Inputs) -> Predictions:
            return said(inputs)

    with pytest.raises(AssertionError, match="lacks name or classify"):
        check_model(Nameless(), toy_inputs("vectors"))  # type: ignore[arg-type]
