"""Networks of the package timm: the architecture `timm:NAME`, with random or pretrained weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar
from weakref import WeakValueDictionary

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.models.timm import (
    RANDOM_WEIGHTS,
    TIMM_PREFIX,
    TimmSpec,
    build_network,
    check_model_name,
    find_weights,
    select_classes,
)
from oodometer.studies._toml import Field, PositiveInt, prefix_errors
from oodometer.studies.training.architectures._settings import (
    DropoutRate,
    check_settings,
    check_shape,
)
from oodometer.studies.training.architectures.base import InputShape

# Frozen bodies of the models in memory, keyed by name, fingerprint of the weights and image size.
_SHARED_BODIES: WeakValueDictionary[tuple[str, str | None, int | None], Any] = WeakValueDictionary()


@dataclass(frozen=True)
class TimmNetwork:
    """Network of timm; `timm_architecture` returns the class for each name in timm.

    weights      path of a .safetensors file, or of a folder with NAME.safetensors; "download" for
                 the weights that timm downloads, "none" for random weights
    dropout      dropout rate before the head
    new_head     whether the head of pretrained weights is replaced by random weights, even if it
                 has the classes of the domain group
    image_size   side to which images are resized in the network. By default images keep their
                 size, except if the architecture has a fixed size and the weights are pretrained:
                 images are then resized to the size that the weights were trained with

    Images are normalized by the mean and standard deviation of the architecture's configuration in
    timm. With pretrained weights, grayscale images are copied to three channels. If the weights
    have another number of classes than the domain group, the head is new and its weights are
    random; otherwise it is the head of the weights, unless `new_head` is true. Relative paths are
    relative to the folder $OODOMETER_WEIGHTS if this variable is set, else to the current directory.
    """

    weights: Annotated[str, Field(min_length=1)] = RANDOM_WEIGHTS
    dropout: DropoutRate = 0.0
    image_size: PositiveInt | None = None
    new_head: bool = False

    name: ClassVar[str] = TIMM_PREFIX
    label: ClassVar[str] = "timm"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)
    optional_settings: ClassVar[tuple[str, ...]] = ("new_head",)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.new_head and self.weights == RANDOM_WEIGHTS:
            raise InputError(
                f"new_head of the architecture {self.name!r} needs pretrained weights; without them, "
                "all weights are random. Set weights, or remove new_head."
            )

    @property
    def pretrained_path(self) -> str:
        """Place of the pretrained weights in messages."""
        return self.weights

    def check_name(self) -> None:
        """Raise if timm does not have this network."""
        with prefix_errors("architecture"):
            check_model_name(self.name.removeprefix(TIMM_PREFIX))

    def check_weights(self) -> None:
        """Raise if the file of weights does not exist."""
        with prefix_errors("settings.weights"):
            find_weights(self._spec())

    def build(self, shape: InputShape, *, load: bool = True) -> Any:
        """Return a new module; random weights are initialized from torch's random state.

        If `load` is false, the pretrained weights are not read, because the caller sets all
        weights.
        """
        check_shape(self, shape)
        return build_network(self._spec(shape), load=load)

    def build_pretrained(self, shape: InputShape, classes: Sequence[str]) -> Any:
        """Return the pretrained network with the head of its weights, reduced to the classes."""
        check_shape(self, shape)
        if self.weights == RANDOM_WEIGHTS:
            raise InputError(
                f"{self.name} is only evaluated (part = 'none'), and its weights are random. Set "
                "weights_dir or settings.weights."
            )
        module = build_network(replace(self._spec(shape), classes=None))
        select_classes(module, classes, self.name)
        return module

    def fingerprint(self) -> str | None:
        """Return a hash of the pretrained weights; None if the weights are random."""
        path = find_weights(self._spec())
        if path is not None:
            return _hash_file(str(path.absolute()), path.stat().st_mtime_ns)
        return None if self.weights == RANDOM_WEIGHTS else f"{self.name}, {self.weights}"

    def share_body(self, module: Any) -> None:
        """Replace the body of a module by the one that models with the same weights share."""
        key = (self.name, self.fingerprint(), self.image_size)
        module.body = _SHARED_BODIES.setdefault(key, module.body)

    def _spec(self, shape: InputShape | None = None) -> TimmSpec:
        return TimmSpec(
            model=self.name.removeprefix(TIMM_PREFIX),
            weights=self.weights,
            classes=None if shape is None else shape.classes,
            size=None if shape is None else shape.size,
            image_size=self.image_size,
            dropout=self.dropout,
            new_head=self.new_head,
        )


@cache
def timm_architecture(name: str) -> type[TimmNetwork]:
    """Return the architecture with a name such as "timm:resnet50d".

    Whether timm has this network is checked when it is built, so that pools can be listed without
    timm.

    >>> timm_architecture("timm:resnet50d")(dropout=0.1).name
    'timm:resnet50d'
    """
    model = name.removeprefix(TIMM_PREFIX)
    if not model:
        raise InputError(
            f"The architecture {name!r} names no network of timm. Write, for example, "
            f"{TIMM_PREFIX}resnet50d."
        )
    return type("TimmNetwork", (TimmNetwork,), {"name": name, "label": model})


@lru_cache(maxsize=16)
def _hash_file(path: str, _: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
