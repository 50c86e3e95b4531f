"""Every architecture in a tiny form, with the shape and inputs it is tested on."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from oodometer.studies.training.architectures import get
from oodometer.studies.training.architectures.base import InputShape

IMAGES = InputShape("images", classes=3, size=(3, 16, 16))
VECTORS = InputShape("vectors", classes=3, size=(5,))
TEXT = InputShape("text", classes=3, size=(12,), vocabulary=300)
PAIRS = InputShape("pairs", classes=3, size=(12,), vocabulary=300)


class Tiny(NamedTuple):
    """Name, settings and input shape of a tiny architecture."""

    name: str
    settings: dict[str, Any]
    shape: InputShape

    def build(self, seed: int = 0) -> Any:
        """Return a module with weights drawn from a seed."""
        torch.manual_seed(seed)
        return get(self.name, self.settings).build(self.shape)

    def inputs(self, n: int = 6) -> Any:
        """Return a batch of numbers, or of tokens with padding."""
        drawn = torch.Generator().manual_seed(1)
        kind, size = self.shape.kind, self.shape.size
        if kind in ("images", "vectors"):
            return torch.rand(n, *size, generator=drawn)
        rows = (n, 2, *size) if kind == "pairs" else (n, *size)
        tokens = torch.randint(1, self.shape.vocabulary, rows, generator=drawn)
        lengths = torch.randint(0, size[0] + 1, rows[:-1], generator=drawn)
        return tokens * (torch.arange(size[0]) < lengths.unsqueeze(-1))


_WORDS = {"width": 4, "embedding": 6, "hidden": 8}
PLAIN = (
    Tiny("mlp", {"depth": 2}, VECTORS),
    Tiny("mlp", {}, IMAGES),
    Tiny("small-cnn", {"width": 4}, IMAGES),
    Tiny("nin", {"width": 4}, IMAGES),
    Tiny("vgg", {"width": 4}, IMAGES),
    Tiny("resnet", {"width": 4, "batch_norm": False}, IMAGES),
    Tiny("dg-cnn", {"width": 8}, IMAGES),
)
NORMED = tuple(
    Tiny(name, {"width": 4, "batch_norm": True}, IMAGES)
    for name in ("small-cnn", "nin", "vgg", "resnet")
)
WORDS = (
    Tiny("text-cnn", _WORDS, TEXT),
    Tiny("text-cnn", {**_WORDS, "depth": 2}, PAIRS),
)
