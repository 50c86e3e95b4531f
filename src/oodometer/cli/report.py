"""The `oodometer report` command, which writes an HTML report on an assessment or a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._html_report import check_report_path, render_study_page
from oodometer.cli._options import (
    HTML_HELP,
    AsJson,
    DataFolder,
    GateOptions,
    Quiet,
    ReferenceDomain,
    StoreFolder,
    given_options,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json
from oodometer.cli.estimate import (
    AssessmentOptions,
    PageOptions,
    gate_results,
    reject_several_targets,
    render_assessment_page,
)
from oodometer.core.errors import InputError

if TYPE_CHECKING:
    from oodometer.studies.analysis.evaluation_table import EvaluationTable


@with_option_groups
def report(
    what: Annotated[
        Path | None,
        typer.Argument(
            metavar="WHAT",
            help="If TARGET is given, predictions on labelled data. Otherwise a study, given by "
            "its TOML file, the folder of its store, or a table of evaluations or accuracies.",
        ),
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data."),
    ] = None,
    *,
    html: Annotated[Path, typer.Option(help=HTML_HELP)] = Path("report.html"),
    page_options: PageOptions,
    options: AssessmentOptions,
    gates: GateOptions,
    reference_domain: ReferenceDomain = None,
    store_dir: StoreFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report on predictions for two datasets, on a model, or on a study.

    With WHAT and TARGET, both are files of predictions, which are assessed as by `oodometer
    estimate`. With --model, --source-data and --target-data, the model is run on both datasets
    first. With WHAT alone, it is a study.

    Example:
      oodometer report validation.parquet new_site.parquet --segment-by site

    Example:
      oodometer report --model my:net --source-data a.npz --target-data b.npz

    Example:
      oodometer report digits.toml --html digits.html
    """
    check_report_path(html)
    page_options.check(html)
    gates.check()
    if what is None and not options.model_inputs.is_given:
        raise InputError(
            "WHAT is missing. Give two files of predictions, a model with its data (--model, "
            "--source-data and --target-data), or a study."
        )
    if what is not None and not target and not options.model_inputs.is_given:
        given = {"--required": page_options.required}
        _reject_options(
            given | given_options(options) | given_options(gates),
            "a single WHAT, a study",
            "Give a TARGET too, or leave it out.",
        )
        page = _render_study(what, reference_domain, store_dir, data_dir, page_options)
        _write_report(page, html, "study", as_json)
        return
    study_options = {
        "--reference-domain": reference_domain,
        "--store-dir": store_dir,
        "--data-dir": data_dir,
    }
    _reject_options(study_options, "predictions on two datasets", "Leave it out.")
    if target and len(target) > 1:
        reject_several_targets({"A report": True})
    files = options.files(what, target or ())
    (result,) = options.assess(files)
    _write_report(render_assessment_page(files, result, page_options), html, "assessment", as_json)
    gate = gate_results([result], gates, options.analyses.margin)
    if gate is not None:
        gate.exit()


def _reject_options(options: Mapping[str, Any], subject: str, hint: str) -> None:
    """Raise if one of the options was given, because it would be ignored."""
    for name, value in options.items():
        if value:
            raise InputError(f"{name} does not apply to {subject}. {hint}")


def _write_report(page: str, path: Path, kind: str, as_json: bool) -> None:
    from oodometer.report import write_page

    write_page(page, path)
    size = len(page.encode("utf-8", errors="replace"))
    if as_json:
        print_json({"report": str(path), "kind": kind, "bytes": size})
    else:
        console().print(Text(f"Report on the {kind} written to {path} ({size / 1e6:.1f} MB)"))


def _render_study(
    path: Path,
    reference: str | None,
    folder: Path | None,
    data: Path | None,
    page_options: PageOptions,
) -> str:
    from oodometer.cli.study import load_study_rows
    from oodometer.studies.analysis.evaluation_table import EvaluationTable

    if path.is_dir() or path.suffix == ".toml":
        _reject_options({"--reference-domain": reference}, "a study's own rows", "Leave it out.")
        table = EvaluationTable.read(load_study_rows(str(path), folder, data))
    else:
        _reject_options({"--store-dir": folder, "--data-dir": data}, "a table", "Leave it out.")
        table = _load_table(path, reference)
    return render_study_page(table, path, title=page_options.title, date=page_options.date)


def _load_table(path: Path, reference: str | None) -> EvaluationTable:
    """Read a table of evaluations, or a table of accuracies with models × test sets."""
    from oodometer.data.prediction_files import ScoreFile
    from oodometer.studies.analysis.evaluation_table import REQUIRED_COLUMNS, EvaluationTable
    from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations

    content = ScoreFile.open(path).content
    columns = content if isinstance(content, dict) else content.column_names
    names = {name.strip().lower() for name in columns}
    if "model" not in names:
        raise InputError(
            f"{path.name} has no column 'model', so it is not a table of evaluations. For the "
            "predictions of a classifier give two files: on labelled data and on the new data."
        )
    if reference is None and names & set(REQUIRED_COLUMNS[1:]):
        return EvaluationTable.read(path)
    matrix = AccuracyMatrix.read(path)
    if reference is None:
        raise InputError(
            f"{path.name} has accuracies on {len(matrix.test_sets)} test sets. Use "
            "--reference-domain to name the test set that all others are compared with. Test sets: "
            f"{', '.join(matrix.test_sets[:12])}."
        )
    return to_evaluations(matrix, reference)
