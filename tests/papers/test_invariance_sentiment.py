"""Neighborhood invariance ranks text classifiers out of domain on real reviews.

Ng et al., TMLR 2023; the full benchmark is benchmarks/quality_invariance_sentiment.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks._pool_ranking import ATC, Pair, Pool, taus
from benchmarks.quality_invariance_sentiment import (
    BACK,
    BOUNDED,
    BT,
    FILE,
    POOL,
    WORDS,
    Domain,
    judged,
    read,
    trained,
)
from oodometer.transforms.text.apertium import Apertium
from oodometer.transforms.text.wordnet import find_wordnet
from tests.support.research_data import require_data

pytestmark = pytest.mark.realdata
SOURCE, TARGETS = "books", ("apparel", "music", "toys_games")


@pytest.fixture(scope="module")
def domains() -> dict[str, Domain]:
    return read(require_data(FILE), (SOURCE, *TARGETS))


@pytest.fixture(scope="module")
def pool(domains: dict[str, Domain]) -> Pool:
    return trained(domains[SOURCE])


def judged_on(
    pool: Pool, domains: dict[str, Domain], targets: Sequence[str], names: Sequence[str]
) -> list[Pair]:
    return [pair for name in targets for pair in judged([pool], domains[name], names, texts=150)]


def check_ranks(pairs: list[Pair], measure: str) -> None:
    found = taus(pairs, measure)
    assert len(found) == len(pairs)
    assert all(pair.accuracy.shape == (len(POOL),) for pair in pairs)
    assert found.mean() > 0, found


def test_models_vary_in_accuracy_and_none_is_constant(
    pool: Pool, domains: dict[str, Domain]
) -> None:
    (pair,) = judged_on(pool, domains, TARGETS[:1], ("random_replace",))
    assert pair.accuracy.max() - pair.accuracy.min() > 0.1
    assert pair.degenerate == 0
    assert set(pair.scores) == {"NI-RandRep", ATC}


@pytest.mark.parametrize(("name", "measure"), list(zip(WORDS, BOUNDED, strict=True)))
def test_word_transforms_rank_models(
    pool: Pool, domains: dict[str, Domain], name: str, measure: str
) -> None:
    if name == "eda" and find_wordnet() is None:
        pytest.skip("WordNet is not on this machine")
    check_ranks(judged_on(pool, domains, TARGETS, (name,)), measure)


@pytest.mark.skipif(not Apertium.is_installed(), reason="Apertium is not on this machine")
def test_back_translation_ranks_models(pool: Pool, domains: dict[str, Domain]) -> None:
    check_ranks(judged_on(pool, domains, TARGETS[:1], (BACK,)), BT)
