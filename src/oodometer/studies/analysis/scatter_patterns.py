"""Classify the scatter of OOD against ID accuracy into patterns (Wenzel et al., 2022, App. D).

The paper distinguishes four patterns by eye. Here, the first of these rules that applies determines
the pattern:

1. There is no pattern if there are fewer than 9 models.
2. The pattern is a horizontal line (no generalization) if the spread of OOD accuracies is less than
   a point, and the spread of ID accuracies is at least a point and at least four times as large.
   This holds for any correlation.
3. The pattern is a functional relationship if the rank correlation is at least 0.7 or at most −0.7.
4. There is no pattern if both spreads are less than a point.
5. The pattern is a vertical line (underspecified) if the OOD spread is at least four times the ID
   spread.
6. The pattern is a horizontal line if the ID spread is at least four times the OOD spread.
7. Otherwise, the pattern is a point cloud.

The spread is the standard deviation of a normal distribution with the same quartiles, so a few
models that failed to train hardly change it. If the number of test rows is known, the sampling
variance is subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.correlation_matrix import correlation

PatternName = Literal["functional", "vertical", "horizontal", "cloud"]
# With 9 models, a rank correlation of 0.7 is significant (two-sided, 5%).
MIN_MODELS = 9
# At a correlation of 0.7, the ranks on one domain explain half of the variance on the other.
MIN_STRONG_CORRELATION = 0.7
# One percentage point, which is the standard error of an accuracy of 0.9 on 900 rows.
MIN_SPREAD = 0.01
# Ratio of the larger to the smaller spread. At this ratio, a line deviates by 14° from an axis.
MIN_ASPECT_RATIO = 4.0
# Distance between the quartiles of a standard normal distribution.
NORMAL_INTERQUARTILE_RANGE = 1.3489795003921634


@dataclass(frozen=True)
class ScatterPattern:
    """Pattern of a scatter plot, with the values that determined it.

    `name` is None if there is no pattern; `reason` states why this pattern was chosen. Spreads are
    fractions, and the sampling variance is subtracted from them.
    """

    name: PatternName | None
    reason: str
    models: int
    correlation: float | None
    id_spread: float | None
    ood_spread: float | None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def pattern_from_accuracies(
    id_accuracy: npt.ArrayLike,
    ood_accuracy: npt.ArrayLike,
    *,
    id_rows: npt.ArrayLike | None = None,
    ood_rows: npt.ArrayLike | None = None,
) -> ScatterPattern:
    """Return the pattern of ID and OOD accuracies, given as one value per model; NaN if unknown.

    `id_rows` and `ood_rows` are numbers of test rows, either one number or one number per model.

    >>> equal, different = np.full(10, 0.95), np.linspace(0.3, 0.7, 10)
    >>> pattern_from_accuracies(equal, different).name
    'vertical'
    >>> pattern_from_accuracies(different, equal).name
    'horizontal'
    >>> pattern_from_accuracies(different, different**2).name
    'functional'
    >>> pattern_from_accuracies(different[:5], different[:5]).reason
    '5 models, fewer than 9'
    """
    x = _check_accuracies(id_accuracy, "id_accuracy")
    y = _check_accuracies(ood_accuracy, "ood_accuracy")
    if x.shape != y.shape:
        raise InputError(
            f"There are {len(x)} ID and {len(y)} OOD accuracies; expected one of each per model. "
            "Use NaN where a model has none."
        )
    x_variance = binomial_variance(x, id_rows, "id_rows")
    y_variance = binomial_variance(y, ood_rows, "ood_rows")
    return classify_pattern(x, y, x_variance, y_variance)


def classify_pattern(
    x: Floats, y: Floats, x_variance: Floats, y_variance: Floats
) -> ScatterPattern:
    """Return the pattern of accuracies, given their sampling variances (NaN if unknown)."""
    both = ~(np.isnan(x) | np.isnan(y))
    models = int(both.sum())
    if not models:
        return ScatterPattern(None, f"0 models, fewer than {MIN_MODELS}", 0, None, None, None)
    id_spread = robust_spread(x[both], x_variance[both])
    ood_spread = robust_spread(y[both], y_variance[both])
    rho = correlation(x[both], y[both])
    name, reason = _apply_rules(models, rho or 0.0, id_spread, ood_spread)
    return ScatterPattern(
        name=name,
        reason=reason,
        models=models,
        correlation=rho,
        id_spread=id_spread,
        ood_spread=ood_spread,
    )


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
        (max(id_spread, ood_spread) < MIN_SPREAD, None, f"models hardly differ on both: {spreads}"),
        (ood_spread >= MIN_ASPECT_RATIO * id_spread, "vertical", spreads),
        (id_spread >= MIN_ASPECT_RATIO * ood_spread, "horizontal", spreads),
        (True, "cloud", f"the rank correlation is {rho:.2f}; {spreads}"),
    )
    return next((name, reason) for applies, name, reason in rules if applies)


def robust_spread(values: Floats, sampling_variance: Floats) -> float:
    """Return the standard deviation implied by the quartiles, less the sampling variance.

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
    """Return the sampling variance of accuracies on n rows, p(1 − p)/n; NaN if n is unknown.

    >>> binomial_variance(np.array([0.5, 1.0]), 100).tolist()
    [0.0025, 0.0]
    """
    n = np.broadcast_to(
        np.asarray(np.nan if n_rows is None else n_rows, np.float64), accuracy.shape
    )
    if (n <= 0).any():
        raise InputError(
            f"{parameter_name} must be above 0; got {n[n <= 0][0]:g}. Use NaN if it is unknown."
        )
    return np.asarray(accuracy * (1.0 - accuracy) / n)


def _check_accuracies(values: npt.ArrayLike, parameter_name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    wrong = array[(array < 0) | (array > 1)]
    if wrong.size or array.ndim != 1:
        problem = f"got {wrong[0]:g}" if wrong.size else f"got shape {array.shape}"
        raise InputError(
            f"{parameter_name} must hold one fraction from 0 to 1 per model; {problem}. Divide "
            "percentages by 100."
        )
    return array
