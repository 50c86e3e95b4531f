"""Transforms: random changes of inputs that should preserve their class.

To add a transform, write a new file in this package with a frozen dataclass that derives from
`Transform`, and add an instance of it to `MEMBERS` in `registry.py`. Test it with
`oodometer.testing.check_transform`, and add it to the list of transforms in `docs/methods.md`.
Other packages can register transforms by an entry point of the group `oodometer.transforms`.
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
