"""Reviews: text CNNs that learned one kind, on others. Ng et al. 2023 (NI), SA with CNNs."""

from __future__ import annotations

import sys

from benchmarks.studies._judged import OUTPUTS, Words, made, study_of

WORDS = Words(
    name="sentiment",
    title="Reviews: text CNNs that learned one kind, on others",
    done=(
        "Text CNNs that learned reviews of one of sixteen kinds (all, or 200 a class; label noise; "
        "dropout), tested on 100 reviews each of ten kinds."
    ),
    differs=(
        "The paper has Amazon reviews with five stars, a million texts and CNNs of 512 dimensions; "
        "here are two classes, 1,600 texts a kind and networks of 64 dimensions. SSMBA's filler is "
        "learned from the texts themselves in place of RoBERTa, and no back-translation was made. "
        "Accuracies rest on 100 reviews, which tell them to five points and dampen every τ."
    ),
    task="SA, CNN",
)
SHOWN = ("ni-ssmba", "ni-eda", "ni-random_replace", "pa-ssmba", *OUTPUTS)


def main() -> int:
    study = study_of(__file__)
    return 0 if study is None else made(WORDS, study, shown=SHOWN, duel=("ni-ssmba", "atc-mc"))


if __name__ == "__main__":
    sys.exit(main())
