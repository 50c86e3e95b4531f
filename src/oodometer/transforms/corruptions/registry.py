"""Registry of the nineteen image corruptions and their severities, by name and by group.

There are two scales of severities:

- "published": the corruptions and parameters of CIFAR-10-C for images whose longer side is below
  64 pixels, and those of ImageNet-C for larger images (see `imagenet_c`).
- "relative": sixteen of the corruptions, with lengths as fractions of the image's shorter side, so
  that a severity has about the same meaning at 32 × 32 and at 224 × 224 pixels. They are implemented
  from the paper's description, so error rates differ from those on the published datasets. Noise is
  independent per pixel and harms small images more than large ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.errors import InputError, UnknownName, wrong_shape
from oodometer.core.inputs import Inputs
from oodometer.core.keys import OMITTED_VALUE
from oodometer.core.random_streams import RowStreams
from oodometer.core.softmax_kernels import row_blocks
from oodometer.transforms.corruptions import blur, digital, imagenet_c, noise, weather
from oodometer.transforms.corruptions.imagenet_c import Parameters, PublishedCorruption
from oodometer.transforms.corruptions.noise import Images
from oodometer.transforms.images import drop_gray_channel, require_images

SEVERITIES = (1, 2, 3, 4, 5)
SeverityScale = Literal["published", "relative"]
SEVERITY_SCALES: tuple[SeverityScale, ...] = get_args(SeverityScale)
# Images whose longer side has at least this many pixels get the parameters of ImageNet-C, and
# smaller ones those of CIFAR-10-C. CIFAR-10-C has 32 pixels, ImageNet-C 224.
MIN_IMAGENET_SIDE_PIXELS = 64

RandomCorruption = Callable[[Images, float, RowStreams], Images]
DeterministicCorruption = Callable[[Images, float], Images]


class RelativeSeverities(NamedTuple):
    """Function of a corruption with relative severities, and its amount at each severity."""

    function: RandomCorruption
    amounts: tuple[float, float, float, float, float]


class CorruptionDefinition(NamedTuple):
    """Definition of a corruption.

    Attributes
    ----------
    group : {"noise", "blur", "weather", "digital"}
        Group of the corruption.
    published : callable
        Function that takes images, published parameters and random streams, and returns corrupted
        images. The parameters are in `imagenet_c.CIFAR_10_C` and `imagenet_c.IMAGENET_C`.
    relative : RelativeSeverities or None
        Function and amounts of the relative severities; None if there are none.
    """

    group: str
    published: PublishedCorruption
    relative: RelativeSeverities | None = None


def _ignore_draws(function: DeterministicCorruption) -> RandomCorruption:
    """Give a deterministic corruption the signature of a random one."""
    return lambda images, amount, _: function(images, amount)


# Severity 3 of the relative severities is about as strong as in the published datasets. Where the
# datasets of 32 and of 224 pixels differ in strength, it is between the two. At severity 5, people
# still recognize most images.
CORRUPTIONS: dict[str, CorruptionDefinition] = {
    # The amount is the standard deviation as a fraction of the range of pixel values.
    "gaussian_noise": CorruptionDefinition(
        "noise",
        imagenet_c.gaussian_noise,
        RelativeSeverities(noise.gaussian, (0.04, 0.07, 0.11, 0.15, 0.20)),
    ),
    # The amount is the mean number of photons on a white pixel.
    "shot_noise": CorruptionDefinition(
        "noise", imagenet_c.shot_noise, RelativeSeverities(noise.shot, (180, 80, 35, 20, 12))
    ),
    # The amount is the fraction of values that are replaced.
    "impulse_noise": CorruptionDefinition(
        "noise",
        imagenet_c.impulse_noise,
        RelativeSeverities(noise.impulse, (0.015, 0.03, 0.05, 0.085, 0.14)),
    ),
    # The amount is the standard deviation as a fraction of the pixel value.
    "speckle_noise": CorruptionDefinition(
        "noise",
        imagenet_c.speckle_noise,
        RelativeSeverities(noise.speckle, (0.09, 0.14, 0.20, 0.27, 0.36)),
    ),
    # The amounts of Gaussian, defocus and motion blur are the standard deviation, the radius and
    # the length, as fractions of the shorter side. The amount of zoom blur is the largest
    # enlargement minus 1.
    "gaussian_blur": CorruptionDefinition(
        "blur",
        imagenet_c.gaussian_blur,
        RelativeSeverities(_ignore_draws(blur.gaussian), (0.008, 0.012, 0.017, 0.023, 0.031)),
    ),
    "defocus_blur": CorruptionDefinition(
        "blur",
        imagenet_c.defocus_blur,
        RelativeSeverities(_ignore_draws(blur.defocus), (0.014, 0.020, 0.028, 0.038, 0.050)),
    ),
    "motion_blur": CorruptionDefinition(
        "blur",
        imagenet_c.motion_blur,
        RelativeSeverities(blur.motion, (0.05, 0.075, 0.105, 0.14, 0.18)),
    ),
    "zoom_blur": CorruptionDefinition(
        "blur",
        imagenet_c.zoom_blur,
        RelativeSeverities(_ignore_draws(blur.zoom), (0.06, 0.10, 0.14, 0.19, 0.25)),
    ),
    "glass_blur": CorruptionDefinition("blur", imagenet_c.glass_blur),
    # The amount of fog and frost is the largest opacity.
    "fog": CorruptionDefinition(
        "weather", imagenet_c.fog, RelativeSeverities(weather.fog, (0.30, 0.42, 0.55, 0.68, 0.80))
    ),
    "frost": CorruptionDefinition(
        "weather",
        imagenet_c.frost,
        RelativeSeverities(weather.frost, (0.30, 0.42, 0.55, 0.68, 0.82)),
    ),
    # The amount of snow is the fraction of the noise's range that becomes flakes. The amount of
    # brightness is the increase as a fraction of the range of pixel values.
    "snow": CorruptionDefinition(
        "weather", imagenet_c.snow, RelativeSeverities(weather.snow, (0.18, 0.23, 0.28, 0.33, 0.38))
    ),
    "brightness": CorruptionDefinition(
        "weather",
        imagenet_c.brightness,
        RelativeSeverities(_ignore_draws(weather.brightness), (0.07, 0.14, 0.21, 0.28, 0.36)),
    ),
    "spatter": CorruptionDefinition("weather", imagenet_c.spatter),
    # The amount is the remaining contrast, as a fraction of the original contrast.
    "contrast": CorruptionDefinition(
        "digital",
        imagenet_c.contrast,
        RelativeSeverities(_ignore_draws(digital.contrast), (0.60, 0.46, 0.34, 0.24, 0.17)),
    ),
    # The amounts are the side of a block and the largest displacement, as fractions of the shorter
    # side.
    "pixelate": CorruptionDefinition(
        "digital",
        imagenet_c.pixelate,
        RelativeSeverities(_ignore_draws(digital.pixelate), (0.022, 0.029, 0.037, 0.046, 0.056)),
    ),
    "elastic": CorruptionDefinition(
        "digital",
        imagenet_c.elastic,
        RelativeSeverities(digital.elastic, (0.015, 0.024, 0.034, 0.046, 0.060)),
    ),
    # The amount multiplied by the shorter side in pixels is the size of the encoder's quantization
    # steps, in percent of the standard ones.
    "jpeg": CorruptionDefinition(
        "digital",
        imagenet_c.jpeg,
        RelativeSeverities(_ignore_draws(digital.jpeg), (1.0, 1.5, 2.1, 2.8, 3.6)),
    ),
    "saturate": CorruptionDefinition("digital", imagenet_c.saturate),
}
CORRUPTION_GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name for name, change in CORRUPTIONS.items() if change.group == group)
    for group in ("noise", "blur", "weather", "digital")
}
# The benchmarks test on fifteen corruptions. The other four are meant for validation.
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
CORRUPTION_SETS: dict[str, tuple[str, ...]] = {
    "all": tuple(CORRUPTIONS),
    "standard": tuple(name for name in CORRUPTIONS if name not in EXTRA_CORRUPTIONS),
    "extra": EXTRA_CORRUPTIONS,
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
    severities : {"published", "relative"}
        Scale of the severities. "published" uses the corruptions and parameters of CIFAR-10-C for
        images whose longer side is below 64 pixels, and those of ImageNet-C for larger images.
        Lengths in pixels are used as published at every image size. "relative" uses lengths in
        proportion to the image, and has no glass blur, spatter and saturate.

    Raises
    ------
    UnknownName
        If there is no corruption with this name.
    InputError
        If the severity is not from 1 to 5, or the corruption does not have these severities.

    Examples
    --------
    >>> images = np.full((2, 8, 8, 3), 100, dtype=np.uint8)
    >>> draws = RowStreams(seed=0, row_keys=np.array([7, 8], dtype=np.uint64), draw_index=np.array([1, 1]))
    >>> Corruption("brightness", 1).apply(images, draws)[0, 0, 0]
    array([112, 112, 112], dtype=uint8)
    >>> Corruption("brightness", 1, severities="relative").apply(images, draws)[0, 0, 0]
    array([118, 118, 118], dtype=uint8)
    """

    name: str
    severity: int = 3
    # Results under the relative severities were stored before there were other severities.
    severities: SeverityScale = field(default="published", metadata={OMITTED_VALUE: "relative"})

    def __post_init__(self) -> None:
        if self.name not in CORRUPTIONS:
            raise UnknownName("corruption", self.name, CORRUPTIONS)
        severity: Any = self.severity
        is_whole = isinstance(severity, int | np.integer) and severity is not True
        if not is_whole or severity not in SEVERITIES:
            raise InputError(
                f"The severity of {self.name} must be a whole number from 1 to 5; got {severity!r}."
            )
        check_severities(self.severities)
        if self.severities == "relative" and CORRUPTIONS[self.name].relative is None:
            raise InputError(f"{self.name} has no relative severities. Use severities='published'.")

    @property
    def label(self) -> str:
        """Return name and severity in a form that `parse_corruptions` accepts, such as fog-3."""
        return f"{self.name}-{self.severity}"

    @property
    def group(self) -> str:
        return CORRUPTIONS[self.name].group

    def parameters(self, longer_side: int) -> Parameters:
        """Return the parameters for images with a given longer side in pixels."""
        relative = CORRUPTIONS[self.name].relative
        if self.severities == "relative":
            assert relative is not None
            return (relative.amounts[self.severity - 1],)
        is_large = longer_side >= MIN_IMAGENET_SIDE_PIXELS
        table = imagenet_c.IMAGENET_C if is_large else imagenet_c.CIFAR_10_C
        return table[self.name][self.severity - 1]

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return corrupted copies of the images; each image has its own random stream."""
        images = drop_gray_channel(require_images(inputs, self.name))
        if 0 in images.shape[1:3]:
            raise wrong_shape("images", "(n, height, width, …) with pixels", inputs.shape)
        streams = draws.substream(self.name)
        corrupted = np.empty_like(images)
        # Images are corrupted in blocks, because temporary arrays are several times as large as the
        # images.
        for rows in row_blocks(len(images), math.prod(images.shape[1:])):
            corrupted[rows] = self._corrupt(images[rows], streams.rows(rows))
        return corrupted.reshape(inputs.shape)

    def _corrupt(self, images: Images, draws: RowStreams) -> Images:
        definition = CORRUPTIONS[self.name]
        parameters = self.parameters(max(images.shape[1:3]))
        if self.severities == "published":
            return definition.published(images, parameters, draws)
        assert definition.relative is not None
        return definition.relative.function(images, parameters[0], draws)


def check_severities(severities: str) -> None:
    """Raise unless the name of a scale of severities exists."""
    if severities not in SEVERITY_SCALES:
        raise InputError(f"severities must be published or relative; got {severities!r}.")


def parse_corruptions(
    text: str, *, severities: SeverityScale = "published"
) -> tuple[Corruption, ...]:
    """Return the corruptions that a string names.

    Parameters
    ----------
    text : str
        Name of a corruption, a group ("noise", "blur", "weather", "digital") or a set: "all",
        "standard" (the fifteen on which the benchmarks test) or "extra" (the other four). A
        severity may follow, as in ``"fog-3"`` or ``"fog:3"``. If there is no severity, all five
        severities are returned.
    severities : {"published", "relative"}
        Scale of the severities. Groups and sets leave out corruptions that do not have it.

    Returns
    -------
    tuple of Corruption
        Corruptions in the order of `CORRUPTIONS`, each with increasing severity.

    Raises
    ------
    UnknownName
        If there is no corruption or group with this name.
    InputError
        If the severity is not from 1 to 5, or a single corruption does not have the severities.

    Examples
    --------
    >>> [corruption.label for corruption in parse_corruptions("fog")]
    ['fog-1', 'fog-2', 'fog-3', 'fog-4', 'fog-5']
    >>> parse_corruptions("fog-3") == parse_corruptions("fog:3") == (Corruption("fog", 3),)
    True
    >>> len(parse_corruptions("blur")), len(parse_corruptions("blur-2")), len(parse_corruptions("all"))
    (25, 5, 95)
    >>> len(parse_corruptions("standard")), len(parse_corruptions("all", severities="relative"))
    (75, 80)
    """
    check_severities(severities)
    match = re.fullmatch(r"(.+?)[-:]([-+.\d]+)", text)
    name, severity = match.groups() if match else (text, None)
    names = _expand_names(name.strip().lower().replace("-", "_"), text, severities)
    levels: tuple[Any, ...] = SEVERITIES
    if severity is not None:
        levels = (int(severity) if severity.isdecimal() else severity,)
    return tuple(Corruption(name, level, severities) for name in names for level in levels)


def _expand_names(name: str, text: str, severities: SeverityScale) -> tuple[str, ...]:
    if name in CORRUPTIONS:
        return (name,)
    several = {**CORRUPTION_GROUPS, **CORRUPTION_SETS}
    if name not in several:
        raise UnknownName("corruption", text, [*CORRUPTIONS, *several])
    return tuple(
        each
        for each in several[name]
        if severities == "published" or CORRUPTIONS[each].relative is not None
    )
