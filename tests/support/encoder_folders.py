"""Tiny Hugging Face folders of encoders that a test creates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from oodometer.testing.transforms import TOY_WORDS

# Special tokens and the words of toy texts. The padding token is not the first.
TOKENS = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", ".", *TOY_WORDS]
PAD = 1


def bert_folder(folder: Path, *, model_class: str = "BertModel") -> Path:
    """Write a BERT with two layers and 24 positions."""
    vocabulary = {word: number for number, word in enumerate(TOKENS)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(TOKENS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=24, initializer_range=1.0, pad_token_id=PAD,
    )  # fmt: skip
    torch.manual_seed(0)
    build: Any = getattr(transformers, model_class)
    build(config).save_pretrained(folder)
    return folder


def roberta_folder(folder: Path) -> Path:
    """Write a RoBERTa, whose positions start after the padding index: 22 of its 24 are usable."""
    letters = [chr(number) for number in range(97, 123)]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *letters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    transformers.RobertaTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    config = transformers.RobertaConfig(
        vocab_size=len(tokens), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=24, type_vocab_size=1, pad_token_id=PAD,
        initializer_range=1.0,
    )  # fmt: skip
    torch.manual_seed(0)
    build: Any = transformers.RobertaModel
    build(config).save_pretrained(folder)
    return folder


def distilbert_folder(folder: Path) -> Path:
    """Write a DistilBERT, whose settings have other names."""
    vocabulary = {word: number for number, word in enumerate(TOKENS)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    config = transformers.DistilBertConfig(
        vocab_size=len(TOKENS), dim=16, n_layers=1, n_heads=2, hidden_dim=16,
        max_position_embeddings=24, pad_token_id=PAD,
    )  # fmt: skip
    build: Any = transformers.DistilBertModel
    build(config).save_pretrained(folder)
    return folder
