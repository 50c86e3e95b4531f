"""The text CNN against a literal implementation in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Array, Ints
from oodometer.studies.training.architectures.text_cnn import INPUT_DROPOUT, TextCNN, pair_features
from oodometer.testing import toy_inputs
from tests.support.tiny_architectures import PAIRS, TEXT, WORDS


def arrays(module: Any) -> dict[str, Array]:
    return {name: part.detach().double().numpy() for name, part in module.named_parameters()}


def convolved(values: Array, mask: Array, weight: Array, bias: Array) -> Array:
    """Convolve position by position: (length, channels) to (length, width), zero-padded."""
    kernel = weight.shape[2]
    found = np.zeros((len(values), len(bias)))
    for place in range(len(values)):
        for offset in range(kernel):
            other = place + offset - (kernel - 1) // 2
            if 0 <= other < len(values):
                found[place] += weight[:, :, offset] @ values[other]
        found[place] += bias
    return np.maximum(found, 0) * mask[:, None]


def encoded(weights: dict[str, Array], tokens: Ints, depth: int) -> Array:
    """Return the maxima over time of three columns for one text."""
    mask, columns = (tokens != 0).astype(float), []
    for column in range(3):
        values = weights["embedding.weight"][tokens]
        for layer in range(depth):
            name = f"columns.{column}.{layer}"
            values = convolved(values, mask, weights[f"{name}.weight"], weights[f"{name}.bias"])
        columns.append(values.max(axis=0))
    return np.concatenate(columns)


def classified(weights: dict[str, Array], features: Array) -> Array:
    hidden = weights["classifier.1.weight"] @ features + weights["classifier.1.bias"]
    return np.asarray(
        weights["classifier.4.weight"] @ np.maximum(hidden, 0) + weights["classifier.4.bias"]
    )


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_texts_match_the_loop(depth: int) -> None:
    tiny = WORDS[0]._replace(settings={**WORDS[0].settings, "depth": depth})
    module, tokens = tiny.build().eval(), tiny.inputs()
    weights = arrays(module)
    expected = [classified(weights, encoded(weights, row, depth)) for row in tokens.numpy()]
    assert np.allclose(module(tokens).detach().numpy(), expected, atol=1e-5)


def test_pairs_match_the_loop() -> None:
    module, tokens = WORDS[1].build().eval(), WORDS[1].inputs()
    weights, expected = arrays(module), []
    for first, second in tokens.numpy():
        a, b = encoded(weights, first, 2), encoded(weights, second, 2)
        expected.append(classified(weights, np.concatenate([a, b, a - b, a * b])))
    assert np.allclose(module(tokens).detach().numpy(), expected, atol=1e-5)


def test_pair_features_are_difference_and_product() -> None:
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]])
    assert pair_features(a, b).tolist() == [[1, 2, 3, 5, -2, -3, 3, 10]]


@pytest.mark.parametrize(("shape", "seen"), [(TEXT, 3 * 256), (PAIRS, 4 * 3 * 256)])
def test_parameter_count(shape: Any, seen: int) -> None:
    module = TextCNN(depth=2).build(shape)
    convolutions = (3 + 4 + 5) * (512 * 256 + 256 * 256) + 3 * 2 * 256
    classifier = (seen + 1) * 512 + (512 + 1) * 3
    found = sum(part.numel() for part in module.parameters())
    assert found == 300 * 512 + convolutions + classifier


@given(st.lists(st.integers(1, 299), max_size=7), st.integers(0, 5))
def test_padding_does_not_change_the_output(text: list[int], more: int) -> None:
    module = MODULES[0]
    few, many = ([text + [0] * pads] for pads in (max(1 - len(text), 0), more + 1))
    assert torch.allclose(module(torch.tensor(few)), module(torch.tensor(many)), atol=1e-6)


MODULES = [tiny._replace(settings={**tiny.settings, "depth": 3}).build().eval() for tiny in WORDS]


def test_padding_embedding_stays_zero() -> None:
    module = WORDS[0].build()
    module(torch.tensor([[5, 6, 0, 0]])).sum().backward()
    assert not module.embedding.weight[0].any()
    changed = module.embedding.weight.grad.abs().sum(dim=1).nonzero().flatten()
    assert changed.tolist() == [5, 6]


def test_embeddings_have_dropout_in_training() -> None:
    module, tokens = WORDS[0].build(), WORDS[0].inputs()
    dropped = module.dropout(torch.ones(10_000))
    assert abs(float((dropped == 0).float().mean()) - INPUT_DROPOUT) < 0.02
    assert not torch.equal(module(tokens), module(tokens))


def test_dropout_precedes_both_layers_of_the_classifier() -> None:
    module = TextCNN(4, dropout=0.25, embedding=4).build(TEXT)
    drops = [part.p for part in module.modules() if isinstance(part, torch.nn.Dropout)]
    assert drops == [0.2, 0.25, 0.25]


def test_tokenizer_uses_the_settings() -> None:
    tokens = TextCNN(vocabulary=290, length=10).tokens(toy_inputs("text", n=20))
    assert (tokens.size, tokens.length) == (290, 10)
