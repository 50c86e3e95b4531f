"""A folder to look at: the neighborhoods of the examples that models are least invariant on."""

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

from oodometer.core.errors import InputError
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
from oodometer.report.page import TEMPLATE_FOLDER, jinja_environment

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


@dataclass(frozen=True, eq=False)
class GalleryItem:
    """An example as it is shown: written out, and for images a picture."""

    example: NeighborhoodExample
    diff: DiffTable
    picture: bytes | None

    @classmethod
    def from_example(cls, example: NeighborhoodExample) -> GalleryItem:
        """As its kind of inputs is shown."""
        images = infer_kind(example.inputs) == "images"
        captions = map(_image_caption, example.members)
        picture = draw_image_grid(example.inputs, list(captions)) if images else None
        return cls(example, diff_against_first(example.inputs), picture)

    @property
    def picture_file(self) -> str:
        """The name of its picture."""
        return f"example_{self.example.position:04d}.png"


def write_gallery(
    folder: str | Path,
    neighborhoods: InvarianceResult,
    sampler: NeighborhoodSampler,
    *,
    count: int = 12,
    measure: str = "pa",
) -> int:
    """Write the neighborhoods of the `count` least invariant examples; gives how many there are.

    `sampler` is what `neighborhoods` was made with: the inputs are drawn again from the same seed, and have
    the classes that were counted. The folder then has a page `index.html`, and for images a picture
    an example.
    """
    check_gallery_folder(folder)
    if count < 1:
        raise InputError(f"count must be 1 or more; got {count}. Give how many examples to write.")
    check_same_run(neighborhoods, sampler)
    values = np.stack([one.by_example(measure) for one in neighborhoods])
    chosen = lowest_indices(values.mean(axis=0), count)
    hung = [
        GalleryItem.from_example(
            build_example(neighborhoods.results, sampler, row, values[:, row].tolist())
        )
        for row in chosen
    ]
    files = {one.picture_file: one.picture for one in hung if one.picture is not None}
    page = _render_page(neighborhoods, hung, measure).encode("utf-8", errors="replace")
    write_gallery_files(folder, {**files, INDEX_FILE: page})
    return len(hung)


def _image_caption(member: NeighborhoodMember) -> ImageCaption:
    """What stands below its image: what the first model says."""
    times = f" x{member.n_copies}" if member.n_copies > 1 else ""
    first = member.decisions[0]
    return ImageCaption(first.ascii_text, member.name + times, first.is_changed)


def _render_page(neighborhoods: InvarianceResult, entries: list[GalleryItem], measure: str) -> str:
    """The page that shows them all."""
    # Imported here, so that a command without a page starts without it.
    from markupsafe import Markup

    context = {
        "title": f"Least invariant examples of {neighborhoods.data}",
        "found": neighborhoods,
        "hung": entries,
        "measure": neighborhoods.measure_label(measure),
        "mark": Markup(GALLERY_MARKER),
        "style": Markup((TEMPLATE_FOLDER / "page.css").read_text(encoding="utf-8")),
        "scripts": [],
        "allowed": "'none'",
    }
    return jinja_environment().get_template("gallery.html").render(context)
