"""Weight norms against numpy and explicit sums over paths."""

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


def not_applicable_reason(member: Measure, module: Any, rows: Any = ROWS, **settings: Any) -> str:
    with pytest.raises(NotApplicable) as caught:
        value(member, module, rows, **settings)
    return str(caught.value)


def by_name(module: nn.Module) -> dict[str, Floats]:
    return dict(weight_matrices(module))


def to_numpy(weight: Any) -> Floats:
    result: Floats = weight.detach().double().numpy()
    return result


def scaled_identities(count: int, scale: float) -> list[nn.Linear]:
    """Return layers that multiply their input by `scale`."""
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


def test_values_are_logs_of_products_of_numpy_norms() -> None:
    module = convolutional()
    layers = [to_numpy(module[0].weight).reshape(5, -1), to_numpy(module[4].weight)]  # type: ignore[index]
    result = measure_one(SpectralNorm(), subject(module, IMAGES))
    singular = [np.linalg.svd(layer, compute_uv=False)[0] for layer in layers]
    assert result.value == pytest.approx(np.log(np.prod(np.square(singular))), rel=1e-9)
    squares = [np.square(layer).sum() for layer in layers]
    assert value(FrobeniusNorm(), module, IMAGES) == pytest.approx(np.log(np.prod(squares)))
    assert result.facts == {"layers": 2}


def test_overflowing_products_have_logs() -> None:
    module = nn.Sequential(*scaled_identities(60, 1e8))
    assert value(SpectralNorm(), module) == pytest.approx(60 * 2 * np.log(1e8))
    assert value(FrobeniusNorm(), module) == pytest.approx(60 * np.log(4 * 1e16))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (7, 90), (300, 65), (65, 65)])
def test_spectral_norm_matches_svd(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).normal(size=shape)
    assert spectral_norm(matrix) == pytest.approx(
        np.linalg.svd(matrix, compute_uv=False)[0], rel=1e-10
    )


def test_spectral_norm_with_equal_singular_values() -> None:
    orthogonal, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 100)))
    assert spectral_norm(3 * orthogonal) == pytest.approx(3, rel=1e-10)
    assert spectral_norm(np.outer(np.ones(100), np.ones(80))) == pytest.approx(
        np.sqrt(8000), rel=1e-10
    )


def test_convolution_has_one_row_per_output() -> None:
    plain, conv1d = nn.Conv2d(4, 6, 3, groups=2), nn.Conv1d(3, 7, 5)
    result = by_name(nn.Sequential(plain, conv1d))
    assert np.array_equal(result["0.weight"], to_numpy(plain.weight).reshape(6, 2 * 9))
    assert np.array_equal(result["1.weight"], to_numpy(conv1d.weight).reshape(7, 3 * 5))


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution_has_one_row_per_output(groups: int) -> None:
    layer = nn.ConvTranspose2d(4, 6, 3, groups=groups)
    weight = to_numpy(layer.weight)  # (in, out / groups, 3, 3)
    expected = np.empty((6, 4 // groups, 3, 3))
    for out, column in product(range(6), range(4 // groups)):
        group = out // (6 // groups)
        expected[out, column] = weight[group * (4 // groups) + column, out % (6 // groups)]
    assert np.array_equal(by_name(layer)["weight"], expected.reshape(6, -1))


def test_only_weight_layers_count() -> None:
    module = nn.Sequential(
        nn.LayerNorm([4, 4]), nn.RMSNorm([4, 4]), nn.BatchNorm1d(4), nn.PReLU(), nn.Linear(4, 2)
    )
    assert list(by_name(module)) == ["4.weight"]
    assert list(by_name(nn.Embedding(5, 3))) == ["weight"]
    assert list(by_name(nn.LSTM(3, 2))) == ["weight_ih_l0", "weight_hh_l0"]
    assert list(by_name(nn.MultiheadAttention(4, 2))) == ["in_proj_weight", "out_proj.weight"]


def test_parametrized_weights_count_once() -> None:
    layer = parametrizations.weight_norm(nn.Linear(4, 3))
    result = by_name(nn.Sequential(layer))
    assert list(result) == ["0.weight"]
    assert np.allclose(result["0.weight"], to_numpy(layer.weight))


def test_tied_weights_count_once() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    assert list(by_name(nn.Sequential(first, second, first))) == ["0.weight"]


def test_pruned_weights_must_be_permanent() -> None:
    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", amount=4)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        layer(torch.zeros(1, 4))
    assert "'weight' are recomputed in every forward pass" in not_applicable_reason(
        SpectralNorm(), layer
    )
    prune.remove(layer, "weight")  # type: ignore[no-untyped-call]
    assert value(FrobeniusNorm(), layer) == pytest.approx(
        np.log(np.square(to_numpy(layer.weight)).sum())
    )


class SuffixName(nn.Module):
    """Module whose parameter name looks like that of a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.head_v = nn.Parameter(torch.ones(3, 2))


def test_suffix_alone_does_not_make_a_hook() -> None:
    assert list(by_name(SuffixName())) == ["head_v", "head.weight"]


def test_norms_without_logarithm_are_not_applicable() -> None:
    module = nn.Linear(4, 3)
    module.weight.data.zero_()
    assert not_applicable_reason(SpectralNorm(), module).startswith(
        "the norm of the weights 'weight' is 0"
    )
    module.weight.data.fill_(torch.inf)
    assert "is nan: no logarithm" in not_applicable_reason(FrobeniusNorm(), module)
    assert (
        not_applicable_reason(SpectralNorm(), nn.ReLU())
        == "'net' has no weights with two or more axes"
    )


# Path norm ----------------------------------------------------------------------------------


def test_path_norm_sums_over_all_paths() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    w, b = to_numpy(module[0].weight), to_numpy(module[0].bias)
    v, c = to_numpy(module[2].weight), to_numpy(module[2].bias)
    total = 0.0
    for out in range(2):
        total += c[out] ** 2
        for hidden in range(3):
            total += (v[out, hidden] * b[hidden]) ** 2
            total += sum((v[out, hidden] * w[hidden, column]) ** 2 for column in range(4))
    assert value(PathNorm(), module) == pytest.approx(np.sqrt(total), rel=1e-6)


def test_path_norm_keeps_running_statistics_and_skips_scaling() -> None:
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
    squares = np.square(to_numpy(module[2].weight)).reshape(2, 3, 36).sum(axis=(0, 2))
    result = value(PathNorm(), module, IMAGES, mean=[0.4, 0.5, 0.6], std=[0.1, 0.2, 0.3])
    assert result == pytest.approx(np.sqrt((squares * shown).sum()), rel=1e-6)


def test_float32_overflow_is_computed_in_float64() -> None:
    norm = nn.BatchNorm1d(4)
    norm.running_mean, norm.running_var = torch.zeros(4), torch.full((4,), 4.0 - norm.eps)
    assert value(PathNorm(), nn.Sequential(norm, *scaled_identities(3, 1e8))) == pytest.approx(
        np.sqrt(4 * 1e48 / 2), rel=1e-6
    )


def test_float64_overflow_is_not_applicable() -> None:
    message = not_applicable_reason(PathNorm(), nn.Sequential(*scaled_identities(20, 1e9)))
    assert message == "the sum of the logits overflows"


def test_negative_sum_is_not_applicable() -> None:
    norm = nn.BatchNorm1d(4)
    norm.running_mean = torch.full((4,), 3.0)
    message = not_applicable_reason(PathNorm(), nn.Sequential(norm, nn.Linear(4, 2, bias=False)))
    assert message.startswith("the sum of the logits is -")
    assert "running means" in message


def test_parametrized_weights_are_noted() -> None:
    result = measure_one(PathNorm(), subject(parametrizations.weight_norm(nn.Linear(4, 2))))
    assert result.notes == (
        "parametrized weights were squared as stored, not as used in the forward pass",
    )


class TextModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.embedding(tokens).mean(dim=1))
        return result


def test_text_models_have_layer_norms_but_no_path_norm() -> None:
    def tokens(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[len(text), 1] for text in texts])

    message = "the input is one tensor of ones, and the model takes text or several tensors"
    assert not_applicable_reason(PathNorm(), TextModel(), ["a", "bc"], prepare=tokens) == message
    assert (
        measure_one(SpectralNorm(), subject(TextModel(), ["a"], prepare=tokens)).facts["layers"]
        == 2
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_probability_and_scripted_models_have_no_path_norm() -> None:
    probs = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))
    message = "it sums logits, and 'net' returns probs"
    assert not_applicable_reason(PathNorm(), probs, outputs="probs") == message
    scripted = torch.jit.trace(nn.Linear(4, 2), torch.zeros(1, 4))  # type: ignore[no-untyped-call]
    assert (
        not_applicable_reason(PathNorm(), scripted)
        == "'net' is scripted and cannot run with other weights"
    )


# All norms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("member", [SpectralNorm(), FrobeniusNorm(), PathNorm()])
def test_function_models_are_not_applicable(member: Measure) -> None:
    view = ModelView(ViewSource("data", as_dataset(ROWS), FunctionModel(lambda rows: rows)))
    with pytest.raises(NotApplicable, match="it needs weights"):
        measure_one(member, Subject(view, view))


@pytest.mark.parametrize("member", [SpectralNorm(), FrobeniusNorm(), PathNorm()])
def test_network_is_unchanged(member: Measure) -> None:
    toy = subject(nn.Sequential(nn.Dropout(), convolutional()), IMAGES)
    module = toy.network.module
    before = {name: layer.clone() for name, layer in module.state_dict().items()}
    measure_one(member, toy)
    assert all(torch.equal(layer, before[name]) for name, layer in module.state_dict().items())
    assert not any(layer.training for layer in module.modules())
    assert all(layer.grad is None and layer.requires_grad for layer in module.parameters())
