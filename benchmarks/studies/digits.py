"""Digits: networks trained on MNIST, tested on USPS, street numbers, coloured and rotated digits.

Ng et al. 2023 (NI), Numbers; Garg et al. 2022 (ATC), MNIST's natural shifts.
"""

from __future__ import annotations

import sys

from benchmarks.studies._comparison_page import OUTPUTS, StudyText, run_study_page, study_of

TEXT = StudyText(
    name="digits",
    title="MNIST networks under shift",
    done=(
        "VGGs and small CNNs trained on 30, 100 or 300 digits per class of MNIST (label noise, weight "
        "decay, RandAugment), tested on 300 digits each of MNIST, USPS, photographed street numbers, "
        "coloured MNIST, and MNIST rotated by 15 to 60 degrees."
    ),
    differs=(
        "The paper trains about a hundred networks each on MNIST, SVHN and Colored MNIST; ours are "
        "trained on MNIST only, so the lines are fitted on the other architecture, and the street "
        "numbers are 446 photographs instead of SVHN. For the raw MAE compare with ATC's Table 1 "
        "(MNIST, natural: ATC-MC 2.40, ATC-NE 3.50, AC 14.81, DOC 14.56, IM 15.99 points after "
        "calibration)."
    ),
    task="Numbers",
)
MEASURES = ("ni-randaugment", "ni-translate", "ni-erase", "ni-flip_crop", "pa-randaugment", *OUTPUTS)  # fmt: skip


def main() -> int:
    study = study_of(__file__)
    return (
        0
        if study is None
        else run_study_page(TEXT, study, measures=MEASURES, pair=("ni-randaugment", "atc-mc"))
    )


if __name__ == "__main__":
    sys.exit(main())
