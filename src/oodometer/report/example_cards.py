"""The least and the most invariant examples in a page: pictures inlined, long texts abridged."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.array_types import Floats, Ints
from oodometer.neighborhood.results import ModelInvariance
from oodometer.neighborhood.sampling import NeighborhoodSampler, shuffled_order
from oodometer.report.image_grid import thumbnail
from oodometer.report.input_diff import DiffPiece, DiffTable, diff_against_first
from oodometer.report.neighborhood_view import (
    NeighborhoodExample,
    NeighborhoodMember,
    build_example,
)

# So many of the least invariant examples are shown, and as many of the most.
N_EXAMPLES = 6
# So many different inputs of a neighborhood are shown.
MAX_MEMBERS = 11
# So many letters of a text are shown, and so many beside a change.
MAX_TEXT_CHARS, CONTEXT_CHARS = 1200, 70


@dataclass(frozen=True, eq=False)
class ExampleCard:
    """An example with those of its members that are shown: as pictures, or written out."""

    example: NeighborhoodExample
    members: tuple[NeighborhoodMember, ...]
    pictures: tuple[str, ...]
    diff: DiffTable

    @classmethod
    def from_example(cls, example: NeighborhoodExample) -> ExampleCard:
        """As its kind of inputs is shown."""
        inputs = batches.take(example.inputs, slice(0, MAX_MEMBERS))
        images = batches.infer_kind(inputs) == "images"
        pictures = tuple(_png_data_url(thumbnail(image)) for image in inputs) if images else ()
        members = example.members[:MAX_MEMBERS]
        return cls(example, members, pictures, abridge_diff(diff_against_first(inputs)))

    @property
    def n_hidden_members(self) -> int:
        """How many different inputs are not shown."""
        return len(self.example.members) - len(self.members)


@dataclass(frozen=True, eq=False)
class ExampleRow:
    """Examples of one end, and how many there are that have the value of the last of them."""

    title: str
    cards: tuple[ExampleCard, ...]
    n_tied: int

    @property
    def n_tied_shown(self) -> int:
        """How many of these are shown."""
        last = self.cards[-1].example.value
        return sum(one.example.value == last for one in self.cards)


def build_card_groups(
    result: ModelInvariance, sampler: NeighborhoodSampler, measure: str, *, count: int = N_EXAMPLES
) -> list[ExampleRow]:
    """The least and the most invariant examples; where all are equal, some of them."""
    values = result.by_example(measure)
    order = _shuffled_unique_rows(result, sampler)
    if len(np.unique(values[order])) == 1:
        return [_card_group("Equally invariant examples", result, sampler, values, order[:count])]
    lowest, highest = lowest_and_highest(values, order, count)
    made = [("The least invariant examples", lowest), ("The most invariant examples", highest)]
    return [_card_group(title, result, sampler, values, rows) for title, rows in made]


def lowest_and_highest(values: Floats, order: Ints, count: int) -> tuple[Ints, Ints]:
    """Where the lowest and the highest values are, outermost first; equal ones in that order.

    None is in both.

    >>> lowest_and_highest(np.array([0.5, 1.0, 1.0, 0.2]), np.array([3, 2, 1, 0]), 1)
    (array([3]), array([2]))
    """
    some = min(count, -(-len(order) // 2))
    lowest = order[np.argsort(values[order], kind="stable")][:some]
    rest = order[~np.isin(order, lowest)]
    return lowest, rest[np.argsort(-values[rest], kind="stable")][:count]


def abridge_diff(diff_table: DiffTable) -> DiffTable:
    """Long texts cut down to what changed, and what stands beside it."""
    if diff_table.cell_kind != "words":
        return diff_table
    return replace(
        diff_table, rows=tuple(tuple(map(abridge_pieces, row)) for row in diff_table.rows)
    )


def abridge_pieces(pieces: Sequence[DiffPiece]) -> tuple[DiffPiece, ...]:
    """A text whose long unchanged parts are left out between changes, and the rest of which is cut.

    >>> kept = "all of this is as it was " * 10
    >>> [piece.text for piece in abridge_pieces([DiffPiece(kept), DiffPiece(" new", "new")])][:2]
    ['… ', 'this is as it was all of this is as it was all of this is as it was ']
    """
    last = len(pieces) - 1
    parts = [
        part
        for place, piece in enumerate(pieces)
        for part in ([piece] if piece.change or not last else _keep_context(piece, place, last))
    ]
    found, room = [], MAX_TEXT_CHARS
    for part in parts:
        found.append(replace(part, text=part.text[: max(room, 0)]))
        room -= len(part.text)
    if room < 0:
        found.append(DiffPiece(f" … and {-room:,} more letters", "aside"))
    return tuple(part for part in found if part.text)


def _keep_context(piece: DiffPiece, index: int, last: int) -> list[DiffPiece]:
    """Of an unchanged part, what stands beside the changes before and after it."""
    text = piece.text
    if len(text) <= 2 * CONTEXT_CHARS:
        return [piece]
    before = "" if index == 0 else text[:CONTEXT_CHARS].rpartition(" ")[0] or text[:CONTEXT_CHARS]
    after = (
        "" if index == last else text[-CONTEXT_CHARS:].partition(" ")[2] or text[-CONTEXT_CHARS:]
    )
    gap = " … " if before and after else " …" if before else "… "
    return [DiffPiece(before), DiffPiece(gap, "aside"), DiffPiece(after)]


def _card_group(
    title: str, result: ModelInvariance, sampler: NeighborhoodSampler, values: Floats, rows: Ints
) -> ExampleRow:
    exhibits = tuple(
        ExampleCard.from_example(build_example([result], sampler, row, [values[row]]))
        for row in rows
    )
    return ExampleRow(title, exhibits, int((values == values[rows[-1]]).sum()))


def _shuffled_unique_rows(result: ModelInvariance, sampler: NeighborhoodSampler) -> Ints:
    """Rows of the results in a random order, so that equal examples are not all neighbors.

    Of rows that have the same content, and so the same neighborhood, there is one.
    """
    keys = sampler.dataset.keys[result.positions]
    order = shuffled_order(keys, sampler.seed)
    return order[np.sort(np.unique(keys[order], return_index=True)[1])]


def _png_data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
