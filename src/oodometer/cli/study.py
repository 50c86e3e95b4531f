"""Commands for studies: running one, how far it is, and the rows that it gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._model_and_data_options import TrustPickle
from oodometer.cli._options import AsJson, Html, console, errors, note, page_can_be_made, show_json
from oodometer.cli._provenance import page_of_study, written
from oodometer.cli._run_options import (
    Data,
    Scheduler,
    Workers,
    resumable,
    runner_of,
    show_end,
    show_reasons,
)
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies import Study
    from oodometer.studies.analysis import Judgement
    from oodometer.studies.analysis.evaluation_table import Table
    from oodometer.studies.analysis.robustness import Against
    from oodometer.studies.analysis.text_tables import Printed

# So many rows are shown on the screen, and these columns.
SHOWN = 20
COLUMNS = ("model", "trained_on", "tested_on", "accuracy", "measure", "value", "reason")

app = typer.Typer(help="Which measure tells the truth: models by domains.", no_args_is_help=True)

Named = Annotated[str, typer.Argument(metavar="SPEC", help="A TOML file.")]
Folder = Annotated[
    Path | None, typer.Option(help="Where its store is. [default: studies/, and the study's name]")
]


@app.command()
def run(
    spec: Named,
    folder: Folder = None,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    limit: Annotated[int | None, typer.Option(help="Do at most so many evaluations now.")] = None,
    data: Data = None,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Do what the store of SPEC lacks: every model on every domain; killed, it goes on there.

    Exits with 1 if an evaluation failed; the next run tries it again.

    Example: oodometer study run digits.toml --workers 2
    """
    from oodometer.studies import Study
    from oodometer.studies import run as run_study

    runner = runner_of(workers, scheduler)
    study = Study.open(spec, data=data, trust_pickle=trust_pickle)
    with resumable("Evaluations"), terminal.progress_bar(errors()) as progress:
        ran = run_study(
            study, _folder(study, folder), runner=runner, limit=limit, progress=progress
        )
    show_end(ran, "evaluations", as_json)


@app.command()
def status(spec: Named, folder: Folder = None, data: Data = None, as_json: AsJson = False) -> None:
    """How far the study of SPEC is, by training domains and architecture.

    Example: oodometer study status digits.toml
    """
    from oodometer.studies import Study, missing_models
    from oodometer.studies import status as standing_of

    study = Study.open(spec, data=data)
    found = standing_of(study, _folder(study, folder))
    if as_json:
        show_json(found.to_dict())
        return
    counts = ("models", "done", "failed", "pending")
    rows = [
        (" + ".join(row.trained_on), row.architecture, *(str(getattr(row, n)) for n in counts))
        for row in found.rows
    ]
    rows.append(("all", "", *(str(found.total(name)) for name in counts)))
    console().print(terminal.table(study.name, ("trained on", "architecture", *counts), rows))
    missing = missing_models(found.left_out, found.untrained).strip()
    if missing:
        console().print(Text(missing))
    if found.refused:
        lacking = [(name, str(count)) for name, count in found.refused.items()]
        console().print(terminal.table("No answer", ("measure", "values"), lacking))
    show_reasons(found.failed, "evaluations")


@app.command()
def rows(
    study: Annotated[
        str, typer.Argument(metavar="SPEC|FOLDER", help="A TOML file, or the folder of a store.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="Write all rows to this file: .parquet or .csv.")
    ] = None,
    folder: Folder = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """The rows of a study, one a measure of a model on a domain; a study may run meanwhile.

    Of a SPEC, those that it asks for; of a FOLDER, what was written last.

    Example: oodometer study rows digits.toml --output rows.parquet
    """
    from oodometer.studies.store import Store

    place, keys = asked_of(study, folder, data)
    with Store.open(place) as store:
        if as_json:
            show_json(store.rows(keys).to_pylist())
        elif output is None:
            _show_rows(store.rows(keys))
        if output is None:
            return
        store.export(output, keys)
        note(f"The rows are in {output}.")


def asked_of(study: str, folder: Path | None, data: Path | None) -> tuple[Path, Any]:
    """Where the store is, and which rows of it are meant: of a folder, all."""
    from oodometer.studies import Study
    from oodometer.studies.plan import planned

    if Path(study).is_dir():
        return Path(study), None
    opened = Study.open(study, data=data)
    return _folder(opened, folder), planned(opened).keys()


def _folder(study: Study, given: Path | None) -> Path:
    return Path("studies") / study.name if given is None else given


def _show_rows(table: Any) -> None:
    """The first ones."""
    heads = table.select(list(COLUMNS)).slice(0, SHOWN).to_pylist()
    cells = [[_shown(row[name]) for name in COLUMNS] for row in heads]
    title = f"{len(heads):,} of {table.num_rows:,} rows"
    console().print(terminal.table(title, COLUMNS, cells))
    if len(heads) < table.num_rows:
        console().print(Text("All of them: --output rows.parquet, or rows.csv."))


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    return terminal.number(cell, ".4g") if isinstance(cell, float) else str(cell)


# So many test sets of a table of accuracies are shown.
TEST_SETS_SHOWN = 40

Form = Annotated[
    str, typer.Option("--format", help="text (for the screen), markdown, latex or csv.")
]
Output = Annotated[
    Path | None, typer.Option(help="Write the table here; the format is that of its ending.")
]
Architecture = Annotated[
    str | None, typer.Option(help="Only of models of this architecture. [default: all together]")
]
Spreads = Annotated[
    bool, typer.Option("--sd", help="Show standard deviations over the groups too.")
]
Measures = Annotated[
    str | None, typer.Option("--measures", "-m", help="Only these measures, between commas.")
]
ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".txt": "text"}


@app.command()
def table(
    study: Annotated[
        str, typer.Argument(metavar="SPEC|FOLDER", help="A TOML file, or the folder of a store.")
    ],
    form: Form = "text",
    output: Output = None,
    architecture: Architecture = None,
    spreads: Spreads = False,
    measures: Measures = None,
    folder: Annotated[Path | None, typer.Option(help="Where the store of SPEC is.")] = None,
    data: Data = None,
    as_json: AsJson = False,
    html: Html = None,
) -> None:
    """How well every measure of a study tells accuracy: R2, MAE and the τ family.

    A report has these tables of all architectures, scatters, clusters, factors and patterns.

    Example: oodometer study table digits.toml --format latex

    Example: oodometer study table digits.toml --html digits.html
    """
    page_can_be_made(html)
    rows = rows_of(study, folder, data)
    judged = _judge(rows, form, output, architecture, spreads, measures, as_json)
    if html is not None:
        written(page_of_study(judged, Path(study)), html)


@app.command()
def judge(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Parquet, CSV or Arrow.")],
    reference: Annotated[
        str | None,
        typer.Option(help="For a table models × test sets: the set that others are held against."),
    ] = None,
    form: Form = "text",
    output: Output = None,
    architecture: Architecture = None,
    spreads: Spreads = False,
    measures: Measures = None,
    as_json: AsJson = False,
    html: Html = None,
) -> None:
    """Judge the measures of your own table: which of them tell accuracy, and how well.

    A row is one model on one test domain, with the columns model, trained_on, tested_on, accuracy
    and one a measure (or measure and value). A table of models × test sets with accuracies alone
    takes --reference, the set that all others are held against.

    Example: oodometer study judge evaluations.parquet

    Example: oodometer study judge accuracies.csv --reference imagenet
    """
    from oodometer.studies.analysis._evaluation_columns import NEEDED, opened

    page_can_be_made(html)
    if output is not None and output.resolve() == table.resolve():
        raise InputError(f"--output {output} is the table itself. Give another name.")
    found = opened(table)
    names = {name.strip().lower() for name in found.column_names}
    if reference is not None or not names & set(NEEDED[1:]):
        judged = _against(found, reference, form, output, as_json)
    else:
        judged = _judge(found, form, output, architecture, spreads, measures, as_json)
    if html is not None:
        written(page_of_study(judged, table), html)


def rows_of(study: str, folder: Path | None, data: Path | None) -> Any:
    """The rows of a study; a study may run meanwhile."""
    from oodometer.studies.store import Store

    place, keys = asked_of(study, folder, data)
    with Store.open(place) as store:
        return store.rows(keys)


def _judge(
    rows: Any,
    form: str,
    output: Path | None,
    architecture: str | None,
    spreads: bool,
    measures: str | None,
    as_json: bool,
) -> Table:
    """Show what every statistic says of every measure; the table that was judged."""
    from oodometer.core.errors import UnknownName
    from oodometer.studies.analysis import judge as judge_table
    from oodometer.studies.analysis import text_tables
    from oodometer.studies.analysis.evaluation_table import Table

    names = None if measures is None else measures.split(",")
    judged = judge_table(Table.read(rows, measures=names))
    kinds = judged.table.architectures
    if architecture is not None and architecture not in kinds:
        raise UnknownName("architecture", architecture, kinds)
    only = None if len(kinds) == 1 else architecture
    if as_json:
        show_json(judged.to_dict())
        return judged.table
    made = text_tables.judgement(judged, architecture=only, spreads=spreads)
    if _written(made, form, output):
        return judged.table
    title = "All architectures" if architecture is None else architecture
    if len(made.head) == 1:
        console().print(Text("No statistic has an answer, for the reasons below."))
    else:
        _show(made, f"{title}: {len(judged.table):,} evaluations")
    for line in (*_remarks(judged, only), *_labelled(judged.table)):
        console().print(Text(line))
    return judged.table


def _written(made: Printed, form: str, output: Path | None) -> bool:
    """Whether the table was asked for in another form than the screen's; then it is given."""
    from oodometer.report.page import write_page

    if output is not None:
        form = ENDINGS.get(output.suffix.lower(), "") if form == "text" else form
        if form in ("", "text"):
            known = ", ".join(ending for ending in ENDINGS if ending != ".txt")
            raise InputError(f"{str(output)!r} must end in {known}, or say --format.")
        write_page(made.text(form) + "\n", output)
        note(f"The table is in {output}.")
        return True
    if form == "text":
        return False
    typer.echo(made.text(form))
    return True


def _show(made: Printed, title: str) -> None:
    cells = [
        [Text(cell, style="bold") if (i, j) in made.best else cell for j, cell in enumerate(row)]
        for i, row in enumerate(made.rows)
    ]
    console().print(terminal.table(title, made.head, cells))


def _labelled(table: Table) -> list[str]:
    """A warning of measures that only someone can have who knows the accuracy already."""
    from oodometer.studies.report.tables import unlabelled

    fair = unlabelled(table.measures)
    names = [name for name in table.measures if name not in fair]
    told = "computed with the labels of the target, so just to compare with"
    return [f"{', '.join(names)}: {told}."] if names else []


def _remarks(judged: Judgement, architecture: str | None) -> list[str]:
    """By which rule lines were fitted, over how many groups means are, and what was left out."""
    from oodometer.studies.analysis import LABELS, REPEATED

    mine = {key: one for key, one in judged.summaries.items() if key[2] == architecture}
    found = []
    rules = Counter(one.rule for key, one in mine.items() if key[1] == "r2" and one.rule)
    found += [f"R2 and MAE: the rule for the line is: {rule}." for rule in rules]
    repeats = {LABELS[key[1]]: one.rule for key, one in mine.items() if key[1] != "r2" and one.rule}
    found += [f"{label}: {rule}." for label, rule in repeats.items() if rule.startswith(REPEATED)]
    if judged.table.own.all():
        found.append(
            "No model is tested on a domain that it was not trained on: all but ID τ is of such."
        )
    counts = _most((LABELS[key[1]], one.groups) for key, one in mine.items())
    found.append(f"Groups: {counts}.")
    lost: dict[str, list[tuple[str, int]]] = {}
    for key, one in mine.items():
        for reason, count in one.left_out.items():
            lost.setdefault(reason, []).append((LABELS[key[1]], count))
    found += [f"Groups without an answer, {why}: {_most(some)}." for why, some in lost.items()]
    if judged.unknown:
        found.append(f"{judged.unknown} evaluations have no accuracy.")
    found += [f"{count} rows left out: {why}." for why, count in judged.table.left_out.items()]
    return found


def _most(counts: Iterable[tuple[str, int]]) -> str:
    """The largest count of every statistic, as measures may differ in it."""
    most: dict[str, int] = {}
    for name, count in counts:
        most[name] = max(most.get(name, 0), count)
    return ", ".join(f"{name} {count}" for name, count in most.items())


def _against(
    found: Any, reference: str | None, form: str, output: Path | None, as_json: bool
) -> Table:
    """Show a table of models × test sets; the same as evaluations."""
    from oodometer.studies.analysis._wide_to_evaluations import held_against
    from oodometer.studies.analysis.robustness import against, group_matrix
    from oodometer.studies.analysis.text_tables import Printed
    from oodometer.studies.analysis.wide_table import Wide

    wide = Wide.read(found)
    if reference is None:
        sets = ", ".join(wide.sets[:12])
        raise InputError(
            "The table has no column trained_on and tested_on, so it is one of models × test sets: "
            f"say with --reference which set others are held against. There are: {sets}."
        )
    held = against(wide, reference)
    matrix, evaluations = group_matrix(wide), held_against(wide, reference)
    if as_json:
        told = {"reference": reference, "models": len(wide.models),
                "sets": [one.to_dict() for one in held], "matrix": matrix.to_dict()}  # fmt: skip
        show_json(told)
        return evaluations
    made = Printed(AGAINST, tuple(_line(one) for one in held))
    if _written(made, form, output):
        return evaluations
    # Long names of models would leave no room for the rest.
    few = Printed(AGAINST[:-1], tuple(row[:-1] for row in made.rows[:TEST_SETS_SHOWN]))
    _show(few, f"{len(held)} test sets against {reference}, over {len(wide.models):,} models")
    if len(held) > TEST_SETS_SHOWN:
        console().print(Text(f"{len(held) - TEST_SETS_SHOWN} more: --output table.csv, or --json."))
    patterns = Counter(one.pattern.name or "none" for one in held)
    words = ", ".join(f"{name} {count}" for name, count in patterns.most_common())
    console().print(Text(f"Patterns: {words}."))
    _show_matrix(matrix, reference)
    return evaluations


AGAINST = (
    "test set", "models", "Spearman", "Pearson", "drop", "pattern", "slope", "most above the line",
)  # fmt: skip


def _line(one: Against) -> tuple[str, ...]:
    from oodometer.studies.analysis.text_tables import NOTHING

    def number(value: float | None, form: str) -> str:
        return NOTHING if value is None else format(value, form)

    fit = one.fit
    return (
        one.name, str(one.models), number(one.spearman, ".2f"), number(one.pearson, ".2f"),
        number(one.gap.value, ".0%"), one.pattern.name or NOTHING,
        number(None if fit is None else fit.line.slope, ".2f"),
        NOTHING if fit is None else f"{fit.most_robust} ({100 * fit.most:+.1f})",
    )  # fmt: skip


def _show_matrix(matrix: Any, reference: str) -> None:
    """Averaged over sets of one group: each group with the reference and with itself."""
    if reference not in matrix.second or len(matrix.first) > TEST_SETS_SHOWN:
        return
    rows = []
    for name in matrix.first:
        if name == reference:
            continue
        cells = (matrix.score(name, reference), matrix.score(name, name))
        rows.append((name, *("" if c["value"] is None else f"{c['value']:.2f}" for c in cells)))
    heads = ("group of sets", f"with {reference}", "among themselves")
    console().print(terminal.table("Averaged Spearman correlation", heads, rows))
