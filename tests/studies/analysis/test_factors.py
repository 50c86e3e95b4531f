"""Factor analysis against statsmodels, scikit-learn and naive loops."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from statsmodels.multivariate.factor_rotation import rotate_factors

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.metrics.basic import squash_nll
from oodometer.studies.analysis.factors import (
    factor_analysis,
    orthomax,
    table_factor_analysis,
)
from tests.support.fine_tuning_rows import (
    ATTACKS,
    METRICS,
    Row,
    fine_tuning_rows,
    is_id,
    is_ood,
    to_table,
)
from tests.support.id_ood_rows import role_value, rows_of, table_of

ROTATIONS = ("varimax", "quartimax", "equamax")


def simple_structure(seed: int, columns: int, factors: int) -> Floats:
    """Return loadings with one large value per column, randomly rotated."""
    rng = np.random.default_rng(seed)
    plain = rng.normal(0, 0.08, (columns, factors))
    plain[np.arange(columns), np.arange(columns) % factors] += rng.uniform(0.6, 0.9, columns)
    return np.asarray(plain @ np.linalg.qr(rng.normal(size=(factors, factors)))[0])


def made_table(seed: int, rows: int = 80, columns: int = 9, factors: int = 3) -> Floats:
    rng = np.random.default_rng(seed)
    noise = 0.5 * rng.normal(size=(rows, columns))
    return rng.normal(size=(rows, factors)) @ simple_structure(seed, columns, factors).T + noise


def naive_criterion(loadings: Floats, gamma: float) -> float:
    total = 0.0
    for j in range(loadings.shape[1]):
        fourth = sum(float(value) ** 4 for value in loadings[:, j])
        square = sum(float(value) ** 2 for value in loadings[:, j])
        total += fourth - gamma / len(loadings) * square**2
    return total


def gamma_of(rotation: str, factors: int) -> float:
    return {"varimax": 1.0, "quartimax": 0.0, "equamax": factors / 2}[rotation]


def matched(loadings: Floats, like: Floats) -> Floats:
    """Return the columns in the order and with the signs closest to `like`."""
    best = min(
        itertools.permutations(range(loadings.shape[1])),
        key=lambda order: (
            -sum(abs(float(loadings[:, place] @ like[:, j])) for j, place in enumerate(order))
        ),
    )
    ordered = loadings[:, best]
    return np.asarray(ordered * np.sign((ordered * like).sum(axis=0)))


# Rotations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("factors", [2, 3, 4])
@pytest.mark.parametrize("rotation", ROTATIONS)
def test_rotations_match_statsmodels(rotation: str, factors: int) -> None:
    loadings = simple_structure(factors, 12, factors)
    gamma = gamma_of(rotation, factors)
    # For orthogonal rotations the Crawford-Ferguson family equals orthomax and accepts γ above 1.
    peer, _ = rotate_factors(loadings, "CF", gamma / 12, "orthogonal", tol=1e-6)
    found = orthomax(loadings, gamma)
    np.testing.assert_allclose(found, matched(peer, found), atol=1e-5)
    if rotation != "equamax":
        peer, _ = rotate_factors(loadings, rotation, tol=1e-6)
        np.testing.assert_allclose(found, matched(peer, found), atol=1e-5)


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("seed", range(4))
def test_no_planar_rotation_increases_the_criterion(rotation: str, seed: int) -> None:
    # Loadings of pure noise, without any structure.
    loadings = np.random.default_rng(seed).normal(size=(10, 4))
    gamma = gamma_of(rotation, 4)
    found = orthomax(loadings, gamma)
    best = naive_criterion(found, gamma)
    assert best >= naive_criterion(loadings, gamma) - 1e-9
    for i, j in itertools.combinations(range(4), 2):
        for angle in np.linspace(-math.pi / 4, math.pi / 4, 41):
            turned = found.copy()
            turned[:, i] = math.cos(angle) * found[:, i] + math.sin(angle) * found[:, j]
            turned[:, j] = math.cos(angle) * found[:, j] - math.sin(angle) * found[:, i]
            assert naive_criterion(turned, gamma) <= best + 1e-9


@given(seed=st.integers(0, 10_000), columns=st.integers(1, 8), factors=st.integers(1, 4))
@example(seed=331, columns=4, factors=4)
@settings(max_examples=60)
def test_rotation_preserves_inner_products_of_columns(
    seed: int, columns: int, factors: int
) -> None:
    factors = min(factors, columns)
    loadings = np.random.default_rng(seed).normal(size=(columns, factors))
    for rotation in ROTATIONS:
        found = orthomax(loadings, gamma_of(rotation, factors))
        np.testing.assert_allclose(found @ found.T, loadings @ loadings.T, atol=1e-9)
        explained = (found**2).sum(axis=0)
        assert (np.diff(explained) <= 1e-9).all()
        assert (found.max(axis=0) >= -found.min(axis=0) - 1e-12).all()


def test_varimax_recovers_simple_structure_and_equals_equamax_for_two_factors() -> None:
    loadings = simple_structure(3, 12, 3)
    large = np.abs(orthomax(loadings, 1.0)) > 0.4
    assert large.sum(axis=1).tolist() == [1] * 12
    assert sorted(large.sum(axis=0)) == [4, 4, 4]
    two = simple_structure(5, 10, 2)
    np.testing.assert_allclose(orthomax(two, gamma_of("equamax", 2)), orthomax(two, 1.0))


def test_flat_criterion_leaves_the_plane_unrotated() -> None:
    corners = np.array([[math.cos(j * math.pi / 8), math.sin(j * math.pi / 8)] for j in range(16)])
    np.testing.assert_allclose(np.abs(orthomax(corners, 0.0)), np.abs(corners), atol=1e-9)


# The analysis ---------------------------------------------------------------------------------


def test_eigenvalues_and_loadings_match_scikit_learn_pca() -> None:
    table = made_table(0)
    found = factor_analysis(table, [f"c{j}" for j in range(9)])
    standard = (table - table.mean(axis=0)) / table.std(axis=0)
    peer = PCA().fit(standard)
    expected = peer.explained_variance_ * (len(table) - 1) / len(table)
    np.testing.assert_allclose(found.eigenvalues, expected)
    kept = int((expected >= 1).sum())
    assert found.loadings.shape == (9, kept)
    scores = peer.transform(standard)[:, :kept]
    for j, column in enumerate(standard.T):
        for k, score in enumerate(scores.T):
            sign = np.sign(peer.components_[k] @ found.loadings[:, k])
            r = np.corrcoef(column, score)[0, 1]
            assert found.loadings[j, k] == pytest.approx(sign * r, abs=1e-9)


def test_rotations_belong_to_the_orthomax_family() -> None:
    found = factor_analysis(made_table(0), [f"c{j}" for j in range(9)])
    assert found.loadings.shape[1] == 3
    assert list(found.rotations) == list(ROTATIONS)
    for rotation in ROTATIONS:
        expected = orthomax(found.loadings, gamma_of(rotation, 3))
        np.testing.assert_array_equal(found.rotations[rotation], expected)
    assert np.abs(found.rotations["equamax"] - found.rotations["quartimax"]).max() > 1e-3


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20)
def test_communalities_and_variance_are_invariant(seed: int) -> None:
    table = made_table(seed, rows=40, columns=6, factors=2)
    names = [f"c{j}" for j in range(6)]
    found = factor_analysis(table, names)
    assert found.eigenvalues.sum() == pytest.approx(6)
    assert (np.diff(found.eigenvalues) <= 1e-12).all()
    kept = found.loadings.shape[1]
    assert found.explained_variance_ratio().sum() == pytest.approx(
        found.eigenvalues[:kept].sum() / 6
    )
    for rotation in ROTATIONS:
        assert found.explained_variance_ratio(rotation).sum() == pytest.approx(
            found.explained_variance_ratio().sum()
        )
        squares = (found.rotations[rotation] ** 2).sum(axis=1)
        np.testing.assert_allclose(squares, found.communalities, atol=1e-9)
    moved = factor_analysis(table[::-1] * np.arange(1, 7) * 1e3 + 5, names)
    np.testing.assert_allclose(moved.eigenvalues, found.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(moved.communalities, found.communalities, atol=1e-8)


def test_incomplete_rows_and_empty_columns_are_left_out_and_counted() -> None:
    table = made_table(1)
    gappy = np.concatenate([table, np.full((80, 1), np.nan)], axis=1)
    gappy[[3, 7], [0, 4]] = np.nan, np.inf
    found = factor_analysis(gappy, [*"abcdefghi", "none"])
    whole = factor_analysis(np.delete(table, [3, 7], axis=0), list("abcdefghi"))
    assert (found.n_rows, found.left_out, found.empty_columns) == (78, 2, ("none",))
    assert (whole.n_rows, whole.left_out, whole.empty_columns) == (78, 0, ())
    np.testing.assert_array_equal(found.loadings, whole.loadings)
    assert found.names == whole.names
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(text)["loadings"]["equamax"] == found.rotations["equamax"].tolist()


def test_single_column_is_its_own_factor() -> None:
    found = factor_analysis(np.array([[1.0], [2.0], [4.0]]), ["a"])
    assert found.eigenvalues.tolist() == [1.0]
    assert found.rotations["varimax"].tolist() == [[1.0]]


def test_invalid_input_raises() -> None:
    table = made_table(2)
    with pytest.raises(InputError, match=r"shape \(n, 2\), one column per name; got \(80, 9\)"):
        factor_analysis(table, ["a", "b"])
    table[:, [2, 5]] = 0.1
    message = "'c', 'f' are constant in all 80 rows and cannot be standardized. Leave out"
    with pytest.raises(InputError, match=message):
        factor_analysis(table, list("abcdefghi"))
    table[1:, 4] = np.nan
    with pytest.raises(
        NotApplicable, match=r"1 of 80 are complete; 'e' lacks 79. Leave out columns"
    ):
        factor_analysis(table, list("abcdefghi"))
    with pytest.raises(NotApplicable, match="0 of 4 are complete"):
        factor_analysis(np.full((4, 2), np.nan), ["a", "b"])
    with pytest.raises(InputError, match=r"No rotation is called 'varimx'. Did you mean 'varimax'"):
        factor_analysis(made_table(2), list("abcdefghi")).explained_variance_ratio("varimx")


# Tables ---------------------------------------------------------------------------------------


def test_table_factors_match_naive_matrix() -> None:
    rows = rows_of(3, gaps=0.01, levels=1000)
    rows = [{**row, "nll": 20 * row["nll"]} for row in rows]
    table = table_of(rows)
    small = [{**row, "nll": 10 * (1 - math.exp(-row["nll"] / 10))} for row in rows]
    names = [
        (role, name) for role in ("ID", "ID corrupted", "OOD") for name in ("error", "nll", "ece")
    ]
    naive = [[role_value(small, model, name, role, None) for role, name in names]
               for model in table.models]  # fmt: skip
    expected = factor_analysis(np.array(naive), [" ".join(name) for name in names])
    found = table_factor_analysis(table)
    assert found.names == expected.names
    assert (found.n_rows, found.left_out) == (expected.n_rows, expected.left_out)
    assert found.left_out > 0
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(found.loadings, expected.loadings, atol=1e-6)


def test_metric_missing_on_corrupted_data_is_named() -> None:
    rows = rows_of(0, levels=1000)
    rows = [{**row, "ece": math.nan if "/" in row["tested_on"] else row["ece"]} for row in rows]
    found = table_factor_analysis(table_of(rows), metrics=["ece"])
    assert found.empty_columns == ("ID corrupted ece",)
    assert found.names == ("ID error", "ID ece", "ID corrupted error", "OOD error", "OOD ece")


@given(st.floats(0, 1e10))
def test_squashed_nll_is_monotone_and_at_most_ten(nll: float) -> None:
    low, high = squash_nll(np.array([nll, nll + 0.1]))
    assert 0 <= low <= high <= 10
    assert low == pytest.approx(10 * (1 - math.exp(-nll / 10)), abs=1e-9)


def naive_columns(rows: list[Row]) -> tuple[list[str], list[list[float]]]:
    """Return the sixteen columns of App. B for the networks trained on full datasets, by loops."""
    full = [row for row in rows if row["recipe.few_shot"] is None]
    columns: dict[str, list[float]] = {}
    for model in sorted({row["model"] for row in full}):
        own = [row for row in full if row["model"] == model]
        parts = {
            "ID": [row for row in own if is_id(row)],
            "ID corrupted": [row for row in own if "/" in row["tested_on"]],
            "OOD": [row for row in own if is_ood(row)],
        }
        for role, name in itertools.product(parts, ("error", *METRICS)):
            if role == "ID corrupted" and name in ATTACKS:
                continue
            values = [1 - row["accuracy"] if name == "error" else row[name] for row in parts[role]]
            if name == "nll":
                values = [10 * (1 - math.exp(-value / 10)) for value in values]
            columns.setdefault(f"{role} {name}", []).append(sum(values) / len(values))
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def test_sixteen_metrics_match_loops() -> None:
    rows = fine_tuning_rows(3)
    names, naive = naive_columns(rows)
    assert len(names) == 16
    found = table_factor_analysis(to_table(rows))
    few_shot = {row["model"] for row in rows if row["recipe.few_shot"] is not None}
    assert (found.names, found.n_rows, found.left_out) == (tuple(names), len(naive), 0)
    assert found.few_shot_models == len(few_shot)
    expected = factor_analysis(np.array(naive), names)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(found.rotated_loadings, expected.rotations["equamax"], atol=1e-6)
    assert (found.eigenvalues[: found.loadings.shape[1]] >= 1 - 1e-9).all()
    everything = table_factor_analysis(to_table(rows), full_data_only=False)
    assert everything.n_rows == len(naive) + len(few_shot)


def test_attacks_on_corrupted_data_are_not_analyzed() -> None:
    rows = fine_tuning_rows(3)
    filled = [{**row, ATTACKS[1]: row["ece"] if "/" in row["tested_on"] else row[ATTACKS[1]]}
              for row in rows]  # fmt: skip
    assert (
        table_factor_analysis(to_table(filled)).names == table_factor_analysis(to_table(rows)).names
    )


def test_mean_over_attack_sizes_takes_the_place_of_the_sizes() -> None:
    rows = [
        {key: value for key, value in row.items() if key not in ATTACKS}
        | {"adversarial_error": row[ATTACKS[1]], "doc": row["accuracy"]}
        for row in fine_tuning_rows()
    ]
    names = table_factor_analysis(to_table(rows)).names
    assert len(names) == 14
    assert "OOD adversarial_error" in names
    assert not [name for name in names if "doc" in name]


def test_rotation_is_chosen_by_name() -> None:
    table = to_table(fine_tuning_rows())
    assert table_factor_analysis(table).rotation == "equamax"
    varimax = table_factor_analysis(table, rotation="varimax")
    assert varimax.rotated_loadings is varimax.rotations["varimax"]
    assert varimax.to_dict()["rotation"] == "varimax"
    with pytest.raises(UnknownName, match="Did you mean 'quartimax'"):
        table_factor_analysis(table, rotation="quatrimax")  # type: ignore[arg-type]
