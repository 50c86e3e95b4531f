"""Texts as numbers: byte-pair encoding (Sennrich et al., ACL 2016) learned of training texts.

It works on bytes, so that no text is unknown to it. A pretrained network has its folder's tokens.
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
# The number that pads a learned vocabulary. Its name has a space, which no token of bytes has.
PAD, PAD_NAME = 0, "<no text>"
# All bytes, and what pads: a smaller vocabulary could not tell every text.
MIN_VOCABULARY = 257
# So many rows are encoded at once: what the encoder says of each is far larger than its numbers.
ENCODE_BATCH_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A learned vocabulary, and how many tokens a text is cut or padded to; 0 pads.

    Texts become numbers (n, length), pairs those of each side (n, 2, length).

    >>> tokens = Tokenizer.learn(["a cat", "a dog"], size=257, length=4)
    >>> tokens.encode(["a", "a cat"]).tolist() == [[65, 0, 0, 0], [65, 221, 67, 65]]
    True
    """

    backend: Any

    @classmethod
    def learn(cls, texts: Iterable[TextRow], size: int, length: int) -> Tokenizer:
        """At most `size` tokens, of texts or pairs of them."""
        if size < MIN_VOCABULARY:
            raise InputError(
                f"A vocabulary has {MIN_VOCABULARY} tokens or more, one a byte and one that pads; got "
                f"{size}. Raise the setting vocabulary."
            )
        return cls(_set_length(_train_bpe(texts, size), length, pad=(PAD, PAD_NAME)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The same as was written by `to_bytes`."""
        try:
            backend = _tokenizers_package().Tokenizer.from_str(data.decode())
        except Exception as error:  # the package raises nothing narrower
            raise InputError(
                "These bytes are no tokens; those of Tokenizer.to_bytes were expected. Is the file "
                "whole? Train the model anew."
            ) from error
        made = cls.__new__(cls)  # for a folder's tokens are made of a folder
        object.__setattr__(made, "backend", backend)
        return made

    def to_bytes(self) -> bytes:
        """All of it as JSON; the same bytes for the same vocabulary."""
        return bytes(self.backend.to_str().encode())

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return int(max(self.backend.get_vocab().values())) + 1

    @property
    def length(self) -> int:
        """How many tokens a text is cut or padded to."""
        return int(self.backend.truncation["max_length"])

    @property
    def pad(self) -> int:
        """The number that pads."""
        return int(self.backend.padding["pad_id"])

    def encode(self, rows: Sequence[TextRow]) -> Ints:
        """Numbers (n, length) of texts, (n, 2, length) of pairs."""
        texts = [row for row in rows if isinstance(row, str)]
        if len(texts) == len(rows):
            return self._encode_rows([_replace_surrogates(text) for text in texts], ("ids",))[:, 0]
        return self._encode_pairs(
            [(_replace_surrogates(row[0]), _replace_surrogates(row[1])) for row in rows]
        )

    def trim_padding(self, numbers: Ints) -> Ints:
        """The same without the places at the end where every row only pads.

        The networks of pools say the same of both, and are quicker with fewer places.
        """
        shown = self._token_ids(numbers)
        used = (shown != self.pad).any(axis=tuple(range(shown.ndim - 1)))
        return numbers[..., : int(used.nonzero()[0].max(initial=0)) + 1]

    def _encode_pairs(self, pairs: list[TextPair]) -> Ints:
        sides = [side for pair in pairs for side in pair]
        return self._encode_rows(sides, ("ids",)).reshape(len(pairs), 2, -1)

    def _token_ids(self, numbers: Ints) -> Ints:
        """Of numbers, those of tokens."""
        return numbers

    def _encode_rows(self, rows: Sequence[TextRow], wanted: tuple[str, ...]) -> Ints:
        found = np.empty((len(rows), len(wanted), self.length), dtype=np.int64)
        for start in range(0, len(rows), ENCODE_BATCH_ROWS):
            some = self.backend.encode_batch(rows[start : start + ENCODE_BATCH_ROWS])
            for place, what in enumerate(wanted):
                found[start : start + ENCODE_BATCH_ROWS, place] = [
                    getattr(row, what) for row in some
                ]
        return found


class HuggingFaceTokenizer(Tokenizer):
    """The tokens of a local Hugging Face folder, with the marks that it puts around texts.

    The two texts of a pair are read together: (n, 2, length) are the numbers of both in one row,
    and which of the two each is of.
    """

    def __init__(self, folder: str | Path, length: int) -> None:
        reader = _load_tokenizer(Path(folder))
        backend = getattr(reader, "backend_tokenizer", None)
        if backend is None or reader.pad_token_id is None:
            lacks = "a tokenizer.json" if backend is None else "a token that pads"
            raise InputError(
                f"The tokenizer in {str(folder)!r} lacks {lacks}, which was expected. Add it with "
                "transformers and save it there, or choose another folder."
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
    of_bytes = package.pre_tokenizers.ByteLevel
    backend = package.Tokenizer(package.models.BPE())
    backend.pre_tokenizer = of_bytes(add_prefix_space=False)
    backend.decoder = package.decoders.ByteLevel()
    trainer = package.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD_NAME],
        initial_alphabet=sorted(of_bytes.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(_iter_texts(texts), trainer)
    # Else a text that holds that name would be read as padding.
    settled = {**json.loads(backend.to_str()), "added_tokens": []}
    return package.Tokenizer.from_str(json.dumps(settled))


def _set_length(backend: Any, length: int, *, pad: tuple[int, str]) -> Any:
    """The same, cutting and padding to a length."""
    marks = backend.num_special_tokens_to_add(True)
    if length <= marks:
        raise InputError(
            f"length must be {marks + 1} or more, for {marks} tokens mark the ends of texts; got "
            f"{length}. Raise the setting length."
        )
    backend.enable_truncation(max_length=length)
    backend.enable_padding(length=length, pad_id=pad[0], pad_token=pad[1], direction="right")
    return backend


def _load_tokenizer(folder: Path) -> Any:
    # Only what is a folder: another name would be looked for among those fetched earlier.
    if not folder.is_dir() or not has_tokenizer(folder):
        raise InputError(
            f"{str(folder)!r} has no tokenizer. A folder with tokenizer.json was expected; save "
            "one there with the tokenizer's save_pretrained."
        )
    with quiet_transformers():
        door = require("transformers", extra="hf", purpose="A Hugging Face folder").AutoTokenizer
        return door.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


def _iter_texts(rows: Iterable[TextRow]) -> Iterator[str]:
    """All texts, both of every pair."""
    for row in rows:
        yield from map(_replace_surrogates, (row,) if isinstance(row, str) else row)


def _replace_surrogates(text: str) -> str:
    """Half of a surrogate pair, which no UTF-8 has, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
