"""Adapter of torch networks; a copy of the network is run in evaluation mode."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.optional_imports import torch_package
from oodometer.models._batchnorm_fusion import fuse_batchnorm
from oodometer.models.base import (
    ModelAdapter,
    RawOutputs,
    check_scaling,
    default_batch_size,
    exception_summary,
)
from oodometer.models.introspection.network import ForwardArguments, Network

# Largest absolute and relative difference between the logits of a fused network (see
# `fuse_batchnorm`) and those of the original network with which the fused one is used.
LOGIT_TOLERANCE = 1e-4


def best_device() -> str:
    """Return "cuda" or "mps" if available, else "cpu"."""
    torch = torch_package()
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@dataclass(frozen=True, eq=False, repr=False)
class TorchModel(ModelAdapter):
    """A torch.nn.Module or an exported program that returns logits (n, k).

    The module is copied once, and the copy is set to evaluation mode. The module itself is never
    changed, and training it later does not affect the copy. The weights are in memory twice. If
    possible, a faster version of the copy is built by folding batch norms into convolutions. It is
    used if its logits on the first two rows agree with those of the copy.

    Images are passed as floats from 0 to 1 with the channel axis first. They are normalized if
    `mean` and `std` are given. Vectors are passed as floats. The module may return a tensor, a
    tuple whose first element is a tensor, or an object with `.logits`.

    Parameters
    ----------
    module : torch.nn.Module or torch.export.ExportedProgram
        The network.
    device : str
        Torch device. Default: an accelerator if there is one, else the CPU.
    mean, std : sequence of float, optional
        Mean and standard deviation of each channel, for pixel values between 0 and 1.
    name, class_names, batch_size
        See `ModelAdapter`.
    outputs : {"probs", "logits", "classes"}, optional
        Type of the module's outputs. Default: logits.
    prepare : callable, optional
        Function that converts a batch to the arguments of the module: an array or a tensor, a tuple
        of arrays or tensors (positional arguments), or a dict of them (keyword arguments). It is
        required for texts, pairs and tables.

    Raises
    ------
    InputError
        If the module cannot be copied, or was exported in training mode.
    MissingExtra
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> model = TorchModel(torch.nn.Identity(), name="identity", device="cpu")
    >>> model.classify(np.array([[0.0, 2.0], [1.0, -1.0]])).classes.tolist()
    [1, 0]
    """

    module: Any
    _: KW_ONLY
    device: str = ""
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    _fast: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scaling(self.mean, self.std)
        self._set("device", self.device or best_device())
        self._set("module", _copy_module(self.module, self.name).to(self.device))
        if any(isinstance(layer, torch_package().nn.Conv2d) for layer in self.module.modules()):
            self.module.to(memory_format=torch_package().channels_last)

    def __getstate__(self) -> dict[str, Any]:
        # The fused module is not sent to workers, because each worker builds it again.
        return {field: value for field, value in vars(self).items() if field != "_fast"}

    def default_name(self) -> str:
        return type(self.module).__name__

    def rows_per_batch(self, inputs: Inputs) -> int:
        return self.batch_size or default_batch_size(inputs)

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        with torch_package().inference_mode():
            arguments = self._normalize(self._to_arguments(inputs))
            if self._fast is None:
                self._set("_fast", self._choose_module(arguments))
            values = extract_scores(self._fast(*arguments.args, **arguments.kwargs))
        values = values.float() if values.is_floating_point() else values
        return RawOutputs(values, self.outputs or "logits")

    def torch_network(self) -> Network:
        """Return the torch network, from which features and gradients are computed."""
        if self.outputs == "classes":
            raise NotApplicable(f"{self.name!r} returns classes only")
        return Network(
            name=self.name,
            module=self.module,
            to_arguments=self._to_arguments,
            normalize=self._normalize,
            extract_scores=extract_scores,
            score_type="probs" if self.outputs == "probs" else "logits",
            to_predictions=lambda values: self.to_predictions(
                RawOutputs(values, self.outputs or "logits")
            ),
            rows_per_batch=self.rows_per_batch,
        )

    def _choose_module(self, arguments: ForwardArguments) -> Any:
        """Return the fused module if it gives equal logits on two rows, else the original one."""
        fused = fuse_batchnorm(self.module)
        if fused is None:
            return self.module
        rows = arguments.rows(slice(0, 2))
        try:
            expected = extract_scores(_call_on_copies(self.module, rows))
            actual = extract_scores(_call_on_copies(fused, rows))
            agree = torch_package().allclose(
                expected, actual, rtol=LOGIT_TOLERANCE, atol=LOGIT_TOLERANCE
            )
        except Exception:  # outputs that cannot be compared
            agree = False
        return fused if agree else self.module

    def _to_arguments(self, inputs: Inputs) -> ForwardArguments:
        """Return the module's arguments for a batch; images have values from 0 to 1."""
        arguments = self._pack_arguments((self.prepare or self._to_tensor)(inputs))
        is_pixels = self.prepare is None and infer_kind(inputs) == "images"
        return arguments._replace(is_pixels=is_pixels)

    def _to_tensor(self, inputs: Inputs) -> Any:
        kind = infer_kind(inputs)
        if kind not in ("images", "vectors"):
            raise InputError(
                f"The model {self.name!r} is a torch module and takes tensors, not {kind}. "
                "Pass prepare=…, a function from a batch to tensors."
            )
        torch = torch_package()
        values = torch.from_numpy(np.ascontiguousarray(inputs)).to(self.device)
        if kind == "vectors":
            return values.to(self._dtype())
        images = values.unsqueeze(-1) if values.ndim == 3 else values
        # The permuted view has the memory layout of channels_last.
        return images.permute(0, 3, 1, 2).to(self._dtype()).div_(255)

    def _normalize(self, arguments: ForwardArguments) -> ForwardArguments:
        """Subtract the mean of each channel from images and divide by its standard deviation."""
        if self.mean is None or not arguments.is_pixels:
            return arguments
        images = arguments.args[0]
        mean, std = (
            torch_package().tensor(list(values or ()), device=self.device, dtype=images.dtype)
            for values in (self.mean, self.std)
        )
        return arguments._replace(args=((images - mean[:, None, None]) / std[:, None, None],))

    def _dtype(self) -> Any:
        """Return the floating-point type of the weights."""
        weights = self.module.parameters()
        types = (weight.dtype for weight in weights if weight.is_floating_point())
        return next(types, torch_package().float32)

    def _pack_arguments(self, prepared: Any) -> ForwardArguments:
        if isinstance(prepared, Mapping):
            return ForwardArguments(
                (), {name: self._to_device(part) for name, part in prepared.items()}
            )
        parts = prepared if isinstance(prepared, tuple) else (prepared,)
        return ForwardArguments(tuple(self._to_device(part) for part in parts), {})

    def _to_device(self, part: Array | Any) -> Any:
        # Make a copy, because a module may modify its arguments, and the data are the user's.
        return torch_package().as_tensor(part).to(self.device, copy=True)


def _call_on_copies(module: Any, arguments: ForwardArguments) -> Any:
    """Call a module with copies of the arguments, because it may modify them in place."""
    args = (part.clone() for part in arguments.args)
    return module(*args, **{name: part.clone() for name, part in arguments.kwargs.items()})


def _copy_module(module: Any, name: str) -> Any:
    if isinstance(module, torch_package().export.ExportedProgram):
        return _exported_module(module, name)
    try:
        # Without no_grad, autograd would record the copying of a TorchScript module's weights.
        with torch_package().no_grad():
            return copy.deepcopy(module).eval()
    except Exception as error:
        raise InputError(
            f"The module {name!r} cannot be copied: {exception_summary(error)}. "
            "Pass a function that calls the module instead."
        ) from error


def _exported_module(program: Any, name: str) -> Any:
    """Return an exported program as a module; raise if it was exported in training mode."""
    training = any(_is_training_node(node) for node in program.graph.nodes)
    if training or program.graph_signature.buffers_to_mutate:
        raise InputError(
            f"The program {name!r} was exported in training mode. Call eval() on the module and "
            "export it again."
        )
    return program.module()


def _is_training_node(node: Any) -> bool:
    """Return whether a node is dropout or batch norm in training mode."""
    operation = str(node.target)
    if "batch_norm" in operation:
        return len(node.args) > 5 and node.args[5] is True
    return "dropout" in operation and any(argument is True for argument in node.args)


def extract_scores(output: Any) -> Any:
    """Return the tensor of scores in a module's output."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, Mapping) and "logits" in output:
        return output["logits"]
    scores = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(scores, torch_package().Tensor):
        raise InputError(
            f"The module returned a {type(scores).__name__}. It must return a tensor, a tuple that "
            "begins with one, or an object with logits. Otherwise pass a function that calls it."
        )
    return scores
