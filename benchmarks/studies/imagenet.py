"""ImageNet models: prediction of OOD error by ID metrics on published accuracies (AO, Fig. S1).

Wenzel et al. 2022 (AO). Nothing is trained. Intervals are bootstrap intervals over architectures, see
`_imagenet_results`. Takes a minute.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import data_folder
from benchmarks.studies._claims import ClaimResult
from benchmarks.studies._imagenet_results import (
    ID_DOMAIN,
    PUBLISHED_CORRELATIONS,
    PUBLISHED_SETS,
    TESTBED_OOD,
    TIMM_OOD,
    SetCorrelations,
    architecture_of,
    evaluations,
    read_testbed,
    read_timm,
    set_correlations,
    to_table,
)
from benchmarks.studies._pages import Page, Table, with_interval, write
from benchmarks.studies._published_figures import AO, AO_ADJUSTED
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import FactorAnalysis, factor_analysis
from oodometer.studies.analysis.id_ood_predictors import predictor_table
from oodometer.studies.analysis.id_ood_scatter import id_ood_scatters
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics
from oodometer.studies.analysis.wide_table import AccuracyMatrix

REPLICATES = 2_000
# Claims about the rank correlation with ImageNet, by test set.
CLAIMS = {
    "ImageNet-A": "ao-imagenet-a",
    "ImageNet-R": "ao-imagenet-r",
    "ImageNet-Real": "ao-imagenet-real",
    "ImageNet-Sketch": "ao-imagenet-sketch",
    "ImageNet-V2": "ao-imagenet-v2",
}
CLAIMED_CORRELATION = 0.9
MAX_SHOWN_EIGENVALUES = 6


@dataclass(frozen=True, eq=False)
class ImagenetBlock:
    """Published accuracies of two collections of ImageNet models, and their analyses."""

    timm: AccuracyMatrix
    testbed: AccuracyMatrix

    @classmethod
    def read(cls, data: Path) -> ImagenetBlock:
        return cls(read_timm(data), read_testbed(data))

    @cached_property
    def correlations(self) -> SetCorrelations:
        return set_correlations(self.timm, REPLICATES)

    def rows(self) -> Any:
        """Return all evaluations as one Arrow table; the column `task` names the collection."""
        import pyarrow as pa

        parts = [evaluations(wide, ood, name) for name, (wide, ood) in self._collections().items()]
        return pa.concat_tables(parts, promote_options="default")

    def _collections(self) -> dict[str, tuple[AccuracyMatrix, tuple[str, ...]]]:
        return {
            "timm": (self.timm, TIMM_OOD),
            "testbed": (self.testbed, tuple(TESTBED_OOD.values())),
        }

    def evaluation_tables(self) -> dict[str, EvaluationTable]:
        return {
            name: to_table(evaluations(wide, ood, name))
            for name, (wide, ood) in self._collections().items()
        }

    def describe(self) -> str:
        """Describe the numbers of models and architectures."""
        parts = []
        for name, (wide, _) in self._collections().items():
            architectures = {architecture_of(model) for model in wide.models}
            parts.append(
                f"{len(wide.models):,} models ({len(architectures):,} architectures) of {name} on "
                f"{len(wide.test_sets)} test sets"
            )
        return " and ".join(parts)

    def page(self) -> Page:
        return Page(
            name="imagenet",
            title="ImageNet models: prediction of OOD error by ID metrics",
            done=(
                f"Published accuracies of {self.describe()}. Models that were not tested on all of "
                "these sets are left out. Nothing is trained here. ID is ImageNet's validation set; "
                "ID corrupted error is the mean over the published files of ImageNet-C, and ID "
                "adversarial error the mean over four attacks (PGD), both of the testbed only. "
                "Spearman's correlation over models, averaged over OOD test sets. All weights of one "
                "architecture are drawn together in the bootstrap."
            ),
            tables=self.tables(),
            results=self.results(),
            differs=(
                "The paper's block correlates the nine pretrained networks that it fine-tunes; these "
                "tables range from AlexNet to networks with billions of parameters, so errors on all "
                "test sets rise and fall together. The other figures of the paper are for networks "
                "that are fine-tuned on other datasets, where ID and OOD error are less correlated."
            ),
            notes=(
                "The adjustment removes the part of OOD error that is linear in ID error. Where the "
                "relation is curved, as on ImageNet-A, ID error itself is correlated with the "
                "residual: an adjusted correlation above 0 need not mean that a metric tells more "
                "than ID error.",
                "The factors are those of accuracies on test sets, not of AO's sixteen metrics, which "
                "are not published for these models.",
            ),
        )

    def tables(self) -> dict[str, Table]:
        return {
            **self._correlation_table(),
            **self._predictor_tables(),
            **self._pattern_table(),
            **self._factor_table(),
        }

    def _correlation_table(self) -> dict[str, Table]:
        found = self.correlations
        order = [self.timm.column_index(name) for name in PUBLISHED_SETS]
        rows = [
            (name, *(
                f"{100 * found.values[order[i], order[j]]:.0f} ({PUBLISHED_CORRELATIONS[i][j]})"
                for j in range(len(PUBLISHED_SETS))
            ))
            for i, name in enumerate(PUBLISHED_SETS)
        ]  # fmt: skip
        caption = (
            "Rank correlations of errors × 100 over the models of timm, and the "
            "paper's over nine networks (Fig. S1)"
        )
        return {caption: (("error on", *PUBLISHED_SETS), rows)}

    def _predictor_tables(self) -> dict[str, Table]:
        rows = []
        for name, table in self.evaluation_tables().items():
            found = bootstrap_statistics(
                predictor_table(table), ["pair_rho", "adjusted_rho"], replicates=REPLICATES
            )
            rows += [
                (name, metric, with_interval(found["pair_rho"], metric), _paper(AO, metric),
                 with_interval(found["adjusted_rho"], metric), _paper(AO_ADJUSTED, metric))
                for metric in found["pair_rho"].measures
            ]  # fmt: skip
        caption = (
            "Averaged rank correlation with OOD error (95 % interval), and with its "
            "residual given ID error"
        )
        head = ("models", "metric", "ours", "the paper's", "adjusted", "the paper's, adjusted")
        return {caption: (head, rows)}

    def _pattern_table(self) -> dict[str, Table]:
        rows = [
            (name, pair.target, pair.pattern.name or "none", f"{pair.pattern.correlation:.2f}",
             f"{100 * (pair.pattern.id_spread or 0):.1f}", f"{100 * (pair.pattern.ood_spread or 0):.1f}",
             f"{pair.gap.value:.2f}")
            for name, table in self.evaluation_tables().items()
            for pair in id_ood_scatters(table)
        ]  # fmt: skip
        head = ("models", "OOD", "pattern", "rank correlation", "ID spread, points",
                "OOD spread, points", "normalized gap")  # fmt: skip
        return {"Patterns of OOD against ID accuracy (as in Fig. S9)": (head, rows)}

    def _factor_table(self) -> dict[str, Table]:
        rows = []
        for name, (wide, _) in self._collections().items():
            found = factor_analysis(wide.accuracy, wide.test_sets)
            shown = ", ".join(f"{value:.2f}" for value in found.eigenvalues[:MAX_SHOWN_EIGENVALUES])
            kept = found.loadings.shape[1]
            first = found.eigenvalues[0] / len(found.names)
            leading = "; ".join(_leading(found, factor) for factor in range(kept))
            rows.append((name, str(len(found.names)), shown, str(kept), f"{first:.0%}", leading))
        head = ("models", "test sets", "largest eigenvalues", "eigenvalues ≥ 1",
                "variance of the first", "highest loadings of each factor after equamax")  # fmt: skip
        return {"Factors of the accuracies": (head, rows)}

    def results(self) -> list[ClaimResult]:
        """Return the verdicts on the claims about the ImageNet block."""
        found = self.correlations
        own = self.timm.column_index(ID_DOMAIN)
        models = len(self.timm.models)
        architectures = len({architecture_of(model) for model in self.timm.models})
        results = []
        for name, claim in CLAIMS.items():
            other = self.timm.column_index(name)
            low, high = (float(side[own, other]) for side in (found.low, found.high))
            figures = (
                f"{found.values[own, other]:.3f} (95 % interval {low:.3f} to {high:.3f}; claimed: "
                f"above {CLAIMED_CORRELATION})"
            )
            interval = low - CLAIMED_CORRELATION, high - CLAIMED_CORRELATION
            results.append(
                ClaimResult.of(claim, figures, interval=interval, models=models,
                               configurations=architectures, evaluations=2 * models)
            )  # fmt: skip
        return results


def _paper(figures: dict[str, float], metric: str) -> str:
    return f"{figures[metric]:+.2f}" if metric in figures else ""


def _leading(found: FactorAnalysis, factor: int, count: int = 3) -> str:
    """Return the test sets with the highest loadings on a factor."""
    loadings = found.rotated_loadings[:, factor]
    best = np.argsort(-np.abs(loadings))[:count]
    return ", ".join(f"{found.names[j]} {loadings[j]:+.2f}" for j in best)


def picture(block: ImagenetBlock) -> Any:
    """Plot OOD against ID accuracy for each test set of both collections."""
    import altair as alt

    points = [
        {"models": name, "OOD set": target, "ID": x, "OOD": y}
        for name, table in block.evaluation_tables().items()
        for pair in id_ood_scatters(table)
        for target in [pair.target]
        for x, y in zip(pair.id_accuracy.tolist(), pair.ood_accuracy.tolist(), strict=True)
    ]
    axis = alt.Axis(format="%")
    return (
        alt.Chart({"values": points})
        .mark_point(filled=True, size=10, opacity=0.5)
        .encode(
            x=alt.X("ID:Q", title="accuracy on ImageNet", axis=axis, scale=alt.Scale(zero=False)),
            y=alt.Y("OOD:Q", title="accuracy on the OOD set", axis=axis),
            color=alt.Color("models:N"),
        )
        .properties(width=170, height=150)
        .facet(alt.Facet("OOD set:N", title=None), columns=4)
    )


def main() -> int:
    data = data_folder()
    if data is None:
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    block = ImagenetBlock.read(data)
    write(block.page(), block.rows(), picture(block))
    return 0


if __name__ == "__main__":
    sys.exit(main())
