"""Pages of studies that train a pool, evaluate it on all domains and compare measures."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import data_folder
from benchmarks.studies._pages import Claim, Page, write
from benchmarks.studies._published_figures import NI, NI_COLUMNS
from oodometer.cli._runtime import error_console
from oodometer.core.protocols import ProgressCallback
from oodometer.parallel.runners import processes
from oodometer.report.terminal import progress_bar
from oodometer.studies import Study
from oodometer.studies import run as evaluate
from oodometer.studies.analysis._compare_measures import (
    STATISTIC_LABELS,
    MeasureComparison,
    compare_measures,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.text_tables import MISSING_CELL
from oodometer.studies.plan import plan_study
from oodometer.studies.store import Store
from oodometer.studies.training._run import run as train

WORKERS = 2
DUELS = ("macro_tau", "micro_tau", "id_tau", "arch_tau", "r2_pearson", "mae")
OUTPUTS = ("atc-mc", "atc-ne", "ac", "doc", "im", "bbse", "mlls", "iw", "atc-mc (pre-T)",
           "atc-ne (pre-T)", "ac (pre-T)", "doc (pre-T)", "im (pre-T)")  # fmt: skip
COLUMNS = ("r2", "r2_pearson", "mae", "raw_mae", "macro_tau", "micro_tau", "id_tau", "arch_tau",
           "cross_domain_tau")  # fmt: skip


def study_rows(study: Study, *, progress: ProgressCallback | None = None) -> Any:
    """Train the missing models, run the study, and return its rows."""
    for pool in study.pools:
        train(pool.spec, pool.folder, runner=processes(WORKERS), progress=progress)
    folder = Path("studies") / study.name
    ran = evaluate(study, folder, runner=processes(WORKERS), progress=progress)
    if ran.failed:
        raise SystemExit(f"{len(ran.failed)} failed: {next(iter(ran.failed.values()))}")
    with Store.open(folder) as store:
        return store.to_table(plan_study(study).result_keys())


def made(words: Words, study: Study, *, shown: Sequence[str], duel: tuple[str, str]) -> int:
    """Train, evaluate, compare measures and write the page; `duel` names two measures to compare."""
    with progress_bar(error_console()) as progress:
        rows = study_rows(study, progress=progress)
    judged_page(words, rows, shown=shown, duel=duel)
    return 0


def study_of(file: str, **changes: Any) -> Study | None:
    """Open the study whose TOML file is next to a script; return None if the data are missing."""
    data = data_folder()
    if data is None:
        print("The research data are not available on this machine; nothing was measured.")
        return None
    path = Path(file).with_suffix(".toml")
    if not changes:
        return Study.open(path, data=data)
    table = tomllib.loads(path.read_text())
    pools = [str(path.parent / one) for one in table["pools"]]
    return Study.open({**table, "pools": pools, **changes}, data=data)


@dataclass(frozen=True)
class Words:
    """Texts of a page."""

    name: str
    title: str
    done: str
    differs: str
    task: str


def printed(judged: MeasureComparison, task: str) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return the table: one row per measure, our value and the paper's in brackets."""
    published = NI.get(task, {})
    shown = [one for one in COLUMNS if any(key[1] == one for key in judged.summaries)]
    rows = []
    for measure in judged.table.measures:
        theirs = dict(zip(NI_COLUMNS, published.get(measure, ()), strict=False))
        rows.append((measure, *(_cell(judged, measure, one, theirs.get(one)) for one in shown)))
    return ("measure", *(STATISTIC_LABELS[one] for one in shown)), rows


def _cell(judged: MeasureComparison, measure: str, statistic: str, theirs: float | None) -> str:
    found = judged.summaries.get((measure, statistic, None))
    digits = 2 if "mae" in statistic else 3
    ours = MISSING_CELL if found is None or found.mean is None else f"{found.mean:.{digits}f}"
    ours += "" if found is None or found.sd is None else f" ± {found.sd:.{digits}f}"
    return ours if theirs is None else f"{ours} ({theirs:.{digits}f})"


def counts(judged: MeasureComparison) -> str:
    """Describe the numbers of models, evaluations and groups, and what was left out."""
    told = judged.to_dict()
    groups = {
        STATISTIC_LABELS[statistic]: one.groups
        for (_, statistic, kind), one in judged.summaries.items()
        if kind is None and statistic in ("macro_tau", "micro_tau", "id_tau", "arch_tau")
    }
    rules = {
        one.rule for (_, name, kind), one in judged.summaries.items() if name == "r2" and not kind
    }
    lost = {name: count for name, count in told["without_answer"].items() if count}
    left = f" Not defined: {', '.join(f'{n} {c}' for n, c in lost.items())}." if lost else ""
    return (
        f"{told['models']} models, {told['evaluations']} evaluations. {accuracies(judged.table)} "
        f"Groups: {', '.join(f'{name} {count}' for name, count in groups.items())}; ± is the "
        "standard deviation over groups. The lines of R2 and MAE are fitted on: "
        f"{' or '.join(sorted(rules))}.{left}"
    )


def accuracies(table: EvaluationTable) -> str:
    """Describe the central 90 % of the accuracies, in distribution and out of distribution."""
    known = ~np.isnan(table.accuracy)
    parts = {
        place: np.quantile(table.accuracy[rows & known], [0.05, 0.95])
        for place, rows in (
            ("in distribution", table.in_distribution),
            ("out of distribution", ~table.in_distribution),
        )
        if (rows & known).any()
    }
    told = [
        f"{100 * low:.0f} to {100 * high:.0f} % {where}" for where, (low, high) in parts.items()
    ]
    return f"Accuracies (central 90 %): {', '.join(told)}."


def better(judged: MeasureComparison, statistic: str, first: str, second: str) -> Claim:
    """Compare two measures by a statistic."""
    one, other = (judged.summary(name, statistic).mean for name in (first, second))
    if one is None or other is None:
        return Claim(
            f"{first} has a better {STATISTIC_LABELS[statistic]} than {second}",
            None,
            "Not defined.",
        )
    less = "mae" in statistic
    groups, by_luck = _by_group(judged, statistic, first, second)
    figures = f"{one:.3f} against {other:.3f}; {groups}"
    holds = None if by_luck else one < other if less else one > other
    return Claim(
        f"{first} has a better {STATISTIC_LABELS[statistic]} than {second}", holds, figures
    )


def _by_group(
    judged: MeasureComparison, statistic: str, first: str, second: str
) -> tuple[str, bool]:
    """Describe in how many groups and by how much; return whether chance could explain it."""
    scores = next(one for one in judged.scores if one.statistic == statistic)
    one, other = (scores.values[scores.measures.index(name)] for name in (first, second))
    off = (other - one) if "mae" in statistic else (one - other)
    off = off[~np.isnan(off)]
    told = f"better in {(off > 0).sum()} of {len(off)} groups"
    if len(off) < 2:
        return f"{told}.", False
    error = off.std(ddof=1) / np.sqrt(len(off))
    by_luck = bool(abs(off.mean()) < 2 * error)
    luck = ", within two standard errors" if by_luck else ""
    return f"{told}, by {off.mean():+.3f} ± {error:.3f} (standard error){luck}.", by_luck


def judged_page(
    words: Words, rows: Any, *, shown: Sequence[str], duel: tuple[str, str]
) -> MeasureComparison:
    """Compare the measures, and write page, Parquet file and picture."""
    judged = compare_measures(EvaluationTable.read(rows, measures=shown))
    held = [one for one in DUELS if not judged.summary(duel[0], one).rule.startswith("the same as")]
    claims = [better(judged, statistic, *duel) for statistic in held]
    page = Page(
        name=words.name,
        title=words.title,
        done=f"{words.done} {counts(judged)}",
        tables={
            f"Our values, and the paper's in brackets (NI Table 2, {words.task})": printed(
                judged, words.task
            )
        },
        differs=words.differs,
        claims=claims,
        notes=(
            "The paper's R2 is shown next to our squared correlation (r2_pearson), with which its "
            "figures agree; R2 itself, of a line fitted on other models, can be negative.",
        ),
    )
    write(page, rows, picture(rows, duel))
    return judged


def picture(rows: Any, measures: Sequence[str]) -> Any:
    """Plot accuracy against two measures, by test domain."""
    import altair as alt

    frame = rows.to_pandas()
    frame = frame[frame["measure"].isin(measures)]
    charts = [
        alt.Chart(frame[frame["measure"] == name])
        .mark_point(filled=True, size=18, opacity=0.65)
        .encode(
            x=alt.X("value:Q", title=name, scale=alt.Scale(zero=False)),
            y=alt.Y("accuracy:Q", title="accuracy", axis=alt.Axis(format="%"),
                    scale=alt.Scale(zero=False)),
            color=alt.Color("trained_on:N", title="trained on", scale=alt.Scale(scheme="tableau20")),
            shape=alt.Shape("architecture:N"),
        )
        .properties(width=150, height=130)
        .facet(alt.Facet("tested_on:N", title=f"tested on, by {name}"), columns=4)
        .resolve_scale(x="independent", y="independent")
        for name in measures
    ]  # fmt: skip
    return alt.vconcat(*charts)
