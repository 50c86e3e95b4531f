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
# What is used where the user names none.
DEFAULT_TRANSFORMS: dict[InputKind, str] = {
    "images": "randaugment",
    "text": "ssmba",
    "pairs": "ssmba",
    "vectors": "gaussian",
    "table": "marginal_swap",
}
# Measures are named after their transform: NI-RandAug; MS is what NI was called first.
_MEASURE_PREFIXES = ("ni_", "ms_", "ne_", "ei_", "pa_")


def available() -> tuple[Transform, ...]:
    """All transforms: ours, and those that installed packages add."""
    needs = "transform: it must derive from oodometer.core.protocols.Transform"
    others = load_entry_points("oodometer.transforms", Transform, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def available_for_kind(kind: InputKind) -> tuple[Transform, ...]:
    """All transforms that change inputs of a kind."""
    return tuple(member for member in available() if kind in member.kinds)


def get(name: str) -> Transform:
    """The transform of that name, or of a measure's name.

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
