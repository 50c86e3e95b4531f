"""Tiny Hugging Face folders of encoders, made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from oodometer.testing.transforms import TOY_WORDS

# Marks, and words that toy texts are made of. The one that pads is not the first.
MARKS = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", ".", *TOY_WORDS]
PAD = 1


def bert_folder(folder: Path, *, door: str = "BertModel") -> Path:
    """A BERT of two layers that reads 24 tokens."""
    vocabulary = {word: number for number, word in enumerate(MARKS)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(MARKS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=24, initializer_range=1.0, pad_token_id=PAD,
    )  # fmt: skip
    torch.manual_seed(0)
    build: Any = getattr(transformers, door)
    build(config).save_pretrained(folder)
    return folder


def roberta_folder(folder: Path) -> Path:
    """A RoBERTa whose places begin after the number that pads, so that it reads 22 of its 24."""
    letters = [chr(number) for number in range(97, 123)]
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *letters]
    vocabulary = {mark: number for number, mark in enumerate(marks)}
    transformers.RobertaTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    config = transformers.RobertaConfig(
        vocab_size=len(marks), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=24, type_vocab_size=1, pad_token_id=PAD,
        initializer_range=1.0,
    )  # fmt: skip
    torch.manual_seed(0)
    build: Any = transformers.RobertaModel
    build(config).save_pretrained(folder)
    return folder


def distilbert_folder(folder: Path) -> Path:
    """A DistilBERT, which calls its settings otherwise."""
    vocabulary = {word: number for number, word in enumerate(MARKS)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    config = transformers.DistilBertConfig(
        vocab_size=len(MARKS), dim=16, n_layers=1, n_heads=2, hidden_dim=16,
        max_position_embeddings=24, pad_token_id=PAD,
    )  # fmt: skip
    build: Any = transformers.DistilBertModel
    build(config).save_pretrained(folder)
    return folder
