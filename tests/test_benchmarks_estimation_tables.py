"""Tables of estimation errors: means over targets, standard deviations over seeds, both modes."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.studies._estimation_tables import calibration_table, estimate_picture
from benchmarks.studies._published_figures import ATC, ATC_UNCALIBRATED
from benchmarks.studies.cifar import shift
from oodometer.studies.analysis.evaluation_table import EvaluationTable


def evaluations(**estimates: float) -> EvaluationTable:
    """Return two seeds of one head on two corrupted sets; estimates are off by seed and amount."""
    domains = ["cifar-10-jpeg/fog-1", "cifar-10-jpeg/fog-2", "cifar-10-jpeg/snow-1"]
    columns: dict[str, list[Any]] = {
        "model": [f"m{seed}" for seed in (0, 1) for _ in domains],
        "seed": [seed for seed in (0, 1) for _ in domains],
        "architecture": ["head"] * 6,
        "trained_on": ["cifar-10-jpeg"] * 6,
        "tested_on": domains * 2,
        "accuracy": [0.5, 0.6, 0.7] * 2,
    }
    columns["shift"] = [shift("cifar-10-jpeg", name) for name in columns["tested_on"]]
    for name, error in estimates.items():
        off = [error] * 3 + [3 * error] * 3
        columns[name] = [a + e for a, e in zip(columns["accuracy"], off, strict=True)]
    return EvaluationTable.read(columns, measures=list(estimates))


def test_errors_have_both_modes_and_the_papers_figures() -> None:
    table = evaluations(**{"ac": 0.01, "ac (pre-T)": 0.02, "gde": 0.03})
    ((head, rows),) = calibration_table(table, "CIFAR-10").values()
    ours, paper = (dict(zip(head, row, strict=True)) for row in rows)
    assert (ours["shift"], ours["architecture"]) == ("synthetic", "head")
    # Seeds are off by 1 and 3 points: mean 2, standard deviation √2.
    assert (ours["ac post-T"], ours["ac pre-T"]) == ("2.00 ± 1.41", "4.00 ± 2.83")
    assert (ours["gde"], ours["doc post-T"]) == ("6.00 ± 4.24", "–")
    assert paper["ac post-T"] == f"{ATC['CIFAR-10 synthetic']['ac']:.2f}"
    assert paper["ac pre-T"] == f"{ATC_UNCALIBRATED['CIFAR-10 synthetic']['ac']:.2f}"


def test_picture_has_points_and_robust_lines_per_estimator() -> None:
    table = evaluations(ac=0.01, doc=0.05)
    (panel,) = estimate_picture(table, ["m0"]).hconcat
    points, lines = (layer.data for layer in panel.layer[1:])
    assert sorted(points.groupby("estimator").size().items()) == [("ac", 3), ("doc", 3)]
    ends = lines[lines["estimator"] == "doc"]
    assert (ends["estimated"] - ends["true"]).tolist() == pytest.approx([0.05, 0.05])


@pytest.mark.parametrize(
    ("tested_on", "kind"),
    [("cifar-10-jpeg", ""), ("tiny-imagenet", "natural"), ("cifar-10-jpeg/fog-3", "synthetic")],
)
def test_types_of_shift(tested_on: str, kind: str) -> None:
    assert shift("cifar-10-jpeg", tested_on) == kind
