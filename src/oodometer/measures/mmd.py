"""Maximum mean discrepancies between the features of source and target. DG §7.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
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

# Squares of larger features are beyond what float32 distances hold.
MAX_ABS_FEATURE = 1e12
_ASSUMES = "a model errs more where its features are unlike those it was trained on"


@dataclass(frozen=True)
class MmdGaussian:
    """Biased MMD² of features with the kernel Σ_γ exp(−γ‖a−b‖²), γ = 0.001, 0.01, …, 1000.

    It takes all pairs of at most `rows` rows a side. Being biased, it is above 0 for two samples
    of one distribution, by up to 7/n for each: compare values of samples of one size.
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
            raise InputError(f"rows must be 1 or more; got {self.rows}. 5000 is usual.")

    def measure(self, subject: Subject) -> Score:
        """mean k(S, S) + mean k(T, T) − 2 mean k(S, T)."""
        _checked_features(subject)
        views = subject.reference, subject.target
        some = [view.subsample(self.rows, "mmd rows") for view in views]
        notes = [note for pair in zip(some, views, strict=True) for note in subsample_note(*pair)]
        return Score(
            gaussian_mmd(some[0].features, some[1].features),
            notes=tuple(notes),
            facts={"source_rows": some[0].n, "target_rows": some[1].n},
        )


@dataclass(frozen=True)
class MmdRandomFeatures:
    """MMD-Gaussian of all rows, from `count` random directions, with the error that this makes.

    The interval is that of the approximation alone, and not of drawing the rows.
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
            raise InputError(f"count must be 2 or more; got {self.count}. 1024 is usual.")

    def measure(self, subject: Subject) -> Score:
        """The mean of |φ_S(ω) − φ_T(ω)|² over random ω."""
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
    """‖μ_S − μ_T‖² + ‖cov_S − cov_T‖_F² of features, with unbiased covariances."""

    name: ClassVar[str] = "mmd-mean-cov"
    label: ClassVar[str] = "MMD-Mean-Cov"
    needs: ClassVar[tuple[Need, ...]] = ("features",)
    assumes: ClassVar[str] = _ASSUMES
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "kernels"

    def measure(self, subject: Subject) -> Score:
        """The distance of both moments, all rows counted."""
        for view in (subject.reference, subject.target):
            if view.n < 2:
                raise NotApplicable(f"{view.name!r} has a single row, which has no covariance")
        return Score(mean_covariance_distance(*_checked_features(subject)))


def _checked_features(subject: Subject) -> tuple[Floats, Floats]:
    """Features of S and T, none of them too large to be squared."""
    found = subject.features
    largest = max(float(np.abs(side).max(initial=0.0)) for side in found)
    if largest > MAX_ABS_FEATURE:
        raise NotApplicable(
            f"features reach {largest:.1e}, and can't be squared beyond {MAX_ABS_FEATURE:.0e}"
        )
    return found
