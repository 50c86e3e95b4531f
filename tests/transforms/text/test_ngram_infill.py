from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.transforms.text import ngram_infill as module
from oodometer.transforms.text._word_splitting import split_words
from oodometer.transforms.text.ngram_infill import EDGE_TOKEN, GAP_TOKEN, CorpusFiller, neighbors

WHO = {"the": ["man", "dog", "bird"], "all": ["men", "dogs", "birds"]}
DOES = {"the": ["runs", "sleeps"], "all": ["run", "sleep"]}


def grammar(n: int, seed: int) -> list[str]:
    """Return sentences whose middle word must agree with both neighbors."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(n):
        which = str(rng.choice(list(WHO)))
        texts.append(f"{which} {rng.choice(WHO[which])} {rng.choice(DOES[which])} here.")
    return texts


def slow_counts(texts: list[str]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    ones: Counter[str] = Counter()
    twos: Counter[tuple[str, str]] = Counter()
    for text in texts:
        tokens = [
            EDGE_TOKEN,
            *(piece.strip() for piece in split_words(text) if piece.strip()),
            EDGE_TOKEN,
        ]
        ones.update(tokens[1:-1])
        twos.update(pairwise(tokens))
    return ones, twos


def slow_probability(texts: list[str], word: str, left: str, right: str) -> float:
    """Return the formula of the module, term by term."""
    ones, twos = slow_counts(texts)
    words = [w for w in ones if w[0].isalnum()]
    after = {w: twos[left, w] for w in words if twos[left, w]}
    before = {w: twos[w, right] for w in words if twos[w, right]}
    both = {w: after[w] * before[w] / ones[w] for w in words if w in after and w in before}
    often = sum(min(after[w], before[w]) for w in both)
    strong = often / (often + 4 * len(both)) if both else 0.0
    total = sum(after.values()) + sum(before.values())
    weak = total / (total + 2 * (len(after) + len(before))) if total else 0.0
    sides = [side for side in (after, before) if side]
    p2 = both.get(word, 0.0) / sum(both.values()) if both else 0.0
    p1 = sum(s.get(word, 0) / sum(s.values()) for s in sides) / len(sides) if sides else 0.0
    p0 = ones[word] / sum(ones[w] for w in words)
    return strong * p2 + (1 - strong) * (weak * p1 + (1 - weak) * p0)


def test_probabilities_match_the_formula() -> None:
    texts = grammar(40, seed=0)
    result = CorpusFiller.from_texts(texts)
    for left, right in [
        ("the", "runs"),
        ("all", "runs"),
        (EDGE_TOKEN, "man"),
        (GAP_TOKEN, "."),
        (GAP_TOKEN, GAP_TOKEN),
    ]:
        expected = [slow_probability(texts, word, left, right) for word in result.words]
        actual = [result.probability(word, between=(left, right)) for word in result.words]
        np.testing.assert_allclose(actual, expected)
        assert sum(actual) == pytest.approx(1.0)


def test_word_frequencies_match_the_probabilities() -> None:
    result = CorpusFiller.from_texts(grammar(40, seed=0))
    grid = (np.arange(100) + 0.5) / 100
    drawn = Counter(result.draw("the", "runs", a, b) for a in grid for b in grid)
    for word in result.words:
        expected = result.probability(word, between=("the", "runs"))
        assert drawn[word] / 10_000 == pytest.approx(expected, abs=0.03)


def test_sampled_words_fit_both_neighbors() -> None:
    result = CorpusFiller.from_texts(grammar(400, seed=0))
    numbers = np.random.default_rng(1).random((600, 2)).tolist()
    fits = np.mean([result.draw("all", "sleep", *pair) in WHO["all"] for pair in numbers])
    uniform = len(WHO["all"]) / len(result.words)
    assert fits > 0.85 > 3 * uniform


def test_held_out_perplexity_is_below_that_of_unigrams() -> None:
    result = CorpusFiller.from_texts(grammar(300, seed=0))
    one, context = [], []
    for text in grammar(100, seed=1):
        pieces = split_words(text)
        for place in range(1, len(pieces), 2):
            one.append(np.log(result.counts[result.token_ids[pieces[place]]] / result.counts.sum()))
            context.append(
                np.log(result.probability(pieces[place], between=neighbors(pieces, place)))
            )
    assert np.exp(-np.mean(context)) < 0.5 * np.exp(-np.mean(one))


def test_filled_words_are_context_for_the_next() -> None:
    result = CorpusFiller.from_texts(grammar(400, seed=0))
    rng = np.random.default_rng(0)
    agreed = 0
    for _ in range(200):
        pieces = split_words("the man runs here.")
        pieces[1] = pieces[3] = GAP_TOKEN
        result.fill(pieces, [1, 3], rng.random((2, 2)).tolist())
        agreed += pieces[3] in WHO.get(pieces[1], [])
    assert agreed > 120


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORDS", 3)
    monkeypatch.setattr(module, "MAX_NEIGHBORS", 1)
    result = CorpusFiller.from_texts(["a b", "a b", "a c", "d e a"])
    assert result.words == ("a", "b", "c")
    words, counts = result.after.lookup(result.token_ids["a"])
    assert (words.tolist(), counts.tolist()) == ([1], [2.0])


def test_learning_without_words_raises() -> None:
    with pytest.raises(InputError, match=r"no words to learn from\. Learn from texts"):
        CorpusFiller.from_texts(["...", ""])
