"""Two simulations with known accuracy: the hypersphere of NI §5.1, ATC's spurious feature.

The hypersphere as published: 200 models, 40 distances, 5 datasets each. The spurious feature of ATC
§6: eleven targets on which a feature that is predictive on the source is less and less predictive.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.studies._pages import Claim, Page, points, write
from oodometer.studies.report._toy_page import first_zero_crossing
from oodometer.studies.toys import (
    HypersphereRow,
    HypersphereToy,
    SpuriousRow,
    SpuriousToy,
    hypersphere_rows,
    spurious_rows,
)
from oodometer.studies.toys.spurious import DEFAULT_ROWS

Line = list[tuple[float, float]]
N = DEFAULT_ROWS


def lines(rows: Sequence[HypersphereRow]) -> dict[str, Line]:
    return {
        "NI-Sphere": [(row.distance, row.ni) for row in rows if row.ni is not None],
        "ATC-MC": [(row.distance, row.atc) for row in rows if row.atc is not None],
    }


def sphere_claims(rows: Sequence[HypersphereRow]) -> list[Claim]:
    """Return the claims of the paper's figure on both measures."""
    found = []
    for name, line in lines(rows).items():
        crossing, far = first_zero_crossing(line), max(tau for at, tau in line if at >= 2.4)
        found += [
            Claim(f"hypersphere, {name}: τ above 0.4 near the training data", line[0][1] > 0.4,
                  f"{line[0][1]:+.2f}."),
            Claim(f"hypersphere, {name}: crosses zero on the way to π/4",
                  crossing is not None and crossing <= math.pi / 4,
                  "Never." if crossing is None else f"At {crossing:.2f} rad."),
            Claim(f"hypersphere, {name}: τ below −0.6 beyond 2.4 rad", far < -0.6,
                  f"{far:+.2f} at most."),
        ]  # fmt: skip
    apart = max(abs((row.ni or 0.0) - (row.atc or 0.0)) for row in rows)
    words = "hypersphere: both measures perform alike, with τ at most 0.25 apart"
    return [*found, Claim(words, apart <= 0.25, f"{apart:.2f} at most.")]


def worst(rows: Sequence[SpuriousRow]) -> dict[str, float]:
    """Return the largest absolute error over all targets by method."""
    return {
        name: max(abs(row.estimates[name] - row.truth) for row in rows)
        for name in rows[0].estimates
    }


def spurious_claims(
    rows: Sequence[SpuriousRow], narrow: Sequence[SpuriousRow], bound: float
) -> list[Claim]:
    """Return the claims of §6 and of the appendix."""
    off = worst(rows)
    others = min(off[name] for name in ("ac", "doc", "gde"))
    wide, mass = off["im (10 equal-width)"], off["im (100 equal-mass)"]
    over = min(row.estimates["atc-mc"] - row.truth for row in narrow[:9])
    return [
        Claim("spurious: the error of ATC is within the bound of Theorem 3", off["atc-mc"] <= bound,
              f"{points(off['atc-mc'])} points at most; the bound is {points(bound)}, and it requires "
              f"at least {SpuriousToy().min_rows():,} source rows."),
        Claim("spurious: AC, DOC and GDE have larger errors", others > bound,
              f"The smallest of them is {points(others)} points."),
        Claim("spurious: importance re-weighting over bins has a larger error", min(wide, mass) > bound,
              f"With 100 bins of equal mass {points(mass)}, with 10 bins of equal width "
              f"{points(wide)}: the result depends on the bins, which the paper does not specify."),
        Claim("spurious: a target of smaller support is overestimated", over > 0.01,
              f"By {points(over)} points or more."),
    ]  # fmt: skip


def page(
    sphere: Sequence[HypersphereRow], rows: Sequence[SpuriousRow], claims: Sequence[Claim]
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
        claims=claims,
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

    sphere, toy = list(hypersphere_rows(HypersphereToy())), SpuriousToy()
    rows, narrow = list(spurious_rows(toy, n=N)), list(spurious_rows(toy, n=N, c=0.6))
    claims = [*sphere_claims(sphere), *spurious_claims(rows, narrow, toy.atc_error_bound(N))]
    table = pa.Table.from_pylist(long_rows(sphere, rows))
    write(page(sphere, rows, claims), table, picture(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
