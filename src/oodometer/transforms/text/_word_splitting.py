"""Texts taken apart into words, or sentences, and what stands between them.

Whatever stands between is kept, so that a text put together again is the same to the byte. And
what all changes of text share: how many words to change, and the two sides of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.random_streams import RowStreams

# An apostrophe or a hyphen between letters belongs to the word: don't, well-made.
_WORD = re.compile(r"(\w+(?:['’-]\w+)*)")
# The blanks after a full stop (and a closing quote), or around the end of a line.
_SENTENCE_BREAK = re.compile(r"((?:(?<=[.!?])|(?<=[.!?][\"'”)\]]))\s+|\s*\n\s*)")
# A share of a count may fall short of a whole number by rounding alone: 0.29 * 100 < 29.
_ROUNDING_TOLERANCE = 1e-9


def split_words(text: str) -> list[str]:
    """Gap, word, gap, …, word, gap: the words are at the odd places.

    >>> split_words("Well, don't!")
    ['', 'Well', ', ', "don't", '!']
    """
    return _WORD.split(text)


def split_sentences(text: str) -> list[str]:
    """Sentence, gap, …, gap, sentence: the sentences are at the even places.

    >>> split_sentences("It works. Buy it!")
    ['It works.', ' ', 'Buy it!']
    """
    return _SENTENCE_BREAK.split(text)


def has_words(text: str) -> bool:
    """Whether there is anything to change.

    >>> has_words("… ?!"), has_words("")
    (False, False)
    """
    return _WORD.search(text) is not None


def draw_change_count(share: float, n: int, uniform: float) -> int:
    """How many of n things to change: uniform in 1 … max(1, ⌊share · n⌋).

    >>> draw_change_count(0.1, 30, 0.0), draw_change_count(0.1, 30, 0.99), draw_change_count(0.1, 4, 0.99)
    (1, 3, 1)
    """
    return 1 + int(uniform * max(1, int(share * n + _ROUNDING_TOLERANCE)))


def check_magnitude(name: str, magnitude: float) -> None:
    """Refuse a magnitude that is no share."""
    if not 0.0 <= magnitude <= 1.0:
        raise InputError(
            f"The magnitude of {name} must be in 0 … 1; got {magnitude}. "
            "Give a share, such as 0.15 for 15 %."
        )


def iter_texts(inputs: Inputs) -> Iterable[str]:
    """All texts of a batch, the sides of pairs one after another.

    >>> list(iter_texts([("a", "b"), ("c", "d")]))
    ['a', 'b', 'c', 'd']
    """
    return (
        inputs
        if _require_text_kind(inputs) == "text"
        else (side for pair in inputs for side in pair)
    )


def map_texts(
    change: Callable[[list[str], RowStreams], list[str]],
    inputs: Inputs,
    draws: RowStreams,
    *,
    magnitude: float,
) -> Inputs:
    """Change texts, or each side of pairs by streams of its own; a magnitude of 0 changes nothing."""
    kind = _require_text_kind(inputs)
    if magnitude == 0.0 or not inputs:
        return list(inputs)
    if kind == "text":
        return change(inputs, draws)
    left = change([pair[0] for pair in inputs], draws.substream("left"))
    right = change([pair[1] for pair in inputs], draws.substream("right"))
    return list(zip(left, right, strict=True))


def _require_text_kind(inputs: Inputs) -> str:
    kind = infer_kind(inputs)
    if kind not in ("text", "pairs"):
        raise InputError(
            f"Words can be changed in texts and pairs of texts alone; these inputs are {kind}. "
            "Give a list of strings, or choose a transform of that kind."
        )
    return kind
