"""Registry of the built-in architectures and of the entry points `oodometer.architectures`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oodometer.core.errors import UnknownName
from oodometer.core.optional_imports import torch_package
from oodometer.core.registry import load_entry_points
from oodometer.studies._toml import build
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
    member.name: member
    for member in (MLP, TextCNN, NiN, VGG, ResNet, SmallCNN, DGCNN, HuggingFaceEncoder)
}


def available() -> dict[str, type[Architecture]]:
    """Return all architectures: the built-in ones and those of other installed packages.

    Returns
    -------
    dict of str to type
        Classes of the architectures, keyed by name.

    Examples
    --------
    >>> "mlp" in available()
    True
    """
    needs = "architecture: it must have name, kinds, label and build"
    others = load_entry_points("oodometer.architectures", Architecture, requirements=needs)  # type: ignore[type-abstract]
    return {**MEMBERS, **{member.name: type(member) for member in others}}


def get(name: str, settings: Mapping[str, Any]) -> Architecture:
    """Return the architecture with the given name and settings.

    Parameters
    ----------
    name : str
        Name of the architecture.
    settings : mapping
        Values of settings, keyed by name; missing settings have their default values.

    Returns
    -------
    Architecture
        The architecture with validated settings.

    Raises
    ------
    UnknownName
        If there is no architecture with this name, or no setting with one of the names.
    InputError
        If a setting has a wrong type or is out of its range, or if a setting without a default is
        missing.

    Examples
    --------
    >>> get("mlp", {"width": 32})
    MLP(width=32, depth=1, dropout=0.0)
    """
    # Entry points are searched only if the name is not built-in, because the search is slow.
    members = MEMBERS if name in MEMBERS else available()
    if name not in members:
        raise UnknownName("architecture", name, members)
    architecture: Architecture = build(members[name], settings, f"the architecture {name!r}")
    return architecture


def head_parameters(module: Any) -> set[str]:
    """Return the names of the weights of the head, which is the last linear layer.

    Parameters
    ----------
    module : torch.nn.Module
        A network.

    Returns
    -------
    set of str
        Names as in ``module.named_parameters()``.

    Examples
    --------
    >>> from oodometer.studies.training.architectures.base import InputShape
    >>> module = get("mlp", {}).build(InputShape("vectors", classes=2, size=(3,)))
    >>> sorted(head_parameters(module))
    ['4.bias', '4.weight']
    """
    head = head_name(module)
    return {f"{head}.{name}" for name, _ in module.get_submodule(head).named_parameters()}


def head_name(module: Any) -> str:
    """Return the name of the head, which is the last linear layer of a network.

    Parameters
    ----------
    module : torch.nn.Module
        A network.

    Returns
    -------
    str
        Name as in ``module.named_modules()``.

    Examples
    --------
    >>> from oodometer.studies.training.architectures.base import InputShape
    >>> head_name(get("mlp", {}).build(InputShape("vectors", classes=2, size=(3,))))
    '4'
    """
    linear = torch_package().nn.Linear
    names = [str(name) for name, part in module.named_modules() if isinstance(part, linear)]
    return names[-1]
