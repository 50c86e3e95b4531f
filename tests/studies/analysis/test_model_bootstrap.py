"""Bootstrap over models: fast replicates against literal resampling, coverage, and verdicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.stats import repeated_median_line
from oodometer.studies.analysis import model_bootstrap
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis._kendall import dense_ranks
from oodometer.studies.analysis._weighted_statistics import (
    LineSums,
    PairUnits,
    weighted_spearman,
    weighted_tau,
)
from oodometer.studies.analysis.averaged_correlations import average_over_pairs, residuals
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import (
    BOOTSTRAP_STATISTICS,
    bootstrap_statistics,
    compare_by_statistics,
    compare_two_measures,
)
from oodometer.studies.analysis.model_resampling import (
    BootstrapSettings,
    draw_models,
    model_clusters,
)

MEASURES = ("x", "doc")


def study(
    seed: int = 0, *, trainings: int = 3, domains: int = 4, models: int = 7, architectures: int = 2
) -> EvaluationTable:
    """Return a small study with ties, a missing value, and estimates of accuracy (`doc`)."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for a in range(architectures):
        for i in range(trainings):
            for m in range(models):
                skill = rng.normal()
                for o in range(domains):
                    accuracy = round(
                        float(np.clip(0.6 + 0.1 * skill + 0.05 * rng.normal(), 0, 1)), 2
                    )
                    rows.append({
                        "model": f"{a}-{i}-{m}", "architecture": f"arch{a}", "trained_on": f"d{i}",
                        "tested_on": f"d{o}", "accuracy": accuracy,
                        "x": round(float(skill + rng.normal()), 1),
                        "doc": accuracy + 0.05 * rng.normal(), "task": "even" if o % 2 else "odd",
                    })  # fmt: skip
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["x"][3] = float("nan")
    return EvaluationTable.read(columns, measures=MEASURES)


def copied(table: EvaluationTable, counts: dict[str, int]) -> EvaluationTable:
    """Return a literal resample: the rows of each model, once per copy, under a name of its own."""
    columns: dict[str, list[Any]] = {name: [] for name in (
        "model", "architecture", "trained_on", "tested_on", "accuracy", "task", *table.measures)}  # fmt: skip
    for row in range(len(table)):
        model = table.models[table.model[row]]
        for copy in range(counts[model]):
            columns["model"].append(f"{model} copy {copy}")
            columns["architecture"].append(table.architectures[table.architecture[row]])
            columns["trained_on"].append(table.training(int(table.trained_on[row])))
            columns["tested_on"].append(table.domains[table.tested_on[row]])
            columns["accuracy"].append(table.accuracy[row])
            columns["task"].append(table.columns["task"][row])
            for name, values in table.measures.items():
                columns[name].append(values[row])
    return EvaluationTable.read(columns, measures=tuple(table.measures))


def first_draws(table: EvaluationTable, n: int, *, by_architecture: bool) -> list[dict[str, int]]:
    """Return how often each model is drawn in the first replicates."""
    settings = BootstrapSettings(resample_domains=False)
    draws = draw_models(table, settings, by_architecture=by_architecture)
    return [
        {name: int(draws.models[draws.cluster[j], r]) for j, name in enumerate(table.models)}
        for r in range(n)
    ]


@pytest.mark.parametrize("statistic", ["macro_tau", "micro_tau", "id_tau", "arch_tau",
                                       "cross_domain_tau", "r2", "r2_pearson", "mae", "raw_r2",
                                       "raw_mae"])  # fmt: skip
@pytest.mark.parametrize("trainings", [3, 1])
def test_replicates_equal_the_statistics_of_copied_rows(statistic: str, trainings: int) -> None:
    table = study(trainings=trainings)
    raw = statistic.startswith("raw")
    result = bootstrap_statistics(table, [statistic], resample_domains=False)[statistic]
    whole = compare_measures(table)
    for measure in ("doc",) if raw else MEASURES:
        assert result.value(measure) == pytest.approx(whole.summary(measure, statistic).mean)
    by_architecture = statistic != "arch_tau"
    for r, counts in enumerate(first_draws(table, 4, by_architecture=by_architecture)):
        literal = compare_measures(copied(table, counts))
        for j, measure in enumerate(MEASURES):
            if raw and measure != "doc":
                continue
            expected = literal.summary(measure, statistic).mean
            assert result.replicates[j, r] == pytest.approx(expected)


def test_line_of_a_model_is_fitted_without_any_of_its_copies() -> None:
    table = study(trainings=1, architectures=1)
    result = bootstrap_statistics(table, ["mae"], resample_domains=False)["mae"]
    for r, counts in enumerate(first_draws(table, 3, by_architecture=True)):
        by_domain = []
        for o in range(1, 4):
            rows = [row for row in range(len(table)) if table.tested_on[row] == o]
            errors = []
            for row in rows:
                others = [
                    other
                    for other in rows
                    for _ in range(counts[table.models[table.model[other]]])
                    if other != row
                ]
                x, y = table.measures["doc"], table.accuracy
                slope, intercept = np.polyfit(x[others], y[others], 1)
                copies = counts[table.models[table.model[row]]]
                errors += [abs(intercept + slope * x[row] - y[row])] * copies
            by_domain.append(100 * np.mean(errors))
        assert result.replicates[1, r] == pytest.approx(np.mean(by_domain))


def test_drawn_domains_count_as_often_as_they_are_drawn() -> None:
    table = study(domains=9)
    draws = draw_models(table, BootstrapSettings(), by_architecture=True)
    assert draws.domains is not None
    result = bootstrap_statistics(table, ["macro_tau", "estimation_error"])
    assert result["macro_tau"].domains_drawn
    scores = {
        s.statistic: s for s in compare_measures(copied(table, _counts(table, draws, 0))).scores
    }
    macro = scores["macro_tau"]
    often = draws.domains[[table.domains.index(name) for name in macro_domains(macro)], 0]
    values = macro.values[1]
    assert result["macro_tau"].replicates[1, 0] == pytest.approx(
        (often * values).sum() / often.sum()
    )
    assert {int(total) for total in draws.domains[:, :50].sum(axis=0)} == {9}


def _counts(table: EvaluationTable, draws: Any, r: int) -> dict[str, int]:
    return {name: int(draws.models[draws.cluster[j], r]) for j, name in enumerate(table.models)}


def macro_domains(scores: Any) -> list[str]:
    return [f"d{code}" for code in scores.groups.keys["tested_on"]]


def test_severities_of_one_corruption_are_drawn_together() -> None:
    names = [f"c/{kind}-{level}" for kind in "abcdefgh" for level in (1, 2)]
    rng = np.random.default_rng(0)
    rows = {
        "model": [f"m{m}" for m in range(5) for _ in names], "trained_on": ["c"] * 80,
        "tested_on": names * 5, "accuracy": rng.random(80), "x": rng.random(80),
    }  # fmt: skip
    table = EvaluationTable.read(rows)
    draws = draw_models(table, BootstrapSettings(), by_architecture=False)
    assert draws.domains is not None
    codes = {name: code for code, name in enumerate(table.domains)}
    for kind in "abcdefgh":
        one, two = (draws.domains[codes[f"c/{kind}-{level}"]] for level in (1, 2))
        assert np.array_equal(one, two)


def test_strata_keep_their_numbers_of_configurations() -> None:
    table = study()
    draws = draw_models(table, BootstrapSettings(resample_domains=False), by_architecture=True)
    strata = [name.rsplit("-", 1)[0] for name in table.models]
    for stratum, size in Counter(strata).items():
        members = [draws.cluster[j] for j, name in enumerate(strata) if name == stratum]
        assert (draws.models[members].sum(axis=0) == size).all()
    assert (draws.models == 0).any()


def test_seeds_of_one_configuration_are_drawn_together() -> None:
    table = EvaluationTable.read({
        "model": [*"abcdef"], "trained_on": ["t"] * 6, "tested_on": ["o"] * 6,
        "accuracy": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "x": range(6), "seed": [0, 1] * 3,
        "recipe.lr": [1, 1, 2, 2, 3, 3], "recipe.seed": [0, 1] * 3,
    })  # fmt: skip
    assert model_clusters(table).tolist() == [0, 0, 1, 1, 2, 2]
    result = bootstrap_statistics(table, ["macro_tau"])["macro_tau"]
    assert (result.n_models, result.n_clusters) == (6, 3)


def literal_tau(x: Any, y: Any, unit: Any, counts: Any) -> float:
    """Return τ-b over pairs of rows; copies of one unit are not compared with each other."""
    drawn = [
        (row, unit[row], copy) for row in range(len(x)) for copy in range(int(counts[unit[row]]))
    ]
    net = x_untied = y_untied = 0
    for first, unit_first, copy_first in drawn:
        for other, unit_other, copy_other in drawn:
            if unit_first == unit_other and copy_first != copy_other:
                continue
            signs = np.sign(x[first] - x[other]), np.sign(y[first] - y[other])
            net += signs[0] * signs[1]
            x_untied += abs(signs[0])
            y_untied += abs(signs[1])
    return float(net / np.sqrt(x_untied * y_untied))


def test_copies_of_a_configuration_are_not_compared_with_each_other() -> None:
    rng = np.random.default_rng(1)
    unit = np.array([0, 0, 1, 1, 1, 2, 3, 3])
    x, y = rng.integers(0, 4, 8), rng.integers(0, 5, 8)
    weights = np.array([[1.0, 2, 0], [1, 0, 2], [1, 1, 1], [1, 1, 1]])
    found = weighted_tau(dense_ranks(x.astype(float)), dense_ranks(y.astype(float)),
                         PairUnits(unit, weights))  # fmt: skip
    expected = [literal_tau(x, y, unit, weights[:, r]) for r in range(3)]
    assert found == pytest.approx(expected)
    assert found[0] == pytest.approx(kendalltau(x, y).statistic)


def test_blocks_and_single_precision_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = study(models=20)
    expected = bootstrap_statistics(table, ["micro_tau", "mae"], resample_domains=False)
    monkeypatch.setattr("oodometer.studies.analysis._weighted_statistics.SIGN_BLOCK_ROWS", 7)
    monkeypatch.setattr("oodometer.studies.analysis._weighted_statistics.MAX_DOUBLE_UNITS", 1)
    monkeypatch.setattr(model_bootstrap, "MAX_WEIGHTS", 50_000)
    found = bootstrap_statistics(table, ["micro_tau", "mae"], resample_domains=False)
    for name, result in found.items():
        assert np.allclose(result.replicates, expected[name].replicates, equal_nan=True)


def test_rank_correlation_equals_that_of_copied_rows() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 5, 12).astype(float), rng.integers(0, 6, 12).astype(float)
    counts = rng.integers(0, 4, (12, 3))
    found = weighted_spearman(x, y, counts.astype(float))
    expected = [
        spearmanr(np.repeat(x, counts[:, r]), np.repeat(y, counts[:, r])).statistic
        for r in range(3)
    ]
    assert found == pytest.approx(expected)


def literal_rho(table: EvaluationTable, statistic: str, measure: str) -> float:
    """Return a rank correlation with the error, pair by pair."""
    outside = table.select_rows(~table.in_distribution)
    error, x = 1 - outside.accuracy, outside.measures[measure]
    if statistic == "joint_rho":
        known = ~np.isnan(x)
        return abs(float(spearmanr(x[known], error[known]).statistic))
    values, tasks = [], []
    for i in np.unique(outside.trained_on):
        for o in np.unique(outside.tested_on):
            rows = (outside.trained_on == i) & (outside.tested_on == o)
            if rows.any():
                y = error[rows]
                if statistic == "adjusted_rho":
                    y = residuals(outside.measures["ID error"][rows], y)
                known = ~np.isnan(x[rows])
                values.append(spearmanr(x[rows][known], y[known]).statistic)
                tasks.append(outside.columns["task"][int(np.flatnonzero(rows)[0])])
    models = np.ones(len(values), dtype=np.int64)
    return float(average_over_pairs(np.array(values), models, np.array(tasks))[0])


@pytest.mark.parametrize("statistic", ["joint_rho", "pair_rho", "adjusted_rho"])
def test_correlations_with_error_equal_those_of_copied_rows(statistic: str) -> None:
    table = study(architectures=1)
    skill = dict(zip(table.model, table.accuracy, strict=True))
    id_error = np.array([1 - skill[m] for m in table.model])
    table = replace(table, measures={**table.measures, "ID error": id_error})
    result = bootstrap_statistics(table, [statistic], measures=["doc"], resample_domains=False)
    drawn = result[statistic]
    assert drawn.value("doc") == pytest.approx(literal_rho(table, statistic, "doc"))
    for r, counts in enumerate(first_draws(table, 3, by_architecture=False)):
        expected = literal_rho(copied(table, counts), statistic, "doc")
        assert drawn.replicates[0, r] == pytest.approx(expected)


def test_estimation_error_is_the_mean_over_evaluations_out_of_distribution() -> None:
    table = study()
    result = bootstrap_statistics(table, ["estimation_error"], resample_domains=False)
    errors = 100 * np.abs(table.measures["doc"] - table.accuracy)[~table.in_distribution]
    assert result["estimation_error"].value("doc") == pytest.approx(errors.mean())
    copy = copied(table, first_draws(table, 1, by_architecture=False)[0])
    errors = 100 * np.abs(copy.measures["doc"] - copy.accuracy)[~copy.in_distribution]
    assert result["estimation_error"].replicates[1, 0] == pytest.approx(errors.mean())


def test_siegel_gap_is_the_distance_of_the_robust_line_from_the_diagonal() -> None:
    table = study(domains=6)
    result = bootstrap_statistics(table, ["siegel_gap"], resample_domains=False)["siegel_gap"]
    outside = ~table.in_distribution
    truth, estimate = (
        np.array([side[outside & (table.tested_on == o)].mean() for o in range(6)])
        for side in (table.accuracy, table.measures["doc"])
    )
    line = repeated_median_line(truth, estimate)
    expected = 100 * np.mean([abs(line(t) - t) for t in truth])
    assert result.value("doc") == pytest.approx(expected)


def test_spread_over_groups_is_that_of_the_comparison() -> None:
    table = study()
    result = bootstrap_statistics(table, ["macro_tau_sd"], resample_domains=False)["macro_tau_sd"]
    assert result.value("doc") == pytest.approx(
        compare_measures(table).summary("doc", "macro_tau").sd
    )


def test_sums_of_a_line_without_a_slope_predict_nothing() -> None:
    sums = LineSums.of_rows(np.zeros(3), np.array([0.1, 0.2, 0.3]), np.ones((3, 1)))
    assert np.isnan(sums.predict(np.array([1.0]))).all()


def simulated(rng: np.random.Generator, noise: tuple[float, float]) -> EvaluationTable:
    """Return a study whose groups share models: the noise of a measure is that of its model."""
    skill, first, second = rng.normal(size=(3, 3, 16, 1))
    scale = 0.05 * (skill + 0.5 * rng.normal(size=(3, 16, 4)))
    x, y = (skill + s * own + 0.3 * rng.normal(size=(3, 16, 4))
            for s, own in zip(noise, (first, second), strict=True))  # fmt: skip
    names = [(f"d{i}", f"{i}-{m}", f"d{o}") for i in range(3) for m in range(16) for o in range(4)]
    trained, model, tested = zip(*names, strict=True)
    return EvaluationTable.read({
        "model": model, "trained_on": trained, "tested_on": tested,
        "accuracy": np.clip(0.5 + scale.ravel(), 0, 1), "x": x.ravel(), "y": y.ravel(),
    })  # fmt: skip


def true_difference(noise: tuple[float, float]) -> float:
    """Return the difference of Kendall's τ of two normal pairs: τ = 2/π · asin(ρ)."""
    one, other = (2 / np.pi * np.arcsin(1 / np.sqrt(1.25 * (1.09 + s * s))) for s in noise)
    return float(one - other)


def groups_as_if_independent(table: EvaluationTable) -> tuple[float, float]:
    """Return mean ± two standard errors over groups, as if groups did not share models."""
    macro = next(s for s in compare_measures(table).scores if s.statistic == "macro_tau")
    off = macro.values[0] - macro.values[1]
    error = off.std(ddof=1) / np.sqrt(len(off))
    return float(off.mean() - 2 * error), float(off.mean() + 2 * error)


def test_interval_covers_the_true_difference_and_the_one_over_groups_does_not() -> None:
    noise = (0.6, 1.2)
    truth, rng, n = true_difference(noise), np.random.default_rng(5), 120
    covered = covered_by_groups = 0
    for j in range(n):
        table = simulated(rng, noise)
        result = compare_two_measures(table, "x", "y", replicates=1_000, seed=j)
        covered += result.low <= truth <= result.high
        low, high = groups_as_if_independent(table)
        covered_by_groups += low <= truth <= high
    # Binomial limits (99 %) of 120 intervals with a coverage of 95 %.
    assert 107 <= covered <= 119
    assert covered_by_groups < 100


def test_equal_measures_are_rarely_told_apart() -> None:
    rng, n = np.random.default_rng(6), 60
    verdicts = Counter(
        compare_two_measures(simulated(rng, (1.0, 1.0)), "x", "y", replicates=1_000, seed=j).verdict
        for j in range(n)
    )
    assert verdicts["undecided"] >= 52


def test_measures_are_compared_on_the_same_evaluations() -> None:
    table = study()
    result = compare_two_measures(table, "x", "doc")
    assert result.left_out == 1
    assert result.evaluations == (~table.in_distribution).sum() - 1
    both = table.select_rows(~np.isnan(table.measures["x"]))
    assert result.second_value == pytest.approx(
        compare_measures(both).summary("doc", "macro_tau").mean
    )


def test_errors_are_better_if_they_are_lower() -> None:
    table = study(models=20)
    worse = replace(table, measures={"doc": table.measures["doc"], "off": table.accuracy - 0.4})
    result = compare_two_measures(worse, "doc", "off", statistic="estimation_error")
    assert (result.high < 0, result.verdict) == (True, "held")
    other = compare_two_measures(worse, "off", "doc", statistic="estimation_error")
    assert other.verdict == "refuted"
    assert other.value == pytest.approx(-result.value)


def test_default_statistics_are_those_that_are_defined() -> None:
    table = study()
    results = compare_by_statistics(table, "x", "doc")
    assert set(results) == set(BOOTSTRAP_STATISTICS) & {
        "r2", "r2_pearson", "mae", "macro_tau", "micro_tau", "id_tau", "arch_tau", "cross_domain_tau",
    }  # fmt: skip
    estimates = replace(table, measures={"doc": table.measures["doc"], "ac": table.accuracy})
    assert "estimation_error" in compare_by_statistics(estimates, "doc", "ac")


def test_results_do_not_depend_on_the_order_of_rows() -> None:
    table = study()
    shuffled = table.select_rows(np.random.default_rng(0).permutation(len(table)))
    one, other = (compare_two_measures(t, "x", "doc") for t in (table, shuffled))
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_mistakes_are_reported() -> None:
    table = study()
    with pytest.raises(UnknownName, match="No measure is called 'y'"):
        compare_two_measures(table, "x", "y")
    with pytest.raises(UnknownName, match="statistic"):
        compare_two_measures(table, "x", "doc", statistic="tau")
    with pytest.raises(InputError, match="at least 1,000 replicates; got 100"):
        compare_two_measures(table, "x", "doc", replicates=100)
    alone = study(models=1)
    with pytest.raises(NotApplicable, match="single model configuration"):
        compare_two_measures(alone, "x", "doc")
    with pytest.raises(UnknownName, match="ID error"):
        bootstrap_statistics(table, ["adjusted_rho"])
    empty = replace(table, measures={"x": np.full(len(table), np.nan), "doc": table.accuracy})
    with pytest.raises(NotApplicable, match="values of both 'x' and 'doc'"):
        compare_two_measures(empty, "x", "doc")
