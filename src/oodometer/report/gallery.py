"""A folder to look at: the neighborhoods of the examples that models are least invariant on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import kind_of
from oodometer.neighborhood._neighborhood_sampler import Show
from oodometer.neighborhood.results import Neighborhoods
from oodometer.report._gallery_folder import INDEX, MARK, check_folder, put_files
from oodometer.report.image_grid import Caption, grid
from oodometer.report.input_diff import Sheet, written
from oodometer.report.neighborhood_view import Example, Member, check_same, example_of, least
from oodometer.report.page import FOLDER, environment


@dataclass(frozen=True, eq=False)
class Hung:
    """An example as it is shown: written out, and for images a picture."""

    example: Example
    sheet: Sheet
    picture: bytes | None

    @classmethod
    def of(cls, example: Example) -> Hung:
        """As its kind of inputs is shown."""
        images = kind_of(example.inputs) == "images"
        captions = map(_caption, example.members)
        picture = grid(example.inputs, list(captions)) if images else None
        return cls(example, written(example.inputs), picture)

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"example_{self.example.position:04d}.png"


def write_gallery(
    folder: str | Path, found: Neighborhoods, show: Show, *, count: int = 12, measure: str = "pa"
) -> int:
    """Write the neighborhoods of the `count` least invariant examples; gives how many there are.

    `show` is what `found` was made with: the inputs are drawn again from the same seed, and have
    the classes that were counted. The folder then has a page `index.html`, and for images a picture
    an example.
    """
    check_folder(folder)
    if count < 1:
        raise InputError(f"count must be 1 or more; got {count}. Give how many examples to write.")
    check_same(found, show)
    values = np.stack([one.by_example(measure) for one in found])
    chosen = least(values.mean(axis=0), count)
    hung = [
        Hung.of(example_of(found.results, show, row, values[:, row].tolist())) for row in chosen
    ]
    files = {one.file: one.picture for one in hung if one.picture is not None}
    page = _page(found, hung, measure).encode("utf-8", errors="replace")
    put_files(folder, {**files, INDEX: page})
    return len(hung)


def _caption(member: Member) -> Caption:
    """What stands below its image: what the first model says."""
    times = f" x{member.times}" if member.times > 1 else ""
    first = member.decisions[0]
    return Caption(first.plain, member.name + times, first.moved)


def _page(found: Neighborhoods, hung: list[Hung], measure: str) -> str:
    """The page that shows them all."""
    # Imported here, so that a command without a page starts without it.
    from markupsafe import Markup

    context = {
        "title": f"Least invariant examples of {found.data}",
        "found": found,
        "hung": hung,
        "measure": found.named(measure),
        "mark": Markup(MARK),
        "style": Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        "scripts": [],
        "allowed": "'none'",
    }
    return environment().get_template("gallery.html").render(context)
