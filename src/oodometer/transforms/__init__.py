"""Transforms: changes of inputs that should keep their class.

To add a transform: write one file with a frozen dataclass in this package, and add an instance to `MEMBERS` in
`registry.py`. `oodometer.testing.check_transform` and `docs/methods.md` say what it needs. Another package adds its
own by an entry point of the group `oodometer.transforms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.transforms.registry import (
        EDA,
        MEMBERS,
        SSMBA,
        USUAL,
        BackTranslation,
        Brightness,
        Color,
        Contrast,
        Erase,
        FlipCrop,
        Gaussian,
        MarginalSwap,
        RandAugment,
        RandomReplacement,
        Rotate,
        Shear,
        Sphere,
        Translate,
        every,
        fitting,
        named,
    )

__all__ = [
    "EDA",
    "MEMBERS",
    "SSMBA",
    "USUAL",
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
    "every",
    "fitting",
    "named",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BackTranslation": "registry",
        "Brightness": "registry",
        "Color": "registry",
        "Contrast": "registry",
        "EDA": "registry",
        "Erase": "registry",
        "FlipCrop": "registry",
        "Gaussian": "registry",
        "MEMBERS": "registry",
        "MarginalSwap": "registry",
        "RandAugment": "registry",
        "RandomReplacement": "registry",
        "Rotate": "registry",
        "SSMBA": "registry",
        "Shear": "registry",
        "Sphere": "registry",
        "Translate": "registry",
        "USUAL": "registry",
        "every": "registry",
        "fitting": "registry",
        "named": "registry",
    },
)
