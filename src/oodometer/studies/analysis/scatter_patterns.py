"""ID against OOD accuracy: the pattern of a scatter. Wenzel et al., NeurIPS 2022, Appendix D.

The paper tells four patterns by eye; here they are told by rules, the first that fits:

1. no pattern: fewer than 9 models;
2. horizontal line (no generalization): OOD accuracies spread by less than a point, and ID ones by
   at least a point and four times as much, whatever the correlation;
3. functional relationship: the rank correlation is at least 0.7, or at most −0.7;
4. no pattern: both spread by less than a point;
5. vertical line (underspecified): OOD spreads at least four times as much as ID;
6. horizontal line: ID spreads at least four times as much as OOD;
7. point cloud.

The spread is the standard deviation that a normal distribution of the same quartiles has, so that
a few models that failed to train don't make a line of a point; what chance adds to it is taken
off where the number of test rows is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.studies.analysis.correlation_matrix import correlation

PatternName = Literal["functional", "vertical", "horizontal", "cloud"]
# From so many models on, a rank correlation of 0.7 is beyond chance (two-sided, 5 %).
MIN_MODELS = 9
# Ranks that correlate so share half of their variance.
MIN_STRONG_CORRELATION = 0.7
# One point: what chance makes of accuracies of 0.9 on 900 rows.
MIN_SPREAD = 0.01
# So many times as long as wide: a line that leans by less than 14°.
MIN_ASPECT_RATIO = 4.0
# Between the quartiles of a normal distribution of standard deviation 1.
NORMAL_INTERQUARTILE_RANGE = 1.3489795003921634


@dataclass(frozen=True)
class ScatterPattern:
    """What a scatter looks like, and the figures that decided it.

    `name` is None where there is no pattern; `reason` says why, or by which rule it was told.
    Spreads are fractions, less what chance adds.
    """

    name: PatternName | None
    reason: str
    models: int
    correlation: float | None
    id_spread: float | None
    ood_spread: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dict(vars(self))


def pattern_from_accuracies(
    id_accuracy: npt.ArrayLike,
    ood_accuracy: npt.ArrayLike,
    *,
    id_rows: npt.ArrayLike | None = None,
    ood_rows: npt.ArrayLike | None = None,
) -> ScatterPattern:
    """The pattern of models' accuracies on two domains, one value a model, NaN where unknown.

    `id_rows` and `ood_rows` are how many test rows an accuracy is of: one number, or one a model.

    >>> alike, robust_spread = [0.95] * 10, np.linspace(0.3, 0.7, 10)
    >>> pattern_from_accuracies(alike, robust_spread).name, pattern_from_accuracies(robust_spread, alike).name
    ('vertical', 'horizontal')
    >>> pattern_from_accuracies(robust_spread, robust_spread**2).name, pattern_from_accuracies(robust_spread[:5], robust_spread[:5]).reason
    ('functional', '5 models, fewer than 9')
    """
    x, y = (
        _check_accuracies(id_accuracy, "id_accuracy"),
        _check_accuracies(ood_accuracy, "ood_accuracy"),
    )
    if x.shape != y.shape:
        raise InputError(
            f"There are {len(x)} ID and {len(y)} OOD accuracies; one of each a model was expected. "
            "Put NaN where a model has none."
        )
    return classify_pattern(
        x, y, binomial_variance(x, id_rows, "id_rows"), binomial_variance(y, ood_rows, "ood_rows")
    )


def classify_pattern(
    x: Floats, y: Floats, x_variance: Floats, y_variance: Floats
) -> ScatterPattern:
    """The pattern of accuracies whose variances by chance are given, NaN where not known."""
    both = ~(np.isnan(x) | np.isnan(y))
    models = int(both.sum())
    if not models:
        return ScatterPattern(None, f"0 models, fewer than {MIN_MODELS}", 0, None, None, None)
    across, up = robust_spread(x[both], x_variance[both]), robust_spread(y[both], y_variance[both])
    rho = correlation(x[both], y[both])
    return ScatterPattern(*_apply_rules(models, rho or 0.0, across, up), models, rho, across, up)


def _apply_rules(
    models: int, rho: float, id_spread: float, ood_spread: float
) -> tuple[PatternName | None, str]:
    spreads = f"ID spreads by {100 * id_spread:.1f} points, OOD by {100 * ood_spread:.1f}"
    rules: tuple[tuple[bool, PatternName | None, str], ...] = (
        (models < MIN_MODELS, None, f"{models} models, fewer than {MIN_MODELS}"),
        (
            ood_spread < MIN_SPREAD <= id_spread and id_spread >= MIN_ASPECT_RATIO * ood_spread,
            "horizontal",
            spreads,
        ),
        (abs(rho) >= MIN_STRONG_CORRELATION, "functional", f"the rank correlation is {rho:.2f}"),
        (max(id_spread, ood_spread) < MIN_SPREAD, None, f"models are alike on both: {spreads}"),
        (ood_spread >= MIN_ASPECT_RATIO * id_spread, "vertical", spreads),
        (id_spread >= MIN_ASPECT_RATIO * ood_spread, "horizontal", spreads),
        (True, "cloud", f"the rank correlation is {rho:.2f}; {spreads}"),
    )
    return next((name, reason) for holds, name, reason in rules if holds)


def robust_spread(values: Floats, sampling_variance: Floats) -> float:
    """The standard deviation of a normal distribution with these quartiles, less that of chance.

    >>> round(robust_spread(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.full(5, np.nan)), 4)
    1.4826
    """
    low, high = np.quantile(values, [0.25, 0.75])
    known = sampling_variance[~np.isnan(sampling_variance)]
    noise = known.mean() if len(known) else 0.0
    return math.sqrt(max(((high - low) / NORMAL_INTERQUARTILE_RANGE) ** 2 - noise, 0.0))


def binomial_variance(
    accuracy: Floats, n_rows: npt.ArrayLike | None, parameter_name: str = "rows"
) -> Floats:
    """The variance by chance of accuracies of so many rows, p(1 − p)/n; NaN where not known.

    >>> binomial_variance(np.array([0.5, 1.0]), 100).tolist()
    [0.0025, 0.0]
    """
    n = np.broadcast_to(
        np.asarray(np.nan if n_rows is None else n_rows, np.float64), accuracy.shape
    )
    if (n <= 0).any():
        raise InputError(
            f"{parameter_name} must be above 0; got {n[n <= 0][0]:g}. Put NaN where it is not known."
        )
    return np.asarray(accuracy * (1.0 - accuracy) / n)


def _check_accuracies(values: npt.ArrayLike, parameter_name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    wrong = array[(array < 0) | (array > 1)]
    if wrong.size or array.ndim != 1:
        found = f"{wrong[0]:g} is among them" if wrong.size else f"got the shape {array.shape}"
        raise InputError(
            f"{parameter_name} must be one fraction from 0 to 1 a model; {found}. Divide percent by 100."
        )
    return array
