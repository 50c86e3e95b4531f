"""Factor analysis of models × metrics with orthomax rotations (Wenzel et al., NeurIPS 2022, App. B).

The columns are metrics and are standardized. The factors are those eigenvectors of the correlation
matrix of the columns that have an eigenvalue of at least 1. The loading of a column on a factor is
their correlation. The three rotations are orthomax rotations: γ is 1 for varimax, 0 for quartimax,
and half the number of factors for equamax. Rows are not normalized (Kaiser normalization). Other
packages often call a rotation equamax that is almost or exactly quartimax, because their γ is one
over the number of columns, or 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName, wrong_shape
from oodometer.metrics.basic import squash_nll
from oodometer.studies.analysis.correlation_matrix import MIN_CORRELATION_ROWS
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import model_means_by_role, select_metrics

# Kaiser criterion: a factor that explains less variance than one standardized column is dropped.
MIN_EIGENVALUE = 1.0
# An eigenvalue of 1 may come out lower by this amount because of rounding errors.
EIGENVALUE_TOLERANCE = 1e-9
# Both limits are relative to the size of the criterion in the plane of two factors. If the
# criterion varies less than the first limit, all angles are equally good. A gain below the second
# limit is smaller than rounding errors.
MIN_CRITERION_VARIATION = 1e-12
MIN_ROTATION_GAIN = 2.0**-52
# A few dozen sweeps are usually enough. If the number of factors equals the number of columns, the
# optimum can be flat, and thousands of sweeps may be needed.
MAX_SWEEPS = 100_000
NLL_MEASURE = "nll"


@dataclass(frozen=True, eq=False)
class FactorAnalysis:
    """Eigenvalues in decreasing order and loadings of the columns on the retained factors.

    Parameters
    ----------
    names : tuple of str
        Columns used.
    empty_columns : tuple of str
        Columns without any value, which are left out.
    n_rows : int
        Number of rows used.
    left_out : int
        Number of rows with missing values, which are left out.
    eigenvalues : array of shape (k,)
        All eigenvalues of the correlation matrix (scree), decreasing.
    loadings : array of shape (k, f)
        Loadings before rotation. Factors are sorted by explained variance, and the largest loading
        of each is positive.
    rotations : mapping of str to array of shape (k, f)
        Loadings after each rotation.
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
        """Share of each column's variance that the factors explain; rotations do not change it."""
        return np.asarray((self.loadings**2).sum(axis=1))

    def explained_variance_ratio(self, rotation: str | None = None) -> Floats:
        """Return the share of the total variance that each factor explains, after `rotation`.

        None stands for the factors before rotation.
        """
        if rotation is not None and rotation not in self.rotations:
            raise UnknownName("rotation", rotation, self.rotations)
        loadings = self.loadings if rotation is None else self.rotations[rotation]
        return np.asarray((loadings**2).mean(axis=0))

    def to_dict(self) -> dict[str, Any]:
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
    """Extract and rotate the factors of a table.

    Parameters
    ----------
    values : array of shape (n, k)
        One row per model, one column per metric. First the columns without any value are left out,
        then the rows with missing values.
    names : sequence of str
        Names of the columns.

    Returns
    -------
    FactorAnalysis
        Eigenvalues, loadings, and loadings after varimax, quartimax and equamax.

    Raises
    ------
    InputError
        If names and columns differ in number, or if a column is constant.
    NotApplicable
        If fewer than three rows are complete.

    Examples
    --------
    >>> table = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0]])
    >>> result = factor_analysis(table, ["a", "2a", "b"])
    >>> result.eigenvalues.round(6).tolist(), result.loadings.round(6).tolist()
    ([2.0, 1.0, 0.0], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise wrong_shape("values", f"(n, {len(names)}), one column per name", values.shape)
    known = np.isfinite(values)
    has_values: Bools = np.asarray(known.any(axis=0))
    used = [name for name, has in zip(names, has_values, strict=True) if has]
    complete = values[known[:, has_values].all(axis=1)][:, has_values]
    _check_standardizable(complete, used, known[:, has_values])
    eigenvalues, loadings = _extract_factors(complete)
    gammas = {"varimax": 1.0, "quartimax": 0.0, "equamax": loadings.shape[1] / 2}
    return FactorAnalysis(
        names=tuple(used),
        empty_columns=tuple(name for name, has in zip(names, has_values, strict=True) if not has),
        n_rows=len(complete),
        left_out=len(values) - len(complete),
        eigenvalues=eigenvalues,
        loadings=loadings,
        rotations={name: orthomax(loadings, gamma) for name, gamma in gammas.items()},
    )


def table_factor_analysis(
    table: EvaluationTable, *, metrics: Sequence[str] | None = None
) -> FactorAnalysis:
    """Extract the factors of the models of a table.

    The columns are the error and the metrics, each averaged over the ID domains, over the corrupted
    ID domains, and over the OOD domains. Values x of the measure `nll` are limited to 10 by the
    function ``10 · (1 − exp(−x / 10))``.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    metrics : sequence of str, optional
        Measures of the table. Default: all. ``error`` (1 − accuracy) is always included.

    Returns
    -------
    FactorAnalysis
        Factors of the table. Columns are named by domain role and metric, such as ``"ID error"``.

    Raises
    ------
    NotApplicable
        If fewer than three models have all values.
    InputError
        If a column is constant.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkllmm"], "trained_on": ["a"] * 6,
    ...     "tested_on": [*"ababab"], "accuracy": [0.7, 0.5, 0.8, 0.6, 0.9, 0.7]}, measures=())
    >>> table_factor_analysis(table).loadings.round(6).tolist()
    [[1.0], [1.0]]
    """
    selected = select_metrics(table, metrics)
    if NLL_MEASURE in selected:
        selected[NLL_MEASURE] = squash_nll(selected[NLL_MEASURE])
    roles = model_means_by_role(table, selected)
    names = [f"{role} {name}" for role in roles for name in selected]
    return factor_analysis(np.concatenate(list(roles.values()), axis=1), names)


def _check_standardizable(complete: Floats, names: Sequence[str], known: Bools) -> None:
    if not names or len(complete) < MIN_CORRELATION_ROWS:
        gaps = (~known).sum(axis=0)
        worst = f"; {names[gaps.argmax()]!r} lacks {gaps.max()}" if gaps.any() else ""
        raise NotApplicable(
            f"factor analysis needs at least {MIN_CORRELATION_ROWS} rows without missing values; "
            f"{len(complete) if names else 0} of {len(known)} are complete{worst}. Leave out "
            "columns with missing values"
        )
    constant = [
        name for name, column in zip(names, complete.T, strict=True) if column.max() == column.min()
    ]
    if constant:
        raise InputError(
            f"{', '.join(map(repr, constant))} {'is' if len(constant) == 1 else 'are'} constant in "
            f"all {len(complete)} rows and cannot be standardized. Leave out constant columns."
        )


def _extract_factors(complete: Floats) -> tuple[Floats, Floats]:
    """Return all eigenvalues in decreasing order and the loadings on the retained factors."""
    columns = complete.shape[1]
    ascending, vectors = np.linalg.eigh(np.corrcoef(complete, rowvar=False).reshape(columns, -1))
    eigenvalues = np.maximum(ascending[::-1], 0.0)
    retained = eigenvalues >= MIN_EIGENVALUE - EIGENVALUE_TOLERANCE
    loadings = vectors[:, ::-1][:, retained] * np.sqrt(eigenvalues[retained])
    return eigenvalues, _sort_factors(loadings)


def orthomax(loadings: Floats, gamma: float) -> Floats:
    """Rotate loadings to maximize Σ_j [Σ_i l_ij⁴ − γ/p · (Σ_i l_ij²)²] for p columns.

    The index i counts columns and j counts factors. Each pair of factors is rotated in its plane by
    the best angle, which has a closed form. This is repeated until no rotation increases the
    criterion. The number of factors must not exceed the number of columns.

    >>> even = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    >>> np.abs(orthomax(even, 1.0)).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rotated = np.array(loadings, dtype=np.float64)
    for _ in range(MAX_SWEEPS):
        converged = True
        for i, j in itertools.combinations(range(rotated.shape[1]), 2):
            angle = _best_angle(rotated[:, i], rotated[:, j], gamma)
            if angle:
                c, s = math.cos(angle), math.sin(angle)
                rotated[:, [i, j]] = rotated[:, [i, j]] @ np.array([[c, -s], [s, c]])
                converged = False
        if converged:
            return _sort_factors(rotated)
    raise NotApplicable(f"the rotation with γ = {gamma:g} did not converge in {MAX_SWEEPS} sweeps")


def _best_angle(x: Floats, y: Floats, gamma: float) -> float:
    """Return the angle of rotation that maximizes the criterion; 0 if no angle increases it."""
    u = x * x - y * y
    v = 2 * x * y
    sine = 2 * (u @ v) - gamma * 2 * u.sum() * v.sum() / len(x)
    cosine = u @ u - v @ v - gamma * (u.sum() ** 2 - v.sum() ** 2) / len(x)
    angle = math.atan2(sine, cosine) / 4
    variation = math.hypot(sine, cosine)
    size = u @ u + v @ v
    gains = (
        variation > MIN_CRITERION_VARIATION * size
        and variation * math.sin(2 * angle) ** 2 > MIN_ROTATION_GAIN * size
    )
    return angle if gains else 0.0


def _sort_factors(loadings: Floats) -> Floats:
    """Sort factors by explained variance and make the largest loading of each positive."""
    ordered = loadings[:, np.argsort(-(loadings**2).sum(axis=0), kind="stable")]
    largest = np.take_along_axis(ordered, np.abs(ordered).argmax(axis=0)[None], axis=0)
    return np.asarray(ordered * np.where(largest < 0, -1.0, 1.0))
