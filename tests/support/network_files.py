"""A folder with a module of torch networks (`toy_nets.py`), and data, outputs and features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.testing.measures import toy_data

NETS = """
import torch
from oodometer.testing.measures import toy_network
network = toy_network()
images = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
"""


def write_network_files(folder: Path) -> Path:
    """Write the module, three datasets (one, other, new) in four forms, and 20 labelled images."""
    (folder / "toy_nets.py").write_text(NETS)
    for name, seed, shift in (("one", 1, 0.0), ("other", 2, 0.5), ("new", 3, 1.0)):
        rows, labels = toy_data(seed, shift)
        np.savez(folder / f"{name}.npz", inputs=rows, labels=labels)
        np.save(folder / f"{name}.npy", rows)
        np.savez(folder / f"{name}_features.npz", features=rows)
        probs = Predictions.from_logits(rows[:, :3]).probs
        np.savez(folder / f"{name}_outputs.npz", probs=probs, labels=labels, features=rows)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    np.savez(folder / "pictures.npz", images=images, labels=rng.integers(0, 3, 20))
    return folder
