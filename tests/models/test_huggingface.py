"""Hugging Face folders as models."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.utils import logging

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, NotApplicable
from oodometer.models import HuggingFaceModel, as_model
from oodometer.models.introspection.network import LAST_LINEAR_INPUT
from oodometer.testing import check_model, toy_inputs
from oodometer.testing.transforms import TOY_WORDS

TEXTS = [*toy_inputs("text", n=6), "good", "the old red cup", ""]
PAIRS = [(a, b) for a, b in zip(TEXTS, reversed(TEXTS), strict=True)]
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 20, 24, 3), dtype=np.uint8)


@pytest.fixture(scope="module", autouse=True)
def no_bars() -> Any:
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    yield
    logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny BERT with 24 positions and the vocabulary of the toy texts."""
    folder = tmp_path_factory.mktemp("bert")
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *TOY_WORDS]
    (folder / "vocab.txt").write_text("\n".join(marks))
    vocabulary = {word: number for number, word in enumerate(marks)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(marks), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=24, initializer_range=1.0,
        id2label={0: "bad", 1: "good", 2: "so-so"},
    )  # fmt: skip
    build: Any = transformers.BertForSequenceClassification
    build(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny ViT for 16 by 16 pixels without class names."""
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    config: Any = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        image_size=16, patch_size=8, initializer_range=1.0,
        id2label={j: f"LABEL_{j}" for j in range(3)},
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "ViTImageProcessor",
                "size": {"height": 16, "width": 16},
                "resample": 2,
                "image_mean": [0.5, 0.4, 0.3],
                "image_std": [0.2, 0.3, 0.4],
            }
        )
    )
    return folder


def logits(model: Any, inputs: Any) -> Array:
    predictions = model.classify(inputs)
    assert predictions.score_type == "logits"
    return np.asarray(predictions.scores)


def literal(folder: Path, rows: list[Any]) -> Array:
    """Return logits row by row, without padding, truncated to 24 tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows_logits = []
    for row in rows:
        sides = [[row]] if isinstance(row, str) else [[side] for side in row]
        tokens = tokenizer(*sides, truncation=True, max_length=24, return_tensors="pt")
        with torch.no_grad():
            rows_logits.append(network(**tokens).logits[0].numpy())
    return np.stack(rows_logits)


@pytest.mark.parametrize("batch", [None, 2])
def test_batching_by_length_keeps_the_order(texts: Path, batch: int | None) -> None:
    for rows in (TEXTS, PAIRS):
        predictions = logits(as_model(texts, batch_size=batch), rows)
        assert np.allclose(predictions, literal(texts, rows), atol=1e-5)
    assert len({tuple(row) for row in literal(texts, TEXTS).round(3)}) == len(TEXTS)


def test_text_classifier_passes_the_model_check(texts: Path) -> None:
    model = as_model(str(texts))
    check_model(model, TEXTS[:4])
    assert model.name == texts.name
    assert model.classify(TEXTS).class_names == ("bad", "good", "so-so")


def test_tokenizer_without_padding_runs_rows_one_by_one(texts: Path) -> None:
    model = HuggingFaceModel(texts)
    model.reader._pad_token = None
    model.reader.pad_token = None
    assert np.allclose(logits(model, TEXTS), literal(texts, TEXTS), atol=1e-5)


def test_model_can_be_pickled(texts: Path) -> None:
    model = as_model(texts)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(logits(again, TEXTS), logits(model, TEXTS))


def test_prepare_replaces_the_tokenizer(texts: Path) -> None:
    def ids(rows: list[str]) -> dict[str, Any]:
        return {"input_ids": np.array([[2, 6 + len(row) % 30, 3] for row in rows])}

    assert as_model(texts, prepare=ids).classify(TEXTS).n == len(TEXTS)


def test_images_are_resized_and_normalized_by_the_processor(images: Path) -> None:
    network = transformers.AutoModelForImageClassification.from_pretrained(images).eval()
    expected = []
    for image in IMAGES:
        small = np.asarray(Image.fromarray(image).resize((16, 16), Image.Resampling.BILINEAR))
        values = (small / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
        with torch.no_grad():
            tensor = torch.tensor(np.moveaxis(values, -1, 0)[None], dtype=torch.float32)
            expected.append(network(pixel_values=tensor).logits[0].numpy())
    model = as_model(images)
    assert np.allclose(logits(model, IMAGES), np.stack(expected), atol=1e-4)
    assert model.classify(IMAGES).class_names is None
    assert as_model(images, class_names=["a", "b", "c"]).classify(IMAGES).class_names == (
        "a",
        "b",
        "c",
    )
    check_model(model, IMAGES)


def test_grey_images_get_three_channels(images: Path) -> None:
    model, grey = as_model(images), IMAGES[..., 0]
    expected = logits(model, np.stack([grey] * 3, axis=-1))
    assert np.array_equal(logits(model, grey), expected)
    assert np.array_equal(logits(model, grey[..., None]), expected)


def test_wrong_kind_of_inputs_raises(texts: Path, images: Path) -> None:
    with pytest.raises(InputError, match="takes text and pairs, not images"):
        as_model(texts).classify(IMAGES)
    with pytest.raises(InputError, match="takes images, not text"):
        as_model(images).classify(TEXTS)


def test_pickled_weights_must_be_trusted(texts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(texts, folder)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no weights\. There must be a \*\.safetensors file"):
        as_model(folder)
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin' is a pickle.*trust_pickle=True"):
        as_model(folder)
    predictions = logits(as_model(folder, trust_pickle=True), TEXTS)
    assert np.allclose(predictions, literal(texts, TEXTS), atol=1e-5)


def changed(texts: Path, folder: Path, **settings: Any) -> Path:
    shutil.copytree(texts, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    return folder


def test_folders_without_a_classifier_raise(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no readable config\.json"):
        as_model(tmp_path)
    other = changed(texts, tmp_path / "other", architectures=["BertForMaskedLM"])
    with pytest.raises(
        InputError, match="contains BertForMaskedLM, which is not a supported classifier"
    ):
        as_model(other)
    unnamed = changed(texts, tmp_path / "unnamed", architectures=None)
    with pytest.raises(InputError, match="contains no named architecture"):
        as_model(unnamed)
    strange = changed(texts, tmp_path / "strange", model_type="nothing-known")
    with pytest.raises(
        InputError, match=r"Cannot open '.*strange' as a classifier: ValueError"
    ) as refusal:
        as_model(strange)
    assert "\n" not in str(refusal.value)


def test_missing_head_weights_raise(texts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "headless"
    shutil.copytree(texts, folder)
    transformers.AutoModel.from_pretrained(texts).save_pretrained(tmp_path / "body")
    shutil.copy(tmp_path / "body" / "model.safetensors", folder)
    with pytest.raises(InputError, match=r"lacks weights of its classifier: classifier\."):
        as_model(folder)


def test_broken_weights_raise_one_line(texts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(texts, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"Cannot open .*It must contain config") as caught:
        as_model(folder)
    assert "\n" not in str(caught.value)


def test_nothing_is_printed_and_logging_is_restored(
    texts: Path, images: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    level = logging.get_verbosity()
    as_model(texts).classify(TEXTS)
    as_model(images).classify(IMAGES)
    assert capfd.readouterr() == ("", "")
    assert logging.get_verbosity() == level
    assert logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def test_network_is_in_evaluation_mode_and_unchanged(texts: Path) -> None:
    model = HuggingFaceModel(texts)
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    model.classify(TEXTS)
    assert not model.module.training
    assert all(torch.equal(value, before[key]) for key, value in model.module.state_dict().items())


def test_folder_without_a_tokenizer_raises(texts: Path, tmp_path: Path) -> None:
    for file in ("config.json", "model.safetensors"):
        shutil.copy(texts / file, tmp_path / file)
    with pytest.raises(InputError) as caught:
        HuggingFaceModel(tmp_path)
    assert str(caught.value).startswith(f"{str(tmp_path)!r} has no tokenizer. Save tok")
    shutil.copy(texts / "tokenizer.json", tmp_path / "tokenizer.json")
    predictions = HuggingFaceModel(tmp_path).classify(TEXTS).probs
    np.testing.assert_allclose(
        predictions, HuggingFaceModel(texts).classify(TEXTS).probs, atol=1e-5
    )


def test_network_with_features_gives_the_same_predictions(texts: Path, images: Path) -> None:
    for folder, inputs in ((texts, TEXTS), (images, IMAGES)):
        model = HuggingFaceModel(folder)
        predictions, features = model.torch_network().forward_with_features(
            inputs, LAST_LINEAR_INPUT
        )
        assert np.allclose(predictions.probs, model.classify(inputs).probs, atol=1e-5)
        assert predictions.class_names == model.classify(inputs).class_names
        assert features.shape[0] == len(inputs)
        assert features.ndim == 2


def test_texts_have_gradients_by_weights_but_not_by_inputs(texts: Path, images: Path) -> None:
    network = HuggingFaceModel(texts).torch_network()
    arguments = network.to_arguments(TEXTS)
    weights = {name: part.requires_grad_() for name, part in network.weights.items()}
    network.logits(arguments, weights).sum().backward()
    assert any(part.grad is not None and bool(part.grad.any()) for part in weights.values())
    with pytest.raises(NotApplicable, match="tokens or several tensors"):
        _ = arguments.single_tensor
    assert HuggingFaceModel(images).torch_network().to_arguments(IMAGES).single_tensor.shape[
        :2
    ] == (5, 3)


def test_class_order_applies_to_the_network_too(texts: Path) -> None:
    model = HuggingFaceModel(texts, class_names=("so-so", "good", "bad"))
    predictions, _ = model.torch_network().forward_with_features(TEXTS, LAST_LINEAR_INPUT)
    assert predictions.class_names == ("so-so", "good", "bad")
    model.reader.pad_token = None
    assert np.allclose(
        model.torch_network().forward_with_features(TEXTS, LAST_LINEAR_INPUT)[0].probs,
        predictions.probs,
        atol=1e-5,
    )
    assert np.allclose(predictions.probs, model.classify(TEXTS).probs, atol=1e-5)
