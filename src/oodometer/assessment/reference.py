"""Reference: a labelled source that is learned once and used for any number of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from oodometer.assessment._estimate import (
    HistoryInput,
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
from oodometer.assessment.bootstrap import EstimatorRun, LearnedSource, make_runs
from oodometer.assessment.ppi import ppi_from_labels
from oodometer.assessment.result import Assessment
from oodometer.assessment.segments import SegmentModel, as_segments, combine_segments
from oodometer.assessment.source_batches import SourceBatches
from oodometer.core.array_types import Array
from oodometer.core.calibration import CalibrationMethod, Temperature
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.parallel.runners import limit_to_one_thread


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


@dataclass(frozen=True, eq=False)
class Reference:
    """Labelled source that is learned once, to estimate the accuracy on many targets.

    What depends only on the source is computed once, when it is first needed: the temperature, the
    calibration, the state of every estimator and the accuracy of each segment. The results are
    identical to those of `oodometer.estimate`, and later targets take less time.

    Parameters
    ----------
    source : Predictions
        Predictions on labelled held-out data that the model was not trained on.
    methods : str, Estimator, function, or sequence of these, optional
        Estimators to run; every listed estimator must be applicable. A function of source and target
        returns an accuracy; its name is the name of the method. By default, all applicable
        estimators are run.
    temperature : float, "fit" or None
        Temperature by which the logits of source and targets are divided. With "fit", it is
        calibrated on the source. With None, the scores are not changed.
    calibration : {"auto", "temperature", "isotonic", "beta", "platt", "none"}
        Calibration of the probabilities that some methods read; see `oodometer.estimate`.
    segment_by : array of shape (n,) or (n, m), mapping or data frame, optional
        One value per source row, or several columns whose values are combined. The estimate of a
        segment of a target then also uses the source rows of the same segment.
    other_models : Predictions or sequence of Predictions, optional
        Predictions of other models on the source rows.
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

    source: Predictions
    _: KW_ONLY
    methods: MethodsInput = None
    temperature: float | Literal["fit"] | None = "fit"
    calibration: CalibrationMethod = "auto"
    segment_by: Any = None
    other_models: Predictions | Sequence[Predictions] | None = None
    seed: int = 0
    replicates: int = 200

    def __post_init__(self) -> None:
        check_replicates(self.replicates)
        check_scaling(self.temperature, self.calibration)
        _ = self.rows  # raises if the source is not valid
        name = "values of segment_by of the source"
        if self.segment_by is not None:
            values = as_segments(self.segment_by, self.source.n, name)
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
        target: Predictions,
        *,
        segment_by: Any = None,
        target_labels: Any = None,
        history: HistoryInput = None,
        other_models: Predictions | Sequence[Predictions] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assessment:
        """Estimate the accuracy on an unlabelled target with every applicable method.

        Parameters
        ----------
        target : Predictions
            Predictions on the new data. Labels of the target are ignored; see `target_labels`.
        segment_by : array of shape (n,) or (n, m), mapping or data frame, optional
            One value per target row, or several columns whose values are combined. The accuracy of
            each segment is then estimated as well.
        target_labels : tuple of (rows, labels), or sequence, optional
            Labels of a few target rows; see `oodometer.estimate`.
        history : History or sequence of Predictions, optional
            Past domains with known accuracy; see `oodometer.estimate`.
        other_models : Predictions or sequence of Predictions, optional
            Predictions of other models on the target rows, in the same order.
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
        learned, target = self.prepare(target, other_models)
        if segment_by is not None:
            segment_by = as_segments(segment_by, target.n, "values of segment_by")
        label_estimate = None
        if target_labels is not None:
            label_estimate = ppi_from_labels(
                learned.source.predictions, target, target_labels, self.seed
            )
        return assess(
            learned.runs,
            target,
            None,
            temperature_fit=learned.temperature_fit,
            label_estimate=label_estimate,
            labelled=labelled_confidences(target, target_labels),
            segment_inputs=_segment_inputs(learned, target, target_labels, segment_by),
            history=history,
            source_batches=learned.batches,
            requested=self.requested,
            progress=progress,
        )


def _segment_inputs(
    learned: LearnedReference, target: Predictions, target_labels: Any, segment_by: Array | None
) -> SegmentInputs | None:
    if segment_by is None:
        return None
    model = learned.segments
    labelled = labelled_segments(model.correctness, target, target_labels, segment_by)
    return SegmentInputs(segment_by, model, labelled)


def estimate(
    source: Predictions,
    target: Predictions,
    *,
    other_models: Predictions | Sequence[Predictions] | None = None,
    other_models_on_source: Predictions | Sequence[Predictions] | None = None,
    target_labels: Any = None,
    history: HistoryInput = None,
    methods: MethodsInput = None,
    temperature: float | Literal["fit"] | None = "fit",
    calibration: CalibrationMethod = "auto",
    segment_by: Any = None,
    source_segment_by: Any = None,
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
    source : Predictions
        Predictions on labelled held-out data that the model was not trained on.
    target : Predictions
        Predictions on the new data. Labels of the target are ignored; see `target_labels`.
    other_models : Predictions or sequence of Predictions, optional
        Predictions of other models on the target rows, in the same order. GDE requires one other
        model that was trained with a different random seed but is otherwise equal.
        Agreement-on-the-line requires several other models.
    other_models_on_source : Predictions or sequence of Predictions, optional
        Predictions of the same other models on the source rows.
    target_labels : tuple of (rows, labels), or sequence, optional
        Labels of a few target rows, either as a pair of row numbers and labels, or as a sequence
        with one label per target row in which missing labels are None, NaN or empty strings. The
        headline is then estimated from these labels by PPI++.
    history : History or sequence of Predictions, optional
        At least five past domains with known accuracy, either as a History of estimates and
        accuracies, or as labelled predictions. The result then has a typical range, which includes
        the error caused by shift.
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
    segment_by : array of shape (n,) or (n, m), mapping or data frame, optional
        One value per target row, or several columns whose values are combined. The accuracy of each
        segment is then estimated as well. The mean over the segments, weighted by rows, is the
        headline.
    source_segment_by : array of shape (n,) or (n, m), mapping or data frame, optional
        The same for the source rows. The estimate of a segment then also uses the source rows of the
        same segment.
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
    """
    reference = Reference(
        source,
        methods=methods,
        temperature=temperature,
        calibration=calibration,
        segment_by=source_segment_by,
        other_models=other_models_on_source,
        seed=seed,
        replicates=replicates,
    )
    return reference.estimate(
        target,
        segment_by=segment_by,
        target_labels=target_labels,
        history=history,
        other_models=other_models,
        progress=progress,
    )


# Sources in files --------------------------------------------------------------------------------


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
        if self.segment_by is None:
            return ()
        return (self.segment_by,) if isinstance(self.segment_by, str) else tuple(self.segment_by)


@dataclass(frozen=True, eq=False)
class StreamedSource:
    """Labelled predictions: all `n_rows` rows of the files, or a uniform random sample of them."""

    predictions: Predictions
    n_rows: int
    segments: Array | None = None

    @property
    def sampling_note(self) -> str | None:
        if self.predictions.n == self.n_rows:
            return None
        return f"The source is a random sample of {self.predictions.n:,} of {self.n_rows:,} rows."


@dataclass(frozen=True, eq=False)
class FileReference:
    """Source that was read from files and is learned once, for any number of targets."""

    location: str | Path
    rows: StreamedSource
    reference: Reference

    @classmethod
    def learn(
        cls,
        location: str | Path,
        rows: StreamedSource,
        options: EstimateOptions,
        *,
        other_models: Sequence[Predictions] | None = None,
    ) -> FileReference:
        """Learn from source rows; `other_models` are predictions of other models on these rows."""
        reference = Reference(
            rows.predictions,
            methods=options.methods,
            temperature=options.temperature,
            calibration=options.calibration,
            segment_by=None if options.period is not None else rows.segments,
            other_models=other_models,
            seed=options.seed,
            replicates=options.replicates,
        )
        return cls(location, rows, reference)


def read_whole_source(
    location: str | Path, columns: PredictionColumns, segment_by: Sequence[str] = ()
) -> StreamedSource:
    """Read a labelled source into memory, with its segments if it has all columns `segment_by`."""
    return whole_source(ScoreFile.open(location), columns, segment_by)


def whole_source(
    file: ScoreFile, columns: PredictionColumns, segment_by: Sequence[str]
) -> StreamedSource:
    """Return a labelled source that is in memory."""
    whole = file.predictions(columns, labelled=True)
    has_segments = segment_by and set(segment_by) <= set(file.column_names)
    segments = (
        combine_segments([file.column(name) for name in segment_by]) if has_segments else None
    )
    return StreamedSource(whole, whole.n, segments)
