"""Registry of the built-in architectures and of the entry points `oodometer.architectures`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from oodometer.core.errors import UnknownName
from oodometer.core.optional_imports import torch_package
from oodometer.core.registry import load_entry_points
from oodometer.models.timm import TIMM_PREFIX
from oodometer.studies._toml import build
from oodometer.studies.training.architectures.base import Architecture
from oodometer.studies.training.architectures.dg_cnn import DGCNN
from oodometer.studies.training.architectures.head import PretrainedHead
from oodometer.studies.training.architectures.hf_encoder import HuggingFaceEncoder
from oodometer.studies.training.architectures.mlp import MLP
from oodometer.studies.training.architectures.nin import NiN
from oodometer.studies.training.architectures.resnet import ResNet
from oodometer.studies.training.architectures.small_cnn import SmallCNN
from oodometer.studies.training.architectures.text_cnn import TextCNN
from oodometer.studies.training.architectures.timm import timm_architecture
from oodometer.studies.training.architectures.vgg import VGG

MEMBERS: dict[str, type[Architecture]] = {
    member.name: member
    for member in (
        MLP,
        TextCNN,
        NiN,
        VGG,
        ResNet,
        SmallCNN,
        DGCNN,
        HuggingFaceEncoder,
        PretrainedHead,
    )
}


def available() -> dict[str, type[Architecture]]:
    """Return all architectures: the built-in ones and those of other installed packages.

    The networks of timm, ``timm:NAME``, are not listed; `find` also finds them.

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


def find(name: str) -> type[Architecture]:
    """Return the class of the architecture with the given name.

    Parameters
    ----------
    name : str
        Name of the architecture; ``"timm:NAME"`` is the network NAME of the package timm.

    Returns
    -------
    type
        Class of the architecture. Whether timm has a network NAME is checked when it is built.

    Raises
    ------
    UnknownName
        If there is no architecture with this name.

    Examples
    --------
    >>> find("mlp").__name__, find("timm:resnet50d").kinds
    ('MLP', ('images',))
    """
    if name.startswith(TIMM_PREFIX):
        return timm_architecture(name)
    # Entry points are searched only if the name is not built-in, because the search is slow.
    members = MEMBERS if name in MEMBERS else available()
    if name not in members:
        raise UnknownName("architecture", name, [*members, f"{TIMM_PREFIX}NAME"])
    return members[name]


def get(name: str, settings: Mapping[str, Any]) -> Architecture:
    """Return the architecture with the given name and settings.

    Parameters
    ----------
    name : str
        Name of the architecture; ``"timm:NAME"`` is the network NAME of the package timm.
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
    MLP(width=32, depth=1, dropout=0.0, widths=None)
    """
    architecture: Architecture = build(find(name), settings, f"the architecture {name!r}")
    return architecture


def pin_settings(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings with hashes of the files that they name, so that an id depends on the files.

    Parameters
    ----------
    name : str
        Name of the architecture.
    settings : mapping
        Values of settings, keyed by name.

    Returns
    -------
    mapping of str to object
        The settings, with a hash of each file that has none yet.

    Raises
    ------
    InputError
        If a file is missing.

    Examples
    --------
    >>> pin_settings("text-cnn", {"width": 32})
    {'width': 32}
    """
    pin = getattr(MEMBERS.get(name), "pin_files", None)
    return settings if pin is None else dict(pin(settings))


def stored_settings(architecture: Any) -> dict[str, Any]:
    """Return the settings of an architecture that are part of a model's id.

    Settings in the class attribute `optional_settings` are left out if they have their default
    values, because they were added when models already existed.

    Parameters
    ----------
    architecture : Architecture
        An architecture.

    Returns
    -------
    dict of str to object
        Values of the settings, keyed by name.

    Examples
    --------
    >>> stored_settings(get("mlp", {"width": 32}))
    {'width': 32, 'depth': 1, 'dropout': 0.0}
    """
    optional = getattr(architecture, "optional_settings", ())
    defaults = {field.name: field.default for field in fields(architecture)}
    return {
        name: value
        for name, value in asdict(architecture).items()
        if name not in optional or value != defaults[name]
    }


def head_parameters(module: Any) -> set[str]:
    """Return the names of the weights of the head.

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
    """Return the name of the head of a network.

    The head is the submodule that the network names in its attribute `head_name`, for example an
    MLP with several layers. Without this attribute, it is the last linear layer.

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
    return str(getattr(module, "head_name", None) or last_linear_name(module))


def last_linear_name(module: Any) -> str:
    """Return the name of the last linear layer of a network, whose inputs are the features.

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
    >>> last_linear_name(get("mlp", {}).build(InputShape("vectors", classes=2, size=(3,))))
    '4'
    """
    linear = torch_package().nn.Linear
    names = [str(name) for name, part in module.named_modules() if isinstance(part, linear)]
    return names[-1]
