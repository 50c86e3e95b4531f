"""Cards that show the least and the most invariant examples in an HTML page.

Images are shown as thumbnails inside the page, and long texts are shortened.
"""

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

# Number of examples in each of the two groups, the least and the most invariant ones.
N_EXAMPLES = 6
# Maximum number of distinct inputs shown per neighborhood.
MAX_MEMBERS = 11
# Maximum length of a shown text.
MAX_TEXT_CHARS = 1200
# Length of the unchanged text that is shown before and after each change.
CONTEXT_CHARS = 70


@dataclass(frozen=True, eq=False)
class ExampleCard:
    """Example with the members of its neighborhood to show, as pictures or as text."""

    example: NeighborhoodExample
    members: tuple[NeighborhoodMember, ...]
    pictures: tuple[str, ...]
    diff: DiffTable

    @classmethod
    def from_example(cls, example: NeighborhoodExample) -> ExampleCard:
        """Select the members to show; render images as pictures and other inputs as text."""
        inputs = batches.take(example.inputs, slice(0, MAX_MEMBERS))
        is_image = batches.infer_kind(inputs) == "images"
        pictures = tuple(_png_data_url(thumbnail(image)) for image in inputs) if is_image else ()
        members = example.members[:MAX_MEMBERS]
        return cls(example, members, pictures, abridge_diff(diff_against_first(inputs)))

    @property
    def n_hidden_members(self) -> int:
        return len(self.example.members) - len(self.members)


@dataclass(frozen=True, eq=False)
class CardGroup:
    """Cards under one title; `n_tied` examples have the same value as the last card."""

    title: str
    cards: tuple[ExampleCard, ...]
    n_tied: int

    @property
    def n_tied_shown(self) -> int:
        last = self.cards[-1].example.value
        return sum(card.example.value == last for card in self.cards)


def build_card_groups(
    result: ModelInvariance, sampler: NeighborhoodSampler, measure: str, *, count: int = N_EXAMPLES
) -> list[CardGroup]:
    """Return a group of the least and a group of the most invariant examples.

    If all examples have the same value, there is only one group.
    """
    values = result.by_example(measure)
    order = _shuffled_unique_rows(result, sampler)
    if len(np.unique(values[order])) == 1:
        rows_by_title = {"Equally invariant examples": order[:count]}
    else:
        lowest, highest = lowest_and_highest(values, order, count)
        rows_by_title = {"Least invariant examples": lowest, "Most invariant examples": highest}
    groups = []
    for title, rows in rows_by_title.items():
        cards = tuple(
            ExampleCard.from_example(build_example([result], sampler, row, [values[row]]))
            for row in rows
        )
        groups.append(CardGroup(title, cards, int((values == values[rows[-1]]).sum())))
    return groups


def lowest_and_highest(values: Floats, order: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the rows with the lowest and those with the highest values, without overlap.

    The lowest and the highest value come first. Rows with equal values are in the given order.

    >>> lowest_and_highest(np.array([0.5, 1.0, 1.0, 0.2]), np.array([3, 2, 1, 0]), 1)
    (array([3]), array([2]))
    """
    n_lowest = min(count, -(-len(order) // 2))
    lowest = order[np.argsort(values[order], kind="stable")][:n_lowest]
    rest = order[~np.isin(order, lowest)]
    return lowest, rest[np.argsort(-values[rest], kind="stable")][:count]


def abridge_diff(diff_table: DiffTable) -> DiffTable:
    """Shorten long texts: keep the changes and some unchanged text around each change."""
    if diff_table.cell_kind != "words":
        return diff_table
    return replace(
        diff_table, rows=tuple(tuple(map(abridge_pieces, row)) for row in diff_table.rows)
    )


def abridge_pieces(pieces: Sequence[DiffPiece]) -> tuple[DiffPiece, ...]:
    """Omit long unchanged parts of a text, and cut the text at its maximum length.

    >>> unchanged = "this text is unchanged " * 10
    >>> pieces = abridge_pieces([DiffPiece(unchanged), DiffPiece(" new", "new")])
    >>> [piece.text for piece in pieces][:2]
    ['… ', 'this text is unchanged this text is unchanged this text is unchanged ']
    """
    last = len(pieces) - 1
    parts = [
        part
        for index, piece in enumerate(pieces)
        for part in ([piece] if piece.change or not last else _keep_context(piece, index, last))
    ]
    shown = []
    n_left = MAX_TEXT_CHARS
    for part in parts:
        shown.append(replace(part, text=part.text[: max(n_left, 0)]))
        n_left -= len(part.text)
    if n_left < 0:
        shown.append(DiffPiece(f" … and {-n_left:,} more characters", "aside"))
    return tuple(part for part in shown if part.text)


def _keep_context(piece: DiffPiece, index: int, last: int) -> list[DiffPiece]:
    """Shorten unchanged text: keep only the characters next to a change."""
    text = piece.text
    if len(text) <= 2 * CONTEXT_CHARS:
        return [piece]
    before = "" if index == 0 else text[:CONTEXT_CHARS].rpartition(" ")[0] or text[:CONTEXT_CHARS]
    after = (
        "" if index == last else text[-CONTEXT_CHARS:].partition(" ")[2] or text[-CONTEXT_CHARS:]
    )
    gap = " … " if before and after else " …" if before else "… "
    return [DiffPiece(before), DiffPiece(gap, "aside"), DiffPiece(after)]


def _shuffled_unique_rows(result: ModelInvariance, sampler: NeighborhoodSampler) -> Ints:
    """Return the rows of the result in random order, only one row per distinct input."""
    keys = sampler.dataset.keys[result.positions]
    order = shuffled_order(keys, sampler.seed)
    return order[np.sort(np.unique(keys[order], return_index=True)[1])]


def _png_data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
