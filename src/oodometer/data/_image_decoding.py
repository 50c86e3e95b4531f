"""Image files to arrays, with OpenCV."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.optional_imports import require

Pixels = npt.NDArray[np.uint8]


def opencv() -> Any:
    """The image library, which is an extra."""
    return require("cv2", extra="images", purpose="Reading images")


@contextmanager
def silence_opencv() -> Iterator[None]:
    """OpenCV writes nothing of a broken file on the screen: we say it ourselves."""
    log = opencv().utils.logging
    before = log.getLogLevel()
    log.setLogLevel(log.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        log.setLogLevel(before)


def decode_image(content: bytes) -> Pixels | None:
    """(height, width) of a grey image, (height, width, RGB) of any other; None if it is broken.

    The camera's orientation is followed, 16 bits become 8, transparency is dropped.
    """
    cv2 = opencv()
    if not content:
        return None
    try:
        pixels = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_ANYCOLOR)
    except cv2.error:
        return None
    if pixels is None or pixels.ndim == 2:
        return pixels  # type: ignore[no-any-return]
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)  # type: ignore[no-any-return]


def to_rgb(pixels: Pixels) -> Pixels:
    """(height, width, 3), grey three times over if it has no colour."""
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def resize_and_crop(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Scaled until it just covers the size, and cut around the centre."""
    cv2 = opencv()
    height, width = pixels.shape[:2]
    scale = max(size[0] / height, size[1] / width)
    if scale != 1.0:
        covering = [max(round(scale * n), m) for n, m in zip((height, width), size, strict=True)]
        how = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_LINEAR
        pixels = cv2.resize(pixels, covering[::-1], interpolation=how)
    top, left = (pixels.shape[0] - size[0]) // 2, (pixels.shape[1] - size[1]) // 2
    return pixels[top : top + size[0], left : left + size[1]]
