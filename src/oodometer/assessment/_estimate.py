"""Assessment of a target: run every applicable estimator, diagnose the shift, choose the headline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from oodometer import estimators as registered
from oodometer.assessment import headline
from oodometer.assessment.bootstrap import (
    EstimatorRun,
    LearnedSource,
    make_runs,
    replace_zeros,
    run_all,
    scale,
)
from oodometer.assessment.conformal_interval import History, HistoryInput, ShiftInterval
from oodometer.assessment.diagnostics import (
    DiagnosticContext,
    LabelledConfidences,
    confidence_distance,
    diagnose,
    estimate_range,
)
from oodometer.assessment.duplicate_rows import duplicate_notes
from oodometer.assessment.labeling_plan import labels_for_accuracy
from oodometer.assessment.ppi import (
    PPI_METHOD,
    FewLabelsEstimate,
    labelled_rows,
    unused_label_notes,
)
from oodometer.assessment.result import (
    SAME_ROWS,
    Assessment,
    Headline,
    Segment,
    format_percent,
)
from oodometer.assessment.segments import (
    LabelledRows,
    RowCorrectness,
    SegmentModel,
    estimate_segments,
    group_rows,
    segment_sums,
    segment_values,
    with_status,
)
from oodometer.assessment.source_batches import SourceBatches
from oodometer.assessment.typical_range import Covariates, ReferenceErrors, typical_range
from oodometer.core import validation
from oodometer.core.array_types import Array
from oodometer.core.calibration import (
    CALIBRATION_METHODS,
    Calibration,
    CalibrationMethod,
    Temperature,
    calibrate,
    fit_temperature,
)
from oodometer.core.errors import InputError, NotApplicable, UnknownName, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, ProgressCallback
from oodometer.core.registry import resolve_members
from oodometer.core.results import Diagnostic, Estimate, Status, worst_status
from oodometer.core.stats import wilson_interval
from oodometer.data.prediction_files import SOURCE_LABELS_ADVICE
from oodometer.estimators.atc import atc_source_bound
from oodometer.estimators.regime_weighting import ALIKE_DEVIATIONS

if TYPE_CHECKING:
    from oodometer.assessment.partial_sums import PartialResult

# Names, estimators or functions from source and target predictions to an accuracy.
Method = str | Estimator | Callable[[Predictions, Predictions], float | Estimate]
MethodsInput = Method | Sequence[Method] | None
MIN_REPLICATES = 20
NO_SCORES_ADVICE = (
    "Most methods need scores of source and target: one column per class, prob_… or logit_…. From "
    "predicted classes alone, bbse applies and, with predictions of other models, gde, aline-s and aline-d."
)


def assess(
    runs: Mapping[str, EstimatorRun],
    target: Predictions,
    summary: PartialResult | None,
    *,
    temperature_fit: Temperature | None,
    label_estimate: FewLabelsEstimate | None = None,
    labelled: LabelledConfidences | None = None,
    is_source: bool = False,
    segment_inputs: SegmentInputs | None = None,
    history: HistoryInput = None,
    source_batches: SourceBatches | None = None,
    requested: Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> Assessment:
    """Return the assessment of a target that is in memory or in files.

    If the target is in memory, `target` has all rows, and `summary` is None. If the target is in
    files, `target` is a uniform sample of the rows, and `summary` is the result of the pass over all
    rows. `labelled` are the target rows with labels, `is_source` is whether the files of the target
    are those of the source. If methods are `requested`, the result contains only these and the
    method of the headline.
    """
    run = next(iter(runs.values()))
    learned = run.learned_source
    source = learned.predictions
    n_target = target.n if summary is None else summary.n
    totals = {} if summary is None else summary.totals
    is_source |= target.n == n_target and _have_equal_scores(source, target)
    estimates, skipped = run_all(
        runs,
        target,
        totals=totals,
        n_target=n_target,
        skipped=None if summary is None else summary.skipped,
        progress=progress,
    )
    _require_results(
        estimates, skipped, requested, has_scores=source.has_probs and target.has_probs
    )
    if target.n < n_target:
        for name in estimates.keys() - totals.keys():
            note = f"from a random sample of {target.n:,} of {n_target:,} rows"
            estimates[name] = replace(estimates[name], notes=(*estimates[name].notes, note))
    diagnostics = diagnose(
        DiagnosticContext(
            source,
            target,
            tuple(estimates.values()),
            temperature_fit,
            labelled,
            calibration=learned.calibration,
        )
    )
    method, why = headline.select_headline(
        estimates,
        source,
        calibrated=_is_calibrated(temperature_fit, learned),
        statuses={diagnostic.name: diagnostic.status for diagnostic in diagnostics},
    )
    diagnostics = (*diagnostics, *_same_rows(is_source))
    shift = past = None
    if label_estimate is not None and label_estimate.method == PPI_METHOD:
        # Shift does not bias an estimate from target labels, so no typical range is needed.
        method = PPI_METHOD
        why = f"estimated from {label_estimate.n_labels} target labels"
    else:
        past = _to_history(history, method, runs)
        shift = _typical_range(
            estimates,
            method,
            diagnostics,
            history=past,
            source_batches=source_batches,
            n_source=source.n,
            n_target=n_target,
        )
    from_labels = {}
    if label_estimate is not None:
        from_labels = {label_estimate.method: label_estimate.estimate}
    best = _corrected({**estimates, **from_labels}[method], shift)
    if requested:
        names = {*requested, method}
        estimates = {name: one for name, one in estimates.items() if name in names}
        skipped = {}
    estimates |= from_labels
    segments: tuple[Segment, ...] = ()
    if segment_inputs is not None:
        segments = _estimate_segments(
            segment_inputs, best, learned, target, summary, past, run.seed
        )
    return Assessment(
        n_source=source.n,
        n_target=n_target,
        k=source.k,
        source_accuracy=float(source.correct.mean()),
        source_interval=wilson_interval(int(np.count_nonzero(source.correct)), source.n),
        temperature=learned.temperature,
        calibration=learned.calibration.method,
        estimates=tuple(estimates.values()),
        skipped=skipped,
        headline=Headline(best, why, _headline_status(method, diagnostics)),
        diagnostics=diagnostics,
        segments=segments,
        seed=run.seed,
        shift=shift,
        labels_needed=_labels_needed(best, shift, n_target),
        notes=(
            *unused_label_notes(label_estimate),
            *dict.fromkeys((*source.notes, *target.notes)),
            *(_source_notes(estimates, source.n) if is_source else duplicate_notes(source, target)),
        ),
    )


def _headline_status(method: str, diagnostics: Sequence[Diagnostic]) -> Status:
    """Return the worst status of the diagnostics that concern the method of the headline.

    Diagnostics of shift do not concern an estimate from target labels.
    """
    if method == PPI_METHOD:
        return "ok"
    return worst_status([check for check in diagnostics if check.concerns(method)])


def _typical_range(
    estimates: Mapping[str, Estimate],
    method: str,
    diagnostics: Sequence[Diagnostic],
    *,
    history: History | None,
    source_batches: SourceBatches | None,
    n_source: int,
    n_target: int,
) -> ShiftInterval | None:
    """Return the typical range from reference cases and the history; None if there are none."""
    estimate = estimates[method]
    spread = estimate_range(tuple(estimates.values()))
    distances = [each.value for each in diagnostics if each.name == "score_distance"]
    covariates = None
    if distances:
        covariates = Covariates.of(
            estimate, n_source=n_source, n_target=n_target, distance=distances[0]
        )
    if covariates is None:
        return None if history is None else history.interval(estimate.value, spread)
    looks_alike = estimate.facts["regime_auc_deviations"] < ALIKE_DEVIATIONS
    batches = source_batches.history if source_batches is not None and looks_alike else None
    return typical_range(
        estimate.value, covariates, history=history, spread=spread, source_batches=batches
    )


def _corrected(estimate: Estimate, shift: ShiftInterval | None) -> Estimate:
    """Return the estimate, corrected by the consistent bias of past estimates."""
    if shift is None or not shift.correction:
        return estimate
    side = "high" if shift.correction < 0 else "low"
    note = (
        f"corrected by {100 * shift.correction:+.1f} points, because the past estimates were "
        f"consistently too {side}"
    )
    low, high = (
        None if bound is None else min(max(bound + shift.correction, 0.0), 1.0)
        for bound in (estimate.low, estimate.high)
    )
    value = min(max(estimate.value + shift.correction, 0.0), 1.0)
    return replace(estimate, value=value, low=low, high=high, notes=(*estimate.notes, note))


def _labels_needed(estimate: Estimate, shift: ShiftInterval | None, n_target: int) -> int:
    """Return how many labels are needed for ±3 points, for any accuracy in the typical range."""
    low, high = (0.0, 1.0) if shift is None else (shift.low, shift.high)
    if estimate.method == PPI_METHOD:
        low = high = estimate.value
    return labels_for_accuracy(min(max(0.5, low), high), n_target)


@dataclass(frozen=True, eq=False)
class SegmentInputs:
    """Segment values of the target rows, what the source tells, and labelled target rows."""

    target: Array
    source: SegmentModel
    labelled: LabelledRows | None = None


def labelled_segments(
    correctness: RowCorrectness, target: Predictions, target_labels: Any, segment_by: Array
) -> LabelledRows | None:
    """Return the labelled target rows with their segments; None if there are none."""
    if target_labels is None:
        return None
    rows, correct = labelled_rows(target_labels, target)
    names = segment_values(segment_by).astype(str)
    return LabelledRows(names[rows], correct, correctness(target.rows(rows)))


def labelled_confidences(target: Predictions, target_labels: Any) -> LabelledConfidences | None:
    """Return the confidences of labelled target rows; None without labels or confidences."""
    if target_labels is None:
        return None
    rows, correct = labelled_rows(target_labels, target)
    try:
        return LabelledConfidences(target.confidence[rows], correct) if len(rows) else None
    except NotApplicable:  # the model returns classes only
        return None


def _have_equal_scores(source: Predictions, target: Predictions) -> bool:
    """Return whether source and target have the same scores, row by row."""
    if source.scores is None or target.scores is None:
        return False
    return source.score_type == target.score_type and np.array_equal(source.scores, target.scores)


def _same_rows(is_source: bool) -> tuple[Diagnostic, ...]:
    """Return the diagnostic of a target that is the source itself; empty for other targets."""
    if not is_source:
        return ()
    diagnostic = Diagnostic(
        SAME_ROWS,
        1.0,
        "critical",
        "source and target are the same rows, so the estimate says nothing about other data",
        "give the new data as the target",
    )
    return (diagnostic,)


def _source_notes(estimates: Mapping[str, Estimate], n_source: int) -> tuple[str, ...]:
    """Return the bound of ATC, for a target that is the source itself."""
    methods = [name for name in ("atc-mc", "atc-ne") if name in estimates]
    if not methods:
        return ()
    return (
        f"For new rows of the source distribution, the estimate "
        f"of {' and of '.join(methods)} is within {format_percent(atc_source_bound(n_source))} "
        f"points of the accuracy with a probability of at least 95 % (Garg et al. 2022, "
        f"Proposition 2, for {n_source:,} source rows).",
    )


def _require_results(
    estimates: Mapping[str, Estimate],
    skipped: Mapping[str, str],
    requested: Sequence[str],
    *,
    has_scores: bool,
) -> None:
    """Raise if no estimator succeeded or a requested one failed."""
    failed = {name: why for name, why in skipped.items() if not requested or name in requested}
    if not estimates or (requested and failed):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        advice = "" if has_scores else f" {NO_SCORES_ADVICE}"
        raise NotApplicable(f"Not applicable: {reasons}.{advice}")


def _is_calibrated(fit: Temperature | None, learned: LearnedSource) -> bool:
    """Return whether the scores were calibrated, or a temperature was set by the user."""
    if learned.calibration.calibrator is not None:
        return True
    if fit is None:
        return learned.temperature is not None
    return fit.converged and not fit.at_bound


def _estimate_segments(
    inputs: SegmentInputs,
    headline_estimate: Estimate,
    learned: LearnedSource,
    target: Predictions,
    summary: PartialResult | None,
    history: History | None,
    seed: int,
) -> tuple[Segment, ...]:
    """Return the estimates of all segments, in the order of the segment values."""
    if summary is not None:
        values = sorted(summary.segments)
        names = np.array(values).astype(str).tolist()
        sums = {name: summary.segments[value] for name, value in zip(names, values, strict=True)}
    else:
        expected = inputs.source.correctness(target)
        sums = {name: segment_sums(expected[rows]) for name, rows in group_rows(inputs.target)}
    segments = estimate_segments(
        sums,
        headline_estimate,
        learned,
        inputs.source.source,
        labelled=inputs.labelled,
        history=history,
        seed=seed,
    )
    rows_by_segment = inputs.source.source_rows
    return with_status(segments, target, inputs.target, learned.predictions, rows_by_segment)


def _to_history(
    history: HistoryInput, method: str, runs: Mapping[str, EstimatorRun]
) -> History | None:
    """Return the history, computed if it is given as predictions on past domains."""
    if history is None or isinstance(history, History):
        return history
    return _history_from_predictions(history, method, runs)


def _history_from_predictions(
    domains: Sequence[Predictions], method: str, runs: Mapping[str, EstimatorRun]
) -> History:
    """Return the history with the estimate, accuracy and spread of each labelled past domain."""
    run = runs[method]
    rows = []
    for number, past in enumerate(domains):
        if not isinstance(past, Predictions) or not past.is_labelled:
            raise InputError(
                f"Domain {number} of the history has no labels. Pass labelled Predictions, or a "
                "History of estimates and accuracies."
            )
        unlabelled = past.without_labels().reorder_classes(run.source.class_names)
        validation.check_same_class_count(
            run.source.k, past.k, "the source", f"domain {number} of the history"
        )
        past_rows = run.learned_source.prepare(unlabelled)
        # The estimates on past domains are the same for every target.
        key = ("past estimates", *runs.values())
        estimates, skipped = past.cached(key, partial(run_all, runs, past_rows))
        if method not in estimates:
            raise InputError(
                f"{method} is not applicable to domain {number} of the history: {skipped[method]}."
            )
        spread = estimate_range(tuple(estimates.values()))
        covariates = Covariates.of(
            estimates[method],
            n_source=run.source.n,
            n_target=past.n,
            distance=confidence_distance(run.learned_source.predictions, past_rows),
        )
        size = ReferenceErrors.load().size(covariates) if covariates is not None else np.nan
        rows.append((estimates[method].value, float(past.correct.mean()), spread, min(size, 1.0)))
    estimated, truths, spreads, sizes = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    return History(estimated, truths, spreads, None if np.isnan(sizes).any() else sizes)


def estimates(
    source: Predictions,
    target: Predictions,
    *,
    methods: Sequence[Estimator],
    temperature: float | Literal["fit"] | None = "fit",
    calibration: CalibrationMethod = "auto",
    seed: int = 0,
    replicates: int = 200,
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates of several methods, without headline and diagnostics.

    Parameters
    ----------
    source : Predictions
        Predictions on labelled held-out data.
    target : Predictions
        Predictions on the new data. Labels of the target are ignored.
    methods : sequence of Estimator
        Estimators to run.
    temperature : float, "fit" or None
        Temperature by which the logits of source and target are divided. With "fit", it is
        calibrated on the source. With None, the scores are not changed.
    calibration : {"auto", "temperature", "isotonic", "beta", "platt", "none"}
        Calibration of the probabilities that some methods read; see `estimate`.
    seed : int
        Random seed.
    replicates : int
        Number of bootstrap replicates; 0 for estimates without confidence intervals.

    Returns
    -------
    estimates : dict of str to Estimate
        Estimates with 95 % confidence intervals, by method name.
    skipped : dict of str to str
        For each method that is not applicable, by name, the reason why it is not.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> methods = [registered.get("ac"), registered.get("gde")]
    >>> results, skipped = estimates(source, target, methods=methods, temperature=None)
    >>> round(results["ac"].value, 3), list(skipped)
    (0.8, ['gde'])
    """
    fitted = FittedEstimators.fit(
        source,
        methods,
        temperature=temperature,
        calibration=calibration,
        target_has_probs=target.has_probs,
        seed=seed,
        replicates=replicates,
    )
    return fitted.estimates(target)


@dataclass(frozen=True, eq=False)
class FittedEstimators:
    """Estimators of one source, which learn from it once and are run on any number of targets.

    Parameters
    ----------
    source : Predictions
        Predictions on labelled held-out data.
    learned : LearnedSource
        The source, scaled and calibrated.
    runs : mapping of str to EstimatorRun
        The estimators by name.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> fitted = FittedEstimators.fit(source, [registered.get("ac")], temperature=None)
    >>> for target in ([[0.7, 0.3]], [[0.1, 0.9]]):
    ...     results, skipped = fitted.estimates(Predictions.from_probs(target))
    ...     print(round(results["ac"].value, 3))
    0.7
    0.9
    """

    source: Predictions
    learned: LearnedSource
    runs: Mapping[str, EstimatorRun]

    @classmethod
    def fit(
        cls,
        source: Predictions,
        methods: Sequence[Estimator],
        *,
        temperature: float | Literal["fit"] | None = "fit",
        calibration: CalibrationMethod = "auto",
        target_has_probs: bool = True,
        seed: int = 0,
        replicates: int = 200,
    ) -> FittedEstimators:
        """Learn from a source; see `estimates`."""
        source = validate_source(source)
        learned, _ = learn_source(
            source, temperature, calibration, target_has_probs=target_has_probs, seed=seed
        )
        return cls(source, learned, make_runs(methods, learned, seed=seed, replicates=replicates))

    def estimates(self, target: Predictions) -> tuple[dict[str, Estimate], dict[str, str]]:
        """Return the estimates of a target, and why methods are not applicable."""
        return run_all(self.runs, self.learned.prepare(validate_target(target, self.source)))


def learn_source(
    source: Predictions,
    temperature: float | Literal["fit"] | None,
    calibration: CalibrationMethod,
    *,
    target_has_probs: bool = True,
    seed: int,
) -> tuple[LearnedSource, Temperature | None]:
    """Return the source, scaled and calibrated, and the temperature fit if there was one.

    Probabilities of exactly 0 are replaced first. If the targets have no probabilities, the source
    is neither scaled nor calibrated.
    """
    check_scaling(temperature, calibration)
    replacement = None
    if source.score_type == "probs" and source.scores is not None:
        replacement = validation.zero_replacement(source.scores)
    source = replace_zeros(source, replacement)
    fit, used_temperature = None, None
    if source.has_probs and target_has_probs:
        fit, used_temperature = _resolve_temperature(source, temperature)
    source = scale(source, used_temperature)
    fitted = calibrate(source, calibration, seed=seed) if target_has_probs else None
    learned = LearnedSource(
        source,
        used_temperature,
        fitted or Calibration("temperature", None, source),
        zero_replacement=replacement,
    )
    return learned, fit


def validate_source(
    source: Predictions, other_models: Predictions | Sequence[Predictions] | None = None
) -> Predictions:
    """Return the source, validated, with the predictions of other models attached."""
    _check_predictions(source, "source")
    if not source.is_labelled:
        raise InputError(
            "The source has no labels; estimates require the model's accuracy on the source. "
            f"{SOURCE_LABELS_ADVICE}"
        )
    return _with_other_models(source, other_models)


def validate_target(
    target: Predictions,
    source: Predictions,
    other_models: Predictions | Sequence[Predictions] | None = None,
) -> Predictions:
    """Return the target, validated, with the predictions of other models attached.

    The target labels are removed, and its classes are put into the order of the source.
    """
    _check_predictions(target, "target")
    target = target.without_labels().reorder_classes(source.class_names)
    validation.check_same_class_count(source.k, target.k, "the source", "the target")
    if source.has_decisions != target.has_decisions and target.score_type != "classes":
        has, lacks = ("source", "target") if source.has_decisions else ("target", "source")
        raise InputError(
            f"The {has} has decisions (a column pred), the {lacks} has none. Give the decisions of "
            "both, or remove the column from both."
        )
    return _with_other_models(target, other_models)


def _check_predictions(value: Any, argument: str) -> None:
    if not isinstance(value, Predictions):
        raise InputError(
            f"{argument} must be Predictions; got {type(value).__name__}. "
            "Create them with Predictions.from_probs, from_logits or from_frame."
        )


def _with_other_models(
    rows: Predictions, other_models: Predictions | Sequence[Predictions] | None
) -> Predictions:
    if other_models is None:
        return rows
    models = (other_models,) if isinstance(other_models, Predictions) else tuple(other_models)
    return rows.with_other_models(*(model.reorder_classes(rows.class_names) for model in models))


def check_replicates(replicates: int) -> None:
    if replicates < MIN_REPLICATES:
        raise out_of_range("replicates", replicates, low=MIN_REPLICATES)


def check_scaling(temperature: Any, calibration: str) -> None:
    """Raise if the temperature or the name of the calibration is not valid."""
    if temperature not in (None, "fit") and not isinstance(temperature, float | int):
        raise InputError(
            f"temperature must be 'fit', None or a number above 0; got {temperature!r}."
        )
    if calibration not in CALIBRATION_METHODS:
        raise UnknownName("calibration", str(calibration), CALIBRATION_METHODS)


def _resolve_temperature(
    source: Predictions, requested: float | Literal["fit"] | None
) -> tuple[Temperature | None, float | None]:
    """Return the temperature fit (None if nothing was fitted), and the temperature."""
    if requested is None:
        return None, None
    if requested != "fit":
        return None, float(requested)
    fit = fit_temperature(source)
    return fit, fit.value


def resolve_estimators(methods: MethodsInput) -> list[Estimator]:
    """Return the estimators with the given names, or all estimators if no name is given."""
    return resolve_members(
        methods or None,
        Estimator,  # type: ignore[type-abstract]
        available=registered.available,
        get=registered.get,
    )


def with_headline_methods(requested: Sequence[Estimator]) -> list[Estimator]:
    """Return the requested estimators and those that headline and diagnostics need."""
    names = {estimator.name for estimator in requested}
    needed = [name for name in headline.NEEDED_METHODS if name not in names]
    return [*requested, *map(registered.get, needed)]
