"""Synthetic domain group of points near the unit hypersphere in R¹⁶, which needs no files.

The group follows section 5.1 of the paper on neighborhood invariance (NI; Ng et al. 2023). The
points of a domain are drawn from a Gaussian around one point of the sphere; the name of the domain
is the angle of that point from the pole, in degrees. The two classes are points inside and points
outside the sphere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.core.stats import rng_for
from oodometer.data import as_dataset
from oodometer.studies.domains._reader import ImageSize
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import DomainFiles, Split

HYPERSPHERE_NAME = "hypersphere"
DOMAIN_DEGREES = (0, 15, 30, 45, 60, 90, 120, 150, 180)


@dataclass(frozen=True)
class HyperspherePoints:
    """Reader that generates `n` points around the point at an angle of `degrees` from the pole."""

    degrees: float
    split: Split
    n: int = 1000
    dimension: int = 16
    variance: float = 0.005

    kind: ClassVar[InputKind] = "vectors"
    files: ClassVar[tuple[str, ...]] = ()

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Generate the points; the label is 1 inside the sphere and 0 outside."""
        centre = np.zeros(self.dimension)
        centre[:2] = math.cos(math.radians(self.degrees)), math.sin(math.radians(self.degrees))
        noise = rng_for(0, HYPERSPHERE_NAME, self.degrees, self.split).normal(
            size=(self.n, self.dimension)
        )
        points = centre + math.sqrt(self.variance) * noise
        inside = (points * points).sum(axis=1) < 1.0
        return as_dataset(points, labels=inside.astype(np.int64))


def hypersphere() -> DomainGroup:
    """Return the hypersphere group.

    >>> hypersphere().domain("90", "test").take(slice(0, 2)).shape
    (2, 16)
    """
    sources = tuple(
        (
            str(degrees),
            (DomainFiles(HyperspherePoints(degrees, "train"), HyperspherePoints(degrees, "test")),),
        )
        for degrees in DOMAIN_DEGREES
    )
    about = "points inside or outside a hypersphere, by their angle from its pole; needs no files"
    return DomainGroup(
        HYPERSPHERE_NAME, "vectors", ("outside", "inside"), sources, root=Path(), about=about
    )
