"""CIFAR-10 with corruptions and Tiny-ImageNet: heads on Lite0 features, and small networks.

The source and the corrupted targets are different test images. The heads read images enlarged to 96
pixels; the small networks are trained from scratch on 32 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from benchmarks._digit_classifiers import one_thread
from benchmarks.suites._features import Images, corrupt, decode_images, image_features
from benchmarks.suites.heads import Classifier, fit_all, heads, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Floats, Ints
from oodometer.core.stats import rng_for

SIDE = 96
TRAINING_ROWS = 6000
FEW_TRAINING_ROWS = 600
HOME_ROWS = 4000
TARGET_ROWS = 1000
TINY_ROWS = 2500
CORRUPTIONS = (
    "gaussian_noise", "defocus_blur", "motion_blur", "fog", "contrast", "pixelate", "jpeg",
)  # fmt: skip
SEVERITIES = (1, 3, 5)
TINY = "tiny-imagenet"
NETWORK_TRAINING_ROWS = 8000


@cache
def load(space: Workspace) -> dict[str, tuple[Images, Ints]]:
    """Return images and labels of the training part, of the source and of every target."""
    folder = space.data / "cifar"
    with np.load(folder / "cifar10_jpeg.npz", allow_pickle=False) as archive:
        training = rng_for(0, "cifar", "training").permutation(len(archive["train_y"]))
        training = training[:NETWORK_TRAINING_ROWS]
        test = rng_for(0, "cifar", "test").permutation(len(archive["test_y"]))
        images, labels = decode_images(archive, "test_"), archive["test_y"].astype(np.int64)
        parts = {
            "training": (decode_images(archive, "train_", training),
                         archive["train_y"][training].astype(np.int64)),
            HOME: (images[test[:HOME_ROWS]], labels[test[:HOME_ROWS]]),
        }  # fmt: skip
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            rows = rng_for(0, "cifar", name, severity).permutation(test[HOME_ROWS:])[:TARGET_ROWS]
            parts[f"{name}-{severity}"] = corrupt(images[rows], name, severity), labels[rows]
    with np.load(folder / "tinyimagenet_as_cifar10.npz", allow_pickle=False) as archive:
        rows = rng_for(0, "cifar", TINY).permutation(len(archive["y"]))[:TINY_ROWS]
        parts[TINY] = archive["x"][rows], archive["y"][rows].astype(np.int64)
    return parts


def features(space: Workspace, part: str) -> tuple[Floats, Ints]:
    """Return the features and labels of one part."""
    images, labels = load(space)[part]
    if part == "training":
        images, labels = images[:TRAINING_ROWS], labels[:TRAINING_ROWS]
    return image_features(space.features(f"cifar-{part}"), lambda: images, side=SIDE), labels


def predict_heads(space: Workspace, group: str) -> Iterator[Domain]:
    """Train heads on 6,000 or 600 images."""
    rows, labels = features(space, "training")
    n_training = FEW_TRAINING_ROWS if group == "few" else TRAINING_ROWS
    models = fit_all(heads(10), rows[:n_training], labels[:n_training])
    yield from _targets(space, models, features)


def predict_networks(space: Workspace, group: str) -> Iterator[Domain]:
    """Train convolutional networks from scratch."""
    images, labels = load(space)["training"]
    models: dict[str, Classifier] = {
        "narrow": Network(16, epochs=5, seed=0),
        "wide": Network(24, epochs=6, seed=1),
    }
    yield from _targets(space, fit_all(models, images, labels), lambda s, part: load(s)[part])


def _targets(
    space: Workspace,
    models: Mapping[str, Classifier],
    read: Callable[[Workspace, str], tuple[Floats, Ints]],
) -> Iterator[Domain]:
    for part in load(space):
        if part != "training":
            inputs, labels = read(space, part)
            yield Domain(part, labels, predict_all(models, inputs))


class Network:
    """Convolutional network of three layers, trained by Adam with mirrored images."""

    def __init__(self, width: int, *, epochs: int, seed: int) -> None:
        self.width, self.epochs, self.seed = width, epochs, seed

    def fit(self, images: Images, labels: Ints) -> Network:
        targets, inputs = torch.from_numpy(labels), self._scale(images)
        with one_thread(), torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self.network = self._network()
            adam = torch.optim.Adam(self.network.parameters(), 2e-3)
            for _ in range(self.epochs):
                for rows in torch.split(torch.randperm(len(inputs)), 64):
                    batch = inputs[rows]
                    batch = batch.flip(3) if torch.rand(()) < 0.5 else batch
                    loss = nn.functional.cross_entropy(self.network(batch), targets[rows])
                    adam.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()
        return self

    def _network(self) -> nn.Module:
        layers: list[nn.Module] = []
        widths = (3, self.width, 2 * self.width, 4 * self.width)
        for before, after in pairwise(widths):
            convolution = nn.Conv2d(before, after, 3, padding=1)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * 16, 10))

    @staticmethod
    def _scale(images: Images) -> torch.Tensor:
        return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 128 - 1

    def predict_proba(self, images: Images) -> Floats:
        self.network.eval()
        with one_thread(), torch.inference_mode():
            blocks = [self.network(block) for block in torch.split(self._scale(images), 256)]
            return np.asarray(torch.cat(blocks).double().softmax(dim=1).numpy())


def head_groups(space: Workspace) -> Sequence[str]:
    return ("many", "few")


def network_groups(space: Workspace) -> Sequence[str]:
    return ("networks",)


SUITES = (
    Suite(name="cifar", family="small-images", k=10, groups=head_groups, predict=predict_heads,
          outputs="cifar", body="lite0", cases=320),
    Suite(name="cifar-networks", family="small-images", k=10, groups=network_groups,
          predict=predict_networks, outputs="cifar-networks", cases=176),
)  # fmt: skip
