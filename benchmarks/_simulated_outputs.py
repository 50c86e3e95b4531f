"""Simulated outputs of a classifier, for timing."""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Array


def simulate_probs(rng: np.random.Generator, labels: Array, k: int, lift: float) -> Array:
    """Return float32 probabilities of k classes; a higher lift gives a higher accuracy."""
    logits = rng.standard_normal((len(labels), k), dtype=np.float32)
    logits[np.arange(len(labels)), labels] += np.float32(lift)
    np.exp(2 * logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits
