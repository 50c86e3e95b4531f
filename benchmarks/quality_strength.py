"""Words that text transforms select and change in 400 real reviews, at both strengths.

"up_to" is the set of transforms with m(g) < r of Ng, Hulkund, Cho & Ghassemi (TMLR 2023); "fixed"
applies the bound itself, as in appendix A.5 of the preprint of 2022. Run: make bench
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import (
    Bound,
    Section,
    data_folder,
    machine_facts,
    markdown_table,
    write_results,
)
from oodometer.core.array_types import Floats
from oodometer.core.inputs import hash_rows
from oodometer.core.random_streams import RowStreams
from oodometer.transforms import EDA, SSMBA, RandAugment, RandomReplacement
from oodometer.transforms.randaugment import MAX_MAGNITUDE, OPERATIONS
from oodometer.transforms.strength import STRENGTHS
from oodometer.transforms.text._word_splitting import split_words
from oodometer.transforms.text.masked_lm import draw_token_corruption

FILE = "text/fdu_mtl_16domain_sentiment.parquet"
REVIEWS_PER_DOMAIN, DRAWS = 25, 5
IMAGE_DRAWS = 20_000

# Numbers of words that each operation of a transform selects in a text of n words.
SelectionCounts = Callable[[str, np.random.Generator], list[int]]


@dataclass(frozen=True)
class StrengthRow:
    """Selected and changed words of one transform at one strength, over reviews and draws."""

    transform: Any
    selected_shares: Floats
    changed_shares: Floats
    exact_share: float

    @property
    def cells(self) -> tuple[str, ...]:
        selected, changed = 100 * self.selected_shares, 100 * self.changed_shares
        return (
            f"`{self.transform.name}`",
            f"`{self.transform.strength}`",
            f"{selected.mean():.1f}",
            f"{changed.mean():.1f}",
            f"{np.quantile(changed, 0.05):.1f} to {np.quantile(changed, 0.95):.1f}",
            f"{(changed == 0).mean():.1%}",
            f"{self.exact_share:.1%}",
        )


def words_of(text: str) -> list[str]:
    return split_words(text)[1::2]


def word_edit_distance(before: list[str], after: list[str]) -> int:
    """Return the smallest number of words to replace, insert or delete (Levenshtein distance)."""
    places = np.arange(len(after) + 1)
    codes = {word: code for code, word in enumerate({*before, *after})}
    target = np.array([codes[word] for word in after], dtype=np.int64)
    distances = places
    for row, word in enumerate(before, start=1):
        replaced = distances[:-1] + (target != codes[word])
        best = np.concatenate([[row], np.minimum(distances[1:] + 1, replaced)])
        # Insertions: the distance may grow by one from each place to the next.
        distances = np.minimum.accumulate(best - places) + places
    return int(distances[-1])


def selection_counts(transform: Any) -> SelectionCounts:
    """Return the function that counts the words that `transform` selects in a text."""
    if isinstance(transform, EDA):
        lookup = transform.synonym_lookup()
        return lambda text, rng: [len(s) for s in transform.edit(text, rng, lookup)[1].values()]
    if isinstance(transform, RandomReplacement):
        return lambda text, rng: [len(transform.select_words(len(words_of(text)), rng))]
    return lambda text, rng: [
        len(
            draw_token_corruption(
                len(words_of(text)), transform.magnitude, rng, strength=transform.strength
            )[0]
        )
    ]


def measured(transform: Any, reviews: list[str]) -> StrengthRow:
    """Return the shares of selected and changed words over all reviews and draws."""
    learned, counts = transform.learn(reviews), selection_counts(transform)
    selected, changed, exact = [], [], []
    for number in range(1, DRAWS + 1):
        draws = RowStreams(0, hash_rows(reviews), np.full(len(reviews), number))
        copies = learned.apply(reviews, draws)
        for text, copy, rng in zip(reviews, copies, draws.generators(), strict=True):
            n = len(words_of(text))
            numbers = counts(text, rng)
            bound = math.ceil(Fraction(str(transform.magnitude)) * n)
            selected.append(np.mean(numbers) / n)
            exact.append(all(count == bound for count in numbers))
            changed.append(word_edit_distance(words_of(text), words_of(copy)) / n)
    return StrengthRow(transform, np.array(selected), np.array(changed), float(np.mean(exact)))


def text_section(reviews: list[str]) -> Section:
    rows = [
        measured(kind(strength=strength), reviews)
        for kind in (SSMBA, EDA, RandomReplacement)
        for strength in STRENGTHS
    ]
    bounds = [
        Bound(f"{row.transform.name}: share of copies with exactly the bound", row.exact_share, 1.0)
        for row in rows
        if row.transform.strength == "fixed"
    ]
    head = ("transform", "strength", "selected, %", "changed, %", "changed, 5–95% of copies",
            "copies without a change", "copies with exactly the bound")  # fmt: skip
    lengths = [len(words_of(text)) for text in reviews]
    text = (
        f"{markdown_table(head, [row.cells for row in rows])}\n\n"
        f"{len(reviews)} reviews of 16 domains with {min(lengths)} to {max(lengths)} words (median "
        f"{np.median(lengths):.0f}), {DRAWS} draws per review. *Selected* is the mean share of the "
        "words of a review that an operation selects; for `eda` at fixed strength, it is the mean "
        "over the four operations. *Changed* is the smallest number of words to replace, insert or "
        "delete that turns the review into its copy (edit distance), divided by the number of "
        "words of the review. *The bound* is ⌈magnitude · n⌉ for a review of n words: the "
        "magnitude is 0.15 for `ssmba` and `random_replace`, and 0.10 for each operation of `eda`.\n\n"
        "`ssmba` changes fewer words than it selects, because a new word can equal the old one. "
        "The new words come from bigram counts of the reviews; a masked language model is not "
        "available here. `eda` at fixed strength changes more words than each operation selects, "
        "because all four operations are applied, and because a swap moves two words."
    )
    return Section("Texts", bounds, text)


def image_section() -> Section:
    """Return the mean strength of the operations of RandAugment."""
    keys = np.arange(IMAGE_DRAWS, dtype=np.uint64)
    draws = RowStreams(0, keys, np.ones(IMAGE_DRAWS, dtype=np.int64))
    rows, bounds = [], []
    for strength in STRENGTHS:
        strengths = randaugment_strengths(RandAugment(strength=strength), draws)
        quantiles = np.quantile(strengths, [0.0, 1.0])
        rows.append((f"`{strength}`", f"{strengths.mean():.2f}", *(f"{q:.2f}" for q in quantiles)))
        if strength == "fixed":
            bounds.append(Bound("smallest strength at fixed strength", float(quantiles[0]), 15.0))
    head = ("strength", "mean", "smallest", "largest")
    text = (
        f"{markdown_table(head, rows)}\n\nStrength of the operations of `randaugment` with magnitude "
        f"15, on the scale from 0 to 30, over {IMAGE_DRAWS:,} draws. Operations without a strength "
        "(identity, autocontrast, equalize) are left out."
    )
    return Section("RandAugment", bounds, text)


def randaugment_strengths(transform: RandAugment, draws: RowStreams) -> Floats:
    chosen, amounts = transform.draw_operations(1, draws)
    start, reach = np.array([(o.at_0, o.at_30 - o.at_0) for o in OPERATIONS]).T
    has_strength = reach[chosen] != 0
    shares = (amounts - start[chosen])[has_strength] / reach[chosen][has_strength]
    strengths: Floats = np.abs(shares) * MAX_MAGNITUDE
    return strengths


def read_reviews(path: Path) -> list[str]:
    """Return the first reviews with words of the test split of each domain."""
    import pandas as pd

    rows = pd.read_parquet(path)
    rows = rows[(rows.split == "test") & rows.text.map(lambda text: bool(words_of(text)))]
    texts: list[str] = rows.groupby("domain").head(REVIEWS_PER_DOMAIN).text.tolist()
    return texts


def sections(folder: Path) -> Iterator[Section]:
    yield text_section(read_reviews(folder / FILE))
    yield image_section()


def main() -> int:
    folder = data_folder()
    if folder is None:
        print("The research data is not on this machine; set OODOMETER_DATA.")
        return 0
    if EDA().synonym_lookup() is None:
        print("WordNet is not installed, so the edits of eda cannot be counted.")
        return 0
    parts = list(sections(folder))
    text = "\n\n".join(part.page for part in parts)
    write_results("quality_strength", f"{text}\n\n{machine_facts()}")
    return 0 if all(bound.kept for part in parts for bound in part.bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
