"""Error of every estimator on real FMoW-WILDS outputs: five models, natural folds.

Garg et al. (ICLR 2022), Table 1. The file has confidence, entropy and correctness of each row, so
methods that need full probability vectors, and temperature scaling, do not apply.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import oodometer
from benchmarks._results import data_folder
from benchmarks.studies._claims import judge
from benchmarks.studies._comparison_page import estimation_table
from benchmarks.studies._pages import Page, Scale, points, reliability_of, write
from oodometer.core.array_types import Floats
from oodometer.core.predictions import Predictions
from oodometer.studies.analysis.evaluation_table import EvaluationTable

K = 62
SPLITS = ("id_test", "val", "test")
# Mean absolute errors in points before and after calibration: ATC Table 1, FMoW-WILDS.
PUBLISHED = {
    "im": ("5.53", "4.31"),
    "ac": ("33.53", "12.84"),
    "doc": ("5.94", "4.45"),
    "gde": ("–", "5.74"),
    "atc-mc": ("3.06", "2.70"),
    "atc-ne": ("3.02", "2.72"),
}


def read(archive: dict[str, Floats], model: str, split: str, rows: Floats | None) -> Predictions:
    signals, correct = archive[f"{model}/{split}/signals"], archive[f"{model}/{split}/correct"]
    if rows is not None:
        signals, correct = signals[rows], correct[rows]
    return Predictions.from_confidence(
        np.clip(signals[:, 0], 0, 1), k=K, negative_entropy=-signals[:, 1], correct=correct
    )


def folds_of(archive: dict[str, Floats], split: str) -> list[str]:
    return [name for name in archive if name.startswith(f"fold/{split}/")]


def models_of(archive: dict[str, Floats]) -> list[str]:
    ending = "/id_val/correct"
    return [name.removesuffix(ending) for name in archive if name.endswith(ending)]


def evaluations(archive: dict[str, Floats], splits: Sequence[str]) -> list[dict[str, Any]]:
    """Return every method's estimate, interval and true accuracy for every model and fold."""
    found = []
    for model in models_of(archive):
        source = read(archive, model, "id_val", None)
        for split in splits:
            for fold in folds_of(archive, split):
                target = read(archive, model, split, archive[fold])
                row = {"model": model, "trained_on": "fmow", "tested_on": fold.removeprefix("fold/"),
                       "split": split, "n": len(target.correct),
                       "accuracy": float(target.correct.mean())}  # fmt: skip
                for one in oodometer.estimate(source, target).estimates:
                    value = {"measure": one.method, "value": one.value}
                    found.append({**row, **value, "low": one.low, "high": one.high})
    return found


def load(path: Path) -> dict[str, Floats]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def errors_by_method(path: Path, splits: Sequence[str]) -> dict[str, Floats]:
    """Return estimate minus true accuracy of every model and fold, by method."""
    gaps: dict[str, list[float]] = {}
    for row in evaluations(load(path), splits):
        gaps.setdefault(row["measure"], []).append(row["value"] - row["accuracy"])
    return {method: np.array(values) for method, values in gaps.items()}


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return, by method, mean absolute errors by split and out of distribution, bias and coverage."""
    found = {}
    for method in dict.fromkeys(row["measure"] for row in rows):
        mine = [row for row in rows if row["measure"] == method]
        outside = [row for row in mine if row["split"] != "id_test"]
        held = [row["low"] <= row["accuracy"] <= row["high"] for row in outside]
        found[method] = {
            **{split: _error(mine, split) for split in SPLITS},
            "outside": float(np.mean([abs(row["value"] - row["accuracy"]) for row in outside])),
            "bias": float(np.mean([row["value"] - row["accuracy"] for row in outside])),
            "covered": float(np.mean(held)),
        }
    return found


def _error(rows: Sequence[dict[str, Any]], split: str) -> float:
    return float(np.mean([abs(r["value"] - r["accuracy"]) for r in rows if r["split"] == split]))


def page(found: dict[str, dict[str, float]], table: EvaluationTable) -> Page:
    """Return the page; `table` has the evaluations out of distribution."""
    rows = [
        (method, *(points(one[key]) for key in (*SPLITS, "outside")),
         points(one["bias"], signed=True), f"{one['covered']:.0%}", *PUBLISHED[method])
        for method, one in found.items()
    ]  # fmt: skip
    head = ("method", *SPLITS, "val + test", "mean error", "coverage of the 95% interval",
            "published, before T", "published, after T")  # fmt: skip
    reliability = reliability_of(table)
    return Page(
        name="fmow",
        title="FMoW-WILDS: estimators on published model outputs",
        done=(
            f"Five published classifiers of satellite images on {len(table.domains) - 1} natural "
            "out-of-distribution folds (regions and years); the source is `id_val`. Mean absolute "
            "errors in points. gde, bbse, mlls and iw do not apply: the file has only confidence, "
            "entropy and correctness."
        ),
        scale=Scale.of_table(table, kind="published networks"),
        reliability=reliability,
        results=judge(
            table, "fmow", reliability=None if reliability is None else reliability.median
        ),
        tables={"Errors": (head, rows), **estimation_table(table)},
        differs=(
            "The paper trains DenseNet-121 and ResNet-50 with four seeds each and tests on the whole "
            "sets; these are five other published models on folds of the sets, without temperature "
            "scaling, so compare with the column before T."
        ),
        notes=(
            "The coverage is that of the intervals of the estimators, which reflect sampling error "
            "only; their low coverage shows how much of the error is caused by shift.",
            "Five models are few for a bootstrap over models, whose intervals may then be too narrow; "
            "the folds are drawn as well.",
        ),
    )  # fmt: skip


def picture(table: Any) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[0.3, 1])
    frame = table.to_pandas()
    dots = (
        alt.Chart(frame)
        .mark_point(filled=True, size=22, opacity=0.6)
        .encode(
            x=alt.X("accuracy:Q", scale=scale, axis=alt.Axis(format="%"), title="true accuracy"),
            y=alt.Y("value:Q", scale=scale, axis=alt.Axis(format="%"), title="estimate"),
            color=alt.Color("split:N", scale=alt.Scale(scheme="tableau10"), title=None),
        )
    )
    line = alt.Chart(frame).mark_line(color="gray", strokeDash=[4, 4]).encode(
        x="accuracy:Q", y="accuracy:Q"
    )  # fmt: skip
    layers = alt.layer(line, dots).properties(width=200, height=200)
    return layers.facet(alt.Facet("measure:N", title=None), columns=3)


def main() -> int:
    import pyarrow as pa

    folder = data_folder()
    if folder is None:
        print("The FMoW outputs are not available on this machine; nothing was measured.")
        return 0
    rows = evaluations(load(folder / "outputs" / "wilds_fmow_signals.npz"), SPLITS)
    outside = pa.Table.from_pylist([row for row in rows if row["split"] != "id_test"])
    table = pa.Table.from_pylist(rows)
    write(page(figures(rows), EvaluationTable.read(outside)), table, picture(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
