"""Studies: models × test domains × measures, run to the end however often they are stopped."""

from __future__ import annotations

from oodometer.studies._run import Ran, run
from oodometer.studies._status import Standing, status
from oodometer.studies.spec import Study

__all__ = ["Ran", "Standing", "Study", "run", "status"]
