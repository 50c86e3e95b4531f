"""CIFAR-10: heads on three pretrained bodies, tested on Tiny-ImageNet images and 95 corruptions.

Garg et al. 2022 (ATC), Tables 1 and 3 and Fig. 6; Ng et al. 2023 (NI), Table 2, CI10. Two studies
share one pool: `cifar.toml` (all rows of CIFAR-10 and Tiny-ImageNet) and `cifar_corruptions.toml`
(500 rows of each corrupted set).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.studies._comparison_page import (
    OUTPUTS,
    StudyText,
    scatter_picture,
    study_of,
    study_rows,
    with_shift,
    write_comparison_page,
)
from benchmarks.studies._estimation_tables import calibration_table, estimate_picture
from benchmarks.studies._wide_rows import wide_rows
from oodometer.cli._runtime import error_console
from oodometer.report.terminal import progress_bar
from oodometer.studies.analysis.evaluation_table import EvaluationTable

TEXT = StudyText(
    name="cifar",
    title="CIFAR-10 heads under natural and synthetic shift",
    done=(
        "Heads (linear, or an MLP with 128 hidden units) on EfficientNet-Lite0, 1 and 2 with images of "
        "64 pixels, trained on 300, 150, 60, 25 or 10 images per class of CIFAR-10 (label noise 0 to "
        "0.5, weight decay 0 or 0.001, two learning rates, some with RandAugment or flips and crops; "
        "four seeds). They are tested on all held-out rows of CIFAR-10 that are not source, on all "
        "5,300 images of Tiny-ImageNet in the same classes (natural shift), and on 500 images of "
        "CIFAR-10 under each of 19 corruptions at five severities (synthetic shift). Neighborhoods use "
        "5 draws of 500 images of CIFAR-10, of Tiny-ImageNet and of 20 of the corrupted sets (ten "
        "corruptions at the severities 2 and 4)."
    ),
    differs=(
        "ATC trains a ResNet18 and a DenseNet121 on all of CIFAR-10; we train heads on features of "
        "networks trained on ImageNet, at 64 pixels, which corresponds to its Fig. 6 (a pretrained "
        "DenseNet121), and our models have lower and more widely spread accuracies. Its natural shifts "
        "are CIFAR-10.1 and 10.2; ours is Tiny-ImageNet, which has eight of the ten classes, so "
        "that class frequencies shift as well. NI's CI10 has several training domains; ours has one, "
        "so lines are fitted on the heads of the other bodies."
    ),
    task="CI10",
    heads=True,
)
MEASURES = ("ni-randaugment", "ni-translate", "ni-erase", "ni-flip_crop", "ms-randaugment",
            "pa-randaugment", *OUTPUTS, "entropy-target")  # fmt: skip
PAIR = ("ni-randaugment", "atc-mc")
SOURCE, NATURAL = "cifar-10-jpeg", "tiny-imagenet"


def shift(trained_on: str, tested_on: str) -> str:
    """Return the type of shift; evaluations in distribution have none."""
    if tested_on == SOURCE:
        return ""
    return "natural" if tested_on == NATURAL else "synthetic"


def all_rows() -> Any | None:
    """Run both studies and return their rows; None if the data are missing."""
    import pyarrow as pa

    names = ("cifar.py", "cifar_corruptions.py")
    studies = [study_of(str(Path(__file__).with_name(name))) for name in names]
    if None in studies:
        return None
    with progress_bar(error_console()) as progress:
        parts = [study_rows(study, progress=progress) for study in studies if study is not None]
    return pa.concat_tables(parts, promote_options="permissive")


def best_models(rows: Any) -> list[str]:
    """Return the linear heads with the most training rows, without noise and weight decay."""
    frame = rows.select(["model", *SETTINGS]).to_pandas().drop_duplicates("model")
    for name, value in SETTINGS.items():
        frame = frame[frame[name] == value]
    return [str(name) for name in frame["model"]]


SETTINGS = {
    "recipe.settings.head": "linear",
    "recipe.few_shot": 300,
    "recipe.label_noise": 0.0,
    "recipe.weight_decay": 0.0,
    "recipe.lr": 1e-3,
}


def main() -> int:
    import altair as alt

    rows = all_rows()
    if rows is None:
        return 0
    rows = with_shift(rows, shift)
    table = EvaluationTable.read(rows)
    charts = (estimate_picture(table, best_models(rows)), scatter_picture(rows, PAIR))
    picture = alt.vconcat(*charts).resolve_scale(color="independent", shape="independent")
    write_comparison_page(
        TEXT,
        rows,
        measures=MEASURES,
        pair=PAIR,
        shift=shift,
        tables=calibration_table(table, "CIFAR-10"),
        notes=(
            "The picture shows first, as ATC's Fig. 6, the estimated against the true accuracy of the "
            "linear heads with 300 images per class, mean of four seeds, on the 96 target sets.",
            "In the table of NI's statistics, neighborhood measures are averaged over the 21 target sets "
            "with neighborhoods and the others over all 96; the verdicts compare two measures on the "
            "same sets.",
        ),
        picture=picture,
        stored=wide_rows(rows),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
