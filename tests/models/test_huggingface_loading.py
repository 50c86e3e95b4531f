"""Only whole local folders of the right kind of network are opened, and in silence."""

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


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_pretrained(folder, "AutoModelForMaskedLM", purpose=WHAT)
    message = str(caught.value)
    assert message.startswith(f"{str(folder)!r} can't be opened as {WHAT}: ")
    assert "\n" not in message
    return message.split(f"{WHAT}: ")[1]


def test_a_whole_folder_is_opened_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, "BertForMaskedLM")
    capfd.readouterr()
    tokenizer, network = load_pretrained(tmp_path, "AutoModelForMaskedLM", purpose=WHAT)
    assert tokenizer("a b")["input_ids"] == [2, 5, 6, 3]
    assert not network.training
    assert capfd.readouterr() == ("", "")


def test_the_screen_is_as_loud_afterwards_as_before(tmp_path: Path) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_pretrained(save(tmp_path, "BertForMaskedLM"), "AutoModelForMaskedLM", purpose=WHAT)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_weights_are_never_made_up(tmp_path: Path) -> None:
    folder = save(tmp_path, "BertForSequenceClassification")
    assert refused(folder).startswith("it lacks the weights cls.predictions.")


def test_broken_weights_are_told(tmp_path: Path) -> None:
    weights = save(tmp_path, "BertForMaskedLM") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert refused(tmp_path).endswith("Save one there with save_pretrained.")


def test_a_tokenizer_is_never_made_up(tmp_path: Path) -> None:
    (save(tmp_path, "BertForMaskedLM") / "vocab.txt").unlink()
    assert refused(tmp_path).startswith("it has no tokenizer. A folder with")


def test_what_is_no_folder_is_looked_for_nowhere_else(tmp_path: Path) -> None:
    assert refused(tmp_path / "bert-base-uncased").startswith("it has no config.json.")
    assert refused(tmp_path).startswith("it has no config.json.")


def test_a_folder_of_an_unknown_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "abacus"}))
    assert "save_pretrained" in refused(tmp_path)
