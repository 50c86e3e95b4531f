"""Regimes, caches and resumption of the benchmark suites, on synthetic outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.suites import results
from benchmarks.suites.case import (
    MIN_TARGET_ROWS,
    Case,
    CaseKey,
    draw_frequencies,
    iterate_cases,
    make_case,
    plan_cases,
    rows_with_frequencies,
)
from benchmarks.suites.leave_one_out import folds, related_suites
from benchmarks.suites.outputs import INDEX, Outputs, group_outputs
from benchmarks.suites.registry import SUITES, select
from benchmarks.suites.suite import HOME, REGIMES, Domain, Suite, Workspace
from oodometer.assessment.typical_range import COVARIATES
from oodometer.core.array_types import Floats, Ints

K = 4


def outputs_of(seed: int, n: int, strength: float) -> tuple[Ints, Floats]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n)
    logits = rng.normal(size=(n, K))
    logits[np.arange(n), labels] += strength
    probs = np.exp(logits)
    return labels, probs / probs.sum(axis=1, keepdims=True)


def synthetic_domains(space: Workspace, group: str) -> Iterator[Domain]:
    for seed, (name, strength) in enumerate(((HOME, 2.0), ("far", 1.0), ("near", 1.8))):
        labels, first = outputs_of(seed, 1500, strength)
        yield Domain(name, labels, {"first": first, "second": np.roll(first, 1, axis=0)})


def synthetic_groups(space: Workspace) -> Sequence[str]:
    return ("only group",)


SUITE = Suite(
    name="synthetic",
    family="synthetic",
    k=K,
    groups=synthetic_groups,
    predict=synthetic_domains,
    outputs="synthetic",
    cases=8,
)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "data", tmp_path / "work")


def cases_of(space: Workspace, suite: Suite = SUITE) -> list[Case]:
    return list(iterate_cases(space, suite))


def test_rows_have_the_required_class_frequencies() -> None:
    labels = np.random.default_rng(0).integers(0, 3, 3000)
    frequencies = np.array([0.7, 0.25, 0.05])
    rows = rows_with_frequencies(np.random.default_rng(1), labels, frequencies, 400)
    assert len(rows) == len(np.unique(rows)) == 400
    np.testing.assert_array_equal(np.bincount(labels[rows]), [280, 100, 20])


def test_rows_are_fewer_if_a_class_is_rare() -> None:
    labels = np.repeat([0, 1], [900, 200])
    rows = rows_with_frequencies(np.random.default_rng(0), labels, np.array([0.2, 0.8]), 1000)
    np.testing.assert_array_equal(np.bincount(labels[rows]), [50, 200])


def test_impossible_frequencies_are_mixed_with_those_of_the_labels() -> None:
    labels = np.repeat([0, 1], [900, 20])
    rows = rows_with_frequencies(np.random.default_rng(0), labels, np.array([0.1, 0.9]), 500)
    assert MIN_TARGET_ROWS <= len(rows) == len(np.unique(rows))
    assert np.bincount(labels[rows])[1] <= 20


def test_drawn_frequencies_follow_the_dirichlet_distribution() -> None:
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.2])
    drawn = np.stack([draw_frequencies(rng, 1.0, shares, "uniform") for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=0), 1 / 3, atol=0.02)
    np.testing.assert_allclose(drawn.var(axis=0), 1 / 18, atol=0.01)


def test_rare_classes_stay_rare_with_the_base_source() -> None:
    rng = np.random.default_rng(0)
    shares = np.array([0.97, 0.03])
    drawn = [draw_frequencies(rng, 1.0, shares, "source")[1] for _ in range(999)]
    assert 0.01 < np.median(drawn) < 0.06


def test_classes_without_rows_are_not_drawn() -> None:
    drawn = draw_frequencies(np.random.default_rng(0), 1.0, np.array([0.5, 0.0, 0.5]), "uniform")
    assert drawn[1] == 0
    assert drawn.sum() == pytest.approx(1)


def test_plan_has_all_regimes_of_each_model_and_target(space: Workspace) -> None:
    groups = {"only group": group_outputs(space, SUITE, "only group")}
    keys = plan_cases(SUITE, groups, 40)
    assert len({key.text for key in keys}) == len(keys) == 40
    assert {key.regime for key in keys} == set(REGIMES)
    assert {(key.model, key.target) for key in keys} == {
        (model, target) for model in ("first", "second") for target in ("far", "near")
    }


def test_source_and_target_are_disjoint_parts_of_the_same_data_without_shift(
    space: Workspace,
) -> None:
    for case in cases_of(space):
        if case.key.regime in ("none", "label"):
            assert not set(case.source_rows) & set(case.target_rows)


def test_regimes_draw_the_domains_and_frequencies_they_are_named_after(space: Workspace) -> None:
    outputs = group_outputs(space, SUITE, "only group")
    home, far = outputs.read(HOME), outputs.read("far")
    cases = {regime: make_case(SUITE, CaseKey("only group", "first", "far", regime, 0), home, far)
             for regime in REGIMES}  # fmt: skip
    for regime, case in cases.items():
        rows = home if regime in ("none", "label") else far
        target_labels = case.target.labels
        assert target_labels is not None
        np.testing.assert_array_equal(target_labels, rows.labels[case.target_rows])
        np.testing.assert_allclose(case.target.probs, rows.probs["first"][case.target_rows])
        assert len(np.unique(case.target_rows)) == case.target.n
        shares = np.bincount(target_labels, minlength=K) / case.target.n
        assert (np.abs(shares - 1 / K).max() > 0.1) == (regime in ("label", "both"))
        assert np.isnan(case.alpha) == (regime in ("none", "shift"))


def test_neither_side_is_tiny_if_there_are_few_held_out_rows() -> None:
    labels, probs = outputs_of(0, 500, 2.0)
    home = Outputs(labels, {"first": probs})
    for draw in range(30):
        for regime in ("none", "label"):
            case = make_case(SUITE, CaseKey("g", "first", "far", regime, draw), home, home)
            assert case.source.n >= 200
            assert case.target.n >= (150 if regime == "none" else 100)
            assert not set(case.source_rows) & set(case.target_rows)


def test_cases_are_the_same_when_they_are_made_again(space: Workspace) -> None:
    first, second = cases_of(space), cases_of(space)
    assert [case.key for case in first] == [case.key for case in second]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.target_rows, other.target_rows)
        np.testing.assert_array_equal(one.source.probs, other.source.probs)


def test_probabilities_are_rounded_and_thresholds_applied() -> None:
    labels, probs = np.array([0, 1, 1]), np.array([[0.666, 0.334], [0.2, 0.8], [0.9, 0.1]])
    outputs = Outputs(labels, {"model": probs})
    rows = np.arange(3)
    rounded = outputs.predictions(replace(SUITE, k=2, decimals=1), "model", rows)
    np.testing.assert_allclose(rounded.probs[:, 1], [0.3, 0.8, 0.1])
    decided = outputs.predictions(replace(SUITE, k=2, threshold=0.3), "model", rows)
    np.testing.assert_array_equal(decided.classes, [1, 1, 0])


def test_signals_have_no_cases_with_label_shift(space: Workspace) -> None:
    suite = replace(SUITE, signals_only=True)
    groups = {"only group": group_outputs(space, suite, "only group")}
    assert {key.regime for key in plan_cases(suite, groups, 6)} == {"none", "shift"}


def test_outputs_of_an_unfinished_group_are_computed_again(space: Workspace) -> None:
    def killed(space: Workspace, group: str) -> Iterator[Domain]:
        yield next(synthetic_domains(space, group))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        group_outputs(space, replace(SUITE, predict=killed), "only group")
    outputs = group_outputs(space, SUITE, "only group")
    assert outputs.targets == ["far", "near"]
    assert (outputs.folder / INDEX).exists()

    def fails(space: Workspace, group: str) -> Iterator[Domain]:
        raise AssertionError("the outputs are complete")

    assert group_outputs(space, replace(SUITE, predict=fails), "only group").models == [
        "first", "second",
    ]  # fmt: skip


def test_a_killed_build_resumes(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def row(case: Case, replicates: int) -> dict[str, Any]:
        if len(computed) == 3:
            computed.append("killed")
            raise KeyboardInterrupt
        computed.append(case.key.text)
        return {"key": case.key.text, "truth": 0.5}

    monkeypatch.setattr(results, "result_row", row)
    with pytest.raises(KeyboardInterrupt):
        results.build(space, SUITE)
    lines = space.folder / "results" / "synthetic.jsonl"
    with lines.open("a") as file:
        file.write('{"key": "unfinished')
    path = results.build(space, SUITE)
    stored = [json.loads(line)["key"] for line in lines.read_text().splitlines()]
    computed.remove("killed")
    assert sorted(stored) == sorted(computed)
    assert len(set(computed)) == len(computed) == SUITE.cases
    assert path.exists()


def test_rows_have_estimates_diagnostics_and_covariates(space: Workspace) -> None:
    case = next(case for case in cases_of(space) if case.key.regime == "both")
    row = results.result_row(case, 20)
    assert results.key_of(row) == case.key
    assert row["truth"] == case.target.correct.mean()
    assert 0 <= row["est_cot"] <= 1
    assert row["status_domain_auc"] in ("ok", "warning", "critical")
    assert row["headline"] == row["est_regime"]
    assert row["regime_auc_reweighted"] < row["regime_auc"] + 0.05
    assert {"confidence", "confidence_after_label_shift", "transport"} <= set(row)
    assert {"weight_confidence", "weight_label_shift", "weight_transport"} <= set(row)
    assert case.source.labels is not None
    assert row["smallest_class"] == np.bincount(case.source.labels, minlength=K).min()
    assert row["ks_noise"] == pytest.approx(np.sqrt(1 / case.source.n + 1 / case.target.n))
    # The second model changes the estimate of the headline method.
    assert row["est_regime-others"] != row["est_regime"]


def test_batches_of_the_source_are_stored_with_covariates(space: Workspace) -> None:
    case = next(case for case in cases_of(space) if case.key.regime == "none")
    batches = json.loads(results.result_row(case, 20)["source_batches"])
    assert len(batches) >= 5
    for estimate, accuracy, *covariates in batches:
        assert 0 <= estimate <= 1
        assert 0 <= accuracy <= 1
        assert len(covariates) == len(COVARIATES)


def test_reweighting_to_the_class_frequencies_explains_label_shift(space: Workspace) -> None:
    outputs = group_outputs(space, SUITE, "only group")
    home = outputs.read(HOME)
    rows = [
        results.result_row(
            make_case(SUITE, CaseKey("only group", "first", "far", "label", draw), home, home), 20
        )
        for draw in range(4)
    ]
    before, after = (
        np.mean([row[name] for row in rows]) for name in ("regime_auc", "regime_auc_reweighted")
    )
    assert after < 0.56
    assert after < before


def test_suites_with_the_same_outputs_are_in_one_family() -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES) >= 12
    families: dict[str, set[str]] = {}
    for suite in SUITES:
        families.setdefault(suite.outputs, set()).add(suite.family)
    assert all(len(names) == 1 for names in families.values())
    assert sum(suite.cases for suite in SUITES) >= 3000
    assert {20, 200} <= {suite.k for suite in SUITES}


def test_related_suites_leave_together() -> None:
    import pandas as pd

    groups = related_suites(same_body=False)
    assert sorted(name for group in groups for name in group) == sorted(s.name for s in SUITES)
    assert ["pacs"] in groups
    by_body = next(group for group in related_suites() if "pacs" in group)
    assert {"cifar", "cifar-networks", "tiny-imagenet"} <= set(by_body)
    table = pd.DataFrame({"suite": ["adult", "adult", "adult-rounded", "demo"]})
    found = {name: (list(rest["suite"]), len(rows)) for name, rest, rows in folds(table, groups)}
    assert found == {
        "adult": (["demo"], 2),
        "adult-rounded": (["demo"], 1),
        "demo": (["adult", "adult", "adult-rounded"], 1),
    }


def test_unknown_suites_are_reported() -> None:
    assert [suite.name for suite in select(["pacs"])] == ["pacs"]
    with pytest.raises(SystemExit, match="no suite or family 'nothing'"):
        select(["nothing"])
