"""Fisher measures against the Fisher matrix itself, brute force, and laws."""

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


def materialised(one: Subject, view: ModelView) -> Floats:
    """The gradients of all rows, a row each, by .backward() at a class drawn as the package draws."""
    rows = []
    module = TorchModel(one.network.module).module
    for x, u in zip(
        view.inputs(), view.row_streams("fisher classes").uniforms(1)[:, 0], strict=True
    ):
        module.zero_grad(set_to_none=True)
        said = torch.log_softmax(module(torch.from_numpy(x[None])), dim=1)[0]
        y = int(np.searchsorted(np.cumsum(said.exp().detach().numpy()), u, side="right"))
        torch.autograd.backward(said[y])
        rows.append(np.concatenate([part.grad.numpy().ravel() for part in module.parameters()]))
    return np.stack(rows)


def fisher(rows: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of the matrix itself, the largest first; those of 0 left out."""
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    keep = np.flatnonzero(values > 1e-8 * values[-1])[::-1]
    return values[keep], vectors[:, keep]


# Against the matrix ----------------------------------------------------------------------------


def test_eigenvalues_are_those_of_the_fisher_matrix() -> None:
    one = subject()
    (source, _), (target, _) = (
        fisher(materialised(one, side)) for side in (one.source, one.target)
    )
    diff, ratio = (measure_one(FisherEigenvalues(form), one) for form in ("diff", "ratio"))
    assert diff.value == pytest.approx(target.sum() - source.sum(), rel=1e-6)
    assert ratio.value == pytest.approx(target.sum() / source.sum(), rel=1e-6)
    assert diff.facts["source"] == pytest.approx(source.sum(), rel=1e-6)
    assert (diff.facts["source_rows"], diff.facts["target_rows"]) == (14, 9)
    assert diff.notes == ()


def test_cosines_are_those_of_the_eigenvectors_of_the_fisher_matrix() -> None:
    one = subject()
    rows = [materialised(one, side) for side in (one.source, one.target)]
    (_, source), (_, target) = (fisher(side) for side in rows)
    found = eigenvector_cosines(
        GradientProducts(rows[0] @ rows[0].T, rows[1] @ rows[1].T, rows[0] @ rows[1].T)
    )
    np.testing.assert_allclose(np.abs(found), np.abs(source.T @ target), atol=1e-5)
    score = measure_one(FisherAlignment(), one)
    assert score.value == pytest.approx(best_pairing(np.abs(source.T @ target)), abs=1e-4)
    assert score.facts["source_directions"] == source.shape[1] == 14
    assert score.facts["target_directions"] == target.shape[1] == 9


def test_softmax_regression_by_hand() -> None:
    """One row at a time: the only eigenvalue is ‖g‖² = ‖e_y − p‖² (‖x‖² + 1)."""
    layer = nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    one = subject(np.array([[1.0, 0.0]]), np.array([[0.0, 3.0]]), nn.Sequential(layer))
    # p is (½, ½), so ‖e_y − p‖² is ½ whichever class is drawn.
    assert measure_one(FisherEigenvalues("diff"), one).value == pytest.approx(0.5 * 10 - 0.5 * 2)
    assert measure_one(FisherEigenvalues("ratio"), one).value == pytest.approx(5.0)
    # The gradients are ±½ (1, −1) ⊗ (x, 1); of (1, 0, 1) and (0, 3, 1) the cosine is 1/√20.
    assert measure_one(FisherAlignment(), one).value == pytest.approx(1 / np.sqrt(20))


# Pairing ---------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_the_best_pairing_is_that_of_all_permutations(rows: int, columns: int, seed: int) -> None:
    table = np.random.default_rng(seed).uniform(size=(rows, columns))
    tall = table if rows >= columns else table.T
    best = max(
        sum(tall[row, column] for column, row in enumerate(order))
        for order in permutations(range(len(tall)), tall.shape[1])
    )
    assert best_pairing(table) == pytest.approx(best)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 9), st.integers(0, 999))
def test_cosines_are_those_of_unit_vectors(n: int, m: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(n, width)), rng.normal(size=(m, width))
    found = eigenvector_cosines(
        GradientProducts(source @ source.T, target @ target.T, source @ target.T)
    )
    assert found.shape == (min(n, width), min(m, width))
    assert (np.abs(found) <= 1).all()
    # A unit vector's cosines with orthonormal ones have squares that sum to 1 at most.
    assert (np.square(found).sum(axis=1) <= 1 + 1e-6).all()
    whole = np.square(found).sum() if m >= width else min(n, width)
    assert whole == pytest.approx(min(n, width), rel=1e-5)


@pytest.mark.parametrize("rows", [SOURCE, IMAGES])
def test_identical_sides_align_in_every_direction(rows: Array) -> None:
    torch.manual_seed(0)
    convolutional = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 3)
    )  # fmt: skip
    same = subject(rows, rows[::-1].copy(), convolutional if rows is IMAGES else None)
    found = measure_one(FisherAlignment(), same)
    assert found.value == pytest.approx(len(rows), rel=1e-3)
    assert found.facts["source_directions"] == found.facts["target_directions"] == len(rows)
    assert measure_one(FisherEigenvalues("diff"), same).value == pytest.approx(0, abs=1e-6)
    assert measure_one(FisherEigenvalues("ratio"), same).value == pytest.approx(1, rel=1e-6)


def test_what_adds_no_direction_is_left_out() -> None:
    """Five copies of gradients, and one of next to no length."""
    rows, target = RNG.normal(size=(14, 30)), RNG.normal(size=(9, 30))
    more = np.concatenate([rows, -2 * rows[:5], 1e-6 * RNG.normal(size=(1, 30))])
    found = eigenvector_cosines(GradientProducts(more @ more.T, target @ target.T, more @ target.T))
    assert found.shape == (14, 9)
    by_hand = fisher(more)[1].T @ fisher(target)[1]
    np.testing.assert_allclose(np.abs(found), np.abs(by_hand), atol=1e-6)


# Laws ------------------------------------------------------------------------------------------

MEMBERS: list[Measure] = [FisherEigenvalues("diff"), FisherEigenvalues("ratio"), FisherAlignment()]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_neither_order_nor_batch_nor_memory_changes_the_value(member: Any) -> None:
    first = measure_one(member, subject())
    others = [
        subject(SOURCE[RNG.permutation(14)], TARGET[RNG.permutation(9)]),
        subject(batch_size=4),
    ]
    values = [measure_one(member, other).value for other in others]
    small = replace(member, memory=3000)
    values.append(measure_one(small, subject()).value)
    assert values == pytest.approx([first.value] * 3, rel=1e-6)


def test_the_seed_draws_other_classes() -> None:
    model = TorchModel(toy_network(), name="net")
    values = {
        measure_one(FisherEigenvalues(), subject_of(model, SOURCE, TARGET, seed)).value
        for seed in (0, 0, 1)
    }
    assert len(values) == 2


def test_all_measures_share_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(network: Network, sides: Any, *, memory_bytes: int) -> GradientGram:
        asked.append(sum(len(side.classes) for side in sides))
        return gradient_gram(network, sides, memory_bytes=memory_bytes)

    monkeypatch.setattr("oodometer.measures.fisher.gradient_gram", counted)
    one = subject()
    for member in MEMBERS:
        measure_one(member, one)
    assert asked == [23]
    measure_one(FisherAlignment(rows=5), one)
    assert asked == [23, 10]


def test_rows_are_capped_and_told() -> None:
    found = measure_one(FisherAlignment(rows=10), subject())
    assert (found.facts["source_rows"], found.facts["target_rows"]) == (10, 9)
    assert found.notes == ("only 10 of 14 rows of 'source' were used, drawn at random",)


def test_small_networks_have_more_rows_than_large_ones() -> None:
    assert default_rows(subject().network) == 1000
    large = nn.Sequential(nn.Linear(6, 100_000), nn.Linear(100_000, 3))
    assert default_rows(TorchModel(large, name="large").torch_network()) == 75


def test_the_training_data_are_the_source_where_they_are_given() -> None:
    one, other = subject(), subject(TARGET, TARGET)
    trained = Subject(one.source, one.target, training=other.source)
    assert measure_one(FisherEigenvalues("ratio"), trained).value == pytest.approx(1, rel=1e-9)


class Stepwise(nn.Module):
    """Which way a row takes hangs on the row."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 3).double(), nn.Linear(6, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.one(row) if row[0] > 0 else self.other(row) for row in x])


def test_what_is_looped_over_is_told_and_left_alone() -> None:
    one = subject(module=Stepwise())
    before = network_state(one.network.module)
    found = measure_one(FisherAlignment(), one)
    assert found.notes == (
        "gradients were computed one row after the other: the network can't do more",
    )
    assert network_state(one.network.module) == before


def test_texts_have_gradients_whatever_they_are_padded_to() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(30, 5, padding_idx=0), nn.Linear(5, 3)

        def forward(self, *, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(
                torch.tanh(self.words(ids)).mul(mask[..., None]).sum(dim=1)
            )
            return found

    def prepare(texts: list[str]) -> dict[str, Array]:
        longest = max(len(text) for text in texts)
        ids = np.array([[ord(c) - 96 for c in text.ljust(longest, "`")] for text in texts])
        return {"ids": ids, "mask": (ids > 0).astype(float)}

    torch.manual_seed(0)
    texts, words = ["a", "good", "bad", "excellent", "terrible", "so", "fine"], Words().double()
    found = [
        measure_one(
            FisherAlignment(), subject(texts, texts[2:], words, prepare=prepare, batch_size=batch)
        )
        for batch in (None, 1, 3)
    ]
    assert [one.value for one in found] == pytest.approx([found[0].value] * 3, rel=1e-6)
    assert found[0].facts["source_directions"] == 7
    with pytest.raises(NotApplicable, match="takes tokens or several tensors"):
        measure_one(Jacobian(), subject(texts, texts[2:], words, prepare=prepare))


# Refusals --------------------------------------------------------------------------------------


def test_a_function_has_no_gradients() -> None:
    function = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="flat")
    for member in MEMBERS:
        with pytest.raises(NotApplicable, match="it needs gradients: 'flat' is a FunctionModel"):
            measure_one(member, subject_of(function, SOURCE, TARGET))


def test_outputs_alone_are_not_enough_on_either_side() -> None:
    one = subject()
    bare = ModelView(ViewSource("bare", outputs=Predictions.from_probs(np.full((4, 3), 1 / 3))))
    with pytest.raises(NotApplicable, match="no model was given"):
        measure_one(FisherAlignment(), Subject(one.source, bare))
    with pytest.raises(NotApplicable, match="it needs the inputs"):
        measure_one(FisherAlignment(), Subject(bare, one.target))


class Sure(nn.Module):
    """So sure of the first class that nothing moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.layer(x), -1, 1) + torch.tensor([1e4, -1e4])


def test_no_gradient_no_direction() -> None:
    with pytest.raises(NotApplicable, match="all gradients of a side are 0"):
        measure_one(FisherAlignment(), subject(module=Sure()))
    with pytest.raises(NotApplicable, match="it is 0 on the source"):
        measure_one(FisherEigenvalues("ratio"), subject(module=Sure()))
    assert measure_one(FisherEigenvalues("diff"), subject(module=Sure())).value == 0


def test_gradients_that_are_not_finite_are_refused() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3, bias=False).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = torch.sqrt(0 * self.layer(x))
            return found

    with pytest.raises(NotApplicable, match="the gradients are not finite"):
        measure_one(FisherAlignment(), subject(module=Root()))


def test_bad_settings_are_named() -> None:
    unknown: Any = "plain"
    with pytest.raises(InputError, match="form must be diff or ratio; got 'plain'"):
        FisherEigenvalues(unknown)
    with pytest.raises(InputError, match="rows must be 1 or more; got 0"):
        FisherAlignment(rows=0)
    with pytest.raises(InputError, match="memory must be 1 byte or more; got 0"):
        FisherEigenvalues(memory=0)


def test_names_are_those_of_the_paper() -> None:
    assert [member.label for member in MEMBERS] == [
        "Fisher-Eigval-Diff",
        "Fisher-Eigval-Ratio",
        "Fisher-Align",
    ]
    assert [member.name for member in MEMBERS] == [member.label.lower() for member in MEMBERS]
