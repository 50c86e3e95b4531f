"""CPU time of all measures together compared with the most expensive measure alone.

Measures share passes, features, fits and gradients; the bound is three times the most expensive one.
CPU time in one run on one thread. The script exits with 1 if the bound is missed. Run: make bench
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import machine_facts, markdown_table, write_results
from benchmarks.quality_measures_pacs import CLASSES, network
from oodometer import measures
from oodometer.core.protocols import Dataset
from oodometer.data import as_dataset
from oodometer.measures._measure import measure
from oodometer.models import TorchModel

ROWS, SIDE, WIDTH, MOST = 1000, 32, 24, 3.0


def images(seed: int, lift: float, n: int = ROWS) -> Dataset:
    """Return images of smoothed noise with balanced classes, brightened by `lift`."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % CLASSES
    coarse = rng.normal(size=(n, 4, 4, 3)).repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)
    tint = np.linspace(-1, 1, CLASSES)[labels][:, None, None, None]
    values = 128 + 40 * coarse + 20 * rng.normal(size=(n, SIDE, SIDE, 3)) + 30 * tint + lift
    return as_dataset(values.clip(0, 255).astype(np.uint8), labels=labels)


def trained(data: Sequence[Dataset]) -> TorchModel:
    """Train a network briefly; sharpness requires some correct rows."""
    torch.manual_seed(0)
    made = network(WIDTH)
    adam = torch.optim.Adam(made.parameters(), lr=2e-3)
    for _ in range(3):
        for part in data:
            shown = torch.from_numpy(part.take(slice(None))).permute(0, 3, 1, 2).float() / 255
            wanted = torch.from_numpy(np.asarray(part.labels))
            for start in range(0, len(wanted), 64):
                rows = slice(start, start + 64)
                loss = torch.nn.functional.cross_entropy(made(shown[rows]), wanted[rows])
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
    return TorchModel(made, name="cnn", device="cpu")


def cost(names: list[str] | None, model: TorchModel, sides: Sequence[Dataset]) -> float:
    """Return the CPU seconds of some measures, without cached values."""
    source = {"one": sides[0], "other": sides[1]}
    began = time.process_time()
    found = measure(model, source, sides[2], measures=names, training_data=source)
    assert not found.skipped, found.skipped
    return time.process_time() - began


def page(alone: dict[str, float], together: float) -> str:
    dearest = max(alone, key=lambda name: alone[name])
    total = sum(alone.values())
    rows = [
        (measures.get(name).label, f"{taken:.2f}")
        for name, taken in sorted(alone.items(), key=lambda pair: -pair[1])[:12]
    ]
    ratio = together / alone[dearest]
    verdict = "is kept" if ratio <= MOST else "is MISSED"
    return (
        f"{len(alone)} measures of a small CNN ({ROWS:,} images of {SIDE} × {SIDE} in each of two "
        f"source domains and the target), CPU seconds on one thread; the twelve most expensive, each "
        f"alone:\n\n{markdown_table(('measure', 'alone, s'), rows)}\n\nAll together: {together:.2f} s, "
        f"{ratio:.2f} times the most expensive one alone ({alone[dearest]:.2f} s), and "
        f"{total / together:.1f} times less than the sum of all ({total:.1f} s). The bound of "
        f"{MOST:g} times {verdict}.\n\n"
        f"{machine_facts()}"
    )


def main() -> int:
    with one_thread():
        sides = [images(1, 0.0), images(2, 10.0), images(3, 40.0)]
        model = trained(sides[:2])
        cost(["h-divergence", "jacobian"], model, sides)  # warm-up: late imports are not timed
        alone = {member.name: cost([member.name], model, sides) for member in measures.available()}
        together = cost(None, model, sides)
    write_results("speed_measures", page(alone, together))
    return 1 if together > MOST * max(alone.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
