"""Speed of neighborhoods compared with bare forward passes and with a straightforward loop.

10,000 images of 32×32, a CNN of about 0.3M parameters, 10 RandAugment draws. Every ratio is measured
within one run, in wall time: both sides use both cores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._results import machine_facts, markdown_table, write_results
from benchmarks.speed_randaugment import looped
from oodometer.core.array_types import Array
from oodometer.core.inputs import hash_rows
from oodometer.core.protocols import Model
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.models import OnnxModel, TorchModel
from oodometer.neighborhood._invariance import invariance
from oodometer.transforms import RandAugment

N, DRAWS, SOME = 10_000, 10, 1_000
BATCH = 512


def images(n: int, seed: int = 0) -> Array:
    """Return smooth colour images, which image operations change visibly."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8).astype(np.float32)
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2) + rng.normal(0, 8, (n, 32, 32, 3))
    return np.clip(fine, 0, 255).astype(np.uint8)


def network(seed: int = 0) -> torch.nn.Module:
    """Create a typical CNN with batch norm and 0.3M parameters."""
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for before, after, stride in ((3, 32, 1), (32, 64, 2), (64, 128, 2), (128, 160, 1)):
        layers += [torch.nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
                   torch.nn.BatchNorm2d(after), torch.nn.ReLU()]  # fmt: skip
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(160, 10)]
    return torch.nn.Sequential(*layers).eval()


def exported(module: torch.nn.Module, folder: Path) -> Path:
    """Export the network to an ONNX file with batch norms folded."""
    path = folder / "cnn.onnx"
    example = (torch.zeros(2, 3, 32, 32),)
    rows = torch.export.Dim("rows")
    torch.onnx.export(
        module, example, path, dynamo=True, dynamic_shapes=({0: rows},), verbose=False
    )
    return path


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def forward(model: Model, inputs: Array, count: int) -> None:
    """Run bare forward passes over `count` images in batches."""
    for start in range(0, count, BATCH):
        rows = np.arange(start, min(start + BATCH, count)) % len(inputs)
        model.classify(inputs[rows])


def eager_loop(module: torch.nn.Module, data: Array) -> None:
    """Run the straightforward loop: Pillow for every image, then model(batch)."""
    examples = hash_rows(data)
    for number in range(DRAWS + 1):
        for start in range(0, len(data), 64):
            rows = slice(start, start + 64)
            batch = data[rows]
            if number:
                draws = RowStreams(0, examples[rows], np.full(len(batch), number))
                batch = looped(batch, draws, RandAugment())
            tensor = torch.from_numpy(np.moveaxis(batch, 3, 1).astype(np.float32) / 255)
            with torch.no_grad():
                module(tensor).argmax(dim=1)


Row = tuple[str, str, str, str, str, str]


def against_bare(name: str, model: Model, data: Array) -> tuple[Row, float, bool]:
    """Compare with bare forward passes; return the row, our rate, and whether the bound is kept."""
    total = len(data) * (DRAWS + 1)
    forward(model, data, SOME)
    bare = total / seconds(lambda: forward(model, data, total))
    began = time.perf_counter()
    found = invariance(model, data, transform="randaugment", batch_size=BATCH)
    ours = total / (time.perf_counter() - began)
    share = found.sampling_cost.classified / found.sampling_cost.drawn
    row = (f"neighborhoods / bare forward passes, {name}", f"{ours:,.0f}", f"{bare:,.0f}",
           f"{ours / bare:.2f}", "≥ 0.9", f"{share:.0%} of the draws are distinct; ratio for distinct draws only {ours * share / bare:.2f}")  # fmt: skip
    return row, ours, ours / bare >= 0.9


def against_obvious(rates: dict[str, float], module: torch.nn.Module, data: Array) -> list[Row]:
    """Compare with the straightforward loop; the bound applies to the faster backend."""
    obvious = len(data) * (DRAWS + 1) / seconds(lambda: eager_loop(module, data))
    best = max(rates.values())
    return [
        (f"neighborhoods, {name} / straightforward loop", f"{rate:,.0f}", f"{obvious:,.0f}",
         f"{rate / obvious:.2f}", "≥ 1.5" if rate == best else "", "Pillow, then eager torch")
        for name, rate in rates.items()
    ]  # fmt: skip


def main() -> int:
    data, module = images(N), network()
    size = sum(p.numel() for p in module.parameters())
    rows: list[Row] = []
    rates: dict[str, float] = {}
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        onnx = OnnxModel(exported(module, Path(folder)))
        for name, model in {"torch": TorchModel(module), "onnxruntime": onnx}.items():
            row, rates[name], good = against_bare(name, model, data)
            rows.append(row)
            kept &= good
        rows += against_obvious(rates, module, data[:SOME])
        kept &= max(float(row[3]) for row in rows[2:]) >= 1.5
        rows.append(ten_models(data[:SOME], onnx))
        kept &= float(rows[-1][3]) <= 1.05
    head = ("comparison", "first, images/s", "second, images/s", "ratio", "bound", "note")
    text = (
        f"{N:,} images of 32×32×3, a CNN of {size / 1e6:.2f}M parameters, {DRAWS} draws of "
        f"RandAugment and the image itself. {machine_facts()} torch {torch.__version__}.\n\n"
        f"{markdown_table(head, rows)}\n"
    )
    write_results("speed_invariance", text)
    return 0 if kept else 1


def ten_models(data: Array, model: Model) -> Row:
    """Compare ten models that share draws with one transform pass and ten forward passes."""
    total = len(data) * (DRAWS + 1)
    ten = {f"model {j}": model for j in range(10)}
    together = seconds(lambda: invariance(ten, data, transform="randaugment", batch_size=BATCH))
    transform, dataset = RandAugment(), as_dataset(data)

    def transformed() -> None:
        for number in range(1, DRAWS + 1):
            transform.apply(data, RowStreams(0, dataset.keys, np.full(len(data), number)))

    apart = seconds(transformed) + 10 * seconds(lambda: forward(model, data, total))
    return ("ten models / one transform pass and ten forward passes", f"{10 * total / together:,.0f}",
            f"{10 * total / apart:,.0f}", f"{together / apart:.2f}", "≤ 1.05", "ratio of times")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
