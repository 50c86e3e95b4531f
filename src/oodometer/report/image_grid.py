"""A neighborhood of images as one picture: the original, its draws, and their classes below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.optional_imports import require

Picture = npt.NDArray[np.uint8]

# Small images are enlarged up to the first side, large ones made smaller down to the second.
SMALL, LARGE = 128, 160
# In a page that holds hundreds of images, each is at most this long.
THUMB = 96
NARROWEST, WIDTH = 64, 960
FRAME, GAP, LINE = 4, 8, 16
# Okabe and Ito's vermilion, as OpenCV has its colours: blue, green, red.
VERMILION, INK, WHITE = (0, 94, 213), (30, 30, 30), 255


@dataclass(frozen=True)
class Caption:
    """What stands below an image, and whether the image stands out."""

    above: str
    below: str
    framed: bool


def grid(images: Picture, captions: Sequence[Caption]) -> bytes:
    """Images side by side in rows, each with its caption, as a PNG file."""
    cells = [_cell(image, caption) for image, caption in zip(images, captions, strict=True)]
    height, width = cells[0].shape[0] + GAP, cells[0].shape[1] + GAP
    across = min(max(WIDTH // width, 1), len(cells))
    down = -(-len(cells) // across)
    sheet = np.full((GAP + down * height, GAP + across * width, 3), WHITE, dtype=np.uint8)
    for number, cell in enumerate(cells):
        top, left = GAP + number // across * height, GAP + number % across * width
        sheet[top : top + height - GAP, left : left + width - GAP] = cell
    return bytes(_cv2().imencode(".png", sheet)[1])


def scaled(image: Picture) -> Picture:
    """An image at a size to be looked at: enlarged by a whole number, or made smaller.

    >>> scaled(np.zeros((8, 6), dtype=np.uint8)).shape
    (128, 96)
    """
    longest = max(image.shape[:2])
    if longest <= LARGE:
        factor = max(SMALL // longest, 1)
        return image.repeat(factor, axis=0).repeat(factor, axis=1)
    return _reduced(image, LARGE)


def thumbnail(image: Picture) -> bytes:
    """An image as a small PNG file: a large one made smaller, a small one as it is."""
    shown = _reduced(image, THUMB) if max(image.shape[:2]) > THUMB else image
    pixels = shown if shown.ndim == 2 else shown[..., ::-1]
    return bytes(_cv2().imencode(".png", pixels, (_cv2().IMWRITE_PNG_COMPRESSION, 9))[1])


def _reduced(image: Picture, side: int) -> Picture:
    """An image whose longer side has so many pixels, each the mean of those it stands for."""
    height, width = image.shape[:2]
    size = [max(round(one * side / max(height, width)), 1) for one in (width, height)]
    whole = np.ascontiguousarray(image)
    made: Picture = _cv2().resize(whole, size, interpolation=_cv2().INTER_AREA)
    return made


def _cell(image: Picture, caption: Caption) -> Picture:
    """An image in a frame, seen or not, over two lines of text."""
    shown = scaled(image)
    height, width = shown.shape[0] + 2 * FRAME, max(shown.shape[1], NARROWEST) + 2 * FRAME
    cell = np.full((height + 2 * LINE, width, 3), WHITE, dtype=np.uint8)
    if caption.framed:
        cell[:height] = VERMILION
    left = (width - shown.shape[1]) // 2
    # Grey has one channel, which all three take; colours are red first in memory, blue first here.
    cell[FRAME : height - FRAME, left : left + shown.shape[1]] = (
        shown[..., None] if shown.ndim == 2 else shown[..., ::-1]
    )
    for line, text in enumerate((caption.above, caption.below), start=1):
        _write(cell, text, height + line * LINE - 4)
    return cell


def _write(cell: Picture, text: str, baseline: int) -> None:
    """A line of text, cut where the cell ends."""
    cv2 = _cv2()
    style = cv2.FONT_HERSHEY_SIMPLEX, 0.4
    # No more characters than this fit any cell, and a name may have thousands.
    fit = text[:100]
    while cv2.getTextSize(fit, *style, 1)[0][0] > cell.shape[1]:
        fit = fit.removesuffix("..")[:-1] + ".."
    cv2.putText(cell, fit, (0, baseline), *style, INK, 1, cv2.LINE_AA)


def _cv2() -> Any:
    return require("cv2", extra="images", purpose="A picture of a neighborhood")
