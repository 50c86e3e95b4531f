"""Comparison with a reference test set against loops, scipy and published tables."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import special, stats

from oodometer.core.errors import InputError
from oodometer.studies import compare_measures
from oodometer.studies.analysis.robustness import (
    AccuracyScale,
    compare_with_reference,
    correlate_groups,
    correlate_test_sets,
    effective_robustness,
    from_scale,
    shared_prefixes,
    to_scale,
)
from oodometer.studies.analysis.scatter_patterns import pattern_from_accuracies
from oodometer.studies.analysis.wide_table import AccuracyMatrix
from tests.support.research_data import require_data

SCALES: tuple[AccuracyScale, ...] = ("plain", "logit", "probit")


def made(seed: int = 0, models: int = 30, sets: int = 5, gaps: float = 0.2) -> AccuracyMatrix:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.2, 0.95, models)
    accuracy = np.clip(base[:, None] - rng.uniform(0, 0.3, (models, sets)), 0.0, 1.0).round(2)
    accuracy[rng.random(accuracy.shape) < gaps] = np.nan
    names = tuple(f"s{j}" for j in range(sets))
    return AccuracyMatrix(tuple(f"m{j}" for j in range(models)), names, accuracy)


def scaled(value: float, scale: AccuracyScale) -> float:
    if scale == "plain":
        return value
    if not 0 < value < 1:
        return math.nan
    return math.log(value / (1 - value)) if scale == "logit" else float(stats.norm.ppf(value))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", [0, 1])
def test_comparisons_match_naive_formulas(scale: AccuracyScale, seed: int) -> None:
    wide = made(seed)
    found = compare_with_reference(wide, "s1", scale=scale)
    assert [one.name for one in found] == ["s0", "s2", "s3", "s4"]
    for one in found:
        points = [
            (float(x), float(y), model)
            for x, y, model in zip(
                wide.accuracy_on("s1"), wide.accuracy_on(one.name), wide.models, strict=True
            )
            if not math.isnan(x + y)
        ]
        x, y = [x for x, *_ in points], [y for _, y, _ in points]
        assert one.models == len(points)
        assert one.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
        assert one.pattern == pattern_from_accuracies(
            wide.accuracy_on("s1"), wide.accuracy_on(one.name)
        )
        assert one.gap.value == pytest.approx((np.mean(x) - np.mean(y)) / np.mean(x))
        inner = [(scaled(x, scale), scaled(y, scale), y, model) for x, y, model in points]
        inner = [point for point in inner if not math.isnan(point[0] + point[1])]
        line = stats.linregress([point[0] for point in inner], [point[1] for point in inner])
        back = {"plain": lambda v: v, "logit": special.expit, "probit": stats.norm.cdf}[scale]
        left = {m: y - back(line.slope * x + line.intercept) for x, _, y, m in inner}
        assert one.pearson == pytest.approx(line.rvalue)
        assert one.fit is not None
        assert one.fit.models == len(inner)
        assert one.fit.line.slope == pytest.approx(line.slope)
        assert one.fit.line.intercept == pytest.approx(line.intercept)
        assert one.fit.r2 == pytest.approx(line.rvalue**2)
        assert one.fit.residual_sd == pytest.approx(np.std(list(left.values()), ddof=1))
        assert one.fit.most == pytest.approx(max(left.values()))
        assert left[one.fit.most_robust] == pytest.approx(max(left.values()))
        robustness = effective_robustness(wide, "s1", scale=scale)[:, wide.column_index(one.name)]
        for model, value in zip(wide.models, robustness, strict=True):
            assert value == pytest.approx(left.get(model, math.nan), nan_ok=True)


def test_robustness_on_the_reference_is_zero() -> None:
    left = effective_robustness(made(), "s0", scale="plain")[:, 0]
    np.testing.assert_allclose(left[~np.isnan(left)], 0.0, atol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_scales_are_invertible(scale: AccuracyScale) -> None:
    inner = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(from_scale(to_scale(inner, scale), scale), inner)
    ends = to_scale(np.array([0.0, 1.0, np.nan]), scale)
    assert np.isnan(ends).tolist() == ([False, False, True] if scale == "plain" else [True] * 3)


def test_matrix_of_test_sets_matches_scipy() -> None:
    wide = made(3)
    found = correlate_test_sets(wide)
    for i in range(5):
        for j in range(5):
            both = ~np.isnan(wide.accuracy[:, i] + wide.accuracy[:, j])
            expected = stats.spearmanr(wide.accuracy[both, i], wide.accuracy[both, j]).statistic
            assert found.values[i, j] == pytest.approx(expected)
            assert found.n_rows[i, j] == both.sum()


def test_group_correlations_average_over_different_sets() -> None:
    wide = made(4, sets=6)
    constant = np.concatenate([wide.accuracy, np.full((30, 1), 0.5)], axis=1)
    wide = AccuracyMatrix(
        wide.models, ("c.1", "c.2", "c.3", "v2-0.7", "p.1", "p.2", "c.4"), constant
    )
    each, found = correlate_test_sets(wide), correlate_groups(wide)
    assert found.first == found.second == ("c", "v2-0.7", "p")
    members = {"c": [0, 1, 2, 6], "v2-0.7": [3], "p": [4, 5]}
    for first in found.first:
        for second in found.second:
            cells = [(i, j) for i in members[first] for j in members[second]
                     if first != second or i > j or len(members[first]) == 1]  # fmt: skip
            values = [float(each.values[cell]) for cell in cells if not np.isnan(each.values[cell])]
            score = found.score(first, second)
            assert score["value"] == pytest.approx(np.mean(values))
            assert (score["pairs"], score["left_out"]) == (len(values), len(cells) - len(values))
            assert score["models"] == sum(
                each.n_rows[c] for c in cells if not np.isnan(each.values[c])
            )
            spread = np.std(values, ddof=1) if len(values) > 1 else None
            assert score["sd"] == (None if spread is None else pytest.approx(spread))
    assert found.score("c", "c")["left_out"] == 3
    assert found.score("v2-0.7", "v2-0.7")["value"] == pytest.approx(1.0)
    named = correlate_groups(wide, groups={"c.1": "mine", "v2-0.7": "mine"})
    assert named.first == ("mine", "c.2", "c.3", "p.1", "p.2", "c.4")


def test_prefix_must_be_shared() -> None:
    assert shared_prefixes(("a.1", "b", "b.2", "c.1", "c.2")) == {"c.1": "c", "c.2": "c"}


def test_sets_with_too_few_models_have_no_values() -> None:
    nan = math.nan
    accuracy = np.array(
        [[0.1, nan, 0.5, 0.2], [0.2, nan, 0.5, nan], [0.3, 0.2, 0.5, 0.1], [0.4, 0.1, 0.5, nan]]
    )
    wide = AccuracyMatrix(("a", "b", "c", "d"), ("val", "few", "same", "two"), accuracy)
    few, same, two = compare_with_reference(wide, "val")
    assert (few.models, few.spearman, few.fit) == (2, None, None)
    assert (two.models, two.pattern.name) == (2, None)
    assert same.spearman is None
    assert same.fit is not None
    assert same.fit.r2 is None
    assert same.fit.residual_sd == pytest.approx(0.0, abs=1e-12)
    flat = compare_with_reference(wide, "same")
    assert [one.fit for one in flat] == [None, None, None]
    text = json.dumps([one.to_dict() for one in (*flat, few, same, two)], allow_nan=False)
    assert json.loads(text)[4]["fit"]["line"]["slope"] == pytest.approx(0.0, abs=1e-12)


def test_unknown_names_raise() -> None:
    wide = made()
    with pytest.raises(InputError, match=r"No test set is called 'ImageNet'. There are: s0, s1"):
        compare_with_reference(wide, "ImageNet")
    with pytest.raises(InputError, match=r"No scale is called 'logits'. Did you mean 'logit'"):
        compare_with_reference(wide, "s0", scale="logits")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="No test set is called 's9'"):
        correlate_groups(wide, groups={"s9": "mine"})


def test_tables_are_read_from_files_frames_and_columns(tmp_path: Path) -> None:
    columns = {"model": ["a", "b", "c"], "val": [90.0, 80.0, 70.0], "new": [60.0, 55.0, None]}
    frame = pandas.DataFrame(columns)
    frame.to_csv(tmp_path / "accuracies.csv", index=False)
    results = [
        compare_with_reference(table, "val")
        for table in (columns, frame, tmp_path / "accuracies.csv", AccuracyMatrix.read(columns))
    ]
    assert all(result.to_dict() == results[0].to_dict() for result in results)
    assert repr(results[0]) == (
        "RobustnessComparison(reference='val', test_sets=1, models=3, scale='plain')"
    )
    assert results[0]["new"].models == 2
    with pytest.raises(InputError, match=r"No test set is called 'nwe'. Did you mean 'new'"):
        results[0]["nwe"]


def test_compare_measures_names_this_function_for_accuracies() -> None:
    table = {"model": ["a", "b"], "val": [0.9, 0.8], "new": [0.6, 0.5]}
    with pytest.raises(InputError, match=r"compare_with_reference\(table, reference\)"):
        compare_measures(table)


def test_frames_have_the_values_of_the_comparisons() -> None:
    wide = made()
    result = compare_with_reference(wide, "s1", scale="logit")
    sets = result.to_frame()
    assert sets["test_set"].tolist() == [one.name for one in result]
    assert sets["spearman"].tolist() == [one.spearman for one in result]
    assert sets["slope"].tolist() == [one.fit.line.slope for one in result if one.fit is not None]
    models = result.to_frame("models")
    assert len(models) == sum(one.models for one in result)
    robustness = effective_robustness(wide, "s1", scale="logit")
    row = models.iloc[-1]
    place = wide.models.index(row["model"]), wide.test_sets.index(row["test_set"])
    assert row["effective_robustness"] == robustness[place]
    assert row["accuracy"] == wide.accuracy[place]


@pytest.mark.realdata
def test_published_tables_show_imagenet_predicts_imagenetv2() -> None:
    timm = AccuracyMatrix.read(require_data("results/timm_results_top1.csv.gz"))
    assert (timm.accuracy.shape, timm.other_columns) == ((1557, 8), ("img_size",))
    second = next(
        one for one in compare_with_reference(timm, "imagenet") if one.name.startswith("imagenetv2")
    )
    assert (second.models, second.pattern.name) == (1556, "functional")
    assert second.spearman is not None
    assert second.spearman > 0.99
    testbed = AccuracyMatrix.read(require_data("results/imagenet_testbed_top1.csv.gz"))
    assert testbed.accuracy.shape == (338, 213)
    patterns = {one.name: one.pattern.name for one in compare_with_reference(testbed, "val")}
    assert patterns["imagenetv2-matched-frequency"] == "functional"
    assert patterns["pgd.linf.eps2"] == "horizontal"
    groups = correlate_groups(testbed)
    imagenet_c = groups.score("val", "imagenet-c")["value"]
    assert 0.8 < imagenet_c < 0.9
    assert groups.score("val", "pgd")["value"] < 0.4
