"""Toy problems in which the truth is known exactly: what the papers show on them, to be redone."""

from oodometer.studies.toys.hypersphere import HypersphereToy, SphereRow, hypersphere_rows
from oodometer.studies.toys.spurious import METHODS, SpuriousToy, ToyRow, spurious_rows

__all__ = [
    "METHODS",
    "HypersphereToy",
    "SphereRow",
    "SpuriousToy",
    "ToyRow",
    "hypersphere_rows",
    "spurious_rows",
]
