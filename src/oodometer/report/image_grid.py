"""A neighborhood of images as one picture: the original, its draws, and their classes below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oodometer.core.optional_imports import opencv

ImageArray = npt.NDArray[np.uint8]

# Small images are enlarged up to the first side, large ones made smaller down to the second.
ENLARGED_SIDE_PIXELS, MAX_SIDE_PIXELS = 128, 160
# In a page that holds hundreds of images, each is at most this long.
THUMBNAIL_SIDE_PIXELS = 96
MIN_CELL_PIXELS, GRID_WIDTH_PIXELS = 64, 960
FRAME_PIXELS, GAP_PIXELS, LINE_PIXELS = 4, 8, 16
# Okabe and Ito's vermilion, as OpenCV has its colours: blue, green, red.
VERMILION_BGR, TEXT_BGR, WHITE_LEVEL = (0, 94, 213), (30, 30, 30), 255


@dataclass(frozen=True)
class ImageCaption:
    """What stands below an image, and whether the image stands out."""

    first_line: str
    second_line: str
    has_frame: bool


def draw_image_grid(images: ImageArray, captions: Sequence[ImageCaption]) -> bytes:
    """Images side by side in rows, each with its caption, as a PNG file."""
    cells = [_draw_cell(image, caption) for image, caption in zip(images, captions, strict=True)]
    height, width = cells[0].shape[0] + GAP_PIXELS, cells[0].shape[1] + GAP_PIXELS
    across = min(max(GRID_WIDTH_PIXELS // width, 1), len(cells))
    down = -(-len(cells) // across)
    sheet = np.full(
        (GAP_PIXELS + down * height, GAP_PIXELS + across * width, 3), WHITE_LEVEL, dtype=np.uint8
    )
    for number, cell in enumerate(cells):
        top, left = GAP_PIXELS + number // across * height, GAP_PIXELS + number % across * width
        sheet[top : top + height - GAP_PIXELS, left : left + width - GAP_PIXELS] = cell
    return bytes(opencv().imencode(".png", sheet)[1])


def resize_for_display(image: ImageArray) -> ImageArray:
    """An image at a size to be looked at: enlarged by a whole number, or made smaller.

    >>> resize_for_display(np.zeros((8, 6), dtype=np.uint8)).shape
    (128, 96)
    """
    longest = max(image.shape[:2])
    if longest <= MAX_SIDE_PIXELS:
        factor = max(ENLARGED_SIDE_PIXELS // longest, 1)
        return image.repeat(factor, axis=0).repeat(factor, axis=1)
    return _shrink(image, MAX_SIDE_PIXELS)


def thumbnail(image: ImageArray) -> bytes:
    """An image as a small PNG file: a large one made smaller, a small one as it is."""
    shown = (
        _shrink(image, THUMBNAIL_SIDE_PIXELS)
        if max(image.shape[:2]) > THUMBNAIL_SIDE_PIXELS
        else image
    )
    pixels = shown if shown.ndim == 2 else shown[..., ::-1]
    return bytes(opencv().imencode(".png", pixels, (opencv().IMWRITE_PNG_COMPRESSION, 9))[1])


def _shrink(image: ImageArray, side: int) -> ImageArray:
    """An image whose longer side has so many pixels, each the mean of those it stands for."""
    height, width = image.shape[:2]
    size = [max(round(one * side / max(height, width)), 1) for one in (width, height)]
    whole = np.ascontiguousarray(image)
    made: ImageArray = opencv().resize(whole, size, interpolation=opencv().INTER_AREA)
    return made


def _draw_cell(image: ImageArray, caption: ImageCaption) -> ImageArray:
    """An image in a frame, seen or not, over two lines of text."""
    shown = resize_for_display(image)
    height, width = (
        shown.shape[0] + 2 * FRAME_PIXELS,
        max(shown.shape[1], MIN_CELL_PIXELS) + 2 * FRAME_PIXELS,
    )
    cell = np.full((height + 2 * LINE_PIXELS, width, 3), WHITE_LEVEL, dtype=np.uint8)
    if caption.has_frame:
        cell[:height] = VERMILION_BGR
    left = (width - shown.shape[1]) // 2
    # Grey has one channel, which all three take; colours are red first in memory, blue first here.
    cell[FRAME_PIXELS : height - FRAME_PIXELS, left : left + shown.shape[1]] = (
        shown[..., None] if shown.ndim == 2 else shown[..., ::-1]
    )
    for line, text in enumerate((caption.first_line, caption.second_line), start=1):
        _draw_text(cell, text, height + line * LINE_PIXELS - 4)
    return cell


def _draw_text(cell: ImageArray, text: str, baseline: int) -> None:
    """A line of text, cut where the cell ends."""
    cv2 = opencv()
    style = cv2.FONT_HERSHEY_SIMPLEX, 0.4
    # No more characters than this fit any cell, and a name may have thousands.
    fit = text[:100]
    while cv2.getTextSize(fit, *style, 1)[0][0] > cell.shape[1]:
        fit = fit.removesuffix("..")[:-1] + ".."
    cv2.putText(cell, fit, (0, baseline), *style, TEXT_BGR, 1, cv2.LINE_AA)
