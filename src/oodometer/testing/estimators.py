"""Conformance check of estimators, and toy predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import rng_for

# Sums over batches and over permuted rows differ by rounding only.
SUM_TOLERANCE = 1e-9
# Results of iterative solvers differ more, because the solvers stop at a tolerance.
SOLVER_TOLERANCE = 1e-4


def toy_predictions(
    n: int = 400,
    k: int = 4,
    *,
    sharpness: float = 2.5,
    class_shares: Any = None,
    seed: int = 0,
) -> Predictions:
    """Return labelled predictions with logits and features, with an accuracy of about 90 %.

    Parameters
    ----------
    n : int
        Number of rows.
    k : int
        Number of classes.
    sharpness : float
        Amount added to the logit of the label; larger values mean a higher accuracy.
    class_shares : array of shape (k,), optional
        Probability of each class. Default: uniform.
    seed : int
        Random seed.

    Returns
    -------
    Predictions
        Logits, labels and three features per row.

    Examples
    --------
    >>> toy_predictions()
    Predictions(400 labelled rows, 4 classes, from logits)
    """
    rng = rng_for(seed, "toy predictions", n, k)
    labels = rng.choice(k, size=n, p=class_shares)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), labels] += sharpness
    features = rng.normal(size=(n, 3)) + labels[:, None] / k
    return Predictions.from_logits(1.5 * logits, labels=labels, features=features)


def toy_pair(seed: int = 0, k: int = 4) -> tuple[Predictions, Predictions]:
    """Return a labelled source and a labelled target with a lower accuracy.

    Both have the predictions of two other models.

    Parameters
    ----------
    seed : int
        Random seed.
    k : int
        Number of classes.

    Returns
    -------
    tuple of Predictions
        Source and target.

    Examples
    --------
    >>> source, target = toy_pair()
    >>> source.n, target.n, len(source.other_models)
    (400, 300, 2)
    """
    source = toy_predictions(seed=seed, k=k)
    target = toy_predictions(n=300, k=k, sharpness=1.5, seed=seed + 1)
    return with_other_toy_models(source, 2.5, seed), with_other_toy_models(target, 1.5, seed)


def with_other_toy_models(predictions: Predictions, sharpness: float, seed: int = 0) -> Predictions:
    """Add the predictions of a better model and of a worse model for the same rows.

    Parameters
    ----------
    predictions : Predictions
        Labelled predictions.
    sharpness : float
        Value of `sharpness` with which `predictions` were created; the other models have 1.2 and
        0.6 times this value.
    seed : int
        Random seed.

    Returns
    -------
    Predictions
        The predictions with two `other_models`.

    Examples
    --------
    >>> len(with_other_toy_models(toy_predictions(), sharpness=2.5).other_models)
    2
    """
    assert predictions.labels is not None
    others = []
    for j, factor in enumerate((1.2, 0.6)):
        logits = rng_for(seed, "toy peers", predictions.n, j).normal(
            size=(predictions.n, predictions.k)
        )
        logits[np.arange(predictions.n), predictions.labels] += factor * sharpness
        others.append(Predictions.from_logits(logits))
    return predictions.with_other_models(*others)


def check_estimator(member: Estimator, seed: int = 0) -> None:
    """Raise if an estimator violates a rule that all estimators must satisfy.

    Parameters
    ----------
    member : Estimator
        Estimator to check.
    seed : int
        Random seed of the toy data.

    Raises
    ------
    AssertionError
        If a rule is violated; the message names the first such rule.

    Examples
    --------
    >>> from oodometer.estimators import AverageConfidence
    >>> check_estimator(AverageConfidence())
    """
    for rule in ESTIMATOR_RULES:
        rule(member, seed)


def is_frozen(member: Any) -> bool:
    """Return whether an object is a frozen dataclass."""
    try:
        return hash(member) == hash(replace(member))
    except TypeError:  # `replace` needs a dataclass, `hash` a frozen one
        return False


def _is_described(member: Estimator, seed: int) -> None:
    assert isinstance(member, Estimator), f"{member!r} lacks name, assumes or estimate"
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert member.assumes, f"{member.name} must state what it assumes"
    assert is_frozen(member), f"{member.name} must be a frozen dataclass"


def _returns_fraction(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    estimate = member.estimate(source, target.without_labels())
    assert isinstance(estimate, Estimate), f"{member.name} must return an Estimate"
    assert 0.0 <= estimate.value <= 1.0, f"{member.name} is outside [0, 1]: {estimate.value}"


def _is_pure(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    before = [np.array(rows.scores) for rows in (source, target)]
    first, second = (member.estimate(source, target).value for _ in range(2))
    assert first == second, f"{member.name} differs between two calls"
    for rows, scores in zip((source, target), before, strict=True):
        assert np.array_equal(np.asarray(rows.scores), scores), f"{member.name} changes its input"


def _never_reads_target_labels(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    assert target.labels is not None
    relabelled = replace(target, labels=(target.labels + 1) % target.k)
    values = {
        member.estimate(source, variant).value
        for variant in (target, relabelled, target.without_labels())
    }
    assert len(values) == 1, f"{member.name} reads the target labels"


def _ignores_row_order(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    rng = rng_for(seed, "order")
    permuted = (source.rows(rng.permutation(source.n)), target.rows(rng.permutation(target.n)))
    _assert_close(member, (source, target), permuted, "the order of rows")


def _ignores_class_names(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    order = rng_for(seed, "classes").permutation(source.k)

    def reorder(rows: Predictions) -> Predictions:
        new_class = np.argsort(order)
        return replace(
            rows,
            scores=np.asarray(rows.scores)[:, order],
            labels=None if rows.labels is None else new_class[rows.labels],
            other_models=tuple(reorder(other) for other in rows.other_models),
        )

    _assert_close(
        member, (source, target), (reorder(source), reorder(target)), "the order of classes"
    )


def _merges_batches(member: Estimator, seed: int) -> None:
    if not (isinstance(member, StreamingEstimator) and member.is_mergeable):
        return
    source, target = toy_pair(seed)
    learned = member.learn(source)
    batches = [target.rows(slice(a, b)) for a, b in ((0, 1), (1, 120), (120, target.n))]
    first, *others = (member.summarize(learned, batch) for batch in batches)
    merged = member.finish(learned, sum(others, start=first)).value
    direct = member.estimate(source, target).value
    assert abs(merged - direct) <= SUM_TOLERANCE, (
        f"{member.name}: batches give {merged}, all rows {direct}"
    )


def _replicates_center_on_estimate(member: Estimator, seed: int) -> None:
    if not isinstance(member, StreamingEstimator):
        return
    source, target = toy_pair(seed)
    learned = member.learn(source)
    total = member.summarize(learned, target)
    drawn = member.resample(learned, total, rng_for(seed, "resample"), 400)
    value = member.finish(learned, total).value
    assert drawn.shape == (400,), f"{member.name} must return the requested number of replicates"
    assert np.isfinite(drawn).all(), f"{member.name} returns non-finite replicates"
    gap = abs(float(np.median(drawn)) - value)
    assert gap <= 3 * float(drawn.std()) + 1e-9, (
        f"{member.name}: the median replicate differs from the estimate by {gap:.3f}"
    )


def _returns_estimate_or_reason(member: Estimator, seed: int) -> None:
    """Check that classes without probabilities, and also a single row, give an estimate or a reason."""
    source, target = toy_pair(seed)
    hard_source, hard_target = (
        Predictions.from_classes(rows.classes, k=rows.k, labels=rows.labels)
        for rows in (source, target)
    )
    for pair in ((hard_source, hard_target), (source, target.rows(slice(0, 1)))):
        try:
            float(member.estimate(*pair).value)
        except NotApplicable as error:
            if not str(error):
                raise AssertionError(
                    f"{member.name} raises NotApplicable without a reason"
                ) from error


def _assert_close(
    member: Estimator,
    pair: tuple[Predictions, Predictions],
    other_pair: tuple[Predictions, Predictions],
    factor: str,
) -> None:
    first, second = member.estimate(*pair).value, member.estimate(*other_pair).value
    is_sum = isinstance(member, StreamingEstimator) and member.is_mergeable
    tolerance = SUM_TOLERANCE if is_sum else SOLVER_TOLERANCE
    assert abs(first - second) <= tolerance, f"{member.name} depends on {factor}: {first}, {second}"


ESTIMATOR_RULES: tuple[Callable[[Estimator, int], None], ...] = (
    _is_described,
    _returns_fraction,
    _is_pure,
    _never_reads_target_labels,
    _ignores_row_order,
    _ignores_class_names,
    _merges_batches,
    _replicates_center_on_estimate,
    _returns_estimate_or_reason,
)
