"""Draw an image and its transformed copies, with captions, as one PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oodometer.core.optional_imports import opencv

ImageArray = npt.NDArray[np.uint8]

# A small image is enlarged until its longer side has about the first number of pixels. A large
# image is reduced until its longer side has the second number of pixels.
ENLARGED_SIDE_PIXELS = 128
MAX_SIDE_PIXELS = 160
# Longer side of an image inside an HTML page, which may contain hundreds of images.
THUMBNAIL_SIDE_PIXELS = 96
MIN_CELL_PIXELS = 64
GRID_WIDTH_PIXELS = 960
FRAME_PIXELS = 4
GAP_PIXELS = 8
LINE_PIXELS = 16
# Colors are in OpenCV's order: blue, green, red. Vermilion is a color of Okabe and Ito.
VERMILION_BGR = (0, 94, 213)
TEXT_BGR = (30, 30, 30)
WHITE_LEVEL = 255


@dataclass(frozen=True)
class ImageCaption:
    """Two lines of text below an image, and whether the image has a colored frame."""

    first_line: str
    second_line: str
    has_frame: bool


def draw_image_grid(images: ImageArray, captions: Sequence[ImageCaption]) -> bytes:
    """Return a PNG that shows all images in a grid, each above its caption."""
    cells = [_draw_cell(image, caption) for image, caption in zip(images, captions, strict=True)]
    height = cells[0].shape[0] + GAP_PIXELS
    width = cells[0].shape[1] + GAP_PIXELS
    n_columns = min(max(GRID_WIDTH_PIXELS // width, 1), len(cells))
    n_rows = -(-len(cells) // n_columns)
    shape = (GAP_PIXELS + n_rows * height, GAP_PIXELS + n_columns * width, 3)
    grid = np.full(shape, WHITE_LEVEL, dtype=np.uint8)
    for number, cell in enumerate(cells):
        top = GAP_PIXELS + number // n_columns * height
        left = GAP_PIXELS + number % n_columns * width
        grid[top : top + height - GAP_PIXELS, left : left + width - GAP_PIXELS] = cell
    return bytes(opencv().imencode(".png", grid)[1])


def resize_for_display(image: ImageArray) -> ImageArray:
    """Enlarge a small image by an integer factor, or reduce a large one.

    >>> resize_for_display(np.zeros((8, 6), dtype=np.uint8)).shape
    (128, 96)
    """
    longest = max(image.shape[:2])
    if longest <= MAX_SIDE_PIXELS:
        factor = max(ENLARGED_SIDE_PIXELS // longest, 1)
        return image.repeat(factor, axis=0).repeat(factor, axis=1)
    return _shrink(image, MAX_SIDE_PIXELS)


def thumbnail(image: ImageArray) -> bytes:
    """Return an image as PNG, reduced if it is larger than a thumbnail."""
    if max(image.shape[:2]) > THUMBNAIL_SIDE_PIXELS:
        image = _shrink(image, THUMBNAIL_SIDE_PIXELS)
    pixels = image if image.ndim == 2 else image[..., ::-1]
    return bytes(opencv().imencode(".png", pixels, (opencv().IMWRITE_PNG_COMPRESSION, 9))[1])


def _shrink(image: ImageArray, side: int) -> ImageArray:
    """Reduce an image by averaging areas until its longer side has `side` pixels."""
    height, width = image.shape[:2]
    size = [max(round(length * side / max(height, width)), 1) for length in (width, height)]
    reduced: ImageArray = opencv().resize(
        np.ascontiguousarray(image), size, interpolation=opencv().INTER_AREA
    )
    return reduced


def _draw_cell(image: ImageArray, caption: ImageCaption) -> ImageArray:
    """Return an image in a white or colored frame, above two lines of text."""
    resized = resize_for_display(image)
    height = resized.shape[0] + 2 * FRAME_PIXELS
    width = max(resized.shape[1], MIN_CELL_PIXELS) + 2 * FRAME_PIXELS
    cell = np.full((height + 2 * LINE_PIXELS, width, 3), WHITE_LEVEL, dtype=np.uint8)
    if caption.has_frame:
        cell[:height] = VERMILION_BGR
    left = (width - resized.shape[1]) // 2
    # A grey image has one channel, which is repeated. Colors are RGB in memory and BGR in OpenCV.
    cell[FRAME_PIXELS : height - FRAME_PIXELS, left : left + resized.shape[1]] = (
        resized[..., None] if resized.ndim == 2 else resized[..., ::-1]
    )
    for line, text in enumerate((caption.first_line, caption.second_line), start=1):
        _draw_text(cell, text, height + line * LINE_PIXELS - 4)
    return cell


def _draw_text(cell: ImageArray, text: str, baseline: int) -> None:
    """Draw a line of text and cut it off at the width of the cell."""
    cv2 = opencv()
    style = cv2.FONT_HERSHEY_SIMPLEX, 0.4
    # No cell has room for 100 characters. A name may have thousands, and cutting them off one by
    # one would be slow.
    text = text[:100]
    while cv2.getTextSize(text, *style, 1)[0][0] > cell.shape[1]:
        text = text.removesuffix("..")[:-1] + ".."
    cv2.putText(cell, text, (0, baseline), *style, TEXT_BGR, 1, cv2.LINE_AA)
