"""Terminal tables of the toys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from oodometer.assessment.result import format_percent
from oodometer.report.terminal import format_number, table
from oodometer.studies.toys import HypersphereRow, HypersphereToy, SpuriousRow, SpuriousToy


def show_spurious_toy(
    console: Console, toy: SpuriousToy, rows: Sequence[SpuriousRow], n: int
) -> None:
    """True accuracy and estimates for every degree of agreement."""
    methods = list(rows[0].estimates)
    cells = [
        (
            f"{r.agreement:.1f}",
            format_percent(r.truth),
            *(format_percent(r.estimates[m]) for m in methods),
        )
        for r in rows
    ]
    worst = [max(abs(r.estimates[m] - r.truth) for r in rows) for m in methods]
    cells.append(("worst", "", *(format_percent(gap) for gap in worst)))
    title = f"Accuracy in % as the spurious feature agrees with the label (source: {toy.p_sp})"
    console.print(table(title, ("agrees", "truth", *methods), cells))
    console.print(
        Text(
            f"Theorem 3 allows ATC-MC an error of {format_percent(toy.atc_error_bound(n))} points at n = {n:,}."
        )
    )


def show_hypersphere_toy(
    console: Console, toy: HypersphereToy, rows: Sequence[HypersphereRow]
) -> None:
    """Kendall's τ of both measures at every distance, as numbers and as bars around 0."""
    cells = [
        (f"{r.distance:.2f}", format_percent(r.accuracy), format_number(r.ni, "+.2f"),
         Text(_tau_bar(r.ni), no_wrap=True), format_number(r.atc, "+.2f"), Text(_tau_bar(r.atc), no_wrap=True))
        for r in rows
    ]  # fmt: skip
    title = f"Kendall's τ with accuracy over {toy.models} models, {toy.centres} datasets a distance"
    heads = ("rad", "accuracy %", "NI-Sphere", "", "ATC-MC", "")
    console.print(table(title, heads, cells))
    left_out = sum(row.left_out for row in rows)
    if left_out:
        console.print(Text(f"{left_out} datasets on which all models are alike were left out."))


def _tau_bar(value: float | None, half_width: int = 10) -> str:
    """A bar to the left (negative) or right of the middle.

    >>> _tau_bar(0.5, half_width=4), _tau_bar(-0.5, half_width=4)
    ('    │██  ', '  ██│    ')
    """
    filled = round(abs(value or 0.0) * half_width)
    full, empty = "█" * filled, " " * (half_width - filled)
    blank = " " * half_width
    return f"{blank}│{full}{empty}" if (value or 0.0) >= 0 else f"{empty}{full}│{blank}"
