"""Tables of results as text: Markdown, LaTeX and CSV, the best of every column marked."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from oodometer.core.errors import UnknownName
from oodometer.studies.analysis._compare_measures import (
    SAME_AS_PREFIX,
    STATISTIC_LABELS,
    MeasureComparison,
)

TableFormat = Literal["markdown", "latex", "csv"]
# Statistics of which less is better, and those in points.
LOWER_IS_BETTER, STATISTICS_IN_POINTS = ("mae", "raw_mae"), ("mae", "raw_mae")
MISSING_CELL = "–"
# What LaTeX takes for commands, and how it writes them.
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "τ": r"$\tau$", "ρ": r"$\rho$", "±": r"$\pm$", "−": "$-$", "–": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


@dataclass(frozen=True)
class TextTable:
    """A table of text, and the places (row, column) of what is best in its column."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best_cells: frozenset[tuple[int, int]] = frozenset()

    def to_text(self, table_format: str) -> str:
        """The table in one of the formats.

        >>> print(TextTable(("measure", "τ"), (("ni_x", "0.70"),), frozenset({(0, 1)})).to_text("markdown"))
        | measure | τ        |
        | ------- | -------- |
        | ni_x    | **0.70** |
        """
        if table_format not in get_args(TableFormat):
            raise UnknownName("format of a table", table_format, get_args(TableFormat))
        return _FORMATTERS[table_format](self)

    def _mark_best(self, mark: Callable[[str], str]) -> list[list[str]]:
        return [
            [mark(cell) if (i, j) in self.best_cells else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]


def comparison_table(
    comparison: MeasureComparison, *, architecture: str | None = None, show_sd: bool = False
) -> TextTable:
    """A row a measure, a column a statistic: means over groups, with deviations if wanted.

    Columns without any answer, and those that repeat another, are left out. The best is marked
    where measures differ in it.
    """
    there = {statistic for _, statistic, kind in comparison.summaries if kind == architecture}
    measures = list(comparison.table.measures)
    columns, best, taken = [], set(), []
    for statistic in (name for name in STATISTIC_LABELS if name in there):
        found = [comparison.summaries.get((one, statistic, architecture)) for one in measures]
        means = [None if one is None else one.mean for one in found]
        repeats = any(one is not None and one.rule.startswith(SAME_AS_PREFIX) for one in found)
        if repeats or all(mean is None for mean in means):
            continue
        taken.append(statistic)
        best |= {
            (row, len(taken))
            for row in _best_rows(means, lower_is_better=statistic in LOWER_IS_BETTER)
        }
        digits = 2 if statistic in STATISTICS_IN_POINTS else 3
        columns.append(
            [
                _format_cell(one.mean, one.sd if show_sd else None, digits) if one else ""
                for one in found
            ]
        )
    rows = tuple((name, *(column[row] for column in columns)) for row, name in enumerate(measures))
    return TextTable(
        ("measure", *(STATISTIC_LABELS[name] for name in taken)), rows, frozenset(best)
    )


def _best_rows(values: Sequence[float | None], *, lower_is_better: bool) -> list[int]:
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:
        return []
    wanted = min(known) if lower_is_better else max(known)
    return [row for row, value in enumerate(values) if value == wanted]


def _format_cell(mean: float | None, sd: float | None, digits: int) -> str:
    if mean is None:
        return MISSING_CELL
    if abs(mean) >= 1000:  # an R2 about values that hardly differ
        return f"{mean:.0f}"
    return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")


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
    """Without marks, for other programs."""
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
