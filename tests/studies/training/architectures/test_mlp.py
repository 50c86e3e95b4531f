"""The multilayer perceptron against its formula."""

from __future__ import annotations

import numpy as np
import torch

from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.mlp import MLP
from tests.support.tiny_architectures import IMAGES, VECTORS


def test_default_is_one_hidden_layer_of_sixteen() -> None:
    module = MLP().build(VECTORS)
    first, second = (part for part in module if isinstance(part, torch.nn.Linear))
    rows = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    weights = [part.detach().numpy() for layer in (first, second) for part in layer.parameters()]
    hidden = np.maximum(rows @ weights[0].T + weights[1], 0)
    assert hidden.shape == (4, 16)
    found = module(torch.from_numpy(rows)).detach().numpy()
    assert np.allclose(found, hidden @ weights[2].T + weights[3], atol=1e-6)


def test_parameter_count() -> None:
    module = MLP(width=7, depth=3).build(IMAGES)
    counted = (768 + 1) * 7 + 2 * (7 + 1) * 7 + (7 + 1) * 3
    assert sum(part.numel() for part in module.parameters()) == counted


def test_widths_replace_width_and_depth() -> None:
    module = MLP(width=7, depth=3, widths=(5, 2)).build(IMAGES)
    layers = [part for part in module if isinstance(part, torch.nn.Linear)]
    assert [(one.in_features, one.out_features) for one in layers] == [(768, 5), (5, 2), (2, 3)]


def test_inputs_are_flattened() -> None:
    module = MLP().build(InputShape("vectors", classes=2, size=(2, 3)))
    assert module(torch.rand(4, 2, 3)).shape == (4, 2)
