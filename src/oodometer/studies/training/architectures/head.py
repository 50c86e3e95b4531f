"""Head on a pretrained body whose features are cached: a linear layer or an MLP with one layer."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.models.bodies import Body, open_body
from oodometer.studies._toml import Field, PositiveInt
from oodometer.studies.training.architectures._settings import check_settings
from oodometer.studies.training.architectures.base import InputShape

HeadType = Literal["linear", "mlp128", "mlp512"]
# Number of hidden units of each type of head; 0 stands for one linear layer.
HIDDEN_UNITS: dict[HeadType, int] = {"linear": 0, "mlp128": 128, "mlp512": 512}


@dataclass(frozen=True)
class PretrainedHead:
    """Head that is trained on the cached features of a pretrained body.

    body    name or location of the body, such as "efficientnet-lite0" or "minilm" (`open_body`)
    head    "linear" is one linear layer; "mlp128" and "mlp512" have one hidden layer with ReLU
    draws   number of augmented copies of each training row. Their features are cached, and the
            epochs use the copies in turn. Without augmentation it has no effect

    >>> module = PretrainedHead(body="minilm").build(InputShape("vectors", classes=2, size=(3,)))
    >>> [tuple(part.shape) for part in module.parameters()]
    [(2, 3), (2,)]
    """

    body: Annotated[str, Field(min_length=1)]
    head: HeadType = "linear"
    draws: PositiveInt = 4

    name: ClassVar[str] = "head"
    label: ClassVar[str] = "Head"
    # The networks accept features, which are vectors. The body accepts the other kinds.
    kinds: ClassVar[tuple[InputKind, ...]] = ("images", "text", "pairs", "vectors")
    optional_settings: ClassVar[tuple[str, ...]] = ("draws",)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def pretrained_path(self) -> str:
        """Place of the pretrained weights in messages."""
        return self.body

    def open_body(self) -> Body:
        """Return the body."""
        return open_body(self.body)

    def fingerprint(self) -> str:
        """Return a hash of the body's weights and preprocessing."""
        return self.open_body().fingerprint

    def build(self, shape: InputShape) -> Any:
        """Return a new head for features, initialized from torch's random state."""
        if shape.kind != "vectors":
            raise InputError(f"A head accepts features, which are vectors; got {shape.kind}.")
        nn = torch_package().nn
        width, hidden = shape.size[0], HIDDEN_UNITS[self.head]
        head = nn.Linear(width, shape.classes)
        if hidden:
            layers = (nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, shape.classes))
            head = nn.Sequential(*layers)
        module = nn.Sequential(OrderedDict(head=head))
        module.head_name = "head"
        return module
