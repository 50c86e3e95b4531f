"""The `oodometer study` commands, which run a study and show its progress, rows and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from oodometer.cli._html_report import check_report_path, render_study_page, write_report_page
from oodometer.cli._options import (
    AsJson,
    CacheFolder,
    DataFolder,
    HtmlPath,
    Limit,
    MeasureNames,
    OutputPath,
    Quiet,
    ReferenceDomain,
    StoreFolder,
    TrustCode,
    TrustPickle,
    WorkerOptions,
    split_names,
    with_option_groups,
)
from oodometer.cli._runtime import (
    console,
    print_json,
    print_note,
    progress_bar,
    resumable,
    show_failures,
    show_run_result,
)
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies import Study
    from oodometer.studies.analysis import (
        AnalysisResult,
        MeasureComparison,
        MeasureDifference,
    )
    from oodometer.studies.analysis.evaluation_table import EvaluationTable
    from oodometer.studies.analysis.factors import Rotation
    from oodometer.studies.analysis.robustness import ReferenceComparison
    from oodometer.studies.analysis.text_tables import TextTable

# Maximum number of rows, and the columns, that `study rows` shows on the screen.
MAX_ROWS_SHOWN = 20
SHOWN_COLUMNS = ("model", "trained_on", "tested_on", "accuracy", "measure", "value", "reason")
# Maximum number of test sets that `study compare` shows on the screen.
MAX_TEST_SETS_SHOWN = 40
# Value of --analysis that runs every analysis and skips those that do not apply.
ALL_ANALYSES = "all"
FORMAT_BY_EXTENSION = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".txt": "text"}
REFERENCE_TABLE_COLUMNS = (
    "test set", "models", "Spearman", "Pearson", "drop", "pattern", "slope", "most above the line",
)  # fmt: skip

app = typer.Typer(
    help="Evaluate measures over many models and domains.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StudySpecPath = Annotated[
    str, typer.Argument(metavar="SPEC", help="TOML file that describes the study.")
]
StudyLocation = Annotated[
    str,
    typer.Argument(
        metavar="SPEC|FOLDER", help="TOML file that describes the study, or folder of its store."
    ),
]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for the content and the format of a table of measures."""

    form: Annotated[
        str,
        typer.Option(
            "--format", help="Format of the table: text (for the screen), markdown, latex or csv."
        ),
    ] = "text"
    output: OutputPath = None
    architecture: Annotated[
        str | None,
        typer.Option(help="Use only the models of this architecture. [default: all models]"),
    ] = None
    spreads: Annotated[
        bool, typer.Option("--sd", help="Also show standard deviations over groups of models.")
    ] = False
    measure: MeasureNames = None
    analysis: Annotated[
        list[str] | None,
        typer.Option(
            "--analysis",
            help="Analysis to show instead of the comparison: joint (regression on several "
            "measures), averaged or adjusted (correlations over pairs of domains), tasks or shifts "
            "(averaged correlations by task or by type of shift), difficulty (the same against task "
            "difficulty), strategies (whole model or head only), augmentation (accuracy by "
            "augmentation), models (errors with the best hyperparameters), noise (signal to noise "
            "over replicates), factors (factor analysis), rank (rank correlation with the error), "
            "truth (estimated against true accuracy), errors (errors of the estimates by type of "
            "shift), or all. Repeat the option, or separate names by commas.",
        ),
    ] = None
    rotation: Annotated[
        str,
        typer.Option(help="Rotation of the factors: equamax, varimax or quartimax."),
    ] = "equamax"
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="FIRST SECOND",
            help="Two measures to compare instead: by every statistic, the difference with its 95 % "
            "interval from a bootstrap over models, and the verdict on the claim that FIRST is better.",
        ),
    ] = None
    pretrained: Annotated[
        Path | None,
        typer.Option(
            help="Parquet, CSV or Arrow file with the accuracies of the pretrained networks. Its "
            "column model names the architectures, and every other column is a test set, such as "
            "imagenet-a. They are added to the correlations."
        ),
    ] = None

    def parse_rotation(self) -> Rotation:
        """Return the rotation; raise if there is no such rotation."""
        from oodometer.studies.analysis.factors import check_rotation

        check_rotation(self.rotation)
        return cast("Rotation", self.rotation)


@app.command()
@with_option_groups
def run(
    spec: StudySpecPath,
    *,
    store_dir: StoreFolder = None,
    worker_options: WorkerOptions,
    limit: Limit = None,
    data_dir: DataFolder = None,
    cache_dir: CacheFolder = None,
    trust_pickle: TrustPickle = False,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute the evaluations of SPEC that are not in its store yet.

    An interrupted run can be resumed with the same command. The exit code is 1 if an evaluation
    failed; the next run tries it again.

    Example:
      oodometer study run digits.toml --workers 2
    """
    from oodometer.studies import Study
    from oodometer.studies import run as run_study

    runner = worker_options.runner()
    study = Study.open(spec, data=data_dir, trust_pickle=trust_pickle, trust_code=trust_code)
    folder = _store_folder(study, store_dir)
    with resumable("Evaluations"), progress_bar() as progress:
        result = run_study(study, folder, runner=runner, limit=limit, progress=progress)
    show_run_result(result, "evaluations", as_json)


@app.command()
def status(
    spec: StudySpecPath,
    store_dir: StoreFolder = None,
    trust_code: TrustCode = False,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how much of the study SPEC is computed, by training domains and architecture.

    Example:
      oodometer study status digits.toml
    """
    from oodometer.studies import Study, format_missing_models
    from oodometer.studies import status as study_status

    study = Study.open(spec, data=data_dir, trust_code=trust_code)
    result = study_status(study, _store_folder(study, store_dir))
    if as_json:
        print_json(result.to_dict())
        return
    counts = ("models", "done", "failed", "pending")
    rows = [
        (" + ".join(row.trained_on), row.architecture, *(str(getattr(row, n)) for n in counts))
        for row in result.rows
    ]
    rows.append(("all", "", *(str(result.total(name)) for name in counts)))
    console().print(terminal.table(study.name, ("trained on", "architecture", *counts), rows))
    missing = format_missing_models(result.left_out, result.untrained).strip()
    if missing:
        console().print(Text(missing))
    if result.not_applicable:
        missing_values = [(name, str(count)) for name, count in result.not_applicable.items()]
        console().print(terminal.table("Not applicable", ("measure", "values"), missing_values))
    show_failures(result.failed, "evaluations")


@app.command()
def rows(
    study: StudyLocation,
    output: OutputPath = None,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show or export the results of a study, with one row per measure, model and domain.

    With SPEC, the rows that the TOML file requests are shown. With FOLDER, the rows of the latest
    run are shown. The study may still be running.

    Example:
      oodometer study rows digits.toml --output rows.parquet
    """
    from oodometer.studies.store import Store

    folder, keys = resolve_store(study, store_dir, data_dir)
    with Store.open(folder) as store:
        if as_json:
            print_json(store.to_table(keys).to_pylist())
        elif output is None:
            _show_rows(store.to_table(keys))
        if output is not None:
            store.export(output, keys)
            print_note(f"Rows written to {output}")


def resolve_store(study: str, folder: Path | None, data: Path | None) -> tuple[Path, Any]:
    """Return the folder of the store and the keys of the requested rows; None means all rows."""
    from oodometer.studies import Study
    from oodometer.studies.plan import plan_study

    if Path(study).is_dir():
        return Path(study), None
    spec = Study.open(study, data=data)
    return _store_folder(spec, folder), plan_study(spec).result_keys()


def _store_folder(study: Study, folder: Path | None) -> Path:
    return Path("studies") / study.name if folder is None else folder


def load_study_rows(study: str, folder: Path | None, data: Path | None) -> Any:
    """Return the rows of a study, which may be running, as an Arrow table."""
    from oodometer.studies.store import Store

    store_folder, keys = resolve_store(study, folder, data)
    with Store.open(store_folder) as store:
        return store.to_table(keys)


def _show_rows(table: Any) -> None:
    rows = table.select(list(SHOWN_COLUMNS)).slice(0, MAX_ROWS_SHOWN).to_pylist()
    cells = [[_format_cell(row[name]) for name in SHOWN_COLUMNS] for row in rows]
    title = f"{len(rows):,} of {table.num_rows:,} rows"
    console().print(terminal.table(title, SHOWN_COLUMNS, cells))
    if len(rows) < table.num_rows:
        console().print(Text("Export all rows with --output rows.parquet or rows.csv."))


def _format_cell(cell: Any) -> str:
    if cell is None:
        return ""
    return terminal.format_number(cell, ".4g") if isinstance(cell, float) else str(cell)


@app.command()
@with_option_groups
def table(
    study: StudyLocation,
    *,
    table_options: TableOptions,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    html: HtmlPath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how well every measure of a study predicts accuracy, by R2, MAE and Kendall's τ.

    The HTML report also shows the table for each architecture, scatter plots, clusters, factors
    and patterns.

    Example:
      oodometer study table digits.toml --format latex

    Example:
      oodometer study table digits.toml --analysis joint --analysis truth

    Example:
      oodometer study table digits.toml --html digits.html
    """
    check_report_path(html)
    rows = load_study_rows(study, store_dir, data_dir)
    evaluations = _show_comparison(rows, table_options, as_json)
    if html is not None:
        page = render_study_page(evaluations, Path(study), rotation=table_options.parse_rotation())
        write_report_page(page, html)


@app.command()
@with_option_groups
def compare(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Parquet, CSV or Arrow file of evaluations.")
    ],
    *,
    reference_domain: ReferenceDomain = None,
    table_options: TableOptions,
    html: HtmlPath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how well the measures in your own table of evaluations predict accuracy.

    The table has one row per model and test domain, with the columns model, trained_on, tested_on,
    accuracy, and one column per measure. Instead of one column per measure, it can have the columns
    measure and value. If the table has only accuracies (models × test sets), name the test set that
    all others are compared with by --reference-domain.

    Example:
      oodometer study compare evaluations.parquet

    Example:
      oodometer study compare evaluations.parquet --pair ni-randaugment atc-mc

    Example:
      oodometer study compare accuracies.csv --reference-domain imagenet
    """
    from oodometer.studies.analysis.evaluation_table import REQUIRED_COLUMNS, as_arrow_table

    check_report_path(html)
    output = table_options.output
    if output is not None and output.resolve() == table.resolve():
        raise InputError(f"--output {output} is the table itself. Choose another name.")
    content = as_arrow_table(table)
    names = {name.strip().lower() for name in content.column_names}
    if reference_domain is not None or not names & set(REQUIRED_COLUMNS[1:]):
        evaluations = _show_accuracy_matrix(content, reference_domain, table_options, as_json)
    else:
        evaluations = _show_comparison(content, table_options, as_json)
    if html is not None:
        page = render_study_page(evaluations, table, rotation=table_options.parse_rotation())
        write_report_page(page, html)


def _show_comparison(rows: Any, options: TableOptions, as_json: bool) -> EvaluationTable:
    """Show all statistics of each measure, or two measures; return the table of evaluations."""
    from oodometer.studies.analysis import add_pretrained_accuracies
    from oodometer.studies.analysis.evaluation_table import EvaluationTable

    evaluations = EvaluationTable.read(rows, measures=split_names(options.measure))
    if options.pretrained is not None:
        evaluations = add_pretrained_accuracies(evaluations, options.pretrained)
    architectures = evaluations.architectures
    if options.architecture is not None and options.architecture not in architectures:
        raise UnknownName("architecture", options.architecture, architectures)
    if options.pair is None:
        _show_statistics(evaluations, options, as_json)
    else:
        _show_pair(evaluations, options.pair, options, as_json)
    return evaluations


def _show_statistics(evaluations: EvaluationTable, options: TableOptions, as_json: bool) -> None:
    """Show all statistics of each measure, or the requested analyses."""
    from oodometer.studies.analysis import compare_measures, text_tables

    comparison = compare_measures(evaluations)
    architectures = comparison.table.architectures
    architecture = None if len(architectures) == 1 else options.architecture
    analyses = _run_analyses(evaluations, options)
    if as_json:
        print_json(comparison.to_dict() | _analyses_to_dict(analyses))
        return
    if analyses:
        _show_analyses(analyses, options)
        return
    text_table = text_tables.comparison_table(
        comparison, architecture=architecture, show_sd=options.spreads
    )
    if _export_tables([text_table], options):
        return
    if len(text_table.header) == 1:
        console().print(Text("No statistic can be computed, for the reasons below."))
    else:
        title = options.architecture or "All architectures"
        _print_table(text_table, f"{title}: {len(comparison.table):,} evaluations")
    for line in (*_comparison_notes(comparison, architecture), *_label_note(comparison.table)):
        console().print(Text(line))


def _show_pair(
    evaluations: EvaluationTable, pair: tuple[str, str], options: TableOptions, as_json: bool
) -> None:
    """Show the difference of two measures by every statistic, with bootstrap intervals."""
    from oodometer.studies.analysis import compare_by_statistics
    from oodometer.studies.analysis.text_tables import TextTable

    first, second = pair
    if options.architecture is not None:
        code = evaluations.architectures.index(options.architecture)
        evaluations = evaluations.select_rows(evaluations.architecture == code)
    results = compare_by_statistics(evaluations, first, second)
    if as_json:
        print_json({"differences": [result.to_dict() for result in results.values()],
                    "reliability": _reliability(evaluations)})  # fmt: skip
        return
    header = ("statistic", first, second, "difference", "95 % interval", f"{first} is better")
    table = TextTable(header, tuple(_pair_row(result) for result in results.values()))
    if _export_tables([table], options):
        return
    _print_table(table, f"{first} against {second}")
    for line in _pair_notes(list(results.values()), _reliability(evaluations)):
        console().print(Text(line))


def _pair_row(result: MeasureDifference) -> tuple[str, ...]:
    from oodometer.studies.analysis import BOOTSTRAP_STATISTICS

    return (
        BOOTSTRAP_STATISTICS[result.statistic],
        f"{result.first_value:.3f}",
        f"{result.second_value:.3f}",
        f"{result.value:+.3f}",
        f"{result.low:+.3f} to {result.high:+.3f}",
        result.verdict,
    )


def _reliability(evaluations: EvaluationTable) -> float | None:
    """Return the median reliability of the true accuracies; None if it cannot be computed."""
    from oodometer.studies.analysis import truth_reliability

    try:
        return truth_reliability(evaluations).median
    except (InputError, NotApplicable):
        return None


def _pair_notes(results: list[MeasureDifference], reliability: float | None) -> list[str]:
    """Return sentences that tell how the intervals were computed, and what would decide."""
    if not results:
        return ["No statistic is defined for both measures."]
    largest = max(results, key=lambda result: result.evaluations)
    drawn = "models and test domains" if largest.domains_drawn else "models"
    notes = [
        f"Bootstrap over {drawn}: {largest.configurations:,} configurations, {largest.models:,} models, "
        f"{largest.evaluations:,} evaluations, {largest.replicates:,} replicates.",
    ]
    if largest.left_out:
        notes.append(f"{largest.left_out:,} evaluations without one of the measures are left out.")
    if reliability is not None:
        notes.append(f"Reliability of the true accuracies (median over groups): {reliability:.2f}.")
    needed = [r.configurations_needed for r in results if r.verdict == "undecided"]
    known = [count for count in needed if count is not None]
    if known:
        notes.append(
            f"By extrapolation, about {min(known):,} configurations or more would decide the "
            "undecided comparisons."
        )
    return notes


def _run_analyses(
    evaluations: EvaluationTable, options: TableOptions
) -> dict[str, AnalysisResult | str]:
    """Run the requested analyses; with `all`, give a reason for each that does not apply."""
    from oodometer.studies.analysis import ANALYSES, run_analysis

    rotation = options.parse_rotation()
    requested = list(dict.fromkeys(split_names(options.analysis) or []))
    for name in requested:
        if name not in (*ANALYSES, ALL_ANALYSES):
            raise UnknownName("analysis", name, (*ANALYSES, ALL_ANALYSES))
    if requested and options.architecture is not None:
        code = evaluations.architectures.index(options.architecture)
        evaluations = evaluations.select_rows(evaluations.architecture == code)
    results: dict[str, AnalysisResult | str] = {}
    for name in ANALYSES if ALL_ANALYSES in requested else requested:
        try:
            results[name] = run_analysis(evaluations, name, rotation=rotation)
        except (InputError, NotApplicable) as error:
            if name in requested:
                raise
            results[name] = str(error)
    return results


def _analyses_to_dict(analyses: dict[str, AnalysisResult | str]) -> dict[str, Any]:
    if not analyses:
        return {}
    values = {
        name: {"reason": result} if isinstance(result, str) else result.values
        for name, result in analyses.items()
    }
    return {"analyses": values}


def _show_analyses(analyses: dict[str, AnalysisResult | str], options: TableOptions) -> None:
    results = [result for result in analyses.values() if not isinstance(result, str)]
    if not _export_tables([result.table for result in results], options):
        for number, result in enumerate(results):
            if number:
                console().print()
            _print_table(result.table, result.title)
            for note in result.notes:
                console().print(Text(note))
    for name, reason in analyses.items():
        if isinstance(reason, str):
            print_note(f"Skipped {name}: {reason.rstrip('.')}.")


def _export_tables(tables: list[TextTable], options: TableOptions) -> bool:
    """Write or print the tables in the requested format; return False if it is the screen."""
    from oodometer.report.page import write_page

    form = options.form
    if options.output is not None:
        if form == "text":
            form = FORMAT_BY_EXTENSION.get(options.output.suffix.lower(), "")
        if form in ("", "text"):
            extensions = ", ".join(name for name in FORMAT_BY_EXTENSION if name != ".txt")
            raise InputError(f"{str(options.output)!r} must end in {extensions}; or give --format.")
    if form == "text":
        return False
    if form == "csv" and len(tables) > 1:
        raise InputError(f"CSV holds one table, not {len(tables)}. Give --analysis once.")
    text = "\n\n".join(table.to_text(form) for table in tables)
    if options.output is None:
        typer.echo(text)
    else:
        write_page(text + "\n", options.output)
        print_note(f"Table written to {options.output}")
    return True


def _print_table(table: TextTable, title: str) -> None:
    cells = [
        [
            Text(cell, style="bold") if (i, j) in table.best_cells else cell
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.rows)
    ]
    console().print(terminal.table(title, table.header, cells))


def _label_note(table: EvaluationTable) -> list[str]:
    """Return a note on measures that are computed with target labels, if there are any."""
    from oodometer.studies.report.tables import label_free_measures

    label_free = label_free_measures(table.measures)
    names = [name for name in table.measures if name not in label_free]
    return (
        [f"{', '.join(names)}: computed with target labels, for comparison only."] if names else []
    )


def _comparison_notes(comparison: MeasureComparison, architecture: str | None) -> list[str]:
    """Return notes on how lines were fitted, on the number of groups, and on rows left out."""
    from oodometer.studies.analysis import SAME_AS_PREFIX, STATISTIC_LABELS

    summaries = {
        (measure, statistic): summary
        for (measure, statistic, key), summary in comparison.summaries.items()
        if key == architecture
    }
    line_rules = Counter(
        summary.rule for (_, name), summary in summaries.items() if name == "r2" and summary.rule
    )
    notes = [f"R2 and MAE use a line fitted by this rule: {rule}." for rule in line_rules]
    other_rules = {
        STATISTIC_LABELS[name]: summary.rule
        for (_, name), summary in summaries.items()
        if name != "r2" and summary.rule
    }
    notes += [
        f"{label}: {rule}."
        for label, rule in other_rules.items()
        if rule.startswith(SAME_AS_PREFIX)
    ]
    if comparison.table.in_distribution.all():
        notes.append(
            "No model is tested on a domain that it was not trained on; all statistics but ID τ "
            "need such domains."
        )
    counts = _format_max_counts(
        (STATISTIC_LABELS[name], summary.groups) for (_, name), summary in summaries.items()
    )
    notes.append(f"Number of groups: {counts}.")
    left_out: dict[str, list[tuple[str, int]]] = {}
    for (_, name), summary in summaries.items():
        for reason, count in summary.left_out.items():
            left_out.setdefault(reason, []).append((STATISTIC_LABELS[name], count))
    notes += [
        f"Groups without a value ({reason}): {_format_max_counts(groups)}."
        for reason, groups in left_out.items()
    ]
    if comparison.n_unknown_accuracies:
        notes.append(f"{comparison.n_unknown_accuracies} evaluations have no accuracy.")
    notes += [
        f"{count} rows left out: {reason}." for reason, count in comparison.table.left_out.items()
    ]
    return notes


def _format_max_counts(counts: Iterable[tuple[str, int]]) -> str:
    """Return the count of each statistic; if it differs between measures, the largest count."""
    largest: dict[str, int] = {}
    for name, count in counts:
        largest[name] = max(largest.get(name, 0), count)
    return ", ".join(f"{name} {count}" for name, count in largest.items())


def _show_accuracy_matrix(
    content: Any, reference: str | None, options: TableOptions, as_json: bool
) -> EvaluationTable:
    """Show a table of accuracies (models × test sets), and return it as table of evaluations."""
    from oodometer.studies.analysis.robustness import compare_with_reference, correlate_groups
    from oodometer.studies.analysis.text_tables import TextTable
    from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations

    accuracies = AccuracyMatrix.read(content)
    if reference is None:
        raise InputError(
            "The table has no columns trained_on and tested_on, so its columns are treated as test "
            "sets. Use --reference-domain to name the test set that all others are compared with. "
            "Test sets: "
            f"{', '.join(accuracies.test_sets[:12])}."
        )
    comparisons = compare_with_reference(accuracies, reference)
    correlations = correlate_groups(accuracies)
    evaluations = to_evaluations(accuracies, reference)
    analyses = _run_analyses(evaluations, options)
    if as_json:
        values = comparisons.to_dict() | {"matrix": correlations.to_dict()}
        print_json(values | _analyses_to_dict(analyses))
        return evaluations
    if analyses:
        _show_analyses(analyses, options)
        return evaluations
    rows = tuple(_reference_table_row(comparison) for comparison in comparisons)
    if _export_tables([TextTable(REFERENCE_TABLE_COLUMNS, rows)], options):
        return evaluations
    # The last column is not shown: it has model names, which leave too little width for numbers.
    shown = TextTable(
        REFERENCE_TABLE_COLUMNS[:-1], tuple(row[:-1] for row in rows[:MAX_TEST_SETS_SHOWN])
    )
    n_models = len(accuracies.models)
    _print_table(shown, f"{len(rows)} test sets against {reference}, over {n_models:,} models")
    if len(rows) > MAX_TEST_SETS_SHOWN:
        n_hidden = len(rows) - MAX_TEST_SETS_SHOWN
        console().print(Text(f"{n_hidden} more: --output table.csv, or --json."))
    patterns = Counter(comparison.pattern.name or "none" for comparison in comparisons)
    counts = ", ".join(f"{name} {count}" for name, count in patterns.most_common())
    console().print(Text(f"Patterns: {counts}."))
    _show_group_correlations(correlations, reference)
    return evaluations


def _reference_table_row(comparison: ReferenceComparison) -> tuple[str, ...]:
    from oodometer.studies.analysis.text_tables import MISSING_CELL

    def number(value: float | None, form: str) -> str:
        return MISSING_CELL if value is None else format(value, form)

    fit = comparison.fit
    return (
        comparison.name,
        str(comparison.models),
        number(comparison.spearman, ".2f"),
        number(comparison.pearson, ".2f"),
        number(comparison.gap.value, ".0%"),
        comparison.pattern.name or MISSING_CELL,
        number(None if fit is None else fit.line.slope, ".2f"),
        MISSING_CELL if fit is None else f"{fit.most_robust} ({100 * fit.most:+.1f})",
    )


def _show_group_correlations(matrix: Any, reference: str) -> None:
    """Show mean correlations of groups of test sets, with the reference and within each group."""
    if reference not in matrix.second or len(matrix.first) > MAX_TEST_SETS_SHOWN:
        return
    rows = []
    for name in matrix.first:
        if name == reference:
            continue
        scores = (matrix.score(name, reference)["value"], matrix.score(name, name)["value"])
        rows.append((name, *("" if score is None else f"{score:.2f}" for score in scores)))
    heads = ("group of test sets", f"with {reference}", "within the group")
    console().print(terminal.table("Mean Spearman correlation", heads, rows))
