"""Factor analysis of models × metrics. Wenzel et al., NeurIPS 2022, Appendix B.

Columns are standardised; factors are the eigenvectors of their correlation matrix whose eigenvalue
is at least 1, and loadings are the correlations of columns with factors. The three rotations are
of one family, orthomax with γ = 1 (varimax), 0 (quartimax) and half the factors (equamax), without
Kaiser's weighting of rows. Other packages call by the last name what is (nearly) quartimax: γ of
one over the columns, or a family's parameter left at 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.correlation_matrix import MIN_CORRELATION_ROWS
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import model_means_by_role, select_metrics

# A factor that explains less than one column of its own is not kept.
MIN_EIGENVALUE = 1.0
# Sums of rounding errors may put an eigenvalue of 1 so far below it.
EIGENVALUE_TOLERANCE = 1e-9
# Relative to the size of the criterion in its plane: a plane in which it varies less is flat, and a
# turn that gains less is lost in rounding.
MIN_CRITERION_VARIATION, MIN_ROTATION_GAIN = 1e-12, 2.0**-52
# Some tens do. With as many factors as columns an optimum can be so flat that it takes thousands.
MAX_SWEEPS = 100_000
NLL_MEASURE = "nll"


@dataclass(frozen=True, eq=False)
class FactorAnalysis:
    """Eigenvalues in falling order (the scree), and loadings of columns on the kept factors.

    `rotations` has the loadings after each rotation, `loadings` those before any: (columns,
    factors), factors in falling order of what they explain, the largest loading of each positive.
    `n_rows` were used, `left_out` had gaps; columns without any value are named in `empty_columns`.
    """

    names: tuple[str, ...]
    empty_columns: tuple[str, ...]
    n_rows: int
    left_out: int
    eigenvalues: Floats
    loadings: Floats
    rotations: Mapping[str, Floats]

    @property
    def communalities(self) -> Floats:
        """The share of every column's variance that the kept factors explain; no rotation moves it."""
        return np.asarray((self.loadings**2).sum(axis=1))

    def explained_variance_ratio(self, rotation: str | None = None) -> Floats:
        """The share of all variance that each factor explains, before or after a rotation."""
        if rotation is not None and rotation not in self.rotations:
            raise UnknownName("rotation", rotation, self.rotations)
        loadings = self.loadings if rotation is None else self.rotations[rotation]
        return np.asarray((loadings**2).mean(axis=0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        tables = {"none": self.loadings, **self.rotations}
        return {
            "names": list(self.names),
            "empty": list(self.empty_columns),
            "rows": self.n_rows,
            "left_out": self.left_out,
            "eigenvalues": self.eigenvalues.tolist(),
            "communalities": self.communalities.tolist(),
            "loadings": {name: table.tolist() for name, table in tables.items()},
            "shares": {name: (table**2).mean(axis=0).tolist() for name, table in tables.items()},
        }


def factor_analysis(values: Floats, names: Sequence[str]) -> FactorAnalysis:
    """Factors of a table of rows × named columns.

    Columns without any value are left out, then rows with gaps.

    >>> table = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0]])
    >>> found = factor_analysis(table, ["a", "2a", "b"])
    >>> found.eigenvalues.round(6).tolist(), found.loadings.round(6).tolist()
    ([2.0, 1.0, 0.0], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InputError(
            f"There are {len(names)} names for a table of shape {values.shape}; one a column was "
            "expected. Give rows of models and columns of metrics."
        )
    known = np.isfinite(values)
    there: Bools = np.asarray(known.any(axis=0))
    used = [name for name, has in zip(names, there, strict=True) if has]
    empty = tuple(name for name, has in zip(names, there, strict=True) if not has)
    whole = values[known[:, there].all(axis=1)][:, there]
    _check_standardizable(whole, used, known[:, there])
    eigenvalues, loadings = _extract_factors(whole)
    gammas = {"varimax": 1.0, "quartimax": 0.0, "equamax": loadings.shape[1] / 2}
    return FactorAnalysis(
        tuple(used), empty, len(whole), len(values) - len(whole), eigenvalues, loadings,
        {name: orthomax(loadings, gamma) for name, gamma in gammas.items()},
    )  # fmt: skip


def table_factor_analysis(
    table: EvaluationTable, *, metrics: Sequence[str] | None = None
) -> FactorAnalysis:
    """Factors of the models of a table: error and metrics, each ID, ID corrupted and mean OOD.

    `metrics` names measures of the table, None for all. The log-likelihood `nll` is capped.
    """
    chosen = select_metrics(table, metrics)
    if NLL_MEASURE in chosen:
        chosen[NLL_MEASURE] = cap_nll(chosen[NLL_MEASURE])
    roles = model_means_by_role(table, chosen)
    names = [f"{role} {name}" for role in roles for name in chosen]
    return factor_analysis(np.concatenate(list(roles.values()), axis=1), names)


def cap_nll(nll: Floats) -> Floats:
    """10 · (1 − exp(−x / 10)): as it was where it is small, and never above 10.

    >>> cap_nll(np.array([0.0, 0.1, 1e10])).round(3).tolist()
    [0.0, 0.1, 10.0]
    """
    return np.asarray(-10.0 * np.expm1(-np.asarray(nll) / 10.0))


def _check_standardizable(whole: Floats, names: Sequence[str], known: Bools) -> None:
    if not names or len(whole) < MIN_CORRELATION_ROWS:
        gaps = (~known).sum(axis=0)
        worst = f"; {names[gaps.argmax()]!r} lacks {gaps.max()}" if gaps.any() else ""
        raise NotApplicable(
            f"factors need columns with at least {MIN_CORRELATION_ROWS} rows without gaps; there are "
            f"{len(whole) if names else 0} of {len(known)}{worst}. Leave such columns out"
        )
    constant = [name for name, one in zip(names, whole.T, strict=True) if one.max() == one.min()]
    if constant:
        raise InputError(
            f"{', '.join(map(repr, constant))} {'is' if len(constant) == 1 else 'are'} the same in "
            f"all {len(whole)} rows and can't be standardised. Leave such columns out."
        )


def _extract_factors(whole: Floats) -> tuple[Floats, Floats]:
    """All eigenvalues, falling, and loadings on the factors that are kept."""
    columns = whole.shape[1]
    eigenvalues, vectors = np.linalg.eigh(np.corrcoef(whole, rowvar=False).reshape(columns, -1))
    eigenvalues, vectors = np.maximum(eigenvalues[::-1], 0.0), vectors[:, ::-1]
    kept = eigenvalues >= MIN_EIGENVALUE - EIGENVALUE_TOLERANCE
    return eigenvalues, _sort_factors(vectors[:, kept] * np.sqrt(eigenvalues[kept]))


def orthomax(loadings: Floats, gamma: float) -> Floats:
    """Loadings turned so that Σ_j [Σ_i l_ij⁴ − γ/p · (Σ_i l_ij²)²] is largest, p being the columns.

    Every pair of factors is turned in its plane to the best angle, which has a closed form, until
    no turn gains anything. There are at most as many factors as columns.

    >>> even = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    >>> np.abs(orthomax(even, 1.0)).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    turned = np.array(loadings, dtype=np.float64)
    for _ in range(MAX_SWEEPS):
        settled = True
        for i, j in itertools.combinations(range(turned.shape[1]), 2):
            angle = _best_angle(turned[:, i], turned[:, j], gamma)
            if angle:
                c, s = math.cos(angle), math.sin(angle)
                turned[:, [i, j]] = turned[:, [i, j]] @ np.array([[c, -s], [s, c]])
                settled = False
        if settled:
            return _sort_factors(turned)
    raise NotApplicable(f"the rotation with γ = {gamma:g} does not settle in {MAX_SWEEPS} sweeps")


def _best_angle(x: Floats, y: Floats, gamma: float) -> float:
    """How far to turn two factors: the angle with the largest criterion, 0 where it gains nothing."""
    u, v = x * x - y * y, 2 * x * y
    sine = 2 * (u @ v) - gamma * 2 * u.sum() * v.sum() / len(x)
    cosine = u @ u - v @ v - gamma * (u.sum() ** 2 - v.sum() ** 2) / len(x)
    angle = math.atan2(sine, cosine) / 4
    varies, size = math.hypot(sine, cosine), u @ u + v @ v
    gains = (
        varies > MIN_CRITERION_VARIATION * size
        and varies * math.sin(2 * angle) ** 2 > MIN_ROTATION_GAIN * size
    )
    return angle if gains else 0.0


def _sort_factors(loadings: Floats) -> Floats:
    """Factors by what they explain, each with the sign that makes its largest loading positive."""
    ordered = loadings[:, np.argsort(-(loadings**2).sum(axis=0), kind="stable")]
    largest = np.take_along_axis(ordered, np.abs(ordered).argmax(axis=0)[None], axis=0)
    return np.asarray(ordered * np.where(largest < 0, -1.0, 1.0))
