"""Inference by genre, with real back-translations as neighbors. Ng et al. 2023 (NI), NLI with CNNs.

XNLI's test pairs were translated by machines to Burmese, Swahili and Urdu and back: three other
wordings of every pair, which no translator is needed for here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks._results import data_folder
from benchmarks.studies._aligned import Aligned, Pair
from benchmarks.studies._judged import OUTPUTS, Words, made, study_of

LANGUAGES = ("my", "sw", "ur")
WORDS = Words(
    name="nli",
    title="Inference by genre: text CNNs, and real back-translations as neighbors",
    done=(
        "Text CNNs that learned pairs of MNLI or of revised SNLI (2,000 or 500 a class; batch, "
        "label noise), tested on 250 pairs of each of XNLI's ten genres. Neighbors are the three "
        "back-translations of each pair, and ten draws of EDA and of random replacement."
    ),
    differs=(
        "The paper trains on 77,000 pairs of each of five genres, and its CNNs are right on about 60 % "
        "of pairs; here 6,000 pairs at most are learned: see the accuracies above, of which a "
        "third is chance, and which 250 pairs tell to about 3 points (standard error)."
    ),
    task="NLI, CNN",
)
SHOWN = ("ni-backtranslate-aligned draws=3", "ni-eda", "ni-random_replace", *OUTPUTS)


def wordings(path: Path) -> dict[Pair, tuple[Pair, ...]]:
    """The three other wordings of every pair of XNLI's test part."""
    import pyarrow.parquet as pq

    frame = pq.read_table(path).to_pandas()

    def pairs(source: str) -> list[Pair]:
        part = frame[(frame["source"] == source) & (frame["split"] == "test")]
        return list(zip(part["premise"], part["hypothesis"], strict=True))

    others = zip(*(pairs(f"xnli_en_backtrans_{one}") for one in LANGUAGES), strict=True)
    return dict(zip(pairs("xnli_en"), others, strict=True))


def main() -> int:
    data = data_folder()
    if data is None:
        print("The research data are not on this machine; nothing was measured.")
        return 0
    aligned = Aligned(
        "XNLI by Burmese, Swahili and Urdu", wordings(data / "text" / "nli_multi.parquet")
    )
    stirred = [{"transform": aligned, "draws": len(LANGUAGES)}, "eda", "random_replace"]
    study = study_of(__file__, invariance=stirred)
    duel = ("ni-backtranslate-aligned draws=3", "atc-mc")
    return 0 if study is None else made(WORDS, study, shown=SHOWN, duel=duel)


if __name__ == "__main__":
    sys.exit(main())
