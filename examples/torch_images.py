"""Estimated accuracy, invariance and true accuracy of a torch network on increasingly noisy digits."""

import numpy as np
import torch
from sklearn.datasets import load_digits

import oodometer
from oodometer.data import TransformedDataset
from oodometer.transforms.corruptions import Corruption


def make_network():
    """Return two convolutions and a linear head for images of 8 × 8 pixels."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )


def prepare(images):
    """Convert a batch of grey uint8 images to the network's input."""
    return torch.from_numpy(images.astype(np.float32) / 255)[:, None]


def train(images, labels, epochs=25):
    torch.manual_seed(0)
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    inputs, targets = prepare(images), torch.from_numpy(labels)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(128):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return network.eval()


def add_noise(dataset):
    """Yield the dataset with noise of three severities."""
    for severity in (1, 3, 5):
        noise = Corruption("gaussian_noise", severity)
        yield f"noise {severity} of 5", TransformedDataset(dataset, noise)


def main():
    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target
    network = train(images[:800], labels[:800])
    model = oodometer.as_model(network, name="cnn", prepare=prepare, outputs="logits")

    logits = model.classify(images[800:1300]).scores
    source = oodometer.Predictions.from_logits(logits, labels=labels[800:1300])
    clean, truth = oodometer.as_dataset(images[1300:]), labels[1300:]
    print("data             estimate  (95 %)           NI     true")
    for name, dataset in [("clean", clean), *add_noise(clean)]:
        target = model.classify(dataset.take(slice(None)))
        estimate = oodometer.estimate(source, target, methods="atc-mc")["atc-mc"]
        invariance = oodometer.invariance(model, dataset, transform="translate", draws=5)
        ni = invariance["cnn"].mean_with_interval("ni").value
        print(
            f"{name:15}  {estimate.value:8.1%}  ({estimate.low:.1%}–{estimate.high:.1%})"
            f"  {ni:.3f}  {np.mean(target.classes == truth):.1%}"
        )


if __name__ == "__main__":
    main()
