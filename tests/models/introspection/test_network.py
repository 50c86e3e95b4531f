"""Layers, features and probabilities of a torch network, which stays unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.models import TorchModel
from oodometer.models.introspection.network import LAST_LINEAR_INPUT, ForwardArguments, Network

IMAGES = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)


class Backwards(nn.Module):
    """Network whose head is defined first and used last."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)
        self.middle = nn.Linear(5, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.norm(torch.relu(self.middle(x)))))  # type: ignore[no-any-return]


def opened(module: nn.Module, **settings: Any) -> Network:
    return TorchModel(module, name="net", **settings).torch_network()


def test_default_features_are_the_input_of_the_last_linear_layer() -> None:
    torch.manual_seed(0)
    module = Backwards().eval()
    rows = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    predictions, features = opened(module).forward_with_features(rows, LAST_LINEAR_INPUT)
    with torch.no_grad():
        x = torch.from_numpy(rows)
        expected = module.norm(torch.relu(module.middle(x)))
        logits = module.head(expected)
    assert np.allclose(features, expected.numpy(), atol=1e-6)
    assert np.allclose(predictions.log_probs, logits.log_softmax(1).numpy(), atol=1e-6)


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_features_of_a_named_layer_are_its_flattened_output(
    batch: int | None,
) -> None:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    _, features = opened(module, batch_size=batch).forward_with_features(IMAGES, "1")
    with torch.no_grad():
        pixels = torch.from_numpy(IMAGES).permute(0, 3, 1, 2) / 255
        expected = torch.relu(module[0](pixels)).flatten(1).numpy()
    assert features.shape == (9, 144)
    assert np.allclose(features, expected, atol=1e-6)


def test_layer_that_runs_twice_gives_features_of_the_last_run() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tanh, self.head = nn.Tanh(), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.tanh(self.tanh(x)))  # type: ignore[no-any-return]

    rows = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    _, features = opened(Twice(), batch_size=3).forward_with_features(rows, "tanh")
    assert np.allclose(features, np.tanh(np.tanh(rows)), atol=1e-6)


def test_network_and_model_give_the_same_probabilities() -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
    model = TorchModel(module, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    network = model.torch_network()
    arguments = network.to_arguments(IMAGES)
    assert arguments.is_pixels
    assert float(arguments.single_tensor.min()) >= 0
    assert float(arguments.single_tensor.max()) <= 1
    with torch.no_grad():
        result = network.probs(arguments).numpy()
    assert np.allclose(result, model.classify(IMAGES).probs, atol=1e-6)
    predictions, _ = network.forward_with_features(IMAGES, LAST_LINEAR_INPUT)
    assert np.allclose(predictions.probs, result, atol=1e-6)


def test_prepared_floats_are_not_normalized() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    model = TorchModel(module, mean=(0.5,) * 3, std=(0.1,) * 3)
    rows = np.random.default_rng(0).normal(size=(4, 3, 2, 2)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(rows)).softmax(1).numpy()
    assert np.allclose(model.classify(rows).probs, expected, atol=1e-6)
    assert not model.torch_network().to_arguments(rows).is_pixels


def test_softmax_is_not_applied_to_probabilities() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    network = opened(module, outputs="probs")
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    arguments = network.to_arguments(rows)
    assert torch.allclose(network.probs(arguments), module(arguments.single_tensor), atol=1e-6)
    assert np.allclose(
        network.forward_with_features(rows, LAST_LINEAR_INPUT)[0].probs,
        module(arguments.single_tensor).detach().numpy(),
        atol=1e-6,
    )


def test_forward_with_other_weights_keeps_the_modules_own() -> None:
    module = nn.Linear(3, 2)
    network = opened(module)
    before = {name: part.clone() for name, part in network.weights.items()}
    doubled = {name: 2 * part for name, part in network.weights.items()}
    arguments = network.to_arguments(np.ones((1, 3), dtype=np.float32))
    own, other = network.logits(arguments), network.logits(arguments, doubled)
    assert torch.allclose(other, 2 * own)
    assert torch.equal(network.probs(arguments, doubled), other.softmax(1))
    assert all(torch.equal(network.weights[name], part) for name, part in before.items())
    assert not any(part.requires_grad for part in network.weights.values())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_modules_cannot_run_with_other_weights() -> None:
    network = opened(torch.jit.script(nn.Linear(3, 2)))
    arguments = network.to_arguments(np.ones((1, 3), dtype=np.float32))
    assert network.logits(arguments).shape == (1, 2)
    with pytest.raises(NotApplicable, match="'net' is scripted and cannot run with other weights"):
        network.logits(arguments, network.weights)


class Masked(nn.Module):
    """Module with a positional and a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.head(x if mask is None else x * mask)  # type: ignore[no-any-return]


def test_keyword_arguments_are_passed_by_name() -> None:
    torch.manual_seed(0)
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    plain = opened(Masked())

    def tensors(inputs: Inputs) -> ForwardArguments:
        return ForwardArguments(
            plain.to_arguments(inputs).args, {"mask": torch.full((len(inputs), 3), 2.0)}
        )

    masked = replace(plain, to_arguments=tensors)
    expected = plain.logits(plain.to_arguments(2 * rows))
    assert torch.equal(masked.logits(tensors(rows)), expected)
    assert torch.equal(masked.logits(tensors(rows), masked.weights), expected)
    predictions, features = masked.forward_with_features(rows, LAST_LINEAR_INPUT)
    assert np.array_equal(features, 2 * rows)
    assert np.allclose(predictions.log_probs, expected.log_softmax(1).detach().numpy(), atol=1e-6)


def test_zero_probabilities_have_finite_logits() -> None:
    network = opened(nn.Threshold(0.5, 0.0), outputs="probs")
    logits = network.logits(network.to_arguments(np.array([[0.9, 0.1]], dtype=np.float32)))
    assert torch.isfinite(logits).all()
    assert logits[0, 1] < -20


@pytest.mark.parametrize("outputs", ["logits", "probs"])
def test_class_columns_follow_the_class_order(outputs: Any) -> None:
    network = opened(nn.Linear(4, 12), outputs=outputs)
    assert network.class_columns(12).tolist() == list(range(12))
    order = [2, 0, 1]
    reordered = replace(
        network, to_predictions=lambda rows: Predictions.from_logits(rows[:, order])
    )
    assert reordered.class_columns(3).tolist() == order


def test_features_are_float32() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    for dtype in (torch.bfloat16, torch.float64):
        _, features = opened(Backwards().to(dtype)).forward_with_features(rows, LAST_LINEAR_INPUT)
        assert features.dtype == np.float32


def test_feature_extraction_leaves_no_hooks_and_no_changes() -> None:
    module = Backwards().train()
    network = opened(module)
    state = {name: part.clone() for name, part in network.module.state_dict().items()}
    rows = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    network.forward_with_features(rows, LAST_LINEAR_INPUT)
    network.forward_with_features(rows, "middle")
    for part in network.module.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks
        assert not part.training
    assert all(torch.equal(state[name], part) for name, part in network.module.state_dict().items())
    assert module.training


def test_hooks_are_removed_if_the_network_fails() -> None:
    network = opened(Backwards())
    with pytest.raises(NotApplicable, match="features cannot be computed: mat1 and mat2"):
        network.forward_with_features(np.zeros((2, 4), dtype=np.float32), LAST_LINEAR_INPUT)
    assert not any(part._forward_pre_hooks for part in network.module.modules())


def test_unknown_layer_raises_and_lists_the_layers() -> None:
    with pytest.raises(UnknownName) as caught:
        opened(Backwards()).forward_with_features(np.zeros((2, 5), dtype=np.float32), "heads")
    assert str(caught.value) == (
        "No layer of 'net' is called 'heads'. Did you mean 'head'? "
        "There are: head, middle, norm, drop."
    )


def test_network_without_a_linear_layer_raises_with_advice() -> None:
    with pytest.raises(NotApplicable, match=r"no linear layer.*layer=….*Layers: 0, 1$"):
        _ = opened(nn.Sequential(nn.Conv2d(3, 2, 8), nn.Flatten())).linear_layers


class Ragged(nn.Module):
    """Layer whose width is the largest value of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = Widening()
        self.head = nn.Linear(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.wide(x).mean(1, keepdim=True))  # type: ignore[no-any-return]


class Widening(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1].repeat(1, int(x.max()))


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x, 3


def test_features_of_different_widths_raise() -> None:
    rows = np.array([[2.0], [3.0]], dtype=np.float32)
    with pytest.raises(InputError, match="2 values per row for some inputs and 3 for others"):
        opened(Ragged(), batch_size=1).forward_with_features(rows, "wide")


def test_first_of_several_outputs_is_used_and_must_be_a_tensor() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair, self.single, self.head = Pair(), Summed(), nn.Linear(2, 2)
            self.none = Nothing()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.single(x)
            self.none(x)
            return self.head(self.pair(x)[0])  # type: ignore[no-any-return]

    class Summed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(0)

    class Nothing(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[()]:
            return ()

    rows = np.ones((3, 2), dtype=np.float32)
    assert np.array_equal(opened(Odd()).forward_with_features(rows, "pair")[1], rows)
    with pytest.raises(InputError, match=r"The layer 'single' is \(2,\) for 3 inputs"):
        opened(Odd()).forward_with_features(rows, "single")
    with pytest.raises(InputError, match="The layer 'none' is tuple for 3 inputs"):
        opened(Odd()).forward_with_features(rows, "none")


def test_derivatives_need_a_single_float_tensor() -> None:
    ones = torch.ones(2, 3)
    assert ForwardArguments((ones,), {}).single_tensor is ones
    for wrong in (ForwardArguments((ones, ones), {}), ForwardArguments((), {"x": ones}),
                  ForwardArguments((ones.long(),), {}), ForwardArguments((ones,), {"mask": ones})):  # fmt: skip
        with pytest.raises(NotApplicable, match="single tensor"):
            _ = wrong.single_tensor


def test_rows_of_arguments_keep_is_pixels() -> None:
    both = ForwardArguments((torch.arange(4),), {"mask": torch.arange(4) * 2}, is_pixels=True)
    selected = both.rows(slice(1, 3))
    assert selected.args[0].tolist() == [1, 2]
    assert selected.kwargs["mask"].tolist() == [2, 4]
    assert selected.is_pixels


def test_model_that_returns_classes_has_no_network() -> None:
    class Decides(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(1)

    model = TorchModel(Decides(), name="net", outputs="classes")
    rows: Inputs = np.eye(3, dtype=np.float32)
    assert model.classify(rows).classes.tolist() == [0, 1, 2]
    with pytest.raises(NotApplicable, match="classes only"):
        model.torch_network()


def test_layers_of_scripted_networks_are_not_accessible() -> None:
    with pytest.warns(DeprecationWarning, match=r"torch\.jit\.script"):
        scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 2)))
    network = opened(scripted)
    with pytest.raises(
        NotApplicable, match="'net' is scripted, and its layers are not accessible; pass"
    ):
        _ = network.linear_layers
    with pytest.raises(InputError, match=r"its layers are not accessible\. Omit"):
        network.validate_layer("0")


def test_layer_must_be_a_name_and_must_be_reached() -> None:
    network = opened(nn.Sequential(nn.Linear(3, 2)))
    with pytest.raises(
        InputError, match="layer must be the name of a layer, such as '0' or 'head'; got 0"
    ):
        network.validate_layer(0)  # type: ignore[arg-type]
    unused = nn.Sequential(nn.Linear(3, 2))
    unused[0].spare = nn.Linear(9, 9)
    rows = np.ones((4, 3), dtype=np.float32)
    with pytest.raises(
        InputError, match=r"The layer '0\.spare' was not reached in the forward pass"
    ):
        opened(unused).forward_with_features(rows, "0.spare")


class Tokens(nn.Module):
    """Network whose head takes one row per token."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x[..., None]).mean(1)  # type: ignore[no-any-return]


def test_rows_per_token_are_not_features() -> None:
    def lengths(texts: Any) -> Any:
        return np.array([[len(text)] * 3 for text in texts], dtype=np.float32)

    network = opened(Tokens(), prepare=lengths)
    with pytest.raises(
        NotApplicable, match="has one row per token, and the number of tokens depends on"
    ):
        network.forward_with_features(["a", "bb"], LAST_LINEAR_INPUT)
    assert network.forward_with_features(lengths(["a", "bb"]), LAST_LINEAR_INPUT)[1].shape == (2, 3)


def test_wrong_number_of_output_rows_raises() -> None:
    class Doubled(Masked):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return super().forward(x, mask).repeat(2, 1)

    with pytest.raises(NotApplicable, match="it returns 10 rows for 5 inputs"):
        opened(Doubled()).forward_with_features(
            np.ones((5, 3), dtype=np.float32), LAST_LINEAR_INPUT
        )
