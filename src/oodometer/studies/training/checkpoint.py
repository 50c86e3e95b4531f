"""Trained models on disk: a folder each, which is there whole or not at all.

pool/<id>/weights.safetensors   the weights
pool/<id>/recipe.json           the recipe, the same bytes for the same recipe
pool/<id>/result.json           how the training went, the classes, the shape of the inputs
pool/<id>/…                     what goes with it, such as the tokens of a text model

A folder is written under another name and gets its own in one step, after all of it has reached
the disk. A pool has one writer at a time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import Inputs
from oodometer.core.optional_imports import require, torch_package
from oodometer.core.protocols import Model
from oodometer.data.atomic import PARTIAL_SUFFIX, atomic_write, fsync_folder
from oodometer.models.torch import TorchModel
from oodometer.studies.training._train import BODY_FILE, TrainedModel
from oodometer.studies.training.architectures import head_parameters
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import (
    build_network,
    frozen_body_fingerprint,
    get_architecture,
    seeded_torch,
)
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.tokenizer import Tokenizer
from oodometer.studies.training.training_data import TOKENS_FILE

WEIGHTS_FILE, RECIPE_FILE, RESULT_FILE = "weights.safetensors", "recipe.json", "result.json"
# What result.json has.
_RESULT_TYPES: dict[str, type] = {"converged": bool, "facts": dict, "classes": list, "shape": dict}
_ID_PATTERN, _NAME_PATTERN = re.compile("[0-9a-f]{16}"), re.compile(r"\w[\w.-]*")


def save(pool: Path, trained: TrainedModel) -> Path:
    """Write a model's folder, and sweep what killed writers left; one that is there stays as it is."""
    folder = pool / trained.recipe.id
    # With a dot before its name it is out of the way of pool/*, which names the models.
    partial = pool / f".{folder.name}{PARTIAL_SUFFIX}"
    if is_complete(folder):
        return folder
    files = _model_files(trained)
    try:
        pool.mkdir(parents=True, exist_ok=True)
        remove_partial_writes(pool)
        _write_files(partial, files)
        os.rename(partial, folder)
        fsync_folder(pool)
    except OSError as error:
        raise _write_error(folder, files, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def remove_partial_writes(pool: Path) -> None:
    """Remove what killed writers left; only the writer of the pool may."""
    for left in pool.glob(f"*{PARTIAL_SUFFIX}"):
        shutil.rmtree(left, ignore_errors=True)


def _model_files(trained: TrainedModel) -> dict[str, bytes]:
    safetensors = require("safetensors.numpy", extra="torch", purpose="Saving a trained model")
    # Not ascontiguousarray, which makes (1,) of a lone number.
    weights = {name: np.array(value, order="C") for name, value in trained.weights.items()}
    result = {
        "converged": trained.converged,
        "facts": {name: float(value) for name, value in trained.facts.items()},
        "classes": list(trained.classes),
        "shape": asdict(trained.shape),
    }
    own = {
        WEIGHTS_FILE: safetensors.save(weights),
        RECIPE_FILE: trained.recipe.to_json().encode(),
        RESULT_FILE: json.dumps(result, sort_keys=True, allow_nan=False).encode(),
    }
    for name in trained.files:
        if name in own or not _NAME_PATTERN.fullmatch(name):
            raise InputError(
                f"A file beside the weights can't be called {name!r}. Give a plain name that is "
                f"none of {', '.join(own)}."
            )
    return {**trained.files, **own}


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        with (folder / name).open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    fsync_folder(folder)


def _write_error(folder: Path, files: Mapping[str, bytes], error: OSError) -> InputError:
    if folder.exists() and not is_complete(folder):
        return InputError(
            f"The folder {str(folder)!r} is there but not whole, and nothing is overwritten. "
            "Remove it, and run again."
        )
    size = sum(map(len, files.values())) / 2**20
    return InputError(
        f"The model {folder.name} ({size:.1f} MB) can't be written to {str(folder.parent)!r}: "
        f"{error.strerror or error}. Make room or allow writing there, and run again; finished "
        "models stay."
    )


def is_complete(folder: Path) -> bool:
    """Whether a folder is a finished model's."""
    named = _ID_PATTERN.fullmatch(folder.name) is not None
    return named and all(
        (folder / name).is_file() for name in (WEIGHTS_FILE, RECIPE_FILE, RESULT_FILE)
    )


def finished_models(pool: str | Path) -> dict[str, Path]:
    """The folders of the models that are there whole, by id, in order."""
    pool = Path(pool)
    if not pool.is_dir():
        return {}
    return {folder.name: folder for folder in sorted(pool.iterdir()) if is_complete(folder)}


def load_recipe(folder: Path) -> TrainingConfig:
    """How a model was made."""
    values = _read_json(folder, RECIPE_FILE)
    try:
        return TrainingConfig.from_dict(values)
    except InputError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise _unreadable_error(folder, RECIPE_FILE, error) from error


def load_facts(folder: Path) -> dict[str, Any]:
    """How the training went: `converged`, and the facts that were kept."""
    result = _load_result(folder)
    return {"converged": bool(result["converged"]), **result["facts"]}


def load_classes(folder: Path) -> tuple[str, ...]:
    """The names of the classes that a model tells apart, in order."""
    return tuple(_load_result(folder)["classes"])


def _load_result(folder: Path) -> dict[str, Any]:
    found = _read_json(folder, RESULT_FILE)
    for key, kind in _RESULT_TYPES.items():
        if not isinstance(found.get(key), kind):
            raise _unreadable_error(folder, RESULT_FILE, ValueError(f"it lacks {key!r}"))
    return found


def _parse_shape(result: Mapping[str, Any], folder: Path) -> InputShape:
    try:
        return InputShape(**{**result["shape"], "size": tuple(result["shape"]["size"])})
    except (KeyError, TypeError) as error:
        raise _unreadable_error(folder, RESULT_FILE, error) from error


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((folder / name).read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable_error(folder, name, error) from error
    if not isinstance(found, dict):
        raise _unreadable_error(folder, name, ValueError("it is no table"))
    return found


def _unreadable_error(folder: Path, name: str, error: Exception) -> InputError:
    reason = format_error(error, first_line=True)
    return InputError(
        f"{name} of the model in {str(folder)!r} can't be read: {reason}. Remove the folder and "
        "train it again."
    )


def load_model(folder: str | Path) -> Model:
    """The trained model; nothing is unpickled. `as_model` opens it too."""
    folder = Path(folder)
    recipe, result = load_recipe(folder), _load_result(folder)
    if "diverged" in result["facts"]:
        raise InputError(
            f"The model in {str(folder)!r} diverged in training (lr was {recipe.lr:g}), and what it "
            "says are no numbers. Leave it out."
        )
    shape = _parse_shape(result, folder)
    with seeded_torch(recipe.seed):
        module = build_network(recipe, shape)
    shares = (folder / BODY_FILE).is_file()
    fixed = _load_body_weights(module, recipe, shape, folder) if shares else {}
    _set_weights(module, {**fixed, **_load_weights(folder)}, folder)
    model = TorchModel(
        module,
        name=recipe.id,
        class_names=result["classes"],
        prepare=_load_text_encoder(folder / TOKENS_FILE),
    )
    if shares:
        get_architecture(recipe, shape.kind).share_body(model.module)
    return model


def _load_body_weights(
    module: Any, config: TrainingConfig, shape: InputShape, folder: Path
) -> dict[str, Array]:
    """All weights but the head's, as they lie in the encoder's folder, if it is the same still."""
    if (folder / BODY_FILE).read_text(encoding="ascii", errors="replace") != frozen_body_fingerprint(config, shape.kind):  # fmt: skip
        raise InputError(
            f"The model in {str(folder)!r} is a head for the encoder that lay in "
            f"{config.settings['folder']!r}, and another one lies there now. Put the former there, "
            "or train again."
        )
    head = head_parameters(module)
    return {name: one.numpy() for name, one in module.state_dict().items() if name not in head}


def _load_text_encoder(file: Path) -> Callable[[Inputs], Array] | None:
    """How texts become numbers; other inputs need nothing."""
    if not file.is_file():
        return None
    tokens = Tokenizer.from_bytes(file.read_bytes())
    return lambda texts: tokens.trim_padding(tokens.encode(texts))


def _load_weights(folder: Path) -> dict[str, Array]:
    safetensors = require("safetensors.numpy", extra="torch", purpose="Loading a trained model")
    try:
        found: dict[str, Array] = safetensors.load((folder / WEIGHTS_FILE).read_bytes())
    except Exception as error:
        raise _unreadable_error(folder, WEIGHTS_FILE, error) from error
    return found


def _set_weights(module: Any, weights: Mapping[str, Array], folder: Path) -> None:
    # Copied: what is read from bytes can't be written to.
    tensors = {name: torch_package().from_numpy(value.copy()) for name, value in weights.items()}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise _unreadable_error(folder, WEIGHTS_FILE, error) from error


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
