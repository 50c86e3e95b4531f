"""Norms against numpy and against sums over paths written out."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Measure
from oodometer.data import as_dataset
from oodometer.measures.subject import Subject, measure_one
from oodometer.measures.weight_norms import (
    FrobeniusNorm,
    PathNorm,
    SpectralNorm,
    spectral_norm,
    weight_matrices,
)
from oodometer.models import FunctionModel, TorchModel
from oodometer.models.model_view import ModelView, ViewSource

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
IMAGES = np.random.default_rng(1).integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)


def subject(module: Any, rows: Any = ROWS, **settings: Any) -> Subject:
    view = ModelView(
        ViewSource("data", as_dataset(rows), TorchModel(module, name="net", **settings))
    )
    return Subject(view, view)


def value(member: Measure, module: Any, rows: Any = ROWS, **settings: Any) -> float:
    return measure_one(member, subject(module, rows, **settings)).value


def refusal(member: Measure, module: Any, rows: Any = ROWS, **settings: Any) -> str:
    with pytest.raises(NotApplicable) as caught:
        value(member, module, rows, **settings)
    return str(caught.value)


def by_name(module: nn.Module) -> dict[str, Floats]:
    return dict(weight_matrices(module))


def numbers(weight: Any) -> Floats:
    found: Floats = weight.detach().double().numpy()
    return found


def eyes(count: int, scale: float) -> list[nn.Linear]:
    """Layers that multiply."""
    layers = [nn.Linear(4, 4, bias=False) for _ in range(count)]
    for layer in layers:
        layer.weight.data = torch.eye(4) * scale
    return layers


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)
    )


# Spectral and Frobenius ---------------------------------------------------------------------


def test_they_are_logs_of_products_of_numpys_norms() -> None:
    module = convolutional()
    layers = [numbers(module[0].weight).reshape(5, -1), numbers(module[4].weight)]  # type: ignore[index]
    found = measure_one(SpectralNorm(), subject(module, IMAGES))
    singular = [np.linalg.svd(layer, compute_uv=False)[0] for layer in layers]
    assert found.value == pytest.approx(np.log(np.prod(np.square(singular))), rel=1e-9)
    squares = [np.square(layer).sum() for layer in layers]
    assert value(FrobeniusNorm(), module, IMAGES) == pytest.approx(np.log(np.prod(squares)))
    assert found.facts == {"layers": 2}


def test_products_that_leave_the_range_of_numbers_have_logs() -> None:
    module = nn.Sequential(*eyes(60, 1e8))
    assert value(SpectralNorm(), module) == pytest.approx(60 * 2 * np.log(1e8))
    assert value(FrobeniusNorm(), module) == pytest.approx(60 * np.log(4 * 1e16))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (7, 90), (300, 65), (65, 65)])
def test_the_largest_singular_value_is_that_of_all(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).normal(size=shape)
    assert spectral_norm(matrix) == pytest.approx(
        np.linalg.svd(matrix, compute_uv=False)[0], rel=1e-10
    )


def test_the_largest_of_equal_singular_values_is_found() -> None:
    turned, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 100)))
    assert spectral_norm(3 * turned) == pytest.approx(3, rel=1e-10)
    assert spectral_norm(np.outer(np.ones(100), np.ones(80))) == pytest.approx(
        np.sqrt(8000), rel=1e-10
    )


def test_a_convolution_is_a_matrix_of_a_row_an_output() -> None:
    plain, wide = nn.Conv2d(4, 6, 3, groups=2), nn.Conv1d(3, 7, 5)
    found = by_name(nn.Sequential(plain, wide))
    assert np.array_equal(found["0.weight"], numbers(plain.weight).reshape(6, 2 * 9))
    assert np.array_equal(found["1.weight"], numbers(wide.weight).reshape(7, 3 * 5))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_has_its_outputs_first(groups: int) -> None:
    part = nn.ConvTranspose2d(4, 6, 3, groups=groups)
    weight = numbers(part.weight)  # (in, out / groups, 3, 3)
    expected = np.empty((6, 4 // groups, 3, 3))
    for out, into in product(range(6), range(4 // groups)):
        group = out // (6 // groups)
        expected[out, into] = weight[group * (4 // groups) + into, out % (6 // groups)]
    assert np.array_equal(by_name(part)["weight"], expected.reshape(6, -1))


def test_what_is_no_weight_layer_is_left_out() -> None:
    module = nn.Sequential(
        nn.LayerNorm([4, 4]), nn.RMSNorm([4, 4]), nn.BatchNorm1d(4), nn.PReLU(), nn.Linear(4, 2)
    )
    assert list(by_name(module)) == ["4.weight"]
    assert list(by_name(nn.Embedding(5, 3))) == ["weight"]
    assert list(by_name(nn.LSTM(3, 2))) == ["weight_ih_l0", "weight_hh_l0"]
    assert list(by_name(nn.MultiheadAttention(4, 2))) == ["in_proj_weight", "out_proj.weight"]


def test_parametrized_weights_count_once_as_they_are_used() -> None:
    part = parametrizations.weight_norm(nn.Linear(4, 3))
    found = by_name(nn.Sequential(part))
    assert list(found) == ["0.weight"]
    assert np.allclose(found["0.weight"], numbers(part.weight))


def test_tied_weights_count_once() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    assert list(by_name(nn.Sequential(first, second, first))) == ["0.weight"]


def test_weights_behind_a_mask_are_refused_and_permanent_ones_are_not() -> None:
    part = nn.Linear(4, 3)
    prune.l1_unstructured(part, "weight", amount=4)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        part(torch.zeros(1, 4))
    assert "'weight' are put together anew in every pass" in refusal(SpectralNorm(), part)
    prune.remove(part, "weight")  # type: ignore[no-untyped-call]
    assert value(FrobeniusNorm(), part) == pytest.approx(
        np.log(np.square(numbers(part.weight)).sum())
    )


class Named(nn.Module):
    """A parameter whose name looks like a part of something that is no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.head_v = nn.Parameter(torch.ones(3, 2))


def test_a_name_alone_makes_no_part() -> None:
    assert list(by_name(Named())) == ["head_v", "head.weight"]


def test_what_has_no_logarithm_is_refused() -> None:
    module = nn.Linear(4, 3)
    module.weight.data.zero_()
    assert refusal(SpectralNorm(), module).startswith("the weights 'weight' have the norm 0")
    module.weight.data.fill_(torch.inf)
    assert "have the norm nan" in refusal(FrobeniusNorm(), module)
    assert refusal(SpectralNorm(), nn.ReLU()) == "'net' has no weights of two or more axes"


# Path norm ----------------------------------------------------------------------------------


def test_the_path_norm_sums_over_all_paths() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    w, b = numbers(module[0].weight), numbers(module[0].bias)
    v, c = numbers(module[2].weight), numbers(module[2].bias)
    total = 0.0
    for out in range(2):
        total += c[out] ** 2
        for hidden in range(3):
            total += (v[out, hidden] * b[hidden]) ** 2
            total += sum((v[out, hidden] * w[hidden, into]) ** 2 for into in range(4))
    assert value(PathNorm(), module) == pytest.approx(np.sqrt(total), rel=1e-6)


def test_running_statistics_are_left_alone_and_ones_are_shown_after_scaling() -> None:
    module = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 36, 2, bias=False))
    norm = module[0]
    assert isinstance(norm, nn.BatchNorm2d)
    norm.running_mean = torch.tensor([0.5, -1.0, 0.0])
    norm.running_var = torch.tensor([4.0, 1.0, 9.0])
    norm.weight.data = torch.tensor([2.0, 3.0, 1.0])
    norm.bias.data = torch.tensor([1.0, 2.0, 0.5])
    spread = np.sqrt(np.array([4.0, 1.0, 9.0]) + norm.eps)
    shown = (1 - np.array([0.5, -1.0, 0.0])) / spread * np.array([4.0, 9.0, 1.0])
    shown += np.array([1.0, 4.0, 0.25])
    squares = np.square(numbers(module[2].weight)).reshape(2, 3, 36).sum(axis=(0, 2))
    found = value(PathNorm(), module, IMAGES, mean=[0.4, 0.5, 0.6], std=[0.1, 0.2, 0.3])
    assert found == pytest.approx(np.sqrt((squares * shown).sum()), rel=1e-6)


def test_what_floats_can_not_hold_is_computed_in_doubles() -> None:
    norm = nn.BatchNorm1d(4)
    norm.running_mean, norm.running_var = torch.zeros(4), torch.full((4,), 4.0 - norm.eps)
    assert value(PathNorm(), nn.Sequential(norm, *eyes(3, 1e8))) == pytest.approx(
        np.sqrt(4 * 1e48 / 2), rel=1e-6
    )


def test_what_doubles_can_not_hold_is_refused() -> None:
    words = refusal(PathNorm(), nn.Sequential(*eyes(20, 1e9)))
    assert words == "the sum of the logits leaves the range of numbers"


def test_a_sum_below_0_is_refused() -> None:
    norm = nn.BatchNorm1d(4)
    norm.running_mean = torch.full((4,), 3.0)
    words = refusal(PathNorm(), nn.Sequential(norm, nn.Linear(4, 2, bias=False)))
    assert words.startswith("the sum of the logits is -")
    assert "running means" in words


def test_parametrized_weights_are_noted() -> None:
    found = measure_one(PathNorm(), subject(parametrizations.weight_norm(nn.Linear(4, 2))))
    assert found.notes == (
        "parametrized weights were squared as they are kept, not as they are used",
    )


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.embedding(tokens).mean(dim=1))
        return found


def test_words_have_no_path_norm_but_layers() -> None:
    def tokens(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[len(text), 1] for text in texts])

    words = "the model takes words or several tensors, and it is shown one tensor of ones"
    assert refusal(PathNorm(), Words(), ["a", "bc"], prepare=tokens) == words
    assert measure_one(SpectralNorm(), subject(Words(), ["a"], prepare=tokens)).facts["layers"] == 2


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_gives_no_logits_or_can_not_be_run_so_is_refused() -> None:
    probs = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))
    words = "'net' gives probs, and logits are summed"
    assert refusal(PathNorm(), probs, outputs="probs") == words
    scripted = torch.jit.trace(nn.Linear(4, 2), torch.zeros(1, 4))  # type: ignore[no-untyped-call]
    assert refusal(PathNorm(), scripted) == "'net' is scripted and cannot run with other weights"


# All ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", [SpectralNorm(), FrobeniusNorm(), PathNorm()])
def test_a_model_that_can_not_be_looked_into_is_refused(member: Measure) -> None:
    view = ModelView(ViewSource("data", as_dataset(ROWS), FunctionModel(lambda rows: rows)))
    with pytest.raises(NotApplicable, match="it needs weights"):
        measure_one(member, Subject(view, view))


@pytest.mark.parametrize("member", [SpectralNorm(), FrobeniusNorm(), PathNorm()])
def test_the_network_is_left_as_it_was(member: Measure) -> None:
    made = subject(nn.Sequential(nn.Dropout(), convolutional()), IMAGES)
    module = made.network.module
    before = {name: part.clone() for name, part in module.state_dict().items()}
    measure_one(member, made)
    assert all(torch.equal(part, before[name]) for name, part in module.state_dict().items())
    assert not any(part.training for part in module.modules())
    assert all(part.grad is None and part.requires_grad for part in module.parameters())
