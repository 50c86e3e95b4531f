"""Commands for studies: running one, how far it is, and the rows that it gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import (
    AsJson,
    DataFolder,
    HtmlPath,
    Limit,
    MeasureNames,
    OutputPath,
    Quiet,
    ReferenceDomain,
    StoreFolder,
    TrustPickle,
    WorkerOptions,
    split_names,
    with_option_groups,
)
from oodometer.cli._provenance import check_report_path, render_study_page, write_report_page
from oodometer.cli._runtime import (
    console,
    print_json,
    print_note,
    progress_bar,
    resumable,
    show_failures,
    show_run_result,
)
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies import Study
    from oodometer.studies.analysis import MeasureComparison
    from oodometer.studies.analysis.evaluation_table import EvaluationTable
    from oodometer.studies.analysis.robustness import ReferenceComparison
    from oodometer.studies.analysis.text_tables import TextTable

# So many rows are shown on the screen, and these columns.
MAX_ROWS_SHOWN = 20
SHOWN_COLUMNS = ("model", "trained_on", "tested_on", "accuracy", "measure", "value", "reason")

app = typer.Typer(
    help="Evaluate measures over many models and domains.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StudySpecPath = Annotated[str, typer.Argument(metavar="SPEC", help="A TOML file.")]


@app.command()
@with_option_groups
def run(
    spec: StudySpecPath,
    *,
    store_dir: StoreFolder = None,
    worker_options: WorkerOptions,
    limit: Limit = None,
    data_dir: DataFolder = None,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Do what the store of SPEC lacks: every model on every domain; killed, it goes on there.

    Exits with 1 if an evaluation failed; the next run tries it again.

    Example:
      oodometer study run digits.toml --workers 2
    """
    from oodometer.studies import Study
    from oodometer.studies import run as run_study

    runner = worker_options.runner()
    study = Study.open(spec, data=data_dir, trust_pickle=trust_pickle)
    with resumable("Evaluations"), progress_bar() as progress:
        ran = run_study(
            study, _store_folder(study, store_dir), runner=runner, limit=limit, progress=progress
        )
    show_run_result(ran, "evaluations", as_json)


@app.command()
def status(
    spec: StudySpecPath,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """How far the study of SPEC is, by training domains and architecture.

    Example:
      oodometer study status digits.toml
    """
    from oodometer.studies import Study, format_missing_models
    from oodometer.studies import status as standing_of

    study = Study.open(spec, data=data_dir)
    found = standing_of(study, _store_folder(study, store_dir))
    if as_json:
        print_json(found.to_dict())
        return
    counts = ("models", "done", "failed", "pending")
    rows = [
        (" + ".join(row.trained_on), row.architecture, *(str(getattr(row, n)) for n in counts))
        for row in found.rows
    ]
    rows.append(("all", "", *(str(found.total(name)) for name in counts)))
    console().print(terminal.table(study.name, ("trained on", "architecture", *counts), rows))
    missing = format_missing_models(found.left_out, found.untrained).strip()
    if missing:
        console().print(Text(missing))
    if found.not_applicable:
        lacking = [(name, str(count)) for name, count in found.not_applicable.items()]
        console().print(terminal.table("Not applicable", ("measure", "values"), lacking))
    show_failures(found.failed, "evaluations")


@app.command()
def rows(
    study: Annotated[
        str, typer.Argument(metavar="SPEC|FOLDER", help="A TOML file, or the folder of a store.")
    ],
    output: OutputPath = None,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """The rows of a study, one a measure of a model on a domain; a study may run meanwhile.

    Of a SPEC, those that it asks for; of a FOLDER, what was written last.

    Example:
      oodometer study rows digits.toml --output rows.parquet
    """
    from oodometer.studies.store import Store

    place, keys = resolve_store(study, store_dir, data_dir)
    with Store.open(place) as store:
        if as_json:
            print_json(store.to_table(keys).to_pylist())
        elif output is None:
            _show_rows(store.to_table(keys))
        if output is None:
            return
        store.export(output, keys)
        print_note(f"The rows are in {output}.")


def resolve_store(study: str, folder: Path | None, data: Path | None) -> tuple[Path, Any]:
    """Where the store is, and which rows of it are meant: of a folder, all."""
    from oodometer.studies import Study
    from oodometer.studies.plan import plan_study

    if Path(study).is_dir():
        return Path(study), None
    opened = Study.open(study, data=data)
    return _store_folder(opened, folder), plan_study(opened).result_keys()


def _store_folder(study: Study, folder: Path | None) -> Path:
    return Path("studies") / study.name if folder is None else folder


def _show_rows(table: Any) -> None:
    """The first ones."""
    heads = table.select(list(SHOWN_COLUMNS)).slice(0, MAX_ROWS_SHOWN).to_pylist()
    cells = [[_format_cell(row[name]) for name in SHOWN_COLUMNS] for row in heads]
    title = f"{len(heads):,} of {table.num_rows:,} rows"
    console().print(terminal.table(title, SHOWN_COLUMNS, cells))
    if len(heads) < table.num_rows:
        console().print(Text("All of them: --output rows.parquet, or rows.csv."))


def _format_cell(cell: Any) -> str:
    if cell is None:
        return ""
    return terminal.format_number(cell, ".4g") if isinstance(cell, float) else str(cell)


# So many test sets of a table of accuracies are shown.
MAX_TEST_SETS_SHOWN = 40

TableFormatOption = Annotated[
    str,
    typer.Option(
        "--format", help="Format of the table: text (for the screen), markdown, latex or csv."
    ),
]
ArchitectureName = Annotated[
    str | None, typer.Option(help="Only of models of this architecture. [default: all together]")
]
ShowDeviations = Annotated[
    bool, typer.Option("--sd", help="Show standard deviations over the groups too.")
]
FORMAT_BY_EXTENSION = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".txt": "text"}


@app.command()
def table(
    study: Annotated[
        str, typer.Argument(metavar="SPEC|FOLDER", help="A TOML file, or the folder of a store.")
    ],
    form: TableFormatOption = "text",
    output: OutputPath = None,
    architecture: ArchitectureName = None,
    spreads: ShowDeviations = False,
    measure: MeasureNames = None,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    html: HtmlPath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """How well every measure of a study tells accuracy: R2, MAE and the τ family.

    A report has these tables of all architectures, scatters, clusters, factors and patterns.

    Example:
      oodometer study table digits.toml --format latex

    Example:
      oodometer study table digits.toml --html digits.html
    """
    check_report_path(html)
    rows = load_study_rows(study, store_dir, data_dir)
    judged = _show_comparison(
        rows, form, output, architecture, spreads, split_names(measure), as_json
    )
    if html is not None:
        write_report_page(render_study_page(judged, Path(study)), html)


@app.command()
def compare(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Parquet, CSV or Arrow.")],
    reference_domain: ReferenceDomain = None,
    form: TableFormatOption = "text",
    output: OutputPath = None,
    architecture: ArchitectureName = None,
    spreads: ShowDeviations = False,
    measure: MeasureNames = None,
    html: HtmlPath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the measures of your own table: which of them predict accuracy, and how well.

    A row is one model on one test domain, with the columns model, trained_on, tested_on, accuracy
    and one a measure (or measure and value). A table of models × test sets with accuracies alone
    takes --reference-domain, the set that all others are compared with.

    Example:
      oodometer study compare evaluations.parquet

    Example:
      oodometer study compare accuracies.csv --reference-domain imagenet
    """
    from oodometer.studies.analysis.evaluation_table import REQUIRED_COLUMNS, as_arrow_table

    check_report_path(html)
    if output is not None and output.resolve() == table.resolve():
        raise InputError(f"--output {output} is the table itself. Give another name.")
    found = as_arrow_table(table)
    names = {name.strip().lower() for name in found.column_names}
    if reference_domain is not None or not names & set(REQUIRED_COLUMNS[1:]):
        judged = _show_accuracy_matrix(found, reference_domain, form, output, as_json)
    else:
        judged = _show_comparison(
            found, form, output, architecture, spreads, split_names(measure), as_json
        )
    if html is not None:
        write_report_page(render_study_page(judged, table), html)


def load_study_rows(study: str, folder: Path | None, data: Path | None) -> Any:
    """The rows of a study; a study may run meanwhile."""
    from oodometer.studies.store import Store

    place, keys = resolve_store(study, folder, data)
    with Store.open(place) as store:
        return store.to_table(keys)


def _show_comparison(
    rows: Any,
    form: str,
    output: Path | None,
    architecture: str | None,
    spreads: bool,
    measures: list[str] | None,
    as_json: bool,
) -> EvaluationTable:
    """Show what every statistic says of every measure; the table that was judged."""
    from oodometer.core.errors import UnknownName
    from oodometer.studies.analysis import compare_measures as judge_table
    from oodometer.studies.analysis import text_tables
    from oodometer.studies.analysis.evaluation_table import EvaluationTable

    judged = judge_table(EvaluationTable.read(rows, measures=measures))
    kinds = judged.table.architectures
    if architecture is not None and architecture not in kinds:
        raise UnknownName("architecture", architecture, kinds)
    only = None if len(kinds) == 1 else architecture
    if as_json:
        print_json(judged.to_dict())
        return judged.table
    made = text_tables.comparison_table(judged, architecture=only, show_sd=spreads)
    if _export_table(made, form, output):
        return judged.table
    title = "All architectures" if architecture is None else architecture
    if len(made.header) == 1:
        console().print(Text("No statistic has an answer, for the reasons below."))
    else:
        _print_table(made, f"{title}: {len(judged.table):,} evaluations")
    for line in (*_comparison_notes(judged, only), *_label_warnings(judged.table)):
        console().print(Text(line))
    return judged.table


def _export_table(made: TextTable, form: str, output: Path | None) -> bool:
    """Whether the table was asked for in another form than the screen's; then it is given."""
    from oodometer.report.page import write_page

    if output is not None:
        form = FORMAT_BY_EXTENSION.get(output.suffix.lower(), "") if form == "text" else form
        if form in ("", "text"):
            known = ", ".join(ending for ending in FORMAT_BY_EXTENSION if ending != ".txt")
            raise InputError(f"{str(output)!r} must end in {known}, or say --format.")
        write_page(made.to_text(form) + "\n", output)
        print_note(f"The table is in {output}.")
        return True
    if form == "text":
        return False
    typer.echo(made.to_text(form))
    return True


def _print_table(made: TextTable, title: str) -> None:
    cells = [
        [
            Text(cell, style="bold") if (i, j) in made.best_cells else cell
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(made.rows)
    ]
    console().print(terminal.table(title, made.header, cells))


def _label_warnings(table: EvaluationTable) -> list[str]:
    """A warning of measures that only someone can have who knows the accuracy already."""
    from oodometer.studies.report.tables import label_free_measures

    fair = label_free_measures(table.measures)
    names = [name for name in table.measures if name not in fair]
    told = "computed with the labels of the target, so just to compare with"
    return [f"{', '.join(names)}: {told}."] if names else []


def _comparison_notes(judged: MeasureComparison, architecture: str | None) -> list[str]:
    """By which rule lines were fitted, over how many groups means are, and what was left out."""
    from oodometer.studies.analysis import SAME_AS_PREFIX, STATISTIC_LABELS

    mine = {key: one for key, one in judged.summaries.items() if key[2] == architecture}
    found = []
    rules = Counter(one.rule for key, one in mine.items() if key[1] == "r2" and one.rule)
    found += [f"R2 and MAE: the rule for the line is: {rule}." for rule in rules]
    repeats = {
        STATISTIC_LABELS[key[1]]: one.rule
        for key, one in mine.items()
        if key[1] != "r2" and one.rule
    }
    found += [
        f"{label}: {rule}." for label, rule in repeats.items() if rule.startswith(SAME_AS_PREFIX)
    ]
    if judged.table.in_distribution.all():
        found.append(
            "No model is tested on a domain that it was not trained on: all but ID τ is of such."
        )
    counts = _format_max_counts((STATISTIC_LABELS[key[1]], one.groups) for key, one in mine.items())
    found.append(f"Groups: {counts}.")
    lost: dict[str, list[tuple[str, int]]] = {}
    for key, one in mine.items():
        for reason, count in one.left_out.items():
            lost.setdefault(reason, []).append((STATISTIC_LABELS[key[1]], count))
    found += [
        f"Groups without an answer, {why}: {_format_max_counts(some)}."
        for why, some in lost.items()
    ]
    if judged.n_unknown_accuracies:
        found.append(f"{judged.n_unknown_accuracies} evaluations have no accuracy.")
    found += [f"{count} rows left out: {why}." for why, count in judged.table.left_out.items()]
    return found


def _format_max_counts(counts: Iterable[tuple[str, int]]) -> str:
    """The largest count of every statistic, as measures may differ in it."""
    most: dict[str, int] = {}
    for name, count in counts:
        most[name] = max(most.get(name, 0), count)
    return ", ".join(f"{name} {count}" for name, count in most.items())


def _show_accuracy_matrix(
    content: Any, reference: str | None, form: str, output: Path | None, as_json: bool
) -> EvaluationTable:
    """Show a table of models × test sets; the same as evaluations."""
    from oodometer.studies.analysis.robustness import compare_with_reference, correlate_groups
    from oodometer.studies.analysis.text_tables import TextTable
    from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations

    wide = AccuracyMatrix.read(content)
    if reference is None:
        sets = ", ".join(wide.test_sets[:12])
        raise InputError(
            "The table has no column trained_on and tested_on, so it is one of models × test sets: "
            f"say with --reference-domain which set others are compared with. There are: {sets}."
        )
    held = compare_with_reference(wide, reference)
    matrix, evaluations = correlate_groups(wide), to_evaluations(wide, reference)
    if as_json:
        told = {"reference": reference, "models": len(wide.models),
                "sets": [one.to_dict() for one in held], "matrix": matrix.to_dict()}  # fmt: skip
        print_json(told)
        return evaluations
    made = TextTable(REFERENCE_TABLE_COLUMNS, tuple(_reference_table_row(one) for one in held))
    if _export_table(made, form, output):
        return evaluations
    # Long names of models would leave no room for the rest.
    few = TextTable(
        REFERENCE_TABLE_COLUMNS[:-1], tuple(row[:-1] for row in made.rows[:MAX_TEST_SETS_SHOWN])
    )
    _print_table(
        few, f"{len(held)} test sets against {reference}, over {len(wide.models):,} models"
    )
    if len(held) > MAX_TEST_SETS_SHOWN:
        console().print(
            Text(f"{len(held) - MAX_TEST_SETS_SHOWN} more: --output table.csv, or --json.")
        )
    patterns = Counter(one.pattern.name or "none" for one in held)
    words = ", ".join(f"{name} {count}" for name, count in patterns.most_common())
    console().print(Text(f"Patterns: {words}."))
    _show_group_correlations(matrix, reference)
    return evaluations


REFERENCE_TABLE_COLUMNS = (
    "test set", "models", "Spearman", "Pearson", "drop", "pattern", "slope", "most above the line",
)  # fmt: skip


def _reference_table_row(comparison: ReferenceComparison) -> tuple[str, ...]:
    from oodometer.studies.analysis.text_tables import MISSING_CELL

    def number(value: float | None, form: str) -> str:
        return MISSING_CELL if value is None else format(value, form)

    fit = comparison.fit
    return (
        comparison.name, str(comparison.models), number(comparison.spearman, ".2f"), number(comparison.pearson, ".2f"),
        number(comparison.gap.value, ".0%"), comparison.pattern.name or MISSING_CELL,
        number(None if fit is None else fit.line.slope, ".2f"),
        MISSING_CELL if fit is None else f"{fit.most_robust} ({100 * fit.most:+.1f})",
    )  # fmt: skip


def _show_group_correlations(matrix: Any, reference: str) -> None:
    """Averaged over sets of one group: each group with the reference and with itself."""
    if reference not in matrix.second or len(matrix.first) > MAX_TEST_SETS_SHOWN:
        return
    rows = []
    for name in matrix.first:
        if name == reference:
            continue
        cells = (matrix.score(name, reference), matrix.score(name, name))
        rows.append((name, *("" if c["value"] is None else f"{c['value']:.2f}" for c in cells)))
    heads = ("group of sets", f"with {reference}", "among themselves")
    console().print(terminal.table("Averaged Spearman correlation", heads, rows))
