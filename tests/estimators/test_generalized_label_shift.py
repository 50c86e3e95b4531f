"""BBSE and MLLS on features: simulated generalized label shift and a literal implementation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import oodometer
from oodometer.assessment import EstimateOptions, estimate_files
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.estimators import BBSE, MLLS, BBSEOnFeatures, MLLSOnFeatures
from oodometer.estimators.generalized_label_shift import split_halves
from oodometer.testing import toy_pair, toy_predictions
from tests.support.command_line import run_json

BOTH = (BBSEOnFeatures(), MLLSOnFeatures())
SOURCE_SHARES, TARGET_SHARES = [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]
# Share of rows of each class on which the model predicts another class than the features suggest.
ERROR_RATES = np.array([0.02, 0.05, 0.48])


def generalized(n: int, shares: list[float], wrong_step: int, seed: int) -> Predictions:
    """Return rows x = (h, u, z) with p(h|y) fixed, u uniform, and z equal to `wrong_step`.

    The model predicts the class nearest to h. For some u it predicts another class, which z
    determines. A change of z changes p(x|h) and which class is wrongly predicted, not how often.
    """
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=shares)
    h = rng.normal(size=(n, 3)) + 4.0 * np.eye(3)[labels]
    nearest = h.argmax(axis=1)
    wrong = rng.random(n) < ERROR_RATES[nearest]
    predicted = np.where(wrong, (nearest + wrong_step) % 3, nearest)
    probs = np.where(np.eye(3)[predicted] > 0, 0.8, 0.1)
    return Predictions.from_probs(probs, labels=labels, features=h)


SOURCE = generalized(20_000, SOURCE_SHARES, 1, seed=1)
TARGET = generalized(20_000, TARGET_SHARES, 2, seed=2)


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
def test_estimate_on_features_is_accurate_under_generalized_label_shift(
    member: BBSEOnFeatures,
) -> None:
    result = member.estimate(SOURCE, TARGET.without_labels())
    assert result.value == pytest.approx(TARGET.correct.mean(), abs=0.01)


@pytest.mark.parametrize("member", [BBSE(), MLLS()], ids=lambda m: m.name)
def test_estimate_on_outputs_is_biased_under_generalized_label_shift(member: Estimator) -> None:
    source, target = SOURCE, TARGET
    if isinstance(member, MLLS):  # it needs a calibrated model
        source, target = (calibrated(rows) for rows in (source, target))
    result = member.estimate(source, target.without_labels())
    assert result.value - target.correct.mean() > 0.05


@pytest.mark.parametrize("member", [*BOTH, BBSE(), MLLS()], ids=lambda m: m.name)
def test_all_are_accurate_under_plain_label_shift(member: Estimator) -> None:
    target = generalized(20_000, TARGET_SHARES, 1, seed=2)
    source = SOURCE
    if isinstance(member, MLLS):  # it needs a calibrated model
        source, target = (calibrated(rows) for rows in (source, target))
    result = member.estimate(source, target.without_labels())
    assert result.value == pytest.approx(target.correct.mean(), abs=0.01)


def calibrated(rows: Predictions) -> Predictions:
    """Return the rows with the share of each label among source rows of the predicted class."""
    assert SOURCE.labels is not None
    table = np.zeros((3, 3))
    np.add.at(table, (SOURCE.classes, SOURCE.labels), 1)
    probs = (table / table.sum(axis=1, keepdims=True))[rows.classes]
    return Predictions.from_probs(probs, labels=rows.labels)


def test_bbse_on_features_matches_a_literal_implementation() -> None:
    source, target = toy_pair()
    assert source.features is not None
    assert source.labels is not None
    fitted, held_out = split_halves(source)
    features, labels = np.asarray(source.features), source.labels
    scale = features[fitted].mean(axis=0), features[fitted].std(axis=0)
    regression = LogisticRegression(tol=1e-8, max_iter=1000)
    regression.fit((features[fitted] - scale[0]) / scale[1], labels[fitted])
    joint = np.zeros((4, 4))
    for row in held_out:
        guess = regression.predict(((features[row] - scale[0]) / scale[1])[None])[0]
        joint[guess, labels[row]] += 1
    conditional = joint / joint.sum(axis=0)
    guesses = regression.predict((np.asarray(target.features) - scale[0]) / scale[1])
    rates = np.bincount(guesses, minlength=4) / target.n
    shares = np.maximum(np.linalg.lstsq(conditional, rates, rcond=None)[0], 0)
    recalls = [source.correct[labels == y].mean() for y in range(4)]
    literal = float(shares @ recalls / shares.sum())
    assert BBSEOnFeatures().estimate(source, target).value == pytest.approx(literal, abs=1e-6)


def test_halves_are_disjoint_and_independent_of_the_row_order() -> None:
    source = toy_predictions(101)
    fitted, held_out = split_halves(source)
    assert sorted([*fitted, *held_out]) == list(range(101))
    assert abs(len(fitted) - len(held_out)) <= 1
    order = np.random.default_rng(0).permutation(101)
    shuffled, _ = split_halves(source.rows(order))
    assert set(order[shuffled]) == set(fitted)


def test_rows_with_equal_features_are_divided_between_the_halves() -> None:
    source = replace(toy_predictions(400), features=np.zeros((400, 1)))
    fitted, held_out = split_halves(source)
    assert source.labels is not None
    for half in (fitted, held_out):
        assert len(np.unique(source.labels[half])) == 4


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
def test_replicates_match_estimates_of_resampled_rows(member: BBSEOnFeatures) -> None:
    rows, target = SOURCE.rows(slice(0, 1500)), TARGET.rows(slice(0, 400)).without_labels()
    learned = member.learn(rows)
    rng = np.random.default_rng(0)
    fast = member.resample(learned, member.summarize(learned, target), rng, 400)
    loop = [
        member.estimate(
            rows.rows(rng.integers(rows.n, size=rows.n)),
            target.rows(rng.integers(target.n, size=target.n)),
        ).value
        for _ in range(60)
    ]
    assert fast.std() == pytest.approx(np.std(loop), rel=0.3)


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
def test_not_applicable_without_features(member: BBSEOnFeatures) -> None:
    source, target = toy_pair()
    for pair in (
        (replace(source, features=None), target),
        (source, replace(target, features=None)),
    ):
        with pytest.raises(NotApplicable, match="requires features of source and target"):
            member.estimate(*pair)
    narrow = replace(target, features=np.zeros((target.n, 2)))
    with pytest.raises(InputError, match="The source has 3 features, the target 2"):
        member.estimate(source, narrow)


def test_not_applicable_to_labels_of_a_single_class() -> None:
    rows = toy_predictions(100)
    assert rows.labels is not None
    with pytest.raises(NotApplicable, match="labels of one class only"):
        BBSEOnFeatures().estimate(rows.rows(rows.labels == 0), rows)


def test_class_that_occurs_once_has_an_estimate() -> None:
    rows = toy_predictions(200, 4)
    assert rows.labels is not None
    rare = np.flatnonzero(rows.labels == 3)[:1]
    source = rows.rows(np.concatenate([np.flatnonzero(rows.labels < 3), rare]))
    for member in BOTH:
        assert 0 < member.estimate(source, rows).value <= 1


def test_max_iterations_must_be_positive() -> None:
    with pytest.raises(InputError, match="max_iterations must be at least 1"):
        MLLSOnFeatures(max_iterations=0)


def test_estimate_runs_them_on_request_only() -> None:
    source, target = SOURCE.rows(slice(0, 2000)), TARGET.rows(slice(0, 2000))
    names = ["bbse-features", "mlls-features"]
    result = oodometer.estimate(source, target, methods=names, replicates=50)
    for name in names:
        estimate = result[name]
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.value < estimate.high
    default = oodometer.estimate(source, target, replicates=20)
    assert not set(names) & {*(e.method for e in default.estimates), *default.skipped}


def write_npz(path: Path, rows: Predictions, *, labelled: bool) -> None:
    arrays = {"probs": rows.probs, "features": rows.features}
    np.savez(path, **(arrays | ({"labels": rows.labels} if labelled else {})))  # type: ignore[arg-type]


def test_command_line_reads_features_from_npz(tmp_path: Path) -> None:
    write_npz(tmp_path / "source.npz", SOURCE, labelled=True)
    write_npz(tmp_path / "target.npz", TARGET, labelled=False)
    words = ("--method", "bbse-features,mlls-features,iw", "--replicates", "20")
    result = run_json(tmp_path, "estimate", "source.npz", "target.npz", *words)
    values = {row["method"]: row["value"] for row in result["estimates"]}
    assert values["bbse-features"] == pytest.approx(TARGET.correct.mean(), abs=0.01)
    assert values["mlls-features"] == pytest.approx(TARGET.correct.mean(), abs=0.01)


def test_files_read_in_batches_have_no_features(tmp_path: Path) -> None:
    lines = [f"{p:.2f},{1 - p:.2f},{p < 0.5:d}" for p in np.linspace(0.05, 0.95, 40)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["prob_0,prob_1,label", *lines]) + "\n")
    for name in ("bbse-features", "mlls-features"):
        options = EstimateOptions(methods=name)
        with pytest.raises(NotApplicable, match=f"{name}: it requires features"):
            estimate_files(path, path, options=options)
