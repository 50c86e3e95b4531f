"""assess_streamed(): accuracy estimates from files larger than memory, in one pass.

The files can be read by this process or by the workers of a runner. Mergeable estimators compute
sums over batches, so they use every row of the target. All other estimators, the diagnostics and
the charts use a uniform random sample of the rows. Memory holds a few batches of at most 32 MiB
each, the sums, and the samples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from oodometer.assessment._estimate import SegmentInputs, assess
from oodometer.assessment.bootstrap import EstimatorRun
from oodometer.assessment.conformal_interval import HistoryInput
from oodometer.assessment.diagnostics import LabelledConfidences
from oodometer.assessment.learned_reference import LearnedReference, PreparesTargets, SourceRows
from oodometer.assessment.partial_sums import FittedEstimator, PartialResult, ScanPlan
from oodometer.assessment.ppi import (
    BinnedAccuracy,
    FewLabelsEstimate,
    UnlabelledMoments,
    ppi_estimate,
)
from oodometer.assessment.result import AssessedRows, Assessment
from oodometer.assessment.segments import LabelledRows
from oodometer.assessment.source_files import (
    RowProgress,
    merge_sample,
    read_first_rows,
)
from oodometer.core import validation
from oodometer.core.array_types import Array
from oodometer.core.errors import NotApplicable
from oodometer.core.labels import encode_labels
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback, StreamingEstimator
from oodometer.core.stats import rng_for
from oodometer.data.batch_reader import (
    FilePartition,
    error_context,
    find_files,
    infer_schema,
    make_partitions,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSampler, priority_bound
from oodometer.data.prediction_files import PredictionColumns, ScoreSchema
from oodometer.parallel.runners import Runner, limit_to_one_thread, serial, threads

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


@dataclass(frozen=True, eq=False)
class StreamedAssessment:
    """Assessment of files, which holds a sample of the target rows, and the labels and segments.

    `n_labels` is the number of labelled target rows. `sample_segments` has the segment value of each
    row of the sample; None without segments.
    """

    assessment: Assessment
    n_labels: int
    sample_segments: Array | None = None


@limit_to_one_thread()
def assess_streamed(
    reference: PreparesTargets,
    target: str | Path,
    columns: PredictionColumns,
    *,
    segment_by: tuple[str, ...] = (),
    period: str | None = None,
    history: HistoryInput = None,
    runner: Runner = serial,
    progress: ProgressCallback | None = None,
) -> StreamedAssessment:
    """Return the assessment of the files of a target, with what optional analyses need.

    The target must have the same column names as the source. `period` is the length of the segments
    if `segment_by` names a column of times.
    """
    files = StreamedTarget.open(target, columns, segment_by, source=reference.rows)
    files = replace(files, schema=replace(files.schema, period=period))
    learned, preview = reference.prepare(files.preview)
    files = files.reorder_classes(reference.rows.class_names)
    fitted, skipped = fit_mergeable(learned.runs, preview)
    plan = replace(
        make_plan(files, learned, fitted, seed=reference.seed),
        zero_replacement=learned.source.zero_replacement_for(files.preview),
        sum_tolerance=_sum_tolerance(reference.rows),
        thresholds=columns.thresholds,
    )
    summary = scan(plan, files.partitions, runner, RowProgress(progress, files.n_rows, "rows"))
    summary.skipped = skipped | summary.skipped
    assert summary.sample is not None
    sample = files.schema.predictions(
        summary.sample.columns.get("scores"),
        decisions=_decision_names(files.schema, summary.sample.columns.get("decisions")),
    )
    assessment = assess(
        learned.runs,
        learned.source.prepare(sample),
        summary,
        temperature_fit=learned.temperature_fit,
        label_estimate=_estimate_from_labels(files, summary, plan.binned_accuracy, reference.seed),
        labelled=_labelled_confidences(files, summary),
        is_source=_is_same_path(reference.source_rows.location, target),
        segment_inputs=(
            None
            if not segment_by
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
    source = reference.source_rows
    notes = tuple(_sampling_notes(assessment, source, summary, sample.n, n_labels))
    inputs = AssessedRows(source.predictions, sample, Path(target).name)
    return StreamedAssessment(
        replace(assessment, notes=(*assessment.notes, *notes), inputs=inputs),
        n_labels,
        sample_segments=summary.sample.columns.get("by"),
    )


def _is_same_path(source: str | Path | None, target: str | Path) -> bool:
    return source is not None and os.path.abspath(source) == os.path.abspath(target)


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
    if not files.preview.has_confidence:
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
    source: SourceRows,
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
        cls,
        location: str | Path,
        columns: PredictionColumns,
        segment_by: tuple[str, ...],
        *,
        source: Predictions | None = None,
    ) -> StreamedTarget:
        """Find the files and read the first rows; classes without scores are those of the source."""
        files = find_files(location)
        schema = infer_schema(files, columns, labelled=False, segment_by=segment_by)
        if schema.score_columns is None and schema.class_names is None and source is not None:
            names = source.class_names or tuple(map(str, range(source.k)))
            schema = replace(schema, class_names=names)
        partitions, n_rows = make_partitions(files)
        path, table = read_first_rows(schema, partitions, PREVIEW_ROWS, location)
        with error_context(path):
            # `Predictions` warns here if logits look like probabilities; the pass does not warn.
            preview = schema.read_batch(table)
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
        binned_accuracy=BinnedAccuracy.fit_for(
            source.predictions, has_confidence=target.preview.has_confidence
        ),
        row_correctness=row_correctness,
    )


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
            merge_sample(sampler, result.sample)
            merge_sample(labelled_sampler, result.labelled_sample)
            waiting[partition.number] = replace(result, sample=None, labelled_sample=None)
            while n_merged in waiting:
                merged.merge(waiting.pop(n_merged))
                n_merged += 1
    finally:
        rows_read.stop()
    return replace(merged, sample=sampler.sample(), labelled_sample=labelled_sampler.sample())
