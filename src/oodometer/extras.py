"""The only door to optional packages."""

from __future__ import annotations

import importlib
from typing import Any

from oodometer.errors import MissingExtra


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module, or say which extra brings it.

    >>> require("math", extra="maths", purpose="roots").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{purpose} needs the package {error.name!r}, which is not installed. "
            f'Install it with: pip install "oodometer[{extra}]"'
        ) from error
