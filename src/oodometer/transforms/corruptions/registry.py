"""Registry of the image corruptions and their severities, by name and by group.

The corruptions are implemented from the paper's description, so error rates differ from those on
the published corrupted datasets. Sizes are fractions of the image's shorter side, so that a
severity has the same meaning at 32 × 32 and at 224 × 224 pixels. Noise, however, is independent per
pixel and harms small images more than large ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.errors import InputError, UnknownName, wrong_shape
from oodometer.core.inputs import Inputs
from oodometer.core.random_streams import RowStreams
from oodometer.core.softmax_kernels import row_blocks
from oodometer.transforms.corruptions import blur, digital, noise, weather
from oodometer.transforms.corruptions.noise import Images
from oodometer.transforms.images import drop_gray_channel, require_images

SEVERITIES = (1, 2, 3, 4, 5)

RandomCorruption = Callable[[Images, float, RowStreams], Images]
DeterministicCorruption = Callable[[Images, float], Images]


class CorruptionDefinition(NamedTuple):
    """Definition of a corruption: its function and the amount for each severity.

    Parameters
    ----------
    group : {"noise", "blur", "weather", "digital"}
        Group of the corruption.
    function : callable
        Function that takes images, an amount and random streams, and returns corrupted images.
    amounts : tuple of five float
        Amount for each severity, in the corruption's own unit.
    """

    group: str
    function: RandomCorruption
    amounts: tuple[float, float, float, float, float]


def _ignore_draws(function: DeterministicCorruption) -> RandomCorruption:
    """Give a deterministic corruption the signature of a random one."""
    return lambda images, amount, _: function(images, amount)


# Severity 3 is about as strong as in the published datasets. Where the datasets of 32 and of 224
# pixels differ in strength, it is between the two. At severity 5, people still recognize most
# images.
CORRUPTIONS: dict[str, CorruptionDefinition] = {
    # The amount is the standard deviation as a fraction of the range of pixel values.
    "gaussian_noise": CorruptionDefinition("noise", noise.gaussian, (0.04, 0.07, 0.11, 0.15, 0.20)),
    # The amount is the mean number of photons on a white pixel.
    "shot_noise": CorruptionDefinition("noise", noise.shot, (180, 80, 35, 20, 12)),
    # The amount is the fraction of values that are replaced.
    "impulse_noise": CorruptionDefinition("noise", noise.impulse, (0.015, 0.03, 0.05, 0.085, 0.14)),
    # The amount is the standard deviation as a fraction of the pixel value.
    "speckle_noise": CorruptionDefinition("noise", noise.speckle, (0.09, 0.14, 0.20, 0.27, 0.36)),
    # The amounts of the first three blurs are the standard deviation, the radius and the length, as
    # fractions of the shorter side. The amount of zoom blur is the largest enlargement minus 1.
    "gaussian_blur": CorruptionDefinition(
        "blur", _ignore_draws(blur.gaussian), (0.008, 0.012, 0.017, 0.023, 0.031)
    ),
    "defocus_blur": CorruptionDefinition(
        "blur", _ignore_draws(blur.defocus), (0.014, 0.020, 0.028, 0.038, 0.050)
    ),
    "motion_blur": CorruptionDefinition("blur", blur.motion, (0.05, 0.075, 0.105, 0.14, 0.18)),
    "zoom_blur": CorruptionDefinition(
        "blur", _ignore_draws(blur.zoom), (0.06, 0.10, 0.14, 0.19, 0.25)
    ),
    # The amount of fog and frost is the largest opacity.
    "fog": CorruptionDefinition("weather", weather.fog, (0.30, 0.42, 0.55, 0.68, 0.80)),
    "frost": CorruptionDefinition("weather", weather.frost, (0.30, 0.42, 0.55, 0.68, 0.82)),
    # The amount of snow is the fraction of the noise's range that becomes flakes. The amount of
    # brightness is the increase as a fraction of the range of pixel values.
    "snow": CorruptionDefinition("weather", weather.snow, (0.18, 0.23, 0.28, 0.33, 0.38)),
    "brightness": CorruptionDefinition(
        "weather", _ignore_draws(weather.brightness), (0.07, 0.14, 0.21, 0.28, 0.36)
    ),
    # The amount is the remaining contrast, as a fraction of the original contrast.
    "contrast": CorruptionDefinition(
        "digital", _ignore_draws(digital.contrast), (0.60, 0.46, 0.34, 0.24, 0.17)
    ),
    # The amounts are the side of a block and the largest displacement, as fractions of the shorter
    # side.
    "pixelate": CorruptionDefinition(
        "digital", _ignore_draws(digital.pixelate), (0.022, 0.029, 0.037, 0.046, 0.056)
    ),
    "elastic": CorruptionDefinition(
        "digital", digital.elastic, (0.015, 0.024, 0.034, 0.046, 0.060)
    ),
    # The amount multiplied by the shorter side in pixels is the size of the encoder's quantization
    # steps, in percent of the standard ones.
    "jpeg": CorruptionDefinition("digital", _ignore_draws(digital.jpeg), (1.0, 1.5, 2.1, 2.8, 3.6)),
}
CORRUPTION_GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name for name, change in CORRUPTIONS.items() if change.group == group)
    for group in ("noise", "blur", "weather", "digital")
}


@dataclass(frozen=True)
class Corruption:
    """One common corruption of images at one severity.

    The result for a row depends on the seed, the row's content and the draw index. The random
    pattern, such as the noise, the cloud or the angle, is the same at every severity. Only the
    amount differs.

    Parameters
    ----------
    name : str
        Name of the corruption, a key of `CORRUPTIONS`.
    severity : int
        Severity from 1 to 5.

    Raises
    ------
    UnknownName
        If there is no corruption with this name.
    InputError
        If the severity is not from 1 to 5.

    Examples
    --------
    >>> images = np.full((2, 8, 8, 3), 100, dtype=np.uint8)
    >>> draws = RowStreams(seed=0, row_keys=np.array([7, 8], dtype=np.uint64), draw_index=np.array([1, 1]))
    >>> Corruption("brightness", 1).apply(images, draws)[0, 0, 0]
    array([118, 118, 118], dtype=uint8)
    """

    name: str
    severity: int = 3

    def __post_init__(self) -> None:
        if self.name not in CORRUPTIONS:
            raise UnknownName("corruption", self.name, CORRUPTIONS)
        severity: Any = self.severity
        is_whole = isinstance(severity, int | np.integer) and severity is not True
        if not is_whole or severity not in SEVERITIES:
            raise InputError(
                f"The severity of {self.name} must be a whole number from 1 to 5; got {severity!r}."
            )

    @property
    def label(self) -> str:
        """Return name and severity in a form that `parse_corruptions` accepts, such as fog-3."""
        return f"{self.name}-{self.severity}"

    @property
    def group(self) -> str:
        return CORRUPTIONS[self.name].group

    @property
    def amount(self) -> float:
        """Return the amount at this severity, in the corruption's own unit."""
        return CORRUPTIONS[self.name].amounts[self.severity - 1]

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return corrupted copies of the images; each image has its own random stream."""
        images = drop_gray_channel(require_images(inputs, self.name))
        if 0 in images.shape[1:3]:
            raise wrong_shape("images", "(n, height, width, …) with pixels", inputs.shape)
        corrupt = CORRUPTIONS[self.name].function
        streams = draws.substream(self.name)
        corrupted = np.empty_like(images)
        # Images are corrupted in blocks, because temporary arrays are several times as large as the
        # images.
        for rows in row_blocks(len(images), math.prod(images.shape[1:])):
            corrupted[rows] = corrupt(images[rows], self.amount, streams.rows(rows))
        return corrupted.reshape(inputs.shape)


def parse_corruptions(text: str) -> tuple[Corruption, ...]:
    """Return the corruptions that a string names.

    Parameters
    ----------
    text : str
        Name of a corruption, a group ("noise", "blur", "weather", "digital") or "all". A severity
        may follow, as in ``"fog-3"`` or ``"fog:3"``. If there is no severity, all five severities
        are returned.

    Returns
    -------
    tuple of Corruption
        Corruptions in the order of `CORRUPTIONS`, each with increasing severity.

    Raises
    ------
    UnknownName
        If there is no corruption or group with this name.
    InputError
        If the severity is not from 1 to 5.

    Examples
    --------
    >>> [corruption.label for corruption in parse_corruptions("fog")]
    ['fog-1', 'fog-2', 'fog-3', 'fog-4', 'fog-5']
    >>> parse_corruptions("fog-3") == parse_corruptions("fog:3") == (Corruption("fog", 3),)
    True
    >>> len(parse_corruptions("blur")), len(parse_corruptions("blur-2")), len(parse_corruptions("all"))
    (20, 4, 80)
    """
    match = re.fullmatch(r"(.+?)[-:]([-+.\d]+)", text)
    name, severity = match.groups() if match else (text, None)
    names = _expand_names(name.strip().lower().replace("-", "_"), text)
    severities: tuple[Any, ...] = SEVERITIES
    if severity is not None:
        severities = (int(severity) if severity.isdecimal() else severity,)
    return tuple(Corruption(name, severity) for name in names for severity in severities)


def _expand_names(name: str, text: str) -> tuple[str, ...]:
    if name == "all":
        return tuple(CORRUPTIONS)
    if name in CORRUPTIONS:
        return (name,)
    if name in CORRUPTION_GROUPS:
        return CORRUPTION_GROUPS[name]
    raise UnknownName("corruption", text, [*CORRUPTIONS, *CORRUPTION_GROUPS, "all"])
