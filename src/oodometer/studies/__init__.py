"""Studies: models × test domains × measures, run to the end however often they are stopped."""

from __future__ import annotations

from oodometer.studies.running import Ran, run
from oodometer.studies.spec import Study
from oodometer.studies.standing import Standing, status

__all__ = ["Ran", "Standing", "Study", "run", "status"]
