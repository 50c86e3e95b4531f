"""Neighborhood invariance: invariance(), rank(), suggest_transforms()."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.neighborhood._invariance import as_models, invariance, prepare_transform
    from oodometer.neighborhood.ranking import Ranking, rank
    from oodometer.neighborhood.results import InvarianceResult
    from oodometer.neighborhood.suitability import TransformSuitability, suggest_transforms

__all__ = [
    "InvarianceResult",
    "Ranking",
    "TransformSuitability",
    "as_models",
    "invariance",
    "prepare_transform",
    "rank",
    "suggest_transforms",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "TransformSuitability": "suitability",
        "Ranking": "ranking",
        "InvarianceResult": "results",
        "invariance": "_invariance",
        "as_models": "_invariance",
        "rank": "ranking",
        "prepare_transform": "_invariance",
        "suggest_transforms": "suitability",
    },
)
