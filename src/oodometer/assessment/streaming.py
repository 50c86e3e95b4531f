"""estimate_files(): outputs larger than memory, in one pass, by one process or by many.

Estimators whose sums add up read every row. The others, the lights and the page see a random sample
of the target. In memory are a few batches of at most 32 MiB each, the sums, and the samples.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oodometer.assessment import _estimate, headline
from oodometer.assessment._estimate import HistoryInput
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
from oodometer.core import frames, validation
from oodometer.core.array_types import Array, Floats
from oodometer.core.calibration import Temperature
from oodometer.core.errors import InputError, NotApplicable, OodometerError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, ProgressCallback, StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import rng_for
from oodometer.data.batch_reader import (
    FilePartition,
    ScoreSchema,
    error_context,
    find_files,
    infer_schema,
    is_multi_file,
    make_partitions,
    read_tables,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, priority_bound, row_priorities
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.parallel.runners import Runner, limit_to_one_thread, serial, threads

# A source of more rows, or of more cells (rows times classes), is represented by a sample.
MAX_SOURCE_ROWS, MAX_SOURCE_CELLS = 2_000_000, 64_000_000
# A single file that is larger than this is read batch by batch.
MAX_WHOLE_FILE_BYTES = 1_000_000_000


@dataclass(frozen=True, eq=False)
class StreamedSource:
    """Labelled predictions, and of how many rows they are a sample."""

    predictions: Predictions
    n_rows: int

    @property
    def sampling_note(self) -> str | None:
        """What is to be said of a sample."""
        if self.predictions.n == self.n_rows:
            return None
        return f"The source is a random sample of {self.predictions.n:,} of {self.n_rows:,} rows."


def is_large(location: str | Path) -> bool:
    """Whether it is many files, or one that is not read whole."""
    path = Path(location)
    return is_multi_file(location) or (
        path.is_file() and path.stat().st_size > MAX_WHOLE_FILE_BYTES
    )


def load_source(
    location: str | Path,
    columns: PredictionColumns,
    seed: int,
    runner: Runner,
    report_rows: Callable[[int], None],
) -> StreamedSource:
    """The source of a file, a folder or a pattern; a small file is read as it always is."""
    if not is_large(location):
        whole = ScoreFile.open(location).predictions(columns, labelled=True)
        return StreamedSource(whole, whole.n)
    files = find_files(location)
    taken = infer_schema(files, columns, labelled=True)
    parts, total = make_partitions(files)
    k = count_classes(taken, parts)
    size = min(MAX_SOURCE_ROWS, MAX_SOURCE_CELLS // k)
    plan = SourceScanPlan(taken, rows_per_batch(k), seed, size, priority_bound(size, total))
    keeper, done = BottomKSampler(size), 0
    for _, found in runner(plan, parts):
        if isinstance(found, Exception):
            raise found
        done += found[0]
        report_rows(found[0])
        if found[1] is not None:
            keeper.merge(found[1])
    return StreamedSource(_to_predictions(keeper.sample(), taken, files), done)


def count_classes(schema: ScoreSchema, parts: Sequence[FilePartition]) -> int:
    """How many classes there are, by the first rows that can be found."""
    if not schema.score_columns.is_single_column:
        return len(schema.score_columns.columns)
    for part in parts:
        for _, table in read_tables(replace(schema, label_column=None, segment_by=None), part, 64):
            with error_context(part.path):
                return int(schema.scores(table).shape[1])
    raise InputError("There are no rows in these files; at least one was expected.")


@dataclass(frozen=True)
class SourceScanPlan:
    """What is done with every part of the source; it can be sent to workers."""

    schema: ScoreSchema
    batch_size: int
    seed: int
    sample_size: int
    priority_bound: int

    def __call__(self, part: FilePartition) -> tuple[int, BottomKSample | None]:
        """How many rows the part has, and the sample of them."""
        keeper, n = BottomKSampler(self.sample_size, self.priority_bound), 0
        for before, table in read_tables(self.schema, part, self.batch_size):
            with error_context(part.path, part.first_row_in_file + before):
                self._update_sample(keeper, table, part.first_position + before)
            n += table.num_rows
        return n, keeper.sample()

    def _update_sample(self, sampler: BottomKSampler, table: Any, first_row: int) -> None:
        scores = self.schema.scores(table)
        kept: dict[str, Array] = {"scores": scores}
        if self.schema.label_column is not None:
            kept["labels"] = frames.read_column(table, self.schema.label_column)
        draws = row_priorities(self.seed, first_row, len(scores))
        sampler.update(draws, BottomKSample(first_row + np.arange(len(scores)), draws, kept).take)


def _to_predictions(
    sample: BottomKSample | None, schema: ScoreSchema, files: Sequence[Path]
) -> Predictions:
    if sample is None:
        raise InputError(f"{files[0].parent} has no rows; at least one was expected.")
    return schema.predictions(sample.columns["scores"], sample.columns.get("labels"))


# Rows that are looked at before all are.
PREVIEW_ROWS = 1024


@dataclass(frozen=True, eq=False)
class StreamedTarget:
    """Files, what is taken of them, their parts, and how many rows they have if that is known."""

    files: tuple[Path, ...]
    schema: ScoreSchema
    parts: tuple[FilePartition, ...]
    n_rows: int | None
    preview: Predictions

    @classmethod
    def open(
        cls, location: str | Path, columns: PredictionColumns, segment_by: str | None
    ) -> StreamedTarget:
        """Find the files, and look at the first rows."""
        files = find_files(location)
        taken = infer_schema(files, columns, labelled=False, segment_by=segment_by)
        parts, total = make_partitions(files)
        return cls(files, taken, parts, total, _read_preview(taken, parts, location))

    @property
    def k(self) -> int:
        """How many classes there are."""
        return self.preview.k

    @property
    def batch_size(self) -> int:
        """How many rows are read at a time."""
        return rows_per_batch(self.k)

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> StreamedTarget:
        """The same with the classes in the order of these names."""
        return replace(
            self,
            schema=self.schema.reorder_classes(class_names),
            preview=self.preview.reorder_classes(class_names),
        )

    def predictions(self, sample: BottomKSample | None) -> Predictions:
        """The sampled rows, in the order of their places."""
        if sample is None:
            raise InputError("The target has no rows; at least one was expected.")
        return self.schema.predictions(sample.columns["scores"])

    def labels(self, sample: BottomKSample) -> Array:
        """The classes of rows with labels, by number."""
        given = sample.columns["labels"]
        if all(isinstance(value, str) and value.strip().isdecimal() for value in given):
            given = given.astype(int)  # a column of text that began with blanks
        names, what = self.schema.class_names, "labels of the target"
        found = validation.encode_labels(given, len(sample), self.k, names, what)
        assert found is not None
        return found


def _read_preview(
    schema: ScoreSchema, parts: Sequence[FilePartition], location: str | Path
) -> Predictions:
    """The first rows, by the usual door: it warns of logits that look like probabilities."""
    scored = replace(schema, label_column=None, segment_by=None)
    for part in parts:
        for _, table in read_tables(scored, part, PREVIEW_ROWS):
            with error_context(part.path):
                return schema.predictions(schema.scores(table))
    raise InputError(f"{str(location)!r} has no rows; at least one was expected.")


# Threads that read at most: each has a batch in memory. More are what workers are for.
MAX_READER_THREADS = 4


@dataclass(frozen=True, eq=False)
class SummarizedEstimator(StreamingEstimator[Any, Any]):
    """An estimator whose sums over the target are known: it looks at no row any more."""

    fitted: FittedEstimator
    total: Any

    @property
    def name(self) -> str:
        """How users call it."""
        return self.fitted.estimator.name

    @property
    def assumes(self) -> str:
        """What must hold for it to be right."""
        return self.fitted.estimator.assumes

    @property
    def needs(self) -> tuple[str, ...]:
        """What it must be given."""
        return self.fitted.estimator.needs

    @property
    def paper(self) -> str:
        """Where it comes from."""
        return self.fitted.estimator.paper

    @property
    def assumes_calibrated(self) -> bool:
        """Whether it takes scores for chances."""
        return self.fitted.estimator.assumes_calibrated

    def learn(self, source: Predictions) -> Any:
        """What was learned before the pass."""
        return self.fitted.learned_state

    def summarize(self, learned: Any, batch: Predictions) -> Any:
        """What was summed in the pass."""
        return self.total

    def finish(self, learned: Any, total: Any) -> Estimate:
        """The estimate."""
        return self.fitted.estimator.finish(learned, total)

    def resample(self, learned: Any, total: Any, rng: np.random.Generator, count: int) -> Floats:
        """Replicates of the estimate."""
        return self.fitted.estimator.resample(learned, total, rng, count)


def scan(
    plan: ScanPlan,
    parts: Sequence[FilePartition],
    runner: Runner,
    report_rows: Callable[[int], None],
) -> PartialResult:
    """The tally of all parts, by whoever works; `report_rows` hears how many rows are done.

    Sums are added in the order of the parts, whoever is first, for the last bits of a sum hang on
    the order. Samples hang on none.
    """
    here = runner is serial
    stopped = threading.Event()
    work = partial(plan, report_rows=_ProgressRelay(report_rows, stopped)) if here else plan
    hands = threads(min(os.cpu_count() or 1, MAX_READER_THREADS)) if here else runner
    sample, labelled = BottomKSampler(plan.sample_size), BottomKSampler(plan.max_labels)
    whole, waiting, following = PartialResult(), {}, 0
    try:
        for part, found in hands(work, parts):
            if isinstance(found, Exception):
                raise found
            if not here:
                report_rows(found.n)
            _merge_sample(sample, found.sample)
            _merge_sample(labelled, found.labelled_sample)
            waiting[part.number] = replace(found, sample=None, labelled_sample=None)
            while following in waiting:
                whole.merge(waiting.pop(following))
                following += 1
    finally:
        stopped.set()
    return replace(whole, sample=sample.sample(), labelled_sample=labelled.sample())


class _ProgressRelay:
    """What threads tell of, one at a time; who tells after the end is stopped."""

    def __init__(self, report_rows: Callable[[int], None], stopped: threading.Event) -> None:
        self._report_rows, self._stopped, self._lock = report_rows, stopped, threading.Lock()

    def __call__(self, rows: int) -> None:
        """So many rows more."""
        if self._stopped.is_set():
            raise OodometerError("The pass was given up.")
        with self._lock:
            self._report_rows(rows)


def _merge_sample(sampler: BottomKSampler, sample: BottomKSample | None) -> None:
    if sample is not None:
        sampler.merge(sample)


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
