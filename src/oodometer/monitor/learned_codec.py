"""Safe serialization of what estimators learned: a JSON tree with arrays in an .npz archive.

Only the classes in `KNOWN_CLASSES` are written and read. Nothing is pickled, so reading a file cannot
run code.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from oodometer.assessment.ppi import BinnedAccuracy
from oodometer.core.array_types import Array
from oodometer.core.calibration import ClassCalibrator, IsotonicMap, LogisticMap
from oodometer.core.errors import InputError
from oodometer.estimators.atc import Threshold

KNOWN_CLASSES: dict[str, type] = {
    known.__name__: known
    for known in (BinnedAccuracy, ClassCalibrator, IsotonicMap, LogisticMap, Threshold)
}
TREE_NAME = "tree"


def encode(value: Any) -> bytes:
    """Return the bytes of a value: numbers, text, tuples, mappings, arrays and known classes.

    Raises
    ------
    TypeError
        If a value cannot be stored.

    Examples
    --------
    >>> decode(encode({"ac": None, "doc": np.array([1.0, 2.0]), "edge": float("-inf")}))
    {'ac': None, 'doc': array([1., 2.]), 'edge': -inf}
    """
    arrays: dict[str, Array] = {}
    tree = json.dumps(_to_tree(value, arrays)).encode()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{TREE_NAME: np.frombuffer(tree, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def decode(data: bytes) -> Any:
    """Return the value that `encode` stored."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        tree = json.loads(arrays.pop(TREE_NAME).tobytes())
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"The stored state cannot be read: {error}.") from error
    return _from_tree(tree, arrays)


def _to_tree(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple):
        return [_to_tree(item, arrays) for item in value]
    if isinstance(value, dict):
        return {"mapping": {key: _to_tree(item, arrays) for key, item in value.items()}}
    if is_dataclass(value) and KNOWN_CLASSES.get(type(value).__name__) is type(value):
        parts = {each.name: _to_tree(getattr(value, each.name), arrays) for each in fields(value)}
        return {"class": type(value).__name__, "fields": parts}
    raise TypeError(f"{type(value).__name__} cannot be stored.")


def _from_tree(tree: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(tree, list):
        return tuple(_from_tree(item, arrays) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    if "number" in tree:
        return float(tree["number"])
    if "mapping" in tree:
        return {key: _from_tree(item, arrays) for key, item in tree["mapping"].items()}
    known = KNOWN_CLASSES.get(tree["class"])
    if known is None:
        raise InputError(
            f"The stored state has the unknown class {tree['class']!r}. It was written by another "
            "version of oodometer; use that version."
        )
    return known(**{name: _from_tree(part, arrays) for name, part in tree["fields"].items()})
