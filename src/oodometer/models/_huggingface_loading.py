"""A tokenizer and a network from a local folder: nothing is fetched, and no code of it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.optional_imports import has_tokenizer, quiet_transformers, require


def load_pretrained(folder: Path, auto_class: str, *, purpose: str) -> tuple[Any, Any]:
    """The tokenizer and the network, by the class of transformers that opens such networks.

    A folder of another kind of network lacks weights, which would be made up at random.
    """
    local = {"local_files_only": True, "trust_remote_code": False}
    transformers = require("transformers", extra="hf", purpose=purpose.capitalize())
    # Only what is a folder: the name of none would be looked for among those fetched earlier.
    if not (folder / "config.json").is_file():
        raise invalid_folder_error(folder, purpose, "it has no config.json")
    try:
        with quiet_transformers():
            network, told = getattr(transformers, auto_class).from_pretrained(
                str(folder), use_safetensors=True, output_loading_info=True, **local
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
    except Exception as error:  # broken files raise whatever their reader does
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise invalid_folder_error(folder, purpose, lines[0].rstrip(".")) from error
    if told["missing_keys"]:
        raise invalid_folder_error(
            folder, purpose, f"it lacks the weights {min(map(str, told['missing_keys']))}"
        )
    if not has_tokenizer(folder):
        raise invalid_folder_error(folder, purpose, "it has no tokenizer")
    return tokenizer, network.eval()


def invalid_folder_error(folder: Path, purpose: str, reason: str) -> InputError:
    """What to say of a folder that is none of these."""
    return InputError(
        f"{str(folder)!r} can't be opened as {purpose}: {reason}. A folder with config.json, "
        "model.safetensors and tokenizer.json was expected. Save one there with save_pretrained."
    )
