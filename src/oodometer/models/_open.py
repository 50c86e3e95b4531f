"""as_model(): wrap any classifier in its adapter, or open one from a path, URL or import path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError, not_a_file
from oodometer.core.protocols import Model
from oodometer.models import pickles
from oodometer.models.base import OutputType, Prepare
from oodometer.models.function import FunctionModel, import_object, is_import_path
from oodometer.models.http_endpoint import HttpModel
from oodometer.models.huggingface import HuggingFaceModel
from oodometer.models.onnx import OnnxModel
from oodometer.models.sklearn import SklearnModel
from oodometer.models.timm import TIMM_PREFIX, join_location, open_timm_model
from oodometer.models.torch import TorchModel
from oodometer.parallel.pickling import ReopenSpec, with_reopen_spec

DATA_EXTENSIONS = (".npz", ".npy", ".csv", ".parquet", ".arrow", ".feather")
# Keyword arguments that all adapters accept.
AdapterSettings = dict[str, Any]
# Group of the entry points that open model folders. Each entry point is named after a file that
# every folder of its format contains.
MODEL_FORMATS_GROUP = "oodometer.model_formats"
# Import path of the function that a worker calls to open a model again.
MODEL_OPENER = "oodometer.models:as_model"
SUPPORTED_MODELS = (
    "an .onnx file, a Hugging Face folder, a model's folder in a pool, a .skops file, an http:// "
    "URL, timm:NAME, package.module:function, or a trusted pickle"
)


def as_model(
    model: Any,
    *,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    outputs: OutputType | None = None,
    prepare: Prepare | None = None,
    batch_size: int | None = None,
    weights: str | Path | None = None,
    trust_pickle: bool = False,
) -> Model:
    """Return a Model for a classifier of any supported kind.

    Parameters
    ----------
    model : object, str or Path
        A callable, a fitted scikit-learn classifier, a torch module, the path of an `.onnx` or
        `.skops` file, a Hugging Face folder, a model's folder in a pool, an http:// or https://
        URL, ``"timm:NAME"`` for a network of the package timm, or ``"package.module:function"``. A
        Model is returned unchanged.
    name : str, optional
        Name of the model in tables and messages.
    class_names : sequence of str, optional
        Either the model's own class names in the desired order, or new names in the order of the
        model's outputs.
    outputs : {"probs", "logits", "classes"}, optional
        Type of the classifier's outputs. The default depends on the kind of classifier.
    prepare : callable, optional
        Function that converts a batch of inputs to the classifier's input format.
    batch_size : int, optional
        Number of rows per call of the classifier.
    weights : str or Path, optional
        Weights of a network of timm: the path of a ``.safetensors`` file or of a folder with
        ``NAME.safetensors``, ``"download"`` for the pretrained weights that timm downloads, or
        ``"none"`` for random weights. The location ``"timm:NAME@WEIGHTS"`` means the same.
    trust_pickle : bool
        Whether to open pickles. Opening a pickle can run any code.

    Returns
    -------
    Model
        An object with `name` and `classify(inputs)`.

    Raises
    ------
    InputError
        If the model cannot be opened, or is a pickle that is not trusted.
    MissingExtra
        If the package that runs the model is not installed.

    Examples
    --------
    >>> model = as_model(lambda texts: [len(text) > 5 for text in texts], name="long")
    >>> model.classify(["a text"]).classes
    array([1])
    """
    settings: AdapterSettings = {
        "name": name or "",
        "class_names": class_names,
        "outputs": outputs,
        "prepare": prepare,
        "batch_size": batch_size,
    }
    if isinstance(model, str) and model.startswith(TIMM_PREFIX):
        model = join_location(model, weights)
    elif weights is not None:
        raise InputError(
            f"weights applies to networks of timm ({TIMM_PREFIX}NAME) only; got {model!r:.60}. "
            "Leave it out."
        )
    if isinstance(model, str | Path):
        spec = ReopenSpec.create(MODEL_OPENER, model, {**settings, "trust_pickle": trust_pickle})
        return with_reopen_spec(_open_location(model, settings, trust_pickle=trust_pickle), spec)
    return _adapt(model, settings)


def _adapt(classifier: Any, settings: AdapterSettings) -> Model:
    """Wrap a classifier in its adapter, without importing torch or scikit-learn."""
    if isinstance(classifier, type):
        raise InputError(
            f"{classifier.__name__} is a class, not a model. Pass a trained instance of it."
        )
    if isinstance(classifier, Model):
        return _check_no_settings(classifier, settings)
    if _is_torch(classifier):
        return TorchModel(classifier, **settings)
    if _is_estimator(classifier):
        return SklearnModel(classifier, **settings)
    if callable(classifier):
        return FunctionModel(classifier, **settings)
    raise InputError(
        f"A {type(classifier).__name__} is not a model. Pass a callable, a scikit-learn estimator, "
        f"a torch module, or {SUPPORTED_MODELS}."
    )


def _check_no_settings(model: Model, settings: AdapterSettings) -> Model:
    """Return the model; raise if there are settings, because they cannot be applied to it."""
    passed = [setting for setting, value in settings.items() if value not in (None, "")]
    if passed:
        raise InputError(
            f"{model.name!r} is already a model, so {passed[0]}= cannot be set. "
            "Omit it, or set it where the model is created."
        )
    return model


def _is_torch(classifier: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    # If torch is only partly imported, it may have no `nn` or no `export`.
    module = getattr(getattr(torch, "nn", None), "Module", ())
    program = getattr(getattr(torch, "export", None), "ExportedProgram", ())
    return isinstance(classifier, (module, program))


def _is_estimator(classifier: Any) -> bool:
    base = sys.modules.get("sklearn.base")
    if base is not None and isinstance(classifier, base.BaseEstimator):
        return True
    return hasattr(classifier, "predict_proba") and hasattr(classifier, "classes_")


def _open_location(location: str | Path, settings: AdapterSettings, *, trust_pickle: bool) -> Model:
    """Open the model at a path, URL or import path."""
    text = str(location)
    path = Path(location)
    if text.startswith(("http://", "https://")):
        return HttpModel(text, **settings)
    if text.startswith(TIMM_PREFIX):
        return open_timm_model(text, settings, trust_pickle=trust_pickle)
    if path.is_dir():
        return _open_folder(path, settings, trust_pickle=trust_pickle)
    suffix = path.suffix.lower()
    if suffix in (".onnx", ".skops", *pickles.PICKLE_SUFFIXES):
        if not path.is_file():
            raise not_a_file(location, expected="a model file")
        if suffix == ".onnx":
            return OnnxModel(path, **settings)
        load = pickles.open_skops if suffix == ".skops" else pickles.open_pickle
        classifier = load(path, trust_pickle=trust_pickle)
        return _adapt(classifier, {**settings, "name": settings["name"] or path.stem})
    if is_import_path(text):
        name = settings["name"] or text.rpartition(":")[2]
        return _adapt(import_object(text), {**settings, "name": name})
    problem = "cannot be opened as a model" if path.exists() else "does not exist"
    raise InputError(f"{text!r} {problem}.{_hint(path)} Models can be {SUPPORTED_MODELS}.")


def _hint(path: Path) -> str:
    if path.suffix.lower() in DATA_EXTENSIONS:
        return " It looks like data: pass the model first and the data after it."
    return f" Name its function, for example {path.stem}:classify." if path.suffix == ".py" else ""


def _open_folder(folder: Path, settings: AdapterSettings, *, trust_pickle: bool) -> Model:
    """Open a folder of a registered format, or a Hugging Face folder."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=MODEL_FORMATS_GROUP):
        if (folder / entry.name).is_file():
            load: Callable[[Path], Model] = entry.load()
            others = {key: value for key, value in settings.items() if key != "name"}
            model = _check_no_settings(load(folder), others)
            if not settings["name"]:
                return model
            renamed: Model = replace(model, name=settings["name"])  # type: ignore[type-var]
            return renamed
    return HuggingFaceModel(folder, trust_pickle=trust_pickle, **settings)
