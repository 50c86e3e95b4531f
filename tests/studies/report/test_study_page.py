"""The page of a study: its parts come from the numbers, and what can't be told is a sentence."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

from oodometer import InputError
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations
from oodometer.studies.report._study_page import study_page
from tests.report.conftest import HOSTILE
from tests.report.test_page import Elements, specs
from tests.support.study_tables import made, table_of

SECTIONS = ("measures", "scatters", "same", "factors", "patterns", "choosing", "assumed")


def page_of(table: EvaluationTable) -> str:
    return study_page(table, title="t", reproduce={"Command": "oodometer study compare x.csv"})


def without_charts(page: str) -> str:
    """The page's own words."""
    return " ".join(
        re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", "", page)).split()
    )


def values(page: str) -> int:
    """How many rows of data the charts have."""
    return sum(len(rows) for spec in specs(page) for rows in spec["datasets"].values())


def test_every_part_is_there() -> None:
    page = page_of(table_of(made()))
    words = without_charts(page)
    ids = {a["id"] for a in Elements(page).having("id")}
    assert {*SECTIONS, "reproduce"} <= ids
    assert {"related-spec", "scree-spec", "loadings-spec", "regret-spec", "overview-spec"} <= ids
    assert {"m0-0-spec", "m1-3-spec", "pair-3-spec"} <= ids
    assert "Not drawn" not in words
    assert (
        "3 measures judged by 72 evaluations of 24 models (1 architecture, 2 training sets)"
        in words
    )
    assert "By Macro τ, near comes out best: " in words
    assert "oodometer study compare x.csv" in words


def test_of_one_domain_with_three_models_there_is_little_and_it_says_why() -> None:
    columns: dict[str, list[Any]] = {
        "model": ["l", "m", "n"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
        "accuracy": [0.5, 0.6, 0.7], "ni": [1.0, 2.0, 3.0],
    }  # fmt: skip
    words = without_charts(page_of(table_of(columns)))
    assert "By Macro τ, ni has 1.00 in one group." in words
    assert "Not drawn: there is just one measure, and none to compare it with." in words
    assert "Not drawn: factors need 3 measures or more; there is 1." in words
    assert "Not drawn: no model has an accuracy both on a domain that it was trained on" in words


def test_equal_accuracies_leave_no_statistic_but_a_page() -> None:
    columns = made()
    columns["accuracy"] = [0.5] * len(columns["accuracy"])
    page = page_of(table_of(columns))
    words = without_charts(page)
    # A line that is flat predicts what is always the same, so that MAE alone has an answer.
    assert "By MAE" in words
    assert "Macro τ" in words
    assert "Not drawn: fewer than two measures can be compared" in words


def test_without_any_answer_the_reasons_stand_there() -> None:
    columns: dict[str, list[Any]] = {
        "model": ["l", "m"], "trained_on": ["a"] * 2, "tested_on": ["b"] * 2,
        "accuracy": [0.5, 0.5], "ni": [math.nan, math.nan],
    }  # fmt: skip
    words = without_charts(page_of(table_of(columns)))
    assert "No statistic has an answer: " in words
    assert "2 of 2 values have no answer, 2 of them of ni." in words
    assert "Not drawn: no measure has answers for 3 models on one domain" in words


def test_models_on_their_own_domains_alone_are_judged_there() -> None:
    columns = made()
    rows = [j for j, name in enumerate(columns["tested_on"]) if name == columns["trained_on"][j]]
    words = without_charts(page_of(table_of({k: [v[j] for j in rows] for k, v in columns.items()})))
    assert "By ID τ, near comes out best" in words
    assert words.count("Not drawn: ") == 4


def test_a_table_without_measures_is_refused() -> None:
    table = EvaluationTable.read(made(), measures=())
    with pytest.raises(InputError, match="no measure to compare"):
        page_of(table)


def test_names_of_all_kinds_stay_text() -> None:
    noise = {HOSTILE[0]: 0.02, HOSTILE[1]: 0.1, HOSTILE[2]: -0.1, "a" * 300: 0.2}
    domains = [HOSTILE[1], HOSTILE[2], HOSTILE[3]]
    columns = made(noise=noise, domains=domains, kinds=HOSTILE[:2], names=HOSTILE[:1])
    page = study_page(table_of(columns), title=HOSTILE[0], reproduce={HOSTILE[1]: HOSTILE[2]})
    found = Elements(page)
    assert "img" not in {tag for tag, _ in found.tags}
    assert len([a for a, _ in found.scripts if not a]) == 2
    assert "a" * 300 not in page
    assert HOSTILE[0] in found.text


def test_a_hundred_measures_and_many_rows_make_a_small_page() -> None:
    noise = {f"measure-{j}": 0.01 * (j + 1) * (-1) ** j for j in range(100)}
    table = table_of(made(noise=noise, models=150, kinds=[f"k{j}" for j in range(10)]))
    assert len(table) == 9000
    page = page_of(table)
    assert len(page.encode()) < 2_000_000
    assert values(page) < 4000
    words = without_charts(page)
    assert "Of 100 measures 24 are shown" in words
    assert "60 of them drawn" in words
    assert "Of 10 architectures the 6 with the most evaluations" in words


def test_rows_of_charts_do_not_grow_with_the_table() -> None:
    few, many = (page_of(table_of(made(models=n, kinds=("cnn", "vit")))) for n in (80, 400))
    assert values(many) == values(few)


def test_two_hundred_domains_held_against_one() -> None:
    rng = np.random.default_rng(0)
    usual = rng.uniform(20, 90, 60)
    sets = {f"shift-{j}": np.clip(usual - j / 5 + rng.normal(0, 3, 60), 0, 100) for j in range(212)}
    wide = AccuracyMatrix.read({"model": [f"m{j}" for j in range(60)], "val": usual, **sets})
    page = page_of(to_evaluations(wide, "val"))
    words = without_charts(page)
    assert "1 measure judged by 12,780 evaluations of 60 models" in words
    assert "By Macro τ, accuracy on val has 0." in words
    assert "Of 212 pairs 8 are drawn, those with the most models." in words
    assert "All 212 pairs" in words
    assert len(page.encode()) < 2_000_000


def test_charts_are_plain_data(studied: str) -> None:
    for spec in specs(studied):
        assert '"url"' not in json.dumps(spec)
        assert all(isinstance(rows, list) for rows in spec["datasets"].values())


def test_what_needs_the_labels_of_the_target_is_not_called_best() -> None:
    rows = made(noise={"nll": -0.001, "ece": 0.001, "far": 0.3, "near": 0.02})
    page = page_of(table_of(rows))
    words = without_charts(page)
    assert "By Macro τ, near comes out best" in words
    assert "A line from near comes nearest to accuracy" in words
    assert "Upside down" not in words
    assert "Choosing the model of highest near costs" in words
    assert "which tell the accuracy itself: nll, ece . They are here to compare with" in words
    best = re.findall(r"<tr><th scope=\"row\"><bdi>([^<]*)</bdi>(?:(?!</tr>).)*★", page)
    assert set(best) == {"near"}


def test_of_metrics_alone_one_is_best() -> None:
    words = without_charts(page_of(table_of(made(noise={"ece": 0.02, "f1": 0.3}))))
    assert "By Macro τ, ece comes out best" in words
    assert "labels of the target" not in words
