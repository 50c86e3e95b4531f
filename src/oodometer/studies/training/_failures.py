"""Recipes that gave no model: pool/.failed/<id>.json says why, until they do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.data.atomic import aside

# Out of the way of pool/*, which names its models.
FAILED = ".failed"


def write(pool: Path, name: str, recipe: Mapping[str, Any], reason: str, trace: str) -> None:
    """Write down a failure, whole or not at all, over an earlier one of the same recipe."""
    path = _path(pool, name)
    told = {"recipe": recipe, "reason": reason, "trace": trace}
    try:
        path.parent.mkdir(exist_ok=True)
        with aside(path) as partial:
            partial.write_text(json.dumps(told, indent=2), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The failure of {name} ({reason}) can't be written to {str(path.parent)!r}: "
            f"{error.strerror or error}. Make room or allow writing there, and run again; finished "
            "models stay."
        ) from error


def forget(pool: Path, name: str) -> None:
    """A recipe that failed once and now has its model."""
    _path(pool, name).unlink(missing_ok=True)


def reasons(pool: Path) -> dict[str, str]:
    """Why, by the id of the recipe."""
    return {path.stem: _reason(path) for path in sorted((pool / FAILED).glob("*.json"))}


def _reason(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown: what was written down of it can't be read"


def _path(pool: Path, name: str) -> Path:
    return pool / FAILED / f"{name}.json"
