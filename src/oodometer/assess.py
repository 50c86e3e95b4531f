"""estimate(): every estimator that applies, how sure each is, and when not to believe them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from oodometer import checks, estimators, headline
from oodometer.arrays import Array, Floats
from oodometer.assessment import Assessment, Headline, Segment
from oodometer.calibration import Temperature, fit_temperature
from oodometer.core import Estimate, Estimator, Progress, Staged
from oodometer.diagnostics import Evidence, diagnose, spread_of, worst
from oodometer.errors import InputError, NoAnswer
from oodometer.few_labels import PPI, from_few
from oodometer.history import History, ShiftInterval
from oodometer.predictions import Predictions
from oodometer.stats import Z95, stream, wilson

# Third-party estimators without a bootstrap of their own get one by rows, of this many replicates.
SLOW_REPLICATES = 50


def estimate(  # noqa: PLR0913 - the main door; all but the data are options
    source: Predictions,
    target: Predictions,
    *,
    second: Predictions | Sequence[Predictions] | None = None,
    second_source: Predictions | Sequence[Predictions] | None = None,
    labelled: Any = None,
    history: History | Sequence[Predictions] | None = None,
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
    by = checks.per_row(by, target.n, "values of by")
    methods = [methods] if isinstance(methods, str) else methods
    members = [_member(method) for method in methods] if methods else list(estimators.every())
    fitted, used = temperature_of(source, target, temperature)
    if used is not None:
        source, target = source.at_temperature(used), target.at_temperature(used)
    tasks = tasks_of(members, source, used, seed=seed, replicates=replicates)
    found, refused = _run(tasks, target, progress, asked=methods is not None)
    diagnostics = diagnose(Evidence(source, target, tuple(found.values()), fitted))
    calibrated = _calibrated(fitted, used)
    lights = {one.name: one.light for one in diagnostics}
    best, why = headline.picked(found, source, calibrated=calibrated, lights=lights)
    of_parts = tasks[headline.for_parts(best, found, source, calibrated=calibrated)]
    segments = tuple(_segments(of_parts, target, by, progress)) if by is not None else ()
    few = None if labelled is None else from_few(source, target, labelled, seed)
    by_labels = few is not None and few.method == PPI
    # Labels of the target itself need no history.
    shift = None if by_labels else shift_of(history, found, best, tasks)
    if few is not None:
        found[few.method] = few.estimate
    if few is not None and by_labels:
        best, why = PPI, f"{few.labels} labels of the target are better than none"
    return Assessment(
        n_source=source.n,
        n_target=target.n,
        k=source.k,
        source_accuracy=float(source.correct.mean()),
        source_interval=wilson(int(np.count_nonzero(source.correct)), source.n),
        temperature=used,
        estimates=tuple(found.values()),
        refused=refused,
        headline=Headline(found[best], why, worst(diagnostics)),
        diagnostics=diagnostics,
        segments=segments,
        seed=seed,
        shift=shift,
    )


def shift_of(
    history: History | Sequence[Predictions] | None,
    found: dict[str, Estimate],
    best: str,
    tasks: dict[str, _Task],
) -> ShiftInterval | None:
    """How far shift may have moved the headline, by past domains; None without any."""
    if history is None:
        return None
    if not isinstance(history, History):
        history = _past(history, best, tasks)
    return history.interval(found[best].value, spread_of(tuple(found.values())))


def _past(domains: Sequence[Predictions], best: str, tasks: dict[str, _Task]) -> History:
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
        said, refused = _each(tasks, hidden, None)
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
    path: Sequence[object] = (),
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """What each of some estimators says, as `estimate` does, and the reasons of those that can't.

    Random draws hang on the seed, the estimator and `path`: a segment has one of its own.
    """
    source, target = at_the_door(source, target)
    _, used = temperature_of(source, target, temperature)
    if used is not None:
        source, target = source.at_temperature(used), target.at_temperature(used)
    tasks = tasks_of(members, source, used, seed=seed, replicates=replicates)
    return _each(tasks, target, None, *path)


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
    checks.same_classes(source.k, target.k, "the source", "the target")
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


def _member(method: str | Estimator) -> Estimator:
    return estimators.named(method) if isinstance(method, str) else method


@dataclass(frozen=True, eq=False)
class _Task:
    """One estimator with the source it has learned from."""

    member: Estimator
    source: Predictions
    temperature: float | None
    seed: int
    replicates: int

    @cached_property
    def learned(self) -> Any:
        """What a staged estimator learned, once for all segments."""
        return self.member.learn(self.source) if isinstance(self.member, Staged) else None

    def run(self, target: Predictions, *path: object) -> Estimate:
        """The estimate with its interval; randomness depends on seed, method and path alone."""
        rng = stream(self.seed, "bootstrap", self.member.name, *path)
        if isinstance(self.member, Staged):
            total = self.member.summarize(self.learned, target)
            found = self.member.finish(self.learned, total)
            drawn = self.member.resample(self.learned, total, rng, self.replicates)
            return self._finished(found, np.quantile(drawn, [0.025, 0.975]))
        found = self.member.estimate(self.source, target)
        values = [
            self.member.estimate(_drawn(self.source, rng), _drawn(target, rng)).value
            for _ in range(min(self.replicates, SLOW_REPLICATES))
        ]
        half = Z95 * float(np.std(values))
        return self._finished(found, np.array([found.value - half, found.value + half]))

    def _finished(self, found: Estimate, ends: Floats) -> Estimate:
        low, high = min(float(ends[0]), found.value), max(float(ends[1]), found.value)
        if getattr(self.member, "believes_scores", False):
            low, high = _widened(found.value, (low, high), _doubt(self.source))
        notes = found.notes
        if "source labels" in getattr(self.member, "needs", ()) and headline.all_alike(self.source):
            # A bootstrap can't draw the error that was not seen; Wilson's interval can.
            share = float(self.source.correct[0])
            wide = wilson(share * self.source.n, self.source.n)
            low, high = low - (share - wide[0]), high + (wide[1] - share)
            lacking = "error" if share else "right answer"
            notes += (f"the source shows no {lacking}; the interval is widened by Wilson's bound",)
        return replace(
            found,
            method=self.member.name,
            assumes=self.member.assumes,
            low=max(low, 0.0),
            high=min(high, 1.0),
            temperature=self.temperature,
            notes=notes,
        )


def _doubt(source: Predictions) -> float:
    """How far mean confidence may be from accuracy on the source for all that its rows can tell.

    A bootstrap of scores alone has no part in it: that they are chances is known from labels.
    """
    off = source.correct - source.confidence
    return Z95 * float(off.std()) / math.sqrt(source.n)


def _widened(value: float, ends: tuple[float, float], doubt: float) -> tuple[float, float]:
    """Ends farther away by a doubt of another kind."""
    low, high = ends
    return value - math.hypot(value - low, doubt), value + math.hypot(high - value, doubt)


def tasks_of(
    members: Sequence[Estimator],
    source: Predictions,
    temperature: float | None,
    *,
    seed: int,
    replicates: int,
) -> dict[str, _Task]:
    """Estimators by name, with the source, which is at that temperature."""
    return {m.name: _Task(m, source, temperature, seed, replicates) for m in members}


def _drawn(rows: Predictions, rng: np.random.Generator) -> Predictions:
    return rows.rows(rng.integers(rows.n, size=rows.n))


def _run(
    tasks: dict[str, _Task], target: Predictions, progress: Progress | None, *, asked: bool
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Every estimate, and the reasons of those that have none; of those asked for, all must."""
    found, refused = _each(tasks, target, progress)
    if not found or (asked and refused):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise NoAnswer(f"No answer from {reasons}.")
    return found, refused


def _each(
    tasks: dict[str, _Task], target: Predictions, progress: Progress | None, *path: object
) -> tuple[dict[str, Estimate], dict[str, str]]:
    found: dict[str, Estimate] = {}
    refused: dict[str, str] = {}
    for done, (name, task) in enumerate(tasks.items()):
        if progress:
            progress(done, len(tasks), name)
        try:
            found[name] = task.run(target, *path)
        except NoAnswer as reason:
            refused[name] = str(reason)
    return found, refused


def _segments(
    task: _Task, target: Predictions, by: Array, progress: Progress | None
) -> Iterator[Segment]:
    """A method on each part of the target."""
    values, inverse = np.unique(_segment_values(by), return_inverse=True)
    names = values.astype(str)
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(names) + 1))
    for j, name in enumerate(names):
        if progress:
            progress(j, len(names), f"segment {name}")
        rows = target.rows(order[starts[j] : starts[j + 1]])
        try:
            yield Segment(str(name), rows.n, task.run(rows, "segment", name))
        except NoAnswer as reason:
            yield Segment(str(name), rows.n, None, str(reason))


def _segment_values(values: Array) -> Array:
    """Numbers as they are, moments in time as days, all else as text: so segments are in order."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    return values if values.dtype.kind in "iuf" else values.astype(str)
