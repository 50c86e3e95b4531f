"""estimate_files(): accuracy estimates from files larger than memory, in one pass.

The files can be read by this process or by the workers of a runner. Mergeable estimators compute
sums over batches, so they use every row of the target. All other estimators, the diagnostics and
the charts use a uniform random sample of the rows. Memory holds a few batches of at most 32 MiB
each, the sums, and the samples.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment._estimate import (
    HistoryInput,
    SegmentInputs,
    assess,
)
from oodometer.assessment.bootstrap import EstimatorRun
from oodometer.assessment.diagnostics import LabelledConfidences
from oodometer.assessment.partial_sums import FittedEstimator, PartialResult, ScanPlan
from oodometer.assessment.ppi import (
    BinnedAccuracy,
    FewLabelsEstimate,
    UnlabelledMoments,
    ppi_estimate,
)
from oodometer.assessment.reference import (
    EstimateOptions,
    FileReference,
    LearnedReference,
    StreamedSource,
    read_whole_source,
)
from oodometer.assessment.result import Assessment
from oodometer.assessment.segments import LabelledRows, combine_segments, segment_values
from oodometer.core import frames, validation
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, NotApplicable, OodometerError
from oodometer.core.labels import encode_labels
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback, StreamingEstimator
from oodometer.core.stats import rng_for
from oodometer.data.batch_reader import (
    FilePartition,
    error_context,
    find_files,
    infer_schema,
    is_read_in_batches,
    make_partitions,
    read_tables,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, priority_bound, row_priorities
from oodometer.data.prediction_files import PredictionColumns, ScoreSchema
from oodometer.parallel.runners import Runner, limit_to_one_thread, serial, threads

# If the source has more rows than this, or more cells (rows × classes), a random sample is used.
MAX_SOURCE_ROWS = 2_000_000
MAX_SOURCE_CELLS = 64_000_000
# Maximum number of rows and of cells (rows × classes) in the target sample, which is used by
# methods that need all rows at once.
MAX_SAMPLE_ROWS = 100_000
MAX_SAMPLE_CELLS = 16_000_000
# Maximum number of target labels that are used. If there are more, a random sample is used.
MAX_LABELS = 100_000
# Number of target rows that are read before the pass, to check the scores and the estimators.
PREVIEW_ROWS = 1024
# Maximum number of reader threads of the serial runner. Each thread holds one batch in memory.
MAX_READER_THREADS = 4


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
    """Estimate the accuracy on a target whose predictions are in files larger than memory.

    Mergeable methods use every row. All other methods and the diagnostics use a uniform random
    sample of the target if it is large; `Assessment.notes` then gives the size of the sample. The
    result does not depend on the runner.

    Parameters
    ----------
    source : str or path
        Labelled predictions: a Parquet, CSV or Arrow file, a folder of such files, or a pattern such
        as ``"scores/*.parquet"``.
    target : str or path
        Predictions on the new data, in the same formats as the source. If only some rows have a
        value in the label column, these labels are used like `target_labels` of `estimate`. If all
        rows have a label, the labels are ignored.
    columns : PredictionColumns, optional
        Names of the columns that contain scores and labels, and names of the classes.
    options : EstimateOptions, optional
        Methods, temperature, segment column, seed and replicates.
    history : History or sequence of Predictions, optional
        Past domains with known accuracy; see `estimate`.
    runner : Runner
        `serial`, `processes(4)` or `distributed(address)`.
    progress : callable, optional
        Called with the number of rows read, the total number of rows (0 if unknown), and the unit.

    Returns
    -------
    Assessment
        Estimates of all applicable methods, the headline, diagnostics and segments.

    Raises
    ------
    InputError
        If a file cannot be read, or the files do not match each other or the options.
    NotApplicable
        If no method is applicable, or if a requested method is not applicable.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> text = "prob_0,prob_1,label\\n0.9,0.1,0\\n0.4,0.6,0\\n"
    >>> _ = (folder / "source.csv").write_text(text)
    >>> _ = (folder / "target.csv").write_text("prob_0,prob_1\\n0.7,0.3\\n0.1,0.9\\n")
    >>> options = EstimateOptions(methods="ac", temperature=None)
    >>> result = estimate_files(folder / "source.csv", folder / "target.csv", options=options)
    >>> round(result["ac"].value, 3)
    0.8
    """
    return assess_streamed(
        source,
        target,
        PredictionColumns() if columns is None else columns,
        EstimateOptions() if options is None else options,
        history=history,
        runner=runner,
        progress=progress,
    ).assessment


@dataclass(frozen=True, eq=False)
class StreamedAssessment:
    """Assessment with the source and target predictions that the HTML report needs.

    `n_labels` is the number of labelled target rows. `sample_segments` has the segment value of each
    row of the sample; None without segments.
    """

    assessment: Assessment
    source: Predictions
    sample: Predictions
    n_labels: int
    sample_segments: Array | None = None


@limit_to_one_thread()
def assess_streamed(
    source: str | Path | FileReference,
    target: str | Path,
    columns: PredictionColumns,
    options: EstimateOptions,
    *,
    history: HistoryInput = None,
    runner: Runner = serial,
    progress: ProgressCallback | None = None,
) -> StreamedAssessment:
    """Return the assessment of files, with the source and the target sample that were used.

    A source that was already read must have been read with the same columns and options.
    """
    files = StreamedTarget.open(target, columns, options.segment_columns)
    files = replace(files, schema=replace(files.schema, period=options.period))
    if not isinstance(source, FileReference):
        rows = read_source(source, columns, options, runner=runner, progress=progress)
        source = FileReference.learn(source, rows, options)
    reference = source.reference
    learned, preview = reference.prepare(files.preview)
    files = files.reorder_classes(reference.rows.class_names)
    fitted, skipped = fit_mergeable(learned.runs, preview)
    plan = replace(
        make_plan(files, learned, fitted, seed=options.seed),
        zero_replacement=learned.source.zero_replacement,
        sum_tolerance=_sum_tolerance(reference.rows),
        thresholds=columns.thresholds,
    )
    summary = scan(plan, files.partitions, runner, RowProgress(progress, files.n_rows, "rows"))
    summary.skipped = skipped | summary.skipped
    assert summary.sample is not None
    sample = files.schema.predictions(
        summary.sample.columns["scores"],
        decisions=_decision_names(files.schema, summary.sample.columns.get("decisions")),
    )
    assessment = assess(
        learned.runs,
        learned.source.prepare(sample),
        summary,
        temperature_fit=learned.temperature_fit,
        label_estimate=_estimate_from_labels(files, summary, plan.binned_accuracy, options.seed),
        labelled=_labelled_confidences(files, summary),
        is_source=os.path.abspath(source.location) == os.path.abspath(target),
        segment_inputs=(
            None
            if not options.segment_columns
            else SegmentInputs(
                summary.sample.columns["by"],
                learned.segments,
                _labelled_segments(files, summary),
            )
        ),
        history=history,
        source_batches=learned.batches,
        requested=reference.requested,
    )
    n_labels = summary.n - summary.n_unlabelled if files.schema.label_column is not None else 0
    notes = tuple(_sampling_notes(assessment, source.rows, summary, sample.n, n_labels))
    return StreamedAssessment(
        replace(assessment, notes=(*assessment.notes, *notes)),
        source.rows.predictions,
        sample,
        n_labels,
        sample_segments=summary.sample.columns.get("by"),
    )


def _sum_tolerance(source: Predictions) -> float:
    """Return the largest accepted difference between the sum of target probabilities and 1."""
    if source.scores is None or source.score_type != "probs":
        return validation.SUM_TOLERANCE
    return validation.sum_tolerance(source.scores)


def _decision_names(schema: ScoreSchema, classes: Array | None) -> Array | None:
    """Return sampled decisions as class names if the classes have names, else as numbers."""
    if classes is None or schema.class_names is None:
        return classes
    return np.array(schema.class_names)[classes]


def _labelled_segments(files: StreamedTarget, summary: PartialResult) -> LabelledRows | None:
    """Return the sampled target rows with labels and their segments; None if there are none."""
    labelled = summary.labelled_sample
    if labelled is None or not len(labelled) or not summary.n_unlabelled:
        return None
    correct = labelled.columns["classes"] == files.encode_labels(labelled.columns["labels"])
    return LabelledRows(labelled.columns["by"], correct, labelled.columns["correctness"])


def _labelled_confidences(
    files: StreamedTarget, summary: PartialResult
) -> LabelledConfidences | None:
    """Return the sampled target rows with labels; None if no row or every row has a label."""
    labelled = summary.labelled_sample
    if labelled is None or not len(labelled) or not summary.n_unlabelled:
        return None
    correct = labelled.columns["classes"] == files.encode_labels(labelled.columns["labels"])
    return LabelledConfidences(labelled.columns["confidence"], correct)


def _estimate_from_labels(
    files: StreamedTarget, summary: PartialResult, binned_accuracy: BinnedAccuracy, seed: int
) -> FewLabelsEstimate | None:
    """Return the PPI++ estimate from target labels; None if no row or every row has a label."""
    labelled = summary.labelled_sample
    if labelled is None or not len(labelled) or not summary.n_unlabelled:
        return None
    correct = labelled.columns["classes"] == files.encode_labels(labelled.columns["labels"])
    scores = binned_accuracy(labelled.columns["confidence"])
    unlabelled = UnlabelledMoments.from_counts(
        summary.bin_counts, binned_accuracy.accuracies, scores
    )
    return ppi_estimate(correct, scores, unlabelled, rng=rng_for(seed, "few labels"))


def _sampling_notes(
    assessment: Assessment,
    source: StreamedSource,
    summary: PartialResult,
    n_sampled: int,
    n_labels: int,
) -> Iterator[str]:
    """Yield notes that say which results were computed from a random sample."""
    if source.sampling_note is not None:
        yield source.sampling_note
    if n_sampled < summary.n:
        methods = [e.method for e in assessment.estimates if e.method in summary.totals]
        yield (
            f"{', '.join(methods) or 'No method'} read all rows of the target; the other methods, "
            f"the diagnostics and the charts use a random sample of {n_sampled:,} of "
            f"{summary.n:,} rows."
        )
    if MAX_LABELS < n_labels < summary.n:
        yield f"A random sample of {MAX_LABELS:,} of {n_labels:,} target labels was used."


# Source -----------------------------------------------------------------------------------------


def read_source(
    location: str | Path,
    columns: PredictionColumns,
    options: EstimateOptions,
    *,
    runner: Runner = serial,
    progress: ProgressCallback | None = None,
) -> StreamedSource:
    """Read a labelled source; small files are read as a whole, larger files in batches."""
    by = () if options.period is not None else options.segment_columns
    if not is_read_in_batches(location):
        return read_whole_source(location, columns, by)
    report_rows = RowProgress(progress, None, "source rows")
    return load_source(location, columns, options.seed, runner, report_rows, segment_by=by)


def load_source(
    location: str | Path,
    columns: PredictionColumns,
    seed: int,
    runner: Runner,
    report_rows: Callable[[int], None],
    *,
    segment_by: tuple[str, ...] = (),
) -> StreamedSource:
    """Read a labelled source in batches; sample its rows if there are many.

    The segments are read if the source has all columns `segment_by`.
    """
    files = find_files(location)
    schema = infer_schema(files, columns, labelled=True)
    if segment_by and set(segment_by) <= schema.all_columns:
        schema = infer_schema(files, columns, labelled=True, segment_by=segment_by)
    partitions, total = make_partitions(files)
    k = len(schema.score_columns.columns)
    if schema.score_columns.is_single_column:
        _, table = _read_first_rows(schema, partitions, 64, location)
        k = schema.scores(table).shape[1]
    size = min(MAX_SOURCE_ROWS, MAX_SOURCE_CELLS // k)
    plan = SourceScanPlan(schema, rows_per_batch(k), seed, size, priority_bound(size, total))
    sampler = BottomKSampler(size)
    n_rows = 0
    for _, result in runner(plan, partitions):
        if isinstance(result, Exception):
            raise result
        n_partition_rows, sample = result
        n_rows += n_partition_rows
        report_rows(n_partition_rows)
        _merge_sample(sampler, sample)
    sample = sampler.sample()
    if sample is None:
        raise _no_rows(location)
    rows = schema.predictions(
        sample.columns["scores"],
        sample.columns.get("labels"),
        decisions=sample.columns.get("decisions"),
    )
    return StreamedSource(columns.decide(rows), n_rows, sample.columns.get("by"))


@dataclass(frozen=True)
class SourceScanPlan:
    """Callable that samples the rows of one source partition; it can be pickled."""

    schema: ScoreSchema
    batch_size: int
    seed: int
    sample_size: int
    priority_bound: int

    def __call__(self, partition: FilePartition) -> tuple[int, BottomKSample | None]:
        """Return the number of rows of a partition and a sample of them."""
        sampler = BottomKSampler(self.sample_size, self.priority_bound)
        n_rows = 0
        for offset, table in read_tables(self.schema, partition, self.batch_size):
            with error_context(partition.path, partition.first_row_in_file + offset):
                self._update_sample(sampler, table, partition.first_position + offset)
            n_rows += table.num_rows
        return n_rows, sampler.sample()

    def _update_sample(self, sampler: BottomKSampler, table: Any, first_position: int) -> None:
        scores = self.schema.scores(table)
        columns: dict[str, Array] = {"scores": scores}
        if self.schema.label_column is not None:
            columns["labels"] = frames.read_column(table, self.schema.label_column)
        if self.schema.pred_column is not None:
            columns["decisions"] = frames.read_column(table, self.schema.pred_column)
        if self.schema.segment_by:
            by = [frames.read_column(table, name) for name in self.schema.segment_by]
            columns["by"] = segment_values(combine_segments(by))
        priorities = row_priorities(self.seed, first_position, len(scores))
        positions = first_position + np.arange(len(scores))
        sampler.update(priorities, BottomKSample(positions, priorities, columns).take)


def _merge_sample(sampler: BottomKSampler, sample: BottomKSample | None) -> None:
    if sample is not None:
        sampler.merge(sample)


def _read_first_rows(
    schema: ScoreSchema,
    partitions: Sequence[FilePartition],
    max_rows: int,
    location: str | Path,
) -> tuple[Path, Any]:
    """Return the first batch that has rows, without labels, and the file it is from."""
    scores_only = replace(schema, label_column=None, segment_by=())
    for partition in partitions:
        for _, table in read_tables(scores_only, partition, max_rows):
            with error_context(partition.path):
                return partition.path, table
    raise _no_rows(location)


def _no_rows(location: str | Path) -> InputError:
    return InputError(f"{str(location)!r} has no rows; at least one was expected.")


# Target -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StreamedTarget:
    """Target files: their schema, their partitions, and the predictions of the first rows.

    `n_rows` is None if the number of rows is not known before the files are read.
    """

    files: tuple[Path, ...]
    schema: ScoreSchema
    partitions: tuple[FilePartition, ...]
    n_rows: int | None
    preview: Predictions

    @classmethod
    def open(
        cls, location: str | Path, columns: PredictionColumns, segment_by: tuple[str, ...]
    ) -> StreamedTarget:
        """Find the files and read the first rows."""
        files = find_files(location)
        schema = infer_schema(files, columns, labelled=False, segment_by=segment_by)
        partitions, n_rows = make_partitions(files)
        path, table = _read_first_rows(schema, partitions, PREVIEW_ROWS, location)
        with error_context(path):
            # `Predictions` warns here if logits look like probabilities; the pass does not warn.
            preview = schema.predictions(
                schema.scores(table), decisions=schema.read_decisions(table)
            )
        return cls(files, schema, partitions, n_rows, preview)

    @property
    def k(self) -> int:
        return self.preview.k

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> StreamedTarget:
        """Return the target with its classes in the order of these names."""
        return replace(
            self,
            schema=self.schema.reorder_classes(class_names),
            preview=self.preview.reorder_classes(class_names),
        )

    def encode_labels(self, labels: Array) -> Array:
        """Return the class numbers of labels that were read from the files."""
        codes = encode_labels(
            labels,
            len(labels),
            self.k,
            self.schema.class_names,
            "labels of the target",
            numeric_text=True,  # CSV columns whose first cells are empty are read as text
        )
        assert codes is not None
        return codes


def fit_mergeable(
    runs: Mapping[str, EstimatorRun], preview: Predictions
) -> tuple[dict[str, FittedEstimator], dict[str, str]]:
    """Return the fitted mergeable estimators, and the reason for each that is not applicable.

    An estimator is not applicable if it cannot summarize the first rows.
    """
    fitted: dict[str, FittedEstimator] = {}
    skipped: dict[str, str] = {}
    for name, run in runs.items():
        if isinstance(run.estimator, StreamingEstimator) and run.estimator.is_mergeable:
            try:
                calibration = run.learned_source.calibration
                candidate = FittedEstimator(
                    run.estimator,
                    run.learned_state,
                    None if calibration.is_identity else calibration.without_source(),
                )
                candidate.summarize(preview)
                fitted[name] = candidate
            except NotApplicable as reason:
                skipped[name] = str(reason)
    return fitted, skipped


def make_plan(
    target: StreamedTarget,
    learned: LearnedReference,
    fitted: Mapping[str, FittedEstimator],
    *,
    seed: int,
) -> ScanPlan:
    """Return the plan that computes the partial result of each target partition."""
    source = learned.source
    row_correctness = None
    if target.schema.segment_by:
        row_correctness = learned.segments.correctness
    sample_size = min(MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS // target.k)
    return ScanPlan(
        schema=target.schema,
        batch_size=rows_per_batch(target.k),
        temperature=1.0 if source.temperature is None else source.temperature,
        estimators=tuple(fitted.values()),
        seed=seed,
        sample_size=sample_size,
        priority_bound=priority_bound(sample_size, target.n_rows),
        max_labels=MAX_LABELS,
        binned_accuracy=BinnedAccuracy.fit(source.predictions),
        row_correctness=row_correctness,
    )


class RowProgress:
    """Thread-safe progress report of the rows read; calls after `stop` raise an error."""

    def __init__(self, progress: ProgressCallback | None, total: int | None, unit: str) -> None:
        self._progress = progress
        self._total = total
        self._unit = unit
        self._done = 0
        self._stopped = False
        self._lock = threading.Lock()

    def __call__(self, n_rows: int) -> None:
        """Report that `n_rows` more rows were read."""
        with self._lock:
            if self._stopped:
                raise OodometerError("The pass was stopped because another partition failed.")
            self._done += n_rows
            if self._progress is not None:
                unit = self._unit if self._total is not None else f"{self._done:,} {self._unit}"
                self._progress(self._done, self._total or 0, unit)

    def stop(self) -> None:
        self._stopped = True


def scan(
    plan: ScanPlan, partitions: Sequence[FilePartition], runner: Runner, rows_read: RowProgress
) -> PartialResult:
    """Return the merged result of all partitions.

    Sums are added in the order of the partitions, because the last bits of a floating-point sum
    depend on the order. Samples can be merged in any order.
    """
    in_process = runner is serial
    work = partial(plan, report_rows=rows_read) if in_process else plan
    run = threads(min(os.cpu_count() or 1, MAX_READER_THREADS)) if in_process else runner
    sampler = BottomKSampler(plan.sample_size)
    labelled_sampler = BottomKSampler(plan.max_labels)
    merged = PartialResult()
    n_merged = 0
    waiting: dict[int, PartialResult] = {}
    try:
        for partition, result in run(work, partitions):
            if isinstance(result, Exception):
                raise result
            if not in_process:
                rows_read(result.n)
            _merge_sample(sampler, result.sample)
            _merge_sample(labelled_sampler, result.labelled_sample)
            waiting[partition.number] = replace(result, sample=None, labelled_sample=None)
            while n_merged in waiting:
                merged.merge(waiting.pop(n_merged))
                n_merged += 1
    finally:
        rows_read.stop()
    return replace(merged, sample=sampler.sample(), labelled_sample=labelled_sampler.sample())
