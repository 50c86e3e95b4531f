"""Prediction of out-of-distribution error by in-distribution metrics (Wenzel et al. 2022, AO).

On the two reference pools: PACS (with attacks and the sixteen corruptions that have severities
relative to the image size) and reviews.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._results import data_folder
from benchmarks.studies._claims import ClaimResult
from benchmarks.studies._comparison_page import study_rows
from benchmarks.studies._pages import STORED_OPTION, Page, rows_note, stored_rows, write
from benchmarks.studies._published_figures import AO, AO_ADJUSTED, AO_FACTORS
from oodometer.cli._runtime import error_console
from oodometer.metrics.adversarial import AdversarialError
from oodometer.report.terminal import progress_bar
from oodometer.studies import Study
from oodometer.studies.analysis import run_analysis
from oodometer.studies.analysis.averaged_correlations import (
    RESIDUAL_LABEL,
    AveragedCorrelations,
    adjusted_correlations,
    average_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import FactorAnalysis, table_factor_analysis
from oodometer.studies.analysis.id_ood_scatter import (
    IdOodScatter,
    id_ood_scatters,
    task_difficulties,
)
from oodometer.studies.domains.corrupted_groups import get_group
from oodometer.studies.training.spec import PoolSpec
from oodometer.transforms.corruptions import SeverityScale

POOLS = Path(__file__).parent.parent / "pools"
METRICS = ("nll", "ece", "demographic_disparity", "adversarial_error")
OOD = "OOD error"
# Attacks take most of the time. The sizes are root mean square changes per pixel value, not the
# paper's ℓ₂ radii, which change almost no prediction on images of 32 × 32 pixels.
ATTACK = AdversarialError(steps=10, rows=40, unit="rms")
SEVERITY = 3
SEVERITIES: SeverityScale = "relative"


def studies(data: Path) -> dict[str, Study]:
    """Open the studies by name; the part before the dash is the task."""
    group = get_group("pacs-c", root=data, severities=SEVERITIES)
    corrupted = [name for name in group.domains if name.endswith(f"-{SEVERITY}")]
    shared = {"estimators": "none", "source_rows": 200, "metrics": list(METRICS[:3])}
    tables: dict[str, dict[str, Any]] = {
        "pacs-plain": {"pools": [str(POOLS / "pacs.toml")], "rows": 150, "split": "all",
                       "metrics": [*METRICS[:3], ATTACK]},
        "pacs-corrupted": {"pools": [str(POOLS / "pacs.toml")], "group": "pacs-c", "rows": 100,
                           "severities": SEVERITIES, "domains": corrupted},
        "sentiment-plain": {"pools": [str(POOLS / "sentiment.toml")], "rows": 200},
    }  # fmt: skip
    return {
        name: Study.open({"name": f"ao-{name}", **shared, **table}, data=data)
        for name, table in tables.items()
    }


def joined(parts: dict[str, Any]) -> Any:
    """Concatenate the rows of all studies, with their task."""
    import pyarrow as pa

    wanted = (
        "model",
        "architecture",
        "trained_on",
        "tested_on",
        "accuracy",
        "measure",
        "value",
        "n",
    )
    named_parts = [
        rows.select(list(wanted)).append_column(
            "task", pa.array([name.partition("-")[0]] * rows.num_rows)
        )
        for name, rows in parts.items()
    ]
    return with_settings(pa.concat_tables(named_parts, promote_options="default"))


def with_settings(rows: Any) -> Any:
    """Add the training settings of the models, which are named by the id of their configuration."""
    import pyarrow as pa

    configs = {
        config.id: config
        for name in ("pacs", "sentiment")
        for config in PoolSpec.open(POOLS / f"{name}.toml").recipes()
    }
    models = [configs[name] for name in rows.column("model").to_pylist()]
    few_shot = pa.array([config.few_shot for config in models], type=pa.int64())
    augment = pa.array([config.augment for config in models])
    return rows.append_column("recipe.few_shot", few_shot).append_column("recipe.augment", augment)


def first_lines(found: AveragedCorrelations, beyond: AveragedCorrelations) -> list[tuple[str, ...]]:
    """Return the correlations of every ID metric with OOD error, ours and the paper's, by task."""
    rows = []
    for name in found.overall.first:
        if not name.startswith("ID"):
            continue
        cells = [found.overall.score(name, OOD), beyond.overall.score(name, RESIDUAL_LABEL)]
        tasks = [matrix.score(name, OOD) for matrix in found.tasks.values()]
        if cells[0]["value"] is None:
            continue
        rows.append(
            (name, _shown(cells[0]), _number(AO.get(name)), *(_shown(cell) for cell in tasks),
             _shown(cells[1]), _number(AO_ADJUSTED.get(name)))
        )  # fmt: skip
    return rows


def _shown(cell: dict[str, Any]) -> str:
    if cell["value"] is None:
        return "–"
    sd = "" if cell["sd"] is None else f"sd {cell['sd']:.2f}, "
    return f"{cell['value']:+.2f} ({sd}{cell['pairs']} pairs)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def results(factors: FactorAnalysis) -> list[ClaimResult]:
    """Return the verdicts that need no bootstrap."""
    kept = factors.loadings.shape[1]
    return [ClaimResult.of("ao-four-factors", f"{kept} here", holds=kept == AO_FACTORS)]


def patterns(found: Sequence[IdOodScatter]) -> list[tuple[str, ...]]:
    """Return the frequency of each pattern by task."""
    tasks = sorted({one.task for one in found})
    kinds = sorted({one.pattern.name or "none" for one in found})
    counts = {
        task: Counter(one.pattern.name or "none" for one in found if one.task == task)
        for task in tasks
    }
    return [(task, *(str(counts[task][kind]) for kind in kinds)) for task in tasks]


def page(table: EvaluationTable) -> Page:
    found, beyond = (
        average_correlations(table, metrics=METRICS),
        adjusted_correlations(table, metrics=METRICS),
    )
    images = table.select_rows([task == "pacs" for task in table.columns["task"]])  # type: ignore[arg-type]
    factors, dots = table_factor_analysis(images), id_ood_scatters(table)
    kinds = sorted({one.pattern.name or "none" for one in dots})
    loadings = [
        (name, *(f"{value:+.2f}" for value in row))
        for name, row in zip(factors.names, factors.rotated_loadings, strict=True)
    ]
    hard = [
        (one.task, _plain(one.gap.value), _plain(one.gap.value_se))
        for one in task_difficulties(dots)
    ]
    tasks = [f"{name} only" for name in found.tasks]
    pairs = Counter(one.task for one in dots)
    return Page(
        name="ao",
        title="Prediction of out-of-distribution error by in-distribution metrics",
        done=(
            f"The converged models of the reference pools: PACS ({pairs['pacs']} pairs; 150 rows per "
            f"domain, and 100 of each of sixteen corruptions at the {SEVERITIES} severity {SEVERITY}) "
            "and reviews "
            f"({pairs['sentiment']} pairs, 200 rows per domain). Spearman's correlation over the models "
            "of a pair, averaged so that every task has the same weight; attacks "
            f"({ATTACK.steps} steps, {ATTACK.rows} rows; the sizes are root mean square changes per "
            "pixel value, not the paper's ℓ₂ radii) and corruptions apply to images only."
        ),
        tables={
            "Correlation with OOD error, and with its residual given ID error": (
                ("metric", "ours", "the paper's", *tasks, "adjusted", "the paper's, adjusted"),
                first_lines(found, beyond),
            ),
            "Patterns of OOD against ID accuracy, pairs": (("task", *kinds), patterns(dots)),
            "Normalised gap": (("task", "gap", "standard error"), hard),
            "Correlation with OOD error by type of shift, PACS": _analysis(
                replace(images, measures={name: images.measures[name] for name in METRICS}), "shifts"
            ),
            "Accuracy by augmentation, PACS, in percent": _analysis(images, "augmentation"),
            f"Loadings on PACS after {factors.rotation}; eigenvalues {_eigenvalues(factors)}": (
                ("metric", *(f"factor {j + 1}" for j in range(factors.loadings.shape[1]))), loadings
            ),
        },
        results=results(factors),
        differs=(
            "The paper fine-tunes nine large pretrained networks, 31,000 times, on 36 datasets of ten "
            "tasks; ours are about two hundred small networks trained from scratch. They "
            "generalize little to other domains, and the models of one pair differ mostly in the amount "
            "and the noise of their training data."
        ),
        notes=(
            "The pattern is none if no rule applies, as with eight models per pair.",
            f"The factors are those of {factors.n_rows} networks that are trained on full datasets; "
            f"{factors.few_shot_models} others are left out, as in the paper. There are "
            f"{len(factors.names)} columns instead of 16, because the rows hold the mean over both "
            "sizes of the attack.",
            "The pools have no networks of which only the head is trained and no errors on held-out ID "
            "data, so the gap of training strategies and the table of the best hyperparameters are "
            "missing. The correlation against task difficulty needs three tasks for a line; there are "
            "two.",
        ),
    )  # fmt: skip


def _analysis(table: EvaluationTable, name: str) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    result = run_analysis(table, name)
    return result.table.header, result.table.rows


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _eigenvalues(factors: FactorAnalysis) -> str:
    return ", ".join(f"{value:.2f}" for value in factors.eigenvalues[:6])


def picture(table: EvaluationTable) -> Any:
    """Plot the averaged correlation matrix."""
    import altair as alt

    cells = average_correlations(table, metrics=METRICS).overall.rows()
    known = [cell for cell in cells if cell["value"] is not None]
    order = list(dict.fromkeys(cell["first"] for cell in known))
    base = alt.Chart({"values": known}).encode(
        x=alt.X("second:N", sort=order, title=None, axis=alt.Axis(labelAngle=-50, labelLimit=240)),
        y=alt.Y("first:N", sort=order, title=None, axis=alt.Axis(labelLimit=240)),
    )
    scale = alt.Scale(scheme="blueorange", domain=[-1, 1])
    boxes = base.mark_rect().encode(color=alt.Color("value:Q", scale=scale, title="ρ"))
    numbers = base.mark_text(fontSize=8).encode(text=alt.Text("value:Q", format=".2f"))
    return (boxes + numbers).properties(width=30 * len(order), height=22 * len(order))


def measured_rows(data: Path) -> Any:
    with progress_bar(error_console()) as progress:
        parts = {name: study_rows(one, progress=progress) for name, one in studies(data).items()}
    return joined(parts)


def main() -> int:
    stored = STORED_OPTION in sys.argv[1:]
    data = data_folder()
    if data is None and not stored:
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    rows = stored_rows("ao") if stored or data is None else measured_rows(data)
    table = EvaluationTable.read(rows, measures=METRICS)
    result = page(table)
    result = replace(result, notes=(*result.notes, *rows_note(rows)))
    write(result, rows, picture(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
