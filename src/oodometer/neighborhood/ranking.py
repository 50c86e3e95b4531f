"""rank(): rank models by neighborhood invariance, with bootstrap uncertainty of the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer import estimators
from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.jsonable import to_jsonable
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

# Numbers of bootstrap replicates. The means of all replicates are computed by one matrix product,
# but an estimator has to be run again for every replicate, so fewer replicates are used.
MEAN_REPLICATES = 1000
ESTIMATOR_REPLICATES = 200

RowScorer = Callable[[Predictions], Array]


@dataclass(frozen=True)
class RankedModel:
    """Model in a ranking, with the value of its score and a 95 % confidence interval.

    `beats_next` is the probability that the model is better than the next one in the ranking.
    `accuracy` is predicted by a line fitted to models of known accuracy, if there are any. It can
    be outside [0, 1], and it is clipped to this range only for display.
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

    The probability that a model beats the next one is the share of bootstrap replicates in which
    its value is higher; ties count as half. Each replicate resamples the same examples for all
    models. The probability reflects the sampling error of the measure, but not how well the measure
    predicts accuracy. Iterating over a ranking yields the `RankedModel` entries.

    Parameters
    ----------
    measure : str
        Name of the measure or estimator.
    data : str
        Name of the dataset.
    n : int
        Number of rows.
    seed : int
        Random seed.
    models : tuple of RankedModel
        Models, best first.
    neighborhoods : InvarianceResult, optional
        Result from which the measure was computed, if it is a neighborhood measure.

    Examples
    --------
    >>> entries = (RankedModel("a", 0.9, 0.85, 0.95, beats_next=0.8), RankedModel("b", 0.8, 0.75, 0.85, None))
    >>> print(Ranking("NI-RandAug", "photos", 200, 0, entries))
    1. a: NI-RandAug 0.900, beats the next with probability 80%
    2. b: NI-RandAug 0.800
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
        """Return the names of the models, best first."""
        return tuple(entry.model for entry in self.models)

    def __str__(self) -> str:
        lines = []
        for place, entry in enumerate(self.models, start=1):
            line = f"{place}. {entry.model}: {self.measure} {entry.value:.3f}"
            if entry.beats_next is not None:
                line += f", beats the next with probability {entry.beats_next:.0%}"
            lines.append(line)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "data": self.data,
            "n": self.n,
            "seed": self.seed,
            "models": to_jsonable(self.models),
        }


def rank(
    models: Any,
    data: Any,
    *,
    score: str | Estimator | RowScorer = "ni",
    transform: str | Transform | None = None,
    source: Any = None,
    known_accuracies: Mapping[str, float] | None = None,
    draws: int = 10,
    identity: bool | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    threads: int = 1,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
) -> Ranking:
    """Rank models by a score that predicts their accuracy on unlabelled data, best first.

    The probability that a model beats the next one is computed by a paired bootstrap, in which each
    replicate resamples the same examples for all models. The result does not depend on
    `batch_size`, `threads` or `runner`.

    Parameters
    ----------
    models : model, list of models, or mapping from names to models
        Anything that `as_model` accepts.
    data : object
        Unlabelled data; anything that `as_dataset` accepts.
    score : str, Estimator or callable
        Name of a neighborhood measure ("ni", "pa", "ne" or "ei"), an estimator or its name
        ("atc-mc", "doc", …), or a function that returns one number per row of `Predictions`, where
        larger is better.
    transform : str or Transform, optional
        Transform for a neighborhood measure. By default, the usual transform for the kind of data
        is used.
    source : object, optional
        Labelled data; required if `score` is an estimator.
    known_accuracies : mapping from names to float, optional
        Accuracies of at least three models on `data`. A least-squares line is fitted to these
        models and predicts the accuracy of every model from its score (Ng et al., TMLR 2023,
        section 4.3).
    draws : int
        Number of transformed copies per example, for a neighborhood measure.
    identity : bool, optional
        Whether the example itself belongs to its neighborhood, for a neighborhood measure. Default:
        True, but False if `transform` is a name such as "MS-SSMBA".
    seed : int
        Random seed.
    batch_size : int, optional
        Number of inputs per batch.
    threads : int
        Number of threads that transform the next inputs while models classify. With 0, no
        additional threads are used.
    runner : Runner, optional
        Runner whose workers transform and classify inputs, with one thread per worker.
    progress : callable, optional
        Called as ``progress(done, total, text)``.

    Returns
    -------
    Ranking
        Models, best first.

    Raises
    ------
    InputError
        If `score` is unknown, if `score` is an estimator and there is no labelled source, or if a
        known accuracy is not a fraction.
    NotApplicable
        If the measure or estimator does not apply to these models and data.

    Examples
    --------
    >>> sure = lambda rows: np.tile([0.1, 0.9], (len(rows), 1))
    >>> unsure = lambda rows: np.tile([0.5, 0.5], (len(rows), 1))
    >>> models = {"unsure": unsure, "sure": sure}
    >>> rank(models, np.eye(4), score=lambda predictions: predictions.confidence).names
    ('sure', 'unsure')
    """
    named_models = as_models(models)
    dataset = as_dataset(data)
    _check_known_accuracies(known_accuracies, named_models)
    predict = partial(
        predict_models, named_models, batch_size=batch_size, runner=runner, progress=progress
    )
    if isinstance(score, str) and score.lower() in MEASURES:
        result = invariance(
            named_models,
            dataset,
            transform=transform,
            draws=draws,
            identity=identity,
            seed=seed,
            batch_size=batch_size,
            threads=threads,
            runner=runner,
            progress=progress,
        )
        ranking = _rank_by_measure(result, score, dataset)
    elif callable(score):
        predictions = predict(dataset, labelled=False)
        ranking = _rank_by_scores(score, dataset, predictions, seed)
    else:
        # Check the score and the source before the target is classified, which takes longer.
        estimator = _resolve_estimator(score)
        source_predictions = _predict_source(estimator, predict, source)
        target_predictions = predict(dataset, labelled=False)
        ranking = _rank_by_estimates(
            estimator,
            dataset,
            source=source_predictions,
            target=target_predictions,
            seed=seed,
            progress=progress,
        )
    return ranking if known_accuracies is None else _add_accuracies(ranking, known_accuracies)


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


def _resolve_estimator(score: str | Estimator) -> Estimator:
    if not isinstance(score, str):
        return score
    names = [member.name for member in estimators.available()]
    if score.lower() not in names:
        raise UnknownName("measure or estimator", score, [*MEASURES, *names])
    return estimators.get(score)


def _predict_source(
    estimator: Estimator, predict: Callable[..., dict[str, Predictions]], source: Any
) -> dict[str, Predictions]:
    """Return the predictions of every model on the labelled source."""
    dataset = None if source is None else as_dataset(source)
    if dataset is None or dataset.labels is None:
        raise InputError(
            f"Ranking by {estimator.name!r} needs labelled source data; got "
            f"{'none' if dataset is None else 'data without labels'}. Give source=…, or rank by "
            "ni, which needs no labels."
        )
    return predict(dataset, labelled=True)


def _rank_by_measure(result: InvarianceResult, score: str, dataset: Dataset) -> Ranking:
    # The examples are sorted by a hash of their content before they are resampled, so that the
    # order of rows has no effect.
    order = shuffled_order(dataset.keys, result.seed)
    ranking = _rank_by_means(
        result.measure_label(score),
        dataset,
        values={model.model: model.by_example(score)[order] for model in result},
        notes=[model.warnings() for model in result],
        seed=result.seed,
    )
    return replace(ranking, neighborhoods=result)


def _rank_by_scores(
    score: RowScorer, dataset: Dataset, predictions: Mapping[str, Predictions], seed: int
) -> Ranking:
    return _rank_by_means(
        getattr(score, "__name__", "score"),
        dataset,
        values={name: _score_rows(score, rows) for name, rows in predictions.items()},
        notes=[()] * len(predictions),
        seed=seed,
    )


def _score_rows(score: RowScorer, rows: Predictions) -> Floats:
    values = np.asarray(score(rows), dtype=np.float64)
    if values.shape != (rows.n,) or not np.isfinite(values).all():
        raise InputError(
            f"score must return one finite number per row, of shape ({rows.n},); got an array of "
            f"shape {values.shape}."
        )
    return values


def _rank_by_means(
    measure: str,
    dataset: Dataset,
    *,
    values: Mapping[str, Floats],
    notes: Sequence[tuple[str, ...]],
    seed: int,
) -> Ranking:
    """Rank models by the mean of their values over the examples."""
    by_model = np.stack(list(values.values()))
    rng = rng_for(seed, "rank", measure)
    entries = _ordered_entries(
        tuple(values),
        by_model.mean(axis=1),
        paired_bootstrap_means(rng, by_model, MEAN_REPLICATES),
        notes,
    )
    return Ranking(measure, dataset.name, len(dataset), seed, entries)


def _rank_by_estimates(
    estimator: Estimator,
    dataset: Dataset,
    *,
    source: Mapping[str, Predictions],
    target: Mapping[str, Predictions],
    seed: int,
    progress: ProgressCallback | None,
) -> Ranking:
    """Rank models by an estimator; the bootstrap resamples the rows of source and target."""
    names = tuple(target)
    rng = rng_for(seed, "rank", estimator.name)
    n_source = next(iter(source.values())).n
    n_target = len(dataset)
    values = np.array([estimator.estimate(source[name], target[name]).value for name in names])
    replicates = []
    reason = ""
    for done in range(ESTIMATOR_REPLICATES):
        source_rows = rng.integers(0, n_source, n_source)
        target_rows = rng.integers(0, n_target, n_target)
        try:
            replicates.append(
                [
                    estimator.estimate(
                        source[name].rows(source_rows), target[name].rows(target_rows)
                    ).value
                    for name in names
                ]
            )
        except NotApplicable as error:
            reason = str(error)
        if progress:
            progress(done + 1, ESTIMATOR_REPLICATES, "bootstrap")
    if 2 * len(replicates) < ESTIMATOR_REPLICATES:
        raise NotApplicable(
            f"{estimator.name} does not apply to most bootstrap replicates: {reason}"
        )
    entries = _ordered_entries(names, values, np.array(replicates), [()] * len(names))
    return Ranking(estimator.name, dataset.name, n_target, seed, entries)


def _ordered_entries(
    names: Sequence[str], values: Floats, replicates: Floats, notes: Sequence[tuple[str, ...]]
) -> tuple[RankedModel, ...]:
    """Return the ranked models, best first; `replicates` has shape (replicates, models)."""
    order = np.argsort(-values, kind="stable")
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    entries = []
    for place, j in enumerate(order):
        value = float(values[j])
        beats_next = None
        if place + 1 < len(order):
            beats_next = win_probability(replicates[:, j], replicates[:, order[place + 1]])
        entries.append(
            RankedModel(
                model=names[j],
                value=value,
                low=min(float(low[j]), value),
                high=max(float(high[j]), value),
                beats_next=beats_next,
                notes=tuple(notes[j]),
            )
        )
    return tuple(entries)


def _add_accuracies(ranking: Ranking, known_accuracies: Mapping[str, float]) -> Ranking:
    """Add accuracies predicted by a least-squares line fitted to models of known accuracy."""
    values = {entry.model: entry.value for entry in ranking}
    line = least_squares_line(
        [values[name] for name in known_accuracies], list(known_accuracies.values())
    )
    entries = tuple(replace(entry, accuracy=line(entry.value)) for entry in ranking)
    return replace(ranking, models=entries)
