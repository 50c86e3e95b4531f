"""Common corruptions of images at five severities (Hendrycks & Dietterich, ICLR 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.transforms.corruptions.registry import (
        CORRUPTION_GROUPS,
        CORRUPTION_SETS,
        CORRUPTIONS,
        SEVERITIES,
        SEVERITY_SCALES,
        Corruption,
        CorruptionDefinition,
        SeverityScale,
        parse_corruptions,
    )

__all__ = [
    "CORRUPTIONS",
    "CORRUPTION_GROUPS",
    "CORRUPTION_SETS",
    "SEVERITIES",
    "SEVERITY_SCALES",
    "Corruption",
    "CorruptionDefinition",
    "SeverityScale",
    "parse_corruptions",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "CORRUPTIONS": "registry",
            "CORRUPTION_GROUPS": "registry",
            "CORRUPTION_SETS": "registry",
            "Corruption": "registry",
            "CorruptionDefinition": "registry",
            "SEVERITIES": "registry",
            "SEVERITY_SCALES": "registry",
            "SeverityScale": "registry",
            "parse_corruptions": "registry",
        },
    )
