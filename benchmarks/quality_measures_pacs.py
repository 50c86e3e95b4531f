"""Divergences between the domains of PACS by small CNNs, and how noisy they are.

Two claims of Vedantam et al. (NeurIPS 2021) are tested on PACS (Li et al., ICCV 2017) at 32 × 32:
domains that look less like photos have a larger distance from photos, and the H-divergence has a
higher signal-to-noise ratio than the HΔH-divergence. The script exits with 1 if a claim does not
hold. Run: make bench
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import data_folder, machine_facts, markdown_table, write_results
from oodometer import measures
from oodometer.core.array_types import Ints
from oodometer.core.protocols import Dataset
from oodometer.data import as_dataset
from oodometer.measures._measure import SubsetNoise, measure
from oodometer.models import TorchModel
from oodometer.transforms.color_ops import Image

DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
CLASSES, BATCH, EPOCHS, RATE, HELD_OUT = 7, 64, 15, 2e-3, 400
DISTANCES = ("h-divergence", "hplus-divergence", "hdh-divergence", "mmd-gaussian", "mmd-mean-cov")
NOISY = ("h-divergence", "h-divergence-ms", "hdh-divergence", "hdh-divergence-ms")
# Published signal-to-noise ratios (DG, appendix, table 1).
PUBLISHED = {
    "h-divergence": "22.59, 22.20",
    "hdh-divergence": "9.10, 1.95",
    "hdh-divergence-ms": "15.48, 3.10",
}


@dataclass(frozen=True)
class Domain:
    """Training and held-out images of one domain."""

    train: Dataset
    held_out: Dataset


def domain(path: Path, name: str) -> Domain:
    """Read a domain in random order; the first images are held out."""
    with np.load(path, allow_pickle=False) as archive:
        here = archive["domain"] == archive["domains"].tolist().index(name)
        images, labels = archive["x"][here], archive["y"][here].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], labels[order]
    parts = (slice(HELD_OUT, None), slice(0, HELD_OUT))
    train, held_out = (as_dataset(images[p], labels=labels[p], name=name) for p in parts)
    return Domain(train, held_out)


def network(width: int) -> nn.Module:
    """Create three convolutions with batch norm, global average pooling and a linear head."""
    layers: list[nn.Module] = []
    for before, after in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
                   nn.MaxPool2d(2)]  # fmt: skip
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES)
    )


def trained(data: Sequence[Dataset], *, width: int, seed: int, epochs: int = EPOCHS) -> TorchModel:
    """Train a network on several domains by Adam, with random mirroring of batches."""
    images: Image = np.concatenate([part.take(slice(None)) for part in data])
    labels: Ints = np.concatenate([np.asarray(part.labels) for part in data])
    given = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    wanted = torch.from_numpy(labels)
    rng = np.random.default_rng([seed, width])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = network(width)
    adam = torch.optim.Adam(made.parameters(), lr=RATE)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(labels)))
        for start in range(0, len(labels), BATCH):
            rows = order[start : start + BATCH]
            shown = given[rows].flip(-1) if rng.random() < 0.5 else given[rows]
            loss = nn.functional.cross_entropy(made(shown), wanted[rows])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    return TorchModel(made, name=f"cnn-{width}, seed {seed}", device="cpu")


def accuracy(model: TorchModel, data: Dataset) -> float:
    said = model.classify(data.take(slice(None)))
    return float((said.classes == np.asarray(data.labels)).mean())


def distances(
    models: Sequence[TorchModel], source: Dataset, targets: Mapping[str, Dataset]
) -> dict[str, dict[str, float]]:
    """Return the distances from the source to each target and the accuracies, means over models."""
    found: dict[str, dict[str, float]] = {}
    for name, target in targets.items():
        each = [measure(model, source, target, measures=list(DISTANCES)) for model in models]
        found[name] = {one: float(np.mean([m[one].value for m in each])) for one in DISTANCES}
        found[name]["accuracy"] = float(np.mean([accuracy(model, target) for model in models]))
    return found


def noises(
    domains: Mapping[str, Domain], *, replicates: int, width: int, epochs: int = EPOCHS
) -> dict[str, list[SubsetNoise]]:
    """Return the noise of the divergences; each domain in turn is the target."""
    found: dict[str, list[SubsetNoise]] = {name: [] for name in NOISY}
    for number, target in enumerate(domains):
        sources = {name: one for name, one in domains.items() if name != target}
        model = trained(
            [one.train for one in sources.values()], width=width, seed=number, epochs=epochs
        )
        held_out = {name: one.held_out for name, one in sources.items()}
        measured = measure(
            model, held_out, domains[target].held_out, measures=list(NOISY), subsamples=replicates
        )
        for name in NOISY:
            found[name].append(measured.noise[name])
    return found


def mean_ratio(noise: Sequence[SubsetNoise]) -> float:
    """Return the mean signal-to-noise ratio over models; models without noise have no ratio."""
    return float(np.mean([one.signal_to_noise for one in noise if one.signal_to_noise is not None]))


def missed(
    far: Mapping[str, Mapping[str, float]], noise: Mapping[str, Sequence[SubsetNoise]]
) -> list[str]:
    """Describe the claims that do not hold."""
    wrong = []
    for name in ("h-divergence", "mmd-gaussian", "mmd-mean-cov"):
        values = [far[domain][name] for domain in DOMAINS]
        if not (values[0] < min(values[1:]) and values[3] == max(values) and values[1] < values[2]):
            wrong.append(f"by {name} the domains are not in the order photo, art, cartoon, sketch")
    ratios = {name: mean_ratio(found) for name, found in noise.items()}
    wrong += [
        f"the signal-to-noise ratio of h-divergence is not above that of {name}"
        for name in ("hdh-divergence", "hdh-divergence-ms")
        if ratios["h-divergence"] <= ratios[name]
    ]
    return wrong


def page(
    far: Mapping[str, Mapping[str, float]],
    noise: Mapping[str, Sequence[SubsetNoise]],
    wrong: Sequence[str],
    *,
    models: int,
    replicates: int,
) -> str:
    labels = [measures.get(name).label for name in DISTANCES]
    rows = [
        (name, f"{100 * found['accuracy']:.1f}", *(f"{found[one]:.4g}" for one in DISTANCES))
        for name, found in far.items()
    ]
    ratios = [
        (measures.get(name).label, f"{mean_ratio(found):.1f}",
         ", ".join("none" if one.signal_to_noise is None else f"{one.signal_to_noise:.1f}" for one in found),
         PUBLISHED.get(name, ""))
        for name, found in noise.items()
    ]  # fmt: skip
    verdict = "All hold." if not wrong else f"MISSED: {'; '.join(wrong)}."
    return (
        f"Small CNNs on PACS at 32 × 32. {models} networks were trained on photos. Distances from "
        "held-out photos to other held-out photos and to the other domains (means over the networks; "
        f"{HELD_OUT // 2} images on each side):\n\n"
        f"{markdown_table(('target', 'accuracy, %', *labels), rows)}\n\n"
        "Signal-to-noise ratio, mean divided by standard deviation over "
        f"{replicates} random subsets of 80 % of the rows, of networks trained on three domains with "
        "the fourth as the target (mean over the four targets; each):\n\n"
        f"{markdown_table(('measure', 'here', 'by target', 'published: VLCS, RotatedMNIST'), ratios)}\n\n"
        "Claims: by the distances, photos come before art, art before cartoons, and sketches last; "
        "and the ratio of the H-divergence is above those of the HΔH-divergences. "
        f"{verdict}\n\n{machine_facts()}"
    )


def photo_targets(domains: Mapping[str, Domain]) -> tuple[Dataset, dict[str, Dataset]]:
    """Return half of the held-out photos as the source, and the other half and domains as targets."""
    photos = domains["photo"].held_out
    half = len(photos) // 2
    others = {name: domains[name].held_out.rows(np.arange(half)) for name in DOMAINS[1:]}
    return photos.rows(np.arange(half)), {
        "photo": photos.rows(np.arange(half, len(photos))),
        **others,
    }


def main() -> int:
    folder = data_folder()
    if folder is None:
        print("PACS is not available on this machine; nothing was measured.")
        return 0
    with one_thread():
        domains = {name: domain(folder / "pacs" / "pacs32.npz", name) for name in DOMAINS}
        models = [
            trained([domains["photo"].train], width=width, seed=seed)
            for seed, width in enumerate((16, 24, 32))
        ]
        far = distances(models, *photo_targets(domains))
        noise = noises(domains, replicates=20, width=24)
    wrong = missed(far, noise)
    write_results(
        "quality_measures_pacs", page(far, noise, wrong, models=len(models), replicates=20)
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
