"""The rules that every estimator keeps, and toy predictions."""

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

# Sums over batches and over permuted rows differ by rounding alone; solvers add their tolerance.
SUM_TOLERANCE, SOLVER_TOLERANCE = 1e-9, 1e-4


def toy_predictions(
    n: int = 400,
    k: int = 4,
    *,
    sharpness: float = 2.5,
    class_shares: Any = None,
    seed: int = 0,
) -> Predictions:
    """Labelled logits of a classifier that is right about 90 % of the time, with features.

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
    """A labelled source and a harder, labelled target, with two other models beside each."""
    source = toy_predictions(seed=seed, k=k)
    target = toy_predictions(n=300, k=k, sharpness=1.5, seed=seed + 1)
    return with_other_toy_models(source, 2.5, seed), with_other_toy_models(target, 1.5, seed)


def with_other_toy_models(predictions: Predictions, sharpness: float, seed: int = 0) -> Predictions:
    """The same with what two models say of it that are somewhat better and somewhat worse."""
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
    """Raise AssertionError, with a sentence, on the first rule that an estimator breaks."""
    for rule in ESTIMATOR_RULES:
        rule(member, seed)


def is_frozen(member: Any) -> bool:
    """Whether it is a frozen dataclass: its settings can't change, and tell it from others."""
    try:
        return hash(member) == hash(replace(member))
    except TypeError:  # what is no dataclass can't be replaced, what is not frozen can't be hashed
        return False


def _is_described(member: Estimator, seed: int) -> None:
    assert isinstance(member, Estimator), f"{member!r} lacks name, assumes or estimate"
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert member.assumes, f"{member.name} must say what it assumes"
    assert is_frozen(member), f"{member.name} must be a frozen dataclass"


def _returns_fraction(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    found = member.estimate(source, target.without_labels())
    assert isinstance(found, Estimate), f"{member.name} must return an Estimate"
    assert 0.0 <= found.value <= 1.0, f"{member.name} left [0, 1]: {found.value}"


def _is_pure(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    before = [np.array(rows.scores) for rows in (source, target)]
    first, second = (member.estimate(source, target).value for _ in range(2))
    assert first == second, f"{member.name} differs when asked twice"
    for rows, kept in zip((source, target), before, strict=True):
        assert np.array_equal(np.asarray(rows.scores), kept), f"{member.name} changes its input"


def _never_reads_target_labels(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    assert target.labels is not None
    planted = replace(target, labels=(target.labels + 1) % target.k)
    values = {member.estimate(source, t).value for t in (target, planted, target.without_labels())}
    assert len(values) == 1, f"{member.name} reads the target's labels"


def _ignores_row_order(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    rng = rng_for(seed, "order")
    mixed = [rows.rows(rng.permutation(rows.n)) for rows in (source, target)]
    _assert_close(member, (source, target), (mixed[0], mixed[1]), "the order of rows")


def _ignores_class_names(member: Estimator, seed: int) -> None:
    source, target = toy_pair(seed)
    order = rng_for(seed, "classes").permutation(source.k)

    def relabel(rows: Predictions) -> Predictions:
        place = np.argsort(order)
        return replace(
            rows,
            scores=np.asarray(rows.scores)[:, order],
            labels=None if rows.labels is None else place[rows.labels],
            other_models=tuple(relabel(peer) for peer in rows.other_models),
        )

    _assert_close(
        member, (source, target), (relabel(source), relabel(target)), "the order of classes"
    )


def _merges_batches(member: Estimator, seed: int) -> None:
    if not (isinstance(member, StreamingEstimator) and member.is_mergeable):
        return
    source, target = toy_pair(seed)
    learned = member.learn(source)
    parts = [target.rows(slice(a, b)) for a, b in ((0, 1), (1, 120), (120, target.n))]
    total = sum((member.summarize(learned, part) for part in parts[1:]),
                start=member.summarize(learned, parts[0]))  # fmt: skip
    together = member.finish(learned, total).value
    whole = member.estimate(source, target).value
    assert abs(together - whole) <= SUM_TOLERANCE, (
        f"{member.name}: batches give {together}, all {whole}"
    )


def _replicates_center_on_estimate(member: Estimator, seed: int) -> None:
    if not isinstance(member, StreamingEstimator):
        return
    source, target = toy_pair(seed)
    learned = member.learn(source)
    total = member.summarize(learned, target)
    drawn = member.resample(learned, total, rng_for(seed, "resample"), 400)
    value = member.finish(learned, total).value
    assert drawn.shape == (400,), f"{member.name} must give as many replicates as asked for"
    assert np.isfinite(drawn).all(), f"{member.name} gives replicates that are not finite"
    gap = abs(float(np.median(drawn)) - value)
    assert gap <= 3 * float(drawn.std()) + 1e-9, f"{member.name}: replicates are off by {gap:.3f}"


def _returns_estimate_or_reason(member: Estimator, seed: int) -> None:
    """Hard classes and a single row are legal: an answer, or NotApplicable with a reason."""
    source, target = toy_pair(seed)
    hard = [Predictions.from_classes(r.classes, k=r.k, labels=r.labels) for r in (source, target)]
    for rows in ((hard[0], hard[1]), (source, target.rows(slice(0, 1)))):
        reason = ""
        try:
            reason = f"{member.estimate(*rows).value}"
        except NotApplicable as refusal:
            reason = str(refusal)
        assert reason, f"{member.name} refuses without a reason"


def _assert_close(
    member: Estimator,
    pair: tuple[Predictions, Predictions],
    other_pair: tuple[Predictions, Predictions],
    factor: str,
) -> None:
    first, second = member.estimate(*pair).value, member.estimate(*other_pair).value
    streams = isinstance(member, StreamingEstimator) and member.is_mergeable
    limit = SUM_TOLERANCE if streams else SOLVER_TOLERANCE
    assert abs(first - second) <= limit, f"{member.name} depends on {factor}: {first}, {second}"


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
