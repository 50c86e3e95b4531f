"""Registry of transforms: the built-in transforms, `available()` and `get()`."""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Transform
from oodometer.core.registry import load_entry_points
from oodometer.transforms.images import (
    Brightness,
    Color,
    Contrast,
    Erase,
    FlipCrop,
    Rotate,
    Shear,
    Translate,
)
from oodometer.transforms.randaugment import RandAugment
from oodometer.transforms.sphere import Sphere
from oodometer.transforms.strength import at_fixed_strength
from oodometer.transforms.tabular import Gaussian, MarginalSwap
from oodometer.transforms.text.backtranslation import BackTranslation
from oodometer.transforms.text.eda import EDA
from oodometer.transforms.text.random_replacement import RandomReplacement
from oodometer.transforms.text.ssmba import SSMBA

__all__ = [
    "DEFAULT_TRANSFORMS",
    "EDA",
    "MEMBERS",
    "SSMBA",
    "BackTranslation",
    "Brightness",
    "Color",
    "Contrast",
    "Erase",
    "FlipCrop",
    "Gaussian",
    "MarginalSwap",
    "RandAugment",
    "RandomReplacement",
    "Rotate",
    "Shear",
    "Sphere",
    "Translate",
    "available",
    "available_for_kind",
    "get",
]

MEMBERS: tuple[Transform, ...] = (
    RandAugment(),
    Translate(),
    Erase(),
    FlipCrop(),
    Rotate(),
    Shear(),
    Brightness(),
    Contrast(),
    Color(),
    SSMBA(),
    EDA(),
    BackTranslation(),
    RandomReplacement(),
    Gaussian(),
    MarginalSwap(),
    Sphere(),
)
# Name of the default transform for each kind of inputs.
DEFAULT_TRANSFORMS: dict[InputKind, str] = {
    "images": "randaugment",
    "text": "ssmba",
    "pairs": "ssmba",
    "vectors": "gaussian",
    "table": "marginal_swap",
}
# Measures are named after their transform: NI-RandAug is neighborhood invariance (NI) under
# RandAugment. MS and MSE are the earlier forms of NI and NE, at fixed strength.
_MEASURE_PREFIXES = ("ni_", "ne_", "ei_", "pa_")
_SMOOTHNESS_PREFIXES = ("ms_", "mse_")
# Names of transforms in MS-Rand and MS-Random, as the preprint of 2022 prints them.
_PREPRINT_NAMES = {"rand": "randaugment", "random": "random_replace"}


def available() -> tuple[Transform, ...]:
    """Return all transforms, including those that other installed packages register.

    Returns
    -------
    tuple of Transform
        Instances with their default settings.

    Examples
    --------
    >>> available()[0].name
    'randaugment'
    """
    needs = "transform: it must derive from oodometer.core.protocols.Transform"
    others = load_entry_points("oodometer.transforms", Transform, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def available_for_kind(kind: InputKind) -> tuple[Transform, ...]:
    """Return the transforms that can be applied to a kind of inputs.

    Parameters
    ----------
    kind : {"images", "text", "pairs", "vectors", "table"}
        Kind of inputs.

    Returns
    -------
    tuple of Transform
        Instances with their default settings.

    Examples
    --------
    >>> [transform.name for transform in available_for_kind("vectors")]
    ['gaussian', 'marginal_swap', 'sphere']
    """
    return tuple(member for member in available() if kind in member.kinds)


def get(name: str) -> Transform:
    """Return a transform by its name, or by the name of a measure that uses it.

    Parameters
    ----------
    name : str
        Name of a transform such as ``"translate"``, or of a measure such as ``"NI-Translate"``.
        Upper and lower case are not distinguished.

    Returns
    -------
    Transform
        Instance with its default settings. For the measures ``"MS-…"`` and ``"MSE-…"``, its
        strength is "fixed" if it has this setting.

    Raises
    ------
    UnknownName
        If there is no transform with this name.

    Examples
    --------
    >>> get("translate") == get("NI-Translate") == get("MS-Translate")
    True
    >>> get("SSMBA"), get("MS-SSMBA")
    (SSMBA(magnitude=0.15, model=None), SSMBA(magnitude=0.15, model=None, strength='fixed'))
    """
    members = available()
    plain = name.lower().replace("-", "_")
    smoothness = is_smoothness_name(name)
    if smoothness or plain.startswith(_MEASURE_PREFIXES):
        plain = plain.partition("_")[2]
    if smoothness:
        plain = _PREPRINT_NAMES.get(plain, plain)
    for member in members:
        if plain in (member.name, member.label.lower()):
            return at_fixed_strength(member) if smoothness else member
    raise UnknownName("transform", name, [member.name for member in members])


def is_smoothness_name(name: object) -> bool:
    """Return whether a name is that of local manifold smoothness, MS-… or MSE-….

    Neighborhoods of these measures do not contain the example itself (Ng et al., 2022).

    >>> is_smoothness_name("MS-SSMBA"), is_smoothness_name("mse_eda"), is_smoothness_name("ssmba")
    (True, True, False)
    """
    return isinstance(name, str) and name.lower().replace("-", "_").startswith(_SMOOTHNESS_PREFIXES)
