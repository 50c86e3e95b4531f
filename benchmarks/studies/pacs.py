"""PACS: twelve pairs of domains, two architectures: does invariance tell accuracy better than ATC?

Ng et al. 2023 (NI) have no PACS; their CI10 row stands beside, as the nearest: natural images at 32
pixels, several training domains. Takes about half an hour on two cores, training included.
"""

from __future__ import annotations

import sys

from benchmarks.studies._judged import OUTPUTS, Words, made, study_of

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
        "images of 32 pixels, and their accuracies elsewhere (above) are nearer to chance, a "
        "seventh, where any measure is noisier; and shifts from photos to sketches are far larger "
        "than those among photographs."
    ),
    task="CI10",
)
SHOWN = ("ni-randaugment", "ni-translate", "ni-erase", "ni-flip_crop", "pa-randaugment", *OUTPUTS,
         "h-divergence", "mmd-gaussian", "mmd-mean-cov", "entropy-target", "spectral-norm")  # fmt: skip


def main() -> int:
    study = study_of(__file__)
    return (
        0 if study is None else made(WORDS, study, shown=SHOWN, duel=("ni-randaugment", "atc-mc"))
    )


if __name__ == "__main__":
    sys.exit(main())
