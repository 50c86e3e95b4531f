"""rank(): rank models by neighborhood invariance, with bootstrap uncertainty of the order.

A score can combine a neighborhood measure and an estimator, such as "ni+doc". The models are then
ordered by the mean of their two standardized ranks (docs/results/quality_ranking.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oodometer import estimators
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.jsonable import to_jsonable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Estimator, Model, ProgressCallback
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.core.results import Diagnostic, worst_status
from oodometer.core.stats import paired_bootstrap_means, rng_for, win_probability
from oodometer.data import as_dataset
from oodometer.models.inference import predict_models
from oodometer.neighborhood._invariance import TransformInput, as_models, invariance
from oodometer.neighborhood.accuracy_line import accuracy_line_notes, fit_accuracy_line
from oodometer.neighborhood.class_frequencies import (
    PredictedClasses,
    class_frequency_diagnostics,
    two_model_note,
)
from oodometer.neighborhood.results import MEASURES, InvarianceResult
from oodometer.neighborhood.sampling import shuffled_order

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# Numbers of bootstrap replicates. The means of all replicates are computed by one matrix product,
# but an estimator has to be run again for every replicate, so fewer replicates are used.
MEAN_REPLICATES = 1000
ESTIMATOR_REPLICATES = 200
# Default scores without and with a labelled source, and the estimator whose estimates are shown
# beside a neighborhood measure (docs/results/quality_ranking.md).
DEFAULT_SCORE = "ni"
DEFAULT_SCORE_WITH_SOURCE = "ni+doc"
SHOWN_ESTIMATOR = "doc"

RowScorer = Callable[[Predictions], Array]


@dataclass(frozen=True)
class RankedModel:
    """Model in a ranking, with the value of its score and a 95 % confidence interval.

    `higher_in_resamples` is the share of bootstrap replicates in which the value of the model is
    higher than that of the next model; None for the last model. It describes the order of the
    values, not that of the accuracies. `accuracy` is predicted by a line fitted to models of known
    accuracy, if there are any. It can be outside [0, 1], and it is clipped to this range only for
    display. `diagnostics` are checks of the model with their status. `scores` are the values of a
    measure and an estimator by name, if both were computed.
    """

    model: str
    value: float
    low: float
    high: float
    higher_in_resamples: float | None
    notes: tuple[str, ...] = ()
    accuracy: float | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def caution(self) -> str:
        """Return a sentence on the critical diagnostics or else on the warnings; empty if ok."""
        status = worst_status(self.diagnostics)
        if status == "ok":
            return ""
        verdict = "is not to be trusted" if status == "critical" else "may be wrong"
        reasons = [check.meaning for check in self.diagnostics if check.status == status]
        return f"The rank of {self.model} {verdict}: {'; '.join(reasons)}."


@dataclass(frozen=True, repr=False)
class Ranking(ResultViews):
    """Models from best to worst by one measure on one dataset.

    `RankedModel.higher_in_resamples` is the share of bootstrap replicates in which the value of a
    model is higher than that of the next model; ties count as half. Each replicate resamples the
    same examples for all models. The share reflects the sampling error of the measure, but not how
    well the measure predicts accuracy. Iterating over a ranking yields the `RankedModel` entries.

    Parameters
    ----------
    measure : str
        Name of the measure or estimator, or both names joined by " + ".
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
    notes : tuple of str
        Remarks on the whole ranking.
    known_accuracies : mapping from str to float
        Accuracies of models that were given to `rank`.

    Examples
    --------
    >>> first = RankedModel("a", 0.9, 0.85, 0.95, higher_in_resamples=0.8)
    >>> print(Ranking("NI-RandAug", "photos", 200, 0, (first, RankedModel("b", 0.8, 0.75, 0.85, None))))
    1. a: NI-RandAug 0.900, higher than that of the next in 80% of resamples
    2. b: NI-RandAug 0.800
    """

    renderer: ClassVar[str] = "oodometer.report.neighborhood_views"

    measure: str
    data: str
    n: int
    seed: int
    models: tuple[RankedModel, ...]
    neighborhoods: InvarianceResult | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()
    known_accuracies: Mapping[str, float] = field(default_factory=dict, compare=False)

    def __iter__(self) -> Iterator[RankedModel]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the models, best first."""
        return tuple(entry.model for entry in self.models)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the scores that are shown besides the value."""
        return tuple(self.models[0].scores)

    def key_values(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "data": self.data,
            "n": self.n,
            "models": len(self),
            "best": self.models[0].model,
            "value": self.models[0].value,
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the table `models`: one row per model, best first."""
        return {"models": [self._table_row(*place) for place in enumerate(self.models, start=1)]}

    def _table_row(self, rank: int, entry: RankedModel) -> dict[str, Any]:
        names = ("model", "value", "low", "high", "higher_in_resamples", "accuracy")
        return {
            "rank": rank,
            **{name: getattr(entry, name) for name in names},
            "known_accuracy": self.known_accuracies.get(entry.model),
            **entry.scores,
            "status": worst_status(entry.diagnostics),
            "notes": "; ".join(entry.notes),
        }

    def __str__(self) -> str:
        lines = []
        for place, entry in enumerate(self.models, start=1):
            line = f"{place}. {entry.model}: {self.measure} {entry.value:.3f}"
            line += "".join(f", {name} {value:.3f}" for name, value in entry.scores.items())
            if entry.higher_in_resamples is not None:
                share = f"{entry.higher_in_resamples:.0%}"
                line += f", higher than that of the next in {share} of resamples"
            lines.append(line)
        lines += [entry.caution for entry in self.models if entry.caution]
        lines += [f"Note: {note}." for note in self.notes]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "data": self.data,
            "n": self.n,
            "seed": self.seed,
            "notes": list(self.notes),
            "models": to_jsonable(self.models),
        }


def rank(
    models: Any,
    data: Any,
    *,
    score: str | Estimator | RowScorer | None = None,
    transform: TransformInput = None,
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

    The certainty of the order is computed by a paired bootstrap, in which each replicate resamples
    the same examples for all models. With three models or more, a diagnostic compares the class
    frequencies that each model predicts with those of the others. The result does not depend on
    `batch_size`, `threads` or `runner`.

    Parameters
    ----------
    models : model, list of models, or mapping from names to models
        Anything that `as_model` accepts.
    data : object
        Unlabelled data; anything that `as_dataset` accepts.
    score : str, Estimator or callable, optional
        Name of a neighborhood measure ("ni", "pa", "ne" or "ei"), an estimator or its name
        ("atc-mc", "doc", …), a measure and an estimator joined by "+" ("ni+doc"), or a function
        that returns one number per row of `Predictions`, where larger is better. A measure and an
        estimator are combined by the mean of their standardized ranks, which are 0 for the worst
        model and 1 for the best. Default: "ni", or "ni+doc" if there is a source.
    transform : str, Transform or function, optional
        Transform for a neighborhood measure. By default, the usual transform for the kind of data
        is used.
    source : object, optional
        Labelled data; required if `score` contains an estimator. With a neighborhood measure
        alone, the models are ordered by the measure, and the accuracies that "doc" estimates
        from the source are shown beside it.
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
        If `score` is unknown, if an estimator is needed and there is no labelled source, or if a
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
    parts = _resolve_score(score, has_source=source is not None)
    predict = partial(
        predict_models, named_models, batch_size=batch_size, runner=runner, progress=progress
    )
    # The score and the source are checked before the target is classified, which takes longer.
    sources = {}
    if parts.estimator is not None:
        sources = _predict_source(parts.estimator, predict, source)
    result = None
    if parts.measure is not None:
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
    targets = {}
    if parts.measure is None or parts.estimator is not None:
        targets = predict(dataset, labelled=False)
    ranking = _rank_by_parts(parts, _Outputs(dataset, result, sources, targets), seed, progress)
    ranking = _check_class_frequencies(ranking, result, targets)
    return ranking if known_accuracies is None else _add_accuracies(ranking, known_accuracies)


@dataclass(frozen=True, kw_only=True)
class _ScoreParts:
    """Parts of a score: a neighborhood measure, an estimator, both, or a function of rows.

    If `combined` is false, the order is that of the measure, and the estimates are only shown.
    """

    measure: str | None = None
    estimator: Estimator | None = None
    row_scorer: RowScorer | None = None
    combined: bool = False


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Dataset, neighborhoods, and predictions on source and target, as far as the score needs them."""

    dataset: Dataset
    neighborhoods: InvarianceResult | None
    sources: Mapping[str, Predictions]
    targets: Mapping[str, Predictions]


def _resolve_score(score: str | Estimator | RowScorer | None, *, has_source: bool) -> _ScoreParts:
    if score is None:
        score = DEFAULT_SCORE_WITH_SOURCE if has_source else DEFAULT_SCORE
    if callable(score):
        return _ScoreParts(row_scorer=score)
    if not isinstance(score, str):
        return _ScoreParts(estimator=score)
    names = [name.strip().lower() for name in score.split("+")]
    measures = [name for name in names if name in MEASURES]
    others = [_named_estimator(name, score) for name in names if name not in MEASURES]
    if len(measures) > 1 or len(others) > 1:
        raise InputError(
            f"A score combines one neighborhood measure and one estimator; got {score!r}. Use, for "
            f"example, {DEFAULT_SCORE_WITH_SOURCE!r}."
        )
    measure = measures[0] if measures else None
    if measure is not None and not others and has_source:
        return _ScoreParts(measure=measure, estimator=estimators.get(SHOWN_ESTIMATOR))
    estimator = others[0] if others else None
    return _ScoreParts(measure=measure, estimator=estimator, combined=len(names) == 2)


def _rank_by_parts(
    parts: _ScoreParts, outputs: _Outputs, seed: int, progress: ProgressCallback | None
) -> Ranking:
    if parts.row_scorer is not None:
        return _rank_by_scores(parts.row_scorer, outputs.dataset, outputs.targets, seed)
    if outputs.neighborhoods is None or parts.measure is None:
        assert parts.estimator is not None
        return _rank_by_estimates(parts.estimator, outputs, seed, progress)
    if parts.estimator is None:
        return _rank_by_measure(outputs.neighborhoods, parts.measure, outputs.dataset)
    if parts.combined:
        return _rank_by_both(parts.measure, parts.estimator, outputs, seed, progress)
    ranking = _rank_by_measure(outputs.neighborhoods, parts.measure, outputs.dataset)
    return _add_estimates(ranking, parts.estimator, outputs)


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


def _named_estimator(name: str, score: str) -> Estimator:
    names = [member.name for member in estimators.available()]
    if name not in names:
        raise UnknownName(
            "measure or estimator", name if "+" in score else score, [*MEASURES, *names]
        )
    return estimators.get(name)


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
    estimator: Estimator, outputs: _Outputs, seed: int, progress: ProgressCallback | None
) -> Ranking:
    """Rank models by an estimator; the bootstrap resamples the rows of source and target."""
    names = tuple(outputs.targets)
    rng = rng_for(seed, "rank", estimator.name)
    values = _estimate_accuracies(estimator, outputs.sources, outputs.targets)
    _, replicates = _bootstrap_estimates(estimator, outputs.sources, outputs.targets, rng, progress)
    entries = _ordered_entries(names, values, replicates, [()] * len(names))
    return Ranking(estimator.name, outputs.dataset.name, len(outputs.dataset), seed, entries)


def _rank_by_both(
    measure: str,
    estimator: Estimator,
    outputs: _Outputs,
    seed: int,
    progress: ProgressCallback | None,
) -> Ranking:
    """Rank models by the mean of their standardized ranks by a measure and by an estimator.

    Ties are resolved by the estimates.
    """
    result, dataset = outputs.neighborhoods, outputs.dataset
    assert result is not None
    order = shuffled_order(dataset.keys, seed)
    by_model = np.stack([model.by_example(measure)[order] for model in result])
    targets = {name: rows.rows(order) for name, rows in outputs.targets.items()}
    rng = rng_for(seed, "rank", measure, estimator.name)
    scores = np.stack(
        [by_model.mean(axis=1), _estimate_accuracies(estimator, outputs.sources, targets)]
    )
    resamples, estimates = _bootstrap_estimates(estimator, outputs.sources, targets, rng, progress)
    replicates = [
        mean_standardized_ranks(np.stack([by_model[:, rows].mean(axis=1), values]))
        for rows, values in zip(resamples, estimates, strict=True)
    ]
    entries = _ordered_entries(
        result.models,
        mean_standardized_ranks(scores),
        np.stack(replicates),
        [model.warnings() for model in result],
        ties=scores[1],
    )
    label = result.measure_label(measure)
    by_name = dict(zip(result.models, scores.T.tolist(), strict=True))
    entries = tuple(
        replace(entry, scores=dict(zip((label, estimator.name), by_name[entry.model], strict=True)))
        for entry in entries
    )
    return Ranking(f"{label} + {estimator.name}", dataset.name, len(dataset), seed, entries, result)


def mean_standardized_ranks(scores: Floats) -> Floats:
    """Return the mean over scores of the ranks of models, from 0 (worst) to 1 (best).

    Models with equal scores get the mean of their ranks. `scores` has shape (scores, models).

    >>> mean_standardized_ranks(np.array([[0.9, 0.8, 0.7], [0.6, 0.6, 0.1]]))
    array([0.875, 0.625, 0.   ])
    """
    n_lower = (scores[:, :, None] > scores[:, None, :]).sum(axis=2)
    n_equal = (scores[:, :, None] == scores[:, None, :]).sum(axis=2) - 1
    ranks = (n_lower + n_equal / 2) / max(scores.shape[1] - 1, 1)
    return np.asarray(ranks.mean(axis=0))


def _estimate_accuracies(
    estimator: Estimator, source: Mapping[str, Predictions], target: Mapping[str, Predictions]
) -> Floats:
    return np.array([estimator.estimate(source[name], target[name]).value for name in target])


def _bootstrap_estimates(
    estimator: Estimator,
    source: Mapping[str, Predictions],
    target: Mapping[str, Predictions],
    rng: np.random.Generator,
    progress: ProgressCallback | None,
) -> tuple[list[Ints], Floats]:
    """Return the target rows of each replicate, and the estimates of shape (replicates, models)."""
    n_source, n_target = (next(iter(rows.values())).n for rows in (source, target))
    resamples: list[Ints] = []
    estimates: list[Floats] = []
    reason = ""
    for done in range(ESTIMATOR_REPLICATES):
        source_rows = rng.integers(0, n_source, n_source)
        target_rows = rng.integers(0, n_target, n_target)
        sources = {name: rows.rows(source_rows) for name, rows in source.items()}
        targets = {name: rows.rows(target_rows) for name, rows in target.items()}
        try:
            estimates.append(_estimate_accuracies(estimator, sources, targets))
            resamples.append(target_rows)
        except NotApplicable as error:
            reason = str(error)
        if progress:
            progress(done + 1, ESTIMATOR_REPLICATES, "bootstrap")
    if 2 * len(estimates) < ESTIMATOR_REPLICATES:
        raise NotApplicable(
            f"{estimator.name} does not apply to most bootstrap replicates: {reason}"
        )
    return resamples, np.stack(estimates)


def _add_estimates(ranking: Ranking, estimator: Estimator, outputs: _Outputs) -> Ranking:
    """Add the estimated accuracies, or a note why there are none; the order does not change."""
    try:
        values = _estimate_accuracies(estimator, outputs.sources, outputs.targets)
    except NotApplicable as error:
        note = f"the accuracies are not estimated by {estimator.name}: {error}"
        return replace(ranking, notes=(*ranking.notes, note))
    by_name = dict(zip(outputs.targets, values.tolist(), strict=True))
    entries = tuple(
        replace(entry, scores={estimator.name: by_name[entry.model]}) for entry in ranking
    )
    return replace(ranking, models=entries)


def _ordered_entries(
    names: Sequence[str],
    values: Floats,
    replicates: Floats,
    notes: Sequence[tuple[str, ...]],
    ties: Floats | None = None,
) -> tuple[RankedModel, ...]:
    """Return the ranked models, best first; `replicates` has shape (replicates, models).

    Models of equal value are ordered by `ties`, largest first, and otherwise keep their order.
    """
    order = np.lexsort((-values if ties is None else -ties, -values))
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    entries = []
    for place, j in enumerate(order):
        value = float(values[j])
        higher_in_resamples = None
        if place + 1 < len(order):
            next_replicates = replicates[:, order[place + 1]]
            higher_in_resamples = win_probability(replicates[:, j], next_replicates)
        entries.append(
            RankedModel(
                model=names[j],
                value=value,
                low=min(float(low[j]), value),
                high=max(float(high[j]), value),
                higher_in_resamples=higher_in_resamples,
                notes=tuple(notes[j]),
            )
        )
    return tuple(entries)


def _check_class_frequencies(
    ranking: Ranking, result: InvarianceResult | None, targets: Mapping[str, Predictions]
) -> Ranking:
    """Add the comparison of the models' predicted class frequencies."""
    predicted = _predicted_classes(result, targets)
    if predicted is None:
        note = (
            "the predicted class frequencies of the models cannot be compared, because the models "
            "do not have the same classes"
        )
        return replace(ranking, notes=(*ranking.notes, note))
    note = two_model_note(predicted, seed=ranking.seed)
    checks = class_frequency_diagnostics(predicted, seed=ranking.seed)
    by_model = dict(zip(predicted.models, checks, strict=bool(checks)))
    entries = tuple(
        replace(entry, diagnostics=(by_model[entry.model],)) if by_model else entry
        for entry in ranking
    )
    notes = (*ranking.notes, note) if note else ranking.notes
    return replace(ranking, models=entries, notes=notes)


def _predicted_classes(
    result: InvarianceResult | None, targets: Mapping[str, Predictions]
) -> PredictedClasses | None:
    if result is not None:
        return PredictedClasses.from_neighborhoods(result)
    return PredictedClasses.align(
        {name: rows.classes for name, rows in targets.items()},
        {name: rows.class_names for name, rows in targets.items()},
    )


def _add_accuracies(ranking: Ranking, known_accuracies: Mapping[str, float]) -> Ranking:
    """Add accuracies predicted by a least-squares line fitted to models of known accuracy."""
    values = {entry.model: entry.value for entry in ranking}
    line = fit_accuracy_line(values, known_accuracies)
    notes = accuracy_line_notes(ranking.measure, values, known_accuracies)
    entries = tuple(replace(entry, accuracy=line(entry.value)) for entry in ranking)
    return replace(
        ranking,
        models=entries,
        notes=(*ranking.notes, *notes),
        known_accuracies=dict(known_accuracies),
    )
