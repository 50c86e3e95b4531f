"""Terminal tables of the toy problems."""

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
    bound = format_percent(toy.atc_error_bound(n))
    console.print(Text(f"Theorem 3 bounds the error of ATC-MC by {bound} points at n = {n:,}."))


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
