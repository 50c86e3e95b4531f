"""A convolutional network for texts (Kim, EMNLP 2014), and for pairs of texts.

Places that only pad are held at zero, so that a text says the same however far it is padded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training.architectures._settings import check_settings, check_shape
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import make_module
from oodometer.studies.training.tokenizer import PAD, TextRow, Tokenizer

KERNEL_SIZES = (3, 4, 5)
INPUT_DROPOUT = 0.2


@dataclass(frozen=True)
class TextCNN:
    """Embeddings, `depth` convolutions of each kernel 3, 4 and 5, maxima over time, an MLP.

    Of pairs each side is encoded alone, and the MLP sees [a, b, a − b, a·b]. A share of 0.2 of the
    embeddings is dropped in training; `dropout` comes before each layer of the MLP. `vocabulary`
    and `length` are how many tokens are learned, and how many a text is cut to.
    """

    width: int = 256
    depth: int = 1
    dropout: float = 0.0
    embedding: int = 512
    hidden: int = 512
    vocabulary: int = 8000
    length: int = 128

    name: ClassVar[str] = "text-cnn"
    label: ClassVar[str] = "Text CNN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")

    def __post_init__(self) -> None:
        check_settings(self)

    def tokens(self, texts: Iterable[TextRow]) -> Tokenizer:
        """Tokens learned of training texts."""
        return Tokenizer.learn(texts, self.vocabulary, self.length)

    def build(self, shape: InputShape) -> Any:
        """A fresh module, drawn from torch's random state."""
        check_shape(self, shape)
        nn = torch_package().nn
        seen = len(KERNEL_SIZES) * self.width * (4 if shape.kind == "pairs" else 1)
        classifier = nn.Sequential(
            nn.Dropout(self.dropout),
            nn.Linear(seen, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.hidden, shape.classes),
        )
        parts = {
            "embedding": nn.Embedding(shape.vocabulary, self.embedding, padding_idx=PAD),
            "dropout": nn.Dropout(INPUT_DROPOUT),
            "columns": nn.ModuleList(self._column(kernel) for kernel in KERNEL_SIZES),
            "classifier": classifier,
        }
        return make_module(parts, _classify_pairs if shape.kind == "pairs" else _classify_texts)

    def _column(self, kernel: int) -> Any:
        nn = torch_package().nn
        before = [self.embedding, *[self.width] * (self.depth - 1)]
        return nn.ModuleList(nn.Conv1d(channels, self.width, kernel) for channels in before)


def _classify_texts(module: Any, tokens: Any) -> Any:
    return module.classifier(encode_texts(module, tokens))


def _classify_pairs(module: Any, tokens: Any) -> Any:
    sides = encode_texts(module, tokens.flatten(0, 1)).unflatten(0, (-1, 2))
    return module.classifier(pair_features(sides[:, 0], sides[:, 1]))


def pair_features(first: Any, second: Any) -> Any:
    """[a, b, a − b, a·b]: (n, d) twice to (n, 4d)."""
    return torch_package().cat([first, second, first - second, first * second], dim=1)


def encode_texts(module: Any, tokens: Any) -> Any:
    """Every text as the maxima over time of its columns: (n, length) to (n, 3 · width)."""
    mask = (tokens != PAD).unsqueeze(1)
    embedded = module.dropout(module.embedding(tokens)).transpose(1, 2)
    columns = [_run_convolutions(column, embedded, mask) for column in module.columns]
    return torch_package().cat([column.amax(dim=2) for column in columns], dim=1)


def _run_convolutions(column: Any, values: Any, mask: Any) -> Any:
    """Convolutions and ReLU; as nothing is below zero, a padded place never is the only maximum."""
    pad = torch_package().nn.functional.pad
    for layer in column:
        reach = layer.kernel_size[0] - 1
        values = layer(pad(values, (reach // 2, reach - reach // 2))).relu() * mask
    return values
