"""Only complete local folders of the right kind of network are opened, silently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oodometer.core.errors import InputError
from oodometer.models.huggingface import load_pretrained

WHAT = "a masked language model"


def save(folder: Path, network: str) -> Path:
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8, max_position_embeddings=8,
    )  # fmt: skip
    build: Any = getattr(transformers, network)
    build(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words))
    return folder


def error_reason(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_pretrained(folder, "AutoModelForMaskedLM", purpose=WHAT)
    message = str(caught.value)
    assert message.startswith(f"Cannot open {str(folder)!r} as {WHAT}: ")
    assert "\n" not in message
    return message.split(f"{WHAT}: ")[1]


def test_complete_folder_is_opened_silently(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, "BertForMaskedLM")
    capfd.readouterr()
    tokenizer, network = load_pretrained(tmp_path, "AutoModelForMaskedLM", purpose=WHAT)
    assert tokenizer("a b")["input_ids"] == [2, 5, 6, 3]
    assert not network.training
    assert capfd.readouterr() == ("", "")


def test_verbosity_of_transformers_is_restored(tmp_path: Path) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_pretrained(save(tmp_path, "BertForMaskedLM"), "AutoModelForMaskedLM", purpose=WHAT)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_missing_weights_raise(tmp_path: Path) -> None:
    folder = save(tmp_path, "BertForSequenceClassification")
    assert error_reason(folder).startswith("it lacks the weights cls.predictions.")


def test_broken_weights_raise(tmp_path: Path) -> None:
    weights = save(tmp_path, "BertForMaskedLM") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert error_reason(tmp_path).endswith("as save_pretrained writes them.")


def test_missing_tokenizer_raises(tmp_path: Path) -> None:
    (save(tmp_path, "BertForMaskedLM") / "vocab.txt").unlink()
    assert error_reason(tmp_path).startswith("it has no tokenizer. It must contain")


def test_missing_folder_is_not_searched_elsewhere(tmp_path: Path) -> None:
    assert error_reason(tmp_path / "bert-base-uncased").startswith("it has no config.json.")
    assert error_reason(tmp_path).startswith("it has no config.json.")


def test_unknown_network_raises(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "abacus"}))
    assert "save_pretrained" in error_reason(tmp_path)
