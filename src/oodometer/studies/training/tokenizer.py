"""Tokenizers of text models: learned or loaded byte-pair encoding, and those of encoders.

Byte-pair encoding (Sennrich et al., ACL 2016) is learned from the training texts or loaded from
files in the formats of GPT-2. Its smallest tokens are single bytes, so every text can be encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError, format_error
from oodometer.core.optional_imports import has_tokenizer, quiet_transformers, require
from oodometer.data.file_hash import hash_files

TextPair = tuple[str, str]
TextRow = str | TextPair
# Id and name of the padding token of a learned vocabulary. The name contains a space, which never
# occurs in byte-level tokens, so no other token can have this name.
PAD = 0
PAD_NAME = "<no text>"
# 256 tokens for all bytes and one for padding; with fewer tokens some texts cannot be encoded.
MIN_VOCABULARY = 257
TOKENIZER_FILE = "tokenizer.json"
# Names of the vocabulary and of the list of merges in published folders: those of Hugging Face, and
# those of OpenAI and fairseq.
VOCABULARY_AND_MERGES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
TOKENIZER_FILES_ALLOWED = (
    "a folder with tokenizer.json, with vocab.json and merges.txt, or with encoder.json and "
    "vocab.bpe, or the path of a tokenizer.json"
)
# Symbols that are appended to a vocabulary without a padding token. GPT-2 has 50,257 types; Ng et
# al. (2023) count 50,263 with the symbols of fairseq, which they do not list. These six are
# fairseq's four dictionary symbols, the mask of RoBERTa and one placeholder of fairseq's dictionary.
FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "madeupword0000")
# Names of padding tokens in published vocabularies.
PAD_NAMES = ("<pad>", "[PAD]")
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
    def from_files(cls, path: str | Path, length: int) -> Tokenizer:
        """Load tokenizer.json, or the vocabulary and merges of a byte-level BPE such as GPT-2's.

        If the vocabulary has no padding token, `FAIRSEQ_SYMBOLS` are appended to it.
        """
        files = tokenizer_files(path)
        try:
            backend = _read_bpe(*files) if len(files) == 2 else _read_tokenizer_file(files[0])
        except InputError:
            raise
        except Exception as error:  # the package raises plain Exception
            reason = format_error(error, first_line=True).rstrip(".")
            raise InputError(
                f"Cannot read the tokenizer in {str(path)!r}: {reason}. Copy the published files "
                "there again."
            ) from error
        backend, pad = _add_padding_token(backend, files[0])
        return cls(_set_length(backend, length, pad=pad))

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


def tokenizer_files(path: str | Path) -> tuple[Path, ...]:
    """Return the files of a tokenizer: one tokenizer.json, or a vocabulary and its merges."""
    path = Path(path)
    if path.is_file() and path.suffix == ".json":
        return (path,)
    if (path / TOKENIZER_FILE).is_file():
        return (path / TOKENIZER_FILE,)
    for names in VOCABULARY_AND_MERGES:
        if all((path / name).is_file() for name in names):
            return tuple(path / name for name in names)
    known = [name for names in VOCABULARY_AND_MERGES for name in names]
    present = [name for name in known if (path / name).is_file()]
    reason = f"has only {' and '.join(present)}" if present else "has none of these files"
    if not path.exists():
        reason = "does not exist"
    raise InputError(
        f"tokenizer must be {TOKENIZER_FILES_ALLOWED}; got {str(path)!r}, which {reason}."
    )


def hash_tokenizer(path: str | Path) -> str:
    """Return a hash of the files of a tokenizer."""
    return hash_files(tokenizer_files(path))


def _read_tokenizer_file(file: Path) -> Any:
    return _tokenizers_package().Tokenizer.from_str(file.read_text(encoding="utf-8"))


def _read_bpe(vocabulary_file: Path, merges_file: Path) -> Any:
    """Return a byte-level BPE that splits texts into words as GPT-2 does."""
    package = _tokenizers_package()
    byte_level = package.pre_tokenizers.ByteLevel
    vocabulary = json.loads(vocabulary_file.read_text(encoding="utf-8"))
    if not isinstance(vocabulary, dict):
        raise InputError(f"{str(vocabulary_file)!r} must be a JSON object from tokens to ids.")
    missing = sorted(set(byte_level.alphabet()) - vocabulary.keys())
    if missing:
        raise InputError(
            f"{str(vocabulary_file)!r} must have a token for each of the 256 bytes, so that every "
            f"text can be encoded; {len(missing)} are missing, the first is {missing[0]!r}."
        )
    backend = package.Tokenizer(
        package.models.BPE(vocab=vocabulary, merges=_read_merges(merges_file))
    )
    backend.pre_tokenizer = byte_level(add_prefix_space=False)
    backend.decoder = package.decoders.ByteLevel()
    return backend


def _read_merges(file: Path) -> list[tuple[str, str]]:
    """Return the pairs of tokens to merge, in order of priority."""
    merges = []
    # Not splitlines(), which also splits at characters that are parts of tokens.
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
        if (number == 1 and line.startswith("#version")) or not line.strip():
            continue
        first, _, second = line.rstrip("\r").partition(" ")
        if not first or not second or " " in second:
            raise InputError(
                f"Line {number} of {str(file)!r} must be two tokens with a space between them; got "
                f"{line!r:.60}."
            )
        merges.append((first, second))
    return merges


def _add_padding_token(backend: Any, file: Path) -> tuple[Any, tuple[int, str]]:
    """Return the tokenizer and its padding token; append `FAIRSEQ_SYMBOLS` if there is none."""
    if backend.padding is not None:
        return backend, (backend.padding["pad_id"], backend.padding["pad_token"])
    known = backend.get_vocab()
    for name in PAD_NAMES:
        if name in known:
            return backend, (known[name], name)
    content = json.loads(backend.to_str())
    if not isinstance(content["model"]["vocab"], dict):
        raise InputError(
            f"The tokenizer in {str(file)!r} has no padding token; expected one with the name "
            f"{' or '.join(PAD_NAMES)}. Add one to the vocabulary."
        )
    # The symbols are ordinary entries of the vocabulary, not added tokens, so that their names
    # inside a text are encoded as text.
    start = max(known.values()) + 1
    symbols = [symbol for symbol in FAIRSEQ_SYMBOLS if symbol not in known]
    new = {symbol: number for number, symbol in enumerate(symbols, start=start)}
    content["model"]["vocab"] = {**known, **new}
    extended = _tokenizers_package().Tokenizer.from_str(json.dumps(content))
    return extended, (new["<pad>"], "<pad>")


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
