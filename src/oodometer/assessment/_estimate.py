"""estimate(): every estimator that applies, how sure each is, and when not to believe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer import estimators
from oodometer.assessment import headline
from oodometer.assessment.bootstrap import Task, each, tasks_of
from oodometer.assessment.conformal_interval import History, ShiftInterval
from oodometer.assessment.diagnostics import Evidence, diagnose, spread_of, worst
from oodometer.assessment.ppi import PPI, FewLabels, from_few
from oodometer.assessment.result import Assessment, Headline, Segment
from oodometer.core import validation
from oodometer.core.calibration import Temperature, fit_temperature
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Estimator, Progress
from oodometer.core.segments import segment_values
from oodometer.core.softmax_kernels import Array
from oodometer.core.stats import wilson
from oodometer.parallel._thread_limits import one_thread

Past = History | Sequence[Predictions] | None


@one_thread()
def estimate(  # noqa: PLR0913 - the main door; all but the data are options
    source: Predictions,
    target: Predictions,
    *,
    second: Predictions | Sequence[Predictions] | None = None,
    second_source: Predictions | Sequence[Predictions] | None = None,
    labelled: Any = None,
    history: Past = None,
    methods: str | Sequence[str | Estimator] | None = None,
    temperature: float | Literal["fit"] | None = "fit",
    by: Any = None,
    seed: int = 0,
    replicates: int = 200,
    progress: Progress | None = None,
) -> Assessment:
    """How accurate the model is on the target, by every method that applies.

    `source` is labelled validation data that the model was not trained on, `target` the new data;
    its labels, should it have any, are never looked at. `second` are other models' predictions of
    the target, trained like the first but for the seed, `second_source` theirs of the source.
    `labelled` are a few labels of the target: (rows, labels), or a label a row with blanks; with
    them the headline is an accuracy from labels. `history` are past domains whose truth is known:
    labelled predictions of them, or their estimates and truths; with them there is an interval for
    shift too. `temperature` is fitted on the source, or given, or None for the scores as they are.
    `by` has one value a target row: an estimate is then made for every value too. Intervals are
    95 % bootstrap intervals of the sampling error.
    """
    source, target = at_the_door(source, target, second, second_source)
    if replicates < 20:
        raise InputError(f"replicates must be at least 20; got {replicates}.")
    by = validation.per_row(by, target.n, "values of by")
    fitted, used = temperature_of(source, target, temperature)
    if used is not None:
        source, target = source.at_temperature(used), target.at_temperature(used)
    tasks = tasks_of(members_of(methods), source, used, seed=seed, replicates=replicates)
    found, refused = _spoken(tasks, target, progress, asked=bool(methods))
    few = None if labelled is None else from_few(source, target, labelled, seed)
    case = Case(Evidence(source, target, tuple(found.values()), fitted), tasks, refused, few)
    segments: tuple[Segment, ...] = ()
    if by is not None:
        task = tasks[headline.for_parts(found, source)]
        segments = tuple(_segments(task, target, by, progress))
    return case.concluded(target.n, segments, history)


@dataclass(frozen=True, eq=False)
class Case:
    """What all methods said of a target; what is left is to conclude."""

    evidence: Evidence
    tasks: dict[str, Task]
    refused: dict[str, str]
    few: FewLabels | None = None
    notes: tuple[str, ...] = ()

    def concluded(self, n: int, segments: tuple[Segment, ...], history: Past) -> Assessment:
        """The assessment of a target of n rows."""
        source, task = self.evidence.source, next(iter(self.tasks.values()))
        found = {one.method: one for one in self.evidence.estimates}
        diagnostics = diagnose(self.evidence)
        best, why = headline.picked(
            found,
            source,
            calibrated=_calibrated(self.evidence.temperature, task.temperature),
            lights={one.name: one.light for one in diagnostics},
        )
        by_labels = self.few is not None and self.few.method == PPI
        # Labels of the target itself need no history.
        shift = None if by_labels else _shift(history, found, best, self.tasks)
        if self.few is not None:
            found[self.few.method] = self.few.estimate
        if self.few is not None and by_labels:
            best, why = PPI, f"{self.few.labels} labels of the target are better than none"
        return Assessment(
            n_source=source.n,
            n_target=n,
            k=source.k,
            source_accuracy=float(source.correct.mean()),
            source_interval=wilson(int(np.count_nonzero(source.correct)), source.n),
            temperature=task.temperature,
            estimates=tuple(found.values()),
            refused=self.refused,
            headline=Headline(found[best], why, worst(diagnostics)),
            diagnostics=diagnostics,
            segments=segments,
            seed=task.seed,
            shift=shift,
            notes=self.notes,
        )


def _shift(
    history: Past,
    found: dict[str, Estimate],
    best: str,
    tasks: dict[str, Task],
) -> ShiftInterval | None:
    """How far shift may have moved the headline, by past domains; None without any."""
    if history is None:
        return None
    if not isinstance(history, History):
        history = _past(history, best, tasks)
    return history.interval(found[best].value, spread_of(tuple(found.values())))


def _past(domains: Sequence[Predictions], best: str, tasks: dict[str, Task]) -> History:
    """What would have been said of past labelled domains."""
    rows = []
    for number, past in enumerate(domains):
        if not isinstance(past, Predictions) or not past.labelled:
            raise InputError(
                f"Domain {number} of the history has no labels; give labelled Predictions, or a "
                "History of estimates and truths."
            )
        task = tasks[best]
        hidden = past.without_labels().in_class_order(task.source.class_names)
        if task.temperature is not None:
            hidden = hidden.at_temperature(task.temperature)
        said, refused = each(tasks, hidden, None)
        if best not in said:
            raise InputError(f"Domain {number} of the history has no {best}: {refused[best]}.")
        rows.append((said[best].value, float(past.correct.mean()), spread_of(tuple(said.values()))))
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return History(table[:, 0], table[:, 1], table[:, 2])


def estimates(
    members: Sequence[Estimator],
    source: Predictions,
    target: Predictions,
    *,
    temperature: float | Literal["fit"] | None = "fit",
    seed: int = 0,
    replicates: int = 200,
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """What each of some estimators says, as `estimate` does, and the reasons of those that can't."""
    source, target = at_the_door(source, target)
    _, used = temperature_of(source, target, temperature)
    if used is not None:
        source, target = source.at_temperature(used), target.at_temperature(used)
    tasks = tasks_of(members, source, used, seed=seed, replicates=replicates)
    return each(tasks, target, None)


def at_the_door(
    source: Predictions,
    target: Predictions,
    second: Predictions | Sequence[Predictions] | None = None,
    second_source: Predictions | Sequence[Predictions] | None = None,
) -> tuple[Predictions, Predictions]:
    """Both sides, checked against each other, the target without labels."""
    for what, given in (("source", source), ("target", target)):
        if not isinstance(given, Predictions):
            raise InputError(
                f"{what} must be Predictions; got {type(given).__name__}. "
                "Make them with Predictions.from_probs, from_logits or from_frame."
            )
    if not source.labelled:
        raise InputError(
            "The source has no labels; estimates rest on where the model is right there. "
            "Give labels=… (or a label column) with the source."
        )
    target = target.without_labels().in_class_order(source.class_names)
    validation.same_classes(source.k, target.k, "the source", "the target")
    return _with_peers(source, second_source), _with_peers(target, second)


def _with_peers(
    rows: Predictions, peers: Predictions | Sequence[Predictions] | None
) -> Predictions:
    if peers is None:
        return rows
    several = (peers,) if isinstance(peers, Predictions) else tuple(peers)
    return rows.with_peers(*(peer.in_class_order(rows.class_names) for peer in several))


def temperature_of(
    source: Predictions, target: Predictions, wanted: float | str | None
) -> tuple[Temperature | None, float | None]:
    """The fit, if there was one, and the temperature to use; none where one side has no scores."""
    if wanted is not None and wanted != "fit" and not isinstance(wanted, float | int):
        raise InputError(f"temperature must be 'fit', None or a number above 0; got {wanted!r}.")
    if wanted is None or not (source.has_probs and target.has_probs):
        return None, None
    if isinstance(wanted, float | int):
        return None, float(wanted)
    fitted = fit_temperature(source)
    return fitted, fitted.value


def _calibrated(fitted: Temperature | None, used: float | None) -> bool:
    """Whether scores are chances: a temperature was fitted well, or given by who knows it."""
    return used is not None if fitted is None else fitted.converged and not fitted.at_bound


def members_of(methods: str | Sequence[str | Estimator] | None) -> list[Estimator]:
    """The estimators of some names; all where none is named."""
    if not methods:
        return list(estimators.every())
    given = [methods] if isinstance(methods, str) else methods
    return [estimators.named(one) if isinstance(one, str) else one for one in given]


def _spoken(
    tasks: dict[str, Task], target: Predictions, progress: Progress | None, *, asked: bool
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Every estimate, and the reasons of those that have none; of those asked for, all must."""
    found, refused = each(tasks, target, progress)
    check_spoken(found, refused, asked=asked)
    return found, refused


def check_spoken(found: dict[str, Estimate], refused: dict[str, str], *, asked: bool) -> None:
    """Refuse silence; of methods asked for, that of any."""
    if not found or (asked and refused):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise NoAnswer(f"No answer from {reasons}.")


def _segments(
    task: Task, target: Predictions, by: Array, progress: Progress | None
) -> Iterator[Segment]:
    """A method on each part of the target."""
    values, inverse = np.unique(segment_values(by), return_inverse=True)
    names = values.astype(str)
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(names) + 1))
    for j, name in enumerate(names):
        if progress:
            progress(j, len(names), f"segment {name}")
        rows = target.rows(order[starts[j] : starts[j + 1]])
        yield task.segment(str(name), rows.n, rows)
