"""Fill in masked words by a bigram model with Witten-Bell smoothing (Witten & Bell, 1991).

The model is a small substitute for a masked language model. It needs no download and learns in
seconds. The probability of a word w in a gap between the tokens l (left) and r (right) is the
mixture

p(w | l, r) = λ₂ p₂ + (1 − λ₂) (λ₁ p₁ + (1 − λ₁) p₀)

p₂ ∝ c(l, w) c(w, r) / c(w)                 words seen next to l and next to r
p₁ = ½ c(l, w) / c(l) + ½ c(w, r) / c(r)    words seen next to l or next to r
p₀ ∝ c(w)                                   any word

c(a, b) counts how often b follows a, and c(a) counts a. Each λ is N / (N + κ T), where N is the
number of occurrences and T the number of distinct words on which its part of the mixture is based.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.transforms.text._word_splitting import split_words

# Limits on memory: the number of words that can be sampled, of distinct punctuation marks, of
# neighbors stored per token, and of tokens to learn from.
MAX_WORDS = 20_000
MAX_MARKS = 1_000
MAX_NEIGHBORS = 1_000
MAX_LEARNED_TOKENS = 5_000_000
# Tokens for the start or end of a text and for a gap that is not yet filled. The null character
# ensures that they differ from all tokens of texts.
EDGE_TOKEN = "\0edge"
GAP_TOKEN = "\0gap"
# Values of κ for λ₂ and λ₁. Around these values, the perplexity of held-out reviews hardly changes.
_KAPPA_BOTH = 4.0
_KAPPA_ONE = 2.0

WordCounts = tuple[Ints, Floats]
MixturePart = tuple[float, Ints, Floats]


@dataclass(frozen=True, eq=False)
class NeighborCounts:
    """Counts of the words next to every token.

    The words next to token i, and their counts, are at the positions starts[i] to starts[i + 1] of
    `words` and `counts`.
    """

    starts: Ints
    words: Ints
    counts: Floats

    def lookup(self, token: int) -> WordCounts:
        """Return the sorted words next to a token and their counts.

        Both arrays are empty for an unknown token, which has the id −1.
        """
        if token < 0:
            return self.words[:0], self.counts[:0]
        part = slice(self.starts[token], self.starts[token + 1])
        return self.words[part], self.counts[part]


@dataclass(frozen=True, eq=False)
class CorpusFiller:
    """Bigram counts of a corpus, from which words for gaps are sampled.

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
        """Count how often each word follows or precedes each token in the texts."""
        tokens = _tokenize(texts)
        ranked = sorted(Counter(tokens).items(), key=lambda pair: (-pair[1], pair[0]))
        words = [(token, count) for token, count in ranked if _is_word(token)][:MAX_WORDS]
        if not words:
            raise InputError(
                "The inputs contain no words to learn from. Learn from texts similar to those that "
                "will be transformed."
            )
        marks = [token for token, _ in ranked if not _is_word(token)][:MAX_MARKS]
        # Words come first, so that ids below the number of words are ids of words, not of marks.
        vocabulary = [*(token for token, _ in words), *marks]
        token_ids = {token: token_id for token_id, token in enumerate(vocabulary)}
        ids = np.array([token_ids.get(token, -1) for token in tokens], dtype=np.int64)
        shape = (len(token_ids), len(words))
        return cls(
            token_ids=token_ids,
            words=tuple(token for token, _ in words),
            counts=np.array([count for _, count in words], dtype=np.float64),
            after=_count_neighbors(ids[:-1], ids[1:], shape),
            before=_count_neighbors(ids[1:], ids[:-1], shape),
        )

    def mixture_parts(self, left: str, right: str) -> list[MixturePart]:
        """Return the parts of the mixture for a gap between two tokens.

        Each part consists of its weight in the mixture, its words, and the words' unnormalized
        probabilities.
        """
        after = self.after.lookup(self.token_ids.get(left, -1))
        before = self.before.lookup(self.token_ids.get(right, -1))
        both, n_after, n_before = _intersect_counts(after, before)
        lambda_both = _witten_bell_weight(np.minimum(n_after, n_before), _KAPPA_BOTH)
        weight_one = (1.0 - lambda_both) * _witten_bell_weight(
            np.concatenate([after[1], before[1]]), _KAPPA_ONE
        )
        sides = [side for side in (after, before) if len(side[0])]
        return [
            (lambda_both, both, n_after * n_before / self.counts[both]),
            *((weight_one / len(sides), *side) for side in sides),
            (1.0 - lambda_both - weight_one, np.arange(len(self.words)), self.counts),
        ]

    def draw(self, left: str, right: str, which: float, word: float) -> str:
        """Return a random word for the gap between two tokens.

        `which` and `word` are uniform random numbers between 0 and 1. The first selects the part of
        the mixture, and the second the word.
        """
        for weight, words, weights in self.mixture_parts(left, right):
            if which < weight:
                return self.words[int(words[_sample_index(weights, word)])]
            which -= weight
        # Because of rounding, the weights may sum to slightly less than 1.
        return self.words[_sample_index(self.counts, word)]

    def probability(self, word: str, *, between: tuple[str, str]) -> float:
        """Return the probability of a word in the gap between two tokens."""
        token_id = self.token_ids[word]
        return sum(
            float(weight * weights[words == token_id].sum() / weights.sum())
            for weight, words, weights in self.mixture_parts(*between)
            if weight
        )

    def fill(self, pieces: list[str], indices: list[int], uniforms: list[list[float]]) -> None:
        """Fill the gaps of a split text from left to right with random words.

        A word that has been filled in is part of the context of the next gap.
        """
        for index, (which, word) in zip(indices, uniforms, strict=True):
            left, right = neighbors(pieces, index)
            pieces[index] = self.draw(left, right, which, word)


def _intersect_counts(first: WordCounts, other: WordCounts) -> tuple[Ints, Floats, Floats]:
    """Return the words that occur in both of two sorted lists, with their counts in each list.

    >>> few, many = np.array([2, 5]), np.array([1, 2, 3])
    >>> _intersect_counts((few, np.array([7.0, 8.0])), (many, np.array([4.0, 5.0, 6.0])))
    (array([2]), array([7.]), array([5.]))
    """
    if not len(first[0]):
        return first[0], first[1], first[1]
    position = np.minimum(np.searchsorted(first[0], other[0]), len(first[0]) - 1)
    is_shared = first[0][position] == other[0]
    return other[0][is_shared], first[1][position[is_shared]], other[1][is_shared]


def _witten_bell_weight(counts: Floats, kappa: float) -> float:
    """Return λ = N / (N + κ T), where N is the sum and T the number of the counts.

    >>> _witten_bell_weight(np.array([3.0, 3.0]), 1.0)
    0.75
    """
    total = float(counts.sum())
    return total / (total + kappa * len(counts)) if total else 0.0


def neighbors(pieces: list[str], index: int) -> tuple[str, str]:
    """Return the tokens to the left and to the right of a word in a split text.

    A token is punctuation, a word, or the edge of the text.

    >>> neighbors(["", "so", ", ", "good", ""], 3) == (",", EDGE_TOKEN)
    True
    """
    left = pieces[index - 1].strip() or (pieces[index - 2] if index > 1 else EDGE_TOKEN)
    right = pieces[index + 1].strip() or (
        pieces[index + 2] if index + 2 < len(pieces) else EDGE_TOKEN
    )
    return left, right


def _tokenize(texts: Iterable[str]) -> list[str]:
    """Return the words and punctuation of all texts, with an edge token before and after each."""
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
    """Count the words next to every context token; keep the MAX_NEIGHBORS most frequent words."""
    rows, columns = shape
    is_known = (context >= 0) & (words >= 0) & (words < columns)
    codes, counts = np.unique(context[is_known] * columns + words[is_known], return_counts=True)
    row = codes // columns
    starts = np.searchsorted(row, np.arange(rows + 1))
    # Rank the counts of each context token. Of equal counts, the word that is more frequent in the
    # corpus comes first; it has the lower id.
    order = np.lexsort((codes, -counts, row))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - starts[row]
    kept = rank < MAX_NEIGHBORS
    starts = np.searchsorted(row[kept], np.arange(rows + 1))
    return NeighborCounts(starts, (codes % columns)[kept], counts[kept].astype(np.float64))


def _sample_index(weights: Floats, uniform: float) -> int:
    """Return a random index with probabilities proportional to the weights.

    >>> _sample_index(np.array([1.0, 3.0]), 0.2), _sample_index(np.array([1.0, 3.0]), 0.3)
    (0, 1)
    """
    sums = np.cumsum(weights)
    index = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    return min(index, len(weights) - 1)
