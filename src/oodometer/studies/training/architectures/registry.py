"""The architectures of pools: the registry is the table below.

Another package adds its own through an entry point of the group `oodometer.architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.optional_imports import torch_package
from oodometer.core.registry import load_entry_points
from oodometer.studies.training.architectures.base import Architecture
from oodometer.studies.training.architectures.dg_cnn import DGCNN
from oodometer.studies.training.architectures.hf_encoder import HuggingFaceEncoder
from oodometer.studies.training.architectures.mlp import MLP
from oodometer.studies.training.architectures.nin import NiN
from oodometer.studies.training.architectures.resnet import ResNet
from oodometer.studies.training.architectures.small_cnn import SmallCNN
from oodometer.studies.training.architectures.text_cnn import TextCNN
from oodometer.studies.training.architectures.vgg import VGG

MEMBERS: dict[str, type[Architecture]] = {
    one.name: one for one in (MLP, TextCNN, NiN, VGG, ResNet, SmallCNN, DGCNN, HuggingFaceEncoder)
}


def available() -> dict[str, type[Architecture]]:
    """All architectures by name: ours, and those that installed packages add."""
    needs = "architecture: it must have name, kinds, label and build"
    others = load_entry_points("oodometer.architectures", Architecture, requirements=needs)  # type: ignore[type-abstract]
    return {**MEMBERS, **{one.name: type(one) for one in others}}


def get(name: str, settings: Mapping[str, Any]) -> Architecture:
    """The architecture of that name with these settings.

    >>> get("mlp", {"width": 32})
    MLP(width=32, depth=1, dropout=0.0)
    """
    # Only what is not ours is looked for elsewhere: that takes longer.
    members = MEMBERS if name in MEMBERS else available()
    if name not in members:
        raise UnknownName("architecture", name, members)
    known: Any = {one.name: one for one in fields(members[name])}  # type: ignore[arg-type]
    for key in settings:
        if key not in known:
            raise UnknownName(f"setting of the architecture {name!r}", key, known)
    for key, one in known.items():
        if key not in settings and one.default is one.default_factory is MISSING:
            raise InputError(
                f"The architecture {name!r} needs the setting {key!r}, which has no default. Give "
                f"it in the recipe: settings.{key}."
            )
    return members[name](**settings)


def head_parameters(module: Any) -> set[str]:
    """The names of the parameters of the head: the last linear layer.

    >>> from oodometer.studies.training.architectures.base import InputShape
    >>> module = get("mlp", {}).build(InputShape("vectors", classes=2, size=(3,)))
    >>> sorted(head_parameters(module))
    ['4.bias', '4.weight']
    """
    last = head_name(module)
    return {f"{last}.{name}" for name, _ in module.get_submodule(last).named_parameters()}


def head_name(module: Any) -> str:
    """The name of the head: the last linear layer."""
    linear = torch_package().nn.Linear
    names = [str(name) for name, part in module.named_modules() if isinstance(part, linear)]
    return names[-1]
