"""Synthetic group without files: points near the unit hypersphere in R¹⁶ (NI, section 5.1).

A domain is a Gaussian around a point of the sphere, named by the angle of that point from the pole
in degrees. The classes are inside and outside the sphere.
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
    """`n` points around the point at an angle of `degrees` from the pole."""

    degrees: float
    split: Split
    n: int = 1000
    dimension: int = 16
    variance: float = 0.005

    kind: ClassVar[InputKind] = "vectors"
    files: ClassVar[tuple[str, ...]] = ()

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the points with label 1 for those inside; no file is read."""
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
    about = "inside a hypersphere or outside, by degrees from its pole; needs no files"
    return DomainGroup(
        HYPERSPHERE_NAME, "vectors", ("outside", "inside"), sources, root=Path(), about=about
    )
