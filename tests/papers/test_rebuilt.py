"""Shared parts of the reproduced experiments: pages, aligned neighbors, published values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.studies import _comparison_page, _pages, ablations, ao
from benchmarks.studies._aligned_translations import Aligned
from benchmarks.studies._pages import Claim, Page
from benchmarks.studies._published_figures import NI, NI_COLUMNS
from benchmarks.studies.agreement_cifar import ModelClasses, on_the_line, predicted
from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.averaged_correlations import (
    AveragedCorrelations,
    adjusted_correlations,
    average_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import table_factor_analysis

PAGE = Page(
    name="made", title="Made", done="Nothing.", tables={"One": (("a", "b"), [("1", "2")])},
    differs="It does not.", claims=[Claim("it holds", False, "0 of 1.")],
)  # fmt: skip


class Chart:
    """Stand-in for a chart."""

    def save(self, path: Path, scale_factor: float) -> None:
        path.write_bytes(b"drawn")


def test_page_table_and_chart_name_their_commit_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_pages, "PAGES", tmp_path / "studies")
    monkeypatch.setattr(_pages, "commit", lambda: "abc123")
    _pages.write(PAGE, pa.table({"x": [1.5]}), Chart())
    text = (tmp_path / "studies" / "made.md").read_text()
    assert capsys.readouterr().out == text + "\n"
    assert "- Does not hold: it holds. 0 of 1." in text
    assert "| a | b |" in text
    assert "Commit abc123, seed 0." in text
    table = pq.read_table(tmp_path / "studies" / "made.parquet")
    assert table.to_pydict() == {"x": [1.5]}
    assert table.schema.metadata[b"commit"] == b"abc123"
    assert table.schema.metadata[b"seed"] == b"0"
    assert (tmp_path / "studies" / "made.png").read_bytes() == b"drawn"


def test_neighbors_are_the_wordings_by_index() -> None:
    others = {("a", "b"): (("a1", "b1"), ("a2", "b2")), ("c", "d"): (("c1", "d1"), ("c2", "d2"))}
    aligned = Aligned("made", others)
    draws = RowStreams(0, np.arange(3, dtype=np.uint64), np.array([1, 2, 2]))
    found = aligned.apply([("a", "b"), ("a", "b"), ("c", "d")], draws)
    assert found == [("a1", "b1"), ("a2", "b2"), ("c2", "d2")]
    with pytest.raises(InputError, match="'a' has 2 other wordings, but draw 3 was requested"):
        aligned.apply([("a", "b")], RowStreams(0, np.zeros(1, dtype=np.uint64), np.array([3])))
    assert repr(aligned) == "Aligned('made', 2 pairs)"
    assert len({aligned, Aligned("made", dict(others))}) == 1  # studies compare transforms


def compared() -> Any:
    rng = np.random.default_rng(0)
    n = 30
    accuracy = rng.random(n)
    return compare_measures(EvaluationTable.read({
        "model": [f"m{j // 3}" for j in range(n)], "trained_on": ["ab"[j // 3 % 2] for j in range(n)],
        "tested_on": ["abc"[j % 3] for j in range(n)], "accuracy": accuracy,
        "ni-randaugment": accuracy, "atc-mc": rng.random(n),
    }))  # fmt: skip


def test_published_values_are_in_brackets() -> None:
    found = compared()
    head, rows = _comparison_page.printed(found, "CI10")
    cell = dict(zip(head, rows[0], strict=True))
    assert rows[0][0] == "ni-randaugment"
    assert cell["Macro τ"] == "1.000 ± 0.000 (0.768)"
    assert cell["MAE"] == "0.00 ± 0.00 (3.11)"
    assert "(" not in cell["Cross-domain τ"]
    assert all(len(row) == len(NI_COLUMNS) for task in NI.values() for row in task.values())


def test_better_measure_wins_by_higher_or_lower_values() -> None:
    found = compared()
    for statistic in ("macro_tau", "mae", "r2_pearson"):
        assert _comparison_page.better(found, statistic, "ni-randaugment", "atc-mc").holds
        assert _comparison_page.better(found, statistic, "atc-mc", "ni-randaugment").holds is False
    itself = _comparison_page.better(found, "macro_tau", "atc-mc", "atc-mc")
    assert itself.describe().startswith("- Does not hold")


def test_comparison_within_two_standard_errors_is_undecided() -> None:
    rng = np.random.default_rng(3)
    n = 60
    rows = {
        "model": [f"m{j // 6}" for j in range(n)], "trained_on": ["ab"[j // 6 % 2] for j in range(n)],
        "tested_on": ["cdefgh"[j % 6] for j in range(n)], "accuracy": rng.random(n),
        "first": rng.random(n), "second": rng.random(n),
    }  # fmt: skip
    found = _comparison_page.better(
        compare_measures(EvaluationTable.read(rows)), "macro_tau", "first", "second"
    )
    assert found.holds is None
    assert found.describe().startswith("- Undecided: first has a better Macro τ than second")


def test_comparison_is_reported_per_group() -> None:
    found = compared()
    scores = next(one for one in found.scores if one.statistic == "macro_tau")
    off = scores.values[scores.measures.index("ni-randaugment")]
    off = off - scores.values[scores.measures.index("atc-mc")]
    claim = _comparison_page.better(found, "macro_tau", "ni-randaugment", "atc-mc")
    assert f"better in 4 of 4 groups, by {off.mean():+.3f} ± " in claim.figures
    assert "within two standard errors" not in claim.figures
    even = compare_measures(EvaluationTable.read({
        "model": [*"klmn"] * 2, "trained_on": ["a"] * 8, "tested_on": [*"bbbbcccc"],
        "accuracy": [0.1, 0.2, 0.3, 0.4] * 2, "x": [1, 2, 3, 4, 4, 3, 2, 1],
        "y": [4, 3, 2, 1, 1, 2, 3, 5],
    }))  # fmt: skip
    figures = _comparison_page.better(even, "macro_tau", "x", "y").figures
    assert figures.startswith("0.000 against 0.000; better in 1 of 2 groups, by +0.000 ± 2.000")
    assert figures.endswith("within two standard errors.")


def test_accuracies_are_reported_id_and_ood() -> None:
    table = EvaluationTable.read({
        "model": ["m", "m", "n", "n"], "trained_on": ["a"] * 4, "tested_on": [*"abab"],
        "accuracy": [0.9, 0.3, 0.9, 0.3],
    }, measures=())  # fmt: skip
    assert _comparison_page.accuracies(table) == (
        "Accuracies (central 90 %): 90 to 90 % in distribution, 30 to 30 % out of distribution."
    )


def test_ablation_cells_keep_their_numbers() -> None:
    grid = ablations.Grid(("images", "τ"), [("500", "0.67 ± 0.05"), ("20", "–")])
    cells = ablations.long_rows({"size": ("words", grid)})
    assert [(cell["row"], cell["column"], cell["value"]) for cell in cells] == [
        ("500", "images", 500.0), ("500", "τ", 0.67), ("20", "images", 20.0), ("20", "τ", None),
    ]  # fmt: skip


def test_agreement_on_the_line_is_exact_if_models_find_the_same_rows_hard() -> None:
    """Then two models agree exactly where both are correct: at the lower of their accuracies."""
    rng = np.random.default_rng(0)
    labels, strength = rng.integers(0, 1000, 20_000), np.linspace(0.8, 1.8, 8)

    def classes(harder: float) -> ModelClasses:
        hard = rng.normal(size=len(labels)) + harder
        guesses = (labels + rng.integers(1, 1000, (8, len(labels)))) % 1000
        return ModelClasses(np.where(hard < strength[:, None], labels, guesses), labels)

    source, target = classes(0.0), classes(0.5)
    for found in on_the_line(source, target):
        assert np.abs(found - target.accuracy).max() < 0.01
    assert np.abs(source.accuracy - target.accuracy).min() > 0.05
    every = predicted(source, target)
    assert np.array_equal(every["source"], source.accuracy)
    assert all(len(one) == 8 for one in every.values())
    lesser = np.array([(target.classes[j] == target.classes[j - 1]).mean() for j in range(1, 8)])
    assert np.abs(every["gde"][1:] - lesser).max() < 1e-9


def ao_rows() -> dict[str, list[Any]]:
    """Return two tasks, with attacks and corruptions only for the first."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for task, domains in {"pacs": "ab", "sentiment": "cd"}.items():
        for number in range(24):
            home = domains[number % 2]
            for tested in [*domains, *([f"{home}/fog-3"] if task == "pacs" else [])]:
                values = {name: rng.random() for name in ao.METRICS}
                if task == "sentiment":
                    values["adversarial_error"] = float("nan")
                rows.append({"model": f"{task}-{number}", "trained_on": home, "tested_on": tested,
                             "accuracy": rng.random(), "task": task, "n": 100, **values,
                             "recipe.augment": ("none", "augmix")[number // 2 % 2],
                             "recipe.few_shot": 20 if number >= 22 else None})  # fmt: skip
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_correlation_page_counts_pairs_and_shows_missing_values() -> None:
    table = EvaluationTable.read(ao_rows(), measures=ao.METRICS)
    text = ao.page(table).text()
    assert "PACS (2 pairs;" in text
    assert "and reviews (2 pairs," in text
    assert "+0.49 in the paper" in text
    assert "Loadings on PACS after equamax" in text
    assert "those of 22 networks that are trained on full datasets; 2 others" in text
    assert "| variable " in text
    line = next(one for one in text.splitlines() if one.startswith("| ID adversarial_error"))
    assert [cell.strip() for cell in line.split("|")][5] == "–", "there are no attacks on texts"
    alone = table.select_rows(np.array([task == "sentiment" for task in table.columns["task"]]))
    beyond = adjusted_correlations(alone, metrics=["nll"])
    lone = {"ID error": 0.1, "ID nll": 0.2, "ID adversarial_error": 0.0}
    found = replace_scores(average_correlations(table, metrics=ao.METRICS), lone)
    claims = {one.words: one for one in ao.claims(found, beyond, table_factor_analysis(table))}
    unknown = claims["given ID error, the corrupted error adds nothing"]
    assert (unknown.holds, unknown.figures) == (False, "Not defined.")
    assert not claims["ID error is the best single predictor of OOD error"].holds


def replace_scores(found: AveragedCorrelations, scores: dict[str, float]) -> AveragedCorrelations:
    """Replace the correlations with OOD error; those not given become undefined."""
    values = np.full_like(found.overall.values, np.nan)
    column = list(found.overall.second).index(ao.OOD)
    for name, score in scores.items():
        values[list(found.overall.first).index(name), column] = score
    return replace(found, overall=replace(found.overall, values=values))
