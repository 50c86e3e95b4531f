"""Section of a study page on each architecture with the best hyperparameters by ID validation."""

from __future__ import annotations

from dataclasses import dataclass

from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis import (
    ArchitecturePerformance,
    best_configurations,
    run_analysis,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable

# Maximum number of rows per table.
MAX_TABLE_ROWS = 300


@dataclass(frozen=True)
class HyperparameterSection:
    """Table of errors, table of the chosen hyperparameters, and notes."""

    errors: Numbers
    choices: Numbers
    notes: tuple[str, ...]


def build_hyperparameter_section(table: EvaluationTable) -> HyperparameterSection:
    """Tabulate the errors of each architecture, and the hyperparameters that were chosen."""
    results = best_configurations(table)
    shown = run_analysis(table, "models")
    rows = tuple(tuple(map(truncate_name, row)) for row in shown.table.rows[:MAX_TABLE_ROWS])
    choices = _choices_table(results)
    n_hidden = len(choices.rows) - MAX_TABLE_ROWS
    more = (f"{n_hidden:,} more choices are not shown.",) if n_hidden > 0 else ()
    return HyperparameterSection(
        errors=Numbers(shown.table.header, rows),
        choices=Numbers(choices.heads, choices.rows[:MAX_TABLE_ROWS]),
        notes=(*shown.notes, *more),
    )


def _choices_table(results: tuple[ArchitecturePerformance, ...]) -> Numbers:
    rows = []
    for result in results:
        for choice in result.choices:
            settings = ", ".join(f"{key} {value or '–'}" for key, value in choice.settings.items())
            rows.append(
                (
                    truncate_name(result.architecture),
                    truncate_name(choice.training),
                    result.size,
                    truncate_name(settings or ", ".join(choice.models)),
                    f"{choice.candidates:,}",
                    f"{choice.validation_error:.3f}",
                    f"{choice.id_error:.3f}",
                    f"{choice.ood_error:.3f}",
                )
            )
    heads = ("architecture", "trained on", "training rows", "chosen", "candidates",
             "validation error", "ID error", "OOD error")  # fmt: skip
    return Numbers(heads, tuple(rows))
