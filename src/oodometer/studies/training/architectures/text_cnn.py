"""Convolutional network for texts (Kim, EMNLP 2014) and for pairs of texts.

The values at padded positions are zero in all layers, so the outputs do not depend on the amount of
padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies._toml import PositiveInt
from oodometer.studies.training.architectures._settings import (
    DropoutRate,
    check_settings,
    check_shape,
)
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import make_module
from oodometer.studies.training.tokenizer import PAD, TextRow, Tokenizer, hash_tokenizer

KERNEL_SIZES = (3, 4, 5)
DEFAULT_VOCABULARY = 8000
INPUT_DROPOUT = 0.2


@dataclass(frozen=True)
class TextCNN:
    """Text CNN: token embeddings, three stacks of convolutions, a maximum over time, and an MLP.

    width            number of channels of each convolution
    depth            number of convolutions in each stack; the kernel sizes of the stacks are 3, 4
                     and 5
    dropout          dropout rate before each layer of the MLP; the rate of the embeddings is always
                     0.2
    embedding        dimension of the token embeddings
    hidden           number of hidden units of the MLP
    vocabulary       maximum number of tokens in the learned vocabulary
    length           number of tokens to which texts are truncated
    tokenizer        local folder with tokenizer.json, or with vocab.json and merges.txt, such as
                     GPT-2's; if empty, the vocabulary is learned from the training texts
    tokenizer_hash   hash of the tokenizer's files; training configurations add it

    The two texts of a pair are encoded separately as a and b; the MLP receives [a, b, a − b, a·b].
    A trained model contains a copy of its tokenizer and does not need the files.
    """

    width: PositiveInt = 256
    depth: PositiveInt = 1
    dropout: DropoutRate = 0.0
    embedding: PositiveInt = 512
    hidden: PositiveInt = 512
    vocabulary: PositiveInt = DEFAULT_VOCABULARY
    length: PositiveInt = 128
    tokenizer: str = ""
    tokenizer_hash: str = ""

    name: ClassVar[str] = "text-cnn"
    label: ClassVar[str] = "Text CNN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    optional_settings: ClassVar[tuple[str, ...]] = ("tokenizer", "tokenizer_hash")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.tokenizer and self.vocabulary != DEFAULT_VOCABULARY:
            raise InputError(
                f"vocabulary of the architecture {self.name!r} is the size of a learned vocabulary; "
                f"got vocabulary = {self.vocabulary} and tokenizer = {self.tokenizer!r}. Remove one "
                "of them."
            )
        if self.tokenizer_hash and not self.tokenizer:
            raise InputError(
                f"tokenizer_hash of the architecture {self.name!r} needs tokenizer. Set tokenizer or "
                "remove tokenizer_hash."
            )

    @staticmethod
    def pin_files(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the hash of the tokenizer's files to settings that have none."""
        path = settings.get("tokenizer")
        if not isinstance(path, str) or not path or settings.get("tokenizer_hash"):
            return settings
        return {**settings, "tokenizer_hash": hash_tokenizer(path)}

    def tokens(self, texts: Iterable[TextRow]) -> Tokenizer:
        """Return the tokenizer of the files, or one that is learned from the training texts."""
        if not self.tokenizer:
            return Tokenizer.learn(texts, self.vocabulary, self.length)
        found = hash_tokenizer(self.tokenizer)
        if self.tokenizer_hash and found != self.tokenizer_hash:
            raise InputError(
                f"The tokenizer in {self.tokenizer!r} has changed: tokenizer_hash is "
                f"{self.tokenizer_hash!r}, and the files have {found!r}. Restore the files, or "
                "remove tokenizer_hash."
            )
        return Tokenizer.from_files(self.tokenizer, self.length)

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state."""
        check_shape(self, shape)
        nn = torch_package().nn
        n_features = len(KERNEL_SIZES) * self.width * (4 if shape.kind == "pairs" else 1)
        classifier = nn.Sequential(
            nn.Dropout(self.dropout),
            nn.Linear(n_features, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.hidden, shape.classes),
        )
        parts = {
            "embedding": nn.Embedding(shape.vocabulary, self.embedding, padding_idx=shape.pad),
            "dropout": nn.Dropout(INPUT_DROPOUT),
            "columns": nn.ModuleList(self._column(kernel) for kernel in KERNEL_SIZES),
            "classifier": classifier,
        }
        classify = _classify_pairs if shape.kind == "pairs" else _classify_texts
        return make_module(parts, partial(classify, pad=shape.pad))

    def _column(self, kernel: int) -> Any:
        nn = torch_package().nn
        before = [self.embedding, *[self.width] * (self.depth - 1)]
        return nn.ModuleList(nn.Conv1d(channels, self.width, kernel) for channels in before)


def _classify_texts(module: Any, tokens: Any, *, pad: int) -> Any:
    return module.classifier(encode_texts(module, tokens, pad=pad))


def _classify_pairs(module: Any, tokens: Any, *, pad: int) -> Any:
    sides = encode_texts(module, tokens.flatten(0, 1), pad=pad).unflatten(0, (-1, 2))
    return module.classifier(pair_features(sides[:, 0], sides[:, 1]))


def pair_features(first: Any, second: Any) -> Any:
    """Return [a, b, a − b, a·b] of shape (n, 4d), given a and b of shape (n, d)."""
    return torch_package().cat([first, second, first - second, first * second], dim=1)


def encode_texts(module: Any, tokens: Any, *, pad: int = PAD) -> Any:
    """Map token ids of shape (n, length) to features of shape (n, 3 · width).

    The features are the maxima of all channels over the positions of a text. `pad` is the id of the
    padding token.
    """
    mask = (tokens != pad).unsqueeze(1)
    embedded = module.dropout(module.embedding(tokens)).transpose(1, 2)
    columns = [_run_convolutions(column, embedded, mask) for column in module.columns]
    return torch_package().cat([column.amax(dim=2) for column in columns], dim=1)


def _run_convolutions(column: Any, values: Any, mask: Any) -> Any:
    """Apply one stack of convolutions with ReLU, and set outputs at padded positions to zero."""
    pad = torch_package().nn.functional.pad
    # After ReLU, all outputs are nonnegative, so these zeros do not change the maximum over time.
    for layer in column:
        reach = layer.kernel_size[0] - 1
        values = layer(pad(values, (reach // 2, reach - reach // 2))).relu() * mask
    return values
