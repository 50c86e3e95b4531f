"""Two simulations with known accuracy: the hypersphere of NI §5.1, ATC's spurious feature.

The hypersphere as published: 200 models, 40 distances, 5 datasets each. The spurious feature of ATC
§6: eleven targets on which a feature that is predictive on the source is less and less predictive.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.studies._claims import ClaimResult
from benchmarks.studies._pages import SEED, Page, Scale, points, write
from oodometer.core.array_types import Floats
from oodometer.core.stats import rng_for
from oodometer.studies.analysis._kendall import dense_ranks
from oodometer.studies.analysis._weighted_statistics import PairUnits, weighted_tau
from oodometer.studies.analysis.model_bootstrap import percentile_interval
from oodometer.studies.toys import (
    HypersphereRow,
    HypersphereToy,
    SpuriousRow,
    SpuriousToy,
    spurious_rows,
)
from oodometer.studies.toys.hypersphere import (
    HypersphereScores,
    build_row,
    score_by_distance,
    train_pool,
)
from oodometer.studies.toys.spurious import DEFAULT_ROWS

Line = list[tuple[float, float]]
N = DEFAULT_ROWS


REPLICATES = 2_000
SPHERE_MEASURES = {"ni": "NI-Sphere", "atc": "ATC-MC"}
# Distance from which on the paper's curves are far below 0.
FAR = 2.4


def sphere_scores(toy: HypersphereToy) -> list[tuple[float, list[HypersphereScores]]]:
    """Train the models of the paper, and score them at every distance."""
    return list(score_by_distance(train_pool(toy, SEED), toy, SEED))


def lines(rows: Sequence[HypersphereRow]) -> dict[str, Line]:
    return {
        "NI-Sphere": [(row.distance, row.ni) for row in rows if row.ni is not None],
        "ATC-MC": [(row.distance, row.atc) for row in rows if row.atc is not None],
    }


def tau_replicates(
    scores: Sequence[tuple[float, list[HypersphereScores]]], measure: str, weights: Floats
) -> Floats:
    """Return τ at every distance on resampled models, shape (distances, replicates)."""
    units = PairUnits(np.arange(len(weights)), weights)
    taus = [
        [
            weighted_tau(dense_ranks(getattr(one, measure)), dense_ranks(one.accuracy), units)
            for one in datasets
        ]
        for _, datasets in scores
    ]
    return np.asarray(np.nanmean(np.array(taus), axis=1))


def drawn_models(models: int) -> Floats:
    """Return how often each model is drawn in every bootstrap replicate."""
    rng = rng_for(SEED, "toy bootstrap")
    counts = rng.multinomial(models, np.full(models, 1 / models), size=REPLICATES)
    return counts.T.astype(np.float64)


def sphere_results(
    scores: Sequence[tuple[float, list[HypersphereScores]]],
) -> list[ClaimResult]:
    """Test the claims of NI Fig. 3b by a bootstrap over models."""
    distances = np.array([distance for distance, _ in scores])
    models = len(scores[0][1][0].accuracy)
    both = {}
    results = []
    for measure in SPHERE_MEASURES:
        whole, drawn = (
            tau_replicates(scores, measure, weights)
            for weights in (np.ones((models, 1)), drawn_models(models))
        )
        both[measure] = drawn, whole
        for name, value, replicates, bound in (
            ("near", whole[0, 0], drawn[0] - 0.4, "τ above 0.4"),
            ("crossing", crossing(distances, whole)[0],
             math.pi / 4 - crossing(distances, drawn), "at most π/4 rad"),
            ("far", whole[distances >= FAR].max(),
             -0.6 - drawn[distances >= FAR].max(axis=0), "τ below −0.6"),
        ):  # fmt: skip
            results.append(
                _interval_result(f"toys-sphere-{measure}-{name}", value, replicates, bound, models)
            )
    apart = np.abs(both["ni"][1] - both["atc"][1]).max()
    drawn_apart = np.abs(both["ni"][0] - both["atc"][0]).max(axis=0)
    return [
        *results,
        _interval_result("toys-sphere-alike", apart, 0.25 - drawn_apart, "at most 0.25", models),
    ]


def _interval_result(
    name: str, value: float, replicates: Floats, bound: str, models: int
) -> ClaimResult:
    figures = f"{value:+.2f} (claimed: {bound})"
    return ClaimResult.of(name, figures, interval=percentile_interval(replicates), models=models)


def crossing(distances: Floats, taus: Floats) -> Floats:
    """Return the distance at which τ first falls to 0, π if never, per column."""
    below = taus <= 0
    first = np.where(below.any(axis=0), below.argmax(axis=0), len(distances) - 1)
    return np.asarray(distances[first])


def worst(rows: Sequence[SpuriousRow]) -> dict[str, float]:
    """Return the largest absolute error over all targets by method."""
    return {
        name: max(abs(row.estimates[name] - row.truth) for row in rows)
        for name in rows[0].estimates
    }


def spurious_results(
    rows: Sequence[SpuriousRow], narrow: Sequence[SpuriousRow], bound: float
) -> list[ClaimResult]:
    """Test the claims of ATC §6 and App. D; with 360,000 rows, there is hardly a sampling error."""
    off = worst(rows)
    others = min(off[name] for name in ("ac", "doc", "gde"))
    wide, mass = off["im (10 equal-width)"], off["im (100 equal-mass)"]
    over = min(row.estimates["atc-mc"] - row.truth for row in narrow[:9])
    return [
        ClaimResult.of(
            "toys-spurious-atc",
            f"{points(off['atc-mc'])} points at most; the bound is {points(bound)}, and it requires at "
            f"least {SpuriousToy().min_rows():,} source rows",
            holds=off["atc-mc"] <= bound,
        ),
        ClaimResult.of(
            "toys-spurious-others",
            f"the smallest of their largest errors is {points(others)} points",
            holds=others > bound,
        ),
        ClaimResult.of(
            "toys-spurious-im-mass",
            f"{points(mass)} points at most with 100 bins",
            holds=mass > bound,
        ),
        ClaimResult.of(
            "toys-spurious-im-width",
            f"{points(wide)} points at most with 10 bins",
            holds=wide < 0.01,
        ),
        ClaimResult.of(
            "toys-spurious-support", f"by {points(over)} points or more", holds=over > 0.01
        ),
    ]


def page(
    sphere: Sequence[HypersphereRow], rows: Sequence[SpuriousRow], results: Sequence[ClaimResult]
) -> Page:
    toy, spurious = HypersphereToy(), SpuriousToy()
    taus = [
        (f"{r.distance:.2f}", points(r.accuracy), f"{r.ni:+.2f}", f"{r.atc:+.2f}")
        for r in sphere[::3]
    ]
    methods = list(rows[0].estimates)
    errors = [
        (f"{row.agreement:.1f}", points(row.truth),
         *(points(row.estimates[name] - row.truth, signed=True) for name in methods))
        for row in rows
    ]  # fmt: skip
    return Page(
        name="toys",
        title="Toy simulations: where invariance and confidence fail, and where a threshold is right",
        done=(
            f"Hypersphere: {toy.models} perceptrons trained at a pole, {toy.distances} distances, "
            f"{toy.centres} datasets of {toy.points:,} points at each, {toy.steps:,} steps; "
            f"{sum(r.left_out for r in sphere)} datasets were left out. Spurious feature: it agrees "
            f"with the label on {100 * spurious.p_sp:.1f} % of the source; {N:,} rows in source and "
            "target."
        ),
        tables={
            "Hypersphere: Kendall's τ with accuracy by distance (every third)": (
                ("rad", "accuracy, %", "NI-Sphere", "ATC-MC"), taus
            ),
            "Spurious feature: estimate minus true accuracy, in points": (
                ("agreement on the target", "accuracy, %", *methods), errors
            ),
        },
        results=results,
        scale=Scale(
            models=toy.models,
            evaluations=toy.models * toy.distances * toy.centres,
            domains=toy.distances * toy.centres,
            rows=f"{toy.points:,}",
            kind="perceptrons",
        ),
        differs=(
            "The papers show these results as figures without numbers; the shapes are compared by the "
            "bounds in the claims."
        ),
    )  # fmt: skip


def long_rows(
    sphere: Sequence[HypersphereRow], rows: Sequence[SpuriousRow]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, line in lines(sphere).items():
        found += [
            {"toy": "hypersphere", "at": at, "measure": name, "value": tau} for at, tau in line
        ]
    found += [
        {"toy": "hypersphere", "at": row.distance, "measure": "accuracy", "value": row.accuracy}
        for row in sphere
    ]
    for row in rows:
        values = {"accuracy": row.truth, **row.estimates}
        found += [
            {"toy": "spurious", "at": row.agreement, "measure": name, "value": float(value)}
            for name, value in values.items()
        ]
    return found


def picture(table: Any) -> Any:
    import altair as alt

    frame = table.to_pandas()
    shown = frame[~((frame["toy"] == "hypersphere") & (frame["measure"] == "accuracy"))]

    def chart(toy: str, x: str, y: str, form: str) -> Any:
        return (
            alt.Chart(shown[shown["toy"] == toy], title=toy)
            .mark_line(point=True)
            .encode(
                x=alt.X("at:Q", title=x),
                y=alt.Y(
                    "value:Q", title=y, axis=alt.Axis(format=form), scale=alt.Scale(zero=False)
                ),
                color=alt.Color("measure:N", title=None, scale=alt.Scale(scheme="tableau10")),
                strokeDash=alt.StrokeDash("measure:N", title=None),
            )
            .properties(width=330, height=260)
        )

    left = chart("hypersphere", "distance from the training data, rad", "Kendall's τ", "+.1f")
    right = chart("spurious", "how often the feature agrees on the target", "accuracy", "%")
    return alt.hconcat(left, right).resolve_scale(color="independent", strokeDash="independent")


def main() -> int:
    import pyarrow as pa

    scores, toy = sphere_scores(HypersphereToy()), SpuriousToy()
    sphere = [build_row(distance, datasets) for distance, datasets in scores]
    rows, narrow = list(spurious_rows(toy, n=N)), list(spurious_rows(toy, n=N, c=0.6))
    results = [*sphere_results(scores), *spurious_results(rows, narrow, toy.atc_error_bound(N))]
    table = pa.Table.from_pylist(long_rows(sphere, rows))
    write(page(sphere, rows, results), table, picture(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
