"""Ablations of neighborhood invariance (Ng et al., TMLR 2023, §5.4, Fig. 4 and 5, Table 5).

The heads are those of the studies of reviews and PACS, which must have been run before
(make study-reviews study-pacs); ablations of a study that has not been run are left out. To add
other data, write a function that returns its ablations (`_ablation_runs`) and list it in PARTS.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import data_folder
from benchmarks.studies._ablation_runs import Ablation
from benchmarks.studies._ablations_images import image_ablations
from benchmarks.studies._ablations_reviews import text_ablations
from benchmarks.studies._claims import ClaimResult, get_claim
from benchmarks.studies._pages import PAGES, Page, Scale, Table, write
from oodometer.core.array_types import Floats
from oodometer.neighborhood.results import ENTROPY_LIMIT
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics, percentile_interval

PARTS: tuple[Callable[[Path], list[Ablation]], ...] = (text_ablations, image_ablations)
# Largest difference of τ that counts as small (claims ablations-draws and -augmented-training).
DRAWS_BOUND, AUGMENTED_BOUND = 0.05, 0.1
# Table of the study whose pool has heads that were trained with RandAugment.
AUGMENTED_TABLE, AUGMENTED_MEASURE = PAGES / "pacs.parquet", "ni-randaugment"


# Verdicts ---------------------------------------------------------------------------------------


def result(ablation: Ablation, claim: str, figures: str, replicates: Floats) -> ClaimResult:
    """Return the verdict on a claim from replicates that are positive on the paper's side."""
    scale = ablation.taus
    return ClaimResult.of(
        claim,
        f"{ablation.data}: {figures}",
        interval=percentile_interval(replicates),
        models=scale.n_models,
        configurations=scale.n_clusters,
        evaluations=len(ablation.evaluations),
    )


def judge_size(ablation: Ablation) -> ClaimResult:
    """Test whether Micro τ increases with the number of rows."""
    first, last = ablation.levels[0], ablation.levels[-1]
    figures = f"{ablation.taus.value(last):.3f} with {last}, {ablation.taus.value(first):.3f} with {first}"
    return result(
        ablation, "ablations-size", figures, ablation.replicates(last) - ablation.replicates(first)
    )


def judge_draws(ablation: Ablation) -> ClaimResult:
    """Test whether Micro τ hardly depends on the number of draws."""
    first, last = ablation.levels[0], ablation.levels[-1]
    low, high = percentile_interval(ablation.replicates(last) - ablation.replicates(first))
    figures = f"{ablation.taus.value(last):.3f} with {last}, {ablation.taus.value(first):.3f} with {first}"
    return near("ablations-draws", f"{ablation.data}: {figures}", (low, high), DRAWS_BOUND)


def near(name: str, figures: str, interval: tuple[float, float], bound: float) -> ClaimResult:
    """Return the verdict on the claim that a difference is smaller than a bound."""
    largest, smallest = max(map(abs, interval)), min(map(abs, interval))
    smallest = 0.0 if interval[0] <= 0 <= interval[1] else smallest
    return ClaimResult.of(name, figures, interval=(bound - largest, bound - smallest))


def judge_optimum(ablation: Ablation) -> ClaimResult:
    """Test whether Micro τ rises to an optimum and falls after it.

    Both differences between the best level and the levels at the ends must be positive; the interval
    is that of the smaller one.
    """
    best, first, last = ablation.best, ablation.levels[0], ablation.levels[-1]
    values = ", ".join(f"{level} {ablation.taus.value(level):.3f}" for level in (first, best, last))
    top = ablation.replicates(best)
    smaller = np.minimum(top - ablation.replicates(first), top - ablation.replicates(last))
    if best in (first, last):  # no optimum inside: the other end is the smaller difference
        smaller = ablation.replicates(last if best == first else first) - top
    return result(ablation, "ablations-magnitude-optimum", values, smaller)


def judge_robust(ablation: Ablation) -> ClaimResult:
    """Test whether Micro τ is positive at the largest magnitude."""
    last = ablation.levels[-1]
    figures = f"{ablation.taus.value(last):.3f} at {last}"
    return result(ablation, "ablations-magnitude-robust", figures, ablation.replicates(last))


def judge_entropy_rule(ablation: Ablation) -> ClaimResult | None:
    """Test whether transforms above the entropy limit rank worse; None if all are on one side."""
    above = [level for level in ablation.levels if abs(ablation.rises[level]) > ENTROPY_LIMIT]
    below = [level for level in ablation.levels if level not in above]
    if not above or not below:
        return None
    means = [np.mean([ablation.taus.value(one) for one in part]) for part in (below, above)]
    replicates = [
        np.mean([ablation.replicates(one) for one in part], axis=0) for part in (below, above)
    ]
    figures = (
        f"mean Micro τ {means[0]:.3f} of {len(below)} transforms up to the limit, {means[1]:.3f} of "
        f"{len(above)} above it"
    )
    return result(ablation, "ablations-entropy-rule", figures, replicates[0] - replicates[1])


def judge_augmented(path: Path) -> ClaimResult | None:
    """Test on a study's table whether augmented training weakens Macro τ; None without the table.

    Heads with and without RandAugment in training are different models, so both are drawn
    independently.
    """
    if not path.is_file():
        return None
    table = EvaluationTable.read(path, measures=[AUGMENTED_MEASURE])
    cells = np.array(table.columns.get("recipe.augment", ("",) * len(table)))
    parts = [table.select_rows(cells == name) for name in ("none", "randaugment")]
    if not all(len(part) for part in parts):
        return None
    plain, augmented = (
        bootstrap_statistics(part, ["macro_tau"], measures=[AUGMENTED_MEASURE], seed=seed)[
            "macro_tau"
        ]
        for seed, part in enumerate(parts)
    )
    low, high = percentile_interval(plain.replicates[0] - augmented.replicates[0])
    claim = get_claim("ablations-augmented-training")
    figures = (
        f"PACS: {plain.values[0]:.3f} of {plain.n_models:,} heads without and "
        f"{augmented.values[0]:.3f} of {augmented.n_models:,} heads with RandAugment in training"
    )
    return ClaimResult.of(
        claim.id, figures, interval=(AUGMENTED_BOUND - high, AUGMENTED_BOUND - low)
    )


def verdicts(ablations: Sequence[Ablation]) -> list[ClaimResult]:
    """Test the claims; each on the data of the paper's figure if there are several.

    Fig. 4 is about reviews and Fig. 5 about images.
    """
    texts = {one.kind: one for one in ablations if one.data == "Reviews"}
    images = {one.kind: one for one in ablations if one.data != "Reviews"}
    tests: Iterable[ClaimResult | None] = (
        judge_size(texts["size"]) if "size" in texts else None,
        judge_draws(texts["draws"]) if "draws" in texts else None,
        judge_optimum(texts["magnitude"]) if "magnitude" in texts else None,
        judge_robust(texts["magnitude"]) if "magnitude" in texts else None,
        judge_entropy_rule(images["transforms"]) if "transforms" in images else None,
        judge_augmented(AUGMENTED_TABLE),
    )
    return [one for one in tests if one is not None]


# Page -------------------------------------------------------------------------------------------


def ablation_page(ablations: Sequence[Ablation], seconds: float) -> Page:
    """Return the page of all ablations."""
    tables: dict[str, Table] = {one.title: one.table() for one in ablations}
    models = {(one.data, name) for one in ablations for name in one.evaluations.models}
    domains = {(one.data, name) for one in ablations for name in one.evaluations.domains}
    pairs = {one.data: len(one.evaluations) for one in ablations}
    texts = "\n\n".join(f"- {one.title}: {one.text}" for one in ablations)
    return Page(
        name="ablations",
        title="Ablations of neighborhood invariance",
        done=(
            "Heads of one seed of the studies of [reviews](reviews.md) and [PACS](pacs.md). Levels of "
            "an ablation are compared by Micro τ between the measure and the true accuracy over the "
            "heads that were not trained on the test domain, with bootstrap intervals over models.\n\n"
            f"{texts}"
        ),
        tables=tables,
        differs=(
            "The paper's ablations (NI §5.4) are on Amazon toy reviews with fine-tuned networks (Fig. 4) "
            "and from SVHN to MNIST (Fig. 5); here they are on heads of frozen bodies. It varies the "
            "number of draws up to 100; the views of the studies here have at most ten. SSMBA's masked "
            "language model is smaller than RoBERTa."
        ),
        results=verdicts(ablations),
        scale=Scale(
            models=len(models), evaluations=sum(pairs.values()), domains=len(domains),
            kind="heads on frozen pretrained bodies",
        ),
        notes=(f"CPU time, with the features of the studies in the cache: {seconds:.0f} s.",),
    )  # fmt: skip


def picture(rows: Any) -> Any:
    """Plot Micro τ by number of rows, number of draws and magnitude."""
    import altair as alt

    frame = rows.to_pandas().dropna(subset=["scale"])
    charts = []
    for (data, kind, name), part in frame.groupby(["data", "kind", "series"], sort=False):
        lines = alt.Chart(part).encode(x=alt.X("scale:Q", title=kind, scale=alt.Scale(type="log")))
        y = alt.Y("micro_tau:Q", title="Micro τ", scale=alt.Scale(zero=False))
        band = lines.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="Micro τ"), y2="high:Q")
        chart = band + lines.mark_line(point=True).encode(y=y)
        charts.append(chart.properties(width=200, height=160, title=f"{data}: {name}"))
    return alt.concat(*charts, columns=3)


def long_rows(ablations: Sequence[Ablation]) -> list[dict[str, Any]]:
    """Return one row per level, with the series that it belongs to."""
    return [
        {**row, "series": one.title.partition(": ")[2]} for one in ablations for row in one.rows()
    ]


def main() -> int:
    import pyarrow as pa

    folder = data_folder()
    if folder is None:
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    start = time.process_time()
    with one_thread():
        found = [one for part in PARTS for one in part(folder)]
        if not found:
            print("Run the studies first (make study-reviews study-pacs); nothing was measured.")
            return 0
        rows = pa.Table.from_pylist(long_rows(found))
        page = ablation_page(found, time.process_time() - start)
        write(page, rows, picture(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
