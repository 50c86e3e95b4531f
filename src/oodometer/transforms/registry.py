"""Registry of transforms: the list of members, `available()` and `get()`."""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Transform
from oodometer.core.registry import load_entry_points
from oodometer.transforms.images import (
    Brightness,
    Color,
    Contrast,
    Erase,
    FlipCrop,
    Rotate,
    Shear,
    Translate,
)
from oodometer.transforms.randaugment import RandAugment
from oodometer.transforms.sphere import Sphere
from oodometer.transforms.tabular import Gaussian, MarginalSwap
from oodometer.transforms.text.backtranslation import BackTranslation
from oodometer.transforms.text.eda import EDA
from oodometer.transforms.text.random_replacement import RandomReplacement
from oodometer.transforms.text.ssmba import SSMBA

__all__ = [
    "DEFAULT_TRANSFORMS",
    "EDA",
    "MEMBERS",
    "SSMBA",
    "BackTranslation",
    "Brightness",
    "Color",
    "Contrast",
    "Erase",
    "FlipCrop",
    "Gaussian",
    "MarginalSwap",
    "RandAugment",
    "RandomReplacement",
    "Rotate",
    "Shear",
    "Sphere",
    "Translate",
    "available",
    "available_for_kind",
    "get",
]

MEMBERS: tuple[Transform, ...] = (
    RandAugment(),
    Translate(),
    Erase(),
    FlipCrop(),
    Rotate(),
    Shear(),
    Brightness(),
    Contrast(),
    Color(),
    SSMBA(),
    EDA(),
    BackTranslation(),
    RandomReplacement(),
    Gaussian(),
    MarginalSwap(),
    Sphere(),
)
# Default transform of each kind of inputs.
DEFAULT_TRANSFORMS: dict[InputKind, str] = {
    "images": "randaugment",
    "text": "ssmba",
    "pairs": "ssmba",
    "vectors": "gaussian",
    "table": "marginal_swap",
}
# Measures are named after their transform, as NI-RandAug is; MS is the earlier name of NI.
_MEASURE_PREFIXES = ("ni_", "ms_", "ne_", "ei_", "pa_")


def available() -> tuple[Transform, ...]:
    """Return all transforms, including those of installed packages.

    Returns
    -------
    tuple of Transform
        Instances with their default settings.

    Examples
    --------
    >>> available()[0].name
    'randaugment'
    """
    needs = "transform: it must derive from oodometer.core.protocols.Transform"
    others = load_entry_points("oodometer.transforms", Transform, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def available_for_kind(kind: InputKind) -> tuple[Transform, ...]:
    """Return the transforms that apply to a kind of inputs.

    Parameters
    ----------
    kind : {"images", "text", "pairs", "vectors", "table"}
        Kind of inputs.

    Returns
    -------
    tuple of Transform
        Instances with their default settings.

    Examples
    --------
    >>> [transform.name for transform in available_for_kind("vectors")]
    ['gaussian', 'marginal_swap', 'sphere']
    """
    return tuple(member for member in available() if kind in member.kinds)


def get(name: str) -> Transform:
    """Return a transform by its name, or by the name of a measure that uses it.

    Parameters
    ----------
    name : str
        Such as ``"translate"`` or ``"NI-Translate"``; case does not matter.

    Returns
    -------
    Transform
        Instance with its default settings.

    Raises
    ------
    UnknownName
        If there is no such transform.

    Examples
    --------
    >>> get("translate") == get("NI-Translate") == get("MS-Translate")
    True
    """
    members = available()
    plain = name.lower().replace("-", "_")
    if plain.startswith(_MEASURE_PREFIXES):
        plain = plain[3:]
    for member in members:
        if plain in (member.name, member.label.lower()):
            return member
    raise UnknownName("transform", name, [member.name for member in members])
