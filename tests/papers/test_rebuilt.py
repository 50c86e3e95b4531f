"""Shared parts of the reproduced experiments: pages, aligned neighbors, published values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.studies import _comparison_page, _pages
from benchmarks.studies._aligned_translations import Aligned
from benchmarks.studies._claims import ClaimResult
from benchmarks.studies._pages import Page
from benchmarks.studies._published_figures import NI, NI_COLUMNS
from benchmarks.studies.agreement_cifar import ModelClasses, on_the_line, predicted
from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable

PAGE = Page(
    name="made", title="Made", done="Nothing.", tables={"One": (("a", "b"), [("1", "2")])},
    differs="It does not.",
    results=[ClaimResult.of("toys-spurious-atc", "0.1 points at most", holds=True)],
    scale=_pages.Scale(models=3, evaluations=12, configurations=1, seeds=3),
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
    assert "| **held** | the error of ATC is within the bound of Theorem 3" in text
    assert "**Scale:** 3 models; 1 configurations × 3 seeds; 12 evaluations." in text
    stored = json.loads((tmp_path / "studies" / "made.json").read_text())
    assert stored["claims"][0]["verdict"] == "held"
    assert (stored["scale"]["models"], stored["reliability"]) == (3, None)
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


def compared_table(n: int = 90) -> EvaluationTable:
    rng = np.random.default_rng(0)
    accuracy = rng.random(n)
    return EvaluationTable.read({
        "model": [f"m{j // 3}" for j in range(n)], "trained_on": ["ab"[j // 3 % 2] for j in range(n)],
        "tested_on": ["abc"[j % 3] for j in range(n)], "accuracy": accuracy, "n": [400] * n,
        "seed": [j // 6 % 2 for j in range(n)], "recipe.lr": [j // 12 for j in range(n)],
        "ni-randaugment": accuracy, "atc-mc": rng.random(n),
    })  # fmt: skip


def test_published_values_are_in_brackets() -> None:
    (caption, (head, rows)), = _comparison_page.statistics_table(
        compare_measures(compared_table()), "CI10"
    ).items()  # fmt: skip
    cell = dict(zip(head, rows[0], strict=True))
    assert (
        "± standard deviation over 2 seeds; in brackets the paper's (NI Table 2, CI10)" in caption
    )
    assert rows[0][0] == "ni-randaugment"
    assert cell["Macro τ"] == "1.000 ± 0.000 (0.768)"
    assert cell["MAE"] == "0.00 ± 0.00 (3.11)"
    assert "(" not in cell["Cross-domain τ"]
    assert all(len(row) == len(NI_COLUMNS) for task in NI.values() for row in task.values())


def test_errors_of_estimators_have_intervals_by_shift() -> None:
    table = compared_table()
    shifts = tuple("natural" if table.domains[o] == "c" else "other" for o in table.tested_on)
    with_shift = replace(table, columns={**table.columns, "shift": shifts})
    (_, (head, rows)), = _comparison_page.estimation_table(with_shift).items()  # fmt: skip
    assert head == ("estimator", "all: MAE, 95 % interval", "natural: MAE, 95 % interval",
                    "other: MAE, 95 % interval", "sd over seeds")  # fmt: skip
    assert [row[0] for row in rows] == ["atc-mc"]
    errors = 100 * np.abs(table.measures["atc-mc"] - table.accuracy)[~table.in_distribution]
    assert rows[0][1].startswith(f"{errors.mean():.2f} (")


def test_page_is_written_from_the_rows_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pages, "PAGES", tmp_path)
    table = compared_table()
    rows = pa.Table.from_pylist([
        {"model": table.models[table.model[r]], "architecture": "head",
         "trained_on": table.training(table.trained_on[r]), "tested_on": table.domains[table.tested_on[r]],
         "accuracy": table.accuracy[r], "measure": name, "value": float(values[r]), "n": 400,
         "seed": int(table.columns["seed"][r])}
        for name, values in table.measures.items() for r in range(len(table))
    ])  # fmt: skip
    text = _comparison_page.StudyText(
        name="pacs", title="Made up", done="Nothing was trained.", differs="It is made up.",
        task="CI10", heads=True,
    )  # fmt: skip
    _comparison_page.write_comparison_page(
        text, rows, measures=("ni-randaugment", "atc-mc", "gde"), pair=("ni-randaugment", "atc-mc"),
        shift=lambda trained_on, tested_on: "natural", picture=Chart(),
    )  # fmt: skip
    page = (tmp_path / "pacs.md").read_text()
    assert "They stand in for the whole networks that the paper trains." in page
    assert "**Reliability of the true accuracies**" in page
    verdicts = {c["id"]: c for c in json.loads((tmp_path / "pacs.json").read_text())["claims"]}
    assert verdicts["pacs-ni-randaugment-vs-atc-mc-macro"]["verdict"] == "held"
    assert verdicts["pacs-atc-mc-vs-gde-error"]["verdict"] == "no verdict"
    assert set(pq.read_table(tmp_path / "pacs.parquet")["shift"].to_pylist()) == {"natural"}


def test_accuracies_are_reported_id_and_ood() -> None:
    table = EvaluationTable.read({
        "model": ["m", "m", "n", "n"], "trained_on": ["a"] * 4, "tested_on": [*"abab"],
        "accuracy": [0.9, 0.3, 0.9, 0.3],
    }, measures=())  # fmt: skip
    assert _comparison_page.accuracies(table) == (
        "Accuracies (central 90 %): 90 to 90 % in distribution, 30 to 30 % out of distribution."
    )


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
