"""Regime weighting against a literal twin, on simulated shifts, and against a naive bootstrap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import oodometer
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for
from oodometer.estimators import regime_weighting
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.estimators.cot import COT, transport_bias
from oodometer.estimators.regime_weighting import (
    RegimeSource,
    RegimeSummary,
    RegimeWeighting,
    auc_standard_error,
    class_ratios,
    regime_weights,
)
from oodometer.testing import toy_pair
from tests.support.command_line import run_json

MEMBER = RegimeWeighting()
MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
EQUAL = (1 / 3, 1 / 3, 1 / 3)
WEIGHTS = ("weight_confidence", "weight_label_shift", "weight_transport")


def gaussian_rows(
    n: int,
    seed: int,
    shares: tuple[float, ...] = EQUAL,
    *,
    noise: float = 1.0,
    offset: float = 0.0,
    others: int = 0,
) -> Predictions:
    """Return rows of three Gaussian classes with the posterior of equal shares and unit noise.

    With equal shares, unit noise and no offset, the posterior is calibrated. Other models see the
    inputs with independent noise, so they tell nothing that the model does not know.
    """
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=shares)
    x = MEANS[labels] + noise * rng.normal(size=(n, 2)) + [offset, 0.0]
    rows = Predictions.from_probs(posterior(x), labels=labels)
    models = [
        Predictions.from_probs(posterior(x + 0.5 * rng.normal(size=x.shape))) for _ in range(others)
    ]
    return rows.with_other_models(*models) if others else rows


def posterior(x: Floats, variance: float = 1.0) -> Floats:
    logits = -((x[:, None] - MEANS) ** 2).sum(axis=2) / (2 * variance)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def independent_views(n: int, seed: int, view_noise: float) -> Predictions:
    """Return rows of four models, each of which sees the inputs with noise of its own.

    All models are calibrated if the deviation of the noise is 1.
    """
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n)
    x = MEANS[labels] + rng.normal(size=(n, 2))
    views = [posterior(x + view_noise * rng.normal(size=x.shape), 2.0) for _ in range(4)]
    return Predictions.from_probs(views[0], labels=labels).with_other_models(
        *map(Predictions.from_probs, views[1:])
    )


def summary_of(source: Predictions, target: Predictions) -> tuple[RegimeSource, RegimeSummary]:
    learned = MEMBER.learn(source)
    return learned, MEMBER.summarize(learned, target.without_labels())


def source_labels(rows: Predictions) -> Ints:
    assert rows.labels is not None
    return rows.labels


def weights_of(facts: Mapping[str, float]) -> Floats:
    return np.array([facts[name] for name in WEIGHTS])


# The literal twin -------------------------------------------------------------------------------


def naive_class_shares(probs: Floats, prior: Floats) -> Floats:
    """Plain EM, without acceleration."""
    q = prior.copy()
    for _ in range(20_000):
        joint = probs * q / prior
        q = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    return q


def naive_adjusted_confidence(probs: Floats, shares: Floats, prior: Floats) -> float:
    total = 0.0
    for row in probs:
        joint = [row[y] * shares[y] / prior[y] for y in range(len(prior))]
        total += joint[int(np.argmax(row))] / sum(joint)
    return total / len(probs)


def naive_transport(probs: Floats, shares: Floats) -> float:
    """One minus the cost, as a linear program over the assignment of each row to each class."""
    n, k = probs.shape
    by_row = np.kron(np.eye(n), np.ones(k))
    by_class = np.kron(np.ones(n), np.eye(k))
    result = linprog(
        -probs.ravel(),
        A_eq=np.vstack([by_row, by_class]),
        b_eq=np.concatenate([np.full(n, 1 / n), shares]),
    )
    assert result.success
    return float(-result.fun)


def naive_auc(source: Predictions, target: Predictions, weights: Floats) -> float:
    """Two-fold cross-fitting with scikit-learn; the folds alternate in the order of the norms."""
    inputs = StandardScaler().fit_transform(np.log(np.vstack([source.probs, target.probs])))
    is_target = np.repeat([False, True], [source.n, target.n])
    weights = np.concatenate([weights / weights.mean(), np.ones(target.n)])
    order = sorted(range(len(inputs)), key=lambda i: float((inputs[i] ** 2).sum()))
    areas = []
    for fold in (0, 1):
        used = np.isin(np.arange(len(inputs)), order[fold::2])
        model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
        model.fit(inputs[used], is_target[used], sample_weight=weights[used])
        scores = model.decision_function(inputs[~used])
        areas.append(roc_auc_score(is_target[~used], scores, sample_weight=weights[~used]))
    return float(np.mean(areas))


def naive_weights(
    auc: float, reweighted: float, misfit: float, error: float, class_rows: float
) -> Floats:
    """The formulas of the docstring, with the exponential function."""
    other = 1 / (1 + math.exp(-(reweighted - max(0.65, 0.5 + 0.65 * (auc - 0.5))) / 0.02))
    differ = 1 / (1 + math.exp(-(auc - 0.5 - 2.5 * error) / (0.7 * error)))
    fits = 1 / (1 + math.exp((misfit - 8) / 2))
    label = (1 - other) * min(1, class_rows / 100) * differ * fits
    return np.array([1 - label - other, label, other])


def naive_misfit(source: Predictions, target: Predictions, weights: Floats) -> float:
    """The χ² distance in bins of predicted class and confidence, one bin after another."""
    weights = weights / weights.sum()
    chi_squared, n_bins = 0.0, 0
    for class_ in range(source.k):
        of_class = source.classes == class_
        edges = np.quantile(source.confidence[of_class], [0.2, 0.4, 0.6, 0.8])
        bounds = [-1.0, *edges, 2.0]
        for low, high in pairwise(bounds):
            inside, in_target = (
                (rows.classes == class_) & (rows.confidence > low) & (rows.confidence <= high)
                for rows in (source, target)
            )
            expected, observed = weights[inside].sum(), in_target.mean()
            pooled = (expected + observed) / 2
            if pooled * target.n < 5:
                continue
            variance = pooled * (1 - pooled) / target.n
            variance += (weights[inside] ** 2).sum() * (1 - expected)
            chi_squared += (observed - expected) ** 2 / variance
            n_bins += 1
    degrees = max(n_bins - source.k, 1)
    return float((chi_squared - degrees) / math.sqrt(2 * degrees))


def naive_correctness(source: Predictions, target: Predictions) -> float:
    """Mean predicted probability of a logistic regression of scikit-learn."""

    def inputs(rows: Predictions) -> Floats:
        table = []
        for i in range(rows.n):
            predicted = int(rows.classes[i])
            given = []
            for other in rows.other_models:
                if other.has_probs:
                    given.append(float(other.probs[i, predicted]))
                else:
                    given.append(1.0 if other.classes[i] == predicted else 0.0)
            pair = (float(rows.confidence[i]), sum(given) / len(given))
            clipped = [min(max(p, 1e-4), 1 - 1e-4) for p in pair]
            table.append([math.log(p / (1 - p)) for p in clipped])
        return np.array(table)

    model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(inputs(source), source.correct)
    return float(model.predict_proba(inputs(target))[:, 1].mean())


def naive_estimate(source: Predictions, target: Predictions) -> tuple[float, Floats, Floats]:
    """Value, weights of the regimes and estimates of the regimes."""
    labels = source_labels(source)
    counts = np.bincount(labels, minlength=3)
    prior, probs = counts / source.n, target.probs
    shares = naive_class_shares(probs, prior)
    confidence = sum(max(row) for row in probs.tolist()) / target.n
    transported = naive_transport(probs, prior) - transport_bias(probs, counts)
    values = np.array(
        [
            confidence,
            naive_adjusted_confidence(probs, shares, prior),
            min(transported, confidence),
        ]
    )
    n, m = source.n, target.n
    error = math.sqrt((n + m + 1) / (12 * n * m))
    class_weights = (shares / prior)[labels]
    reweighted = naive_auc(source, target, class_weights)
    weights = naive_weights(
        naive_auc(source, target, np.ones(n)),
        reweighted,
        naive_misfit(source, target, class_weights) + max((reweighted - 0.5) / error, 0),
        error,
        min(int(counts.min()), m / 3),
    )
    value = float(weights @ values)
    if source.other_models:
        value *= math.sqrt(naive_correctness(source, target) / confidence)
    return value, weights, values


SHIFTS = {
    "no shift": {},
    "label shift": {"shares": (0.6, 0.25, 0.15)},
    "other shift": {"offset": 3.0},
    "noise": {"noise": 1.5, "offset": 0.5},
    "between": {"shares": (0.45, 0.3, 0.25), "noise": 1.1},
}


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("shift", SHIFTS)
def test_estimate_matches_the_literal_twin(shift: str, others: int) -> None:
    source = gaussian_rows(250, 1, others=others)
    target = gaussian_rows(200, 2, others=others, **SHIFTS[shift])  # type: ignore[arg-type]
    value, weights, values = naive_estimate(source, target)
    result = MEMBER.estimate(source, target.without_labels())
    facts = [result.facts[name] for name in ("confidence", "confidence_after_label_shift")]
    assert facts == pytest.approx(values[:2].tolist(), abs=1e-5)
    # The dual of the transport is solved to a gap of about 1e-4.
    assert result.facts["transport"] == pytest.approx(values[2], abs=1e-3)
    assert weights_of(result.facts) == pytest.approx(weights, abs=1e-4)
    assert result.value == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("auc", [0.5, 0.55, 0.7, 0.95])
@pytest.mark.parametrize("reweighted", [0.48, 0.6, 0.64, 0.9])
@pytest.mark.parametrize("misfit", [-1.0, 7.0, 30.0])
@pytest.mark.parametrize("class_rows", [3.0, 99.0, 500.0])
def test_weights_match_the_formulas_and_sum_to_one(
    auc: float, reweighted: float, misfit: float, class_rows: float
) -> None:
    weights = regime_weights(auc, reweighted, misfit=misfit, auc_error=0.012, class_rows=class_rows)
    expected = naive_weights(auc, reweighted, misfit, 0.012, class_rows)
    assert weights == pytest.approx(expected, abs=1e-12)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weights >= 0).all()


def test_few_rows_of_a_class_move_weight_from_label_shift_to_the_confidence() -> None:
    many, few = (
        regime_weights(0.7, 0.5, misfit=0, auc_error=0.01, class_rows=rows) for rows in (100, 25)
    )
    assert few[1] == pytest.approx(many[1] / 4)
    assert few[2] == many[2]
    assert few[0] == pytest.approx(many[0] + many[1] - few[1])


def test_standard_error_of_the_auroc_matches_random_scores() -> None:
    rng = np.random.default_rng(0)
    is_target = np.arange(130) >= 80
    areas = [roc_auc_score(is_target, rng.random(130)) for _ in range(1000)]
    # The standard error of a standard deviation from 1,000 values is 2.2 %.
    assert auc_standard_error(80, 50) == pytest.approx(np.std(areas), rel=0.07)


# Regimes ----------------------------------------------------------------------------------------


def test_without_shift_the_estimate_is_the_mean_confidence() -> None:
    weights = []
    for seed in range(9):
        source, target = gaussian_rows(4000, seed), gaussian_rows(4000, seed + 100)
        result = MEMBER.estimate(source, target.without_labels())
        confidence = AverageConfidence().estimate(source, target).value
        weights.append(result.facts["weight_confidence"])
        assert result.value == pytest.approx(confidence, abs=0.002)
        # Three standard errors of an accuracy of 80 % on 4,000 rows are 0.019.
        assert result.value == pytest.approx(target.correct.mean(), abs=0.019)
    assert np.median(weights) > 0.95


def test_label_shift_gives_the_adjusted_confidence() -> None:
    source = gaussian_rows(5000, 1)
    target = gaussian_rows(5000, 2, (0.8, 0.1, 0.1))
    result = MEMBER.estimate(source, target.without_labels())
    truth = float(target.correct.mean())
    facts = result.facts
    assert facts["weight_label_shift"] > 0.95
    assert facts["weight_transport"] < 0.02
    assert facts["confidence_after_label_shift"] == pytest.approx(truth, abs=0.012)
    gap = abs(facts["confidence"] - facts["confidence_after_label_shift"])
    assert abs(result.value - facts["confidence_after_label_shift"]) < 0.05 * gap + 0.002
    assert abs(result.value - truth) < 0.5 * abs(COT().estimate(source, target).value - truth)


def test_adjusted_confidence_of_the_true_class_frequencies_is_calibrated() -> None:
    target = gaussian_rows(20_000, 3, (0.9, 0.05, 0.05))
    adjusted = regime_weighting.adjusted_confidence(
        target.probs, target.classes, np.array([0.9, 0.05, 0.05]), np.array(EQUAL)
    )
    # Three standard errors of an accuracy of 72 % on 20,000 rows are 0.0095.
    assert adjusted.mean() == pytest.approx(target.correct.mean(), abs=0.0095)
    assert target.confidence.mean() - target.correct.mean() > 2 * 0.0095


def test_confusion_of_classes_gives_the_transport_estimate() -> None:
    """The offset makes one class more frequent among the predictions, not among the labels.

    With an offset of 1.5, other class frequencies explain much of the change of the outputs. With 3,
    they do not.
    """
    source, target = gaussian_rows(4000, 1), gaussian_rows(4000, 2, offset=3.0)
    result = MEMBER.estimate(source, target.without_labels())
    truth, confidence = float(target.correct.mean()), result.facts["confidence"]
    transported = COT().estimate(source, target).value
    assert result.facts["weight_transport"] > 0.95
    assert confidence - transported > 0.05
    # COT is corrected by its expected error without shift.
    assert result.value == pytest.approx(transported, abs=0.01)
    assert abs(result.value - truth) < 0.6 * abs(confidence - truth)


def subgroup(n: int, seed: int) -> Predictions:
    """Return rows of two classes whose scores are calibrated, from inputs unlike the source's."""
    rng = np.random.default_rng(seed)
    positive = rng.beta(1.0, 6.0, n)
    labels = (rng.random(n) < positive).astype(np.int64)
    return Predictions.from_probs(np.stack([1 - positive, positive], axis=1), labels=labels)


def test_calibrated_subgroup_of_a_table_gives_the_mean_confidence() -> None:
    """The share of positives falls from 50 to 14 %, but not by label shift."""
    rng = np.random.default_rng(0)
    positive = rng.beta(0.5, 0.5, 5000)
    source = Predictions.from_probs(
        np.stack([1 - positive, positive], axis=1), labels=(rng.random(5000) < positive) * 1
    )
    target = subgroup(3000, 1)
    result = MEMBER.estimate(source, target.without_labels())
    truth = float(target.correct.mean())
    facts = result.facts
    assert facts["regime_auc_deviations"] > 10
    assert facts["label_shift_misfit"] > 20
    assert facts["weight_label_shift"] < 0.01
    assert result.value == pytest.approx(facts["confidence"], abs=1e-3)
    assert result.value == pytest.approx(truth, abs=0.02)
    assert abs(facts["confidence_after_label_shift"] - truth) > 0.03


def test_with_two_classes_transport_is_not_used() -> None:
    source = subgroup(500, 1)
    _, total = summary_of(source, subgroup(400, 2))
    assert total.transport is None
    assert total.weights[2] == 0
    assert total.values[2] == total.values[0]


@pytest.mark.parametrize("seed", range(5))
def test_misfit_of_label_shift_is_small_under_label_shift(seed: int) -> None:
    _, total = summary_of(
        gaussian_rows(3000, seed), gaussian_rows(2000, seed + 50, (0.7, 0.2, 0.1))
    )
    assert abs(total.misfit) < 5


def test_corrected_transport_is_never_above_the_mean_confidence() -> None:
    for seed in range(5):
        _, total = summary_of(gaussian_rows(200, seed), gaussian_rows(150, seed + 10))
        assert total.transport is not None
        assert total.values[2] <= total.values[0]
        unlimited = 1 - total.transport.transport.cost - total.transport.bias
        assert total.values[2] == min(unlimited, total.values[0])


def test_bias_of_transport_does_not_depend_on_the_order_of_classes() -> None:
    rng = np.random.default_rng(0)
    probs, counts = rng.dirichlet(np.full(5, 0.5), size=300), np.array([60, 20, 90, 20, 10])
    for _ in range(5):
        order = rng.permutation(5)
        permuted = transport_bias(probs[:, order], counts[order])
        assert permuted == pytest.approx(transport_bias(probs, counts), abs=1e-12)


# Special inputs ---------------------------------------------------------------------------------


def test_with_decisions_the_confidence_replaces_the_transport() -> None:
    source, target = gaussian_rows(800, 1), gaussian_rows(600, 2, offset=1.5)
    decided = [
        Predictions.from_probs(
            rows.probs, labels=rows.labels, decisions=np.where(rows.probs[:, 0] > 0.2, 0, 1)
        )
        for rows in (source, target)
    ]
    learned, total = summary_of(decided[0], decided[1])
    confidence = decided[1].probs[np.arange(600), decided[1].classes].mean()
    assert total.transport is None
    assert total.values[[0, 2]] == pytest.approx([confidence, confidence], abs=1e-9)
    assert total.value < MEMBER.estimate(source, target).facts["confidence"]
    replicates = MEMBER.resample(learned, total, rng_for(0, "decisions"), 200)
    assert replicates.std() > 0
    values = MEMBER.row_values(learned, total, decided[1])
    assert values.mean() == pytest.approx(total.value, abs=1e-6)


def test_class_without_source_rows_has_ratio_zero_and_a_finite_estimate() -> None:
    source = gaussian_rows(600, 1, (0.5, 0.5, 0.0))
    target = gaussian_rows(500, 2)
    assert (source_labels(source) < 2).all()
    learned, total = summary_of(source, target)
    assert total.shares[2] == 0.0
    assert class_ratios(total.shares, learned.prior)[2] == 0.0
    # The smallest class of the source has no row, so label shift has no weight.
    assert total.weights[1] == 0.0
    assert 0 < total.value < 1
    assert np.isfinite(MEMBER.resample(learned, total, rng_for(0, "missing"), 50)).all()
    assert np.isfinite(MEMBER.row_values(learned, total, target)).all()


def test_source_of_one_class_is_not_applicable() -> None:
    rows = gaussian_rows(100, 1)
    single = replace(rows, labels=np.zeros(100, dtype=np.int64))
    with pytest.raises(NotApplicable, match="labels of one class only"):
        MEMBER.estimate(single, rows)


@pytest.mark.parametrize("others", [0, 1])
def test_source_without_errors_gives_a_valid_estimate(others: int) -> None:
    rows = gaussian_rows(300, 1, others=others)
    perfect = replace(rows, labels=rows.classes.astype(np.int64))
    target = gaussian_rows(200, 2, others=others)
    assert perfect.correct.all()
    learned, total = summary_of(perfect, target)
    if others:
        # All source rows are correct, so the regression predicts that all target rows are.
        assert total.correctness == pytest.approx(1.0, abs=1e-3)
        assert total.value == pytest.approx(
            float(total.weights @ total.values) / math.sqrt(total.values[0]), rel=1e-3
        )
    replicates = MEMBER.resample(learned, total, rng_for(0, "perfect"), 100)
    assert np.isfinite(replicates).all()
    assert replicates.std() < 0.1


def test_estimate_from_a_file_equals_that_in_memory(tmp_path: Path) -> None:
    source, target = gaussian_rows(400, 1), gaussian_rows(300, 2, (0.6, 0.3, 0.1))
    for name, rows in (("source", source), ("target", target)):
        columns: dict[str, Any] = {f"prob_{j}": rows.probs[:, j] for j in range(3)}
        if name == "source":
            columns["label"] = source_labels(rows)
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=50)
    shown = run_json(
        tmp_path, "estimate", "source.parquet", "target.parquet", "--method", "regime", "--stream"
    )
    expected = oodometer.estimate(source, target.without_labels(), methods="regime")["regime"]
    assert [each["method"] for each in shown["estimates"]] == ["regime"]
    assert shown["estimates"][0]["value"] == pytest.approx(expected.value, abs=1e-6)
    assert shown["estimates"][0]["low"] == pytest.approx(expected.low, abs=1e-6)


# Bootstrap and contributions of rows ------------------------------------------------------------


def with_weights(total: RegimeSummary, weights: Floats) -> float:
    """Return the value with given weights of the regimes, which the bootstrap does not resample."""
    return replace(total, weights=weights).value


@pytest.mark.parametrize("sizes", [(500, 400), (250, 2500), (2500, 250)])
@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("shift", ["no shift", "label shift", "other shift"])
def test_deviation_matches_a_bootstrap_of_rows(
    shift: str, others: int, sizes: tuple[int, int]
) -> None:
    source = gaussian_rows(sizes[0], 1, others=others)
    target = gaussian_rows(sizes[1], 2, others=others, **SHIFTS[shift])  # type: ignore[arg-type]
    learned, total = summary_of(source, target)
    fast = MEMBER.resample(learned, total, rng_for(1, "fast"), 1000)
    rng = rng_for(2, "naive")
    naive = []
    for _ in range(120):
        drawn = source.rows(rng.integers(source.n, size=source.n))
        rows = target.rows(rng.integers(target.n, size=target.n))
        naive.append(with_weights(summary_of(drawn, rows)[1], total.weights))
    # The standard error of a standard deviation from 120 replicates is 6.5 %.
    assert fast.std() == pytest.approx(np.std(naive), rel=0.25)
    # Replicates have a bias, because the estimate is not linear in the class frequencies. The mean of
    # 120 replicates has a standard error of 0.09 standard deviations.
    assert fast.mean() == pytest.approx(np.mean(naive), abs=0.3 * float(fast.std()))


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("shift", ["label shift", "other shift"])
def test_contributions_of_rows_match_leaving_rows_out(shift: str, others: int) -> None:
    source = gaussian_rows(600, 1, others=others)
    target = gaussian_rows(400, 2, others=others, **SHIFTS[shift])  # type: ignore[arg-type]
    learned, total = summary_of(source, target)
    assert total.transport is not None
    values = MEMBER.row_values(learned, total, target)
    chosen = np.arange(0, target.n, 10)
    whole = replace(total, values=np.array([*total.values[:2], 1 - total.transport.transport.cost]))
    influence = []
    for row in chosen:
        rest = MEMBER.summarize(learned, target.rows(np.arange(target.n) != row))
        assert rest.transport is not None
        # The expected error of COT is not a contribution of rows.
        transported = 1 - rest.transport.transport.cost
        same = replace(
            rest,
            weights=total.weights,
            values=np.array([*rest.values[:2], transported]),
        )
        influence.append((target.n - 1) * (whole.value - same.value))
    centered = values[chosen] - values.mean()
    slope, _ = np.polyfit(influence, centered, 1)
    assert np.corrcoef(influence, centered)[0, 1] > 0.97
    assert slope == pytest.approx(1.0, abs=0.1)


# Other models -----------------------------------------------------------------------------------


def test_correction_by_other_models_is_the_root_of_the_ratio() -> None:
    source, target = gaussian_rows(500, 1, others=2), gaussian_rows(400, 2, noise=1.5, others=2)
    alone = MEMBER.estimate(replace(source, other_models=()), replace(target, other_models=()))
    both = MEMBER.estimate(source, target)
    expected = naive_correctness(source, target)
    assert both.facts["correctness_given_other_models"] == pytest.approx(expected, abs=1e-5)
    factor = math.sqrt(expected / alone.facts["confidence"])
    assert abs(factor - 1) > 0.01
    assert both.value == pytest.approx(alone.value * factor, abs=1e-6)
    assert "correctness_given_other_models" not in alone.facts


def test_other_models_lower_the_error_if_they_tell_more_than_the_confidence() -> None:
    source, target = independent_views(3000, 1, 1.0), independent_views(3000, 2, 2.0)
    truth = float(target.correct.mean())
    alone = MEMBER.estimate(replace(source, other_models=()), replace(target, other_models=()))
    both = MEMBER.estimate(source, target)
    assert abs(both.value - truth) < 0.8 * abs(alone.value - truth)


def test_models_with_classes_only_count_as_agreement() -> None:
    source, target = gaussian_rows(500, 1, others=2), gaussian_rows(400, 2, noise=1.5, others=2)

    def with_hard_model(rows: Predictions) -> Predictions:
        first, second = rows.other_models
        return rows.with_other_models(first, Predictions.from_classes(second.classes, k=3))

    hard = [with_hard_model(rows) for rows in (source, target)]
    result = MEMBER.estimate(hard[0], hard[1])
    expected = naive_correctness(hard[0], hard[1])
    assert result.facts["correctness_given_other_models"] == pytest.approx(expected, abs=1e-5)
    soft = MEMBER.estimate(source, target).facts["correctness_given_other_models"]
    assert abs(expected - soft) > 1e-4


def test_other_models_on_one_side_only_are_not_used() -> None:
    source, target = toy_pair()
    plain = replace(source, other_models=())
    expected = MEMBER.estimate(plain, replace(target, other_models=())).value
    assert MEMBER.estimate(plain, target).value == expected
    assert MEMBER.estimate(source, replace(target, other_models=())).value == expected


def test_standard_error_of_the_correctness_matches_refitted_regressions() -> None:
    source, target = gaussian_rows(300, 1, others=2), gaussian_rows(2000, 2, noise=1.4, others=2)
    _, total = summary_of(source, target)
    rng = rng_for(3, "refit")
    refitted = [
        MEMBER.summarize(
            MEMBER.learn(source.rows(rng.integers(source.n, size=source.n))), target
        ).correctness
        for _ in range(150)
    ]
    assert total.correctness_error == pytest.approx(np.std(np.array(refitted, float)), rel=0.25)
