"""BBSE and MLLS on features, for generalized label shift (Garg et al., ICLR 2022, App. B).

Label shift assumes that p(x|y) is unchanged. Generalized label shift (Tachet des Combes et al.,
NeurIPS 2020) assumes this only for features h(x) that contain all information about the label:
p(h|y) is unchanged, while p(x|h) may change. The class frequencies q of the target are then
estimated from h(x) instead of from the outputs of the model. A softmax regression from features to
labels, fitted on one half of the source, serves as p_s(y|h). The other half gives its confusion
matrix (BBSE) or its temperature (MLLS). The estimated accuracy is Σ_y q_y · recall_y as before, with
the recalls of the model on the whole source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Floats, Ints
from oodometer.core.calibration import fit_temperature
from oodometer.core.errors import NotApplicable
from oodometer.core.inputs import hash_rows
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, bootstrap_normal_approx
from oodometer.estimators.label_shift import (
    MAX_BOOTSTRAP_CELLS,
    MIN_BOOTSTRAP_MATRICES,
    MLLS,
    LabelShiftSummary,
    bbse_estimate,
    condition_number,
    replicate_chunks,
    require_labels,
    ridge_for,
    solve_class_shares,
    weighted_recall,
)

# Maximum number of source rows that the softmax regression is fitted on.
MAX_FIT_ROWS = 10_000
# Logit of classes that do not occur among the rows of the fit; their probability rounds to 0.
ABSENT_LOGIT = -1e4
ASSUMES = (
    "generalized label shift: class frequencies changed, p(h|y) of the features h and the recall "
    "of each class did not"
)
PAPER = "Garg et al., ICLR 2022"


@dataclass(frozen=True, eq=False)
class FeatureClassifier:
    """Softmax regression from features to classes, p_s(y|h)."""

    mean: Floats
    deviation: Floats
    coefficients: Floats
    intercepts: Floats
    temperature: float = 1.0

    def classify(self, rows: Predictions) -> Predictions:
        """Return the class probabilities given the features of each row, without labels."""
        features = require_features(rows)
        validation.check_same_feature_count(self.mean[None, :], features)
        standardized = (features.astype(np.float64) - self.mean) / self.deviation
        logits = standardized @ self.coefficients + self.intercepts
        return Predictions.from_logits(logits).at_temperature(self.temperature)


def require_features(rows: Predictions) -> Floats:
    """Return the features of each row; raise NotApplicable if there are none."""
    if rows.features is None:
        raise NotApplicable(
            "it requires features of source and target, which only .npz files that are read as a "
            "whole and Predictions contain"
        )
    return rows.features


def fit_feature_classifier(rows: Predictions) -> FeatureClassifier:
    """Fit the softmax regression with an L2 penalty on standardized features."""
    from sklearn.linear_model import LogisticRegression

    labels = require_labels(rows)
    features = require_features(rows).astype(np.float64)
    if len(np.unique(labels)) < 2:
        raise NotApplicable(
            "one half of the source has labels of one class only; label shift requires at least two"
        )
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation = np.where(deviation > 1e-12, deviation, 1.0)
    regression = LogisticRegression(tol=1e-8, max_iter=1000)
    regression.fit((features - mean) / deviation, labels)
    weights = np.vstack([regression.coef_.T, regression.intercept_])
    if len(regression.classes_) == 2:  # scikit-learn returns the difference of the two logits
        weights = np.hstack([-weights / 2, weights / 2])
    every = np.zeros((len(weights), rows.k))
    every[-1] = ABSENT_LOGIT
    every[:, regression.classes_] = weights
    return FeatureClassifier(mean, deviation, every[:-1], every[-1])


def split_halves(source: Predictions) -> tuple[Ints, Ints]:
    """Return the rows of the fit and the held-out rows.

    The rows are sorted by a hash of their content and dealt alternately to the two halves, so that
    the split does not depend on the order of the rows.
    """
    content = np.column_stack([require_features(source).astype(np.float64), source.correct])
    order = np.lexsort((require_labels(source), hash_rows(content)))
    fitted = order[::2][:MAX_FIT_ROWS]
    return fitted, np.setdiff1d(order, fitted)


@dataclass(frozen=True, eq=False)
class FeatureShiftSource:
    """Classifier of features with the counts of source rows that the estimates depend on.

    `held_out` has shape (k, k, 2): numbers of held-out rows by the class that the classifier of
    features predicts, by label, and by whether the model itself is wrong or correct. `fitted` has
    shape (k, 2): numbers of wrong and correct rows per label among the rows of the fit.
    """

    classifier: FeatureClassifier
    held_out: Ints
    fitted: Ints

    @property
    def confusion(self) -> Ints:
        return np.asarray(self.held_out.sum(axis=2))

    @property
    def rows(self) -> Ints:
        """Numbers of wrong and correct source rows per label, (k, 2)."""
        return np.asarray(self.held_out.sum(axis=0) + self.fitted)


def learn_from_features(source: Predictions) -> FeatureShiftSource:
    """Fit and calibrate the classifier of features, once for BBSE and MLLS."""

    def learn() -> FeatureShiftSource:
        labels, k = require_labels(source).astype(np.int64), source.k
        fitted, held_out = split_halves(source)
        if not len(held_out):
            raise NotApplicable("it requires at least two source rows")
        classifier = _calibrate(fit_feature_classifier(source.rows(fitted)), source.rows(held_out))
        predicted = classifier.classify(source.rows(held_out)).classes.astype(np.int64)
        cells = (predicted * k + labels[held_out]) * 2 + source.correct[held_out]
        own_cells = labels[fitted] * 2 + source.correct[fitted]
        return FeatureShiftSource(
            classifier,
            np.bincount(cells, minlength=2 * k * k).reshape(k, k, 2),
            np.bincount(own_cells, minlength=2 * k).reshape(k, 2),
        )

    return source.cached("label shift on features", learn)


def _calibrate(classifier: FeatureClassifier, held_out: Predictions) -> FeatureClassifier:
    """Return the classifier at the temperature that fits the held-out labels best."""
    labels = require_labels(held_out)
    known = np.flatnonzero(classifier.intercepts[labels] > ABSENT_LOGIT / 2)
    if not len(known):
        return classifier
    outputs = classifier.classify(held_out).rows(known)
    assert outputs.scores is not None
    fit = fit_temperature(Predictions.from_logits(outputs.scores, labels=labels[known]))
    return replace(classifier, temperature=fit.value)


@dataclass(frozen=True)
class BBSEOnFeatures(StreamingEstimator[FeatureShiftSource, Ints]):
    """BBSE on features, ``Σ_y q_y · recall_s(y)``.

    The class frequencies q of the target solve ``C q = μ``, as in `BBSE`. Here C and μ belong to a
    softmax regression from features to labels instead of to the model itself.

    Examples
    --------
    >>> features = [[-2.0], [-1.0], [1.0], [2.0], [-1.5], [1.5], [-1.2], [1.2]]
    >>> source = Predictions.from_classes([0, 0, 1, 1, 0, 1, 0, 0], k=2, labels=[0, 0, 1, 1, 0, 1, 0, 1])
    >>> from dataclasses import replace
    >>> source = replace(source, features=np.array(features))
    >>> target = source.rows([0, 1, 4, 2])
    >>> round(BBSEOnFeatures().estimate(source, target).value, 4)
    0.9375
    """

    name: ClassVar[str] = "bbse-features"
    assumes: ClassVar[str] = ASSUMES
    needs: ClassVar[tuple[str, ...]] = ("features", "classes", "source labels")
    paper: ClassVar[str] = PAPER

    def learn(self, source: Predictions) -> FeatureShiftSource:
        """Fit the classifier of features, and count the held-out rows that it confuses."""
        return learn_from_features(source)

    def summarize(self, learned: FeatureShiftSource, batch: Predictions) -> Ints:
        """Return the number of rows per class that the classifier of features predicts."""
        return learned.classifier.classify(batch).class_counts

    def finish(self, learned: FeatureShiftSource, total: Ints) -> Estimate:
        """Return the mean recall, weighted by the estimated class frequencies."""
        return bbse_estimate(learned.confusion, learned.rows, total)

    def resample(
        self, learned: FeatureShiftSource, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample source and target rows, and solve for q again; the classifier is kept.

        With many classes, only some replicates are computed like this. All further replicates are
        drawn from a normal distribution that is fitted to them.
        """
        n_solved = max(MAX_BOOTSTRAP_CELLS // learned.held_out.size, MIN_BOOTSTRAP_MATRICES)
        return bootstrap_normal_approx(
            lambda size: self._resample_exactly(learned, total, rng, size), rng, count, n_solved
        )

    def _resample_exactly(
        self, learned: FeatureShiftSource, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        ridge = ridge_for(condition_number(learned.confusion))
        values = np.empty(count)
        for chunk in replicate_chunks(count, learned.held_out.size):
            size = chunk.stop - chunk.start
            held_out = bootstrap_counts(rng, learned.held_out, size)
            rows = held_out.sum(axis=1) + bootstrap_counts(rng, learned.fitted, size)
            target = bootstrap_counts(rng, total, size)
            shares = solve_class_shares(held_out.sum(axis=3), target, ridge)
            values[chunk] = weighted_recall(shares, rows)
        return values


@dataclass(frozen=True)
class MLLSOnFeatures(StreamingEstimator[FeatureShiftSource, LabelShiftSummary]):
    """MLLS on features, ``Σ_y q_y · recall_s(y)``.

    The class frequencies q of the target maximize ``mean_t log Σ_y q_y p_s(y|h) / p_s(y)``, where
    p_s(y|h) is a calibrated softmax regression from features to labels.

    Parameters
    ----------
    max_iterations : int
        Maximum number of EM iterations.

    Raises
    ------
    InputError
        If `max_iterations` is below 1.

    Examples
    --------
    >>> from oodometer.testing import toy_pair
    >>> source, target = toy_pair()
    >>> 0.8 < MLLSOnFeatures().estimate(source, target).value < 1
    True
    """

    max_iterations: int = 1000

    name: ClassVar[str] = "mlls-features"
    assumes: ClassVar[str] = ASSUMES
    needs: ClassVar[tuple[str, ...]] = ("features", "classes", "source labels")
    paper: ClassVar[str] = PAPER
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        MLLS(self.max_iterations)  # raise if the setting is out of range

    @property
    def _mlls(self) -> MLLS:
        return MLLS(self.max_iterations)

    def learn(self, source: Predictions) -> FeatureShiftSource:
        """Fit the classifier of features on one half of the source, and calibrate it on the other."""
        return learn_from_features(source)

    def summarize(self, learned: FeatureShiftSource, batch: Predictions) -> LabelShiftSummary:
        """Return the class frequencies of the whole target."""
        return self._mlls.summarize(learned.rows, learned.classifier.classify(batch))

    def finish(self, learned: FeatureShiftSource, total: LabelShiftSummary) -> Estimate:
        """Return the mean recall, weighted by the estimated class frequencies."""
        return self._mlls.finish(learned.rows, total)

    def resample(
        self,
        learned: FeatureShiftSource,
        total: LabelShiftSummary,
        rng: np.random.Generator,
        count: int,
    ) -> Floats:
        """Resample the source counts and the target rows, and update the class frequencies."""
        return self._mlls.resample(learned.rows, total, rng, count)
