"""Small tokenizers in the file formats of GPT-2 that a test writes."""

from __future__ import annotations

import json
from pathlib import Path

END = "<|endoftext|>"
# In order of priority.
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("l", "o"), ("lo", "w"), ("a", "b"), ("a", "a")]


def byte_symbols() -> list[str]:
    """Return GPT-2's symbols of the 256 bytes in the order of its vocabulary.

    Printable bytes have their own character; the others follow with the characters from 256 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte) for byte in printable] + [chr(256 + at) for at in range(256 - len(printable))]


def vocabulary(merges: list[tuple[str, str]]) -> dict[str, int]:
    """Return the ids of the bytes, of the merged tokens and of the end of a text, in this order."""
    tokens = [*byte_symbols(), *("".join(pair) for pair in merges), END]
    return {token: number for number, token in enumerate(tokens)}


def write_gpt2_folder(
    folder: Path,
    merges: list[tuple[str, str]] = MERGES,
    *,
    names: tuple[str, str] = ("vocab.json", "merges.txt"),
) -> Path:
    """Write the vocabulary and the merges as GPT-2's folder holds them."""
    folder.mkdir(exist_ok=True)
    (folder / names[0]).write_text(json.dumps(vocabulary(merges)))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / names[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
