"""as_model: the one door for whatever classifies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.protocols import Model
from oodometer.models import pickles
from oodometer.models.base import OutputType, Prepare
from oodometer.models.function import FunctionModel, import_object, is_import_path
from oodometer.models.http_endpoint import HttpModel
from oodometer.models.huggingface import HuggingFaceModel
from oodometer.models.onnx import OnnxModel
from oodometer.models.sklearn import SklearnModel
from oodometer.models.torch import TorchModel
from oodometer.parallel.pickling import ReopenSpec, with_reopen_spec

# How files of data end.
DATA_EXTENSIONS = (".npz", ".npy", ".csv", ".parquet", ".arrow", ".feather")
# What all adapters take, by name.
AdapterSettings = dict[str, Any]
# Entry points that open folders: the name is that of the file that marks a folder of the format.
MODEL_FORMATS_GROUP = "oodometer.model_formats"
# By which door a worker opens a model that was opened here.
MODEL_OPENER = "oodometer.models:as_model"
SUPPORTED_MODELS = (
    "an .onnx file, a Hugging Face folder, a model's folder of a pool, a .skops file, an http:// address, "
    "package.module:function, or with trust a pickle"
)


def as_model(
    model: Any,
    *,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    outputs: OutputType | None = None,
    prepare: Prepare | None = None,
    batch_size: int | None = None,
    trust_pickle: bool = False,
) -> Model:
    """Whatever classifies, as a model.

    Takes a callable, a scikit-learn estimator, a torch module, an `.onnx` or `.skops` file, a
    Hugging Face folder, a model's folder of a pool, an address, or `package.module:function`; a model is given back as it is.
    `trust_pickle` opens pickles too, which can run any code.

    >>> as_model(lambda texts: [len(t) > 5 for t in texts], name="long").classify(["a text"]).classes
    array([1])
    """
    shared: AdapterSettings = {
        "name": name or "",
        "class_names": class_names,
        "outputs": outputs,
        "prepare": prepare,
        "batch_size": batch_size,
    }
    if isinstance(model, str | Path):
        place = ReopenSpec.create(MODEL_OPENER, model, {**shared, "trust_pickle": trust_pickle})
        return with_reopen_spec(_open_location(model, shared, trust_pickle=trust_pickle), place)
    return _adapt(model, shared)


def _adapt(thing: Any, settings: AdapterSettings) -> Model:
    """An object as a model, recognised without importing what it may come from."""
    if isinstance(thing, type):
        raise InputError(
            f"{thing.__name__} is a class, not a model. Give one of its objects, made and trained."
        )
    if isinstance(thing, Model):
        return _check_no_settings(thing, settings)
    if _is_torch(thing):
        return TorchModel(thing, **settings)
    if _is_estimator(thing):
        return SklearnModel(thing, **settings)
    if callable(thing):
        return FunctionModel(thing, **settings)
    raise InputError(
        f"A {type(thing).__name__} is no model. Give a callable, a scikit-learn estimator, a torch "
        f"module, or {SUPPORTED_MODELS}."
    )


def _check_no_settings(model: Model, settings: AdapterSettings) -> Model:
    given = [setting for setting, value in settings.items() if value not in (None, "")]
    if given:
        raise InputError(
            f"{model.name!r} is a model already, so {given[0]}= can't be set. "
            "Leave it out, or set it where the model is made."
        )
    return model


def _is_torch(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    kinds = (torch and getattr(torch, "nn", None), torch and getattr(torch, "export", None))
    names = ("Module", "ExportedProgram")
    found = (getattr(kind, name, None) for kind, name in zip(kinds, names, strict=True))
    return isinstance(thing, tuple(kind for kind in found if kind is not None))


def _is_estimator(thing: Any) -> bool:
    base = sys.modules.get("sklearn.base")
    if base is not None and isinstance(thing, base.BaseEstimator):
        return True
    return hasattr(thing, "predict_proba") and hasattr(thing, "classes_")


def _open_location(location: str | Path, settings: AdapterSettings, *, trust_pickle: bool) -> Model:
    text, path = str(location), Path(location)
    if text.startswith(("http://", "https://")):
        return HttpModel(text, **settings)
    if path.is_dir():
        if load := _format_of(path):
            return _loaded(load, path, settings)
        return HuggingFaceModel(path, trust_pickle=trust_pickle, **settings)
    suffix = path.suffix.lower()
    if suffix in _FILE_OPENERS:
        if not path.is_file():
            raise InputError(f"There is no file {text!r}. Give the path of a file that is there.")
        return _FILE_OPENERS[suffix](path, settings, trust_pickle)
    if is_import_path(text):
        name = settings["name"] or text.rpartition(":")[2]
        return _adapt(import_object(text), {**settings, "name": name})
    what = "can't be opened" if path.exists() else "is no file or folder that is there"
    raise InputError(
        f"{text!r} {what} as a model.{_hint(path)} What can be opened: {SUPPORTED_MODELS}."
    )


def _hint(path: Path) -> str:
    """What was probably meant."""
    if path.suffix.lower() in DATA_EXTENSIONS:
        return " It looks like data: the model comes first, and the data after it."
    return f" Name its function: {path.stem}:classify, say." if path.suffix == ".py" else ""


def _format_of(folder: Path) -> Callable[[Path], Model] | None:
    """The function that opens a folder of a registered format; None where there is no such mark."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=MODEL_FORMATS_GROUP):
        if (folder / entry.name).is_file():
            load: Callable[[Path], Model] = entry.load()
            return load
    return None


def _loaded(load: Callable[[Path], Model], folder: Path, shared: AdapterSettings) -> Model:
    name = shared.pop("name")
    model: Any = _check_no_settings(load(folder), shared)
    return replace(model, name=name) if name else model  # type: ignore[no-any-return]


def _open_onnx(path: Path, settings: AdapterSettings, trust_pickle: bool) -> Model:
    return OnnxModel(path, **settings)


def _open_skops(path: Path, settings: AdapterSettings, trust_pickle: bool) -> Model:
    found = pickles.open_skops(path, trust_pickle=trust_pickle)
    return _adapt(found, {**settings, "name": settings["name"] or path.stem})


def _open_pickle(path: Path, settings: AdapterSettings, trust_pickle: bool) -> Model:
    found = pickles.open_pickle(path, trust_pickle=trust_pickle)
    return _adapt(found, {**settings, "name": settings["name"] or path.stem})


_FILE_OPENERS: dict[str, Callable[[Path, AdapterSettings, bool], Model]] = {
    ".onnx": _open_onnx,
    ".skops": _open_skops,
    **dict.fromkeys(pickles.PICKLE_SUFFIXES, _open_pickle),
}
