"""Result tables as Markdown, LaTeX and CSV, with the best cell of every column marked."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from oodometer.core.errors import UnknownName
from oodometer.studies.analysis._compare_measures import (
    SAME_AS_PREFIX,
    STATISTIC_LABELS,
    MeasureComparison,
)

TableFormat = Literal["markdown", "latex", "csv"]
LOWER_IS_BETTER = ("mae", "raw_mae")
# Statistics in percentage points.
STATISTICS_IN_POINTS = ("mae", "raw_mae")
MISSING_CELL = "–"
# Replacements of characters that have a special meaning in LaTeX or no glyph in its usual fonts.
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "τ": r"$\tau$", "ρ": r"$\rho$", "±": r"$\pm$", "−": "$-$", "–": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


@dataclass(frozen=True)
class TextTable:
    """Table of text; `best_cells` holds the position (row, column) of each column's best cell."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best_cells: frozenset[tuple[int, int]] = frozenset()

    def to_text(self, table_format: str) -> str:
        """Return the table as Markdown, LaTeX or CSV.

        >>> print(TextTable(("measure", "τ"), (("ni_x", "0.70"),), frozenset({(0, 1)})).to_text("markdown"))
        | measure | τ        |
        | ------- | -------- |
        | ni_x    | **0.70** |
        """
        if table_format not in get_args(TableFormat):
            raise UnknownName("table format", table_format, get_args(TableFormat))
        return _FORMATTERS[table_format](self)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dictionary per row, with numbers instead of text where cells are numbers.

        A standard deviation has a column of its own, and missing cells are None.

        >>> TextTable(("measure", "τ"), (("ni", "0.70 ± 0.10"), ("ac", "–"))).to_records()
        [{'measure': 'ni', 'τ': 0.7, 'τ (sd)': 0.1}, {'measure': 'ac', 'τ': None, 'τ (sd)': None}]
        """
        columns: dict[str, list[Any]] = {}
        for name, cells in zip(self.header, zip(*self.rows, strict=True), strict=False):
            parts = [cell.partition(" ± ") for cell in cells]
            columns[name] = [_parse_cell(mean) for mean, _, _ in parts]
            if any(sign for _, sign, _ in parts):
                columns[f"{name} (sd)"] = [_parse_cell(sd) for _, _, sd in parts]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _mark_best(self, mark: Callable[[str], str]) -> list[list[str]]:
        return [
            [mark(cell) if (i, j) in self.best_cells else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]


def comparison_table(
    comparison: MeasureComparison, *, architecture: str | None = None, show_sd: bool = False
) -> TextTable:
    """Return a table with one row per measure and one column per statistic.

    Cells are means over groups, with standard deviations if `show_sd` is true. Columns without any
    value, and columns that are equal to another column, are left out. The best cell of a column is
    marked unless all measures have the same value.
    """
    available = {statistic for _, statistic, kind in comparison.summaries if kind == architecture}
    measures = list(comparison.table.measures)
    columns: dict[str, list[str]] = {}
    best = set()
    for statistic in (name for name in STATISTIC_LABELS if name in available):
        summaries = [comparison.summaries.get((name, statistic, architecture)) for name in measures]
        means = [summary.mean if summary else None for summary in summaries]
        repeats = any(summary and summary.rule.startswith(SAME_AS_PREFIX) for summary in summaries)
        if repeats or all(mean is None for mean in means):
            continue
        digits = 2 if statistic in STATISTICS_IN_POINTS else 3
        columns[statistic] = [
            format_cell(summary.mean, summary.sd if show_sd else None, digits) if summary else ""
            for summary in summaries
        ]
        lower_is_better = statistic in LOWER_IS_BETTER
        best |= {(row, len(columns)) for row in _best_rows(means, lower_is_better=lower_is_better)}
    rows = tuple(
        (name, *(cells[row] for cells in columns.values())) for row, name in enumerate(measures)
    )
    return TextTable(
        ("measure", *(STATISTIC_LABELS[name] for name in columns)), rows, frozenset(best)
    )


def _best_rows(values: Sequence[float | None], *, lower_is_better: bool) -> list[int]:
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:
        return []
    best = min(known) if lower_is_better else max(known)
    return [row for row, value in enumerate(values) if value == best]


def format_cell(mean: float | None, sd: float | None, digits: int) -> str:
    """Return a number with its standard deviation, if there is one.

    >>> format_cell(0.5, 0.25, 2), format_cell(-0.5, None, 1), format_cell(None, None, 2)
    ('0.50 ± 0.25', '-0.5', '–')
    """
    if mean is None:
        return MISSING_CELL
    # R2 is very large (and negative) if the true values hardly differ. Decimals would then only
    # take space.
    text = f"{mean:.0f}" if abs(mean) >= 1000 else f"{mean:.{digits}f}"
    deviation = "" if sd is None or abs(mean) >= 1000 else f" ± {sd:.{digits}f}"
    return text + deviation


def _parse_cell(text: str) -> float | str | None:
    """Return a cell as a number if it is one; None if it is missing."""
    if text in ("", MISSING_CELL):
        return None
    try:
        return float(text.replace("−", "-").replace(",", ""))
    except ValueError:
        return text


def _markdown(table: TextTable) -> str:
    def escaped(cell: str) -> str:
        return cell.replace("\\", "\\\\").replace("|", "\\|")

    head = [escaped(cell) for cell in table.header]
    rows = [[escaped(cell) for cell in row] for row in table._mark_best(lambda cell: f"**{cell}**")]
    widths = [max(3, *(len(row[j]) for row in [head, *rows])) for j in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    )


def _latex(table: TextTable) -> str:
    def escaped(cell: str) -> str:
        return "".join(_LATEX_ESCAPES.get(sign, sign) for sign in cell)

    plain = TextTable(
        tuple(map(escaped, table.header)),
        tuple(tuple(map(escaped, row)) for row in table.rows),
        table.best_cells,
    )
    lines = [
        f"{' & '.join(row)} \\\\" for row in plain._mark_best(lambda cell: f"\\textbf{{{cell}}}")
    ]
    form = "l" + "r" * (len(table.header) - 1)
    return "\n".join(
        [f"\\begin{{tabular}}{{{form}}}", r"\hline", f"{' & '.join(plain.header)} \\\\", r"\hline",
         *lines, r"\hline", r"\end{tabular}"]
    )  # fmt: skip


def _csv(table: TextTable) -> str:
    """Return the table as CSV for other programs; the best cells are not marked."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows([["" if cell == MISSING_CELL else cell for cell in row] for row in table.rows])
    return out.getvalue().rstrip("\n")


_FORMATTERS: dict[str, Callable[[TextTable], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
