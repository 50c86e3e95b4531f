"""Errors of the estimators by type of shift and calibration, and the picture of estimates and truth.

Garg et al. 2022 (ATC): Tables 1 and 3 (errors before and after temperature scaling, standard
deviations over seeds) and Figures 2 and 6 (estimated against true accuracy of one network on many
target sets, with robust lines).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.studies._pages import Table
from benchmarks.studies._published_figures import ATC, ATC_UNCALIBRATED
from oodometer.core.array_types import Floats
from oodometer.core.stats import repeated_median_line
from oodometer.studies.analysis.estimation_error import EstimationErrorRow, estimation_errors
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.text_tables import MISSING_CELL

# Estimators of ATC Table 1, in its order.
ESTIMATORS = ("im", "ac", "doc", "gde", "atc-mc", "atc-ne")


def calibration_table(table: EvaluationTable, data: str) -> dict[str, Table]:
    """Return ATC's Table 3: errors by shift, architecture and calibration, ± sd over seeds.

    `data` is the beginning of the keys of the published figures, such as "CIFAR-10"; the paper's
    figures are shown in a line of their own below each type of shift.
    """
    errors = estimation_errors(table, methods=_estimates_of(table)).cells
    head = ("shift", "architecture", *_column_names())
    rows = []
    for shift in sorted({cell.shift for cell in errors}):
        own = [cell for cell in errors if cell.shift == shift]
        for architecture in sorted({cell.architecture for cell in own}):
            cells = [cell for cell in own if cell.architecture == architecture]
            rows.append((shift, architecture, *_error_cells(cells)))
        published = _published(f"{data} {shift}")
        if published:
            rows.append((shift, "the paper (DenseNet)", *published))
    caption = "Mean absolute errors before and after calibration, ± sd over seeds (ATC Tables 1, 3)"
    return {caption: (head, rows)}


def _estimates_of(table: EvaluationTable) -> list[str]:
    names = [f"{name}{end}" for name in ESTIMATORS for end in ("", " (pre-T)")]
    return [name for name in names if name in table.measures]


def _columns() -> Iterator[tuple[str, str]]:
    """Yield estimator and calibration of each column; GDE does not depend on the calibration."""
    for name in ESTIMATORS:
        if name != "gde":
            yield name, "pre-T"
        yield name, "post-T"


def _column_names() -> list[str]:
    return [name if name == "gde" else f"{name} {mode}" for name, mode in _columns()]


def _error_cells(cells: Sequence[EstimationErrorRow]) -> list[str]:
    by_column = {(cell.estimator, str(cell.calibration)): cell.mae for cell in cells}
    texts = []
    for name, mode in _columns():
        error = by_column.get((name, mode)) or by_column.get((name, "unknown"))
        known = error is not None and error.mean is not None
        texts.append(f"{error.mean:.2f} ± {error.sd:.2f}" if error and known else MISSING_CELL)
    return texts


def _published(key: str) -> list[str]:
    sources: Mapping[str, dict[str, dict[str, float]]] = {"post-T": ATC, "pre-T": ATC_UNCALIBRATED}
    if any(key not in figures for figures in sources.values()):
        return []
    return [f"{sources[mode][key][name]:.2f}" for name, mode in _columns()]


def estimate_picture(table: EvaluationTable, models: Sequence[str]) -> Any:
    """Plot estimated against true accuracy on every test domain, averaged over the given models.

    One panel per architecture; lines are repeated-median lines (Siegel, 1982), as in the paper.
    """
    import altair as alt

    chosen = np.isin(np.array(table.models)[table.model], models) & ~table.in_distribution
    return alt.hconcat(
        *(
            _architecture_panel(
                table.select_rows(chosen & (table.architecture == code)), table.architectures[code]
            )
            for code in np.unique(table.architecture[chosen])
        )
    )


def _architecture_panel(table: EvaluationTable, title: str) -> Any:
    import altair as alt
    import pandas as pd

    truth = _domain_means(table, table.accuracy)
    points, lines = [], []
    for name in (name for name in ESTIMATORS if name in table.measures):
        estimate = _domain_means(table, table.measures[name])
        points.append(pd.DataFrame({"estimator": name, "true": truth, "estimated": estimate}))
        line = repeated_median_line(truth, estimate)
        ends = np.array([truth.min(), truth.max()])
        fitted = line.slope * ends + line.intercept
        lines.append(pd.DataFrame({"estimator": name, "true": ends, "estimated": fitted}))
    corners = pd.DataFrame({"true": [0.0, 1.0], "estimated": [0.0, 1.0]})
    x = alt.X("true:Q", title="true accuracy", axis=alt.Axis(format="%"))
    y = alt.Y("estimated:Q", title="estimated accuracy", axis=alt.Axis(format="%"))
    color = alt.Color("estimator:N", sort=list(ESTIMATORS))
    return alt.layer(
        alt.Chart(corners).mark_line(strokeDash=[4, 4], color="gray").encode(x=x, y=y),
        alt.Chart(pd.concat(points)).mark_point(filled=True, size=14).encode(x=x, y=y, color=color),
        alt.Chart(pd.concat(lines)).mark_line().encode(x=x, y=y, color=color),
    ).properties(width=240, height=240, title=title)


def _domain_means(table: EvaluationTable, values: Floats) -> Floats:
    """Return the mean of the values on each test domain, in the order of the domains."""
    used = np.unique(table.tested_on)
    return np.array([np.nanmean(values[table.tested_on == domain]) for domain in used])
