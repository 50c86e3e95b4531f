"""Write a gallery: a folder with a page of the examples on which models are least invariant."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oodometer.core.errors import InputError, out_of_range
from oodometer.core.inputs import infer_kind
from oodometer.neighborhood.results import InvarianceResult
from oodometer.neighborhood.sampling import NeighborhoodSampler
from oodometer.report.image_grid import ImageCaption, draw_image_grid
from oodometer.report.input_diff import DiffTable, diff_against_first
from oodometer.report.neighborhood_view import (
    NeighborhoodExample,
    NeighborhoodMember,
    build_example,
    check_same_run,
    lowest_indices,
)
from oodometer.report.page import render_with_scripts

INDEX_FILE = "index.html"
# This element identifies the page of an earlier gallery; its images are identified by their names.
GALLERY_MARKER = '<div class="oodometer-gallery">'
_IMAGE_PATTERN = re.compile(r"example_\d{4,}\.png")


def write_gallery(
    folder: str | Path,
    neighborhoods: InvarianceResult,
    sampler: NeighborhoodSampler,
    *,
    count: int = 12,
    measure: str = "pa",
) -> int:
    """Write the neighborhoods of the `count` least invariant examples; return their number.

    The function writes the page `index.html` to the folder and, if the inputs are images, one
    picture per example. `sampler` must have the data, transform and seed of the result: the inputs
    are drawn again, and the classes on the page are those recorded in the result.
    """
    check_gallery_folder(folder)
    if count < 1:
        raise out_of_range("count", count, low=1)
    check_same_run(neighborhoods, sampler)
    values = np.stack([result.by_example(measure) for result in neighborhoods])
    items = [
        GalleryItem.from_example(
            build_example(neighborhoods.results, sampler, row, values[:, row].tolist())
        )
        for row in lowest_indices(values.mean(axis=0), count)
    ]
    context = {
        "title": f"Least invariant examples of {neighborhoods.data}",
        "result": neighborhoods,
        "items": items,
        "measure": neighborhoods.measure_label(measure),
        "marker": GALLERY_MARKER,
    }
    page = render_with_scripts("gallery.html", context, scripts=[])
    files = {item.picture_file: item.picture for item in items if item.picture is not None}
    # The page is the last file: it is replaced only after all of its images are in place.
    write_gallery_files(folder, {**files, INDEX_FILE: page.encode("utf-8", errors="replace")})
    return len(items)


@dataclass(frozen=True, eq=False)
class GalleryItem:
    """Example with its inputs as text or, for images, as a picture."""

    example: NeighborhoodExample
    diff: DiffTable
    picture: bytes | None

    @classmethod
    def from_example(cls, example: NeighborhoodExample) -> GalleryItem:
        """Mark the differences between the inputs of a neighborhood, or draw images."""
        picture = None
        if infer_kind(example.inputs) == "images":
            captions = [_image_caption(member) for member in example.members]
            picture = draw_image_grid(example.inputs, captions)
        return cls(example, diff_against_first(example.inputs), picture)

    @property
    def picture_file(self) -> str:
        return f"example_{self.example.position:04d}.png"


def _image_caption(member: NeighborhoodMember) -> ImageCaption:
    """Return the caption of an image: its draw, and the class that the first model predicts."""
    copies = f" x{member.n_copies}" if member.n_copies > 1 else ""
    decision = member.decisions[0]
    return ImageCaption(decision.ascii_text, member.name + copies, decision.is_changed)


def check_gallery_folder(folder: str | Path) -> None:
    """Raise if the folder is not writable or has files that do not belong to a gallery."""
    path = Path(folder)
    parent = path.resolve().parent
    if os.path.lexists(path) and not path.is_dir():
        raise InputError(f"{path} is not a folder. Give a new or an empty folder.")
    if not parent.is_dir():
        raise InputError(f"There is no folder {parent}. Create it, or choose another path.")
    if not os.access(path if path.is_dir() else parent, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"Cannot write {path}: Permission denied. Choose another path.")
    own_files = _gallery_files(path)
    other_files = _file_names(path) - own_files
    if other_files and (not own_files or any(map(_IMAGE_PATTERN.fullmatch, other_files))):
        raise InputError(
            f"{path} is not empty: {min(other_files)} does not belong to an earlier gallery. "
            "Give a new or an empty folder."
        )


def write_gallery_files(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a gallery to a folder, and delete an earlier gallery in it.

    All files are written to a temporary folder and then moved into place in the given order. Files
    of the earlier gallery that are no longer needed are deleted. If writing fails, a folder that
    did not exist before is removed, and an earlier gallery keeps its page.
    """
    folder = Path(folder)
    old_files = _gallery_files(folder)
    is_new = not folder.is_dir()
    # The temporary folder is inside the folder: the parent may be on another disk or not writable.
    temporary = folder / f".oodometer-{secrets.token_hex(8)}.tmp"
    obsolete = set(files) - old_files
    try:
        temporary.mkdir(parents=is_new)
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        for name in files:
            os.replace(temporary / name, folder / name)
        obsolete = old_files - set(files)
    except OSError as error:
        raise InputError(
            f"Cannot write {folder}: {error.strerror or error}. Choose another path."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            for name in obsolete:
                (folder / name).unlink(missing_ok=True)
            if is_new:  # rmdir does nothing but fail if the folder still has files
                folder.rmdir()


def _file_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _gallery_files(folder: Path) -> set[str]:
    """Return the names of the page and the images of an earlier gallery."""
    index = folder / INDEX_FILE
    if not index.is_file():
        return set()
    text = index.read_text(encoding="utf-8", errors="replace")
    if GALLERY_MARKER not in text:
        return set()
    return {INDEX_FILE, *re.findall(rf'<img src="({_IMAGE_PATTERN.pattern})"', text)}
