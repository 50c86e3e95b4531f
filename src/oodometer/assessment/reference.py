"""Reference: a labelled source that is learned once and used for any number of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from oodometer.assessment._estimate import (
    MethodsInput,
    SegmentInputs,
    assess,
    check_replicates,
    check_scaling,
    labelled_confidences,
    labelled_segments,
    learn_source,
    resolve_estimators,
    validate_source,
    validate_target,
    with_headline_methods,
)
from oodometer.assessment.bootstrap import make_runs
from oodometer.assessment.conformal_interval import HistoryInput
from oodometer.assessment.learned_reference import LearnedReference, SourceRows
from oodometer.assessment.ppi import ppi_from_labels
from oodometer.assessment.prediction_inputs import (
    TargetRows,
    as_other_models,
    open_history,
    open_source,
    open_target,
    segment_columns,
    unlabelled_source_error,
)
from oodometer.assessment.result import AssessedRows, Assessment
from oodometer.assessment.segments import as_segments
from oodometer.assessment.source_files import read_source
from oodometer.assessment.target_labels import missing_label_notes
from oodometer.core.array_types import Array
from oodometer.core.calibration import CalibrationMethod
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.data.batch_reader import is_read_in_batches
from oodometer.data.prediction_files import PredictionColumns
from oodometer.parallel.runners import Runner, limit_to_one_thread, serial

NO_SOURCE_SEGMENTS_NOTE = (
    "The segments do not use source rows of their own; pass source_segment_by."
)
# Names of columns as a mapping, with the fields of `PredictionColumns` as keys.
ColumnsInput = PredictionColumns | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Reference:
    """Labelled source that is learned once, to estimate the accuracy on many targets.

    What depends only on the source is computed once, when it is first needed: the temperature, the
    calibration, the state of every estimator and the accuracy of each segment. The results are
    identical to those of `oodometer.estimate`, and later targets take less time.

    Parameters
    ----------
    source : Predictions, path, data frame or arrays
        Predictions on labelled held-out data that the model was not trained on; see
        `oodometer.estimate`. The attribute `source` holds them as `Predictions`.
    methods : str, Estimator, function, or sequence of these, optional
        Estimators to run; every listed estimator must be applicable. A function of source and target
        returns an accuracy; its name is the name of the method. By default, all applicable
        estimators are run.
    temperature : float, "fit" or None
        Temperature by which the logits of source and targets are divided. With "fit", it is
        calibrated on the source. With None, the scores are not changed.
    calibration : {"auto", "temperature", "isotonic", "beta", "platt", "none"}
        Calibration of the probabilities that some methods read; see `oodometer.estimate`.
    segment_by : array of shape (n,) or (n, m), mapping, data frame, str or list of str, optional
        One value per source row, or several columns whose values are combined; or the names of
        columns of the source. The estimate of a segment of a target then also uses the source rows
        of the same segment.
    other_models : Predictions, path, data frame or arrays, or list of these, optional
        Predictions of other models on the source rows.
    columns : mapping or PredictionColumns, optional
        Names of the columns of files and data frames; see `oodometer.estimate`. They are used for
        the source, the targets, the other models and the history.
    seed : int
        Random seed.
    replicates : int
        Number of bootstrap replicates, at least 20.

    Raises
    ------
    InputError
        If the source has no labels, or an argument does not match it.

    Examples
    --------
    The estimate of AC is the mean confidence of each target:

    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> reference = Reference(source, methods="ac", temperature=None)
    >>> january = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> february = Predictions.from_probs([[0.6, 0.4], [0.2, 0.8]])
    >>> [round(reference.estimate(month)["ac"].value, 3) for month in (january, february)]
    [0.8, 0.7]
    """

    source: Any
    _: KW_ONLY
    methods: MethodsInput = None
    temperature: float | Literal["fit"] | None = "fit"
    calibration: CalibrationMethod = "auto"
    segment_by: Any = None
    other_models: Any = None
    columns: ColumnsInput = None
    seed: int = 0
    replicates: int = 200
    source_rows: SourceRows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_replicates(self.replicates)
        check_scaling(self.temperature, self.calibration)
        columns = PredictionColumns.of(self.columns)
        object.__setattr__(self, "columns", columns)
        names = segment_columns(self.segment_by)
        rows = open_source(self.source, columns, segment_by=names, seed=self.seed)
        by_name = bool(names) and rows.segments is not None
        is_name = isinstance(self.segment_by, str)
        if names and not by_name and (is_name or len(names) != rows.predictions.n):
            raise InputError(
                f"The source has no column {' or no column '.join(map(repr, names))}. Name columns of "
                "the source in segment_by, or pass one value per source row."
            )
        object.__setattr__(self, "source", rows.predictions)
        object.__setattr__(self, "source_rows", rows)
        other_models = as_other_models(self.other_models, columns, source=rows.predictions)
        object.__setattr__(self, "other_models", other_models)
        _ = self.rows  # raises if the source is not valid
        name = "values of segment_by of the source"
        segments = rows.segments if by_name else self.segment_by
        values = as_segments(segments, self.source.n, name)
        object.__setattr__(self, "segment_by", values)
        resolve_estimators(self.methods)  # raises if a name is unknown

    @cached_property
    def rows(self) -> Predictions:
        """Return the validated source, with the predictions of other models attached."""
        return validate_source(self.source, self.other_models)

    @property
    def requested(self) -> tuple[str, ...]:
        """Return the names of the requested methods; none if all methods are run."""
        if not self.methods:
            return ()
        return tuple(estimator.name for estimator in resolve_estimators(self.methods))

    def learned(self, *, target_has_probs: bool) -> LearnedReference:
        """Return what is learned from the source, for targets with or without probabilities."""
        return self._with_probs if target_has_probs else self._without_probs

    @cached_property
    def _with_probs(self) -> LearnedReference:
        return self._learn(target_has_probs=True)

    @cached_property
    def _without_probs(self) -> LearnedReference:
        return self._learn(target_has_probs=False)

    @limit_to_one_thread()
    def _learn(self, *, target_has_probs: bool) -> LearnedReference:
        source, fit = learn_source(
            self.rows,
            self.temperature,
            self.calibration,
            target_has_probs=target_has_probs,
            seed=self.seed,
        )
        estimators = with_headline_methods(resolve_estimators(self.methods))
        runs = make_runs(estimators, source, seed=self.seed, replicates=self.replicates)
        return LearnedReference(source, fit, runs, self.segment_by)

    def prepare(
        self,
        target: Predictions,
        other_models: Predictions | Sequence[Predictions] | None = None,
    ) -> tuple[LearnedReference, Predictions]:
        """Return what is learned for a target, and the validated target, scaled as the source."""
        target = validate_target(target, self.rows, other_models)
        learned = self.learned(target_has_probs=target.has_probs)
        return learned, learned.source.prepare(target)

    @limit_to_one_thread()
    def estimate(
        self,
        target: Any,
        *,
        segment_by: Any = None,
        target_labels: Any = None,
        history: Any = None,
        other_models: Any = None,
        metrics: str | Sequence[str] | None = None,
        bound: bool = False,
        margin: float | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assessment:
        """Estimate the accuracy on an unlabelled target with every applicable method.

        Parameters
        ----------
        target : Predictions, path, data frame or arrays
            Predictions on the new data; see `oodometer.estimate`.
        segment_by, target_labels, history, other_models, metrics, bound, margin
            See `oodometer.estimate`.
        progress : callable, optional
            Called with the number of finished steps, the total number of steps, and the name of
            the current step.

        Returns
        -------
        Assessment
            Estimates of all applicable methods, the headline, diagnostics and segments.

        Raises
        ------
        InputError
            If the target or another argument does not match the source.
        NotApplicable
            If no method is applicable, or if one of `methods` is not applicable.
        """
        requests = None
        if metrics or bound or margin is not None:
            from oodometer.assessment import optional_analyses

            requests = optional_analyses.make_requests(metrics, bound=bound, margin=margin)
        columns = PredictionColumns.of(self.columns)
        past = open_history(history, columns)
        if self.is_streamed(target):
            _reject_in_batches(segment_by, target_labels, other_models)
            assessment, segments = self._estimate_files(target, segment_by, past, progress)
        else:
            rows = open_target(
                target,
                columns,
                segment_by=segment_by,
                target_labels=target_labels,
                source=self.rows,
            )
            others = as_other_models(other_models, columns, source=self.rows)
            assessment = self._estimate_rows(rows, past, others, progress)
            if target_labels is not None:
                notes = (*missing_label_notes(target_labels), *assessment.notes)
                assessment = replace(assessment, notes=notes)
            segments = rows.segments
        if requests is None:
            return assessment
        return optional_analyses.add_results(assessment, requests, self, segment_by=segments)

    def is_streamed(self, target: Any) -> bool:
        """Return whether a target is read in batches: a path, and source or target is large."""
        locations = (target, self.source_rows.location)
        return isinstance(target, str | Path) and any(
            location is not None and is_read_in_batches(location) for location in locations
        )

    def _estimate_files(
        self,
        target: str | Path,
        segment_by: Any,
        history: HistoryInput,
        progress: ProgressCallback | None,
    ) -> tuple[Assessment, Array | None]:
        """Return the assessment of files that are read in batches, and segments of sampled rows."""
        from oodometer.assessment.streaming import assess_streamed

        result = assess_streamed(
            self,
            target,
            PredictionColumns.of(self.columns),
            segment_by=segment_columns(segment_by),
            history=history,
            progress=progress,
        )
        return result.assessment, result.sample_segments

    def _estimate_rows(
        self,
        rows: TargetRows,
        history: HistoryInput,
        other_models: Predictions | Sequence[Predictions] | None,
        progress: ProgressCallback | None,
    ) -> Assessment:
        learned, target = self.prepare(rows.predictions, other_models)
        segments = as_segments(rows.segments, target.n, "values of segment_by")
        label_estimate = None
        if rows.labels is not None:
            label_estimate = ppi_from_labels(
                learned.source.predictions, target, rows.labels, self.seed
            )
        assessment = assess(
            learned.runs,
            target,
            None,
            temperature_fit=learned.temperature_fit,
            label_estimate=label_estimate,
            labelled=labelled_confidences(target, rows.labels),
            segment_inputs=_segment_inputs(learned, target, rows.labels, segments),
            history=history,
            source_batches=learned.batches,
            requested=self.requested,
            progress=progress,
        )
        note = self.source_rows.sampling_note
        return replace(
            assessment,
            notes=assessment.notes if note is None else (*assessment.notes, note),
            inputs=AssessedRows(self.source, rows.predictions, rows.name),
        )


def _reject_in_batches(segment_by: Any, target_labels: Any, other_models: Any) -> None:
    """Raise if arguments are given that cannot be used if files are read in batches."""
    if segment_by is not None and not segment_columns(segment_by):
        raise InputError(
            "segment_by must be the name of a column, or a list of names, if files are read in batches; got "
            f"{type(segment_by).__name__}. Write the values into a column of the target."
        )
    if target_labels is not None:
        raise InputError(
            "target_labels cannot be used if files are read in batches, because rows are not "
            "numbered there. Put the labels into the label column of the target and leave the "
            "other rows blank."
        )
    if other_models is not None:
        raise InputError(
            "other_models cannot be used if files are read in batches, because the rows of two "
            "models would have to be read side by side. Leave it out, or use smaller files."
        )


def _segment_inputs(
    learned: LearnedReference, target: Predictions, target_labels: Any, segment_by: Array | None
) -> SegmentInputs | None:
    if segment_by is None:
        return None
    model = learned.segments
    labelled = labelled_segments(model.correctness, target, target_labels, segment_by)
    return SegmentInputs(segment_by, model, labelled)


def estimate(  # noqa: PLR0913 (two data parameters and sixteen options)
    source: Any,
    target: Any,
    *,
    other_models: Any = None,
    other_models_on_source: Any = None,
    target_labels: Any = None,
    history: Any = None,
    methods: MethodsInput = None,
    temperature: float | Literal["fit"] | None = "fit",
    calibration: CalibrationMethod = "auto",
    segment_by: Any = None,
    source_segment_by: Any = None,
    columns: ColumnsInput = None,
    metrics: str | Sequence[str] | None = None,
    bound: bool = False,
    margin: float | None = None,
    seed: int = 0,
    replicates: int = 200,
    progress: ProgressCallback | None = None,
) -> Assessment:
    """Estimate the accuracy on an unlabelled target with every applicable method.

    Each estimate has a 95 % confidence interval. The interval reflects sampling error only, not
    violations of the method's assumption. The diagnostics and the typical range from `history`
    indicate such violations. For several targets with the same source, `Reference` is faster.

    Parameters
    ----------
    source : Predictions, path, data frame, or pair (probs, labels)
        Predictions on labelled held-out data that the model was not trained on. A path is a file
        that `read_predictions` reads, a folder of such files, or a pattern. A data frame is a
        pandas, polars or pyarrow table with the columns that such a file has. A pair has an array
        of probabilities of shape (n, k) and the labels. Arrays are never read as logits: use
        `Predictions.from_logits`.
    target : Predictions, path, data frame, or array of probabilities
        Predictions on the new data, given like the source; labels are not needed. If a file, a
        data frame or a pair has labels for some rows only, they are used as `target_labels`; if
        every row has a label, the labels are ignored. Folders, patterns and files above 1 GB are
        read in batches, like by `estimate_files`.
    other_models : Predictions, path, data frame or array, or list of these, optional
        Predictions of other models on the target rows, in the same order. GDE requires one other
        model that was trained with a different random seed but is otherwise equal.
        Agreement-on-the-line requires several other models.
    other_models_on_source : Predictions, path, data frame or array, or list of these, optional
        Predictions of the same other models on the source rows.
    target_labels : path, data frame, tuple of (rows, labels), or sequence, optional
        Labels of a few target rows: a table with the column `label` and the column `row` (counted
        from 0) or `id`, such as the filled-in file of `plan_labels`; or a pair of row numbers and
        labels; or a sequence with one label per target row. Missing labels are None, NaN or empty
        strings. The headline is then estimated from these labels by PPI++.
    history : History, path, data frame, or sequence of labelled predictions, optional
        At least five past domains with known accuracy, either as a History of estimates and
        accuracies, or a table with the columns `estimate` and `truth`, or as labelled predictions
        of each domain, given like the source; a folder or pattern stands for its files, one per
        domain. The typical range, which includes the error caused by shift, then uses these errors,
        too.
    methods : str, Estimator, function, or sequence of these, optional
        Estimators to run; every listed estimator must be applicable. A function of source and target
        returns an accuracy; its name is the name of the method. By default, all applicable
        estimators are run.
    temperature : float, "fit" or None
        Temperature by which the logits of source and target are divided. With "fit", it is
        calibrated on the source. With None, the scores are not changed.
    calibration : {"auto", "temperature", "isotonic", "beta", "platt", "none"}
        Calibration of the probabilities that AC, COT, COTT, MLLS, LEAP and PAPE read. With "auto",
        the temperature-scaled probabilities are calibrated further, by isotonic regression or beta
        calibration, if a test shows that they are not calibrated on the source. With "none", these
        methods read the scores without a temperature. The other methods use the temperature alone,
        as in their papers.
    segment_by : array of shape (n,) or (n, m), mapping, data frame, str or list of str, optional
        One value per target row, or several columns whose values are combined; or the names of
        columns of a file or data frame. The accuracy of each segment is then estimated as well. The
        mean over the segments, weighted by rows, is the headline.
    source_segment_by : array, mapping, data frame, str or list of str, optional
        The same for the source rows. The estimate of a segment then also uses the source rows of
        the same segment. Default: the columns `segment_by` of the source, if `segment_by` has names
        and the source has these columns.
    columns : mapping or PredictionColumns, optional
        Names of the columns of files and data frames, if they are not the default names; for
        example ``{"label_column": "employed", "prob_columns": "predicted_probability"}``. The keys
        are "label_column", "prob_columns" and "logit_columns" (name of one column, or common prefix
        of one column per class), "pred_column" (decisions), "class_names" (sequence of str) and
        "thresholds" (number, or one per class; see `Predictions.decide`). The names are used for
        source, target, other models and history; `Predictions` and arrays have no columns.
    metrics : str or sequence of str, optional
        Metrics other than accuracy to estimate (CBPE), such as "f1"; "all" for all of them. The
        result is `Assessment.metrics`.
    bound : bool
        Whether to compute a lower bound on the accuracy (DIS²), `Assessment.bound`.
    margin : float, optional
        Also test whether the loss of accuracy is smaller than this fraction. The result is
        `Assessment.noninferiority`.
    seed : int
        Random seed.
    replicates : int
        Number of bootstrap replicates, at least 20.
    progress : callable, optional
        Called with the number of finished steps, the total number of steps, and the name of the
        current step.

    Returns
    -------
    Assessment
        Estimates of all applicable methods, the headline, diagnostics and segments.

    Raises
    ------
    InputError
        If the source has no labels, or if source, target and the other arguments do not match.
    NotApplicable
        If no method is applicable, or if one of `methods` is not applicable.

    Examples
    --------
    The estimate of AC is the mean confidence of the target:

    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> result = estimate(source, target, methods="ac", temperature=None)
    >>> round(result["ac"].value, 3), result.source_accuracy
    (0.8, 0.5)

    The same from arrays:

    >>> pair = [[0.9, 0.1], [0.4, 0.6]], [0, 0]
    >>> result = estimate(pair, [[0.7, 0.3], [0.1, 0.9]], methods="ac", temperature=None)
    >>> round(result["ac"].value, 3)
    0.8

    Data frames whose columns have other names than `prob` and `label`:

    >>> import pyarrow as pa
    >>> frame = pa.table({"score": [0.1, 0.6], "truth": [0, 0]})
    >>> names = {"prob_columns": "score", "label_column": "truth"}
    >>> result = estimate(frame, frame, columns=names, methods="ac", temperature=None)
    >>> round(result["ac"].value, 3)
    0.75
    """
    columns = PredictionColumns.of(columns)
    names = segment_columns(segment_by if source_segment_by is None else source_segment_by)
    rows = open_source(source, columns, segment_by=names, seed=seed, progress=progress)
    if not rows.predictions.is_labelled:
        raise unlabelled_source_error(source, target, columns)
    if source_segment_by is None:
        source_segment_by = rows.segments
    reference = Reference(
        rows,
        methods=methods,
        temperature=temperature,
        calibration=calibration,
        segment_by=source_segment_by,
        other_models=other_models_on_source,
        columns=columns,
        seed=seed,
        replicates=replicates,
    )
    assessment = reference.estimate(
        target,
        segment_by=segment_by,
        target_labels=target_labels,
        history=history,
        other_models=other_models,
        metrics=metrics,
        bound=bound,
        margin=margin,
        progress=progress,
    )
    if not assessment.segments or reference.segment_by is not None:
        return assessment
    return replace(assessment, notes=(*assessment.notes, NO_SOURCE_SEGMENTS_NOTE))


# Files read in batches ---------------------------------------------------------------------------


@dataclass(frozen=True)
class EstimateOptions:
    """Settings of `estimate_files`; they have the same meaning as the arguments of `estimate`.

    Parameters
    ----------
    methods : str, Estimator, function, or sequence of these, optional
        Estimators to run; every listed estimator must be applicable. A function of source and target
        returns an accuracy; its name is the name of the method. By default, all applicable
        estimators are run.
    temperature : float, "fit" or None
        Temperature by which the logits of source and target are divided. With "fit", it is
        calibrated on the source. With None, the scores are not changed.
    calibration : {"auto", "temperature", "isotonic", "beta", "platt", "none"}
        Calibration of the probabilities that some methods read.
    segment_by : str or sequence of str, optional
        Column of the target. The accuracy is then also estimated for each value of the column, or
        for each combination of values of several columns.
    period : {"hour", "day", "week", "month"}, optional
        Length of the segments if `segment_by` is a column of times. The segments of the source are
        then not used.
    seed : int
        Random seed.
    replicates : int
        Number of bootstrap replicates, at least 20.

    Examples
    --------
    >>> EstimateOptions(methods=("doc", "atc-mc"), seed=1).replicates
    200
    """

    methods: MethodsInput = None
    temperature: float | Literal["fit"] | None = "fit"
    calibration: CalibrationMethod = "auto"
    segment_by: str | Sequence[str] | None = None
    period: Literal["hour", "day", "week", "month"] | None = None
    seed: int = 0
    replicates: int = 200

    def __post_init__(self) -> None:
        check_replicates(self.replicates)

    @property
    def segment_columns(self) -> tuple[str, ...]:
        """Return the names of the segment columns; none without segments."""
        return segment_columns(self.segment_by)

    def learn(
        self, rows: SourceRows, *, other_models: Sequence[Predictions] | None = None
    ) -> Reference:
        """Return the source with these settings; periods of time have no segments in the source."""
        return Reference(
            rows,
            methods=self.methods,
            temperature=self.temperature,
            calibration=self.calibration,
            segment_by=None if self.period is not None else rows.segments,
            other_models=other_models,
            seed=self.seed,
            replicates=self.replicates,
        )


def estimate_files(
    source: str | Path,
    target: str | Path,
    *,
    columns: ColumnsInput = None,
    options: EstimateOptions | None = None,
    history: Any = None,
    runner: Runner = serial,
    progress: ProgressCallback | None = None,
) -> Assessment:
    """Estimate the accuracy on a target whose predictions are in files larger than memory.

    `estimate` also reads large files in batches. This function reads files of any size in batches,
    can use workers, and takes periods of time. Mergeable methods use every
    row. All other methods and the diagnostics use a uniform random sample of the target if it is
    large; `Assessment.notes` then gives the size of the sample. The result does not depend on the
    runner.

    Parameters
    ----------
    source : str or path
        Labelled predictions: a Parquet, CSV, TSV, JSON-lines or Arrow file, a folder of such files,
        or a pattern such as ``"scores/*.parquet"``.
    target : str or path
        Predictions on the new data, in the same formats as the source. If only some rows have a
        value in the label column, these labels are used like `target_labels` of `estimate`. If all
        rows have a label, the labels are ignored.
    columns : mapping or PredictionColumns, optional
        Names of the columns that contain scores and labels, and names of the classes; see
        `estimate`.
    options : EstimateOptions, optional
        Methods, temperature, segment columns, seed and replicates.
    history : History, path, data frame, or sequence of labelled predictions, optional
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
    from oodometer.assessment.streaming import assess_streamed

    columns = PredictionColumns.of(columns)
    options = EstimateOptions() if options is None else options
    rows = read_source(
        source,
        columns,
        segment_by=() if options.period is not None else options.segment_columns,
        seed=options.seed,
        runner=runner,
        progress=progress,
    )
    return assess_streamed(
        options.learn(rows),
        target,
        columns,
        segment_by=options.segment_columns,
        period=options.period,
        history=open_history(history, columns),
        runner=runner,
        progress=progress,
    ).assessment
