"""Outputs of a made-up classifier, for what is timed."""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Array


def said(rng: np.random.Generator, labels: Array, k: int, lift: float) -> Array:
    """Probabilities float32 of k classes; the higher the lift, the more often the label's is first."""
    logits = rng.standard_normal((len(labels), k), dtype=np.float32)
    logits[np.arange(len(labels)), labels] += np.float32(lift)
    np.exp(2 * logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits
