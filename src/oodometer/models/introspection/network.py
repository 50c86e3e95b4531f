"""A torch network as measures and metrics look into it: its layers, features and probabilities.

A model that can be looked into has a method `opened() -> Network`. The module is the model's own
copy, in evaluation mode; nothing here changes its weights, its mode or its running statistics.
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
    """What a module is called with; every tensor has a row an input.

    `is_pixels` says that it is one tensor of images, every value from 0 to 1.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_pixels: bool = False

    def rows(self, index: Any) -> ForwardArguments:
        """Those of some rows."""
        some = {name: part[index] for name, part in self.kwargs.items()}
        return self._replace(args=tuple(part[index] for part in self.args), kwargs=some)

    @property
    def single_tensor(self) -> Any:
        """The one tensor of floats that a module takes, which derivatives are taken by."""
        if len(self.args) != 1 or self.kwargs or not self.args[0].is_floating_point():
            raise NotApplicable(
                "the model takes words or several tensors, and a derivative is taken by one tensor "
                "of numbers"
            )
        return self.args[0]


@dataclass(frozen=True, eq=False)
class Network:
    """A torch module, and how it is shown a batch.

    to_arguments     of a batch: what the module is called with, before any scaling (images: 0…1)
    normalize        of these: as the module takes them; can be differentiated
    extract_scores   of what the module gives: the tensor (n, k)
    score_type       whether scores are logits or probabilities
    to_predictions   of scores as an array: predictions with the model's names of the classes
    rows_per_batch   how many rows are shown at once
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
        """Its parameters by name, without their history; never to be changed in place."""
        named = self.module.named_parameters()
        return {name: part.detach() for name, part in named if part.is_floating_point()}

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The names of its layers, as `layer` takes them."""
        return tuple(name for name, _ in self.module.named_modules() if name)

    def forward(self, arguments: ForwardArguments, weights: Mapping[str, Any] | None = None) -> Any:
        """Scores (n, k) as the module gives them; with other weights than its own if given."""
        torch = torch_package()
        shown = self.normalize(arguments)
        # A module may change in place what it is given, so it is given copies.
        placed = tuple(part.clone() for part in shown.args)
        named = {name: part.clone() for name, part in shown.kwargs.items()}
        if weights is None:
            return self.extract_scores(self.module(*placed, **named))
        if self.is_scripted:
            raise NotApplicable(f"{self.name!r} is scripted, and can't be run with other weights")
        return self.extract_scores(
            torch.func.functional_call(self.module, dict(weights), placed, named)
        )

    def logits(self, arguments: ForwardArguments, weights: Mapping[str, Any] | None = None) -> Any:
        """Logits (n, k), which can be differentiated; with other weights than its own if given."""
        scores = self.forward(arguments, weights)
        return scores if self.score_type == "logits" else scores.clamp(min=MIN_PROBABILITY).log()

    def probs(self, arguments: ForwardArguments, weights: Mapping[str, Any] | None = None) -> Any:
        """Probabilities (n, k), which can be differentiated."""
        return self.logits(arguments, weights).softmax(dim=-1)

    def class_columns(self, n_classes: int) -> Ints:
        """Which of the module's columns each class is: users may have put classes in another order."""
        # One row a column, sure of it. Logits that sum to 1 would be taken for probabilities.
        sure = np.eye(n_classes) if self.score_type == "probs" else 2 * np.eye(n_classes)
        return np.argsort(self.to_predictions(sure).classes)

    def batches(self, inputs: Inputs) -> Iterator[Inputs]:
        """As many rows at once as the model is shown."""
        step = max(self.rows_per_batch(inputs), 1)
        for start in range(0, len(inputs), step):
            yield take(inputs, slice(start, start + step))

    def forward_with_features(self, inputs: Inputs, layer: str) -> tuple[Predictions, Floats]:
        """Predictions of a batch and its features, of one pass."""
        torch = torch_package()
        scores, features = [], []
        with torch.inference_mode(), self.capture_layer(layer) as seen:
            for some in self.batches(inputs):
                with not_applicable_on_error("features"):
                    scores.append(self.forward(self.to_arguments(some)).float().cpu().numpy())
                if len(scores[-1]) != len(some):
                    raise NotApplicable(f"it gives {len(scores[-1])} rows for {len(some)} inputs")
                features.append(_feature_rows(seen, some, layer))
                seen.clear()
        check_feature_widths(features, layer)
        return self.to_predictions(np.concatenate(scores)), np.concatenate(features)

    @contextmanager
    def capture_layer(self, layer: str) -> Iterator[list[Any]]:
        """A list that holds what came out of a layer, or what went into the last linear one."""
        seen: list[Any] = []

        def out(_: Any, __: Any, output: Any) -> None:
            seen[:] = [output]

        def into(_: Any, given: Any) -> None:
            seen[:] = [given]

        if layer == LAST_LINEAR_INPUT:
            # Which is the last is known from the pass alone: each replaces what the one before saw.
            hooks = [part.register_forward_pre_hook(into) for part in self.linear_layers]
        else:
            named = dict(self.module.named_modules())
            hooks = [named[self.validate_layer(layer)].register_forward_hook(out)]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    def validate_layer(self, layer: str) -> str:
        """The name of a layer that there is."""
        if not isinstance(layer, str):
            raise InputError(f"layer is a layer's name, such as '0' or 'head'; got {layer!r}.")
        if layer not in self.layers:
            raise UnknownName(f"layer of {self.name!r}", layer, self.layers)
        if self.is_scripted:
            raise InputError(
                f"{self.name!r} is {SCRIPTED_REASON}. Leave out the layer, or give features."
            )
        return layer

    @property
    def is_scripted(self) -> bool:
        """Whether it runs outside of Python."""
        return isinstance(self.module, torch_package().jit.ScriptModule)

    @cached_property
    def linear_layers(self) -> tuple[Any, ...]:
        """Its linear layers; what goes into the last of them is what a linear head is put on."""
        if self.is_scripted:
            raise NotApplicable(f"{self.name!r} is {SCRIPTED_REASON}; give features")
        kind = torch_package().nn.Linear
        found = tuple(part for part in self.module.modules() if isinstance(part, kind))
        if not found:
            raise NotApplicable(
                f"{self.name!r} has no linear layer whose input would be its features; name a "
                f"layer (layer=…) or give features. There are: {', '.join(self.layers) or 'none'}"
            )
        return found


SCRIPTED_REASON = "scripted, and its layers can't be watched"
# The features where the user names no layer: what goes into the last linear one.
LAST_LINEAR_INPUT = "input of the last linear layer"


@runtime_checkable
class HasNetwork(Protocol):
    """A model that can be looked into."""

    def torch_network(self) -> Network:
        """Its network."""


@contextmanager
def not_applicable_on_error(quantity: str) -> Iterator[None]:
    """Whatever a module fails with becomes NotApplicable, on one line."""
    try:
        yield
    except OodometerError:
        raise
    except Exception as error:
        reason = format_error(error, first_line=True)
        raise NotApplicable(f"the network's {quantity} can't be computed: {reason}") from error


def _feature_rows(captured: Any, inputs: Inputs, layer: str) -> Floats:
    """What a layer gave, a row an input."""
    n = len(inputs)
    if not captured:
        raise _layer_error(layer, "was not reached in the pass, or can't be watched")
    while isinstance(captured, tuple | list) and captured:
        captured = captured[0]
    if not isinstance(captured, torch_package().Tensor) or captured.shape[:1] != (n,):
        shape = tuple(getattr(captured, "shape", ())) or type(captured).__name__
        raise _layer_error(layer, f"is {shape} for {n} inputs, and not one row an input")
    if isinstance(inputs, list) and captured.ndim > 2:
        raise _layer_error(
            layer, "has a row a word, and how many words there are hangs on the batch"
        )
    rows: Floats = captured.reshape(n, -1).float().cpu().numpy()
    return rows


def check_feature_widths(features: list[Floats], layer: str) -> None:
    """Refuse features of which some rows are wider than others."""
    widths = sorted({part.shape[1] for part in features})
    if len(widths) > 1:
        raise _layer_error(layer, f"is {widths[0]} wide for some inputs and {widths[1]} for others")


def _layer_error(layer: str, problem: str) -> OodometerError:
    """A layer that the user named is refused outright; without the usual one others may answer."""
    if layer == LAST_LINEAR_INPUT:
        return NotApplicable(
            f"the {LAST_LINEAR_INPUT} {problem}; name a layer (layer=…) or give features"
        )
    return InputError(
        f"The layer {layer!r} {problem}. Features have one row an input, all as wide: name another "
        "layer, or give features."
    )
