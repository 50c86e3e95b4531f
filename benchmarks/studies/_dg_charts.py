"""Charts of DG Figures 1 to 3: ERM against CORAL, distances of measures, and signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.studies._dg_analyses import ErrorCorrelations
from oodometer.studies.analysis.clustering import Clustering

Label = Callable[[str], str]
ROW_PIXELS = 15


def picture(
    erm: ErrorCorrelations, coral: ErrorCorrelations | None, clusters: Clustering, label: Label
) -> Any:
    """Return the three figures: 1 and 3 side by side, 2 below."""
    import altair as alt

    order = sorted(erm.measures, key=lambda name: -abs(erm.joint[name].value))
    top = alt.hconcat(
        correlation_chart({"ERM": erm, "CORAL": coral}, order, label),
        sign_chart(erm, order, label),
    ).resolve_scale(color="independent")
    return alt.vconcat(top, distance_chart(clusters, label)).resolve_scale(color="independent")


def correlation_chart(
    found: dict[str, ErrorCorrelations | None], order: list[str], label: Label
) -> Any:
    """Plot the pooled ρ of each measure with its interval, for ERM and CORAL (DG Figure 1)."""
    import altair as alt
    import pandas as pd

    rows = [
        {"measure": label(name), "algorithm": algorithm, "rho": one.joint[name].value,
         "low": one.joint[name].low, "high": one.joint[name].high}
        for algorithm, one in found.items()
        if one is not None
        for name in order
        if name in one.joint
    ]  # fmt: skip
    base = alt.Chart(
        pd.DataFrame(rows), title="Figure 1: pooled ρ with target error, 95 % intervals"
    ).encode(
        y=alt.Y("measure:N", sort=[label(name) for name in order], title=None,
                axis=alt.Axis(labelLimit=260)),
        yOffset=alt.YOffset("algorithm:N", sort=list(found)),
        color=alt.Color("algorithm:N", sort=list(found), title=None,
                        scale=alt.Scale(scheme="tableau10")),
    )  # fmt: skip
    lines = base.mark_rule().encode(x=alt.X("low:Q", title="Spearman's ρ"), x2="high:Q")
    points = base.mark_point(filled=True, size=24).encode(x="rho:Q")
    return (lines + points).properties(width=300, height=ROW_PIXELS * len(order))


def sign_chart(erm: ErrorCorrelations, order: list[str], label: Label) -> Any:
    """Plot ρ and its sign by measure and environment (DG Figure 3: canonicalization)."""
    import altair as alt
    import pandas as pd

    rows = [
        {"measure": label(name), "environment": f"{domain}°", "rho": value}
        for name in order
        for domain, value in erm.environments[name].items()
        if value is not None
    ]
    domains = sorted({domain for one in erm.environments.values() for domain in one}, key=int)
    names = [label(name) for name in order]
    columns = [f"{domain}°" for domain in domains]
    base = alt.Chart(pd.DataFrame(rows), title="Figure 3: sign of ρ by environment, ERM").encode(
        x=alt.X("environment:N", sort=columns, title=None),
        y=alt.Y("measure:N", sort=names, axis=None),
    )
    colors = alt.Color("rho:Q", title="ρ", scale=alt.Scale(scheme="redblue", domain=[-1, 1]))
    cells = base.mark_rect().encode(color=colors)
    signs = base.mark_text(fontSize=10).encode(
        text=alt.condition("datum.rho > 0", alt.value("+"), alt.value("−"))
    )
    return (cells + signs).properties(width=200, height=ROW_PIXELS * len(order))


def distance_chart(clusters: Clustering, label: Label) -> Any:
    """Plot the matrix of distances 1 − ρ, with rows and columns in leaf order (DG Figure 2)."""
    import altair as alt
    import pandas as pd

    leaves = [clusters.distances.names.index(name) for name in clusters.order]
    values = clusters.distances.values[np.ix_(leaves, leaves)]
    names = [label(name) for name in clusters.order]
    rows = [
        {"first": names[i], "second": names[j], "distance": float(values[i, j])}
        for i, j in np.ndindex(values.shape)
    ]
    axis = alt.Axis(labelLimit=260)
    return (
        alt.Chart(pd.DataFrame(rows), title="Figure 2: distance 1 − ρ between measures, ERM")
        .mark_rect()
        .encode(
            x=alt.X("second:N", sort=names, title=None, axis=axis),
            y=alt.Y("first:N", sort=names, title=None, axis=axis),
            color=alt.Color("distance:Q", title="1 − ρ",
                            scale=alt.Scale(scheme="viridis", domain=[0, 2])),
        )
        .properties(width=ROW_PIXELS * len(names), height=ROW_PIXELS * len(names))
    )  # fmt: skip
