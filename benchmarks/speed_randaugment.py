"""CPU time of RandAugment compared with a Pillow loop of the same operations, in one run.

The ratio at 32 pixels has a bound; the script exits with 1 if it is missed. Run: make bench
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks._results import machine_facts, markdown_table, write_results
from benchmarks.speed_estimators import cpu
from oodometer.core.inputs import hash_rows
from oodometer.core.optional_imports import opencv
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.color_ops import Image
from oodometer.transforms.randaugment import OPERATIONS, RandAugment
from tests.support.pillow_twin import twins

# Side in pixels, number of images, operations per image, lower bound on the ratio.
CASES: tuple[tuple[int, int, int, float | None], ...] = (
    (8, 4000, 1, None),
    (32, 4000, 1, 3.0),
    (224, 200, 3, None),
)
NAMES = [operation.name for operation in OPERATIONS]


def looped(images: Image, draws: RowStreams, member: RandAugment) -> Image:
    """Apply the same operations with the same magnitudes in Pillow."""
    changed = np.empty_like(images)
    chosen, amounts = member.draw_operations(member.n_ops or 1, draws)
    for row, image in enumerate(images):
        names = [NAMES[place] for place in chosen[row].tolist()]
        changed[row] = twins(image, names, amounts[row].tolist())
    return changed


def rates(side: int, n: int, n_ops: int) -> tuple[float, float]:
    """Return the images per second of CPU time of our code and of Pillow."""
    images = np.random.default_rng(side).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    draws = RowStreams(seed=0, row_keys=hash_rows(images), draw_index=np.ones(n, dtype=np.int64))
    member = RandAugment(n_ops=n_ops)
    assert np.array_equal(member.apply(images, draws), looped(images, draws, member))
    ours, theirs = cpu(lambda: member.apply(images, draws), lambda: looped(images, draws, member))
    return n / ours, n / theirs


def main() -> int:
    opencv().setNumThreads(1)
    rows, kept = [], True
    for side, n, n_ops, bound in CASES:
        ours, theirs = rates(side, n, n_ops)
        good = bound is None or ours / theirs >= bound
        kept = kept and good
        wanted = ("", "") if bound is None else (f"≥ {bound:g}", "yes" if good else "NO")
        numbers = (f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f}")
        rows.append((f"{side} × {side} × 3", f"{n_ops}", *numbers, *wanted))
    head = ("images", "operations", "ours, images/s", "Pillow, images/s", "ratio", "bound", "kept")
    note = "One core, CPU time, magnitude 15; the images are identical."
    table = markdown_table(head, rows)
    write_results("speed_randaugment", f"{table}\n\n{note}\n\n{machine_facts()}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
