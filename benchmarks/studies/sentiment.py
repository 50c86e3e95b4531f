"""Reviews: text CNNs trained on one category, tested on others. Ng et al. 2023 (NI), SA, CNN."""

from __future__ import annotations

import sys

from benchmarks.studies._comparison_page import OUTPUTS, StudyText, run_study_page, study_of

TEXT = StudyText(
    name="sentiment",
    title="Reviews: text CNNs across product categories",
    done=(
        "Text CNNs trained on reviews of one of sixteen categories (all, or 200 per class; label noise; "
        "dropout), tested on 100 reviews each of ten categories."
    ),
    differs=(
        "The paper uses Amazon reviews with five stars, a million texts and CNNs of 512 dimensions; ours "
        "have two classes, 1,600 texts per category and networks of 64 dimensions. SSMBA fills in words "
        "with an n-gram model fitted on the texts instead of RoBERTa, and back-translation was not run. "
        "Accuracies are measured on 100 reviews, with a standard error of five points, which lowers "
        "every τ."
    ),
    task="SA, CNN",
)
MEASURES = ("ni-ssmba", "ni-eda", "ni-random_replace", "pa-ssmba", *OUTPUTS)


def main() -> int:
    study = study_of(__file__)
    return (
        0
        if study is None
        else run_study_page(TEXT, study, measures=MEASURES, pair=("ni-ssmba", "atc-mc"))
    )


if __name__ == "__main__":
    sys.exit(main())
