"""The least and the most invariant examples in a page: pictures inlined, long texts abridged."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.neighborhood._neighborhood_sampler import Show
from oodometer.neighborhood.results import Invariance
from oodometer.neighborhood.sampling import visiting_order
from oodometer.report.image_grid import thumbnail
from oodometer.report.input_diff import Piece, Sheet, written
from oodometer.report.neighborhood_view import Example, Member, example_of

# So many of the least invariant examples are shown, and as many of the most.
COUNT = 6
# So many different inputs of a neighborhood are shown.
MOST_MEMBERS = 11
# So many letters of a text are shown, and so many beside a change.
LETTERS, BESIDE = 1200, 70


@dataclass(frozen=True, eq=False)
class Exhibit:
    """An example with those of its members that are shown: as pictures, or written out."""

    example: Example
    members: tuple[Member, ...]
    pictures: tuple[str, ...]
    sheet: Sheet

    @classmethod
    def of(cls, example: Example) -> Exhibit:
        """As its kind of inputs is shown."""
        inputs = batches.take(example.inputs, slice(0, MOST_MEMBERS))
        images = batches.kind_of(inputs) == "images"
        pictures = tuple(_address(thumbnail(image)) for image in inputs) if images else ()
        members = example.members[:MOST_MEMBERS]
        return cls(example, members, pictures, abridged(written(inputs)))

    @property
    def left_out(self) -> int:
        """How many different inputs are not shown."""
        return len(self.example.members) - len(self.members)


@dataclass(frozen=True, eq=False)
class Wall:
    """Examples of one end, and how many there are that have the value of the last of them."""

    title: str
    exhibits: tuple[Exhibit, ...]
    alike: int

    @property
    def shown(self) -> int:
        """How many of these are shown."""
        last = self.exhibits[-1].example.value
        return sum(one.example.value == last for one in self.exhibits)


def walls(found: Invariance, show: Show, measure: str, *, count: int = COUNT) -> list[Wall]:
    """The least and the most invariant examples; where all are equal, some of them."""
    values = found.by_example(measure)
    order = _order(found, show)
    if len(np.unique(values[order])) == 1:
        return [_wall("Equally invariant examples", found, show, values, order[:count])]
    lowest, highest = ends(values, order, count)
    made = [("The least invariant examples", lowest), ("The most invariant examples", highest)]
    return [_wall(title, found, show, values, rows) for title, rows in made]


def ends(values: Floats, order: Ints, count: int) -> tuple[Ints, Ints]:
    """Where the lowest and the highest values are, outermost first; equal ones in that order.

    None is in both.

    >>> ends(np.array([0.5, 1.0, 1.0, 0.2]), np.array([3, 2, 1, 0]), 1)
    (array([3]), array([2]))
    """
    some = min(count, -(-len(order) // 2))
    lowest = order[np.argsort(values[order], kind="stable")][:some]
    rest = order[~np.isin(order, lowest)]
    return lowest, rest[np.argsort(-values[rest], kind="stable")][:count]


def abridged(sheet: Sheet) -> Sheet:
    """Long texts cut down to what changed, and what stands beside it."""
    if sheet.form != "words":
        return sheet
    return replace(sheet, rows=tuple(tuple(map(shorter, row)) for row in sheet.rows))


def shorter(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """A text whose long unchanged parts are left out between changes, and the rest of which is cut.

    >>> kept = "all of this is as it was " * 10
    >>> [piece.text for piece in shorter([Piece(kept), Piece(" new", "new")])][:2]
    ['… ', 'this is as it was all of this is as it was all of this is as it was ']
    """
    last = len(pieces) - 1
    parts = [
        part
        for place, piece in enumerate(pieces)
        for part in ([piece] if piece.change or not last else _beside(piece, place, last))
    ]
    found, room = [], LETTERS
    for part in parts:
        found.append(replace(part, text=part.text[: max(room, 0)]))
        room -= len(part.text)
    if room < 0:
        found.append(Piece(f" … and {-room:,} more letters", "aside"))
    return tuple(part for part in found if part.text)


def _beside(piece: Piece, place: int, last: int) -> list[Piece]:
    """Of an unchanged part, what stands beside the changes before and after it."""
    text = piece.text
    if len(text) <= 2 * BESIDE:
        return [piece]
    before = "" if place == 0 else text[:BESIDE].rpartition(" ")[0] or text[:BESIDE]
    after = "" if place == last else text[-BESIDE:].partition(" ")[2] or text[-BESIDE:]
    gap = " … " if before and after else " …" if before else "… "
    return [Piece(before), Piece(gap, "aside"), Piece(after)]


def _wall(title: str, found: Invariance, show: Show, values: Floats, rows: Ints) -> Wall:
    exhibits = tuple(Exhibit.of(example_of([found], show, row, [values[row]])) for row in rows)
    return Wall(title, exhibits, int((values == values[rows[-1]]).sum()))


def _order(found: Invariance, show: Show) -> Ints:
    """Rows of the results in a random order, so that equal examples are not all neighbors.

    Of rows that have the same content, and so the same neighborhood, there is one.
    """
    keys = show.dataset.keys[found.positions]
    order = visiting_order(keys, show.seed)
    return order[np.sort(np.unique(keys[order], return_index=True)[1])]


def _address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
