"""Files of a pool: write and read trained models and the reasons of failed trainings.

pool/<id>/weights.safetensors   weights
pool/<id>/recipe.json           training configuration; equal configurations have equal bytes
pool/<id>/result.json           whether the model converged, classes, shape of the inputs, facts
pool/<id>/…                     further files, for example the tokenizer of a text model
pool/.failed/<id>.json          reason and traceback of a failed training

The folder of a model is written under a temporary name, synced to disk and then renamed. A folder
with the final name is therefore always complete. Only one process writes to a pool at a time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import Inputs
from oodometer.core.optional_imports import require, torch_package
from oodometer.core.protocols import Model
from oodometer.data.atomic import PARTIAL_SUFFIX, atomic_write, fsync_folder
from oodometer.models.heads import HeadModel
from oodometer.models.torch import TorchModel
from oodometer.studies._toml import build
from oodometer.studies.training._train import TrainedModel
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
from oodometer.studies.training.training_data import BODY_FILE, TOKENS_FILE

WEIGHTS_FILE = "weights.safetensors"
RECIPE_FILE = "recipe.json"
RESULT_FILE = "result.json"
# The name starts with a dot so that the pattern pool/* lists only models.
FAILED_FOLDER = ".failed"
_ID_PATTERN = re.compile("[0-9a-f]{16}")
_FILE_NAME_PATTERN = re.compile(r"\w[\w.-]*")


# Writing a model --------------------------------------------------------------------------------


def save(pool: Path, trained: TrainedModel) -> Path:
    """Write the folder of a model and return its path; an existing model is not overwritten."""
    folder = pool / trained.recipe.id
    # The name starts with a dot so that the pattern pool/* lists only models.
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
    """Remove incomplete folders that interrupted runs left behind.

    Only the process that writes to the pool may call this.
    """
    for leftover in pool.glob(f"*{PARTIAL_SUFFIX}"):
        shutil.rmtree(leftover, ignore_errors=True)


def _model_files(trained: TrainedModel) -> dict[str, bytes]:
    safetensors = require("safetensors.numpy", extra="torch", purpose="Saving a trained model")
    # np.ascontiguousarray is not used, because it turns a scalar into an array of shape (1,).
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
        if name in own or not _FILE_NAME_PATTERN.fullmatch(name):
            raise InputError(
                f"A file of a model cannot have the name {name!r}. Use a plain name other than "
                f"{', '.join(own)}."
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
            f"The folder {str(folder)!r} exists but is incomplete, and nothing is overwritten. "
            "Remove the folder and run again."
        )
    size = sum(map(len, files.values())) / 2**20
    return InputError(
        f"Cannot write the model {folder.name} ({size:.1f} MB) to {str(folder.parent)!r}: "
        f"{error.strerror or error}. Free space or allow writing there, and run again; finished "
        "models are kept."
    )


# Reading a model --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SavedResult:
    """Content of result.json: outcome and facts of the training, classes, shape of the inputs."""

    converged: bool
    facts: Mapping[str, Any]
    classes: tuple[str, ...]
    shape: Mapping[str, Any]


def is_complete(folder: Path) -> bool:
    """Return whether the folder holds a finished model."""
    files = (WEIGHTS_FILE, RECIPE_FILE, RESULT_FILE)
    is_id = _ID_PATTERN.fullmatch(folder.name) is not None
    return is_id and all((folder / name).is_file() for name in files)


def finished_models(pool: str | Path) -> dict[str, Path]:
    """Return the folders of all finished models, keyed by model id and sorted by it."""
    pool = Path(pool)
    if not pool.is_dir():
        return {}
    return {folder.name: folder for folder in sorted(pool.iterdir()) if is_complete(folder)}


def load_recipe(folder: Path) -> TrainingConfig:
    """Return the training configuration of a saved model."""
    values = _read_json(folder, RECIPE_FILE)
    try:
        return TrainingConfig.from_dict(values)
    except (AttributeError, TypeError, InputError) as error:
        raise _unreadable_error(folder, RECIPE_FILE, error) from error


def load_facts(folder: Path) -> dict[str, Any]:
    """Return the facts about the training of a saved model, including `converged`."""
    result = _load_result(folder)
    return {"converged": result.converged, **result.facts}


def load_classes(folder: Path) -> tuple[str, ...]:
    """Return the class names of a saved model in the order of their numbers."""
    return _load_result(folder).classes


def load_model(folder: str | Path) -> Model:
    """Load a trained model from its folder; no pickle files are read. `as_model` calls this."""
    folder = Path(folder)
    config = load_recipe(folder)
    result = _load_result(folder)
    if "diverged" in result.facts:
        raise InputError(
            f"The model in {str(folder)!r} diverged in training (lr was {config.lr:g}), and its "
            "outputs are not numbers. Leave it out."
        )
    try:
        shape: InputShape = build(InputShape, result.shape, "shape")
    except InputError as error:
        raise _unreadable_error(folder, RESULT_FILE, error) from error
    has_frozen_body = (folder / BODY_FILE).is_file()
    with seeded_torch(config.seed):
        module = build_network(config, shape, load=has_frozen_body)
    weights = _load_weights(folder)
    if has_frozen_body:
        weights = {**_load_body_weights(module, config, shape, folder), **weights}
    _set_weights(module, weights, folder)
    if config.has_cached_body:
        body = get_architecture(config, shape.kind).open_body()
        return HeadModel(body, module, name=config.id, class_names=list(result.classes))
    model = TorchModel(
        module,
        name=config.id,
        class_names=list(result.classes),
        prepare=_load_text_encoder(folder / TOKENS_FILE),
    )
    if has_frozen_body:
        get_architecture(config, shape.kind).share_body(model.module)
    return model


def _load_result(folder: Path) -> SavedResult:
    values = _read_json(folder, RESULT_FILE)
    known = [field.name for field in fields(SavedResult)]
    try:
        result: SavedResult = build(
            SavedResult, {key: values[key] for key in known if key in values}, "the result"
        )
    except InputError as error:
        raise _unreadable_error(folder, RESULT_FILE, error) from error
    return result


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads((folder / name).read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable_error(folder, name, error) from error
    if not isinstance(content, dict):
        raise _unreadable_error(folder, name, ValueError("it is not a JSON object"))
    return content


def _unreadable_error(folder: Path, name: str, error: Exception) -> InputError:
    reason = format_error(error, first_line=True)
    return InputError(
        f"Cannot read {name} of the model in {str(folder)!r}: {reason.rstrip('.')}. Remove the "
        "folder and train the model again."
    )


def _load_body_weights(
    module: Any, config: TrainingConfig, shape: InputShape, folder: Path
) -> dict[str, Array]:
    """Return the pretrained body's weights; raise if the pretrained weights have changed."""
    saved = (folder / BODY_FILE).read_text(encoding="ascii", errors="replace")
    if saved != frozen_body_fingerprint(config, shape.kind):
        place = get_architecture(config, shape.kind).pretrained_path
        raise InputError(
            f"The model in {str(folder)!r} is a head for the pretrained network that was in "
            f"{place!r}, which now holds another network. Restore the pretrained network, or train "
            "the model again."
        )
    head = head_parameters(module)
    weights = module.state_dict().items()
    return {name: weight.numpy() for name, weight in weights if name not in head}


def _load_text_encoder(file: Path) -> Callable[[Inputs], Array] | None:
    """Return a function from texts to token ids; None if the model does not classify texts."""
    if not file.is_file():
        return None
    tokenizer = Tokenizer.from_bytes(file.read_bytes())
    return lambda texts: tokenizer.trim_padding(tokenizer.encode(texts))


def _load_weights(folder: Path) -> dict[str, Array]:
    safetensors = require("safetensors.numpy", extra="torch", purpose="Loading a trained model")
    try:
        weights: dict[str, Array] = safetensors.load((folder / WEIGHTS_FILE).read_bytes())
    except Exception as error:
        raise _unreadable_error(folder, WEIGHTS_FILE, error) from error
    return weights


def _set_weights(module: Any, weights: Mapping[str, Array], folder: Path) -> None:
    # The arrays are copied, because safetensors returns read-only arrays.
    tensors = {name: torch_package().from_numpy(value.copy()) for name, value in weights.items()}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise _unreadable_error(folder, WEIGHTS_FILE, error) from error


# Failed trainings -------------------------------------------------------------------------------


def write_failure(
    pool: Path, name: str, config: Mapping[str, Any], reason: str, trace: str
) -> None:
    """Write the reason of a failed training; an earlier file for the same model is replaced."""
    path = _failure_path(pool, name)
    content = {"recipe": config, "reason": reason, "trace": trace}
    try:
        path.parent.mkdir(exist_ok=True)
        with atomic_write(path) as partial:
            partial.write_text(json.dumps(content, indent=2), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"Cannot write the failure of {name} ({reason}) to {str(path.parent)!r}: "
            f"{error.strerror or error}. Free space or allow writing there, and run again; "
            "finished models are kept."
        ) from error


def remove_failure(pool: Path, name: str) -> None:
    """Remove the file about a failed training, if present, after the model has been trained."""
    _failure_path(pool, name).unlink(missing_ok=True)


def read_reasons(pool: Path) -> dict[str, str]:
    """Return the reasons of all failed trainings, keyed by model id."""
    return {path.stem: _read_reason(path) for path in sorted((pool / FAILED_FOLDER).glob("*.json"))}


def _read_reason(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown: the file with the reason cannot be read"


def _failure_path(pool: Path, name: str) -> Path:
    return pool / FAILED_FOLDER / f"{name}.json"
