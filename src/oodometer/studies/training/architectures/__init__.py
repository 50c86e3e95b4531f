"""Network architectures for the models of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.training.architectures.registry import (
        MEMBERS,
        available,
        find,
        get,
        head_name,
        head_parameters,
        last_linear_name,
        pin_settings,
        stored_settings,
    )

__all__ = [
    "MEMBERS",
    "available",
    "find",
    "get",
    "head_name",
    "head_parameters",
    "last_linear_name",
    "pin_settings",
    "stored_settings",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "MEMBERS": "registry",
            "available": "registry",
            "find": "registry",
            "get": "registry",
            "head_name": "registry",
            "head_parameters": "registry",
            "last_linear_name": "registry",
            "pin_settings": "registry",
            "stored_settings": "registry",
        },
    )
