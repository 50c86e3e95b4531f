"""Tiny-ImageNet: novel subclasses of superclasses (BREEDS), 200 classes, and corruptions.

Garg et al. 2022 (ATC), Tables 1, 3 and 5: errors of estimators on the same and on novel
subpopulations, and DOC that is corrected by Siegel's line. The models are heads on three bodies.
Takes about an hour on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.studies._comparison_page import (
    OUTPUTS,
    StudyText,
    estimation_table,
    study_of,
    study_rows,
    with_shift,
    write_comparison_page,
)
from benchmarks.studies._line_estimates import with_line
from benchmarks.studies._pages import Table, reliability_of
from benchmarks.studies._wide_rows import wide_rows
from oodometer.cli._runtime import error_console
from oodometer.report.terminal import progress_bar
from oodometer.studies.analysis.evaluation_table import EvaluationTable

SAME, NOVEL = "same", "novel"
CORRECTED = "doc with line"
# Differences between the study of superclasses, whose file is tiny_imagenet.toml, and that of the
# 200 classes. Its predictions are ten times as large, so there are fewer domains.
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "contrast", "jpeg")
ALL_CLASSES: Mapping[str, Any] = {
    "name": "tiny_imagenet",
    "about": "Heads with 200 classes, tested on Tiny-ImageNet and on corruptions",
    "group": ["tiny-imagenet", "tiny-imagenet-c"],
    "domains": ["tiny-200", *(f"tiny-200/{name}-{k}" for name in CORRUPTIONS for k in (1, 3))],
    "rows": 2000,
    "source_rows": 2000,
}
ALL_CLASSES_POOL = "../pools/tiny_imagenet.toml"
TEXT = StudyText(
    name="tiny_imagenet",
    title="Tiny-ImageNet: same and novel subclasses, and 200 classes",
    done=(
        "Heads (linear, or an MLP with 128 hidden units) on EfficientNet-Lite0, 1 and 2 with images of "
        "96 pixels. The classes are 20 superclasses after BREEDS, made from 119 classes by WordNet "
        "ids. A model is trained on one half of the subclasses of every superclass: all 5,600 or 6,300 "
        "rows, or 100, 30, 10 or 4 per superclass; label noise 0, 0.2 or 0.4; two learning rates; four "
        "seeds. It is tested on 500 rows of its own subclasses, of the other half (novel subclasses), "
        "and of both with five corruptions at the relative severities 1 and 3."
    ),
    differs=(
        "The paper trains whole networks from scratch on the BREEDS datasets of ImageNet, 68 images or "
        "more per subclass at 224 pixels. Our bodies were trained on the 1,000 classes of ImageNet, so "
        "they have seen the novel subclasses: the shift to them is smaller here. Images are enlarged "
        "from 64 pixels."
    ),
    heads=True,
)
MEASURES = (*OUTPUTS, CORRECTED)


def shift(trained_on: str, tested_on: str) -> str:
    """Return whether a test domain has the subclasses of the training domain.

    >>> shift("first", "first/fog-3"), shift("first", "second/fog-3")
    ('same', 'novel')
    """
    return SAME if tested_on.partition("/")[0] == trained_on else NOVEL


def breeds_table(table: EvaluationTable) -> dict[str, Table]:
    """Return ATC's Table 5: errors on novel subclasses, and the paper's on four datasets."""
    published = {
        "doc": (24.32, 29.91, 22.18, 24.71),
        CORRECTED: (13.65, 18.13, 8.63, 12.28),
        "atc-mc": (10.07, 19.37, 8.01, 10.21),
    }
    novel = np.array([cell == NOVEL for cell in table.columns["shift"]])
    rows = []
    for name, figures in published.items():
        gaps = 100 * np.abs(table.measures[name] - table.accuracy)[novel]
        rows.append((name, f"{np.nanmean(gaps):.2f}", *(f"{value:.2f}" for value in figures)))
    head = ("estimator", "ours", "Living-17", "Nonliving-26", "Entity-13", "Entity-30")
    caption = "Mean absolute errors on novel subclasses in points, and the paper's (ATC Table 5)"
    return {caption: (head, rows)}


def all_classes_tables(rows: Any) -> dict[str, Table]:
    """Return the errors of the estimators of the models with 200 classes."""
    names = [name for name in MEASURES if name in set(rows.column("measure").to_pylist())]
    table = EvaluationTable.read(rows, measures=names)
    reliability = reliability_of(table)
    told = "" if reliability is None else f"; reliability {reliability.median:.2f}"
    outside = ~table.in_distribution
    accuracies = {"in": table.accuracy[~outside], "out of": table.accuracy[outside]}
    spread = ", ".join(
        f"{100 * low:.0f} to {100 * high:.0f} % {where} distribution"
        for where, values in accuracies.items()
        for low, high in [np.nanquantile(values, [0.05, 0.95])]
    )
    (content,) = estimation_table(table).values()
    caption = (
        f"200 classes: mean absolute errors under corruptions in points ({len(table.models)} models, "
        f"{len(table):,} evaluations; accuracies {spread}{told})"
    )
    return {caption: content}


def main() -> int:
    path = __file__.rpartition("/")[0]
    study = study_of(__file__)
    every = study_of(__file__, **{**ALL_CLASSES, "pools": [f"{path}/{ALL_CLASSES_POOL}"]})
    if study is None or every is None:
        return 0
    with progress_bar(error_console()) as progress:
        rows = with_shift(study_rows(study, progress=progress), shift)
        others = study_rows(every, progress=progress)
    rows = with_line(rows, "doc", shift=SAME, name=CORRECTED, by="model")
    table = EvaluationTable.read(rows, measures=["doc", CORRECTED, "atc-mc"])
    write_comparison_page(
        TEXT,
        rows,
        measures=MEASURES,
        pair=("doc", "atc-mc"),
        tables={**breeds_table(table), **all_classes_tables(others)},
        notes=(
            "DOC with line: for each model, Siegel's line through DOC's estimates and the true "
            "accuracies on the domains with the same subclasses, as in ATC, Table 5. It uses labels "
            "there, so only its errors on novel subclasses are comparable.",
        ),
        stored=wide_rows(rows),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
