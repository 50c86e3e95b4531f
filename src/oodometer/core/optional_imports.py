"""Import an optional package, or raise an error that names the extra to install."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oodometer.core.errors import MissingExtra

# Glob patterns of tokenizer files.
_TOKENIZER_FILE_PATTERNS = ("tokenizer*", "vocab*", "*.model", "*.spm")


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module; raise `MissingExtra`, which names the extra, if it is missing.

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
    """Import torch on demand, because importing torch takes seconds."""
    return require("torch", extra="torch", purpose="Running a torch network")


def opencv() -> Any:
    """Import OpenCV."""
    return require("cv2", extra="images", purpose="Processing images")


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder has tokenizer files; otherwise transformers creates an empty one."""
    return any(next(folder.glob(pattern), None) for pattern in _TOKENIZER_FILE_PATTERNS)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Disable the progress bars and warnings of transformers."""
    package = require("transformers", extra="hf", purpose="A Hugging Face model")
    logging = package.utils.logging
    level = logging.get_verbosity()
    had_progress_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_progress_bar:
            logging.enable_progress_bar()
