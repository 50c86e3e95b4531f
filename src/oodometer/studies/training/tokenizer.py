"""Tokenizers of text models: learned byte-pair encoding, and tokenizers of pretrained networks.

Byte-pair encoding (Sennrich et al., ACL 2016) is learned from the training texts. Its smallest
tokens are single bytes, so every text can be encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.core.optional_imports import has_tokenizer, quiet_transformers, require

TextPair = tuple[str, str]
TextRow = str | TextPair
# Id and name of the padding token of a learned vocabulary. The name contains a space, which never
# occurs in byte-level tokens, so no other token can have this name.
PAD = 0
PAD_NAME = "<no text>"
# 256 tokens for all bytes and one for padding; with fewer tokens some texts cannot be encoded.
MIN_VOCABULARY = 257
# Number of rows encoded at once. This limits memory, because the encoder returns much more data
# per row than the token ids that are kept.
ENCODE_BATCH_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Tokenizer with a fixed length: longer texts are truncated, shorter texts are padded.

    `backend` is a tokenizer of the package `tokenizers`. Texts are encoded as an array of token ids
    of shape (n, length), pairs of texts as an array of shape (n, 2, length). A learned vocabulary
    uses the token id 0 for padding.

    >>> tokens = Tokenizer.learn(["a cat", "a dog"], size=257, length=4)
    >>> tokens.encode(["a", "a cat"]).tolist() == [[65, 0, 0, 0], [65, 221, 67, 65]]
    True
    """

    backend: Any

    @classmethod
    def learn(cls, texts: Iterable[TextRow], size: int, length: int) -> Tokenizer:
        """Learn a vocabulary of at most `size` tokens from texts or pairs of texts."""
        if size < MIN_VOCABULARY:
            raise InputError(
                f"vocabulary must be at least {MIN_VOCABULARY}, one token per byte and one for "
                f"padding; got {size}."
            )
        return cls(_set_length(_train_bpe(texts, size), length, pad=(PAD, PAD_NAME)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a tokenizer from the output of `to_bytes`."""
        try:
            backend = _tokenizers_package().Tokenizer.from_str(data.decode())
        except Exception as error:  # the package raises plain Exception
            raise InputError(
                "These bytes are not a tokenizer; expected the output of Tokenizer.to_bytes. Train "
                "the model again."
            ) from error
        tokenizer = cls.__new__(cls)  # without __init__, which requires a folder in the subclass
        object.__setattr__(tokenizer, "backend", backend)
        return tokenizer

    def to_bytes(self) -> bytes:
        """Return the tokenizer as JSON; equal tokenizers give equal bytes."""
        return bytes(self.backend.to_str().encode())

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(max(self.backend.get_vocab().values())) + 1

    @property
    def length(self) -> int:
        """Number of tokens to which each text is truncated or padded."""
        return int(self.backend.truncation["max_length"])

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        return int(self.backend.padding["pad_id"])

    def encode(self, rows: Sequence[TextRow]) -> Ints:
        """Return an array of shape (n, length) for texts, or (n, 2, length) for pairs of texts."""
        texts = [row for row in rows if isinstance(row, str)]
        if len(texts) == len(rows):
            return self._encode_rows([_replace_surrogates(text) for text in texts], ("ids",))[:, 0]
        return self._encode_pairs(
            [(_replace_surrogates(row[0]), _replace_surrogates(row[1])) for row in rows]
        )

    def trim_padding(self, numbers: Ints) -> Ints:
        """Remove the trailing positions at which all rows have padding.

        The outputs of our text networks do not depend on padding, and shorter rows are faster to
        process.
        """
        ids = self._token_ids(numbers)
        used = (ids != self.pad).any(axis=tuple(range(ids.ndim - 1)))
        return numbers[..., : int(used.nonzero()[0].max(initial=0)) + 1]

    def _encode_pairs(self, pairs: list[TextPair]) -> Ints:
        sides = [side for pair in pairs for side in pair]
        return self._encode_rows(sides, ("ids",)).reshape(len(pairs), 2, -1)

    def _token_ids(self, numbers: Ints) -> Ints:
        """Return the part of encoded rows that holds token ids."""
        return numbers

    def _encode_rows(self, rows: Sequence[TextRow], attributes: tuple[str, ...]) -> Ints:
        encoded = np.empty((len(rows), len(attributes), self.length), dtype=np.int64)
        for start in range(0, len(rows), ENCODE_BATCH_ROWS):
            block = slice(start, start + ENCODE_BATCH_ROWS)
            encodings = self.backend.encode_batch(rows[block])
            for position, attribute in enumerate(attributes):
                encoded[block, position] = [getattr(row, attribute) for row in encodings]
        return encoded


class HuggingFaceTokenizer(Tokenizer):
    """Tokenizer from a local Hugging Face folder; it adds the special tokens of its network.

    The two texts of a pair are encoded as one sequence. The array of shape (n, 2, length) holds the
    token ids and the token type ids of each sequence.
    """

    def __init__(self, folder: str | Path, length: int) -> None:
        reader = _load_tokenizer(Path(folder))
        backend = getattr(reader, "backend_tokenizer", None)
        if backend is None or reader.pad_token_id is None:
            missing = "tokenizer.json" if backend is None else "padding token"
            raise InputError(
                f"The tokenizer in {str(folder)!r} has no {missing}. Add it with transformers and "
                "save it there, or choose another folder."
            )
        own = _tokenizers_package().Tokenizer.from_str(backend.to_str())
        pad = (reader.pad_token_id, reader.pad_token)
        super().__init__(_set_length(own, length, pad=pad))

    def _encode_pairs(self, pairs: list[TextPair]) -> Ints:
        return self._encode_rows(pairs, ("ids", "type_ids"))

    def _token_ids(self, numbers: Ints) -> Ints:
        return numbers[:, 0] if numbers.ndim == 3 else numbers


def _tokenizers_package() -> Any:
    return require("tokenizers", extra="hf", purpose="Reading texts as tokens")


def _train_bpe(texts: Iterable[TextRow], size: int) -> Any:
    package = _tokenizers_package()
    byte_level = package.pre_tokenizers.ByteLevel
    backend = package.Tokenizer(package.models.BPE())
    backend.pre_tokenizer = byte_level(add_prefix_space=False)
    backend.decoder = package.decoders.ByteLevel()
    trainer = package.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD_NAME],
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(_iter_texts(texts), trainer)
    # Without this, the name of the padding token inside a text would be encoded as padding.
    content = {**json.loads(backend.to_str()), "added_tokens": []}
    return package.Tokenizer.from_str(json.dumps(content))


def _set_length(backend: Any, length: int, *, pad: tuple[int, str]) -> Any:
    """Set the number of tokens to which texts are truncated or padded; return the backend."""
    n_special = backend.num_special_tokens_to_add(True)
    if length <= n_special:
        raise InputError(
            f"length must be at least {n_special + 1}, because there are {n_special} special "
            f"tokens; got {length}."
        )
    backend.enable_truncation(max_length=length)
    backend.enable_padding(length=length, pad_id=pad[0], pad_token=pad[1], direction="right")
    return backend


def _load_tokenizer(folder: Path) -> Any:
    # Accept only folders, because transformers looks up other names in its download cache.
    if not folder.is_dir() or not has_tokenizer(folder):
        raise InputError(
            f"{str(folder)!r} has no tokenizer; expected a folder with tokenizer.json. Save one "
            "there with save_pretrained."
        )
    with quiet_transformers():
        package = require("transformers", extra="hf", purpose="A Hugging Face folder")
        return package.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )


def _iter_texts(rows: Iterable[TextRow]) -> Iterator[str]:
    """Yield all texts; a pair yields both of its texts."""
    for row in rows:
        yield from map(_replace_surrogates, (row,) if isinstance(row, str) else row)


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
