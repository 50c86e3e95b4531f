"""Page of a study: sections, reasons for missing sections, escaping and size."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any

import numpy as np
import pytest

from oodometer import InputError
from oodometer.studies.analysis import (
    add_pretrained_accuracies,
    best_configurations,
    compare_measures,
    training_strategy_gaps,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations
from oodometer.studies.report._study_page import study_page
from oodometer.studies.report.id_ood_correlations import build_id_ood_correlation_section
from tests.report.conftest import HOSTILE
from tests.report.test_page import Elements, specs
from tests.support.fine_tuning_rows import PRETRAINED, fine_tuning_rows, to_table
from tests.support.study_tables import evaluation_columns, table_of

SECTIONS = (
    "measures",
    "scatters",
    "same",
    "correlated",
    "factors",
    "patterns",
    "difficult",
    "trained",
    "tuned",
    "choosing",
    "analyses",
    "assumed",
)


def page_of(table: EvaluationTable) -> str:
    return study_page(table, title="t", reproduce={"Command": "oodometer study compare x.csv"})


def without_charts(page: str) -> str:
    """Return the visible text of the page."""
    return " ".join(
        re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", "", page)).split()
    )


def values(page: str) -> int:
    """Return the number of data rows in all charts."""
    return sum(len(rows) for spec in specs(page) for rows in spec["datasets"].values())


def test_page_has_every_section() -> None:
    page = page_of(table_of(evaluation_columns()))
    words = without_charts(page)
    ids = {a["id"] for a in Elements(page).having("id")}
    assert {*SECTIONS, "reproduce"} <= ids
    assert {"related-spec", "scree-spec", "loadings-spec", "regret-spec", "overview-spec"} <= ids
    assert {"m0-0-spec", "m1-3-spec", "pair-3-spec"} <= ids
    assert (
        "3 measures compared over 72 evaluations of 24 models (1 architecture, 2 training sets)"
        in words
    )
    assert "By Macro τ, near is best: " in words
    assert "Joint regression of target error on measures" in words
    assert "Not shown, noise: The signal-to-noise ratio needs replicates" in words
    assert "oodometer study compare x.csv" in words


def test_page_of_fine_tuned_networks_draws_every_section() -> None:
    table = add_pretrained_accuracies(to_table(fine_tuning_rows()), PRETRAINED)
    page = page_of(table)
    words = without_charts(page)
    ids = {a["id"] for a in Elements(page).having("id")}
    assert "Not drawn" not in words
    assert {"averaged-spec", "task-2-spec", "shift-3-spec", "difficulty-0-spec"} <= ids
    assert {"strategies-2-spec", "augmentation-2-spec"} <= ids
    drawn = {
        spec["datasets"]["cells"][0]["y"] for spec in specs(page) if "cells" in spec["datasets"]
    }
    assert "1 · ID error" in drawn
    gap = training_strategy_gaps(table)[0]
    assert f"{100 * (gap.gap or 0):.1f}" in words
    best = best_configurations(table)[0]
    assert f"{best.id_error:.3f}" in words
    assert "Loadings after equamax" in words


def test_page_names_what_the_new_sections_lack() -> None:
    words = without_charts(page_of(table_of(evaluation_columns())))
    for reason in (
        "By task Not drawn: no task is known. Name the tasks in a column 'task'.",
        "By type of shift Not drawn: no type of shift is known.",
        "Not drawn: the difficulty of tasks needs at least two tasks",
        "Whole model or head only Not drawn: the table has no column 'recipe.part'",
        "Augmentation Not drawn: the table has no column 'recipe.augment'",
        "Not shown: the table has no measure 'source-error'",
        "the table has no columns 'pretrained.…'",
    ):
        assert reason in html.unescape(words), reason


def test_held_out_metrics_are_absent_from_a_task_with_one_ood_domain() -> None:
    section = build_id_ood_correlation_section(compare_measures(to_table(fine_tuning_rows())))
    assert section.figure.table is not None
    rows = [row[0] for row in section.figure.table.rows]
    assert any("held-out OOD error" in row for row in rows)
    fmow = next(figure for figure in section.tasks if figure.title == "fmow")
    assert fmow.table is not None
    assert not [row for row in fmow.table.rows if "held-out" in row[0]]
    # The numbers of the remaining rows are those of the matrix over all tasks.
    assert {row[0] for row in fmow.table.rows} < set(rows)


def test_small_table_names_reasons_for_missing_sections() -> None:
    columns: dict[str, list[Any]] = {
        "model": ["l", "m", "n"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
        "accuracy": [0.5, 0.6, 0.7], "ni": [1.0, 2.0, 3.0],
    }  # fmt: skip
    words = without_charts(page_of(table_of(columns)))
    assert "By Macro τ, ni has 1.00 in one group." in words
    assert "Not drawn: there is only one measure." in words
    assert "Not drawn: factor analysis needs at least 3 measures; the table has 1." in words
    assert "Not drawn: no model has an accuracy both on a domain that it was trained on" in words


def test_equal_accuracies_still_give_a_page() -> None:
    columns = evaluation_columns()
    columns["accuracy"] = [0.5] * len(columns["accuracy"])
    page = page_of(table_of(columns))
    words = without_charts(page)
    # A flat line predicts the constant accuracy, so only MAE is defined.
    assert "By MAE" in words
    assert "Macro τ" in words
    assert "Not drawn: fewer than two measures can be compared" in words


def test_table_without_any_value_gives_reasons() -> None:
    columns: dict[str, list[Any]] = {
        "model": ["l", "m"], "trained_on": ["a"] * 2, "tested_on": ["b"] * 2,
        "accuracy": [0.5, 0.5], "ni": [math.nan, math.nan],
    }  # fmt: skip
    words = without_charts(page_of(table_of(columns)))
    assert "No statistic can be computed: " in words
    assert "Missing values: 2 of 2, 2 of them for ni." in words
    assert "Not drawn: no measure has values for 3 models on one domain" in words


def test_table_with_only_id_rows_uses_id_tau() -> None:
    columns = evaluation_columns()
    rows = [j for j, name in enumerate(columns["tested_on"]) if name == columns["trained_on"][j]]
    words = without_charts(page_of(table_of({k: [v[j] for j in rows] for k, v in columns.items()})))
    assert "By ID τ, near is best" in words
    assert words.count("Not drawn: ") == 8


def test_table_without_measures_raises() -> None:
    table = EvaluationTable.read(evaluation_columns(), measures=())
    with pytest.raises(InputError, match="no measure to compare"):
        page_of(table)


def test_hostile_names_are_escaped() -> None:
    noise = {HOSTILE[0]: 0.02, HOSTILE[1]: 0.1, HOSTILE[2]: -0.1, "a" * 300: 0.2}
    domains = [HOSTILE[1], HOSTILE[2], HOSTILE[3]]
    columns = evaluation_columns(noise=noise, domains=domains, kinds=HOSTILE[:2], names=HOSTILE[:1])
    page = study_page(table_of(columns), title=HOSTILE[0], reproduce={HOSTILE[1]: HOSTILE[2]})
    found = Elements(page)
    assert "img" not in {tag for tag, _ in found.tags}
    assert len([a for a, _ in found.scripts if not a]) == 2
    assert "a" * 300 not in page
    assert HOSTILE[0] in found.text


def test_page_of_many_measures_and_rows_stays_small() -> None:
    noise = {f"measure-{j}": 0.01 * (j + 1) * (-1) ** j for j in range(100)}
    table = table_of(
        evaluation_columns(noise=noise, models=150, kinds=[f"k{j}" for j in range(10)])
    )
    assert len(table) == 9000
    page = page_of(table)
    assert len(page.encode()) < 2_000_000
    assert values(page) < 4000
    words = without_charts(page)
    assert "24 of 100 measures are shown" in words
    assert "60 of them drawn" in words
    assert "the 6 of 10 architectures with the most evaluations" in words


def test_chart_data_do_not_grow_with_the_table() -> None:
    few, many = (
        page_of(table_of(evaluation_columns(models=n, kinds=("cnn", "vit")))) for n in (80, 400)
    )
    assert values(many) == values(few)


def test_page_of_two_hundred_domains() -> None:
    rng = np.random.default_rng(0)
    usual = rng.uniform(20, 90, 60)
    sets = {f"shift-{j}": np.clip(usual - j / 5 + rng.normal(0, 3, 60), 0, 100) for j in range(212)}
    wide = AccuracyMatrix.read({"model": [f"m{j}" for j in range(60)], "val": usual, **sets})
    page = page_of(to_evaluations(wide, "val"))
    words = without_charts(page)
    assert "1 measure compared over 12,780 evaluations of 60 models" in words
    assert "By Macro τ, accuracy on val has 0." in words
    assert "8 of 212 pairs are drawn, those with the most models." in words
    assert "All 212 pairs" in words
    assert len(page.encode()) < 2_000_000


def test_charts_embed_their_data(studied: str) -> None:
    for spec in specs(studied):
        assert '"url"' not in json.dumps(spec)
        assert all(isinstance(rows, list) for rows in spec["datasets"].values())


def test_measures_with_target_labels_are_never_best() -> None:
    rows = evaluation_columns(noise={"nll": -0.001, "ece": 0.001, "far": 0.3, "near": 0.02})
    page = page_of(table_of(rows))
    words = without_charts(page)
    assert "By Macro τ, near is best" in words
    assert "A line fitted on near predicts accuracy best" in words
    assert "opposite sign" not in words
    assert "Selecting the model with the highest near loses" in words
    assert (
        "from which the accuracy itself is known: nll, ece . They are shown for comparison" in words
    )
    best = re.findall(r"<tr><th scope=\"row\"><bdi>([^<]*)</bdi>(?:(?!</tr>).)*★", page)
    assert set(best) == {"near"}


def test_metrics_can_be_best_among_themselves() -> None:
    words = without_charts(page_of(table_of(evaluation_columns(noise={"ece": 0.02, "f1": 0.3}))))
    assert "By Macro τ, ece is best" in words
    assert "target labels" not in words
