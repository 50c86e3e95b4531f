"""The folder of a gallery: written whole, and nothing touched in it that is not the gallery's."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from oodometer.core.errors import InputError

INDEX_FILE = "index.html"
# By this a page of ours is known again, and by their names the pictures that it shows.
GALLERY_MARKER = '<div class="oodometer-gallery">'
_PICTURE_PATTERN = re.compile(r"example_\d{4,}\.png")


def check_gallery_folder(folder: str | Path) -> None:
    """Refuse a folder that a gallery can't be written to without touching another's files."""
    path = Path(folder)
    if os.path.lexists(path) and not path.is_dir():
        raise InputError(f"{path} is not a folder. Give the name of a new or an empty folder.")
    if not path.resolve().parent.is_dir():
        raise InputError(
            f"There is no folder {path.resolve().parent}. Make it first, or write elsewhere."
        )
    if not os.access(path if path.is_dir() else path.resolve().parent, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"{path} can't be written: Permission denied. Choose another place.")
    own = _gallery_files(path)
    strangers = _file_names(path) - own
    if strangers and (not own or any(map(_PICTURE_PATTERN.fullmatch, strangers))):
        raise InputError(
            f"{path} is not empty: {min(strangers)} in it is of no earlier gallery. "
            "Give the name of a new or an empty folder."
        )


def write_gallery_files(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write all files aside, then move them into place, the last one last; drop an earlier gallery's.

    Where that fails, a new folder is gone again, and an earlier gallery has its page.
    """
    folder = Path(folder)
    old, made = _gallery_files(folder), not folder.is_dir()
    # Inside the folder, as what is beside it may be another disk, or not ours to write to.
    aside = folder / f".oodometer-{secrets.token_hex(8)}.tmp"
    superfluous = set(files) - old
    try:
        aside.mkdir(parents=made)
        for name, content in files.items():
            (aside / name).write_bytes(content)
        for name in files:
            os.replace(aside / name, folder / name)
        superfluous = old - set(files)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{folder} can't be written: {why}. Choose another place.") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):
            for name in superfluous:
                (folder / name).unlink(missing_ok=True)
            if made:  # A folder that has files is not removed by this.
                folder.rmdir()


def _file_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _gallery_files(folder: Path) -> set[str]:
    """The files of an earlier gallery: its page, and the pictures that the page shows."""
    index = folder / INDEX_FILE
    if not index.is_file():
        return set()
    text = index.read_text(encoding="utf-8", errors="replace")
    if GALLERY_MARKER not in text:
        return set()
    return {INDEX_FILE, *re.findall(rf'<img src="({_PICTURE_PATTERN.pattern})"', text)}
