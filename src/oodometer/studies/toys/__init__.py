"""Toy problems from two papers, for which the true accuracy or the cause of errors is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.toys.covariate_or_label import (
        CovariateOrLabelRow,
        CovariateOrLabelToy,
        WorldAccuracy,
        covariate_or_label_rows,
    )
    from oodometer.studies.toys.hypersphere import HypersphereRow, HypersphereToy, hypersphere_rows
    from oodometer.studies.toys.skews import SkewRow, SkewsToy, skew_rows
    from oodometer.studies.toys.spurious import METHODS, SpuriousRow, SpuriousToy, spurious_rows

__all__ = [
    "METHODS",
    "CovariateOrLabelRow",
    "CovariateOrLabelToy",
    "HypersphereRow",
    "HypersphereToy",
    "SkewRow",
    "SkewsToy",
    "SpuriousRow",
    "SpuriousToy",
    "WorldAccuracy",
    "covariate_or_label_rows",
    "hypersphere_rows",
    "skew_rows",
    "spurious_rows",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "CovariateOrLabelRow": "covariate_or_label",
            "CovariateOrLabelToy": "covariate_or_label",
            "HypersphereRow": "hypersphere",
            "HypersphereToy": "hypersphere",
            "METHODS": "spurious",
            "SkewRow": "skews",
            "SkewsToy": "skews",
            "SpuriousRow": "spurious",
            "SpuriousToy": "spurious",
            "WorldAccuracy": "covariate_or_label",
            "covariate_or_label_rows": "covariate_or_label",
            "hypersphere_rows": "hypersphere",
            "skew_rows": "skews",
            "spurious_rows": "spurious",
        },
    )
