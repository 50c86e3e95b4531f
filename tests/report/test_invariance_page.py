"""Pages of invariance and rankings: texts, tables, charts and examples."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.estimators import get
from oodometer.neighborhood.ranking import Ranking, rank
from oodometer.neighborhood.results import ModelInvariance
from oodometer.report._invariance_page import (
    MAX_TABLE_ROWS,
    invariance_page,
    ranking_page,
    single_model_summary,
    suitability_text,
)
from tests.neighborhood.test_class_frequencies import COLLAPSED, ORDINARY
from tests.neighborhood.test_invariance import Noise, vectors
from tests.report.conftest import HOSTILE
from tests.report.test_neighborhood_view import draw_member
from tests.report.test_page import Elements, specs
from tests.support import invariance_runs
from tests.support.invariance_runs import DATA, Hashed, Nudge, run_invariance

VECTORS = np.random.default_rng(0).normal(size=(40, 3))
FACTS = {"Seed": "0"}


def collapsed_ranking() -> Ranking:
    return rank([*ORDINARY, COLLAPSED], vectors(600), transform=Noise(0.6))


def page(run: invariance_runs.InvarianceRun, **options: Any) -> str:
    return invariance_page(run.found, run.show, title="t", reproduce=FACTS, **options)


def words(text: str) -> str:
    """Return the visible text, without scripts and styles."""
    body = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", body)).replace("\xa0", " ").split())


def cells(row: str) -> list[str]:
    return [words(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)]


def table(text: str, label: str) -> list[list[str]]:
    """Return the rows of a table, without the header."""
    (part,) = re.findall(rf'aria-label="{label}">\n(<table.*?</table>)', text, flags=re.DOTALL)
    body = part.split("<tbody>")[1]
    return [cells(row) for row in re.findall(r"<tr.*?</tr>", body, flags=re.DOTALL)]


def chart(text: str, title: str) -> list[dict[str, Any]]:
    """Return the data of the chart with a title."""
    keys = re.findall(r'<h3 id="([^"]*)-title">([^<]*)</h3>', text)
    (index,) = [index for index, (_, name) in enumerate(keys) if name == title]
    return [row for rows in specs(text)[index]["datasets"].values() for row in rows]


def members(text: str) -> dict[int, list[tuple[str, str]]]:
    """Return for each example its members and their classes."""
    result = {}
    for article in re.findall(r'<article class="example".*?</article>', text, flags=re.DOTALL):
        position = int(re.search(r'id="example-(\d+)"', article)[1])  # type: ignore[index]
        if "<li" in article:
            items = re.findall(r"<li.*?</li>", article, flags=re.DOTALL)
            spans = [re.findall(r"<span.*?</span>", item, flags=re.DOTALL) for item in items]
            result[position] = [(words(name), words(class_name)) for class_name, name in spans]
        else:
            rows = re.findall(r"<tr>(.*?)</tr>", article.split("<tbody>")[1], flags=re.DOTALL)
            result[position] = [(row[0], row[1]) for row in map(cells, rows)]
    return result


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_examples_match_a_naive_loop(data: Any) -> None:
    model = Hashed("first")
    run = run_invariance(data, model)
    shown = members(page(run))
    assert sorted(shown) == [0, 1, 2, 3]
    for position, decisions in shown.items():
        expected: dict[bytes, list[Any]] = {}
        for number in range(7):
            inputs = draw_member(run.show, position, number)
            output = model.classify(inputs)
            name = f"draw {number}" if number else "original"
            class_name = (output.class_names or ())[int(output.classes[0])]
            expected.setdefault(next(batches.iter_row_bytes(inputs)), [name, 0, class_name])[1] += 1
        original = next(iter(expected.values()))[2]
        assert decisions == [
            (f"{name} ×{times}" if times > 1 else name, c if c == original else f"≠ {c}")
            for name, times, c in expected.values()
        ]


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_hostile_names_are_escaped(data: Any) -> None:
    models = Hashed(HOSTILE[0], names=HOSTILE), Hashed(HOSTILE[1], salt=7, names=HOSTILE, sure=0.6)
    labelled = as_dataset(data, labels=[HOSTILE[i] for i in range(4)])
    ranking, show = invariance_runs.run_ranking(labelled, *models)
    known = {model.name: 0.5 for model in models}
    for text in (
        ranking_page(
            ranking,
            show,
            title=HOSTILE[2],
            reproduce={HOSTILE[3]: HOSTILE[0]},
            known_accuracies=known,
        ),
        page(run_invariance(labelled, *models)),
    ):
        elements = Elements(text)
        assert len([a for a, _ in elements.scripts if not a]) == 2
        assert not [a for _, a in elements.tags for name in a if name.startswith("on")]
        assert all((a["src"] or "").startswith("data:image/png") for a in elements.having("src"))
        assert "<b>" not in text.split("</head>")[1].split("<script")[0]
        assert HOSTILE[0] in elements.text
        assert HOSTILE[1] in elements.text


def test_page_of_one_model_lists_all_measures() -> None:
    run = run_invariance(VECTORS, Hashed("only", sure=0.8))
    text = page(run)
    rows = table(text, "Measures")
    assert [row[0] for row in rows] == ["NI-Nudge", "NE-Nudge", "EI-Nudge", "PA-Nudge"]
    for row, (_, read) in zip(rows, run.found[0].all_measures(), strict=True):
        assert row[1] == f"{read.value:.3f}".replace("-", "−")
        assert row[2] == f"{read.low:.3f} to {read.high:.3f}".replace("-", "−")
    drawn = chart(text, "Values")
    assert [row["name"] for row in drawn] == ["NI-Nudge", "EI-Nudge", "PA-Nudge"]
    assert drawn[0]["value"] == pytest.approx(run.found[0].mean_with_interval("ni").value, abs=1e-5)
    assert single_model_summary(run.found[0], "ni") in words(text)


def test_model_without_probabilities_has_no_effective_invariance() -> None:
    text = page(run_invariance(VECTORS))
    assert [row[0] for row in table(text, "Measures")] == ["NI-Nudge", "NE-Nudge", "PA-Nudge"]
    assert "Whether nudge is suitable cannot be checked" in words(text)
    assert "Entropy difference of nudge" not in text.split("<table")[0]
    assert table(text, "Suitability")[0][2] == "unknown"


def test_ranking_is_drawn_and_listed_with_probabilities() -> None:
    models = Hashed("a", sure=0.8), Hashed("b", salt=7), Hashed("c", salt=2**62)
    ranking, show = invariance_runs.run_ranking(
        VECTORS, *models, score="pa", known_accuracies={"a": 0.5, "b": 0.4, "c": 0.9}
    )
    known = {"a": 0.5, "b": 0.4}
    text = ranking_page(ranking, show, title="t", reproduce=FACTS, known_accuracies=known)
    for row, one in zip(table(text, "Models"), ranking, strict=True):
        assert row[1:4] == [one.model, f"{one.value:.3f}", f"{one.low:.3f} to {one.high:.3f}"]
        assert row[-2] == f"{100 * min(max(one.accuracy or 0.0, 0.0), 1.0):.1f}"
        assert row[-1] == (f"{100 * known[one.model]:.1f}" if one.model in known else "")
    drawn = chart(text, "Order of the models")
    assert [(r["name"], r["value"]) for r in drawn] == [
        (one.model, round(one.value, 5)) for one in ranking
    ]
    accuracies = chart(text, "Accuracies")
    assert len([row for row in accuracies if row["series"] == "known"]) == 2
    assert len([row for row in accuracies if row["series"] == "predicted by the line"]) == 3
    assert f"{ranking.names[0]} has the highest PA-Nudge; it is higher than" in words(text)
    assert "in the right order by known accuracy" in words(text)
    assert f"Least invariant examples of {ranking.names[0]}" in words(text)


def test_untrustworthy_first_model_is_stated_above_the_table() -> None:
    ranking = collapsed_ranking()
    first = ranking.models[0]
    text = ranking_page(ranking, title="t", reproduce=FACTS)
    headline = words(text.split('id="models"')[0])
    assert "critical" in headline
    assert "The rank of collapsed is not to be trusted: it assigns" in headline
    assert "is the certainty of the order by NI-Noise, not of the accuracies." in words(text)
    assert "Higher than the next, % of resamples" in words(text)
    assert "beat" not in words(text).lower()
    rows = table(text, "Class frequencies")
    assert [row[1] for row in rows] == list(ranking.names)
    assert ["critical" in row[0] for row in rows] == [True, False, False, False]
    assert rows[0][2] == f"{first.diagnostics[0].value:.2f}"


def test_remarks_on_the_ranking_are_shown() -> None:
    ranking = replace(collapsed_ranking(), notes=("the line falls",))
    assert "The line falls." in words(ranking_page(ranking, title="t", reproduce=FACTS))


def test_combination_has_a_column_for_each_part() -> None:
    data = as_dataset(VECTORS, labels=np.arange(40) % 3)
    models = Hashed("a", sure=0.8), Hashed("b", salt=7, sure=0.6), Hashed("c", salt=9, sure=0.7)
    ranking, show = invariance_runs.run_ranking(VECTORS, *models, score="ni+doc", source=data)
    text = ranking_page(ranking, show, title="t", reproduce=FACTS)
    for row, entry in zip(table(text, "Models"), ranking, strict=True):
        assert row[5:7] == [f"{entry.scores[name]:.3f}" for name in ("NI-Nudge", "doc")]
    assert "NI-Nudge + doc is the mean of the standardized ranks by NI-Nudge and by doc" in words(
        text
    )
    assert f"doc: {get('doc').assumes}." in words(text)


def test_examples_are_those_of_the_chosen_model() -> None:
    models = Hashed("a"), Hashed("b", salt=2**63)
    ranking, show = invariance_runs.run_ranking(VECTORS, *models)
    for model in ("a", "b"):
        text = ranking_page(ranking, show, title="t", reproduce={}, model=model)
        assert f"Least invariant examples of {model}" in words(text)
        values = ranking.neighborhoods[model].by_example("ni")  # type: ignore[index]
        shown = list(members(text))[:6]
        assert values[shown].tolist() == np.sort(values)[:6].tolist()
    with pytest.raises(UnknownName, match="'c'"):
        ranking_page(ranking, show, title="t", reproduce={}, model="c")


def test_ranking_by_an_estimator_has_no_examples_but_an_assumption() -> None:
    data = as_dataset(VECTORS, labels=np.arange(40) % 3)
    models = {"a": Hashed("a", sure=0.8), "b": Hashed("b", salt=7, sure=0.6)}
    ranking = rank(models, VECTORS, score="doc", source=data)
    text = ranking_page(ranking, title="t", reproduce=FACTS, known_accuracies={"a": 0.25})
    assert [row[1] for row in table(text, "Models")] == list(ranking.names)
    assert "example" not in [a.get("class") for _, a in Elements(text).tags]
    assert f"doc: {get('doc').assumes}." in words(text)
    assert "Suitability of the transform" not in text


def test_labels_give_accuracies_and_unknown_labels_a_remark() -> None:
    model = Hashed("a")
    truth = model.classify(VECTORS).classes.copy()
    truth[:10] = (truth[:10] + 1) % 3
    run = run_invariance(as_dataset(VECTORS, labels=truth), model, Hashed("b", salt=7))
    rows = {row[1]: row[-1] for row in table(page(run), "Models")}
    assert rows["a"] == "75.0"
    strange = run_invariance(as_dataset(VECTORS, labels=["bird"] * 40), model)
    assert "Accuracies by the labels of the data are not shown: " in words(page(strange))


class Sharp(Hashed):
    """Model that is confident in the examples but not in their draws."""

    def classify(self, inputs: Any) -> Predictions:
        sure = np.where(inputs[:, 0] == 0.0, 0.99, 0.4)
        return Predictions.from_probs(np.stack([sure, 1 - sure], axis=1))


class Still(Hashed):
    """Model that assigns all inputs to one class."""

    def classify(self, inputs: Any) -> Predictions:
        return Predictions.from_probs(np.tile([0.9, 0.1], (len(inputs), 1)))


def test_unsuitable_transform_is_described_and_drawn() -> None:
    run = run_invariance(np.zeros((9, 2)), Sharp("sharp"), Still("still"))
    rise = run.found["sharp"].entropy_difference
    assert rise is not None
    assert rise > 0.1
    text = page(run)
    assert (
        "nudge is unsuitable for 1 of 2 models: it raises the entropy of predictions by at most "
        f"{rise:.3f}" in words(text)
    )
    assert "more than 0.1" in words(text)
    drawn = chart(text, "Entropy difference of nudge")
    assert {"at": 0.1, "text": "limit 0.1"} in drawn
    assert {row["name"]: row["value"] for row in drawn if "name" in row} == {
        "still": 0.0, "sharp": round(rise, 5),
    }  # fmt: skip
    statuses = {row[1]: row for row in table(text, "Suitability")}
    assert statuses["sharp"][0] == "■ critical"
    assert statuses["sharp"][2] == f"+{rise:.3f}"


def test_constant_model_has_a_warning() -> None:
    text = page(run_invariance(VECTORS, Still("still")))
    (row,) = table(text, "Suitability")
    assert row[0] == "■ critical"
    assert row[3:5] == ["100.0", "0, 100.0 %"]
    assert "invariance is meaningless for such a model" in row[5]
    assert "invariance is meaningless for such a model" in words(text.split('id="models"')[0])
    assert "Equally invariant examples" in words(text)


def test_suitable_transform_is_described() -> None:
    run = run_invariance(VECTORS, Hashed("a", sure=0.7))
    assert suitability_text(run.found) == (
        "nudge is suitable: it raises the entropy of predictions by 0.000 (increases up to about "
        "0.1 are acceptable)."
    )
    assert table(page(run), "Suitability")[0][0] == "● ok"


def test_entropy_decrease_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_invariance(VECTORS, Hashed("a", sure=0.7)).found
    monkeypatch.setattr(ModelInvariance, "entropy_difference", -0.2)
    assert suitability_text(result) == (
        "nudge is suitable: it does not raise the entropy of predictions (increases up to about "
        "0.1 are acceptable)."
    )


def test_distribution_matches_the_examples() -> None:
    run = run_invariance(VECTORS, Hashed("a"), Hashed("b", salt=7))
    drawn = chart(page(run), "Distribution over examples")
    for one in run.found:
        values = one.by_example("ni")
        shares = {row["value"]: row["share"] for row in drawn if row["name"] == one.model}
        for level in np.unique(values):
            assert shares[f"{level:.3f}"] == pytest.approx(100 * np.mean(values == level), abs=1e-3)


def test_partial_draws_are_summarized_by_pa() -> None:
    data = np.random.default_rng(0).normal(size=(250, 3))
    text = page(run_invariance(data, draws=8, max_inputs=630))
    assert [row[0] for row in table(text, "Measures")] == ["PA-Nudge"]
    assert "up to 8" in words(text)
    assert "of 250" in words(text)


def test_tables_and_charts_limit_the_number_of_models() -> None:
    models = [Hashed(f"m{i}", salt=i + 1) for i in range(MAX_TABLE_ROWS + 5)]
    ranking, show = invariance_runs.run_ranking(VECTORS[:5], *models)
    text = ranking_page(ranking, show, title="t", reproduce={})
    assert len(table(text, "Models")) == MAX_TABLE_ROWS
    assert "The first 200 of 205 models are listed." in words(text)
    assert len({row["name"] for row in chart(text, "Order of the models")}) == 40
    assert "40 of 205 models are drawn." in words(text)


def test_pages_of_large_inputs_stay_under_2_mb() -> None:
    long = [" ".join([f"word{i % 7}{j}" for j in range(5000)]) for i in range(20)]
    pairs = [(text, "x" * 100_000 + text) for text in long]
    wide = np.random.default_rng(0).normal(size=(20, 3000))
    for data in (pairs, wide):
        text = page(
            run_invariance(data, Hashed("a", names=tuple("n" * 5000 + str(i) for i in range(3))))
        )
        assert len(text.encode()) < 2_000_000


def test_pages_of_photographs_stay_under_5_mb() -> None:
    photos = invariance_runs.images(14, 400, 300, 3)
    run = run_invariance(photos, draws=10)
    assert len(page(run).encode()) < 5_000_000


def test_sampler_of_another_run_is_rejected() -> None:
    run = run_invariance(VECTORS)
    ranking, show = invariance_runs.run_ranking(VECTORS, Hashed("a"), Hashed("b"))
    with pytest.raises(InputError, match=r"^The result has seed 0, the sampler has 1\."):
        invariance_page(run.found, replace(run.show, seed=1), title="t", reproduce={})
    other = replace(show, transform=Nudge(1.0))
    with pytest.raises(InputError, match=r"^The result has magnitude 2\.0"):
        ranking_page(ranking, other, title="t", reproduce={})
