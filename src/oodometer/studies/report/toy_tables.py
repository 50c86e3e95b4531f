"""Terminal tables of the toy problems."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from oodometer.assessment.result import format_percent
from oodometer.report.terminal import format_number, table
from oodometer.studies.report._covariate_or_label_page import summarize_worlds
from oodometer.studies.report._skews_page import summarize_skews
from oodometer.studies.report._spurious_page import describe_theorem
from oodometer.studies.toys import (
    CovariateOrLabelRow,
    CovariateOrLabelToy,
    HypersphereRow,
    HypersphereToy,
    SkewRow,
    SkewsToy,
    SpuriousRow,
    SpuriousToy,
)


def show_spurious_toy(
    console: Console, toy: SpuriousToy, rows: Sequence[SpuriousRow], n: int
) -> None:
    """Print true and estimated accuracy for every agreement of the spurious feature and label."""
    methods = list(rows[0].estimates)
    cells = [
        (
            f"{row.agreement:.1f}",
            format_percent(row.truth),
            *(format_percent(row.estimates[method]) for method in methods),
        )
        for row in rows
    ]
    largest = [max(abs(row.estimates[m] - row.truth) for row in rows) for m in methods]
    cells.append(("largest", "", *(format_percent(error) for error in largest)))
    title = (
        f"Accuracy in % by agreement of the spurious feature with the label (source: {toy.p_sp})"
    )
    console.print(table(title, ("agreement", "true", *methods), cells))
    identified = [row.falsely_identified for row in rows]
    cells = [
        (f"{row.agreement:.1f}", f"{100 * shares.correct:.2f}", f"{100 * shares.incorrect:.2f}",
         format_number(100 * shares.bias, "+.2f"))
        for row, shares in zip(rows, identified, strict=True)
    ]  # fmt: skip
    console.print()
    title = "Falsely identified predictions of ATC-MC, in % of the rows"
    heads = ("agreement", "falsely correct", "falsely incorrect", "difference")
    console.print(table(title, heads, cells))
    console.print(Text(describe_theorem(toy, rows, n)))


def show_covariate_or_label_toy(
    console: Console, toy: CovariateOrLabelToy, rows: Sequence[CovariateOrLabelRow]
) -> None:
    """Print the true accuracy in both worlds and the estimates, one line per target."""
    methods = list(rows[0].estimates)
    cells = [
        (
            f"{row.beta:g}",
            format_percent(row.covariate.exact),
            format_percent(row.covariate.simulated),
            format_percent(row.label.exact),
            format_percent(row.label.simulated),
            *(format_percent(row.estimates[method]) for method in methods),
        )
        for row in rows
    ]
    title = f"Accuracy in % under covariate shift and under label shift (source: α = {toy.alpha:g})"
    heads = ("β", "covariate", "simulated", "label", "simulated", *methods)
    console.print(table(title, heads, cells))
    console.print(
        Text("The estimates are the same under both shifts, because the data are the same.")
    )
    console.print(Text(summarize_worlds(rows)))


def show_skews_toy(console: Console, toy: SkewsToy, rows: Sequence[SkewRow]) -> None:
    """Print the margin of the minority and the spurious weights, one line per training-set size."""
    epochs = sorted(rows[0].descent)
    cells = [
        (
            f"{row.n:,}",
            f"{row.margin:.4f}",
            f"{row.expected_margin:.4f}",
            f"{row.max_margin:.5f}",
            *(f"{row.descent[count]:.3f}" for count in epochs),
        )
        for row in rows
    ]
    title = (
        "Margin of the minority group, and weight of the spurious feature divided by the weight of "
        "the invariant feature"
    )
    heads = ("rows", "margin", "expected", "max-margin", *(f"{count:,} epochs" for count in epochs))
    console.print(table(title, heads, cells))
    console.print(Text(summarize_skews(toy, rows)))


def show_hypersphere_toy(
    console: Console, toy: HypersphereToy, rows: Sequence[HypersphereRow]
) -> None:
    """Print Kendall's τ of invariance and of ATC at every distance, as numbers and as bars."""
    cells = [
        (
            f"{row.distance:.2f}",
            format_percent(row.accuracy),
            format_number(row.ni, "+.2f"),
            Text(_tau_bar(row.ni), no_wrap=True),
            format_number(row.atc, "+.2f"),
            Text(_tau_bar(row.atc), no_wrap=True),
        )
        for row in rows
    ]
    title = (
        f"Kendall's τ with accuracy over {toy.models} models, {toy.centres} datasets per distance"
    )
    heads = ("rad", "accuracy %", "NI-Sphere", "", "ATC-MC", "")
    console.print(table(title, heads, cells))
    left_out = sum(row.left_out for row in rows)
    if left_out:
        console.print(Text(f"{left_out} datasets with equal accuracies were left out."))


def _tau_bar(value: float | None, half_width: int = 10) -> str:
    """Return a bar that extends from the middle to the left (negative) or to the right.

    >>> _tau_bar(0.5, half_width=4), _tau_bar(-0.5, half_width=4)
    ('    │██  ', '  ██│    ')
    """
    filled = round(abs(value or 0.0) * half_width)
    full, empty = "█" * filled, " " * (half_width - filled)
    blank = " " * half_width
    return f"{blank}│{full}{empty}" if (value or 0.0) >= 0 else f"{empty}{full}│{blank}"
