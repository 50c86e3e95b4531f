"""Which of several models is best on data without labels, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer import estimators
from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Estimator, Model, ProgressCallback, Transform
from oodometer.core.stats import (
    least_squares_line,
    paired_bootstrap_means,
    rng_for,
    win_probability,
)
from oodometer.data import as_dataset
from oodometer.models.inference import predict_models
from oodometer.neighborhood._invariance import as_models, invariance
from oodometer.neighborhood.results import MEASURES, InvarianceResult
from oodometer.neighborhood.sampling import shuffled_order

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# Means are drawn again in one product; an estimator has to be asked again every time.
MEAN_REPLICATES, ESTIMATOR_REPLICATES = 1000, 200

RowScorer = Callable[[Predictions], Array]


@dataclass(frozen=True)
class RankedModel:
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
    models: tuple[RankedModel, ...]
    neighborhoods: InvarianceResult | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[RankedModel]:
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


def rank(
    models: Any,
    data: Any,
    *,
    score: str | Estimator | RowScorer = "ni",
    transform: str | Transform | None = None,
    source: Any = None,
    known_accuracies: Mapping[str, float] | None = None,
    draws: int = 10,
    seed: int = 0,
    batch_size: int | None = None,
    threads: int = 1,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
) -> Ranking:
    """Order models by how well they should do on unlabelled data, best first.

    `score` is a neighborhood measure ("ni", "pa", "ne", "ei"), which `transform` and `draws` belong
    to; an estimator ("atc-mc", "doc", …), which needs the labelled `source`; or a function from
    Predictions to one number a row, the larger the better. The probability that a model beats the
    next comes from a paired bootstrap: examples are drawn again, the same for every model.

    `known_accuracies` has the accuracy, on these data, of three models or more: a line through them then
    predicts the accuracy of every model from the measure.

    `threads` transform beside the models, or all is done by the workers of a `runner`, with one
    thread each; neither they nor `batch_size` change the result.
    """
    opened, dataset = as_models(models), as_dataset(data)
    _check_known_accuracies(known_accuracies, opened)
    predict = partial(
        predict_models, opened, batch_size=batch_size, runner=runner, progress=progress
    )
    if isinstance(score, str) and score.lower() in MEASURES:
        measured = invariance(opened, dataset, transform=transform, draws=draws, seed=seed, batch_size=batch_size,
                              threads=threads, runner=runner, progress=progress)  # fmt: skip
        found = _rank_by_measure(measured, score, dataset)
    elif callable(score):
        found = _rank_by_scores(score, dataset, predict(dataset, labelled=False), seed)
    else:
        # What is wrong with the wish or the source is said before the work on the target.
        estimator = _resolve_estimator(score)
        sources = _predict_source(estimator, predict, source)
        said = predict(dataset, labelled=False)
        found = _rank_by_estimates(estimator, dataset, (sources, said), seed, progress)
    return found if known_accuracies is None else _add_predicted_accuracies(found, known_accuracies)


def _rank_by_measure(result: InvarianceResult, score: str, dataset: Dataset) -> Ranking:
    # Drawn again in an order of their content, so that where rows stand changes nothing.
    order = shuffled_order(dataset.keys, result.seed)
    values = np.stack([one.by_example(score)[order] for one in result])
    notes = tuple(one.warnings() for one in result)
    name, seed = result.measure_label(score), result.seed
    found = _rank_by_means(name, dataset, result.models, values, notes, seed)
    return replace(found, neighborhoods=result)


def _rank_by_scores(
    score: RowScorer, dataset: Dataset, predictions: dict[str, Predictions], seed: int
) -> Ranking:
    values = np.stack([_score_rows(score, rows) for rows in predictions.values()])
    name = getattr(score, "__name__", "score")
    return _rank_by_means(name, dataset, tuple(predictions), values, ((),) * len(predictions), seed)


def _check_known_accuracies(
    known_accuracies: Mapping[str, float] | None, models: Mapping[str, Model]
) -> None:
    for name, accuracy in (known_accuracies or {}).items():
        if name not in models:
            raise UnknownName("model", name, models)
        if not 0.0 <= accuracy <= 1.0:
            raise InputError(
                f"The accuracy of {name!r} must be a fraction from 0 to 1; got {accuracy}."
            )


def _add_predicted_accuracies(ranking: Ranking, known_accuracies: Mapping[str, float]) -> Ranking:
    """What the least-squares line through the known models says of all (Ng et al. 2023, §4.3)."""
    values = {one.model: one.value for one in ranking}
    line = least_squares_line(
        [values[name] for name in known_accuracies], list(known_accuracies.values())
    )
    return replace(ranking, models=tuple(replace(one, accuracy=line(one.value)) for one in ranking))


def _resolve_estimator(by: str | Estimator) -> Estimator:
    if not isinstance(by, str):
        return by
    names = [member.name for member in estimators.available()]
    if by.lower() not in names:
        raise UnknownName("measure or estimator", by, [*MEASURES, *names])
    return estimators.get(by)


def _score_rows(score: RowScorer, rows: Predictions) -> Floats:
    values = np.asarray(score(rows), dtype=np.float64)
    if values.shape != (rows.n,) or not np.isfinite(values).all():
        raise InputError(
            f"score must give one finite number per row, {rows.n} in all; got {values.shape}."
        )
    return values


def _predict_source(
    by: Estimator, predict: Callable[..., dict[str, Predictions]], source: Any
) -> dict[str, Predictions]:
    """Every model's predictions of the labelled source."""
    known = None if source is None else as_dataset(source)
    if known is None or known.labels is None:
        raise InputError(
            f"Ranking by {by.name!r} needs labelled source data; got "
            f"{'none' if known is None else 'data without labels'}. Give source=…, or rank by "
            "ni, which needs no labels at all."
        )
    return predict(known, labelled=True)


def _rank_by_means(
    measure: str, dataset: Dataset, names: tuple[str, ...], values: Floats, notes: Any, seed: int
) -> Ranking:
    """A ranking by means of per-example values, (models, n)."""
    drawn = paired_bootstrap_means(rng_for(seed, "rank", measure), values, MEAN_REPLICATES)
    return _build_ranking(measure, dataset, names, values.mean(axis=1), drawn, notes, seed)


def _rank_by_estimates(
    by: Estimator,
    dataset: Dataset,
    predictions: tuple[dict[str, Predictions], dict[str, Predictions]],
    seed: int,
    progress: ProgressCallback | None,
) -> Ranking:
    """A ranking by estimates, both sides drawn again by rows."""
    known, new = predictions
    names, rng = tuple(new), rng_for(seed, "rank", by.name)
    n_source, n = next(iter(known.values())).n, len(dataset)
    values = np.array([by.estimate(known[name], new[name]).value for name in names])
    drawn, reason = [], ""
    for done in range(ESTIMATOR_REPLICATES):
        one, other = rng.integers(0, n_source, n_source), rng.integers(0, n, n)
        try:
            drawn.append([by.estimate(known[m].rows(one), new[m].rows(other)).value for m in names])
        except NotApplicable as refusal:
            reason = str(refusal)
        if progress:
            progress(done + 1, ESTIMATOR_REPLICATES, "drawing again")
    if 2 * len(drawn) < ESTIMATOR_REPLICATES:
        raise NotApplicable(f"{by.name} has no answer for most draws of the examples: {reason}")
    return _build_ranking(
        by.name, dataset, names, values, np.array(drawn), ((),) * len(names), seed
    )


def _build_ranking(
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
        sure = None if following is None else win_probability(drawn[:, j], drawn[:, following])
        ends = min(float(low[j]), float(values[j])), max(float(high[j]), float(values[j]))
        rows.append(RankedModel(names[j], float(values[j]), *ends, sure, tuple(notes[j])))
    return Ranking(measure, dataset.name, len(dataset), seed, tuple(rows))
