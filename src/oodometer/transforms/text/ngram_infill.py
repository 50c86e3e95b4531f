"""A filler of gaps learned from a corpus by counting which words stand beside which.

It is the small stand-in for a masked language model: it needs no download and learns in seconds.
For a gap between the tokens l and r it mixes three guesses,

p(w | l, r) = λ₂ p₂ + (1 − λ₂) (λ₁ p₁ + (1 − λ₁) p₀)

p₂ ∝ c(l, w) c(w, r) / c(w)             words seen beside both
p₁ = ½ c(l, w) / c(l) + ½ c(w, r) / c(r)    words seen beside one of them
p₀ ∝ c(w)                               any word

where λ = N / (N + κ T): N how often, T how many words were seen there (Witten & Bell 1991).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.transforms.text._word_splitting import split_words

# Bounds of memory: words proposed, marks told apart, neighbors kept a token, tokens learned from.
MAX_WORDS, MAX_MARKS, MAX_NEIGHBORS, MAX_LEARNED_TOKENS = 20_000, 1_000, 1_000, 5_000_000
# The edge of a text, and a gap not yet filled: no text splits into tokens such as these.
EDGE_TOKEN, GAP_TOKEN = "\0edge", "\0gap"
# κ for words seen beside both and beside one; the perplexity of held-out reviews is flat there.
_KAPPA_BOTH, _KAPPA_ONE = 4.0, 2.0

WordCounts = tuple[Ints, Floats]
MixturePart = tuple[float, Ints, Floats]


@dataclass(frozen=True, eq=False)
class NeighborCounts:
    """A row of words with counts for every token; row i is at starts[i] … starts[i + 1]."""

    starts: Ints
    words: Ints
    counts: Floats

    def lookup(self, token: int) -> WordCounts:
        """The words beside a token, sorted, and how often each was; none if it is unknown."""
        if token < 0:
            return self.words[:0], self.counts[:0]
        part = slice(self.starts[token], self.starts[token + 1])
        return self.words[part], self.counts[part]


@dataclass(frozen=True, eq=False)
class CorpusFiller:
    """Which words stand after, and before, every token of a corpus.

    >>> filler = CorpusFiller.from_texts(["a red car", "a red bus", "a big car"])
    >>> round(filler.probability("red", between=("a", "car")), 2)
    0.39
    """

    token_ids: dict[str, int]
    words: tuple[str, ...]
    counts: Floats
    after: NeighborCounts
    before: NeighborCounts

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> CorpusFiller:
        """Count the neighbors of every word of these texts."""
        tokens = _tokenize(texts)
        ranked = sorted(Counter(tokens).items(), key=lambda pair: (-pair[1], pair[0]))
        words = [(token, count) for token, count in ranked if _is_word(token)][:MAX_WORDS]
        if not words:
            raise InputError(
                "The inputs have no words to learn from; at least one was expected. "
                "Learn from texts of the same kind as those to be changed."
            )
        marks = [token for token, _ in ranked if not _is_word(token)][:MAX_MARKS]
        # Words come first: a number below their count is one that may be proposed.
        numbers = {token: n for n, token in enumerate([*(token for token, _ in words), *marks])}
        stream = np.array([numbers.get(token, -1) for token in tokens], dtype=np.int64)
        return cls(
            token_ids=numbers,
            words=tuple(token for token, _ in words),
            counts=np.array([count for _, count in words], dtype=np.float64),
            after=_count_neighbors(stream[:-1], stream[1:], (len(numbers), len(words))),
            before=_count_neighbors(stream[1:], stream[:-1], (len(numbers), len(words))),
        )

    def mixture_parts(self, left: str, right: str) -> list[MixturePart]:
        """The parts of the mixture: the weight of each, its words, and their weights in it."""
        after, before = self._neighbor_counts(left, right)
        both, counts, other = _intersect_counts(after, before)
        strong = _witten_bell_weight(np.minimum(counts, other), _KAPPA_BOTH)
        sides = [side for side in (after, before) if len(side[0])]
        weak = (1.0 - strong) * _witten_bell_weight(
            np.concatenate([after[1], before[1]]), _KAPPA_ONE
        )
        one = [(weak / len(sides), *side) for side in sides]
        every = (1.0 - strong - weak, np.arange(len(self.words)), self.counts)
        return [(strong, both, counts * other / self.counts[both]), *one, every]

    def _neighbor_counts(self, left: str, right: str) -> tuple[WordCounts, WordCounts]:
        get = self.token_ids.get
        return self.after.lookup(get(left, -1)), self.before.lookup(get(right, -1))

    def draw(self, left: str, right: str, which: float, word: float) -> str:
        """A word for the gap between two tokens; two uniform numbers choose the part and the word."""
        for weight, words, weights in self.mixture_parts(left, right):
            if which < weight:
                return self.words[int(words[_sample_index(weights, word)])]
            which -= weight
        return self.words[_sample_index(self.counts, word)]  # rounding left a rest

    def probability(self, word: str, *, between: tuple[str, str]) -> float:
        """How likely a word is drawn for the gap between two tokens."""
        number = self.token_ids[word]
        return sum(
            float(weight * weights[words == number].sum() / weights.sum())
            for weight, words, weights in self.mixture_parts(*between)
            if weight
        )

    def fill(self, pieces: list[str], places: list[int], uniforms: list[list[float]]) -> None:
        """Words for these places of a text taken apart, left to right: the filled are context."""
        for place, (which, word) in zip(places, uniforms, strict=True):
            left, right = neighbors(pieces, place)
            pieces[place] = self.draw(left, right, which, word)


def _intersect_counts(first: WordCounts, other: WordCounts) -> tuple[Ints, Floats, Floats]:
    """The words of both of two sorted rows, with their counts in each.

    >>> few, many = np.array([2, 5]), np.array([1, 2, 3])
    >>> _intersect_counts((few, np.array([7.0, 8.0])), (many, np.array([4.0, 5.0, 6.0])))
    (array([2]), array([7.]), array([5.]))
    """
    if not len(first[0]):
        return first[0], first[1], first[1]
    place = np.minimum(np.searchsorted(first[0], other[0]), len(first[0]) - 1)
    met = first[0][place] == other[0]
    return other[0][met], first[1][place[met]], other[1][met]


def _witten_bell_weight(counts: Floats, kappa: float) -> float:
    """How far to believe counts: N / (N + κ T).

    >>> _witten_bell_weight(np.array([3.0, 3.0]), 1.0)
    0.75
    """
    total = float(counts.sum())
    return total / (total + kappa * len(counts)) if total else 0.0


def neighbors(pieces: list[str], place: int) -> tuple[str, str]:
    """What stands beside a word of a text taken apart: punctuation, a word, or the edge.

    >>> neighbors(["", "so", ", ", "good", ""], 3) == (",", EDGE_TOKEN)
    True
    """
    left = pieces[place - 1].strip() or (pieces[place - 2] if place > 1 else EDGE_TOKEN)
    right = pieces[place + 1].strip() or (
        pieces[place + 2] if place + 2 < len(pieces) else EDGE_TOKEN
    )
    return left, right


def _tokenize(texts: Iterable[str]) -> list[str]:
    """Words and punctuation of all texts, edges between; blanks are no tokens."""
    tokens = [EDGE_TOKEN]
    for text in texts:
        tokens.extend(token for piece in split_words(text) if (token := piece.strip()))
        tokens.append(EDGE_TOKEN)
        if len(tokens) > MAX_LEARNED_TOKENS:
            break
    return tokens


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


def _count_neighbors(context: Ints, words: Ints, shape: tuple[int, int]) -> NeighborCounts:
    """For every context the words beside it, the most frequent of them where they are many."""
    rows, columns = shape
    met = (context >= 0) & (words >= 0) & (words < columns)
    codes, counts = np.unique(context[met] * columns + words[met], return_counts=True)
    row = codes // columns
    starts = np.searchsorted(row, np.arange(rows + 1))
    # The rank of each count in its row; words have their numbers by frequency, which breaks ties.
    order = np.lexsort((codes, -counts, row))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - starts[row]
    kept = rank < MAX_NEIGHBORS
    starts = np.searchsorted(row[kept], np.arange(rows + 1))
    return NeighborCounts(starts, (codes % columns)[kept], counts[kept].astype(np.float64))


def _sample_index(weights: Floats, uniform: float) -> int:
    """A place of a list of weights, as often as its weight is large.

    >>> _sample_index(np.array([1.0, 3.0]), 0.2), _sample_index(np.array([1.0, 3.0]), 0.3)
    (0, 1)
    """
    sums = np.cumsum(weights)
    place = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    return min(place, len(weights) - 1)
