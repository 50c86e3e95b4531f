"""Load model files that can run code (pickle, joblib), only if the user declares them trusted."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require, torch_package
from oodometer.models.base import exception_summary
from oodometer.models.tree_checks import check_trees

PICKLE_SUFFIXES = (".pt", ".pth", ".pt2", ".pkl", ".pickle", ".joblib")
# Types of scikit-learn that skops does not know as safe, although loading them runs no code of the
# file: trees, whose nodes `check_trees` checks, and plain Python classes.
SAFE_SKOPS_TYPES = frozenset(
    (
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
    )
)


def untrusted_pickle_error(path: Path) -> InputError:
    """Return the error for a pickle that the user has not declared trusted."""
    return InputError(
        f"{str(path)!r} is a pickle or contains one, and loading it can run any code. Use ONNX, a "
        "Hugging Face folder with safetensors, skops, or package.module:function. If you trust the "
        "origin of the file, pass trust_pickle=True (--trust-pickle)."
    )


def open_pickle(path: Path, *, trust_pickle: bool) -> Any:
    """Load a pickled classifier; raise unless the file is trusted."""
    if not trust_pickle:
        raise untrusted_pickle_error(path)
    try:
        classifier = _load(path)
    except Exception as error:
        raise InputError(
            f"Cannot load {str(path)!r}: {exception_summary(error)}. It must be a complete "
            f"{path.suffix} file, and the packages of its objects must be installed."
        ) from error
    if isinstance(classifier, dict):
        raise InputError(
            f"{str(path)!r} contains a dict, not a model: weights without an architecture. Create "
            "the module in Python, call load_state_dict, and pass package.module:name of the module."
        )
    return classifier


def _load(path: Path) -> Any:
    if path.suffix in (".pkl", ".pickle", ".joblib"):
        # joblib also reads pickles that it has not written.
        return require("joblib", extra="sklearn", purpose="Opening a pickle").load(path)
    torch = torch_package()
    if path.suffix == ".pt2":
        return torch.export.load(path)
    if _is_script(path):
        return torch.jit.load(str(path), map_location="cpu")
    return torch.load(path, map_location="cpu", weights_only=False)


def _is_script(path: Path) -> bool:
    """Return whether a file is TorchScript, which is a zip archive that contains code."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def open_skops(path: Path, *, trust_pickle: bool) -> Any:
    """Load a skops file; unless it is trusted, raise if it has types not known to be safe."""
    skops = require("skops.io", extra="sklearn", purpose="Opening a skops file")
    try:
        untrusted = skops.get_untrusted_types(file=path)
    except Exception as error:
        raise InputError(
            f"Cannot load {str(path)!r}: {exception_summary(error)}. It must be a file written by "
            "skops.io.dump."
        ) from error
    unknown = [name for name in untrusted if name not in SAFE_SKOPS_TYPES]
    if unknown and not trust_pickle:
        raise InputError(
            f"{str(path)!r} contains types that are not known to be safe: {', '.join(unknown[:5])}. "
            "If you trust the origin of the file, pass trust_pickle=True (--trust-pickle)."
        )
    model = skops.load(path, trusted=untrusted)
    check_trees(model)
    return model
