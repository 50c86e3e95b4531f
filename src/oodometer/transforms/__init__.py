"""Transforms: random changes of inputs that should preserve their class.

To add a transform, write one file with a frozen dataclass in this package and add an instance to
`MEMBERS` in `registry.py`. `oodometer.testing.check_transform` checks it; `docs/methods.md` lists
all transforms. Other packages add theirs by an entry point of the group `oodometer.transforms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.transforms.registry import (
        DEFAULT_TRANSFORMS,
        EDA,
        MEMBERS,
        SSMBA,
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
        available,
        available_for_kind,
        get,
    )

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "BackTranslation": "registry",
            "Brightness": "registry",
            "Color": "registry",
            "Contrast": "registry",
            "DEFAULT_TRANSFORMS": "registry",
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
            "available": "registry",
            "available_for_kind": "registry",
            "get": "registry",
        },
    )
