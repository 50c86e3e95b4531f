"""Rows of a labelled source, and what is learned from them for any number of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from oodometer.assessment.bootstrap import EstimatorRun, LearnedSource
from oodometer.assessment.segments import SegmentModel
from oodometer.assessment.source_batches import SourceBatches
from oodometer.core.array_types import Array
from oodometer.core.calibration import Temperature
from oodometer.core.predictions import Predictions


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Labelled predictions: all `n_rows` rows of the source, or a uniform random sample of them.

    `location` is None unless the rows were read from files.
    """

    predictions: Predictions
    n_rows: int
    segments: Array | None = None
    location: str | Path | None = None

    @property
    def sampling_note(self) -> str | None:
        if self.predictions.n == self.n_rows:
            return None
        return f"The source is a random sample of {self.predictions.n:,} of {self.n_rows:,} rows."


@dataclass(frozen=True, eq=False)
class LearnedReference:
    """Results of the source: scaled and calibrated rows, estimators that learn once, segments.

    `segment_by` has one value per source row, or is None.
    """

    source: LearnedSource
    temperature_fit: Temperature | None
    runs: Mapping[str, EstimatorRun]
    segment_by: Array | None

    @cached_property
    def segments(self) -> SegmentModel:
        """Return what the estimates of segments need from the source; it is cached."""
        return SegmentModel.fit(self.source, self.segment_by)

    @cached_property
    def batches(self) -> SourceBatches:
        """Return the batches of the source that the typical range uses; they are cached."""
        seed = next(iter(self.runs.values())).seed
        return SourceBatches(self.source, self.segment_by, seed)


class PreparesTargets(Protocol):
    """Source that has been learned, as `Reference`, and prepares targets for its estimators."""

    @property
    def seed(self) -> int: ...

    @property
    def source_rows(self) -> SourceRows: ...

    @property
    def rows(self) -> Predictions: ...

    @property
    def requested(self) -> tuple[str, ...]: ...

    def prepare(
        self,
        target: Predictions,
        other_models: Predictions | Sequence[Predictions] | None = None,
    ) -> tuple[LearnedReference, Predictions]: ...
