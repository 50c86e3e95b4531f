"""estimate(): every estimator that applies, how sure each is, and when not to believe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer import estimators
from oodometer.assessment import headline
from oodometer.assessment.bootstrap import EstimatorRun, make_runs, run_all
from oodometer.assessment.conformal_interval import History, ShiftInterval
from oodometer.assessment.diagnostics import (
    DiagnosticContext,
    diagnose,
    estimate_range,
    worst_status,
)
from oodometer.assessment.ppi import PPI_METHOD, FewLabelsEstimate, ppi_from_labels
from oodometer.assessment.result import Assessment, Headline, Segment
from oodometer.core import validation
from oodometer.core.array_types import Array
from oodometer.core.calibration import Temperature, fit_temperature
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, ProgressCallback
from oodometer.core.results import Estimate
from oodometer.core.segments import segment_values
from oodometer.core.stats import wilson_interval
from oodometer.parallel.runners import limit_to_one_thread

HistoryInput = History | Sequence[Predictions] | None


@limit_to_one_thread()
def estimate(
    source: Predictions,
    target: Predictions,
    *,
    other_models: Predictions | Sequence[Predictions] | None = None,
    other_models_on_source: Predictions | Sequence[Predictions] | None = None,
    target_labels: Any = None,
    history: HistoryInput = None,
    methods: str | Sequence[str | Estimator] | None = None,
    temperature: float | Literal["fit"] | None = "fit",
    segment_by: Any = None,
    seed: int = 0,
    replicates: int = 200,
    progress: ProgressCallback | None = None,
) -> Assessment:
    """How accurate the model is on the target, by every method that applies.

    `source` is labelled validation data that the model was not trained on, `target` the new data;
    its labels, should it have any, are never looked at. `other_models` are other models' predictions of
    the target, trained like the first but for the seed, `other_models_on_source` theirs of the source.
    `target_labels` are a few labels of the target: (rows, labels), or a label a row with blanks; with
    them the headline is an accuracy from labels. `history` are past domains whose truth is known:
    labelled predictions of them, or their estimates and truths; with them there is an interval for
    shift too. `temperature` is fitted on the source, or given, or None for the scores as they are.
    `segment_by` has one value a target row: an estimate is then made for every value too. Intervals are
    95 % bootstrap intervals of the sampling error.
    """
    source, target = validate_inputs(source, target, other_models, other_models_on_source)
    if replicates < 20:
        raise InputError(f"replicates must be at least 20; got {replicates}.")
    segment_by = validation.validate_row_values(segment_by, target.n, "values of segment_by")
    fitted, used = resolve_temperature(source, target, temperature)
    if used is not None:
        source, target = source.at_temperature(used), target.at_temperature(used)
    tasks = make_runs(resolve_estimators(methods), source, used, seed=seed, replicates=replicates)
    found, refused = _run_estimators(tasks, target, progress, all_required=bool(methods))
    few = None if target_labels is None else ppi_from_labels(source, target, target_labels, seed)
    case = AssessmentBuilder(
        DiagnosticContext(source, target, tuple(found.values()), fitted), tasks, refused, few
    )
    segments: tuple[Segment, ...] = ()
    if segment_by is not None:
        task = tasks[headline.select_for_segments(found, source)]
        segments = tuple(_segment_estimates(task, target, segment_by, progress))
    return case.build_assessment(target.n, segments, history)


@dataclass(frozen=True, eq=False)
class AssessmentBuilder:
    """What all methods said of a target; what is left is to conclude."""

    context: DiagnosticContext
    runs: dict[str, EstimatorRun]
    skipped: dict[str, str]
    label_estimate: FewLabelsEstimate | None = None
    notes: tuple[str, ...] = ()

    def build_assessment(
        self, n_target: int, segments: tuple[Segment, ...], history: HistoryInput
    ) -> Assessment:
        """The assessment of a target of n rows."""
        source, task = self.context.source, next(iter(self.runs.values()))
        found = {one.method: one for one in self.context.estimates}
        diagnostics = diagnose(self.context)
        best, why = headline.select_headline(
            found,
            source,
            calibrated=_is_calibrated(self.context.temperature, task.temperature),
            statuses={one.name: one.status for one in diagnostics},
        )
        by_labels = self.label_estimate is not None and self.label_estimate.method == PPI_METHOD
        # Labels of the target itself need no history.
        shift = None if by_labels else _shift_interval(history, found, best, self.runs)
        if self.label_estimate is not None:
            found[self.label_estimate.method] = self.label_estimate.estimate
        if self.label_estimate is not None and by_labels:
            best, why = (
                PPI_METHOD,
                f"{self.label_estimate.n_labels} labels of the target are better than none",
            )
        return Assessment(
            n_source=source.n,
            n_target=n_target,
            k=source.k,
            source_accuracy=float(source.correct.mean()),
            source_interval=wilson_interval(int(np.count_nonzero(source.correct)), source.n),
            temperature=task.temperature,
            estimates=tuple(found.values()),
            skipped=self.skipped,
            headline=Headline(found[best], why, worst_status(diagnostics)),
            diagnostics=diagnostics,
            segments=segments,
            seed=task.seed,
            shift=shift,
            notes=self.notes,
        )


def _shift_interval(
    history: HistoryInput,
    results: dict[str, Estimate],
    headline_method: str,
    runs: dict[str, EstimatorRun],
) -> ShiftInterval | None:
    """How far shift may have moved the headline, by past domains; None without any."""
    if history is None:
        return None
    if not isinstance(history, History):
        history = _history_from_predictions(history, headline_method, runs)
    return history.interval(results[headline_method].value, estimate_range(tuple(results.values())))


def _history_from_predictions(
    domains: Sequence[Predictions], headline_method: str, runs: dict[str, EstimatorRun]
) -> History:
    """What would have been said of past labelled domains."""
    rows = []
    for number, past in enumerate(domains):
        if not isinstance(past, Predictions) or not past.is_labelled:
            raise InputError(
                f"Domain {number} of the history has no labels; give labelled Predictions, or a "
                "History of estimates and truths."
            )
        task = runs[headline_method]
        hidden = past.without_labels().reorder_classes(task.source.class_names)
        if task.temperature is not None:
            hidden = hidden.at_temperature(task.temperature)
        said, refused = run_all(runs, hidden, None)
        if headline_method not in said:
            raise InputError(
                f"Domain {number} of the history has no {headline_method}: {refused[headline_method]}."
            )
        rows.append(
            (
                said[headline_method].value,
                float(past.correct.mean()),
                estimate_range(tuple(said.values())),
            )
        )
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return History(table[:, 0], table[:, 1], table[:, 2])


def estimates(
    source: Predictions,
    target: Predictions,
    *,
    methods: Sequence[Estimator],
    temperature: float | Literal["fit"] | None = "fit",
    seed: int = 0,
    replicates: int = 200,
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates of several methods, and the reasons of those that do not apply."""
    source, target = validate_inputs(source, target)
    _, used = resolve_temperature(source, target, temperature)
    if used is not None:
        source, target = source.at_temperature(used), target.at_temperature(used)
    tasks = make_runs(methods, source, used, seed=seed, replicates=replicates)
    return run_all(tasks, target, None)


def validate_inputs(
    source: Predictions,
    target: Predictions,
    other_models: Predictions | Sequence[Predictions] | None = None,
    other_models_on_source: Predictions | Sequence[Predictions] | None = None,
) -> tuple[Predictions, Predictions]:
    """Both sides, checked against each other, the target without labels."""
    for what, given in (("source", source), ("target", target)):
        if not isinstance(given, Predictions):
            raise InputError(
                f"{what} must be Predictions; got {type(given).__name__}. "
                "Make them with Predictions.from_probs, from_logits or from_frame."
            )
    if not source.is_labelled:
        raise InputError(
            "The source has no labels; estimates rest on where the model is right there. "
            "Give labels=… (or a label column) with the source."
        )
    target = target.without_labels().reorder_classes(source.class_names)
    validation.check_same_class_count(source.k, target.k, "the source", "the target")
    return _with_other_models(source, other_models_on_source), _with_other_models(
        target, other_models
    )


def _with_other_models(
    rows: Predictions, other_models: Predictions | Sequence[Predictions] | None
) -> Predictions:
    if other_models is None:
        return rows
    several = (other_models,) if isinstance(other_models, Predictions) else tuple(other_models)
    return rows.with_other_models(*(peer.reorder_classes(rows.class_names) for peer in several))


def resolve_temperature(
    source: Predictions, target: Predictions, requested: float | str | None
) -> tuple[Temperature | None, float | None]:
    """The fit, if there was one, and the temperature to use; none where one side has no scores."""
    if requested is not None and requested != "fit" and not isinstance(requested, float | int):
        raise InputError(f"temperature must be 'fit', None or a number above 0; got {requested!r}.")
    if requested is None or not (source.has_probs and target.has_probs):
        return None, None
    if isinstance(requested, float | int):
        return None, float(requested)
    fitted = fit_temperature(source)
    return fitted, fitted.value


def _is_calibrated(fitted: Temperature | None, used: float | None) -> bool:
    """Whether scores are chances: a temperature was fitted well, or given by who knows it."""
    return used is not None if fitted is None else fitted.converged and not fitted.at_bound


def resolve_estimators(methods: str | Sequence[str | Estimator] | None) -> list[Estimator]:
    """The estimators of some names; all where none is named."""
    if not methods:
        return list(estimators.available())
    given = [methods] if isinstance(methods, str) else methods
    return [estimators.get(one) if isinstance(one, str) else one for one in given]


def _run_estimators(
    runs: dict[str, EstimatorRun],
    target: Predictions,
    progress: ProgressCallback | None,
    *,
    all_required: bool,
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Every estimate, and the reasons of those that have none; of those asked for, all must."""
    found, refused = run_all(runs, target, progress)
    require_results(found, refused, all_required=all_required)
    return found, refused


def require_results(
    results: dict[str, Estimate], skipped: dict[str, str], *, all_required: bool
) -> None:
    """Refuse silence; of methods asked for, that of any."""
    if not results or (all_required and skipped):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise NotApplicable(f"Not applicable: {reasons}.")


def _segment_estimates(
    run: EstimatorRun, target: Predictions, segment_by: Array, progress: ProgressCallback | None
) -> Iterator[Segment]:
    """A method on each part of the target."""
    values, inverse = np.unique(segment_values(segment_by), return_inverse=True)
    names = values.astype(str)
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(names) + 1))
    for j, name in enumerate(names):
        if progress:
            progress(j, len(names), f"segment {name}")
        rows = target.rows(order[starts[j] : starts[j + 1]])
        yield run.estimate_segment(str(name), rows.n, rows)
