"""Weighted e-detector: a sequential test that the mean of a bounded score fell below a level.

An e-detector (Shin, Ramdas & Rinaldo, 2024) bets against the hypothesis "the mean is at least m0",
starting again at every batch. One number per alternative q is the state:

    A_q ← (A_q + w_t) · LR_q(batch t),   w_t = 1 / (t (t + 1))
    M_t = mean_q A_q + 1 − Σ_{s ≤ t} w_s = mean_q A_q + 1 / (t + 1)

Under the hypothesis, M is a non-negative martingale (at m0) or supermartingale with mean 1, so by
Ville's inequality the probability that M ever reaches 1/α is at most α, however often one looks. The
delay after a change does not grow with the quiet time before it.

The row form is exact for independent rows and scores of 0 or 1: LR_q = (q/m0)^k ((1−q)/(1−m0))^(n−k)
for k scores of 1 in n rows. The batch form is asymptotic and remains valid if the rows of a batch
depend on each other: LR_g = exp(g z − g²/2) with z = (m0 − mean)/s, where s is the standard deviation
between earlier batch means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, out_of_range

DetectorForm = Literal["batch", "row"]
# Alternatives of the row form: m0 − q, geometric. Those of at least 0.99 m0 are left out.
N_ROW_ALTERNATIVES = 24
ROW_ALTERNATIVES = (0.002, 0.3)
# Alternatives of the batch form: the fall g in standard deviations between batches, geometric.
N_BATCH_ALTERNATIVES = 16
BATCH_ALTERNATIVES = (0.1, 6.0)
# Batches whose means are only used to learn how much batches vary.
BURN_IN_BATCHES = 10
# Smaller batches are pooled with the next one, because their mean is far from normal.
MIN_BATCH_ROWS = 30


@dataclass(frozen=True, kw_only=True)
class DetectorSettings:
    """Frozen settings of an e-detector.

    Parameters
    ----------
    level : float
        Mean m0 of the hypothesis, between 0 and 1.
    alpha : float
        Probability of ever raising a false alarm, over all runs of the detector.
    form : {"batch", "row"}
        Form of the likelihood ratio; see the module.
    row_variance : float
        Variance of the score of a row; the standard deviation of a batch mean is at least the one
        that follows from it. By default m0 (1 − m0), the largest possible one.
    burn_in : int
        Number of batches of the batch form before the first bet.
    min_rows : int
        Batches with fewer rows are pooled with the next one (batch form).

    Raises
    ------
    InputError
        If `level` or `alpha` is not between 0 and 1, or `form` is unknown.

    Examples
    --------
    >>> settings = DetectorSettings(level=0.5, alpha=0.05, form="row")
    >>> state = DetectorState.start(settings)
    >>> state = update(settings, state, n=100, total=50.0)
    >>> state.is_alarm, update(settings, state, n=100, total=20.0).is_alarm
    (False, True)
    """

    level: float
    alpha: float
    form: DetectorForm = "batch"
    row_variance: float | None = None
    burn_in: int = BURN_IN_BATCHES
    min_rows: int = MIN_BATCH_ROWS

    def __post_init__(self) -> None:
        for name in ("level", "alpha"):
            if not 0 < getattr(self, name) < 1:
                raise out_of_range(name, getattr(self, name), above=0, below=1)
        if self.form not in get_args(DetectorForm):
            raise InputError(f"form must be 'batch' or 'row'; got {self.form!r}.")

    @property
    def alternatives(self) -> Floats:
        """Return the values of q (row form) or of g (batch form)."""
        if self.form == "batch":
            return np.geomspace(*BATCH_ALTERNATIVES, N_BATCH_ALTERNATIVES)
        falls = np.geomspace(*ROW_ALTERNATIVES, N_ROW_ALTERNATIVES)
        falls = falls[falls < 0.99 * self.level]
        # A level below 0.002 leaves no alternative; half of it is one.
        return np.asarray(self.level - falls if len(falls) else [self.level / 2])

    def run_alpha(self, run: int) -> float:
        """Return the share α / (k (k + 1)) of the k-th run; the shares sum to α."""
        return self.alpha / (run * (run + 1))

    def deviation(self, n: int, between: float) -> float:
        """Return the standard deviation of a batch mean, at least the one of independent rows."""
        variance = self.level * (1 - self.level)
        if self.row_variance is not None:
            variance = self.row_variance
        return max(between, math.sqrt(variance / n), 1e-12)


@dataclass(frozen=True)
class DetectorState:
    """State of an e-detector, whose size does not depend on the number of batches.

    `run` counts the runs from 1, `n_bets` the bets of this run (t). `log_wealth` has log A of each
    alternative, None if A is 0. `n_batches`, `mean` and `squares` are the number, the mean and the sum
    of squared deviations of the batch means so far. `pooled_rows` and `pooled_total` are rows that
    wait for the next batch. `log_evidence` is log M, and `is_alarm` whether M has reached 1/α in
    this run.
    """

    run: int
    log_wealth: tuple[float | None, ...]
    n_bets: int = 0
    n_batches: int = 0
    mean: float = 0.0
    squares: float = 0.0
    pooled_rows: int = 0
    pooled_total: float = 0.0
    log_evidence: float = 0.0
    is_alarm: bool = False

    @classmethod
    def start(cls, settings: DetectorSettings) -> DetectorState:
        """Return the state before the first batch."""
        return cls(1, (None,) * len(settings.alternatives))

    @property
    def evidence(self) -> float:
        """Return M, at most the largest floating-point number."""
        return math.exp(min(self.log_evidence, 709.0))

    @property
    def between(self) -> float:
        """Return the standard deviation between batch means; 0 if there are fewer than two."""
        return math.sqrt(self.squares / (self.n_batches - 1)) if self.n_batches > 1 else 0.0


def update(
    settings: DetectorSettings, state: DetectorState, *, n: int, total: float
) -> DetectorState:
    """Return the state after a batch of `n` rows whose scores sum to `total`."""
    if n <= 0:
        return state
    if settings.form == "row":
        return _bet(settings, state, _row_ratios(settings, n, total))
    n, total = n + state.pooled_rows, total + state.pooled_total
    if n < settings.min_rows:
        return replace(state, pooled_rows=n, pooled_total=total)
    state = replace(state, pooled_rows=0, pooled_total=0.0)
    if state.n_batches >= settings.burn_in:
        z = (settings.level - total / n) / settings.deviation(n, state.between)
        state = _bet(settings, state, settings.alternatives * z - settings.alternatives**2 / 2)
    return _observe(state, total / n)


def restart(settings: DetectorSettings, state: DetectorState) -> DetectorState:
    """Return the state of the next run, after an alarm was acknowledged.

    The variation between batches and pooled rows are kept.
    """
    return replace(
        state,
        run=state.run + 1,
        log_wealth=(None,) * len(settings.alternatives),
        n_bets=0,
        log_evidence=0.0,
        is_alarm=False,
    )


def _row_ratios(settings: DetectorSettings, n: int, total: float) -> Floats:
    """Return the log-likelihood ratios of n scores of 0 or 1 with a given sum."""
    q, level = settings.alternatives, settings.level
    return np.asarray(total * np.log(q / level) + (n - total) * np.log((1 - q) / (1 - level)))


def _bet(settings: DetectorSettings, state: DetectorState, log_ratios: Floats) -> DetectorState:
    """Return the state after a bet; all sums are those of logarithms, which cannot overflow."""
    t = state.n_bets + 1
    wealth = np.array([-np.inf if value is None else value for value in state.log_wealth])
    wealth = np.logaddexp(wealth, -math.log(t * (t + 1))) + log_ratios
    mean_wealth = float(np.logaddexp.reduce(wealth)) - math.log(len(wealth))
    evidence = float(np.logaddexp(mean_wealth, -math.log(t + 1)))
    reached = evidence >= -math.log(settings.run_alpha(state.run))
    return replace(
        state,
        n_bets=t,
        log_wealth=tuple(wealth.tolist()),
        log_evidence=evidence,
        is_alarm=state.is_alarm or reached,
    )


def _observe(state: DetectorState, batch_mean: float) -> DetectorState:
    """Return the state with one more batch mean (Welford's recursion)."""
    n = state.n_batches + 1
    change = batch_mean - state.mean
    mean = state.mean + change / n
    squares = state.squares + change * (batch_mean - mean)
    return replace(state, n_batches=n, mean=mean, squares=squares)
