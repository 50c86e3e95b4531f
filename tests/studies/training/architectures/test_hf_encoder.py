"""Encoders of local folders, on tiny ones made on the spot."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.models.introspection.network import LAST_LINEAR_INPUT
from oodometer.models.torch import TorchModel
from oodometer.studies.training.architectures import (
    get,
    head_parameters,
    last_linear_name,
    stored_settings,
)
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.hf_encoder import HuggingFaceEncoder
from oodometer.studies.training.linear_probe import dropout_before_head
from oodometer.testing import check_model, toy_inputs
from tests.support import encoder_folders

TEXTS = [*toy_inputs("text", n=5), "good", ""]
PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))
LENGTH = 20
WEIGHTS = ("weight", "bias")


def shape(kind: Any = "text", *, length: int = LENGTH) -> InputShape:
    return InputShape(kind, classes=3, size=(length,), vocabulary=len(encoder_folders.TOKENS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder_folders.bert_folder(tmp_path_factory.mktemp("bert"))


def literal(folder: Path, module: Any, rows: list[Any], pooling: str) -> Array:
    """Return the logits row by row without padding."""
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    body, found = transformers.AutoModel.from_pretrained(folder).eval(), []
    for row in rows:
        # In lists, because a single empty second text would be ignored.
        sides = [[row]] if isinstance(row, str) else [[side] for side in row]
        shown = reader(*sides, truncation=True, max_length=LENGTH, return_tensors="pt")
        with torch.no_grad():
            hidden = body(**shown).last_hidden_state[0]
            found.append(module.head(hidden.mean(dim=0) if pooling == "mean" else hidden[0]))
    return np.stack([one.numpy() for one in found])


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize(("kind", "rows"), [("text", TEXTS), ("pairs", PAIRS)])
def test_network_is_the_pretrained_encoder_with_a_linear_layer(
    folder: Path, pooling: Any, kind: Any, rows: list[Any]
) -> None:
    encoder = HuggingFaceEncoder(str(folder), pooling=pooling, length=LENGTH)
    tokens, module = encoder.tokens(rows), encoder.build(shape(kind)).eval()
    numbers = tokens.encode(rows)
    expected = literal(folder, module, rows, pooling)
    for given in (numbers, tokens.trim_padding(numbers)):
        found = module(torch.from_numpy(given)).detach().numpy()
        assert np.allclose(found, expected, atol=1e-4)
    assert len({tuple(row) for row in expected.round(3)}) == len(TEXTS)


def test_model_passes_the_conformance_check(folder: Path) -> None:
    encoder = HuggingFaceEncoder(str(folder), length=LENGTH)
    model = TorchModel(encoder.build(shape()), prepare=encoder.tokens([]).encode)
    check_model(model, TEXTS)
    predictions, features = model.torch_network().forward_with_features(TEXTS, LAST_LINEAR_INPUT)
    head = model.module.head
    logits = features @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    assert features.shape == (len(TEXTS), 16)
    assert np.allclose(np.asarray(predictions.scores), logits, atol=1e-4)


def test_head_can_be_trained_alone(folder: Path) -> None:
    module = get("encoder", {"folder": str(folder)}).build(shape())
    assert module.training
    assert head_parameters(module) == {"head.weight", "head.bias"}
    module(torch.full((2, LENGTH), 7)).sum().backward()
    assert [name for name, part in module.named_parameters() if part.grad is None] == []


def test_seed_determines_the_head_and_folder_the_body(folder: Path) -> None:
    built = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        built.append(HuggingFaceEncoder(str(folder)).build(shape()))
    weights = [module.head.weight for module in built]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    saved = transformers.AutoModel.from_pretrained(folder).state_dict()
    for name, part in built[2].body.state_dict().items():
        assert torch.equal(part, saved[name]), name


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("make", [encoder_folders.bert_folder, encoder_folders.distilbert_folder])
def test_dropout_replaces_that_of_the_encoder(tmp_path: Path, make: Any, dropout: float) -> None:
    module = HuggingFaceEncoder(str(make(tmp_path)), dropout=dropout).build(shape())
    drops = [part.p for part in module.modules() if isinstance(part, torch.nn.Dropout)]
    assert len(drops) > 2
    assert {*drops} == {dropout}
    numbers = torch.full((2, LENGTH), 7)
    assert torch.equal(module(numbers), module(numbers)) == (dropout == 0)


def test_encoder_with_positions_offset_by_padding(tmp_path: Path) -> None:
    encoder = HuggingFaceEncoder(str(encoder_folders.roberta_folder(tmp_path)), length=22)
    rows = [("ab c", "d"), ("a", "the end of it"), ("", "")]
    tokens = encoder.tokens(rows)
    built = InputShape("pairs", classes=2, size=(22,), vocabulary=tokens.size)
    module, numbers = encoder.build(built).eval(), tokens.encode(rows)
    found = [module(torch.from_numpy(tokens.trim_padding(numbers[[row]])))[0] for row in range(3)]
    assert torch.allclose(module(torch.from_numpy(numbers)), torch.stack(found), atol=1e-5)
    with pytest.raises(InputError, match="cannot process 23 tokens"):
        encoder.build(replace(built, size=(23,)))


def test_encoder_of_a_masked_language_model_is_loaded(tmp_path: Path) -> None:
    made = encoder_folders.bert_folder(tmp_path, model_class="BertForMaskedLM")
    assert HuggingFaceEncoder(str(made)).build(shape()).body.pooler is None


def test_too_long_text_is_rejected(folder: Path) -> None:
    with pytest.raises(InputError, match=r"cannot process 25 tokens.*Lower the setting length"):
        HuggingFaceEncoder(str(folder), length=25).build(shape(length=25))


def test_too_large_vocabulary_is_rejected(folder: Path) -> None:
    with pytest.raises(InputError, match=r"a vocabulary of 999.*tokenizer of the folder"):
        HuggingFaceEncoder(str(folder)).build(
            InputShape("text", classes=2, size=(8,), vocabulary=999)
        )


def test_folder_without_config_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"as an encoder: it has no config\.json"):
        HuggingFaceEncoder(str(tmp_path / "nowhere")).build(shape())


def test_missing_or_broken_weights_are_rejected(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    (copied / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"Cannot open .* as an encoder") as caught:
        HuggingFaceEncoder(str(copied)).build(shape())
    assert "\n" not in str(caught.value)
    (copied / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"Cannot open .* as an encoder"):
        HuggingFaceEncoder(str(copied)).build(shape())


def test_weights_of_another_network_are_rejected(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    save_file({"other": torch.zeros(2)}, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="it lacks the weights embeddings"):
        HuggingFaceEncoder(str(copied)).build(shape())


def test_mlp_head_has_one_hidden_layer_with_tanh(folder: Path) -> None:
    encoder = HuggingFaceEncoder(str(folder), pooling="cls", length=LENGTH, head="mlp", hidden=6)
    module = encoder.build(shape()).eval()
    numbers = torch.from_numpy(encoder.tokens([]).encode(TEXTS))
    with torch.no_grad():
        mask = (numbers != encoder_folders.PAD).long()
        token = module.body(input_ids=numbers, attention_mask=mask).last_hidden_state[:, 0]
        first, _, _, last = module.head
        hidden = torch.tanh(token @ first.weight.T + first.bias)
        expected = hidden @ last.weight.T + last.bias
        assert torch.allclose(module(numbers), expected, atol=1e-5)
    assert (first.out_features, last.in_features) == (6, 6)


def test_head_with_relu_is_that_of_distilbert() -> None:
    """Compare with the classifier of transformers, with the same weights and without dropout."""
    config = transformers.DistilBertConfig(dim=8, hidden_dim=16, n_layers=1, n_heads=2)
    reference: Any = transformers.DistilBertForSequenceClassification(config)
    reference.eval()
    encoder = HuggingFaceEncoder(
        "unused", pooling="cls", head="mlp", hidden=8, activation="relu", head_dropout=(0.0, 0.2)
    )
    head = encoder._build_head(config.hidden_size, 2).eval()
    reference_layers = [reference.pre_classifier, None, reference.dropout, reference.classifier]
    for layer, twin in zip(head, reference_layers, strict=True):
        if isinstance(layer, torch.nn.Linear):
            layer.load_state_dict(twin.state_dict())
    assert (head[2].p, reference.dropout.p) == (0.2, 0.2)
    numbers = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        token = reference.distilbert(numbers).last_hidden_state[:, 0]
        assert torch.allclose(head(token), reference(numbers).logits, atol=1e-6)


def test_dropout_rates_of_the_head(folder: Path) -> None:
    settings = {"folder": str(folder), "head": "mlp", "dropout": 0.3}
    for given, expected in ((None, (0.3, 0.3)), ((0.0, 0.2), (0.0, 0.2))):
        module = get("encoder", {**settings, "head_dropout": given}).build(shape())
        assert (module.dropout.p, module.head[2].p) == expected
        assert module.body.config.hidden_dropout_prob == 0.3
        assert dropout_before_head({**settings, "head_dropout": given}) == expected[0]


def test_mlp_head_has_512_units_by_default(folder: Path) -> None:
    module = get("encoder", {"folder": str(folder), "head": "mlp"}).build(shape())
    assert head_parameters(module) == {f"head.{at}.{part}" for at in (0, 3) for part in WEIGHTS}
    assert module.head[0].out_features == 512
    assert last_linear_name(module) == "head.3"


def test_settings_of_the_linear_head_are_not_stored(folder: Path) -> None:
    plain = {"folder": str(folder), "dropout": 0.1, "pooling": "mean", "length": 128}
    assert stored_settings(get("encoder", {"folder": str(folder)})) == plain
    mlp = get("encoder", {"folder": str(folder), "head": "mlp", "hidden": 64})
    assert stored_settings(mlp) == {**plain, "head": "mlp", "hidden": 64}
    relu = get(
        "encoder",
        {"folder": str(folder), "head": "mlp", "activation": "relu", "head_dropout": [0, 0.2]},
    )
    own = {"head": "mlp", "activation": "relu", "head_dropout": (0, 0.2)}
    assert stored_settings(relu) == {**plain, **own}


def test_invalid_heads_are_rejected() -> None:
    with pytest.raises(InputError, match=r'hidden .* needs head = "mlp"; got hidden = 64'):
        HuggingFaceEncoder("folder", hidden=64)
    with pytest.raises(InputError, match=r'activation .* needs head = "mlp"; got .* = relu'):
        HuggingFaceEncoder("folder", activation="relu")
    with pytest.raises(InputError, match=r"head_dropout of .* a list of two dropout rates"):
        HuggingFaceEncoder("folder", head="mlp", head_dropout=(0.0, 1.0))
    with pytest.raises(InputError, match=r"activation of .* must be 'tanh' or 'relu'; got 'gelu'"):
        HuggingFaceEncoder("folder", head="mlp", activation="gelu")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"head of .* must be 'linear' or 'mlp'; got 'lineer'"):
        HuggingFaceEncoder("folder", head="lineer")  # type: ignore[arg-type]
