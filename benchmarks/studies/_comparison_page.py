"""Pages of studies that train a pool, evaluate it on all domains and compare measures.

The script of a study has a text, the measures of its table, and two measures for the picture:

    TEXT = StudyText(name="pacs", title=…, done=…, differs=…, task="CI10", heads=True)
    study = study_of(__file__)                  # the TOML file beside the script
    rows = study_rows(study)                    # train, evaluate; or read a file of `study rows`
    write_comparison_page(TEXT, rows, measures=MEASURES, pair=("ni-randaugment", "atc-mc"))

`write_comparison_page` tests every claim of claims.toml whose `study` is TEXT.name, and writes
docs/results/studies/NAME.{md,json,parquet,png}. If a claim has a `shift`, pass `shift`, a function
of training set and test domain that returns the type of shift. Claims with `test = "page"` are
passed as `results`.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import data_folder
from benchmarks.studies._claims import ClaimResult, judge
from benchmarks.studies._pages import (
    STORED_OPTION,
    Page,
    Scale,
    Table,
    reliability_of,
    rows_note,
    stored_rows,
    write,
)
from benchmarks.studies._published_figures import NI, NI_COLUMNS
from oodometer.cli._runtime import error_console
from oodometer.core.errors import NotApplicable
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
from oodometer.studies.analysis.estimation_error import find_estimates
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import BootstrapReplicates, bootstrap_statistics
from oodometer.studies.analysis.text_tables import MISSING_CELL
from oodometer.studies.plan import plan_study
from oodometer.studies.store import Store
from oodometer.studies.training._run import run as train

WORKERS = int(os.environ.get("WORKERS", "2"))
OUTPUTS = ("atc-mc", "atc-ne", "ac", "doc", "im", "gde", "bbse", "mlls", "iw", "atc-mc (pre-T)",
           "atc-ne (pre-T)", "ac (pre-T)", "doc (pre-T)", "im (pre-T)")  # fmt: skip
COLUMNS = ("r2", "r2_pearson", "mae", "raw_mae", "macro_tau", "micro_tau", "id_tau", "arch_tau",
           "cross_domain_tau")  # fmt: skip
HEADS_NOTE = (
    "The models are heads (a linear layer or a small MLP) trained on the features of frozen "
    "pretrained bodies. They stand in for the whole networks that the paper trains."
)
# The picture shows at most this many test domains, and this many models per domain and measure.
MAX_PICTURE_DOMAINS = 12
MAX_PICTURE_POINTS = 300
Shift = Callable[[str, str], str]


@dataclass(frozen=True, kw_only=True)
class StudyText:
    """Texts of a page.

    Parameters
    ----------
    name : str
        Name of the page, of the script and of the study in claims.toml.
    title, done, differs : str
        Title, what was done, and why the figures differ from the paper's.
    task : str
        Task in NI Table 2 whose figures are shown beside ours (key of `NI`), or an empty text.
    heads : bool
        Whether the models are heads on frozen bodies.
    kind : str
        What the models are, as a plural, for the scale.
    """

    name: str
    title: str
    done: str
    differs: str
    task: str = ""
    heads: bool = False
    kind: str = ""

    @property
    def models(self) -> str:
        return self.kind or ("heads on frozen pretrained bodies" if self.heads else "networks")


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


def study_rows(study: Study, *, progress: ProgressCallback | None = None) -> Any:
    """Train the missing models, run the study, and return its rows."""
    for pool in study.pools:
        train(pool.spec, pool.folder, runner=processes(WORKERS), progress=progress)
    return evaluated_rows(study, progress=progress)


def evaluated_rows(study: Study, *, progress: ProgressCallback | None = None) -> Any:
    """Run the study on the models that are trained, and return its rows."""
    folder = Path("studies") / study.name
    ran = evaluate(study, folder, runner=processes(WORKERS), progress=progress)
    if ran.failed:
        raise SystemExit(f"{len(ran.failed)} failed: {next(iter(ran.failed.values()))}")
    with Store.open(folder) as store:
        return store.to_table(plan_study(study).result_keys())


def run_study_page(
    text: StudyText, study: Study, *, measures: Sequence[str], pair: tuple[str, str]
) -> int:
    """Train, evaluate, compare measures and write the page; `pair` is shown in the picture.

    With the option `--stored`, the rows of the last run are used.
    """
    if STORED_OPTION in sys.argv[1:]:
        rows = stored_rows(text.name)
        write_comparison_page(text, rows, measures=measures, pair=pair)
        return 0
    with progress_bar(error_console()) as progress:
        rows = study_rows(study, progress=progress)
    write_comparison_page(text, rows, measures=measures, pair=pair)
    return 0


def write_comparison_page(
    text: StudyText,
    rows: Any,
    *,
    measures: Sequence[str],
    pair: tuple[str, str],
    shift: Shift | None = None,
    tables: Mapping[str, Table] | None = None,
    results: Sequence[ClaimResult] = (),
    notes: Sequence[str] = (),
    picture: Any = None,
    stored: Any = None,
) -> MeasureComparison:
    """Compare measures, test the claims of the study, and write page, verdicts, table and picture.

    Parameters
    ----------
    text : StudyText
        Texts of the page.
    rows : pyarrow.Table
        Rows of a study, as `oodometer study rows` exports them (or any table that
        `EvaluationTable.read` accepts, as an Arrow table).
    measures : sequence of str
        Measures to show and to test; those that the rows do not have are skipped.
    pair : tuple of two str
        Measures in the picture.
    shift : function of training set and test domain, optional
        Returns the type of shift, such as ``"natural"``, for claims with a `shift` and for the
        table of estimation errors. It is added to the rows as the column `shift`.
    tables : mapping of str to (header, rows), optional
        Further tables, by caption.
    results : sequence of ClaimResult, optional
        Verdicts on claims that the script tests itself: those with ``test = "page"``, and those
        that refer to other rows.
    notes : sequence of str
        Paragraphs at the end of the page.
    picture : Altair chart, optional
        Default: accuracy against both measures of the pair.
    stored : pyarrow.Table, optional
        Table for the Parquet file, such as `wide_rows(rows)` of a large study. Default: the rows.

    Returns
    -------
    MeasureComparison
        All statistics of all measures.
    """
    rows = rows if shift is None else with_shift(rows, shift)
    available = set(rows.column("measure").to_pylist())
    table = EvaluationTable.read(rows, measures=[name for name in measures if name in available])
    compared = compare_measures(table)
    reliability = reliability_of(table)
    median = None if reliability is None else reliability.median
    tested = [result.id for result in results]
    page = Page(
        name=text.name,
        title=text.title,
        done=f"{text.done} {HEADS_NOTE if text.heads else ''} {accuracies(table)}".replace(
            "  ", " "
        ),
        scale=Scale.of_table(table, kind=text.models),
        reliability=reliability,
        results=[*judge(table, text.name, reliability=median, tested=tested), *results],
        tables={
            **statistics_table(compared, text.task),
            **estimation_table(table),
            **(tables or {}),
        },
        differs=text.differs,
        notes=(*_comparison_notes(compared), *notes, *rows_note(rows)),
    )
    write(page, rows if stored is None else stored, picture or scatter_picture(rows, pair))
    return compared


def with_shift(rows: Any, shift: Shift) -> Any:
    """Add the column `shift` to rows."""
    import pyarrow as pa

    pairs = zip(
        *(rows.column(name).to_pylist() for name in ("trained_on", "tested_on")), strict=True
    )
    known: dict[tuple[str, str], str] = {}
    cells = [known.setdefault(pair, shift(*pair)) for pair in pairs]
    rows = rows.drop_columns(["shift"]) if "shift" in rows.column_names else rows
    return rows.append_column("shift", pa.array(cells))


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


def seed_tables(table: EvaluationTable) -> dict[str, EvaluationTable]:
    """Return the evaluations of each seed; empty if there are not at least two seeds."""
    cells = np.array(table.columns.get("seed", ()), dtype=np.str_)
    seeds = [seed for seed in np.unique(cells) if seed] if len(cells) else []
    return {str(seed): table.select_rows(cells == seed) for seed in seeds} if len(seeds) > 1 else {}


def statistics_table(compared: MeasureComparison, task: str) -> dict[str, Table]:
    """Return the table of NI's statistics: ours ± over seeds or models, and the paper's."""
    published = NI.get(task, {})
    shown = [one for one in COLUMNS if any(key[1] == one for key in compared.summaries)]
    spreads, over = _spreads(compared, shown)
    rows = []
    for measure in compared.table.measures:
        theirs = dict(zip(NI_COLUMNS, published.get(measure, ()), strict=False))
        cells = []
        for one in shown:
            summary = compared.summaries.get((measure, one, None))
            mean = None if summary is None else summary.mean
            cells.append(_cell(mean, spreads.get((measure, one)), one, theirs.get(one)))
        rows.append((measure, *cells))
    beside = f"; in brackets the paper's (NI Table 2, {task})" if published else ""
    caption = f"Measures by NI's statistics, ± {over}{beside}"
    return {caption: (("measure", *(STATISTIC_LABELS[one] for one in shown)), rows)}


def _cell(mean: float | None, sd: float | None, statistic: str, theirs: float | None) -> str:
    digits = 2 if "mae" in statistic else 3
    ours = MISSING_CELL if mean is None else f"{mean:.{digits}f}"
    ours += "" if sd is None or np.isnan(sd) or mean is None else f" ± {sd:.{digits}f}"
    return ours if theirs is None else f"{ours} ({theirs:.{digits}f})"


def _spreads(
    compared: MeasureComparison, statistics: Sequence[str]
) -> tuple[dict[tuple[str, str], float], str]:
    """Return the standard deviation over seeds, or else the bootstrap standard error over models."""
    parts = [compare_measures(part) for part in seed_tables(compared.table).values()]
    if parts:
        spreads = {}
        for measure, statistic, kind in compared.summaries:
            means = [part.summaries[measure, statistic, kind].mean for part in parts]
            known = [mean for mean in means if mean is not None]
            if kind is None and len(known) > 1:
                spreads[measure, statistic] = float(np.std(known, ddof=1))
        return spreads, f"standard deviation over {len(parts)} seeds"
    try:
        replicates = bootstrap_statistics(compared.table, statistics)
    except NotApplicable:
        return {}, "not defined"
    return {
        (measure, name): result.standard_error(measure)
        for name, result in replicates.items()
        for measure in result.measures
    }, "bootstrap standard error over models"


def estimation_table(table: EvaluationTable) -> dict[str, Table]:
    """Return the mean absolute error of every estimator out of distribution, by type of shift."""
    names = find_estimates(table)
    if not names:
        return {}
    shifts = sorted({cell for cell in table.columns.get("shift", ()) if cell})
    masks = {"all": np.ones(len(table), dtype=np.bool_)} | {
        one: np.array(table.columns["shift"]) == one for one in shifts
    }
    if len(masks) == 2:
        masks.pop("all")
    columns = {
        label: result
        for label, mask in masks.items()
        if (result := _estimation_errors(table.select_rows(mask), names)) is not None
    }
    seeds = list(seed_tables(table).values())
    rows = []
    for name in sorted(names, key=lambda one: min(r.value(one) for r in columns.values())):
        cells = [_error_cell(result, name) for result in columns.values()]
        rows.append((name, *cells, _over_seeds(seeds, name)))
    caption = "Mean absolute errors of the estimators out of distribution, in points"
    return {
        caption: (
            ("estimator", *(f"{c}: MAE, 95 % interval" for c in columns), "sd over seeds"),
            rows,
        )
    }


def _estimation_errors(table: EvaluationTable, names: Sequence[str]) -> BootstrapReplicates | None:
    try:
        return bootstrap_statistics(table, ["estimation_error"], measures=names)["estimation_error"]
    except NotApplicable:
        return None


def _error_cell(result: BootstrapReplicates, name: str) -> str:
    if np.isnan(result.value(name)):
        return MISSING_CELL
    low, high = result.interval(name)
    return f"{result.value(name):.2f} ({low:.2f} to {high:.2f})"


def _over_seeds(tables: Sequence[EvaluationTable], name: str) -> str:
    errors = []
    for table in tables:
        outside = ~table.in_distribution
        gaps = np.abs(table.measures[name] - table.accuracy)[outside]
        if (~np.isnan(gaps)).any():
            errors.append(100 * float(np.nanmean(gaps)))
    return f"{np.std(errors, ddof=1):.2f}" if len(errors) > 1 else MISSING_CELL


def _comparison_notes(compared: MeasureComparison) -> list[str]:
    rules = {
        one.rule for (_, name, kind), one in compared.summaries.items() if name == "r2" and not kind
    }
    told = compared.to_dict()
    lost = {name: count for name, count in told["without_answer"].items() if count}
    left = (
        f" Not defined: {', '.join(f'{name} {count}' for name, count in lost.items())}."
        if lost
        else ""
    )
    return [
        "The paper's R2 is shown next to our squared correlation (r2_pearson), with which its figures "
        "agree; R2 itself, of a line fitted on other models, can be negative. The lines of R2 and MAE "
        f"are fitted on: {' or '.join(sorted(rules)) or 'none'}.{left}",
    ]


def scatter_picture(rows: Any, measures: Sequence[str]) -> Any:
    """Plot accuracy against measures, by test domain."""
    import altair as alt

    frame = rows.to_pandas()
    frame = frame[frame["measure"].isin(measures)]
    domains = sorted(frame["tested_on"].unique())
    steps = np.linspace(0, len(domains) - 1, min(len(domains), MAX_PICTURE_DOMAINS)).round()
    shown = [domains[int(step)] for step in steps]
    frame = frame[frame["tested_on"].isin(shown)]
    frame = frame.groupby(["measure", "tested_on"], group_keys=False).sample(
        n=MAX_PICTURE_POINTS, replace=True, random_state=0
    ).drop_duplicates(["measure", "tested_on", "model"]) if len(frame) > 4_000 else frame  # fmt: skip
    alt.data_transformers.disable_max_rows()
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
