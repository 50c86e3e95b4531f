"""HTML page of the toy in which the same data allow a covariate shift and a label shift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.assessment.result import format_percent
from oodometer.core.errors import InputError
from oodometer.report.charts import SOURCE_COLOR, TARGET_COLOR, Figure, FigureTable
from oodometer.studies.report._toy_page import (
    AMBER_COLOR,
    GREEN_COLOR,
    ChartSeries,
    ToySection,
    render_toy_page,
    series_chart,
)
from oodometer.studies.toys import CovariateOrLabelRow, CovariateOrLabelToy

METHOD_MARKS = {
    "iw": (SOURCE_COLOR, "circle"),
    "bbse": (TARGET_COLOR, "square"),
    "mlls": (AMBER_COLOR, "diamond"),
    "atc-mc": (GREEN_COLOR, "triangle-up"),
}
COVARIATE_NAME, LABEL_NAME = "true, covariate shift", "true, label shift"
# Number of points of a curve.
N_CURVE_POINTS = 61


def covariate_or_label_page(
    toy: CovariateOrLabelToy, rows: Sequence[CovariateOrLabelRow], *, title: str
) -> str:
    """Return the HTML page of the toy with one row per target.

    Parameters
    ----------
    toy : CovariateOrLabelToy
        Settings.
    rows : sequence of CovariateOrLabelRow
        True and estimated accuracies, in the order of `beta`.
    title : str
        Title of the page.

    Returns
    -------
    str
        Complete HTML document that loads nothing from the network.

    Raises
    ------
    InputError
        If there are no rows.
    """
    if not rows:
        raise InputError("There are no rows to show; expected one per target. Run the toy first.")
    widest = max(rows, key=lambda row: abs(row.covariate.exact - row.label.exact))
    section = ToySection(
        "worlds",
        "True accuracy in both worlds, and estimates",
        "The lines are the true accuracies if the shift of p(x) is a covariate shift, in which "
        "p(y|x) is unchanged, or a label shift, in which p(x|y) is unchanged. The points are "
        "estimates. An estimate is the same in both worlds, because the labelled source and the "
        "unlabelled target are the same. Only knowledge of the shift tells which line is right.",
        (_accuracy_figure(toy, rows), _posterior_figure(toy, widest)),
    )
    return render_toy_page(title, summarize_worlds(rows), [section])


def summarize_worlds(rows: Sequence[CovariateOrLabelRow]) -> str:
    """Return sentences on the largest difference of the worlds and the errors in each world."""
    widest = max(rows, key=lambda row: abs(row.covariate.exact - row.label.exact))
    sentences = [
        f"At β = {widest.beta:g}, the same data have a true accuracy of "
        f"{format_percent(widest.covariate.exact)} % under covariate shift and of "
        f"{format_percent(widest.label.exact)} % under label shift.",
        "Largest error in points (covariate shift, label shift):",
    ]
    errors = []
    for method in rows[0].estimates:
        worst = [
            max(abs(row.estimates[method] - world) for row, world in zip(rows, truths, strict=True))
            for truths in (
                [row.covariate.exact for row in rows],
                [row.label.exact for row in rows],
            )
        ]
        errors.append(f"{method} {format_percent(worst[0])}, {format_percent(worst[1])}")
    return " ".join(sentences) + " " + "; ".join(errors) + "."


def _accuracy_figure(toy: CovariateOrLabelToy, rows: Sequence[CovariateOrLabelRow]) -> Figure:
    betas = np.linspace(rows[0].beta, rows[-1].beta, N_CURVE_POINTS).tolist()
    lines = [
        ChartSeries(name, color, [(beta, 100 * accuracy(beta)) for beta in betas])
        for name, color, accuracy in (
            (COVARIATE_NAME, SOURCE_COLOR, toy.covariate_shift_accuracy),
            (LABEL_NAME, TARGET_COLOR, toy.label_shift_accuracy),
        )
    ]
    dots = [
        ChartSeries(
            name,
            METHOD_MARKS[name][0],
            [(row.beta, 100 * row.estimates[name]) for row in rows],
            shape=METHOD_MARKS[name][1],
            has_line=False,
        )
        for name in rows[0].estimates
    ]
    heads = ("β", COVARIATE_NAME, "simulated", LABEL_NAME, "simulated", *rows[0].estimates)
    cells = tuple(
        (
            f"{row.beta:g}",
            format_percent(row.covariate.exact),
            format_percent(row.covariate.simulated),
            format_percent(row.label.exact),
            format_percent(row.label.simulated),
            *(format_percent(value) for value in row.estimates.values()),
        )
        for row in rows
    )
    return Figure(
        key="accuracy",
        title="Accuracy by the share of the first component on the target",
        caption=(
            f"Source: α = {toy.alpha:g}, means {toy.mu_0:g} and {toy.mu_1:g}; the classifier "
            f"predicts class 1 above {toy.threshold:.3f}. At β = α there is no shift."
        ).replace("-", "−"),
        alt=summarize_worlds(rows),
        spec=series_chart(
            [*lines, *dots], x_title="β, share of the first component", y_title="accuracy, %"
        ),
        table=FigureTable(heads, cells),
        wide=True,
    )


def _posterior_figure(toy: CovariateOrLabelToy, row: CovariateOrLabelRow) -> Figure:
    """Draw the probability of class 1 given x on the target in both worlds."""
    x = np.linspace(toy.mu_0 - 2.5, toy.mu_1 + 2.5, N_CURVE_POINTS)
    worlds = (("covariate shift", SOURCE_COLOR, toy.alpha), ("label shift", TARGET_COLOR, row.beta))
    series = [
        ChartSeries(
            name, color, list(zip(x.tolist(), toy.posterior(x, share).tolist(), strict=True))
        )
        for name, color, share in worlds
    ]
    at = toy.threshold
    values = [float(toy.posterior(np.array(at), share)) for _, _, share in worlds]
    return Figure(
        key="posterior",
        title=f"Probability of class 1 given x on the target, at β = {row.beta:g}",
        caption="Both curves agree with the same p(x) of the target. The labels would tell them "
        "apart, and the target has none.",
        alt=f"At the boundary of the classifier, x = {at:.2f}, the probability of class 1 is "
        f"{values[0]:.2f} under covariate shift and {values[1]:.2f} under label shift.",
        spec=series_chart(series, x_title="x", y_title="P(y = 1 | x)"),
        table=None,
        wide=True,
    )
