"""estimate_files(): outputs larger than memory, in one pass, by one process or by many.

Estimators whose sums add up read every row. The others, the lights and the page see a random sample
of the target. In memory are a few batches of at most 32 MiB each, the sums, and the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oodometer.assessment import _estimate, headline
from oodometer.assessment._estimate import HistoryInput
from oodometer.assessment._streamed_estimators import SummarizedEstimator, scan
from oodometer.assessment._streamed_source import StreamedSource, load_source
from oodometer.assessment._streamed_target import StreamedTarget
from oodometer.assessment.bootstrap import EstimatorRun, make_runs, run_all
from oodometer.assessment.diagnostics import DiagnosticContext
from oodometer.assessment.partial_sums import FittedEstimator, PartialResult, ScanPlan
from oodometer.assessment.ppi import (
    BinnedAccuracy,
    FewLabelsEstimate,
    UnlabelledMoments,
    ppi_estimate,
)
from oodometer.assessment.result import Assessment, Segment
from oodometer.core.calibration import Temperature
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Estimator, ProgressCallback, StreamingEstimator
from oodometer.core.stats import rng_for
from oodometer.data.bottom_k import priority_bound
from oodometer.data.prediction_files import PredictionColumns
from oodometer.parallel._thread_limits import limit_to_one_thread
from oodometer.parallel.runners import Runner, serial

# Rows of the target that are kept for what needs all rows at once, and cells (rows times classes).
MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS = 100_000, 16_000_000
# Labels of the target that are looked at.
MAX_LABELS = 100_000


@dataclass(frozen=True)
class EstimateOptions:
    """What is asked of the files, in the words of `estimate`; `segment_by` is a column of the target."""

    methods: str | Sequence[str | Estimator] | None = None
    temperature: float | Literal["fit"] | None = "fit"
    segment_by: str | None = None
    seed: int = 0
    replicates: int = 200

    def __post_init__(self) -> None:
        if self.replicates < 20:
            raise InputError(f"replicates must be at least 20; got {self.replicates}.")

    @cached_property
    def estimators(self) -> list[Estimator]:
        """The estimators themselves."""
        return _estimate.resolve_estimators(self.methods)


@dataclass(frozen=True, eq=False)
class StreamedAssessment:
    """What was found, of which source, and the sample of the target; `n_labels` are the target's."""

    assessment: Assessment
    source: Predictions
    sample: Predictions
    n_labels: int


def estimate_files(
    source: str | Path,
    target: str | Path,
    *,
    columns: PredictionColumns | None = None,
    options: EstimateOptions | None = None,
    history: HistoryInput = None,
    runner: Runner = serial,
    progress: ProgressCallback | None = None,
) -> Assessment:
    """How accurate the model is on the target, whose outputs are in files larger than memory.

    Both are a file, a folder of files or a pattern such as "scores/*.parquet", of Parquet, CSV or
    Arrow; `columns` says what their columns are called, and `options` is what `estimate` is asked.
    Methods whose sums add up read every row; the others and the lights see a random sample of the
    target, which the notes tell. `runner` may be `processes(4)` or `distributed(address)`: the
    result is the same.
    """
    given = PredictionColumns() if columns is None else columns
    wanted = EstimateOptions() if options is None else options
    how = ExecutionOptions(runner, progress)
    return assess_streamed(source, target, given, wanted, history=history, execution=how).assessment


@dataclass(frozen=True)
class ExecutionOptions:
    """Who works, and who is told of it."""

    runner: Runner = serial
    progress: ProgressCallback | None = None

    def row_reporter(self, total: int | None, unit: str) -> Callable[[int], None]:
        """Counts rows, and tells how many are done."""
        done = 0

        def tell(more: int) -> None:
            nonlocal done
            done += more
            if self.progress is not None:
                shown = unit if total is not None else f"{done:,} {unit}"
                self.progress(done, total or 0, shown)

        return tell


@limit_to_one_thread()
def assess_streamed(
    source: str | Path,
    target: str | Path,
    columns: PredictionColumns,
    options: EstimateOptions,
    *,
    history: HistoryInput = None,
    execution: ExecutionOptions | None = None,
) -> StreamedAssessment:
    """The same, with what a page is made of."""
    execution = ExecutionOptions() if execution is None else execution
    rows = StreamedTarget.open(target, columns, options.segment_by)
    given = load_source(
        source, columns, options.seed, execution.runner, execution.row_reporter(None, "source rows")
    )
    ready = _Prepared.prepare(given.predictions, rows, options)
    tell = execution.row_reporter(rows.n_rows, "rows")
    tally = scan(ready.plan(), ready.target.parts, execution.runner, tell)
    seen = _Collected(ready, tally, ready.target.predictions(tally.sample))
    assessment = seen.build_assessment(given, history)
    labels = tally.n - tally.n_unlabelled if rows.schema.label_column is not None else 0
    return StreamedAssessment(assessment, given.predictions, seen.sample, labels)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What is known before the pass: the source at its temperature, and what methods learned."""

    target: StreamedTarget
    options: EstimateOptions
    source: Predictions
    fitted_temperature: Temperature | None
    temperature: float | None
    fitted_estimators: dict[str, FittedEstimator]
    skipped: dict[str, str]

    @classmethod
    def prepare(
        cls, source: Predictions, target: StreamedTarget, options: EstimateOptions
    ) -> _Prepared:
        source, first = _estimate.validate_inputs(source, target.preview)
        target = target.reorder_classes(source.class_names)
        fitted, used = _estimate.resolve_temperature(source, first, options.temperature)
        if used is not None:
            source, first = source.at_temperature(used), first.at_temperature(used)
        summing, refused = {}, {}
        for member in options.estimators:
            if isinstance(member, StreamingEstimator) and member.is_mergeable:
                try:
                    learned = member.learn(source)
                    member.summarize(learned, first)  # who can't sum these up can't any
                    summing[member.name] = FittedEstimator(member, learned)
                except NotApplicable as reason:
                    refused[member.name] = str(reason)
        return cls(target, options, source, fitted, used, summing, refused)

    @cached_property
    def binned_accuracy(self) -> BinnedAccuracy:
        """How often rows as sure are right on the source."""
        return BinnedAccuracy.fit(self.source)

    def plan(self) -> ScanPlan:
        """What is done with every part of the target."""
        size = min(MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS // self.target.k)
        return ScanPlan(
            schema=self.target.schema,
            batch_size=self.target.batch_size,
            temperature=1.0 if self.temperature is None else self.temperature,
            estimators=tuple(self.fitted_estimators.values()),
            seed=self.options.seed,
            sample_size=size,
            priority_bound=priority_bound(size, self.target.n_rows),
            max_labels=MAX_LABELS,
            binned_accuracy=self.binned_accuracy,
            segment_estimator=self.segment_estimator,
        )

    @property
    def segment_estimator(self) -> FittedEstimator | None:
        """The method of the segments, where it sums up and there are any."""
        names = [m.name for m in self.options.estimators if m.name not in self.skipped]
        if self.options.segment_by is None or not names:
            return None
        return self.fitted_estimators.get(headline.select_for_segments(names, self.source))

    def runs(self, estimators: Sequence[Estimator]) -> dict[str, EstimatorRun]:
        """Estimators with the source."""
        asked = self.options
        return make_runs(
            estimators, self.source, self.temperature, seed=asked.seed, replicates=asked.replicates
        )


@dataclass(frozen=True, eq=False)
class _Collected:
    """What is known after the pass."""

    prepared: _Prepared
    scan_result: PartialResult
    sample: Predictions

    def build_assessment(self, source: StreamedSource, history: HistoryInput) -> Assessment:
        """The whole of it."""
        ready = self.prepared
        found, refused = self._run_estimators()
        evidence = DiagnosticContext(
            ready.source, self._calibrated_sample, tuple(found.values()), ready.fitted_temperature
        )
        # Past domains are read whole, by the methods themselves.
        tasks = ready.runs(ready.options.estimators)
        notes = tuple(self._notes(source, list(found)))
        case = _estimate.AssessmentBuilder(evidence, tasks, refused, self._label_estimate(), notes)
        segments: tuple[Segment, ...] = ()
        if ready.options.segment_by is not None:
            segments = tuple(
                self._segment_estimates(headline.select_for_segments(found, ready.source))
            )
        return case.build_assessment(self.scan_result.n, segments, history)

    @cached_property
    def _calibrated_sample(self) -> Predictions:
        used = self.prepared.temperature
        return self.sample if used is None else self.sample.at_temperature(used)

    @property
    def _sample_description(self) -> str:
        return f"a random sample of {self.sample.n:,} of {self.scan_result.n:,} rows"

    @property
    def _is_sampled(self) -> bool:
        return self.sample.n < self.scan_result.n

    def _summarized(self, name: str, total: Any) -> SummarizedEstimator:
        return SummarizedEstimator(self.prepared.fitted_estimators[name], total)

    def _run_estimators(self) -> tuple[dict[str, Estimate], dict[str, str]]:
        """What every method says, and why some say nothing; those asked for must all speak."""
        asked, totals = self.prepared.options, self.scan_result.totals
        refused = self.prepared.skipped | self.scan_result.skipped
        members: list[Estimator] = [
            self._summarized(m.name, totals[m.name]) if m.name in totals else m
            for m in asked.estimators
            if m.name not in refused
        ]
        found, silent = run_all(self.prepared.runs(members), self._calibrated_sample, None)
        order = [m.name for m in asked.estimators if m.name in refused | silent]
        refused = {name: (refused | silent)[name] for name in order}
        _estimate.require_results(found, refused, all_required=bool(asked.methods))
        if self._is_sampled:
            for name in found.keys() - totals.keys():
                notes = (*found[name].notes, f"from {self._sample_description}")
                found[name] = replace(found[name], notes=notes)
        return found, refused

    def _segment_estimates(self, name: str) -> Iterator[Segment]:
        """A method on each part: of its sums, or where it has none of the sample."""
        plan = self.prepared.segment_estimator
        if plan is None or plan.estimator.name != name:
            yield from self._sampled_segments(name)
            return
        for _, part in sorted(self.scan_result.segments.items()):
            if part.reason:
                yield Segment(part.name, part.n, None, part.reason)
                continue
            task = self.prepared.runs([self._summarized(name, part.total)])[name]
            yield task.estimate_segment(part.name, part.n, self._calibrated_sample)

    def _sampled_segments(self, name: str) -> Iterator[Segment]:
        assert self.scan_result.sample is not None
        task = self.prepared.runs(self.prepared.options.estimators)[name]
        values = self.scan_result.sample.columns["by"]
        for value in np.unique(values):
            rows = self._calibrated_sample.rows(values == value)
            yield task.estimate_segment(str(np.asarray(value).astype(str)), rows.n, rows)

    def _label_estimate(self) -> FewLabelsEstimate | None:
        """The accuracy from few labels; where every row has one, nothing was left to tell."""
        known = self.scan_result.labelled_sample
        if known is None or not len(known) or not self.scan_result.n_unlabelled:
            return None
        right = known.columns["classes"] == self.prepared.target.labels(known)
        chances = self.prepared.binned_accuracy
        scores = chances(known.columns["confidence"])
        rest = UnlabelledMoments.from_counts(
            self.scan_result.bin_counts, chances.accuracies, scores
        )
        return ppi_estimate(
            right, scores, rest, rng=rng_for(self.prepared.options.seed, "few labels")
        )

    def _notes(self, source: StreamedSource, names: Sequence[str]) -> Iterator[str]:
        """What a reader must know of samples."""
        if source.sampling_note is not None:
            yield source.sampling_note
        if self._is_sampled:
            whole = [name for name in names if name in self.scan_result.totals]
            yield (
                f"{', '.join(whole) or 'No method'} read all rows of the target; the other "
                f"methods, the lights and the charts see {self._sample_description}."
            )
        labels = self.scan_result.n - self.scan_result.n_unlabelled
        if (
            self.prepared.target.schema.label_column is not None
            and MAX_LABELS < labels < self.scan_result.n
        ):
            yield f"Of {labels:,} labels of the target a random sample of {MAX_LABELS:,} was used."
