"""A small torch network on digits that get noisier: estimated accuracy, invariance, and the truth."""

import numpy as np
import torch
from sklearn.datasets import load_digits

import oodometer
from oodometer.data import TransformedDataset
from oodometer.transforms.corruptions import Corruption


def network():
    """Two convolutions and a head, for images of 8 × 8."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )


def prepared(images):
    """A batch of grey images, as uint8 arrays, as the network takes them."""
    return torch.from_numpy(images.astype(np.float32) / 255)[:, None]


def taught(images, labels, epochs=25):
    torch.manual_seed(0)
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    inputs, truth = prepared(images), torch.from_numpy(labels)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(128):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs[rows]), truth[rows]).backward()
            optimizer.step()
    return net.eval()


def main():
    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target
    net = taught(images[:800], labels[:800])
    model = oodometer.as_model(net, name="cnn", prepare=prepared, outputs="logits")

    said = model.classify(images[800:1300])
    source = oodometer.Predictions.from_logits(said.scores, labels=labels[800:1300])
    clean, truth = oodometer.as_dataset(images[1300:]), labels[1300:]
    print("data             estimate  (95 %)           NI    truth")
    for name, new in [("clean", clean), *noisy(clean)]:
        said = model.classify(new.take(slice(None)))
        found = oodometer.estimate(source, said, methods="atc-mc")["atc-mc"]
        inner = oodometer.invariance(model, new, transform="translate", draws=5)[
            "cnn"
        ].mean_with_interval("ni")
        print(
            f"{name:15}  {found.value:8.1%}  ({found.low:.1%}–{found.high:.1%})"
            f"  {inner.value:.3f}  {(said.classes == truth).mean():.1%}"
        )


def noisy(clean):
    """The same images with noise of three severities."""
    for severity in (1, 3, 5):
        yield (
            f"noise {severity} of 5",
            TransformedDataset(clean, Corruption("gaussian_noise", severity)),
        )


if __name__ == "__main__":
    main()
