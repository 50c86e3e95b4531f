"""Factor analysis of models × metrics with orthomax rotations (Wenzel et al., NeurIPS 2022, App. B).

The columns are metrics and are standardized. The factors are those eigenvectors of the correlation
matrix of the columns that have an eigenvalue of at least 1. The loading of a column on a factor is
their correlation. The three rotations are orthomax rotations: γ is 1 for varimax, 0 for quartimax,
and half the number of factors for equamax. Rows are not normalized (Kaiser normalization). Other
packages often call a rotation equamax that is almost or exactly quartimax, because their γ is one
over the number of columns, or 0.

The paper analyzes sixteen metrics of the networks that are trained on full datasets: six base
metrics on ID test data, the four without an attack on corrupted ID data, and the means of the six
over all OOD datasets of the task. The rotation is equamax.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName, wrong_shape
from oodometer.metrics.basic import squash_nll
from oodometer.studies.analysis.correlation_matrix import MIN_CORRELATION_ROWS
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import model_means_by_role, select_metrics
from oodometer.studies.analysis.training_recipes import trained_on_all_rows

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
Rotation = Literal["equamax", "varimax", "quartimax"]
DEFAULT_ROTATION: Rotation = "equamax"
NLL_MEASURE = "nll"
# The base metrics of the paper besides the error.
ATTACK_METRICS = ("adversarial_error_0.001", "adversarial_error_0.02")
BASE_METRICS = (NLL_MEASURE, "ece", "demographic_disparity", *ATTACK_METRICS)
# Mean of the two attack metrics, which is used if the table does not have them separately.
MEAN_ATTACK_METRIC = "adversarial_error"
# If a table has fewer of the base metrics, all its measures are analyzed.
MIN_BASE_METRICS = 3
# Attacks are not analyzed on corrupted data.
CORRUPTED_ROLE = "ID corrupted"


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
    rotation : {"equamax", "varimax", "quartimax"}
        Rotation that tables and charts show.
    few_shot_models : int
        Number of models that are left out because they are not trained on the full datasets.
    """

    names: tuple[str, ...]
    empty_columns: tuple[str, ...]
    n_rows: int
    left_out: int
    eigenvalues: Floats
    loadings: Floats
    rotations: Mapping[str, Floats]
    rotation: Rotation = DEFAULT_ROTATION
    few_shot_models: int = 0

    @property
    def rotated_loadings(self) -> Floats:
        """Loadings after the rotation `rotation`."""
        return self.rotations[self.rotation]

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
            "few_shot_models": self.few_shot_models,
            "rotation": self.rotation,
            "eigenvalues": self.eigenvalues.tolist(),
            "communalities": self.communalities.tolist(),
            "loadings": {name: table.tolist() for name, table in tables.items()},
            "shares": {name: (table**2).mean(axis=0).tolist() for name, table in tables.items()},
        }


def factor_analysis(
    values: Floats, names: Sequence[str], *, rotation: Rotation = DEFAULT_ROTATION
) -> FactorAnalysis:
    """Extract and rotate the factors of a table.

    Parameters
    ----------
    values : array of shape (n, k)
        One row per model, one column per metric. First the columns without any value are left out,
        then the rows with missing values.
    names : sequence of str
        Names of the columns.
    rotation : {"equamax", "varimax", "quartimax"}
        Rotation that tables and charts of the result show. The paper prints equamax.

    Returns
    -------
    FactorAnalysis
        Eigenvalues, loadings, and loadings after all three rotations.

    Raises
    ------
    InputError
        If names and columns differ in number, or if a column is constant.
    NotApplicable
        If fewer than three rows are complete.
    UnknownName
        If the rotation is unknown.

    Examples
    --------
    >>> table = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0]])
    >>> result = factor_analysis(table, ["a", "2a", "b"])
    >>> result.eigenvalues.round(6).tolist(), result.loadings.round(6).tolist()
    ([2.0, 1.0, 0.0], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    """
    check_rotation(rotation)
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
        rotation=rotation,
    )


def check_rotation(rotation: str) -> None:
    """Raise if there is no such rotation."""
    if rotation not in get_args(Rotation):
        raise UnknownName("rotation", rotation, get_args(Rotation))


def table_factor_analysis(
    table: EvaluationTable,
    *,
    metrics: Sequence[str] | None = None,
    rotation: Rotation = DEFAULT_ROTATION,
    full_data_only: bool = True,
) -> FactorAnalysis:
    """Extract the factors of the models of a table.

    The columns are the error and the metrics, each averaged over the ID domains, over the corrupted
    ID domains (except adversarial errors), and over the OOD domains. Values x of the measure `nll`
    are limited to 10 by the function ``10 · (1 − exp(−x / 10))``.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    metrics : sequence of str, optional
        Measures of the table; ``error`` (1 − accuracy) is always included. Default: the metrics of
        the paper (`nll`, `ece`, `demographic_disparity`, `adversarial_error_0.001` and
        `adversarial_error_0.02`, which give sixteen columns) if the table has at least three of
        them, otherwise all measures. If only `adversarial_error` is known, the mean over both
        sizes, it takes their place.
    rotation : {"equamax", "varimax", "quartimax"}
        Rotation that tables and charts of the result show. The paper prints equamax.
    full_data_only : bool, default True
        Whether to leave out models that are trained on a few rows per class (`recipe.few_shot`).

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
    UnknownName
        If a metric or the rotation is unknown.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkllmm"], "trained_on": ["a"] * 6,
    ...     "tested_on": [*"ababab"], "accuracy": [0.7, 0.5, 0.8, 0.6, 0.9, 0.7]}, measures=())
    >>> table_factor_analysis(table).loadings.round(6).tolist()
    [[1.0], [1.0]]
    """
    check_rotation(rotation)
    few_shot = 0
    if full_data_only:
        table, few_shot = select_full_data_models(table)
    values, names = factor_columns(table, factor_metrics(table) if metrics is None else metrics)
    analysis = factor_analysis(values, names, rotation=rotation)
    return replace(analysis, few_shot_models=few_shot)


def select_full_data_models(table: EvaluationTable) -> tuple[EvaluationTable, int]:
    """Return the rows of models trained on full datasets, and the number of other models."""
    full = trained_on_all_rows(table)
    few_shot = int((~full[np.unique(table.model)]).sum())
    return table.select_rows(full[table.model]) if few_shot else table, few_shot


def factor_metrics(table: EvaluationTable) -> tuple[str, ...]:
    """Return the base metrics of the paper if the table has enough of them, otherwise all measures.

    >>> columns = {"model": ["m"], "trained_on": ["a"], "tested_on": ["b"], "accuracy": [0.5]}
    >>> values = dict.fromkeys(["doc", "ece", "nll", "adversarial_error_0.02"], [0.1])
    >>> factor_metrics(EvaluationTable.read(columns | values))
    ('nll', 'ece', 'adversarial_error_0.02')
    >>> factor_metrics(EvaluationTable.read(columns | {"doc": [0.5], "ece": [0.1]}))
    ('doc', 'ece')
    """
    base = [name for name in BASE_METRICS if name in table.measures]
    if MEAN_ATTACK_METRIC in table.measures and not set(base) & set(ATTACK_METRICS):
        base.append(MEAN_ATTACK_METRIC)
    return tuple(base) if len(base) >= MIN_BASE_METRICS else tuple(table.measures)


def factor_columns(table: EvaluationTable, metrics: Sequence[str]) -> tuple[Floats, list[str]]:
    """Return the error and the metrics per model of the rows and domain role, and their names."""
    selected = select_metrics(table, metrics)
    if NLL_MEASURE in selected:
        selected[NLL_MEASURE] = squash_nll(selected[NLL_MEASURE])
    means = model_means_by_role(table, selected)
    attacks = (*ATTACK_METRICS, MEAN_ATTACK_METRIC)
    columns = {
        f"{role} {name}": values[:, j]
        for role, values in means.items()
        for j, name in enumerate(selected)
        if not (role == CORRUPTED_ROLE and name in attacks)
    }
    return np.stack(list(columns.values()), axis=1)[np.unique(table.model)], list(columns)


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
