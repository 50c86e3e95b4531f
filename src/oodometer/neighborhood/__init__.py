"""Neighborhood invariance: `invariance`, `rank` and `suggest_transforms`."""

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "InvarianceResult": "results",
            "Ranking": "ranking",
            "TransformSuitability": "suitability",
            "as_models": "_invariance",
            "invariance": "_invariance",
            "prepare_transform": "_invariance",
            "rank": "ranking",
            "suggest_transforms": "suitability",
        },
    )
