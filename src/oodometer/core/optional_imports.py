"""The only door to optional packages."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oodometer.core.errors import MissingExtra

# How the files of tokenizers begin or end.
_TOKENIZER_FILE_PATTERNS = ("tokenizer*", "vocab*", "*.model", "*.spm")


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module, or say which extra brings it.

    >>> require("math", extra="maths", purpose="roots").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{purpose} needs the package {error.name!r}, which is not installed. "
            f'Install it with: pip install "oodometer[{extra}]"'
        ) from error


def torch_package() -> Any:
    """Import torch; a function, because torch takes seconds to import."""
    return require("torch", extra="torch", purpose="Running a torch network")


def opencv() -> Any:
    """Import OpenCV."""
    return require("cv2", extra="images", purpose="Processing images")


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder has a tokenizer's files; without any, transformers makes up an empty one."""
    return any(next(folder.glob(pattern), None) for pattern in _TOKENIZER_FILE_PATTERNS)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bar and no advice on the screen; as it was before, afterwards."""
    package = require("transformers", extra="hf", purpose="A Hugging Face model")
    logging = package.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
