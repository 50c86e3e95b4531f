"""Access to the layers, features and probabilities of a torch network.

A model with an accessible network has a method `torch_network() -> Network`. The network's module
is the model's own copy in evaluation mode. No function here changes its weights, its mode or the
running statistics of its batch norms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints, ScoreType
from oodometer.core.errors import (
    InputError,
    NotApplicable,
    OodometerError,
    UnknownName,
    format_error,
)
from oodometer.core.inputs import Inputs, take
from oodometer.core.optional_imports import torch_package
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import MIN_PROBABILITY


class ForwardArguments(NamedTuple):
    """Arguments of a module's `forward` method; every tensor has one row per input.

    `is_pixels` is True if the only argument is a tensor of images with values from 0 to 1.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_pixels: bool = False

    def rows(self, index: Any) -> ForwardArguments:
        """Select rows of all tensors."""
        kwargs = {name: part[index] for name, part in self.kwargs.items()}
        return self._replace(args=tuple(part[index] for part in self.args), kwargs=kwargs)

    @property
    def single_tensor(self) -> Any:
        """Return the network's only argument if it is a tensor of floats, else raise NotApplicable.

        Derivatives with respect to the inputs are derivatives with respect to this tensor.
        """
        if len(self.args) != 1 or self.kwargs or not self.args[0].is_floating_point():
            raise NotApplicable(
                "the model takes tokens or several tensors, and the derivative with respect to the "
                "inputs needs a single tensor of floats"
            )
        return self.args[0]


@dataclass(frozen=True, eq=False)
class Network:
    """A torch module, with functions that prepare its arguments and read its outputs.

    Attributes
    ----------
    name : str
        Name of the model.
    module : torch.nn.Module
        The network, in evaluation mode.
    to_arguments : callable
        Function that converts a batch to the module's arguments before normalization. Images then
        have values from 0 to 1.
    normalize : callable
        Differentiable function that converts these arguments to the ones that the module takes.
    extract_scores : callable
        Function that returns the tensor of scores (n, k) in the module's output.
    score_type : {"logits", "probs"}
        Meaning of the scores.
    to_predictions : callable
        Function that converts an array of scores to Predictions with the model's class names.
    rows_per_batch : callable
        Function that returns the number of rows per forward pass for given inputs.
    """

    name: str
    module: Any
    to_arguments: Callable[[Inputs], ForwardArguments]
    normalize: Callable[[ForwardArguments], ForwardArguments]
    extract_scores: Callable[[Any], Any]
    score_type: ScoreType
    to_predictions: Callable[[Array], Predictions]
    rows_per_batch: Callable[[Inputs], int]

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Return the parameters by name, detached from autograd.

        Do not modify them in place, because they share memory with the module's parameters.
        """
        parameters = self.module.named_parameters()
        return {name: weight.detach() for name, weight in parameters if weight.is_floating_point()}

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """Return the names of all layers."""
        return tuple(name for name, _ in self.module.named_modules() if name)

    def forward(self, arguments: ForwardArguments, weights: Mapping[str, Any] | None = None) -> Any:
        """Return the scores (n, k), computed with `weights` or else with the module's weights."""
        normalized = self.normalize(arguments)
        # The module gets copies of the arguments, because it may modify them in place.
        args = tuple(part.clone() for part in normalized.args)
        kwargs = {name: part.clone() for name, part in normalized.kwargs.items()}
        if weights is None:
            return self.extract_scores(self.module(*args, **kwargs))
        if self.is_scripted:
            raise NotApplicable(f"{self.name!r} is scripted and cannot run with other weights")
        call = torch_package().func.functional_call
        return self.extract_scores(call(self.module, dict(weights), args, kwargs))

    def logits(self, arguments: ForwardArguments, weights: Mapping[str, Any] | None = None) -> Any:
        """Return differentiable logits (n, k); see `forward` for `weights`."""
        scores = self.forward(arguments, weights)
        return scores if self.score_type == "logits" else scores.clamp(min=MIN_PROBABILITY).log()

    def probs(self, arguments: ForwardArguments, weights: Mapping[str, Any] | None = None) -> Any:
        """Return differentiable probabilities (n, k); see `forward` for `weights`."""
        return self.logits(arguments, weights).softmax(dim=-1)

    def class_columns(self, n_classes: int) -> Ints:
        """Return, for each class, its column in the module's scores.

        The two orders differ if the user has reordered the classes.
        """
        # Row j has its largest score in column j. Logits use 2 instead of 1, because rows that sum
        # to 1 would be mistaken for probabilities.
        one_hot = np.eye(n_classes) if self.score_type == "probs" else 2 * np.eye(n_classes)
        return np.argsort(self.to_predictions(one_hot).classes)

    def batches(self, inputs: Inputs) -> Iterator[Inputs]:
        """Yield the inputs in batches of the model's batch size."""
        step = max(self.rows_per_batch(inputs), 1)
        for start in range(0, len(inputs), step):
            yield take(inputs, slice(start, start + step))

    def forward_with_features(self, inputs: Inputs, layer: str) -> tuple[Predictions, Floats]:
        """Return predictions and the features at a layer, computed in one pass."""
        scores: list[Floats] = []
        features: list[Floats] = []
        with torch_package().inference_mode(), self.capture_layer(layer) as captured:
            for batch in self.batches(inputs):
                with not_applicable_on_error("features"):
                    scores.append(self.forward(self.to_arguments(batch)).float().cpu().numpy())
                if len(scores[-1]) != len(batch):
                    raise NotApplicable(
                        f"it returns {len(scores[-1])} rows for {len(batch)} inputs"
                    )
                features.append(_feature_rows(captured, batch, layer))
                captured.clear()
        check_feature_widths(features, layer)
        return self.to_predictions(np.concatenate(scores)), np.concatenate(features)

    @contextmanager
    def capture_layer(self, layer: str) -> Iterator[list[Any]]:
        """Yield a list that receives the layer's output in every forward pass.

        For the default layer, the list receives the input of the last linear layer.
        """
        captured: list[Any] = []

        def capture_output(_: Any, __: Any, output: Any) -> None:
            captured[:] = [output]

        def capture_input(_: Any, args: Any) -> None:
            captured[:] = [args]

        if layer == LAST_LINEAR_INPUT:
            # Only the forward pass shows which linear layer is called last, so every linear layer
            # overwrites the input captured before.
            hooks = [part.register_forward_pre_hook(capture_input) for part in self.linear_layers]
        else:
            modules = dict(self.module.named_modules())
            hooks = [modules[self.validate_layer(layer)].register_forward_hook(capture_output)]
        try:
            yield captured
        finally:
            for hook in hooks:
                hook.remove()

    def validate_layer(self, layer: str) -> str:
        """Return the name `layer`; raise if there is no such layer or it cannot be accessed."""
        if not isinstance(layer, str):
            raise InputError(
                f"layer must be the name of a layer, such as '0' or 'head'; got {layer!r}."
            )
        if layer not in self.layers:
            raise UnknownName(f"layer of {self.name!r}", layer, self.layers)
        if self.is_scripted:
            raise InputError(
                f"{self.name!r} is {SCRIPTED_REASON}. Omit the layer, or pass features."
            )
        return layer

    @property
    def is_scripted(self) -> bool:
        """Return whether the module is TorchScript, whose layers Python cannot access."""
        return isinstance(self.module, torch_package().jit.ScriptModule)

    @cached_property
    def linear_layers(self) -> tuple[Any, ...]:
        """Return all linear layers. The default features are the input of the last one called."""
        if self.is_scripted:
            raise NotApplicable(f"{self.name!r} is {SCRIPTED_REASON}; pass features")
        linear = torch_package().nn.Linear
        layers = tuple(layer for layer in self.module.modules() if isinstance(layer, linear))
        if not layers:
            raise NotApplicable(
                f"{self.name!r} has no linear layer whose input would be its features; name a "
                f"layer (layer=…) or pass features. Layers: {', '.join(self.layers) or 'none'}"
            )
        return layers


SCRIPTED_REASON = "scripted, and its layers are not accessible"
# Value of `layer` that stands for the default features.
LAST_LINEAR_INPUT = "input of the last linear layer"


@runtime_checkable
class HasNetwork(Protocol):
    """A model with an accessible torch network."""

    def torch_network(self) -> Network:
        """Return the network; raise NotApplicable if it is not accessible."""


@contextmanager
def not_applicable_on_error(quantity: str) -> Iterator[None]:
    """Convert any exception of a module to NotApplicable with a one-line reason.

    `quantity` names in the message what could not be computed.
    """
    try:
        yield
    except OodometerError:
        raise
    except Exception as error:
        reason = format_error(error, first_line=True)
        raise NotApplicable(f"the network's {quantity} cannot be computed: {reason}") from error


def _feature_rows(captured: Any, inputs: Inputs, layer: str) -> Floats:
    """Return a captured tensor as an array with one row per input."""
    n = len(inputs)
    if not captured:
        raise _layer_error(layer, "was not reached in the forward pass, or is not accessible")
    while isinstance(captured, tuple | list) and captured:
        captured = captured[0]
    if not isinstance(captured, torch_package().Tensor) or captured.shape[:1] != (n,):
        shape = tuple(getattr(captured, "shape", ())) or type(captured).__name__
        raise _layer_error(layer, f"is {shape} for {n} inputs, not one row per input")
    if isinstance(inputs, list) and captured.ndim > 2:
        raise _layer_error(
            layer, "has one row per token, and the number of tokens depends on the batch"
        )
    rows: Floats = captured.reshape(n, -1).float().cpu().numpy()
    return rows


def check_feature_widths(features: list[Floats], layer: str) -> None:
    """Raise if the numbers of features per row differ between batches."""
    widths = sorted({part.shape[1] for part in features})
    if len(widths) > 1:
        raise _layer_error(
            layer, f"has {widths[0]} values per row for some inputs and {widths[1]} for others"
        )


def _layer_error(layer: str, problem: str) -> OodometerError:
    """Return InputError for a layer that the user named, NotApplicable for the default layer."""
    if layer == LAST_LINEAR_INPUT:
        return NotApplicable(
            f"the {LAST_LINEAR_INPUT} {problem}; name a layer (layer=…) or pass features"
        )
    return InputError(
        f"The layer {layer!r} {problem}. Features need one row per input, all of the same width: "
        "name another layer, or pass features."
    )
