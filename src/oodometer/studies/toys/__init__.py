"""Toy problems in which the truth is known exactly: what the papers show on them, to be redone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.toys.hypersphere import HypersphereToy, SphereRow, hypersphere_rows
    from oodometer.studies.toys.spurious import METHODS, SpuriousToy, ToyRow, spurious_rows

__all__ = [
    "METHODS",
    "HypersphereToy",
    "SphereRow",
    "SpuriousToy",
    "ToyRow",
    "hypersphere_rows",
    "spurious_rows",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "HypersphereToy": "hypersphere",
        "METHODS": "spurious",
        "SphereRow": "hypersphere",
        "SpuriousToy": "spurious",
        "ToyRow": "spurious",
        "hypersphere_rows": "hypersphere",
        "spurious_rows": "spurious",
    },
)
