"""HTML page of the spurious-feature toy: true and estimated accuracy on eleven targets."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.assessment.result import format_percent
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
from oodometer.studies.toys import SpuriousRow, SpuriousToy

METHOD_MARKS = (
    (TARGET_COLOR, "circle"),
    (SOURCE_COLOR, "square"),
    (GREEN_COLOR, "diamond"),
    (AMBER_COLOR, "triangle-up"),
    (SOURCE_COLOR, "cross"),
    (GREEN_COLOR, "triangle-down"),
)


def spurious_page(toy: SpuriousToy, rows: Sequence[SpuriousRow], *, n: int, title: str) -> str:
    """Return the HTML page of the toy with one row per target.

    Parameters
    ----------
    toy : SpuriousToy
        Settings.
    rows : sequence of SpuriousRow
        True and estimated accuracies.
    n : int
        Number of source rows.
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
    accuracy = ToySection(
        "accuracy",
        "True and estimated accuracy",
        f"The spurious feature agrees with the label in {100 * toy.p_sp:g} % of the source rows. On "
        "the targets the agreement varies, and with it the accuracy of a classifier that uses the "
        "feature.",
        (_accuracy_figure(rows),),
    )
    identified = ToySection(
        "identified",
        "Falsely identified predictions of ATC-MC",
        "ATC-MC regards rows above its threshold as correct. It is unbiased exactly where as many "
        "wrong rows are above the threshold as correct rows are below it.",
        (_identified_figure(rows),),
    )
    return render_toy_page(title, describe_theorem(toy, rows, n), [accuracy, identified])


def describe_theorem(toy: SpuriousToy, rows: Sequence[SpuriousRow], n: int) -> str:
    """Return sentences that compare the error of ATC-MC with the bound and check its condition."""
    largest = max(abs(row.estimates["atc-mc"] - row.truth) for row in rows)
    required = toy.min_rows()
    error = f"the largest error of ATC-MC is {format_percent(largest)} points"
    if n < required:
        return (
            f"Theorem 3, which bounds the error of ATC-MC, does not apply at n = {n:,}: it requires at "
            f"least {required:,} source rows. Here, {error}."
        )
    return (
        f"Theorem 3 bounds the error of ATC-MC by {format_percent(toy.atc_error_bound(n))} points at "
        f"n = {n:,}, with a probability of 95 %; {error}. The theorem applies: it requires at least "
        f"{required:,} source rows."
    )


def _accuracy_figure(rows: Sequence[SpuriousRow]) -> Figure:
    methods = list(rows[0].estimates)
    truth = [(row.agreement, 100 * row.truth) for row in rows]
    series = [ChartSeries("true", TEXT_COLOR, truth)]
    series += [
        ChartSeries(
            name,
            METHOD_MARKS[number % len(METHOD_MARKS)][0],
            [(row.agreement, 100 * row.estimates[name]) for row in rows],
            shape=METHOD_MARKS[number % len(METHOD_MARKS)][1],
            has_line=False,
        )
        for number, name in enumerate(methods)
    ]
    cells = tuple(
        (f"{row.agreement:.1f}", format_percent(row.truth),
         *(format_percent(row.estimates[name]) for name in methods))
        for row in rows
    )  # fmt: skip
    return Figure(
        key="estimates",
        title="Accuracy by agreement of the spurious feature with the label",
        caption="The line is the true accuracy, the points are estimates.",
        alt=f"The true accuracy is {format_percent(rows[0].truth)} % at an agreement of "
        f"{rows[0].agreement:.1f} and {format_percent(rows[-1].truth)} % at "
        f"{rows[-1].agreement:.1f}.",
        spec=series_chart(series, x_title="agreement on the target", y_title="accuracy, %"),
        table=FigureTable(("agreement", "true", *methods), cells),
        wide=True,
    )


def _identified_figure(rows: Sequence[SpuriousRow]) -> Figure:
    names = ("wrong, above threshold", "correct, below threshold")
    shares = [(row.falsely_identified.correct, row.falsely_identified.incorrect) for row in rows]
    series = [
        ChartSeries(
            name,
            color,
            [(row.agreement, 100 * share[side]) for row, share in zip(rows, shares, strict=True)],
            shape=shape,
        )
        for side, (name, color, shape) in enumerate(
            zip(names, (TARGET_COLOR, SOURCE_COLOR), ("circle", "square"), strict=True)
        )
    ]
    cells = tuple(
        (f"{row.agreement:.1f}", *(f"{100 * value:.2f}" for value in share))
        for row, share in zip(rows, shares, strict=True)
    )
    return Figure(
        key="falsely-identified",
        title="Falsely identified predictions by agreement",
        caption="In % of the target rows. The difference of the two lines is the error of ATC-MC.",
        alt=f"At an agreement of {rows[0].agreement:.1f}, {100 * shares[0][0]:.2f} % of the rows are "
        f"wrong and above the threshold, and {100 * shares[0][1]:.2f} % are correct and below it.",
        spec=series_chart(series, x_title="agreement on the target", y_title="share of rows, %"),
        table=FigureTable(("agreement", *names), cells),
        wide=True,
    )
