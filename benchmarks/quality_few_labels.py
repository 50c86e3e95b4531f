"""PPI++ on real FMoW-WILDS outputs: coverage, width and label savings, five models, 500 draws.

Rows are labelled at random, or as `oodometer plan` selects them; both are compared with an interval
from the labels alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._results import data_folder, machine_facts, markdown_table, write_results
from benchmarks.studies import fmow
from oodometer.assessment.labeling_plan import systematic_sample
from oodometer.assessment.ppi import expected_correctness, ppi_estimate
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.stats import wilson_interval

LABELS = (50, 100, 400)
DRAWS = 500
COVERAGE_BOUNDS = (0.92, 0.97)
SPLIT = "test"


class IntervalQuality(NamedTuple):
    """Means over draws: coverage, half-width, share of labels saved."""

    covered: float
    half: float
    saved: float


def rows_of(path: Path) -> Iterator[tuple[str, Bools, Floats]]:
    """Yield each model, its correctness out of distribution, and the expected correctness."""
    archive = fmow.load(path)
    for model in fmow.models_of(archive):
        source, rows = (fmow.read(archive, model, split, None) for split in ("id_val", SPLIT))
        yield model, rows.correct, expected_correctness(source, rows)


def random_rows(scores: Array, labels: int, draw: int) -> Ints:
    return np.random.default_rng(draw).choice(len(scores), labels, replace=False)


def ppi_quality(correct: Bools, scores: Floats, labels: int, select: object) -> IntervalQuality:
    """Return the quality of PPI++ over all draws; `select` chooses the labelled rows."""
    truth = correct.mean()
    draws = []
    for draw in range(DRAWS):
        rows = select(scores, labels, draw)  # type: ignore[operator]
        result = ppi_estimate(
            correct[rows], scores[rows], np.delete(scores, rows), rng=np.random.default_rng(draw)
        )
        half_width = (result.high - result.low) / 2
        draws.append((result.low <= truth <= result.high, half_width, result.label_savings))
    return IntervalQuality(*np.mean(draws, axis=0))


def labels_only_quality(correct: Bools, labels: int) -> IntervalQuality:
    """Return the quality of Wilson's interval from the labels alone."""
    truth = correct.mean()
    draws = []
    for draw in range(DRAWS):
        low, high = wilson_interval(int(correct[random_rows(correct, labels, draw)].sum()), labels)
        draws.append((low <= truth <= high, (high - low) / 2, 0.0))
    return IntervalQuality(*np.mean(draws, axis=0))


def measured(path: Path, labels: int) -> dict[str, list[IntervalQuality]]:
    """Return the quality per method, one value per model."""
    results: dict[str, list[IntervalQuality]] = {
        "labels only": [],
        "ppi++": [],
        "ppi++, planned rows": [],
    }
    for _, correct, scores in rows_of(path):
        results["labels only"].append(labels_only_quality(correct, labels))
        results["ppi++"].append(ppi_quality(correct, scores, labels, random_rows))
        results["ppi++, planned rows"].append(
            ppi_quality(correct, scores, labels, systematic_sample)
        )
    return results


def main() -> int:
    folder = data_folder()
    if folder is None:
        print("The FMoW outputs are not available on this machine; nothing was measured.")
        return 0
    rows, kept = [], True
    for labels in LABELS:
        results = measured(folder / "outputs" / "wilds_fmow_signals.npz", labels)
        reference = np.mean([model.half for model in results["labels only"]])
        for method, models in results.items():
            covered = float(np.mean([model.covered for model in models]))
            half = np.mean([model.half for model in models])
            each = [model.covered for model in models]
            kept &= method == "labels only" or COVERAGE_BOUNDS[0] <= covered <= COVERAGE_BOUNDS[1]
            rows.append(
                (str(labels), method, f"{covered:.1%}", f"{min(each):.1%}–{max(each):.1%}",
                 f"{100 * half:.1f}", f"{1 - (half / reference) ** 2:+.0%}")
            )  # fmt: skip
    head = ("labels", "method", "coverage", "by model", "half-width, points", "labels saved")
    text = (
        f"Five published models on FMoW-WILDS `{SPLIT}` (out of distribution), {DRAWS} draws each: "
        "coverage of the nominal 95% interval for the accuracy on all rows. Labels saved compares with "
        "the number of labels that an interval of equal width from labels only would need (ratio of "
        "squared widths). Planned rows are a systematic sample in the order of expected correctness."
        f"\n\n{markdown_table(head, rows)}\n\nBound: coverage of PPI++ within "
        f"{COVERAGE_BOUNDS[0]:.0%}–{COVERAGE_BOUNDS[1]:.0%} (mean of models): "
        f"{'kept' if kept else 'MISSED'}.\n\n{machine_facts()}"
    )
    write_results("quality_few_labels", text)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
