"""Classification heads on fixed features, from well calibrated to overconfident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from benchmarks._digit_classifiers import one_thread
from oodometer.core.array_types import Floats, Ints

BATCH_ROWS = 128


class Classifier(Protocol):
    """Classifier with the interface of scikit-learn."""

    def fit(self, features: Floats, labels: Ints) -> object: ...

    def predict_proba(self, features: Floats) -> Floats: ...


@dataclass
class TorchHead:
    """Linear head or network with one hidden layer, trained by Adam on standardized features."""

    k: int
    hidden: int = 0
    epochs: int = 10
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    seed: int = 0

    def fit(self, features: Floats, labels: Ints) -> TorchHead:
        self.mean, self.scale = features.mean(axis=0), features.std(axis=0) + 1e-3
        generator = torch.Generator().manual_seed(self.seed)
        inputs, targets = self._standardize(features), torch.from_numpy(labels.astype(np.int64))
        with one_thread(), torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self.network = self._network(features.shape[1])
            adam = torch.optim.AdamW(
                self.network.parameters(), 1e-3, weight_decay=self.weight_decay
            )
            for _ in range(self.epochs):
                order = torch.randperm(len(inputs), generator=generator)
                for rows in torch.split(order, BATCH_ROWS):
                    loss = nn.functional.cross_entropy(
                        self.network(inputs[rows]),
                        targets[rows],
                        label_smoothing=self.label_smoothing,
                    )
                    adam.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()
        return self

    def _network(self, width: int) -> nn.Module:
        if not self.hidden:
            return nn.Linear(width, self.k)
        return nn.Sequential(
            nn.Linear(width, self.hidden), nn.ReLU(), nn.Linear(self.hidden, self.k)
        )

    def _standardize(self, features: Floats) -> torch.Tensor:
        return torch.from_numpy(((features - self.mean) / self.scale).astype(np.float32))

    def predict_proba(self, features: Floats) -> Floats:
        with one_thread(), torch.inference_mode():
            logits = self.network(self._standardize(features)).double()
            return np.asarray(logits.softmax(dim=1).numpy())


@dataclass
class PrototypeHead:
    """Softmax of scaled cosine similarities to the mean of each class."""

    k: int
    scale: float = 12.0

    def fit(self, features: Floats, labels: Ints) -> PrototypeHead:
        self.mean = features.mean(axis=0)
        rows = self._normalize(features)
        self.prototypes = np.stack([rows[labels == j].mean(axis=0) for j in range(self.k)])
        self.prototypes /= np.linalg.norm(self.prototypes, axis=1, keepdims=True)
        return self

    def _normalize(self, features: Floats) -> Floats:
        rows = features - self.mean
        return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6))

    def predict_proba(self, features: Floats) -> Floats:
        logits = self.scale * self._normalize(features) @ self.prototypes.T
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def heads(k: int, *, seed: int = 0) -> dict[str, Classifier]:
    """Return untrained heads by name."""
    return {
        "linear": TorchHead(k, epochs=8, weight_decay=0.1, seed=seed),
        "linear-long": TorchHead(k, epochs=40, seed=seed + 1),
        "mlp": TorchHead(k, hidden=128, epochs=15, seed=seed + 2),
        "mlp-smoothed": TorchHead(k, hidden=64, epochs=10, label_smoothing=0.1, seed=seed + 3),
        "prototypes": PrototypeHead(k),
    }


def fit_all(
    models: Mapping[str, Classifier], features: Floats, labels: Ints
) -> Mapping[str, Classifier]:
    """Train all models on the same rows."""
    for model in models.values():
        model.fit(features, labels)
    return models


def predict_all(models: Mapping[str, Classifier], features: Floats) -> dict[str, Floats]:
    """Return the probabilities of all models."""
    return {name: model.predict_proba(features) for name, model in models.items()}
