"""Recipes that gave no model: pool/.failed/<id>.json says why, until they do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.data.atomic import atomic_write

# Out of the way of pool/*, which names its models.
FAILED_FOLDER = ".failed"


def write_failure(
    pool: Path, name: str, config: Mapping[str, Any], reason: str, trace: str
) -> None:
    """Write down a failure, whole or not at all, over an earlier one of the same recipe."""
    path = _path(pool, name)
    told = {"recipe": config, "reason": reason, "trace": trace}
    try:
        path.parent.mkdir(exist_ok=True)
        with atomic_write(path) as partial:
            partial.write_text(json.dumps(told, indent=2), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The failure of {name} ({reason}) can't be written to {str(path.parent)!r}: "
            f"{error.strerror or error}. Make room or allow writing there, and run again; finished "
            "models stay."
        ) from error


def remove_failure(pool: Path, name: str) -> None:
    """A recipe that failed once and now has its model."""
    _path(pool, name).unlink(missing_ok=True)


def read_reasons(pool: Path) -> dict[str, str]:
    """Why, by the id of the recipe."""
    return {path.stem: _read_reason(path) for path in sorted((pool / FAILED_FOLDER).glob("*.json"))}


def _read_reason(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown: what was written down of it can't be read"


def _path(pool: Path, name: str) -> Path:
    return pool / FAILED_FOLDER / f"{name}.json"
