"""Fisher measures against the explicit Fisher matrix and brute force; invariances."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Measure
from oodometer.data import as_dataset
from oodometer.measures.fisher import (
    FisherAlignment,
    FisherEigenvalues,
    GradientProducts,
    best_pairing,
    default_rows,
    eigenvector_cosines,
)
from oodometer.measures.jacobian import Jacobian
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import FunctionModel, TorchModel
from oodometer.models.introspection.derivatives import GradientGram, gradient_gram
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.testing.measures import network_state, toy_network

RNG = np.random.default_rng(7)
SOURCE, TARGET = RNG.normal(size=(14, 6)), RNG.normal(size=(9, 6)) + 0.5
IMAGES = RNG.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)


def subject(source: Any = SOURCE, target: Any = TARGET, module: Any = None, **settings: Any) -> Subject:  # fmt: skip
    model = TorchModel(toy_network() if module is None else module, name="net", **settings)
    return subject_of(model, source, target)


def subject_of(model: Any, source: Any, target: Any, seed: int = 0) -> Subject:
    sides = [
        ModelView(ViewSource(name, as_dataset(rows), model, labelled=False, seed=seed))
        for name, rows in (("source", source), ("target", target))
    ]
    return Subject(sides[0], sides[1], seed=seed)


def explicit_gradients(toy: Subject, view: ModelView) -> Floats:
    """Return the gradient of each row by .backward(), at the class that the package samples."""
    rows = []
    module = TorchModel(toy.network.module).module
    for x, u in zip(
        view.inputs(), view.row_streams("fisher classes").uniforms(1)[:, 0], strict=True
    ):
        module.zero_grad(set_to_none=True)
        log_probs = torch.log_softmax(module(torch.from_numpy(x[None])), dim=1)[0]
        y = int(np.searchsorted(np.cumsum(log_probs.exp().detach().numpy()), u, side="right"))
        torch.autograd.backward(log_probs[y])
        rows.append(np.concatenate([part.grad.numpy().ravel() for part in module.parameters()]))
    return np.stack(rows)


def fisher(rows: Floats) -> tuple[Floats, Floats]:
    """Return the nonzero eigenvalues, largest first, and eigenvectors of the explicit matrix."""
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    keep = np.flatnonzero(values > 1e-8 * values[-1])[::-1]
    return values[keep], vectors[:, keep]


# Explicit matrix -------------------------------------------------------------------------------


def test_eigenvalues_match_the_explicit_matrix() -> None:
    toy = subject()
    (source, _), (target, _) = (
        fisher(explicit_gradients(toy, side)) for side in (toy.source, toy.target)
    )
    diff, ratio = (measure_one(FisherEigenvalues(form), toy) for form in ("diff", "ratio"))
    assert diff.value == pytest.approx(target.sum() - source.sum(), rel=1e-6)
    assert ratio.value == pytest.approx(target.sum() / source.sum(), rel=1e-6)
    assert diff.facts["source"] == pytest.approx(source.sum(), rel=1e-6)
    assert (diff.facts["source_rows"], diff.facts["target_rows"]) == (14, 9)
    assert diff.notes == ()


def test_cosines_match_the_explicit_eigenvectors() -> None:
    toy = subject()
    rows = [explicit_gradients(toy, side) for side in (toy.source, toy.target)]
    (_, source), (_, target) = (fisher(side) for side in rows)
    result = eigenvector_cosines(
        GradientProducts(rows[0] @ rows[0].T, rows[1] @ rows[1].T, rows[0] @ rows[1].T)
    )
    np.testing.assert_allclose(np.abs(result), np.abs(source.T @ target), atol=1e-5)
    score = measure_one(FisherAlignment(), toy)
    assert score.value == pytest.approx(best_pairing(np.abs(source.T @ target)), abs=1e-4)
    assert score.facts["source_directions"] == source.shape[1] == 14
    assert score.facts["target_directions"] == target.shape[1] == 9


def test_softmax_regression_matches_closed_form() -> None:
    """With one row, the only eigenvalue is ‖g‖² = ‖e_y − p‖² (‖x‖² + 1)."""
    layer = nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    toy = subject(np.array([[1.0, 0.0]]), np.array([[0.0, 3.0]]), nn.Sequential(layer))
    # p is (½, ½), so ‖e_y − p‖² is ½ whichever class is drawn.
    assert measure_one(FisherEigenvalues("diff"), toy).value == pytest.approx(0.5 * 10 - 0.5 * 2)
    assert measure_one(FisherEigenvalues("ratio"), toy).value == pytest.approx(5.0)
    # The gradients are ±½ (1, −1) ⊗ (x, 1); of (1, 0, 1) and (0, 3, 1) the cosine is 1/√20.
    assert measure_one(FisherAlignment(), toy).value == pytest.approx(1 / np.sqrt(20))


# Pairing ---------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_best_pairing_matches_all_permutations(rows: int, columns: int, seed: int) -> None:
    table = np.random.default_rng(seed).uniform(size=(rows, columns))
    tall = table if rows >= columns else table.T
    best = max(
        sum(tall[row, column] for column, row in enumerate(order))
        for order in permutations(range(len(tall)), tall.shape[1])
    )
    assert best_pairing(table) == pytest.approx(best)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 9), st.integers(0, 999))
def test_cosines_obey_bounds_of_unit_vectors(n: int, m: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(n, width)), rng.normal(size=(m, width))
    result = eigenvector_cosines(
        GradientProducts(source @ source.T, target @ target.T, source @ target.T)
    )
    assert result.shape == (min(n, width), min(m, width))
    assert (np.abs(result) <= 1).all()
    # The squared cosines of a unit vector with orthonormal vectors sum to at most 1.
    assert (np.square(result).sum(axis=1) <= 1 + 1e-6).all()
    whole = np.square(result).sum() if m >= width else min(n, width)
    assert whole == pytest.approx(min(n, width), rel=1e-5)


@pytest.mark.parametrize("rows", [SOURCE, IMAGES])
def test_identical_sides_align_completely(rows: Array) -> None:
    torch.manual_seed(0)
    convolutional = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 3)
    )  # fmt: skip
    identical = subject(rows, rows[::-1].copy(), convolutional if rows is IMAGES else None)
    result = measure_one(FisherAlignment(), identical)
    assert result.value == pytest.approx(len(rows), rel=1e-3)
    assert result.facts["source_directions"] == result.facts["target_directions"] == len(rows)
    assert measure_one(FisherEigenvalues("diff"), identical).value == pytest.approx(0, abs=1e-6)
    assert measure_one(FisherEigenvalues("ratio"), identical).value == pytest.approx(1, rel=1e-6)


def test_dependent_and_tiny_gradients_add_no_direction() -> None:
    """Five multiples of other gradients, and one gradient of nearly zero length."""
    rows, target = RNG.normal(size=(14, 30)), RNG.normal(size=(9, 30))
    with_duplicates = np.concatenate([rows, -2 * rows[:5], 1e-6 * RNG.normal(size=(1, 30))])
    result = eigenvector_cosines(
        GradientProducts(
            with_duplicates @ with_duplicates.T, target @ target.T, with_duplicates @ target.T
        )
    )
    assert result.shape == (14, 9)
    by_hand = fisher(with_duplicates)[1].T @ fisher(target)[1]
    np.testing.assert_allclose(np.abs(result), np.abs(by_hand), atol=1e-6)


# Invariances -----------------------------------------------------------------------------------

MEMBERS: list[Measure] = [FisherEigenvalues("diff"), FisherEigenvalues("ratio"), FisherAlignment()]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_order_batch_and_memory_do_not_matter(member: Any) -> None:
    first = measure_one(member, subject())
    others = [
        subject(SOURCE[RNG.permutation(14)], TARGET[RNG.permutation(9)]),
        subject(batch_size=4),
    ]
    values = [measure_one(member, other).value for other in others]
    small = replace(member, memory=3000)
    values.append(measure_one(small, subject()).value)
    assert values == pytest.approx([first.value] * 3, rel=1e-6)


def test_seed_changes_the_sampled_classes() -> None:
    model = TorchModel(toy_network(), name="net")
    values = {
        measure_one(FisherEigenvalues(), subject_of(model, SOURCE, TARGET, seed)).value
        for seed in (0, 0, 1)
    }
    assert len(values) == 2


def test_all_measures_share_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    n_rows: list[int] = []

    def counted(network: Network, sides: Any, *, memory_bytes: int) -> GradientGram:
        n_rows.append(sum(len(side.classes) for side in sides))
        return gradient_gram(network, sides, memory_bytes=memory_bytes)

    monkeypatch.setattr("oodometer.measures.fisher.gradient_gram", counted)
    toy = subject()
    for member in MEMBERS:
        measure_one(member, toy)
    assert n_rows == [23]
    measure_one(FisherAlignment(rows=5), toy)
    assert n_rows == [23, 10]


def test_row_limit_is_noted() -> None:
    result = measure_one(FisherAlignment(rows=10), subject())
    assert (result.facts["source_rows"], result.facts["target_rows"]) == (10, 9)
    assert result.notes == ("only 10 of 14 rows of 'source' were used, drawn at random",)


def test_default_rows_depend_on_network_size() -> None:
    assert default_rows(subject().network) == 1000
    large = nn.Sequential(nn.Linear(6, 100_000), nn.Linear(100_000, 3))
    assert default_rows(TorchModel(large, name="large").torch_network()) == 75


def test_training_data_replace_the_source() -> None:
    toy, other = subject(), subject(TARGET, TARGET)
    trained = Subject(toy.source, toy.target, training=other.source)
    assert measure_one(FisherEigenvalues("ratio"), trained).value == pytest.approx(1, rel=1e-9)


class Stepwise(nn.Module):
    """The layer that a row passes through depends on the row."""

    def __init__(self) -> None:
        super().__init__()
        self.toy, self.other = nn.Linear(6, 3).double(), nn.Linear(6, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.toy(row) if row[0] > 0 else self.other(row) for row in x])


def test_row_by_row_gradients_are_noted() -> None:
    toy = subject(module=Stepwise())
    before = network_state(toy.network.module)
    result = measure_one(FisherAlignment(), toy)
    assert result.notes == (
        "gradients were computed row by row: the network does not support batches",
    )
    assert network_state(toy.network.module) == before


def test_padding_of_texts_does_not_matter() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(30, 5, padding_idx=0), nn.Linear(5, 3)

        def forward(self, *, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.head(
                torch.tanh(self.words(ids)).mul(mask[..., None]).sum(dim=1)
            )
            return result

    def prepare(texts: list[str]) -> dict[str, Array]:
        longest = max(len(text) for text in texts)
        ids = np.array([[ord(c) - 96 for c in text.ljust(longest, "`")] for text in texts])
        return {"ids": ids, "mask": (ids > 0).astype(float)}

    torch.manual_seed(0)
    texts, words = ["a", "good", "bad", "excellent", "terrible", "so", "fine"], Words().double()
    result = [
        measure_one(
            FisherAlignment(), subject(texts, texts[2:], words, prepare=prepare, batch_size=batch)
        )
        for batch in (None, 1, 3)
    ]
    assert [toy.value for toy in result] == pytest.approx([result[0].value] * 3, rel=1e-6)
    assert result[0].facts["source_directions"] == 7
    with pytest.raises(NotApplicable, match="takes tokens or several tensors"):
        measure_one(Jacobian(), subject(texts, texts[2:], words, prepare=prepare))


# Errors ----------------------------------------------------------------------------------------


def test_function_models_are_not_applicable() -> None:
    function = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="flat")
    for member in MEMBERS:
        with pytest.raises(NotApplicable, match="it needs gradients: 'flat' is a FunctionModel"):
            measure_one(member, subject_of(function, SOURCE, TARGET))


def test_outputs_alone_are_not_enough() -> None:
    toy = subject()
    bare = ModelView(ViewSource("bare", outputs=Predictions.from_probs(np.full((4, 3), 1 / 3))))
    with pytest.raises(NotApplicable, match="no model was given"):
        measure_one(FisherAlignment(), Subject(toy.source, bare))
    with pytest.raises(NotApplicable, match="it needs the inputs"):
        measure_one(FisherAlignment(), Subject(bare, toy.target))


class Saturated(nn.Module):
    """Predict the first class with a saturated softmax, so that all gradients are 0."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.layer(x), -1, 1) + torch.tensor([1e4, -1e4])


def test_zero_gradients_are_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="all gradients of the source or of the target are 0"):
        measure_one(FisherAlignment(), subject(module=Saturated()))
    with pytest.raises(NotApplicable, match="the value on the source is 0"):
        measure_one(FisherEigenvalues("ratio"), subject(module=Saturated()))
    assert measure_one(FisherEigenvalues("diff"), subject(module=Saturated())).value == 0


def test_non_finite_gradients_are_not_applicable() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3, bias=False).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.sqrt(0 * self.layer(x))
            return result

    with pytest.raises(NotApplicable, match="the gradients are not finite"):
        measure_one(FisherAlignment(), subject(module=Root()))


def test_invalid_settings_raise() -> None:
    unknown: Any = "plain"
    with pytest.raises(InputError, match="form must be diff or ratio; got 'plain'"):
        FisherEigenvalues(unknown)
    with pytest.raises(InputError, match="rows must be at least 1; got 0"):
        FisherAlignment(rows=0)
    with pytest.raises(InputError, match="memory must be at least 1; got 0"):
        FisherEigenvalues(memory=0)


def test_names_are_those_of_the_paper() -> None:
    assert [member.label for member in MEMBERS] == [
        "Fisher-Eigval-Diff",
        "Fisher-Eigval-Ratio",
        "Fisher-Align",
    ]
    assert [member.name for member in MEMBERS] == [member.label.lower() for member in MEMBERS]
