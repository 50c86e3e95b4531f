"""What every method gets on real FMoW-WILDS outputs: five models, natural folds out of domain.

The file holds signals (confidence, entropy, correctness), so methods that need whole rows of
probabilities, and temperatures, can't be had there. Run: make bench
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import oodometer
from benchmarks._results import data_folder, machine_facts, markdown_table, write_results
from oodometer.arrays import Floats
from oodometer.predictions import Predictions

K = 62


def read(archive: dict[str, Floats], model: str, split: str, rows: Floats | None) -> Predictions:
    signals, correct = archive[f"{model}/{split}/signals"], archive[f"{model}/{split}/correct"]
    if rows is not None:
        signals, correct = signals[rows], correct[rows]
    return Predictions.from_signals(
        np.clip(signals[:, 0], 0, 1), k=K, negative_entropy=-signals[:, 1], correct=correct
    )


def folds_of(archive: dict[str, Floats], split: str) -> list[str]:
    return [name for name in archive if name.startswith(f"fold/{split}/")]


def models_of(archive: dict[str, Floats]) -> list[str]:
    ending = "/id_val/correct"
    return [name.removesuffix(ending) for name in archive if name.endswith(ending)]


def assessments(
    archive: dict[str, Floats], splits: Sequence[str]
) -> list[tuple[oodometer.Assessment, float]]:
    """An assessment and the truth for every model and fold."""
    found = []
    for model in models_of(archive):
        source = read(archive, model, "id_val", None)
        for split in splits:
            for fold in folds_of(archive, split):
                target = read(archive, model, split, archive[fold])
                found.append((oodometer.estimate(source, target), float(target.correct.mean())))
    return found


def load(path: Path) -> dict[str, Floats]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def errors_by_method(path: Path, splits: Sequence[str]) -> dict[str, Floats]:
    """Estimate minus truth of every model and fold, by method."""
    gaps: dict[str, list[float]] = {}
    for assessment, truth in assessments(load(path), splits):
        for found in assessment.estimates:
            gaps.setdefault(found.method, []).append(found.value - truth)
    return {method: np.array(values) for method, values in gaps.items()}


def main() -> int:
    folder = data_folder()
    if folder is None:
        print("FMoW signals are not on this machine; nothing was measured.")
        return 0
    archive = load(folder / "outputs" / "wilds_fmow_signals.npz")
    per_split = {split: assessments(archive, [split]) for split in ("id_test", "val", "test")}
    outside = per_split["val"] + per_split["test"]
    methods = [found.method for found in outside[0][0].estimates]

    def gaps(method: str, pairs: list[tuple[oodometer.Assessment, float]]) -> Floats:
        return np.array([100 * (found[method].value - truth) for found, truth in pairs])

    def covered(method: str) -> float:
        hits = [(a[method].low or 0) <= t <= (a[method].high or 1) for a, t in outside]
        return 100 * float(np.mean(hits))

    rows = [
        (
            method,
            *(f"{np.abs(gaps(method, pairs)).mean():.2f}" for pairs in per_split.values()),
            f"{np.abs(gaps(method, outside)).mean():.2f}",
            f"{gaps(method, outside).mean():+.2f}",
            f"{covered(method):.0f} %",
        )
        for method in methods
    ]
    head = ("method", "id_test", "val", "test", "val + test", "bias", "95 % interval covers truth")
    text = (
        f"Mean absolute error in points of accuracy over {len(outside)} out-of-domain "
        f"(model, fold) pairs; the source is `id_val`.\n\n{markdown_table(head, rows)}\n\n"
        "The intervals are of the sampling error. How seldom they hold the truth shows how much "
        f"of the error is shift.\n\nNo answer: {', '.join(outside[0][0].refused)}.\n\n"
        f"{machine_facts()}"
    )
    write_results("quality_fmow", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
