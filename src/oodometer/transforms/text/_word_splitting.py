"""Lossless splitting of texts into words or sentences.

The separators are kept, so that joining the pieces restores the text exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.random_streams import RowStreams

# An apostrophe or hyphen between letters is part of the word: don't, well-made.
_WORD = re.compile(r"(\w+(?:['’-]\w+)*)")
# White space around a line break, or after the end of a sentence (. ! or ?), which a closing quote
# or bracket may follow.
_SENTENCE_BREAK = re.compile(r"((?:(?<=[.!?])|(?<=[.!?][\"'”)\]]))\s+|\s*\n\s*)")


def split_words(text: str) -> list[str]:
    """Split a text into separator, word, separator, …, separator; words have odd indices.

    >>> split_words("Well, don't!")
    ['', 'Well', ', ', "don't", '!']
    """
    return _WORD.split(text)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentence, separator, …, sentence; sentences have even indices.

    >>> split_sentences("It works. Buy it!")
    ['It works.', ' ', 'Buy it!']
    """
    return _SENTENCE_BREAK.split(text)


def has_words(text: str) -> bool:
    """Return whether a text contains a word.

    >>> has_words("… ?!"), has_words("")
    (False, False)
    """
    return _WORD.search(text) is not None


def iter_texts(inputs: Inputs) -> Iterable[str]:
    """Return all texts of a batch; a pair contributes both of its texts.

    >>> list(iter_texts([("a", "b"), ("c", "d")]))
    ['a', 'b', 'c', 'd']
    """
    sides = [inputs] if _require_text_kind(inputs) == "text" else inputs
    return (text for side in sides for text in side)


def map_texts(
    change: Callable[[list[str], RowStreams], list[str]],
    inputs: Inputs,
    draws: RowStreams,
    *,
    magnitude: float,
) -> Inputs:
    """Apply `change` to all texts of a batch; at magnitude 0, return the texts unchanged.

    The first and the second texts of pairs have separate random streams.
    """
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
            f"Text transforms apply to texts and pairs of texts; got {kind}. Pass a list of strings, "
            f"or choose a transform for {kind}."
        )
    return kind
