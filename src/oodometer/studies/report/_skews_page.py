"""HTML page of the toy on geometric and statistical skew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.core.errors import InputError
from oodometer.report.charts import SOURCE_COLOR, TARGET_COLOR, TEXT_COLOR, Figure, FigureTable
from oodometer.studies.report._toy_page import (
    AMBER_COLOR,
    GREEN_COLOR,
    ChartSeries,
    ToySection,
    render_toy_page,
    series_chart,
)
from oodometer.studies.toys import SkewRow, SkewsToy

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
COLORS = (SOURCE_COLOR, TARGET_COLOR, GREEN_COLOR, AMBER_COLOR)
# Maximum number of training-set sizes that have a line in the chart over epochs.
MAX_LINES = 4


def skews_page(toy: SkewsToy, rows: Sequence[SkewRow], *, title: str) -> str:
    """Return the HTML page of the toy with one row per number of training rows.

    Parameters
    ----------
    toy : SkewsToy
        Settings.
    rows : sequence of SkewRow
        Margins and weights, in the order of the number of training rows.
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
        raise InputError("There are no rows to show; expected one per size. Run the toy first.")
    geometric = ToySection(
        "geometric",
        "Geometric skew",
        "The minority group has few rows, and the smallest distance of these rows from the class "
        "boundary is larger than the margin γ of the distribution. The max-margin classifier "
        "therefore has a weight on the spurious feature: w_sp / w_inv is half the difference of the "
        "margins of minority and majority.",
        (_margin_figure(toy, rows), _max_margin_figure(rows)),
    )
    statistical = ToySection(
        "statistical",
        "Statistical skew",
        "Gradient descent starts at weights of 0 and first uses both features. The weight of the "
        "spurious feature decreases slowly relative to the other one, also with so many rows that "
        "there is no geometric skew.",
        (_size_figure(rows), _epoch_figure(rows)),
    )
    return render_toy_page(title, summarize_skews(toy, rows), [geometric, statistical])


def summarize_skews(toy: SkewsToy, rows: Sequence[SkewRow]) -> str:
    """Return sentences with the margin and the weights at the smallest and the largest size."""
    few, many = rows[0], rows[-1]
    last = max(toy.epochs)
    return (
        f"The margin of the minority group is {few.margin:.3f} with {few.n:,} rows and "
        f"{many.margin:.3f} with {many.n:,} rows (γ = {toy.gamma:g}). With {many.n:,} rows, "
        f"w_sp / w_inv is {many.max_margin:.5f} for the max-margin classifier and still "
        f"{many.descent[last]:.3f} after {last:,} epochs of gradient descent."
    )


def _margin_figure(toy: SkewsToy, rows: Sequence[SkewRow]) -> Figure:
    sizes = [row.n for row in rows]
    series = [
        ChartSeries("mean of the samples", TARGET_COLOR, [(row.n, row.margin) for row in rows],
                    shape="circle", has_line=False),
        ChartSeries("expected", SOURCE_COLOR, [(row.n, row.expected_margin) for row in rows]),
        ChartSeries("γ", TEXT_COLOR, [(size, toy.gamma) for size in sizes]),
    ]  # fmt: skip
    return Figure(
        key="margin",
        title="Margin of the minority group",
        caption=f"Smallest distance of a minority row from the class boundary, mean of "
        f"{toy.repeats} training sets. The spurious feature agrees with the label in "
        f"{100 * toy.p_sp:g} % of the rows.",
        alt=summarize_skews(toy, rows),
        spec=series_chart(series, x_title="training rows", y_title="margin", log_x=True),
        table=FigureTable(
            ("rows", "margin", "expected"),
            tuple(
                (f"{row.n:,}", f"{row.margin:.4f}", f"{row.expected_margin:.4f}") for row in rows
            ),
        ),
    )


def _max_margin_figure(rows: Sequence[SkewRow]) -> Figure:
    series = [
        ChartSeries("max-margin classifier", TARGET_COLOR,
                    [(row.n, row.max_margin) for row in rows if row.max_margin > 0], shape="circle")
    ]  # fmt: skip
    return Figure(
        key="max-margin",
        title="Spurious weight of the max-margin classifier",
        caption="Weight of the spurious feature divided by the weight of the invariant feature.",
        alt=f"w_sp / w_inv is {rows[0].max_margin:.5f} with {rows[0].n:,} rows and "
        f"{rows[-1].max_margin:.5f} with {rows[-1].n:,} rows.",
        spec=series_chart(
            series, x_title="training rows", y_title="w_sp / w_inv", log_x=True, log_y=True
        ),
        table=FigureTable(
            ("rows", "w_sp / w_inv"),
            tuple((f"{row.n:,}", f"{row.max_margin:.5f}") for row in rows),
        ),
    )


def _size_figure(rows: Sequence[SkewRow]) -> Figure:
    epochs = sorted(rows[0].descent)
    series = [
        ChartSeries(
            f"{count:,} epochs",
            COLORS[number % len(COLORS)],
            [(row.n, row.descent[count]) for row in rows if row.descent[count] > 0],
            shape=SHAPES[number % len(SHAPES)],
        )
        for number, count in enumerate(epochs)
    ]
    return Figure(
        key="descent",
        title="Spurious weight after gradient descent, by training rows",
        caption="w_sp / w_inv after full-batch gradient descent on the logistic loss.",
        alt=f"With {rows[-1].n:,} rows, w_sp / w_inv is "
        + ", ".join(f"{rows[-1].descent[count]:.2g} after {count:,} epochs" for count in epochs)
        + ".",
        spec=series_chart(
            series, x_title="training rows", y_title="w_sp / w_inv", log_x=True, log_y=True
        ),
        table=FigureTable(
            ("rows", *(f"{count:,} epochs" for count in epochs)),
            tuple(
                (f"{row.n:,}", *(f"{row.descent[count]:.3f}" for count in epochs)) for row in rows
            ),
        ),
    )


def _epoch_figure(rows: Sequence[SkewRow]) -> Figure:
    numbers = np.unique(np.linspace(0, len(rows) - 1, MAX_LINES).round().astype(int))
    shown = [rows[number] for number in numbers]
    series = [
        ChartSeries(
            f"{row.n:,} rows",
            COLORS[number % len(COLORS)],
            [(count, ratio) for count, ratio in sorted(row.descent.items()) if ratio > 0],
            shape=SHAPES[number % len(SHAPES)],
        )
        for number, row in enumerate(shown)
    ]
    return Figure(
        key="epochs",
        title="Spurious weight after gradient descent, by epochs",
        caption="The same values as a function of the number of epochs.",
        alt="w_sp / w_inv by epochs for " + ", ".join(f"{row.n:,}" for row in shown) + " rows.",
        spec=series_chart(series, x_title="epochs", y_title="w_sp / w_inv", log_x=True, log_y=True),
    )
