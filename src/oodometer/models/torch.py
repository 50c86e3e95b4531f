"""A torch network as a model: scored in evaluation mode, on a copy of its own."""

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

# The fast form of a network must give the plain form's logits within this.
LOGIT_TOLERANCE = 1e-4


def best_device() -> str:
    """An accelerator where there is one."""
    torch = torch_package()
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@dataclass(frozen=True, eq=False, repr=False)
class TorchModel(ModelAdapter):
    """A torch.nn.Module, or an exported program, that gives logits (n, k).

    The module is copied at the door, once, and the copy is set to evaluation mode: the module
    itself is never touched, what is learned later is not seen, and it takes its memory twice.
    The first rows are scored by the copy and by a fused form of it; the fused one is used on only
    if both agree.

    Images come as floats 0…1, channels first, less `mean` and divided by `std` where given.
    Vectors come as floats. Anything else needs `prepare`: an array or tensor, a tuple of these (the
    arguments) or a dict (the named arguments). A module may give a tensor, a tuple that begins
    with it, or what has `.logits`.
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
        if any(isinstance(part, torch_package().nn.Conv2d) for part in self.module.modules()):
            self.module.to(memory_format=torch_package().channels_last)

    def __getstate__(self) -> dict[str, Any]:
        # The fast form is not sent to a worker, which makes its own.
        return {field: value for field, value in vars(self).items() if field != "_fast"}

    def default_name(self) -> str:
        """The class of the module."""
        return type(self.module).__name__

    def rows_per_batch(self, inputs: Inputs) -> int:
        """As many as memory holds, unless `batch` says otherwise."""
        return self.batch_size or default_batch_size(inputs)

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """Logits, unless `outputs` says otherwise."""
        torch = torch_package()
        with torch.inference_mode():
            arguments, named, _ = self._normalize(self._to_arguments(inputs))
            if self._fast is None:
                self._set("_fast", self._choose_module(arguments, named))
            values = extract_scores(self._fast(*arguments, **named))
        values = values.float() if values.is_floating_point() else values
        return RawOutputs(values, self.outputs or "logits")

    def torch_network(self) -> Network:
        """Its network, for measures that look into it."""
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

    def _choose_module(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The fused form, if there is one and it says the same of the first two rows."""
        quick = fuse_batchnorm(self.module)
        if quick is None:
            return self.module
        few = ForwardArguments(arguments, named).rows(slice(0, 2))
        try:
            one, other = (
                extract_scores(_call_on_copies(form, few)) for form in (self.module, quick)
            )
            alike = torch_package().allclose(one, other, rtol=LOGIT_TOLERANCE, atol=LOGIT_TOLERANCE)
        except Exception:  # what can't be compared is not used
            alike = False
        return quick if alike else self.module

    def _to_arguments(self, inputs: Inputs) -> ForwardArguments:
        """What the module is called with, images 0…1 and not yet scaled."""
        pixels = self.prepare is None and infer_kind(inputs) == "images"
        return self._pack_arguments((self.prepare or self._to_tensor)(inputs))._replace(
            is_pixels=pixels
        )

    def _to_tensor(self, inputs: Inputs) -> Any:
        kind = infer_kind(inputs)
        if kind not in ("images", "vectors"):
            raise InputError(
                f"The model {self.name!r} is a torch module and takes tensors, not {kind}. "
                "Pass prepare=…, a function from the batch to tensors."
            )
        torch = torch_package()
        values = torch.from_numpy(np.ascontiguousarray(inputs)).to(self.device)
        if kind == "vectors":
            return values.to(self._dtype())
        images = values.unsqueeze(-1) if values.ndim == 3 else values
        # The permuted view lies in memory as channels_last does.
        return images.permute(0, 3, 1, 2).to(self._dtype()).div_(255)

    def _normalize(self, arguments: ForwardArguments) -> ForwardArguments:
        """The same less the mean and divided by the standard deviation of pixels."""
        if self.mean is None or not arguments.is_pixels:
            return arguments
        images = arguments.args[0]
        mean, std = (torch_package().tensor(list(part or ()), device=self.device, dtype=images.dtype)
                     for part in (self.mean, self.std))  # fmt: skip
        return arguments._replace(args=((images - mean[:, None, None]) / std[:, None, None],))

    def _dtype(self) -> Any:
        """The type of its weights."""
        kinds = (part.dtype for part in self.module.parameters() if part.is_floating_point())
        return next(kinds, torch_package().float32)

    def _pack_arguments(self, prepared: Any) -> ForwardArguments:
        if isinstance(prepared, Mapping):
            return ForwardArguments(
                (), {name: self._to_device(part) for name, part in prepared.items()}
            )
        parts = prepared if isinstance(prepared, tuple) else (prepared,)
        return ForwardArguments(tuple(self._to_device(part) for part in parts), {})

    def _to_device(self, part: Array | Any) -> Any:
        # A copy, for a module may change in place what it is given, and it is the user's.
        return torch_package().as_tensor(part).to(self.device, copy=True)


def _call_on_copies(module: Any, arguments: ForwardArguments) -> Any:
    """What a module says of copies, which it may change."""
    placed = (part.clone() for part in arguments.args)
    return module(*placed, **{name: part.clone() for name, part in arguments.kwargs.items()})


def _copy_module(module: Any, name: str) -> Any:
    if isinstance(module, torch_package().export.ExportedProgram):
        return _exported_module(module, name)
    try:
        # Copying a scripted module is a computation, which no gradient should follow.
        with torch_package().no_grad():
            return copy.deepcopy(module).eval()
    except Exception as error:
        raise InputError(
            f"The module {name!r} can't be copied: {exception_summary(error)}. "
            "A module is scored on a copy; give a function that calls it instead."
        ) from error


def _exported_module(program: Any, name: str) -> Any:
    """Its graph as a module; the mode that it was exported in is part of the graph."""
    training = any(_is_training_node(node) for node in program.graph.nodes)
    if training or program.graph_signature.buffers_to_mutate:
        raise InputError(
            f"The program {name!r} was exported in training mode. A network is scored in "
            "evaluation mode: call eval() on the module and export it again."
        )
    return program.module()


def _is_training_node(node: Any) -> bool:
    """Whether a step of the graph draws at random, or norms by the batch."""
    step = str(node.target)
    if "batch_norm" in step:
        return len(node.args) > 5 and node.args[5] is True
    return "dropout" in step and any(part is True for part in node.args)


def extract_scores(output: Any) -> Any:
    """The scores in whatever a module gives."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, Mapping) and "logits" in output:
        return output["logits"]
    found = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(found, torch_package().Tensor):
        raise InputError(
            f"The module gave a {type(found).__name__}. It must give a tensor, a tuple that begins "
            "with one, or an object with logits; wrap it in a function otherwise."
        )
    return found
