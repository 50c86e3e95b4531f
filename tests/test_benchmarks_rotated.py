"""Analyses and page of the study of rotated MNIST, on made-up evaluations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.studies import _dg_analyses, rotated_mnist
from benchmarks.studies._claims import claims_of
from benchmarks.studies._dg_analyses import (
    Interval,
    change_difference,
    error_correlations,
    mean_difference,
    rank_agreement,
    regression_gain,
)
from benchmarks.studies._dg_charts import picture
from benchmarks.studies._published_figures import DG_JOINT, DG_NOISE, DG_TABLE_2
from oodometer.measures import get
from oodometer.studies.analysis.evaluation_table import EvaluationTable

ANGLES = ("0", "15", "30", "45", "60", "75")
PER_ANGLE = 8
# Values of every measure are noise, except those of the measures below.
INFORMATIVE = {"entropy-target": 1.0, "source-error": 1.0, "jacobian": -1.0, "l2-path-norm": -1.0}


def long_rows(seed: int = 0, coral_changes: float = 0.0) -> Any:
    """Return rows as a store exports them; under CORAL, the Jacobian's sign is turned."""
    rng = np.random.default_rng(seed)
    rows = []
    for algorithm in ("erm", "coral"):
        for angle in ANGLES:
            for number in range(PER_ANGLE):
                error = rng.uniform(0.1, 0.6)
                values = {name: rng.normal() for name in DG_TABLE_2}
                for name, slope in INFORMATIVE.items():
                    turned = coral_changes if algorithm == "coral" and "jacobian" in name else 0
                    values[name] = (slope * (1 - turned)) * error + 0.05 * rng.normal()
                values |= dict.fromkeys(rotated_mnist.ESTIMATORS, 1 - error + 0.02 * rng.normal())
                values["ni-translate"] = -error
                rows += [
                    {
                        "model": f"{algorithm}-{angle}-{number}",
                        "architecture": "dg-cnn",
                        "trained_on": " + ".join(a for a in ANGLES if a != angle),
                        "tested_on": angle,
                        "accuracy": 1 - error,
                        "n": 11000,
                        "seed": number,
                        "recipe.lr": 1e-3 * (1 + number),
                        "recipe.batch": 64,
                        "recipe.coral": None if algorithm == "erm" else 1.0,
                        "measure": name,
                        "value": float(value),
                    }
                    for name, value in values.items()
                ]
    return pa.Table.from_pylist(rows)


def table(**options: Any) -> EvaluationTable:
    return EvaluationTable.read(rotated_mnist.wide_rows(long_rows(**options)))


def by_algorithm(whole: EvaluationTable) -> list[EvaluationTable]:
    return [rotated_mnist.of_algorithm(whole, name) for name in ("erm", "coral")]


def test_wide_rows_have_one_row_per_evaluation() -> None:
    wide = rotated_mnist.wide_rows(long_rows())
    assert wide.num_rows == 2 * len(ANGLES) * PER_ANGLE
    assert wide["algorithm"].to_pylist().count("coral") == len(ANGLES) * PER_ANGLE
    long = long_rows().to_pylist()
    expected = {row["model"]: row["value"] for row in long if row["measure"] == "jacobian"}
    found = dict(zip(wide["model"].to_pylist(), wide["jacobian"].to_pylist(), strict=True))
    assert found == {name: np.float32(value) for name, value in expected.items()}


def test_measures_of_the_table_exist() -> None:
    assert [get(name).name for name in DG_TABLE_2] == list(DG_TABLE_2)
    published = [value for value in DG_TABLE_2.values() if value is not None]
    assert published == sorted(published, reverse=True)
    assert len(published) == 12


def test_correlations_have_the_sign_of_the_data() -> None:
    erm, _ = by_algorithm(table())
    found = error_correlations(erm, list(DG_TABLE_2))
    for name, slope in INFORMATIVE.items():
        joint = found.joint[name]
        assert np.sign(joint.value) == slope
        assert joint.excludes_zero
        assert joint.low <= joint.value <= joint.high
        assert set(found.environments[name]) == set(ANGLES)
    row = found.measures.index("jacobian")
    assert np.median(found.replicates[row]) == pytest.approx(found.joint["jacobian"].value, abs=0.1)
    noise = [found.joint[name].excludes_zero for name in DG_TABLE_2 if name not in INFORMATIVE]
    assert np.mean(noise) < 0.25


def test_change_between_algorithms_is_found() -> None:
    tables = by_algorithm(table(coral_changes=2.0))
    names = list(DG_TABLE_2)
    erm, coral = (error_correlations(t, names, seed=j) for j, t in enumerate(tables))
    assert erm.joint["jacobian"].value < -0.5 < 0.5 < coral.joint["jacobian"].value
    assert change_difference(erm, coral, ["jacobian"]).low > 0
    assert change_difference(erm, coral, ["entropy-target", "source-error"]).high < 0
    assert rank_agreement(erm, erm).value == pytest.approx(1.0)
    assert rank_agreement(erm, coral).value < 1.0


@pytest.fixture
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dg_analyses, "REGRESSION_REPLICATES", 40)


@pytest.mark.usefixtures("few_replicates")
def test_regression_gains_from_measures_that_add_up() -> None:
    erm, _ = by_algorithm(table())
    rng = np.random.default_rng(1)
    half = rng.normal(size=len(erm))
    measures = {**erm.measures, "one": half, "two": 1 - erm.accuracy - half}
    both = regression_gain(replace(erm, measures=measures), ["one", "two"], ["one", "two"])
    assert both.n == len(ANGLES) * PER_ANGLE
    assert both.pooled == pytest.approx(1.0)
    assert both.r2 == pytest.approx(1.0)
    assert both.gains["pooled"].low > 0
    assert both.gains["r2"].low > 0
    alone = regression_gain(erm, ["entropy-target"], ["entropy-target"])
    assert alone.gains["pooled"] == Interval(0.0, 0.0, 0.0)


def test_difference_of_pairs() -> None:
    assert mean_difference([3.0, 4.0], [1.0, 2.0]) == Interval(2.0, 2.0, 2.0)


@pytest.mark.usefixtures("few_replicates")
def test_page_counts_networks_and_judges_every_claim() -> None:
    rng = np.random.default_rng(0)
    ratios = {
        f"m{number}": {name: 20 / (1 + j) + rng.random() for j, name in enumerate(DG_NOISE)}
        for number in range(5)
    }
    page, erm, coral, clusters = rotated_mnist.build_page(table(), ratios, planned=240)
    text = page.text()
    assert "48 ERM and 48 CORAL of 240 planned" in text
    verdicts = {result.id: result.verdict for result in page.results}
    claimed = [claim.id for claim in claims_of("rotated_mnist")]
    assert sorted(verdicts) == sorted(claimed)
    assert verdicts["dg-t1-h-hdh-ss"] == "held"
    assert verdicts["dg-t1-ms-ss"] == "refuted"
    assert verdicts["dg-5-path-norm"] == "held"
    assert verdicts["dg-t2-source-error-h"] == "held"
    assert "no verdict" not in verdicts.values()
    assert coral is not None
    chart = picture(erm, coral, clusters, rotated_mnist.label).to_dict()
    assert len(chart["vconcat"]) == 2


@pytest.mark.usefixtures("few_replicates")
def test_page_without_coral_gives_no_verdict_on_it() -> None:
    erm, _ = by_algorithm(table())
    page, _, coral, _ = rotated_mnist.build_page(erm, {}, planned=240)
    assert coral is None
    verdicts = {result.id: result.verdict for result in page.results}
    assert verdicts["dg-f1-coral-rank"] == verdicts["dg-t1-ms-ss"] == "no verdict"
    assert set(DG_JOINT) <= set(DG_TABLE_2)
