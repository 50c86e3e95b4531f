"""The command `report`: a page of an assessment, or of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import (
    HTML_HELP,
    AsJson,
    ClassNamesText,
    DataFolder,
    LabelColumn,
    LogitColumns,
    MethodNames,
    OtherModelPaths,
    ProbColumns,
    ReferenceDomain,
    Replicates,
    Seed,
    SegmentColumn,
    StoreFolder,
    Temperature,
    check_report_path,
    console,
    print_json,
    split_names,
)
from oodometer.cli._provenance import render_study_page
from oodometer.cli.estimate import (
    AdditionalFiles,
    AssessmentFiles,
    AssessmentSettings,
    assess_files,
    parse_columns,
    render_assessment_page,
)
from oodometer.core.errors import InputError

if TYPE_CHECKING:
    from oodometer.studies.analysis.evaluation_table import EvaluationTable


def report(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="WHAT",
            help="Predictions on labelled data, with TARGET; or a study: its TOML file, the folder of "
            "its store, or a table of evaluations or accuracies.",
        ),
    ],
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data.")
    ] = None,
    html: Annotated[Path, typer.Option(help=HTML_HELP)] = Path("report.html"),
    other_model: OtherModelPaths = None,
    method: MethodNames = None,
    label_column: LabelColumn = None,
    prob_columns: ProbColumns = None,
    logit_columns: LogitColumns = None,
    class_names: ClassNamesText = None,
    segment_by: SegmentColumn = None,
    temperature: Temperature = "fit",
    seed: Seed = 0,
    replicates: Replicates = 200,
    reference_domain: ReferenceDomain = None,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write an HTML report of predictions on two datasets, or of a study.

    Two prediction files are assessed as by `estimate`. One file or folder is a study.

    Example: oodometer report validation.parquet new_site.parquet --segment-by site

    Example: oodometer report digits.toml --html digits.html
    """
    check_report_path(html)
    of_predictions = {
        "--other-model": other_model,
        "--method": method,
        "--label-column": label_column,
        "--prob-columns": prob_columns,
        "--logit-columns": logit_columns,
        "--class-names": class_names,
        "--segment-by": segment_by,
    }
    if target is None:
        _reject_options("one WHAT, a study", of_predictions, "Give a TARGET too, or leave it out.")
        page = _render_study(what, reference_domain, store_dir, data_dir)
    else:
        of_studies = {
            "--reference-domain": reference_domain,
            "--store-dir": store_dir,
            "--data-dir": data_dir,
        }
        _reject_options("predictions on two datasets", of_studies, "Leave it out.")
        columns = parse_columns(label_column, prob_columns, logit_columns, class_names)
        others = AdditionalFiles(tuple(other_model or ()))
        files = AssessmentFiles(what, target, others, columns, segment_by)
        settings = AssessmentSettings(split_names(method), temperature, seed, replicates)
        page = render_assessment_page(files, assess_files(files, settings))
    _write_report(page, html, "study" if target is None else "assessment", as_json)


def _reject_options(subject: str, options: Mapping[str, Any], hint: str) -> None:
    """Refuse options that would not be looked at."""
    for name, value in options.items():
        if value:
            raise InputError(f"{name} is not for {subject}. {hint}")


def _write_report(page: str, output: Path, kind: str, as_json: bool) -> None:
    from oodometer.report import write_page

    write_page(page, output)
    size = len(page.encode("utf-8", errors="replace"))
    if as_json:
        print_json({"report": str(output), "kind": kind, "bytes": size})
    else:
        console().print(Text(f"Report of the {kind} written to {output} ({size / 1e6:.1f} MB)"))


def _render_study(path: Path, reference: str | None, folder: Path | None, data: Path | None) -> str:
    from oodometer.cli.study import load_study_rows
    from oodometer.studies.analysis.evaluation_table import EvaluationTable

    if path.is_dir() or path.suffix == ".toml":
        _reject_options("a study's own rows", {"--reference-domain": reference}, "Leave it out.")
        table = EvaluationTable.read(load_study_rows(str(path), folder, data))
    else:
        _reject_options("a table", {"--store-dir": folder, "--data-dir": data}, "Leave it out.")
        table = _load_table(path, reference)
    return render_study_page(table, path)


def _load_table(path: Path, reference: str | None) -> EvaluationTable:
    """A table that anyone brings: evaluations, or accuracies of models × test sets."""
    from oodometer.data.prediction_files import ScoreFile
    from oodometer.studies.analysis.evaluation_table import REQUIRED_COLUMNS, EvaluationTable
    from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations

    content = ScoreFile.open(path).content
    columns = content if isinstance(content, dict) else content.column_names
    names = {name.strip().lower() for name in columns}
    if "model" not in names:
        raise InputError(
            f"{path.name} has no column 'model', so it is no table of evaluations. For outputs of "
            "a classifier give two files: on labelled data, and on the new data."
        )
    if reference is None and names & set(REQUIRED_COLUMNS[1:]):
        return EvaluationTable.read(path)
    wide = AccuracyMatrix.read(path)
    if reference is None:
        raise InputError(
            f"{path.name} has accuracies on {len(wide.test_sets)} test sets: say with --reference-domain which "
            f"set others are held against. There are: {', '.join(wide.test_sets[:12])}."
        )
    return to_evaluations(wide, reference)
