"""Files of weights of small networks of timm, with random weights."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from oodometer.models.timm import timm_package

# The smallest convolutional network and the smallest vision transformer of timm.
NETWORK = "test_resnet"
TRANSFORMER = "test_vit"


def create(model: str = NETWORK, *, seed: int = 0, **options: Any) -> Any:
    """Return a network of timm with random weights, in evaluation mode."""
    torch: Any = importlib.import_module("torch")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return timm_package().create_model(model, **options).eval()


def write_weights(path: Path, model: str = NETWORK, **options: Any) -> Any:
    """Write the weights of a random network to a file, and return the network."""
    network = create(model, **options)
    save_weights(path, network.state_dict())
    return network


def save_weights(path: Path, tensors: dict[str, Any]) -> None:
    """Write tensors to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save: Any = importlib.import_module("safetensors.torch").save_file
    save({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
