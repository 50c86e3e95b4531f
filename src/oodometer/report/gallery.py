"""A folder to look at: the neighborhoods of the examples that models are least invariant on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import infer_kind
from oodometer.neighborhood._neighborhood_sampler import NeighborhoodSampler
from oodometer.neighborhood.results import InvarianceResult
from oodometer.report._gallery_folder import (
    GALLERY_MARKER,
    INDEX_FILE,
    check_gallery_folder,
    write_gallery_files,
)
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
