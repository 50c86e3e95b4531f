"""What a monitor learns from the source and stores instead of its rows.

The watched score of a row is ATC's indicator (confidence at or above the threshold; Garg et al.,
ICLR 2022), or the calibrated confidence. Its mean over a batch is the estimated accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from oodometer import estimators as registered
from oodometer.assessment._estimate import validate_target
from oodometer.assessment.bootstrap import (
    EstimatorRun,
    LearnedSource,
    RowMoments,
    count_rarer,
    estimate_interval,
    replace_zeros,
    scale,
)
from oodometer.assessment.learned_reference import LearnedReference
from oodometer.assessment.partial_sums import FittedEstimator
from oodometer.assessment.ppi import BinnedAccuracy
from oodometer.core.array_types import Floats
from oodometer.core.calibration import Calibration, ClassCalibrator
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import rng_for
from oodometer.monitor import learned_codec

ScoreName = Literal["atc", "confidence"]
# Estimator whose row contributions are the watched score.
SCORE_METHODS: dict[str, str] = {"atc": "atc-mc", "confidence": "ac"}
# Estimators whose sums over each batch are stored; those that do not apply are left out.
METHODS = ("ac", "doc", "atc-mc", "atc-ne", "bbse")
PREVIEW_ROWS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedScores:
    """Scaling, calibration and estimators that were learned from a source, without its rows.

    `states` has the learned state of each estimator, `accuracies` the source accuracy by confidence,
    `calibration_variance` the variance of the calibration on the source, and `n_rarer` the number of
    errors of the source, or of correct rows if these are fewer.
    """

    score: ScoreName
    k: int
    class_names: tuple[str, ...] | None
    has_decisions: bool
    temperature: float | None
    zero_replacement: float | None
    calibration_method: str
    calibrator: ClassCalibrator | None
    states: Mapping[str, Any]
    accuracies: BinnedAccuracy
    calibration_variance: float
    n_source: int
    n_rarer: int
    seed: int
    replicates: int

    @classmethod
    def learn(
        cls, learned: LearnedReference, score: ScoreName, *, seed: int, replicates: int
    ) -> LearnedScores:
        """Return what the estimators learned from a source.

        Raises
        ------
        InputError
            If the score is unknown, or does not apply to the source.
        """
        source = learned.source.predictions
        _check_score(score, source)
        preview = source.rows(slice(PREVIEW_ROWS)).without_labels()
        states = {name: _learned_state(learned.runs[name], preview) for name in METHODS}
        calibration = learned.source.calibration
        gaps = calibration.source.correct - calibration.source.confidence
        sampling = float(gaps.var()) / calibration.source.n
        accuracies = learned.source.row_accuracy
        assert accuracies is not None
        return cls(
            score=score,
            k=source.k,
            class_names=source.class_names,
            has_decisions=source.has_decisions,
            temperature=learned.source.temperature,
            zero_replacement=learned.source.zero_replacement,
            calibration_method=calibration.method,
            calibrator=calibration.calibrator,
            states={name: state for name, state in states.items() if state is not NotImplemented},
            accuracies=accuracies,
            calibration_variance=max(sampling, float(gaps.mean()) ** 2),
            n_source=source.n,
            n_rarer=count_rarer(source),
            seed=seed,
            replicates=replicates,
        )

    def class_name(self, number: int) -> str:
        """Return the name of a class, or its number if the classes have no names."""
        return str(number) if self.class_names is None else self.class_names[number]

    # Storage ------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the stored form, which contains no row of the source."""
        return learned_codec.encode({name: getattr(self, name) for name in _FIELDS})

    @classmethod
    def from_bytes(cls, data: bytes) -> LearnedScores:
        """Return the learned state from its stored form."""
        return cls(**learned_codec.decode(data))

    # Scores of rows -----------------------------------------------------------------------------

    @cached_property
    def _placeholder(self) -> Predictions:
        """Return one row with the classes of the source, where a function needs some source."""
        row = Predictions.from_probs(np.full((1, self.k), 1 / self.k), class_names=self.class_names)
        first = [0] if self.class_names is None else [self.class_names[0]]
        return row.with_decisions(np.array(first)) if self.has_decisions else row

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration(self.calibration_method, self.calibrator, self._placeholder)

    @cached_property
    def fitted(self) -> dict[str, FittedEstimator]:
        """Return the estimators with their learned states."""
        calibration = None if self._calibration.is_identity else self._calibration
        return {
            name: FittedEstimator(_estimator(name), state, calibration)
            for name, state in self.states.items()
        }

    def prepare(self, rows: Predictions) -> Predictions:
        """Return the rows of a batch, validated, and scaled as the source was.

        Raises
        ------
        InputError
            If the classes or decisions of the rows do not match the source.
        """
        rows = validate_target(rows, self._placeholder)
        if not rows.has_probs:
            raise InputError("The batch has no probabilities or logits, which the monitor needs.")
        return scale(replace_zeros(rows, self.zero_replacement), self.temperature)

    def scores(self, rows: Predictions) -> Floats:
        """Return the watched score of prepared rows."""
        if self.score == "confidence":
            return self._calibration(rows).confidence.astype(np.float64)
        return np.asarray(rows.confidence >= self.states["atc-mc"].value, dtype=np.float64)

    def expected_correct(self, rows: Predictions) -> Floats:
        """Return the source accuracy in the confidence bin of each prepared row."""
        return self.accuracies(rows.confidence)

    # Estimates from sums ------------------------------------------------------------------------

    def estimates(self, totals: Mapping[str, Any]) -> dict[str, float]:
        """Return the estimates of all methods from their sums over a batch."""
        values = {}
        for name, total in totals.items():
            fitted = self.fitted[name]
            try:
                values[name] = fitted.estimator.finish(fitted.learned_state, total).value
            except NotApplicable:
                continue
        return values

    def estimate(self, totals: Mapping[str, Any], moments: RowMoments, n: int) -> Estimate:
        """Return the estimate of the watched score, with its confidence interval."""
        method = SCORE_METHODS[self.score]
        fitted = self.fitted[method]
        estimator, state, total = fitted.estimator, fitted.learned_state, totals[method]
        value = estimator.finish(state, total).value
        rng = rng_for(self.seed, "bootstrap", method)
        replicates = estimator.resample(state, total, rng, self.replicates)
        low, high = estimate_interval(
            value,
            moments,
            variance=float(np.var(replicates)),
            calibration_variance=self.calibration_variance if self.score == "confidence" else 0.0,
            bias=estimator.bias(state, total, replicates),
            n_source=self.n_source,
            n_rarer=self.n_rarer,
            n_target=n,
        )
        return Estimate(value, method, low=low, high=high, assumes=estimator.assumes)


_FIELDS = tuple(LearnedScores.__dataclass_fields__)


def source_scores(learned: LearnedSource, scores: LearnedScores) -> Floats:
    """Return the watched score of each source row; a fitted calibration is cross-fitted."""
    if scores.score == "confidence" and learned.calibration.source.n == learned.predictions.n:
        return learned.calibration.source.confidence.astype(np.float64)
    return scores.scores(learned.predictions)


def _check_score(score: str, source: Predictions) -> None:
    if score not in get_args(ScoreName):
        raise InputError(f"score must be 'atc' or 'confidence'; got {score!r}.")
    if not source.has_probs:
        raise InputError(
            "A monitor needs probabilities or logits of the source; it has predicted classes only. "
            "Add columns prob_… or logit_…."
        )
    n_errors = int(np.count_nonzero(~source.correct))
    if score == "atc" and n_errors in (0, source.n):
        missing = "errors" if n_errors == 0 else "correct rows"
        raise InputError(
            f"The source has no {missing}, so ATC has no threshold. Use a larger source, or "
            "score='confidence'."
        )


def _estimator(name: str) -> StreamingEstimator[Any, Any]:
    estimator = registered.get(name)
    assert isinstance(estimator, StreamingEstimator)
    return estimator


def _learned_state(run: EstimatorRun, preview: Predictions) -> Any:
    """Return the learned state of an estimator; NotImplemented if it does not apply."""
    try:
        state = run.learned_state
        _estimator(run.estimator.name).summarize(state, run.rows(preview))
    except NotApplicable:
        return NotImplemented
    return state
