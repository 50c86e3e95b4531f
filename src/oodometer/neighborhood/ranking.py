"""Which of several models is best on data without labels, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer import estimators
from oodometer.core.errors import InputError, NoAnswer, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Estimator, Model, Progress, Transform
from oodometer.core.softmax_kernels import Array, Floats
from oodometer.core.stats import beats, least_squares_line, redrawn_means, stream
from oodometer.data import as_dataset
from oodometer.models._parallel_inference import Asking
from oodometer.neighborhood._invariance import invariance, opened_models
from oodometer.neighborhood.results import MEASURES, Neighborhoods
from oodometer.neighborhood.sampling import visiting_order

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# Means are drawn again in one product; an estimator has to be asked again every time.
REPLICATES, SLOW_REPLICATES = 1000, 200

Score = Callable[[Predictions], Array]


@dataclass(frozen=True)
class Ranked:
    """One model's place: its value, a 95 % interval, the probability that it beats the next.

    `accuracy` is what a line fitted to models of known accuracy predicts, where there is one; it
    may leave [0, 1], and is cut to it for display only.
    """

    model: str
    value: float
    low: float
    high: float
    beats_next: float | None
    notes: tuple[str, ...] = ()
    accuracy: float | None = None


@dataclass(frozen=True)
class Ranking:
    """Models from best to worst by one measure on one dataset.

    Probabilities are shares of draws of the examples with replacement, the same for all models.
    They say how sure the order by this measure is, not how well the measure tells accuracy.
    `neighborhoods` is what a neighborhood measure was taken from; of others there is none.
    """

    measure: str
    data: str
    n: int
    seed: int
    models: tuple[Ranked, ...]
    neighborhoods: Neighborhoods | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, best first."""
        return tuple(one.model for one in self.models)

    def __str__(self) -> str:
        return "\n".join(
            f"{place}. {one.model}: {self.measure} {one.value:.3f}"
            + ("" if one.beats_next is None else f", beats the next with {one.beats_next:.0%}")
            for place, one in enumerate(self.models, start=1)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [{**vars(one), "notes": list(one.notes)} for one in self.models]
        return {"measure": self.measure, "data": self.data, "n": self.n, "seed": self.seed,
                "models": rows}  # fmt: skip


def rank(  # noqa: PLR0913 - the main door; all but the data are options
    models: Any,
    data: Any,
    *,
    by: str | Estimator | Score = "ni",
    transform: str | Transform | None = None,
    source: Any = None,
    known: Mapping[str, float] | None = None,
    draws: int = 10,
    seed: int = 0,
    batch: int | None = None,
    threads: int = 1,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Order models by how well they should do on unlabelled data, best first.

    `by` is a neighborhood measure ("ni", "pa", "ne", "ei"), which `transform` and `draws` belong
    to; an estimator ("atc-mc", "doc", …), which needs the labelled `source`; or a function from
    Predictions to one number a row, the larger the better. The probability that a model beats the
    next comes from a paired bootstrap: examples are drawn again, the same for every model.

    `known` has the accuracy, on these data, of three models or more: a line through them then
    predicts the accuracy of every model from the measure.

    `threads` transform beside the models, or all is done by the workers of a `runner`, with one
    thread each; neither they nor `batch` change the result.
    """
    opened, dataset = opened_models(models), as_dataset(data)
    _check_known(known, opened)
    asking = Asking(opened, batch, runner, progress)
    if isinstance(by, str) and by.lower() in MEASURES:
        measured = invariance(opened, dataset, transform, draws=draws, seed=seed, batch=batch,
                              threads=threads, runner=runner, progress=progress)  # fmt: skip
        found = _of_measure(measured, by, dataset)
    elif callable(by):
        found = _of_scores(by, dataset, asking.of(dataset, labelled=False), seed)
    else:
        # What is wrong with the wish or the source is said before the work on the target.
        estimator = _estimator(by)
        sources = _sources(estimator, asking, source)
        said = asking.of(dataset, labelled=False)
        found = _of_estimates(estimator, dataset, (sources, said), seed, progress)
    return found if known is None else _with_accuracies(found, known)


def _of_measure(measured: Neighborhoods, by: str, dataset: Dataset) -> Ranking:
    # Drawn again in an order of their content, so that where rows stand changes nothing.
    order = visiting_order(dataset.keys, measured.seed)
    values = np.stack([one.by_example(by)[order] for one in measured])
    notes = tuple(one.notes() for one in measured)
    name, seed = measured.named(by), measured.seed
    found = _of_means(name, dataset, measured.models, values, notes, seed)
    return replace(found, neighborhoods=measured)


def _of_scores(score: Score, dataset: Dataset, said: dict[str, Predictions], seed: int) -> Ranking:
    values = np.stack([_per_row(score, rows) for rows in said.values()])
    name = getattr(score, "__name__", "score")
    return _of_means(name, dataset, tuple(said), values, ((),) * len(said), seed)


def _check_known(known: Mapping[str, float] | None, models: Mapping[str, Model]) -> None:
    for name, accuracy in (known or {}).items():
        if name not in models:
            raise UnknownName("model", name, models)
        if not 0.0 <= accuracy <= 1.0:
            raise InputError(
                f"The accuracy of {name!r} must be a fraction from 0 to 1; got {accuracy}."
            )


def _with_accuracies(found: Ranking, known: Mapping[str, float]) -> Ranking:
    """What the least-squares line through the known models says of all (Ng et al. 2023, §4.3)."""
    values = {one.model: one.value for one in found}
    line = least_squares_line([values[name] for name in known], list(known.values()))
    return replace(found, models=tuple(replace(one, accuracy=line(one.value)) for one in found))


def _estimator(by: str | Estimator) -> Estimator:
    if not isinstance(by, str):
        return by
    names = [member.name for member in estimators.every()]
    if by.lower() not in names:
        raise UnknownName("measure or estimator", by, [*MEASURES, *names])
    return estimators.named(by)


def _per_row(score: Score, rows: Predictions) -> Floats:
    values = np.asarray(score(rows), dtype=np.float64)
    if values.shape != (rows.n,) or not np.isfinite(values).all():
        raise InputError(
            f"by must give one finite number a row, {rows.n} in all; got {values.shape}."
        )
    return values


def _sources(by: Estimator, asking: Asking, source: Any) -> dict[str, Predictions]:
    """Every model's predictions of the labelled source."""
    known = None if source is None else as_dataset(source)
    if known is None or known.labels is None:
        raise InputError(
            f"Ranking by {by.name!r} needs labelled source data; got "
            f"{'none' if known is None else 'data without labels'}. Give source=…, or rank by "
            "ni, which needs no labels at all."
        )
    return asking.of(known, labelled=True)


def _of_means(
    measure: str, dataset: Dataset, names: tuple[str, ...], values: Floats, notes: Any, seed: int
) -> Ranking:
    """A ranking by means of per-example values, (models, n)."""
    drawn = redrawn_means(stream(seed, "rank", measure), values, REPLICATES)
    return _ranking(measure, dataset, names, values.mean(axis=1), drawn, notes, seed)


def _of_estimates(
    by: Estimator,
    dataset: Dataset,
    said: tuple[dict[str, Predictions], dict[str, Predictions]],
    seed: int,
    progress: Progress | None,
) -> Ranking:
    """A ranking by estimates, both sides drawn again by rows."""
    known, new = said
    names, rng = tuple(new), stream(seed, "rank", by.name)
    n_source, n = next(iter(known.values())).n, len(dataset)
    values = np.array([by.estimate(known[name], new[name]).value for name in names])
    drawn, reason = [], ""
    for done in range(SLOW_REPLICATES):
        one, other = rng.integers(0, n_source, n_source), rng.integers(0, n, n)
        try:
            drawn.append([by.estimate(known[m].rows(one), new[m].rows(other)).value for m in names])
        except NoAnswer as refusal:
            reason = str(refusal)
        if progress:
            progress(done + 1, SLOW_REPLICATES, "drawing again")
    if 2 * len(drawn) < SLOW_REPLICATES:
        raise NoAnswer(f"{by.name} has no answer for most draws of the examples: {reason}")
    return _ranking(by.name, dataset, names, values, np.array(drawn), ((),) * len(names), seed)


def _ranking(
    measure: str,
    dataset: Dataset,
    names: tuple[str, ...],
    values: Floats,
    drawn: Floats,
    notes: Any,
    seed: int,
) -> Ranking:
    order = np.argsort(-values, kind="stable")
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    rows = []
    for place, j in enumerate(order):
        following = order[place + 1] if place + 1 < len(order) else None
        sure = None if following is None else beats(drawn[:, j], drawn[:, following])
        ends = min(float(low[j]), float(values[j])), max(float(high[j]), float(values[j]))
        rows.append(Ranked(names[j], float(values[j]), *ends, sure, tuple(notes[j])))
    return Ranking(measure, dataset.name, len(dataset), seed, tuple(rows))
