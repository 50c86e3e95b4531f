"""Digits: networks that learned MNIST, on USPS, street numbers, painted and turned digits.

Ng et al. 2023 (NI), Numbers; Garg et al. 2022 (ATC), MNIST's natural shifts.
"""

from __future__ import annotations

import sys

from benchmarks.studies._judged import OUTPUTS, Words, made, study_of

WORDS = Words(
    name="digits",
    title="Digits: networks that learned MNIST, elsewhere",
    done=(
        "VGGs and small CNNs that learned 30, 100 or 300 digits a class of MNIST (label noise, weight "
        "decay, RandAugment), tested on 300 digits each of MNIST, USPS, photographed street numbers, "
        "MNIST painted, and MNIST turned by 15 to 60 degrees."
    ),
    differs=(
        "The paper trains on MNIST, SVHN and Colored MNIST, some hundred networks each; here MNIST "
        "alone is learned, so that lines are fitted to the other architecture, and street numbers "
        "are 446 photographs in place of SVHN. ATC's Table 1 (MNIST, natural: ATC-MC 2.40, ATC-NE "
        "3.50, AC 14.81, DOC 14.56, IM 15.99 points after calibration) is the one for the raw MAE."
    ),
    task="Numbers",
)
SHOWN = ("ni-randaugment", "ni-translate", "ni-erase", "ni-flip_crop", "pa-randaugment", *OUTPUTS)  # fmt: skip


def main() -> int:
    study = study_of(__file__)
    return (
        0 if study is None else made(WORDS, study, shown=SHOWN, duel=("ni-randaugment", "atc-mc"))
    )


if __name__ == "__main__":
    sys.exit(main())
