"""Toy problems from two papers, for which the true accuracy is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.toys.hypersphere import HypersphereRow, HypersphereToy, hypersphere_rows
    from oodometer.studies.toys.spurious import METHODS, SpuriousRow, SpuriousToy, spurious_rows

__all__ = [
    "METHODS",
    "HypersphereRow",
    "HypersphereToy",
    "SpuriousRow",
    "SpuriousToy",
    "hypersphere_rows",
    "spurious_rows",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "HypersphereRow": "hypersphere",
            "HypersphereToy": "hypersphere",
            "METHODS": "spurious",
            "SpuriousRow": "spurious",
            "SpuriousToy": "spurious",
            "hypersphere_rows": "hypersphere",
            "spurious_rows": "spurious",
        },
    )
