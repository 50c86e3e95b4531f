"""Maximum mean discrepancy (MMD) between source and target features.

Vedantam et al., NeurIPS 2021, §7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.stats import Z95, rng_for
from oodometer.measures._mmd_kernels import (
    gaussian_mmd,
    mean_covariance_distance,
    random_feature_mmd,
)
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.model_view import subsample_note

# Maximum absolute value of a feature. The squares of larger values could exceed the float32 range.
MAX_ABS_FEATURE = 1e12
_ASSUMES = "the further target features are from source features, the higher the error"


@dataclass(frozen=True)
class MmdGaussian:
    """Biased MMD² of features with the kernel Σ_γ exp(−γ‖a−b‖²), γ = 0.001, 0.01, …, 1000.

    With kernel k, source features S and target features T, the value is
    mean k(S, S) + mean k(T, T) − 2 mean k(S, T) over all pairs of rows. Its bias is positive and at
    most 7/n for each sample of n rows, even if source and target have the same distribution.
    Therefore compare only values that were computed for equal numbers of rows.

    Parameters
    ----------
    rows : int
        Maximum number of rows of the source and of the target; a random subsample is used if there
        are more.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> MmdGaussian().measure(build_subject(None, rows, rows)).value
    0.0
    """

    rows: int = 5000

    name: ClassVar[str] = "mmd-gaussian"
    label: ClassVar[str] = "MMD-Gaussian"
    needs: ClassVar[tuple[Need, ...]] = ("features",)
    assumes: ClassVar[str] = _ASSUMES
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "kernels"

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise out_of_range("rows", self.rows, low=1)

    def measure(self, subject: Subject) -> Score:
        _checked_features(subject)
        source = subject.reference.subsample(self.rows, "mmd rows")
        target = subject.target.subsample(self.rows, "mmd rows")
        return Score(
            gaussian_mmd(source.features, target.features),
            notes=(
                *subsample_note(source, subject.reference),
                *subsample_note(target, subject.target),
            ),
            facts={"source_rows": source.n, "target_rows": target.n},
        )


@dataclass(frozen=True)
class MmdRandomFeatures:
    """Approximation of MMD-Gaussian on all rows by random Fourier features (Rahimi & Recht, 2007).

    The confidence interval of the score covers the approximation error only. It does not cover the
    sampling error of the rows.

    Parameters
    ----------
    count : int
        Number of random directions.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> MmdRandomFeatures(count=8).measure(build_subject(None, rows, rows)).value
    0.0
    """

    count: int = 1024

    name: ClassVar[str] = "mmd-random-features"
    label: ClassVar[str] = "MMD-Random-Features"
    needs: ClassVar[tuple[Need, ...]] = ("features",)
    assumes: ClassVar[str] = _ASSUMES
    paper: ClassVar[str] = f"Rahimi & Recht, NeurIPS 2007; {VEDANTAM_2021}"
    shared_work_group: ClassVar[str] = "kernels"

    def __post_init__(self) -> None:
        if self.count < 2:
            raise out_of_range("count", self.count, low=2)

    def measure(self, subject: Subject) -> Score:
        rng = rng_for(subject.seed, "mmd random features")
        value, error = random_feature_mmd(*_checked_features(subject), rng=rng, count=self.count)
        return Score(
            value,
            low=max(value - Z95 * error, 0.0),
            high=value + Z95 * error,
            facts={"standard_error": error, "directions": self.count},
        )


@dataclass(frozen=True)
class MmdMeanCov:
    """Distance of means and covariances of the features, ‖μ_S − μ_T‖² + ‖cov_S − cov_T‖_F².

    S is the source and T is the target. The covariance matrices are unbiased estimates.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> source, target = np.array([[-1.0], [1.0]]), np.array([[0.0], [2.0]])
    >>> MmdMeanCov().measure(build_subject(None, source, target)).value
    1.0
    """

    name: ClassVar[str] = "mmd-mean-cov"
    label: ClassVar[str] = "MMD-Mean-Cov"
    needs: ClassVar[tuple[Need, ...]] = ("features",)
    assumes: ClassVar[str] = _ASSUMES
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "kernels"

    def measure(self, subject: Subject) -> Score:
        for view in (subject.reference, subject.target):
            if view.n < 2:
                raise NotApplicable(f"{view.name!r} has a single row; a covariance needs two")
        return Score(mean_covariance_distance(*_checked_features(subject)))


def _checked_features(subject: Subject) -> tuple[Floats, Floats]:
    """Return the features of source and target, or raise if some are too large to be squared."""
    features = subject.features
    largest = max(float(np.abs(side).max(initial=0.0)) for side in features)
    if largest > MAX_ABS_FEATURE:
        raise NotApplicable(
            f"features reach {largest:.1e}; their squares are too large above {MAX_ABS_FEATURE:.0e}"
        )
    return features
