"""Results in notebooks: HTML without scripts, escaped texts, charts, and reports."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer.core.errors import InputError, MissingExtra, NotApplicable, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.result_views import ResultViews
from oodometer.report.notebook import (
    MAX_TABLE_ROWS,
    IntervalBar,
    NotebookContent,
    NotebookTable,
    render_notebook,
)
from oodometer.studies import compare_measures, compare_with_reference
from oodometer.studies.analysis import run_analysis
from oodometer.testing import toy_pair

HOSTILE = "<img src=x onerror=alert(1)>\"'&</td><script>"
CLASSES = [HOSTILE, "b", "c", "d"]


def hostile_pair() -> tuple[Predictions, Predictions]:
    source, target = toy_pair()
    return (
        Predictions.from_probs(source.probs, labels=source.labels, class_names=CLASSES),
        Predictions.from_probs(target.probs, class_names=CLASSES),
    )


def assessment() -> ResultViews:
    source, target = hostile_pair()
    sites = np.where(np.arange(target.n) % 2, HOSTILE, "2026-01")
    return oodometer.estimate(
        source, target, segment_by=sites, metrics="all", bound=True, replicates=20
    )


def softmax_pair(scale: float) -> Callable[[Any], Any]:
    def predict(rows: Any) -> Any:
        first = 1 / (1 + np.exp(-scale * rows[:, 0]))
        return np.stack([first, 1 - first], axis=1)

    return predict


ROWS = np.random.default_rng(0).normal(size=(60, 3))
MODELS = {HOSTILE: softmax_pair(1.0), "steep": softmax_pair(9.0), "flat": softmax_pair(0.1)}


def ranking() -> ResultViews:
    known = {HOSTILE: 0.7, "steep": 0.6, "flat": 0.5}
    return oodometer.rank(
        MODELS, ROWS, transform="gaussian", draws=2, score="ei", known_accuracies=known
    )


def ranking_by_rows() -> ResultViews:
    return oodometer.rank(MODELS, ROWS, score=lambda predictions: predictions.confidence)


def invariance() -> ResultViews:
    return oodometer.invariance(MODELS, ROWS, transform="gaussian", draws=2)


def single_invariance() -> ResultViews:
    models = {HOSTILE: MODELS[HOSTILE]}
    return oodometer.invariance(models, ROWS, transform="gaussian", draws=2)


def measurements() -> ResultViews:
    model = oodometer.as_model(MODELS["steep"], name=HOSTILE)
    names = ["h-divergence", "entropy-target", "jacobian"]
    features = (ROWS, ROWS + 1)
    return oodometer.measure(model, ROWS, ROWS + 1, measures=names, features=features, subsamples=2)


def evaluation() -> ResultViews:
    return oodometer.evaluate(None, hostile_pair()[0])


def evaluation_of_images() -> ResultViews:
    rng = np.random.default_rng(0)
    images = (rng.random((40, 8, 8, 3)) * 255).astype(np.uint8)
    data = oodometer.as_dataset(images, labels=rng.integers(0, 2, 40))

    def bright(rows: Any) -> Any:
        first = rows.reshape(len(rows), -1).mean(axis=1) / 255
        return np.stack([first, 1 - first], axis=1)

    model = oodometer.as_model(bright, name=HOSTILE)
    return oodometer.evaluate(model, data, metrics=["error", "nll"], corruptions=["fog-1", "fog-2"])


def comparison() -> ResultViews:
    rng = np.random.default_rng(0)
    accuracy = rng.random(24)
    return compare_measures(
        {
            "model": [f"m{j % 12}" for j in range(24)],
            "trained_on": ["a"] * 24,
            "tested_on": ["a"] * 12 + ["b"] * 12,
            "accuracy": accuracy,
            HOSTILE: accuracy + 0.1 * rng.normal(size=24),
            "noise": rng.normal(size=24),
        }
    )


def analysis() -> ResultViews:
    values = np.linspace(0.3, 0.9, 12)
    return run_analysis(
        {
            "model": [f"m{j % 6}" for j in range(12)],
            "trained_on": ["a"] * 12,
            "tested_on": ["b"] * 6 + ["c"] * 6,
            "accuracy": values,
            "doc": values**2,
            HOSTILE: values[::-1] ** 3,
        },
        "rank",
    )


def robustness() -> ResultViews:
    values = np.linspace(30.0, 90.0, 12)
    return compare_with_reference(
        {
            "model": [HOSTILE, *(f"m{j}" for j in range(11))],
            "val": values,
            HOSTILE: values - 10,
            "new": values[::-1] / 2,
        },
        "val",
    )


def robustness_of_two_models() -> ResultViews:
    return compare_with_reference(
        {"model": ["a", "b"], "val": [0.9, 0.8], HOSTILE: [0.5, 0.4]}, "val"
    )


def plan() -> ResultViews:
    rows = hostile_pair()[1]
    ids = [f"{row} {HOSTILE}" for row in range(rows.n)]
    return oodometer.plan_labels(Predictions.from_probs(rows.probs, ids=ids), n_labels=rows.n)


# Each kind of result, and its kinds of charts; those in the second list do not apply to it.
KINDS: dict[Callable[[], ResultViews], tuple[list[str], list[str]]] = {
    assessment: (["methods", "segments", "confidence", "reliability", "classes"], []),
    ranking: (["order", "accuracies", "entropy", "distribution"], []),
    ranking_by_rows: (["order"], ["accuracies", "entropy", "distribution"]),
    invariance: (["order", "entropy", "distribution"], ["accuracies"]),
    single_invariance: (["measures", "order", "entropy", "distribution"], ["accuracies"]),
    measurements: (["values", "noise"], []),
    evaluation: (["metrics", "classes"], ["corruptions"]),
    evaluation_of_images: (["metrics", "corruptions"], ["classes"]),
    comparison: (["overview", "scatter", "correlations", "regret"], []),
    robustness: (["drops", "correlations", "scatter"], []),
    robustness_of_two_models: (["drops"], ["correlations", "scatter"]),
    plan: (["labels", "confidence"], []),
    analysis: (["ρ", "environments", "undefined", "ρ, pooled", "evaluations"], []),
}


@cache
def cached(make: Callable[[], ResultViews]) -> ResultViews:
    return make()


every_result = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


class TagReader(HTMLParser):
    """Collect the names and attributes of all elements, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@every_result
def test_html_has_no_script_and_escapes_names(make: Callable[[], ResultViews]) -> None:
    reader = TagReader(cached(make)._repr_html_())
    assert "table" in reader.tags
    assert not {"script", "img", "iframe", "link"} & set(reader.tags)
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert not [name for name in reader.attributes if name in ("src", "href")]
    assert HOSTILE in reader.text


@every_result
def test_html_needs_neither_altair_nor_pandas(
    make: Callable[[], ResultViews], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cached(make)._repr_html_()
    for name in ("altair", "vl_convert", "pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cached(make)._repr_html_() == expected
    with pytest.raises(MissingExtra, match=r"A chart needs .*oodometer\[report\]"):
        cached(make).chart()
    with pytest.raises(MissingExtra, match=r"oodometer\[tables\]"):
        cached(make).to_frame()


@every_result
def test_repr_is_at_most_a_few_hundred_characters(make: Callable[[], ResultViews]) -> None:
    text = repr(cached(make))
    assert text.startswith(f"{type(cached(make)).__name__}(")
    assert len(text) < 300
    assert "\n" not in text


@every_result
def test_charts_have_fixed_colors_and_sizes(make: Callable[[], ResultViews]) -> None:
    kinds, inapplicable = KINDS[make]
    for kind in kinds:
        spec = cached(make).chart(kind).to_dict()
        assert "var(--" not in str(spec)
        assert "currentColor" not in str(spec)
        assert isinstance(spec["width"], int)
        assert isinstance(spec["height"], int)
    assert cached(make).chart().to_dict() == cached(make).chart(kinds[0]).to_dict()
    for kind in inapplicable:
        with pytest.raises(NotApplicable, match=f"no values for the chart '{kind}'"):
            cached(make).chart(kind)


@every_result
def test_unknown_chart_lists_all_kinds(make: Callable[[], ResultViews]) -> None:
    with pytest.raises(UnknownName, match="No chart is called 'pie'") as caught:
        cached(make).chart("pie")
    kinds, inapplicable = KINDS[make]
    listed = str(caught.value).partition("There are: ")[2]
    assert sorted(listed.rstrip(".").split(", ")) == sorted(
        ", ".join([*kinds, *inapplicable]).split(", ")
    )


@every_result
def test_report_is_a_complete_page_with_escaped_names(
    make: Callable[[], ResultViews], tmp_path: Path
) -> None:
    cached(make).to_html(tmp_path / "report.html", title=f"Title {HOSTILE}")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>Title &lt;img" in page
    assert "<img src=x" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "Versions" in page
    cached(make).to_html(tmp_path / "default.html")
    assert re.search(
        "<title>[^<]+</title>", (tmp_path / "default.html").read_text(encoding="utf-8")
    )


@every_result
def test_every_table_is_a_frame(make: Callable[[], ResultViews]) -> None:
    result = cached(make)
    for name, rows in result.tables().items():
        assert len(result.to_frame(name)) == len(rows)
    assert len(result.to_frame())


def test_pickled_results_are_small_and_tell_what_is_missing(tmp_path: Path) -> None:
    result = pickle.loads(pickle.dumps(cached(assessment)))
    assert result.inputs is None
    assert result.to_dict() == cached(assessment).to_dict()  # type: ignore[attr-defined]
    assert result._repr_html_()
    assert result.chart("methods").to_dict()
    with pytest.raises(InputError, match="no longer holds the predictions"):
        result.to_html(tmp_path / "a.html")
    with pytest.raises(InputError, match="no longer holds the predictions"):
        result.chart("classes")
    neighborhoods = pickle.loads(pickle.dumps(cached(invariance)))
    assert neighborhoods._repr_html_() == cached(invariance)._repr_html_()
    with pytest.raises(InputError, match="no longer holds its data and transform"):
        neighborhoods.to_html(tmp_path / "b.html")


def test_file_name_of_the_target_is_escaped(tmp_path: Path) -> None:
    source, target = toy_pair()
    name = "<img src=x onerror=alert(1)>.npz"
    np.savez(tmp_path / name, probs=target.probs)
    result = oodometer.estimate(source, tmp_path / name, methods="doc", replicates=20)
    html = result._repr_html_()
    assert "&lt;img src=x onerror=alert(1)&gt;.npz" in html
    assert "<img" not in html
    result.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>&lt;img src=x onerror=alert(1)&gt;.npz: estimated accuracy" in page


def test_long_tables_are_cut_and_empty_columns_left_out() -> None:
    rows = [(f"row {j}", "") for j in range(MAX_TABLE_ROWS + 5)]
    html = render_notebook(
        NotebookContent(headline="h", tables=[NotebookTable("t", ("a", "never"), rows)])
    )
    assert html.count("<td>") == MAX_TABLE_ROWS
    assert "5 more rows" in html
    assert "never" not in html


def test_intervals_are_drawn_inside_the_axis() -> None:
    bars = [IntervalBar("a", 0.2, 0.4, 0.3), IntervalBar("b", 0.5, 1.0)]
    html = render_notebook(NotebookContent(headline="h", bars=bars, percent=True))
    places = [float(value) for value in re.findall(r'x[12]?="([\d.]+)%" x2', html)]
    places += [float(value) for value in re.findall(r'x2="([\d.]+)%"', html)]
    assert len(places) == 4
    assert all(40 <= place <= 97.01 for place in places)
    assert html.count("<circle") == 1
