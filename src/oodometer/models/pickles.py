"""Files that run code when they are opened: only for those who say they trust them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require, torch_package
from oodometer.models.base import exception_summary

PICKLE_SUFFIXES = (".pt", ".pth", ".pt2", ".pkl", ".pickle", ".joblib")


def untrusted_pickle_error(path: Path) -> InputError:
    """Why a file is not opened, and what would be."""
    return InputError(
        f"{str(path)!r} is a pickle, or holds one, and loading it can run any code. Give ONNX, a "
        "Hugging Face folder with safetensors, skops or package.module:function; or, if you trust "
        "where it comes from, trust_pickle=True (--trust-pickle)."
    )


def open_pickle(path: Path, *, trust_pickle: bool) -> Any:
    """What is pickled in a file, if it is trusted."""
    if not trust_pickle:
        raise untrusted_pickle_error(path)
    try:
        found = _load(path)
    except Exception as error:
        raise InputError(
            f"{str(path)!r} can't be loaded: {exception_summary(error)}. It must be a whole {path.suffix} "
            "file, and the packages that its objects come from must be installed."
        ) from error
    if isinstance(found, dict):
        raise InputError(
            f"{str(path)!r} holds a dict, not a model: weights alone don't say how to compute. "
            "Make the module, call load_state_dict, and give package.module:name of that."
        )
    return found


def _load(path: Path) -> Any:
    if path.suffix in (".pkl", ".pickle", ".joblib"):
        # It reads plain pickles too.
        return require("joblib", extra="sklearn", purpose="Opening a pickle").load(path)
    torch = torch_package()
    if path.suffix == ".pt2":
        return torch.export.load(path)
    if _is_script(path):
        return torch.jit.load(str(path), map_location="cpu")
    return torch.load(path, map_location="cpu", weights_only=False)


def _is_script(path: Path) -> bool:
    """Whether it is TorchScript: an archive with code in it."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def open_skops(path: Path, *, trust_pickle: bool) -> Any:
    """What a skops file holds, if it is made of nothing but types known to be safe."""
    skops = require("skops.io", extra="sklearn", purpose="Opening a skops file")
    try:
        unknown = skops.get_untrusted_types(file=path)
    except Exception as error:
        raise InputError(
            f"{str(path)!r} can't be loaded: {exception_summary(error)}. It must be a file that "
            "skops.io.dump wrote."
        ) from error
    if unknown and not trust_pickle:
        raise InputError(
            f"{str(path)!r} holds types that are not known to be safe: {', '.join(unknown[:5])}. "
            "If you trust where it comes from, pass trust_pickle=True (--trust-pickle)."
        )
    return skops.load(path, trusted=unknown)
