"""PACS: twelve pairs of domains, two architectures: does invariance tell accuracy better than ATC?

Ng et al. 2023 (NI) have no PACS; their CI10 row stands beside, as the nearest: natural images at 32
pixels, several training domains. Takes about half an hour on two cores, training included.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks._results import data_folder
from benchmarks.studies._judged import Words, judged_page, study_rows
from oodometer.cli.options import errors
from oodometer.screen import progress_bar
from oodometer.studies import Study

SHOWN = ("ni-randaugment", "ni-translate", "ni-erase", "ni-flip_crop", "pa-randaugment", "atc-mc",
         "atc-ne", "ac", "doc", "im", "atc-mc (pre-T)", "atc-ne (pre-T)", "h-divergence",
         "mmd-gaussian", "mmd-mean-cov", "entropy-target", "spectral-norm")  # fmt: skip
WORDS = Words(
    name="pacs",
    title="PACS: which measure tells accuracy, over twelve pairs of domains",
    done=(
        "VGGs and small CNNs trained on one domain each (all rows, 100 or 20 a class; label noise, "
        "weight decay, RandAugment), tested on 300 rows of every domain."
    ),
    differs=(
        "The paper has no PACS; its CI10 stands beside. There, networks are larger and accuracies "
        "on other sets 60 to 90 %. Here networks of a few hundred kilobytes learn some thousand "
        "images of 32 pixels, and get 10 to 40 % of other domains right: much nearer to chance, "
        "where any measure is noisier, and shifts from photos to sketches are far larger than "
        "those among photographs."
    ),
    task="CI10",
)


def main() -> int:
    data = data_folder()
    if data is None:
        print("PACS is not on this machine; nothing was measured.")
        return 0
    study = Study.open(Path(__file__).with_suffix(".toml"), data=data)
    with progress_bar(errors()) as progress:
        rows = study_rows(study, progress=progress)
    duels = dict.fromkeys(
        ("macro_tau", "micro_tau", "id_tau", "arch_tau", "r2_pearson", "mae"),
        ("ni-randaugment", "atc-mc"),
    )
    judged_page(WORDS, rows, shown=SHOWN, duels=duels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
