"""Tables of results as text: Markdown, LaTeX and CSV, the best of every column marked."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from oodometer.core.errors import UnknownName
from oodometer.studies.analysis._compare_measures import LABELS, REPEATED, Judgement

Format = Literal["markdown", "latex", "csv"]
# Statistics of which less is better, and those in points.
LESS, POINTS = ("mae", "raw_mae"), ("mae", "raw_mae")
NOTHING = "–"
# What LaTeX takes for commands, and how it writes them.
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "τ": r"$\tau$", "ρ": r"$\rho$", "±": r"$\pm$", "−": "$-$", "–": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """A table of text, and the places (row, column) of what is best in its column."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()

    def text(self, form: str) -> str:
        """The table in one of the formats.

        >>> print(Printed(("measure", "τ"), (("ni_x", "0.70"),), frozenset({(0, 1)})).text("markdown"))
        | measure | τ        |
        | ------- | -------- |
        | ni_x    | **0.70** |
        """
        if form not in get_args(Format):
            raise UnknownName("format of a table", form, get_args(Format))
        return _FORMS[form](self)

    def _marked(self, mark: Callable[[str], str]) -> list[list[str]]:
        return [
            [mark(cell) if (i, j) in self.best else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]


def judgement(
    judged: Judgement, *, architecture: str | None = None, spreads: bool = False
) -> Printed:
    """A row a measure, a column a statistic: means over groups, with deviations if wanted.

    Columns without any answer, and those that repeat another, are left out. The best is marked
    where measures differ in it.
    """
    there = {statistic for _, statistic, kind in judged.summaries if kind == architecture}
    measures = list(judged.table.measures)
    columns, best, taken = [], set(), []
    for statistic in (name for name in LABELS if name in there):
        found = [judged.summaries.get((one, statistic, architecture)) for one in measures]
        means = [None if one is None else one.mean for one in found]
        repeats = any(one is not None and one.rule.startswith(REPEATED) for one in found)
        if repeats or all(mean is None for mean in means):
            continue
        taken.append(statistic)
        best |= {(row, len(taken)) for row in _best(means, less=statistic in LESS)}
        digits = 2 if statistic in POINTS else 3
        columns.append(
            [_cell(one.mean, one.sd if spreads else None, digits) if one else "" for one in found]
        )
    rows = tuple((name, *(column[row] for column in columns)) for row, name in enumerate(measures))
    return Printed(("measure", *(LABELS[name] for name in taken)), rows, frozenset(best))


def _best(values: Sequence[float | None], *, less: bool) -> list[int]:
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:
        return []
    wanted = min(known) if less else max(known)
    return [row for row, value in enumerate(values) if value == wanted]


def _cell(mean: float | None, sd: float | None, digits: int) -> str:
    if mean is None:
        return NOTHING
    if abs(mean) >= 1000:  # an R2 about values that hardly differ
        return f"{mean:.0f}"
    return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")


def _markdown(table: Printed) -> str:
    def escaped(cell: str) -> str:
        return cell.replace("\\", "\\\\").replace("|", "\\|")

    head = [escaped(cell) for cell in table.head]
    rows = [[escaped(cell) for cell in row] for row in table._marked(lambda cell: f"**{cell}**")]
    widths = [max(3, *(len(row[j]) for row in [head, *rows])) for j in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    )


def _latex(table: Printed) -> str:
    def escaped(cell: str) -> str:
        return "".join(_LATEX.get(sign, sign) for sign in cell)

    plain = Printed(
        tuple(map(escaped, table.head)),
        tuple(tuple(map(escaped, row)) for row in table.rows),
        table.best,
    )
    lines = [f"{' & '.join(row)} \\\\" for row in plain._marked(lambda cell: f"\\textbf{{{cell}}}")]
    form = "l" + "r" * (len(table.head) - 1)
    return "\n".join(
        [f"\\begin{{tabular}}{{{form}}}", r"\hline", f"{' & '.join(plain.head)} \\\\", r"\hline",
         *lines, r"\hline", r"\end{tabular}"]
    )  # fmt: skip


def _csv(table: Printed) -> str:
    """Without marks, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.head)
    writer.writerows([["" if cell == NOTHING else cell for cell in row] for row in table.rows])
    return out.getvalue().rstrip("\n")


_FORMS: dict[str, Callable[[Printed], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
