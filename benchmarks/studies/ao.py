"""Prediction of out-of-distribution error by in-distribution metrics (Wenzel et al. 2022, AO).

On three tasks with heads that other studies train (PACS, CIFAR-10 and superclasses of Tiny-ImageNet),
with corruptions and attacks. Published ImageNet models are on the page imagenet. A task whose pool is not trained is
left out. Takes about twenty minutes on two cores if the pools are trained.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import data_folder
from benchmarks.studies._claims import ClaimResult, judge
from benchmarks.studies._comparison_page import HEADS_NOTE, accuracies, evaluated_rows
from benchmarks.studies._pages import (
    STORED_OPTION,
    Page,
    Scale,
    Table,
    describe_reliability,
    reliability_of,
    rows_note,
    stored_rows,
    with_interval,
    write,
)
from benchmarks.studies._published_figures import AO, AO_ADJUSTED, AO_FACTORS, AO_PATTERNS
from benchmarks.studies._wide_rows import wide_rows
from oodometer.cli._runtime import error_console
from oodometer.core.errors import InputError, NotApplicable
from oodometer.metrics.adversarial import AdversarialError
from oodometer.report.terminal import progress_bar
from oodometer.studies import Study
from oodometer.studies.analysis import run_analysis
from oodometer.studies.analysis.averaged_correlations import average_correlations
from oodometer.studies.analysis.difficulty_correlations import correlations_by_difficulty
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import (
    ATTACK_METRICS,
    MEAN_ATTACK_METRIC,
    FactorAnalysis,
    table_factor_analysis,
)
from oodometer.studies.analysis.id_ood_predictors import predictor_table
from oodometer.studies.analysis.id_ood_scatter import (
    IdOodScatter,
    id_ood_scatters,
    task_difficulties,
)
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics
from oodometer.studies.training.spec import PoolSpec

POOLS = Path(__file__).parent.parent / "pools"
METRICS = ("nll", "ece", "demographic_disparity")
ALL_METRICS = (*METRICS, MEAN_ATTACK_METRIC)
CORRUPTIONS = ("gaussian_noise-3", "defocus_blur-3", "contrast-3", "jpeg-3")
ROWS = 500
# Attacks take most of the time. They change the features of the body, whose unit is not that of
# pixels: the sizes are root mean square changes per feature.
ATTACKS = tuple(
    AdversarialError(sizes=(float(name.rpartition("_")[2]),), steps=10, rows=40, unit="rms")
    for name in ATTACK_METRICS
)
OOD = "OOD error"
REPLICATES = 2_000


@dataclass(frozen=True, kw_only=True)
class Task:
    """Task of AO: a pool that another study trains, its domains, and the models to attack.

    domains    domains without corruptions; models are trained on those in `training`
    attacked   changes of the pool's file that select at most 100 of its models
    """

    pool: str
    groups: tuple[str, ...]
    domains: tuple[str, ...]
    training: tuple[str, ...]
    attacked: Mapping[str, Any]

    def studies(self, name: str, data: Path) -> Iterator[Study]:
        """Yield a study of all models of each training domain, with corruptions of this domain."""
        for training in self.training:
            corrupted = [f"{training}/{change}" for change in CORRUPTIONS]
            yield self._open(
                f"ao-{name}-{training}",
                {**self._pool_table(), "domains": [training]},
                data,
                metrics=list(METRICS),
                domains=[*self.domains, *corrupted],
            )

    def attack_study(self, name: str, data: Path) -> Study:
        """Return the study of attacks on some models."""
        domains = list(self.domains)
        return self._open(
            f"ao-{name}-attacks", self.attacked_pool(), data, metrics=list(ATTACKS), domains=domains
        )

    def attacked_pool(self) -> dict[str, Any]:
        """Return the specification of the pool with the attacked models only."""
        return {**self._pool_table(), **self.attacked}

    def _pool_table(self) -> dict[str, Any]:
        table = tomllib.loads((POOLS / f"{self.pool}.toml").read_text())
        return {**table, "name": self.pool}

    def _open(self, name: str, spec: Mapping[str, Any], data: Path, **keys: Any) -> Study:
        pool = {"spec": PoolSpec.open(spec, data=data), "folder": f"pools/{self.pool}"}
        shared = {"estimators": "none", "severities": "relative", "rows": ROWS}
        table = {"name": name, "pools": [pool], "group": list(self.groups), **shared, **keys}
        return Study.open(table, data=data)


BODIES = ["efficientnet-lite0@96", "efficientnet-lite1@96", "efficientnet-lite2@96"]
SMALL_BODIES = ["efficientnet-lite0@64", "efficientnet-lite1@64", "efficientnet-lite2@64"]
PACS_DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
TASKS = {
    "PACS": Task(
        pool="pacs_heads",
        groups=("pacs-112", "pacs-112-c"),
        domains=PACS_DOMAINS,
        training=PACS_DOMAINS,
        attacked={
            "seeds": 2,
            "parts": [
                {
                    "grid": {
                        "settings": {"body": BODIES, "head": ["linear"]},
                        "few_shot": ["none", 20],
                        "label_noise": [0, 0.3],
                        "weight_decay": [0],
                    }
                }
            ],
        },
    ),
    "CIFAR-10": Task(
        pool="cifar_heads",
        groups=("ci10", "ci10-c"),
        domains=("cifar-10-jpeg", "tiny-imagenet"),
        training=("cifar-10-jpeg",),
        attacked={
            "parts": [
                {
                    "fixed": {"lr": 1e-3},
                    "grid": {
                        "settings": {"body": SMALL_BODIES, "head": ["linear", "mlp128"]},
                        "few_shot": [300, 25],
                        "label_noise": [0, 0.3],
                        "weight_decay": [0],
                    },
                }
            ]
        },
    ),
    "Tiny superclasses": Task(
        pool="tiny_superclasses",
        groups=("tiny-superclasses", "tiny-superclasses-c"),
        domains=("first", "second"),
        training=("first", "second"),
        attacked={
            "seeds": 2,
            "parts": [
                {
                    "grid": {
                        "settings": {"body": BODIES, "head": ["linear"]},
                        "few_shot": ["none", 30],
                        "label_noise": [0.0, 0.2, 0.4],
                    }
                }
            ],
        },
    ),
}


# Rows -------------------------------------------------------------------------------------------


def measured_rows(data: Path) -> Any:
    """Evaluate the trained models of all tasks, and return one wide table with the column `task`."""
    import pyarrow as pa

    parts = []
    with progress_bar(error_console()) as progress:
        for name, task in TASKS.items():
            if not Path("pools", task.pool).is_dir():
                print(f"{name} is left out: pools/{task.pool} does not exist.", file=sys.stderr)
                continue
            studies = task.studies(name, data)
            rows = pa.concat_tables(
                [wide_rows(evaluated_rows(study, progress=progress)) for study in studies],
                promote_options="permissive",
            )
            attacks = wide_rows(evaluated_rows(task.attack_study(name, data), progress=progress))
            joined = with_attacks(rows, attacks)
            parts.append(joined.append_column("task", pa.array([name] * joined.num_rows)))
    if not parts:
        raise SystemExit("No pool is trained. Run the studies pacs, cifar and tiny_imagenet first.")
    return pa.concat_tables(parts, promote_options="permissive")


def with_attacks(rows: Any, attacks: Any) -> Any:
    """Add the errors under attack of the attacked models, and their mean, to a wide table."""
    import pyarrow as pa

    frame, attacked = rows.to_pandas(), attacks.to_pandas()
    errors = attacked.set_index(["model", "tested_on"])[list(ATTACK_METRICS)]
    joined = frame.join(errors, on=["model", "tested_on"])
    joined[MEAN_ATTACK_METRIC] = joined[list(ATTACK_METRICS)].mean(axis=1, skipna=False)
    return pa.Table.from_pandas(joined, preserve_index=False).replace_schema_metadata(None)


# Tables -----------------------------------------------------------------------------------------


def predictor_rows(predictors: EvaluationTable) -> dict[str, Table]:
    """Return the averaged correlations of all predictors with OOD error, ours and the paper's."""
    found = bootstrap_statistics(predictors, ["pair_rho", "adjusted_rho"], replicates=REPLICATES)
    tasks = sorted(set(predictors.columns["task"]))
    by_task = {
        task: bootstrap_statistics(
            predictors.select_rows(np.array(predictors.columns["task"]) == task),
            ["pair_rho"],
            replicates=REPLICATES,
        )["pair_rho"]
        for task in tasks
    }
    rows = [
        (name, with_interval(found["pair_rho"], name), _number(AO.get(name)),
         *(_value(by_task[task].value(name)) for task in tasks),
         with_interval(found["adjusted_rho"], name), _number(AO_ADJUSTED.get(name)))
        for name in predictors.measures
    ]  # fmt: skip
    head = ("metric", "ours, 95 % interval", "the paper's", *tasks,
            "adjusted, 95 % interval", "the paper's, adjusted")  # fmt: skip
    caption = "Averaged correlation with OOD error, and with its residual given ID error"
    return {caption: (head, rows)}


def _value(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def pattern_rows(scatters: Sequence[IdOodScatter]) -> dict[str, Table]:
    """Return the frequency of each pattern by task, and what the paper sees."""
    kinds = sorted({one.pattern.name or "none" for one in scatters})
    rows = []
    for task in sorted({one.task for one in scatters}):
        counts = Counter(one.pattern.name or "none" for one in scatters if one.task == task)
        rows.append((task, *(str(counts[kind]) for kind in kinds), AO_PATTERNS.get(task, "")))
    caption = "Patterns of OOD against ID accuracy, number of pairs (as in Fig. S9)"
    return {caption: (("task", *kinds, "the paper's"), rows)}


def gap_rows(scatters: Sequence[IdOodScatter]) -> dict[str, Table]:
    rows = [
        (one.task, *(_percent(value) for value in (one.gap.id, one.gap.ood)),
         _plain(one.gap.value), _plain(one.gap.value_se))
        for one in task_difficulties(scatters)
    ]  # fmt: skip
    head = ("task", "ID accuracy", "OOD accuracy", "normalized gap", "standard error")
    return {"Task difficulty (as in Fig. S10)": (head, rows)}


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def factor_tables(factors: Mapping[str, FactorAnalysis]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for task, found in factors.items():
        shown = ", ".join(f"{value:.2f}" for value in found.eigenvalues[:6])
        head = ("metric", *(f"factor {j + 1}" for j in range(found.loadings.shape[1])))
        rows = [
            (name, *(f"{value:+.2f}" for value in row))
            for name, row in zip(found.names, found.rotated_loadings, strict=True)
        ]
        caption = (
            f"{task}: loadings of {len(found.names)} metrics after {found.rotation}; {found.n_rows} "
            f"models trained on full datasets; eigenvalues {shown}"
        )
        tables[caption] = (head, rows)
    return tables


def task_factors(table: EvaluationTable) -> dict[str, FactorAnalysis]:
    """Return the factors of each task that has models trained on all rows with all metrics."""
    found = {}
    for task in sorted(set(table.columns["task"])):
        part = table.select_rows(np.array(table.columns["task"]) == task)
        try:
            found[task] = table_factor_analysis(part)
        except (NotApplicable, InputError) as error:
            print(f"{task}: no factor analysis: {error}", file=sys.stderr)
    return found


def analysis_table(table: EvaluationTable, name: str, caption: str) -> dict[str, Table]:
    """Return the table of a named analysis; nothing if the analysis does not apply."""
    try:
        result = run_analysis(table, name)
    except NotApplicable:
        return {}
    return {caption: (result.table.header, result.table.rows)}


# Verdicts ---------------------------------------------------------------------------------------


def page_results(
    table: EvaluationTable,
    scatters: Sequence[IdOodScatter],
    factors: Mapping[str, FactorAnalysis],
) -> list[ClaimResult]:
    """Return the verdicts on the claims that are not about one statistic of one measure."""
    results = []
    kept = {task: found.loadings.shape[1] for task, found in factors.items()}
    if kept:
        figures = ", ".join(f"{task} {count}" for task, count in kept.items())
        holds = all(count == AO_FACTORS for count in kept.values())
        results.append(ClaimResult.of("ao-four-factors", f"{figures}.", holds=holds))
    pacs = [one.pattern.name or "none" for one in scatters if one.task == "PACS"]
    if pacs:
        counts = ", ".join(f"{name} {count}" for name, count in Counter(pacs).most_common())
        holds = set(pacs) <= {"functional", "vertical"}
        results.append(
            ClaimResult.of("ao-pacs-patterns", f"{len(pacs)} pairs: {counts}.", holds=holds)
        )
    return [*results, *difficulty_results(table)]


def difficulty_results(table: EvaluationTable) -> list[ClaimResult]:
    """Return the correlation of ID error by task difficulty; three tasks give no verdict."""
    try:
        trends = correlations_by_difficulty(table, metrics=())
    except NotApplicable:
        return []
    own = next(trend for trend in trends if trend.metric == "ID error")
    points = ", ".join(f"{point.task} {point.correlation:+.2f}" for point in own.points)
    figures = f"In order of difficulty: {points}. {len(own.points)} tasks are too few for a test."
    return [ClaimResult.of("ao-difficulty", figures)]


def page(table: EvaluationTable) -> Page:
    predictors = predictor_table(table, metrics=[m for m in ALL_METRICS if m in table.measures])
    scatters = id_ood_scatters(table)
    factors = task_factors(table)
    reliability = reliability_of(table)
    median = None if reliability is None else reliability.median
    own = page_results(table, scatters, factors)
    tested = [result.id for result in own]
    scale = Scale.of_table(table, kind="heads on frozen pretrained bodies")
    pacs = table.select_rows(np.array(table.columns["task"]) == "PACS")
    metrics = {name: pacs.measures[name] for name in ALL_METRICS if name in pacs.measures}
    pairs = Counter(one.task for one in scatters)
    told = ", ".join(f"{task} ({count})" for task, count in pairs.items())
    return Page(
        name="ao",
        title="Prediction of out-of-distribution error by in-distribution metrics",
        done=(
            f"Pairs of a training set and another domain by task: {told}. All models of the pools of "
            f"the studies pacs, cifar and tiny_imagenet, on at most {ROWS} rows per domain; corrupted "
            f"ID data are {len(CORRUPTIONS)} corruptions at the relative severity 3. {HEADS_NOTE} "
            f"Attacks on at most 100 models per task ({ATTACKS[0].steps} steps, {ATTACKS[0].rows} rows) "
            "change the features, the inputs of a head, not the pixels; the sizes are root mean "
            "square changes per feature, not the paper's ℓ₂ radii. Spearman's correlation over the "
            "models of a pair, averaged so that every task has the same weight. "
            f"{accuracies(table)}\n\n{scale.describe()} They are counted on the pages of these "
            f"studies.\n\n{describe_reliability(reliability)}"
        ),
        reliability=reliability,
        results=[*judge(predictors, "ao", reliability=median, tested=tested), *own],
        tables={
            **predictor_rows(predictors),
            **pattern_rows(scatters),
            **gap_rows(scatters),
            **analysis_table(replace(pacs, measures=metrics), "shifts",
                             "Correlation with OOD error by type of shift, PACS (as in Fig. S4)"),
            **analysis_table(pacs, "augmentation",
                             "Accuracy by augmentation, PACS, in percent (as in Fig. S8)"),
            **factor_tables(factors),
        },
        differs=(
            "The paper fine-tunes nine large pretrained networks, 31,000 times, on 36 datasets of ten "
            "tasks; ours are heads on three frozen bodies, on three tasks. Within a pair, models "
            "differ in the body and in the amount and noise of their training data, so errors on all "
            "domains rise and fall together more than in the paper."
        ),
        notes=(
            "The adjustment removes the part of OOD error that is linear in ID error. Where the "
            "relation is curved, ID error itself is correlated with the residual: "
            "an adjusted correlation above 0 need not mean that a metric tells more than ID error.",
            "The text of the paper does not give the number of steps of its attacks.",
            "Only the head is trained in every model, so the gap between fine-tuning strategies "
            "(Fig. S6, S7) cannot be computed; Table S2 needs a held-out ID validation split. Models "
            "of CIFAR-10 are trained on at most 300 rows per class, so they have no factor analysis.",
        ),
    )  # fmt: skip


def picture(table: EvaluationTable) -> Any:
    """Plot the averaged correlation matrix."""
    import altair as alt

    metrics = [name for name in ALL_METRICS if name in table.measures]
    cells = average_correlations(table, metrics=metrics).overall.rows()
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


def main() -> int:
    data = data_folder()
    if data is None:
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    stored = STORED_OPTION in sys.argv[1:]
    rows = stored_rows("ao") if stored else measured_rows(data)
    names = [*METRICS, *ATTACK_METRICS, MEAN_ATTACK_METRIC]
    table = EvaluationTable.read(rows, measures=[n for n in names if n in rows.column_names])
    result = page(table)
    result = replace(result, notes=(*result.notes, *rows_note(rows)))
    write(result, rows, picture(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
