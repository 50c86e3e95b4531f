"""Terminal output of measurements and evaluations, cell by cell."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from oodometer.core.results import Score
from oodometer.measures._measure import Measurements, SubsetNoise
from oodometer.metrics._evaluate import CorruptionScores, Evaluation
from oodometer.report import terminal_measures
from oodometer.transforms.corruptions import Corruption


def shown(result: Measurements | Evaluation) -> list[list[str]]:
    """Return the non-empty lines, split into cells."""
    out = io.StringIO()
    terminal_measures.show_scores(Console(file=out, width=300, highlight=False), result)
    lines = (line.strip() for line in out.getvalue().splitlines())
    return [[cell for cell in line.split("  ") if cell] for line in lines if line]


def stripped(rows: list[list[str]]) -> list[list[str]]:
    return [[cell.strip() for cell in row] for row in rows]


def measured(scores: dict[str, Score], **more: Any) -> Measurements:
    settings: dict[str, Any] = {
        "model": "net", "source": "a", "target": "b", "n_source": 1000, "n_target": 20,
        "n_training": None, "skipped": {}, "noise": {}, "seed": 0,
    }  # fmt: skip
    return Measurements(scores=scores, **{**settings, **more})


def evaluated(scores: dict[str, Score], *corrupted: CorruptionScores, **more: Any) -> Evaluation:
    settings: dict[str, Any] = {"model": "net", "data": "a", "n": 1000, "skipped": {}, "seed": 0}
    return Evaluation(scores=scores, by_corruption=corrupted, **{**settings, **more})


def test_measures_show_intervals_noise_and_notes() -> None:
    scores = {
        "mmd-gaussian": Score(0.5, notes=("one", "two")),
        "mmd-random-features": Score(0.25, 0.125, 0.375, ("two",)),
        "jacobian": Score(2.0),
    }
    noise = {"mmd-gaussian": SubsetNoise(0.6, 0.2, 9), "jacobian": SubsetNoise(2.0, 0.0, 9)}
    refused = {"mixup": "no inputs", "sharpness": "no training data", "mixup-diff": "no inputs"}
    lines = shown(measured(scores, noise=noise, skipped=refused, n_training=3000))
    assert stripped(lines) == [
        ["net: source a (1,000 rows), target b (20 unlabelled rows), 3,000 rows of training data"],
        ["Measures"],
        ["measure", "value", "95 %", "sd", "signal/noise", "notes"],
        ["MMD-Gaussian", "0.5", "0.2", "3.0", "(1) (2)"],
        ["MMD-Random-Features", "0.25", "0.125–0.375", "(2)"],
        ["Jacobian", "2", "0", "constant"],
        ["(1) one"],
        ["(2) two"],
        ["Not applicable"],
        ["reason", "names"],
        ["no inputs", "mixup, mixup-diff"],
        ["no training data", "sharpness"],
    ]  # fmt: skip


def test_empty_columns_are_omitted() -> None:
    lines = stripped(shown(measured({"jacobian": Score(2.0)}, model=None)))
    assert lines == [
        ["outputs or features only: source a (1,000 rows), target b (20 unlabelled rows)"],
        ["Measures"],
        ["measure", "value"],
        ["Jacobian", "2"],
    ]


def test_metrics_show_intervals_notes_and_skipped_ones() -> None:
    scores = {"error": Score(0.5, 0.25, 0.75, ("one", "two")), "nll": Score(1.0)}
    lines = stripped(shown(evaluated(scores, skipped={"ece": "no probabilities"})))
    assert lines == [
        ["net on a: 1,000 labelled rows"],
        ["Metrics"],
        ["metric", "value", "95 %", "notes"],
        ["Error", "0.5000", "0.2500–0.7500", "one; two"],
        ["NLL", "1.0000"],
        ["Not applicable"],
        ["reason", "names"],
        ["no probabilities", "ece"],
    ]


def test_rows_are_not_called_labelled_without_scores() -> None:
    lines = stripped(shown(evaluated({}, skipped={"error": "no labels"}, model=None)))
    assert lines[0] == ["outputs only on a: 1,000 rows"]
    assert lines[1] == ["Not applicable"]


def after(name: str, severity: int, **values: float) -> CorruptionScores:
    return CorruptionScores(
        Corruption(name, severity), {key: Score(one) for key, one in values.items()}
    )


def test_first_metric_that_always_applies_is_shown_by_severity() -> None:
    scores = {"nll": Score(1.0), "error": Score(0.5)}
    corrupted = (
        after("fog", 2, nll=2.0, error=0.5),
        after("fog", 4, error=0.75),
        after("gaussian_noise", 5, nll=2.0, error=1.0),
    )
    lines = stripped(shown(evaluated(scores, *corrupted)))
    assert lines[2:] == [
        ["metric", "value", "95 %", "corrupted", "notes"],
        ["NLL", "1.0000"],
        ["Error", "0.5000", "0.7500"],
        ["Error under corruption, by severity"],
        ["corruption", "2", "4", "5"],
        ["fog", "0.5000", "0.7500"],
        ["gaussian_noise", "1.0000"],
    ]


def test_no_corruption_table_without_a_common_metric() -> None:
    lines = stripped(shown(evaluated({"nll": Score(1.0)}, after("fog", 2), after("fog", 3, nll=2))))
    assert lines[-1] == ["NLL", "1.0000"]


@pytest.mark.parametrize("k", [30, 33])
def test_only_the_first_classes_are_shown(k: int) -> None:
    values = {f"c{i}": i / k for i in range(k)}
    scores = {
        "error": Score(0.5),
        "f1": Score(0.5, by_class=values),
        "auroc": Score(0.5, by_class={"c1": 0.125}),
    }
    lines = stripped(shown(evaluated(scores)))
    start = lines.index(["By class"])
    assert lines[start + 1 : start + 4] == [
        ["class", "F1", "AUROC"], ["c0", "0.0000"], ["c1", f"{1 / k:.4f}", "0.1250"],
    ]  # fmt: skip
    last = [["… and 3 more classes; --json shows all."]] if k == 33 else []
    assert lines[start + 32 :] == last
