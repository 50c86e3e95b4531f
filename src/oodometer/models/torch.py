"""A torch network as a model: scored in evaluation mode, on a copy of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.inputs import Inputs, kind_of
from oodometer.core.optional_imports import require
from oodometer.core.softmax_kernels import Array
from oodometer.models._batchnorm_fusion import fused
from oodometer.models._raw_outputs import Answer, one_line
from oodometer.models.base import Adapter, check_scaling, rows_that_fit
from oodometer.models.introspection.network import Arguments, Network

# The fast form of a network must give the plain form's logits within this.
AGREE = 1e-4


def torch_package() -> Any:
    """Torch, or a word on how to get it."""
    return require("torch", extra="torch", purpose="Scoring a torch module")


def best_device() -> str:
    """An accelerator where there is one."""
    torch = torch_package()
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@dataclass(frozen=True, eq=False, repr=False)
class TorchModel(Adapter):
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
        self._set("module", _own_copy(self.module, self.name).to(self.device))
        if any(isinstance(part, torch_package().nn.Conv2d) for part in self.module.modules()):
            self.module.to(memory_format=torch_package().channels_last)

    def __getstate__(self) -> dict[str, Any]:
        # The fast form is not sent to a worker, which makes its own.
        return {field: value for field, value in vars(self).items() if field != "_fast"}

    def given_name(self) -> str:
        """The class of the module."""
        return type(self.module).__name__

    def rows_at_once(self, inputs: Inputs) -> int:
        """As many as memory holds, unless `batch` says otherwise."""
        return self.batch or rows_that_fit(inputs)

    def answer(self, inputs: Inputs) -> Answer:
        """Logits, unless `outputs` says otherwise."""
        torch = torch_package()
        with torch.inference_mode():
            arguments, named, _ = self._scaled(self._shown(inputs))
            if self._fast is None:
                self._set("_fast", self._fastest(arguments, named))
            values = first_tensor(self._fast(*arguments, **named))
        values = values.float() if values.is_floating_point() else values
        return Answer(values, self.outputs or "logits")

    def opened(self) -> Network:
        """Its network, for measures that look into it."""
        if self.outputs == "classes":
            raise NoAnswer(f"{self.name!r} gives classes alone")
        return Network(
            name=self.name,
            module=self.module,
            tensors=self._shown,
            scaled=self._scaled,
            scores=first_tensor,
            form="probs" if self.outputs == "probs" else "logits",
            predictions=lambda values: self.named(Answer(values, self.outputs or "logits")),
            rows=self.rows_at_once,
        )

    def _fastest(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The fused form, if there is one and it says the same of the first two rows."""
        quick = fused(self.module)
        if quick is None:
            return self.module
        few = Arguments(arguments, named).rows(slice(0, 2))
        try:
            one, other = (first_tensor(_called(form, few)) for form in (self.module, quick))
            alike = torch_package().allclose(one, other, rtol=AGREE, atol=AGREE)
        except Exception:  # what can't be compared is not used
            alike = False
        return quick if alike else self.module

    def _shown(self, inputs: Inputs) -> Arguments:
        """What the module is called with, images 0…1 and not yet scaled."""
        pixels = self.prepare is None and kind_of(inputs) == "images"
        return self._arguments((self.prepare or self._tensor)(inputs))._replace(pixels=pixels)

    def _tensor(self, inputs: Inputs) -> Any:
        kind = kind_of(inputs)
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

    def _scaled(self, shown: Arguments) -> Arguments:
        """The same less the mean and divided by the standard deviation of pixels."""
        if self.mean is None or not shown.pixels:
            return shown
        images = shown.placed[0]
        mean, std = (torch_package().tensor(list(part or ()), device=self.device, dtype=images.dtype)
                     for part in (self.mean, self.std))  # fmt: skip
        return shown._replace(placed=((images - mean[:, None, None]) / std[:, None, None],))

    def _dtype(self) -> Any:
        """The type of its weights."""
        kinds = (part.dtype for part in self.module.parameters() if part.is_floating_point())
        return next(kinds, torch_package().float32)

    def _arguments(self, prepared: Any) -> Arguments:
        if isinstance(prepared, Mapping):
            return Arguments((), {name: self._moved(part) for name, part in prepared.items()})
        parts = prepared if isinstance(prepared, tuple) else (prepared,)
        return Arguments(tuple(self._moved(part) for part in parts), {})

    def _moved(self, part: Array | Any) -> Any:
        # A copy, for a module may change in place what it is given, and it is the user's.
        return torch_package().as_tensor(part).to(self.device, copy=True)


def _called(module: Any, arguments: Arguments) -> Any:
    """What a module says of copies, which it may change."""
    placed = (part.clone() for part in arguments.placed)
    return module(*placed, **{name: part.clone() for name, part in arguments.named.items()})


def _own_copy(module: Any, name: str) -> Any:
    if isinstance(module, torch_package().export.ExportedProgram):
        return _exported(module, name)
    try:
        # Copying a scripted module is a computation, which no gradient should follow.
        with torch_package().no_grad():
            return copy.deepcopy(module).eval()
    except Exception as error:
        raise InputError(
            f"The module {name!r} can't be copied: {one_line(error)}. "
            "A module is scored on a copy; give a function that calls it instead."
        ) from error


def _exported(program: Any, name: str) -> Any:
    """Its graph as a module; the mode that it was exported in is part of the graph."""
    training = any(_trains(node) for node in program.graph.nodes)
    if training or program.graph_signature.buffers_to_mutate:
        raise InputError(
            f"The program {name!r} was exported in training mode. A network is scored in "
            "evaluation mode: call eval() on the module and export it again."
        )
    return program.module()


def _trains(node: Any) -> bool:
    """Whether a step of the graph draws at random, or norms by the batch."""
    step = str(node.target)
    if "batch_norm" in step:
        return len(node.args) > 5 and node.args[5] is True
    return "dropout" in step and any(part is True for part in node.args)


def first_tensor(output: Any) -> Any:
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
