"""Natural language inference by genre with real back-translations. Ng et al. 2023 (NI), NLI, CNN.

XNLI's test pairs were machine-translated to Burmese, Swahili and Urdu and back: three other wordings
of every pair, so no translator is needed here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks._results import data_folder
from benchmarks.studies._aligned_translations import Aligned, Pair
from benchmarks.studies._comparison_page import OUTPUTS, StudyText, run_study_page, study_of

LANGUAGES = ("my", "sw", "ur")
TEXT = StudyText(
    name="nli",
    title="Natural language inference by genre, with back-translations as neighborhoods",
    done=(
        "Text CNNs trained on pairs of MNLI or of revised SNLI (2,000 or 500 per class; batch size, "
        "label noise), tested on 250 pairs of each of XNLI's ten genres. The neighborhoods are the "
        "three back-translations of each pair, and ten draws of EDA and of random replacement."
    ),
    differs=(
        "The paper trains on 77,000 pairs of each of five genres, and its CNNs have an accuracy of about "
        "60 %; ours are trained on at most 6,000 pairs. Of the accuracies above, a third is chance, and "
        "with 250 pairs their standard error is about 3 points."
    ),
    task="NLI, CNN",
)
MEASURES = ("ni-backtranslate-aligned draws=3", "ni-eda", "ni-random_replace", *OUTPUTS)


def wordings(path: Path) -> dict[Pair, tuple[Pair, ...]]:
    """Return the three other wordings of every pair of XNLI's test split."""
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
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    aligned = Aligned(
        "XNLI by Burmese, Swahili and Urdu", wordings(data / "text" / "nli_multi.parquet")
    )
    stirred = [{"transform": aligned, "draws": len(LANGUAGES)}, "eda", "random_replace"]
    study = study_of(__file__, invariance=stirred)
    pair = ("ni-backtranslate-aligned draws=3", "atc-mc")
    return 0 if study is None else run_study_page(TEXT, study, measures=MEASURES, pair=pair)


if __name__ == "__main__":
    sys.exit(main())
