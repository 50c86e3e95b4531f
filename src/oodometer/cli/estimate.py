"""The `oodometer estimate` command, and the functions that assess files of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import oodometer
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    AdditionalResults,
    resolve_expected_metrics,
    run_additional,
)
from oodometer.assessment.result import Assessment
from oodometer.cli._html_report import (
    check_report_path,
    provenance,
    write_report_page,
)
from oodometer.cli._options import (
    AsJson,
    ColumnOptions,
    HtmlPath,
    MethodNames,
    MetricNames,
    OtherModelPaths,
    Quiet,
    Seed,
    WorkerOptions,
    split_names,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json, print_note, progress_bar
from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError
from oodometer.core.labels import is_blank
from oodometer.core.predictions import Predictions
from oodometer.data.batch_reader import is_read_in_batches
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.report import terminal


@dataclass(frozen=True, kw_only=True)
class EstimationOptions:
    """Options of the estimation, used by the commands `estimate` and `report`."""

    method: MethodNames = None
    segment_by: Annotated[
        str | None,
        typer.Option(
            help="Column of the target; the accuracy, and each --metric, is also estimated for "
            "each of its values (for each day if the values are times)."
        ),
    ] = None
    temperature: Annotated[
        str,
        typer.Option(
            help="Temperature that divides the logits: a number, 'fit' to calibrate it on the "
            "source, or 'none' to leave the scores unchanged."
        ),
    ] = "fit"
    calibration: Annotated[
        str,
        typer.Option(
            help="Calibration of the probabilities that ac, cot, cott, mlls, leap, pape and the "
            "metrics read: auto, temperature, isotonic, beta, platt or none."
        ),
    ] = "auto"
    seed: Seed = 0
    replicates: Annotated[int, typer.Option(help="Number of bootstrap replicates.")] = 200

    def parse_temperature(self) -> float | Literal["fit"] | None:
        if self.temperature == "fit":
            return "fit"
        if self.temperature == "none":
            return None
        try:
            return float(self.temperature)
        except ValueError as error:
            raise InputError(
                f"--temperature must be 'fit', 'none' or a number above 0; "
                f"got {self.temperature!r}."
            ) from error


@dataclass(frozen=True, kw_only=True)
class FileReadOptions(WorkerOptions):
    """Options that decide whether files are read in batches, and by which workers."""

    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read all files in batches. Folders, patterns and files above 1 GB always are.",
        ),
    ] = False

    def should_stream(self, *paths: Path) -> bool:
        """Return whether the files are read in batches."""
        return self.stream or self.is_given or any(is_read_in_batches(path) for path in paths)


@with_option_groups
def estimate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Predictions on labelled validation data.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data.")
    ],
    *,
    other_model: OtherModelPaths = None,
    other_model_on_source: Annotated[
        list[Path] | None,
        typer.Option(
            help="Predictions of another model on the source, for aline-s and aline-d; repeat the "
            "option, in the same order as --other-model.",
        ),
    ] = None,
    target_labels: Annotated[
        Path | None,
        typer.Option(
            help="Table with the true classes of some target rows, in the columns row (counted "
            "from 0) and label."
        ),
    ] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            help="Past domains with known accuracy, from which the typical range is computed: a "
            "table with the columns estimate and truth, or, if repeated, one file of labelled "
            "predictions per domain.",
        ),
    ] = None,
    options: EstimationOptions,
    metric: MetricNames = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Also report a lower bound on accuracy (DIS²).")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Also test whether the loss of accuracy is smaller than this fraction "
            "(non-inferiority test)."
        ),
    ] = None,
    column_options: ColumnOptions,
    read_options: FileReadOptions,
    html: HtmlPath = None,
    fail_below: Annotated[
        float | None, typer.Option(help="Exit with code 1 if the headline is below this fraction.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the accuracy on TARGET from the predictions on SOURCE.

    The files are Parquet, CSV, Arrow or .npz files with one column per class, named prob_0, prob_1,
    … or logit_0, logit_1, …. One list column named probs or logits is also possible and, for two
    classes, a single column named prob or logit. The source needs a column named label. If some
    target rows have labels, in a column named label or in --target-labels, the labels are used.

    SOURCE and TARGET can also be a folder or a quoted pattern. Folders, patterns and files above
    1 GB are read in batches. Mergeable estimators then use every row, and all other estimators use
    a random sample.

    Example:
      oodometer estimate validation.parquet new_site.parquet --html report.html

    Example:
      oodometer estimate validation.parquet "scores/*.parquet" --workers 4
    """
    _check_fraction(fail_below, "--fail-below")
    check_report_path(html)
    files = PredictionFiles(
        source=source,
        target=target,
        columns=column_options.prediction_columns(),
        other_models=tuple(other_model or ()),
        other_models_on_source=tuple(other_model_on_source or ()),
        history=tuple(history or ()),
        target_labels=target_labels,
    )
    requests = AdditionalRequests(
        metrics=resolve_expected_metrics(split_names(metric)), bound=bound, margin=margin
    )
    result = assess_files(files, options, read_options, requests)
    if as_json:
        content = result.assessment.to_dict()
        if requests != AdditionalRequests():
            content["additional"] = result.additional.to_dict()
        print_json(content)
    else:
        terminal.show_assessment(console(), result.assessment)
        terminal.show_additional(console(), result.additional)
    if html is not None:
        write_report_page(render_assessment_page(files, result), html)
    if fail_below is not None and result.assessment.headline.estimate.value < fail_below:
        raise typer.Exit(1)


def _check_fraction(value: float | None, option: str) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        hint = f" Did you mean {value / 100:g}?" if 1 < value <= 100 else ""
        raise InputError(f"{option} must be a fraction from 0 to 1; got {value:g}.{hint}")


@dataclass(frozen=True, kw_only=True)
class PredictionFiles:
    """Paths of the files to assess, and the names of their columns."""

    source: Path
    target: Path
    columns: PredictionColumns
    other_models: tuple[Path, ...] = ()
    other_models_on_source: tuple[Path, ...] = ()
    history: tuple[Path, ...] = ()
    target_labels: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return (
            self.source,
            self.target,
            *self.other_models,
            *self.other_models_on_source,
            *self.history,
            *(() if self.target_labels is None else (self.target_labels,)),
        )


@dataclass(frozen=True, eq=False)
class FileAssessment:
    """Assessment with its source and target predictions; of a large target, only a sample."""

    assessment: Assessment
    additional: AdditionalResults
    source: Predictions
    target: Predictions


@dataclass(frozen=True, eq=False)
class _AssessedRows:
    """Assessment with source and target predictions, and their segment values if requested."""

    assessment: Assessment
    source: Predictions
    target: Predictions
    segments: Array | None
    source_segments: Array | None


def assess_files(
    files: PredictionFiles,
    options: EstimationOptions,
    read_options: FileReadOptions,
    requests: AdditionalRequests,
) -> FileAssessment:
    """Read the files as a whole or in batches, and return their assessment."""
    if read_options.should_stream(files.source, files.target):
        assessed = _assess_in_batches(files, options, read_options)
    else:
        assessed = _assess_in_memory(files, options)
    assessment, source, target = assessed.assessment, assessed.source, assessed.target
    additional = run_additional(
        requests,
        source,
        target,
        temperature=assessment.temperature,
        calibration=options.calibration,  # type: ignore[arg-type]
        segment_by=assessed.segments,
        source_segment_by=assessed.source_segments,
        seed=assessment.seed,
    )
    if requests != AdditionalRequests() and target.n < assessment.n_target:
        note = f"These results are computed from a random sample of {target.n:,} target rows."
        additional = replace(additional, reasons=(*additional.reasons, note))
    return FileAssessment(assessment, additional, source, target)


def _assess_in_memory(files: PredictionFiles, options: EstimationOptions) -> _AssessedRows:
    """Return the assessment, and the predictions on source and target."""
    source_file = ScoreFile.open(files.source)
    source = source_file.predictions(files.columns, labelled=True)
    target_file = ScoreFile.open(files.target)
    target = target_file.predictions(files.columns, labelled=False)
    if files.target_labels is None:
        target_labels = _partial_labels(target_file, files.columns)
    else:
        target_labels = read_target_labels(files.target_labels, target.n)
    segments = None if options.segment_by is None else target_file.column(options.segment_by)
    source_segments = source_file.optional_column(options.segment_by)
    with progress_bar() as progress:
        assessment = oodometer.estimate(
            source,
            target,
            other_models=_load_other_models(files.other_models, files.columns),
            other_models_on_source=_load_other_models(files.other_models_on_source, files.columns),
            target_labels=target_labels,
            history=load_history(files.history, files.columns),
            methods=split_names(options.method),
            temperature=options.parse_temperature(),
            calibration=options.calibration,  # type: ignore[arg-type]
            segment_by=segments,
            source_segment_by=source_segments,
            seed=options.seed,
            replicates=options.replicates,
            progress=progress,
        )
    return _AssessedRows(assessment, source, target, segments, source_segments)


def _assess_in_batches(
    files: PredictionFiles, options: EstimationOptions, read_options: FileReadOptions
) -> _AssessedRows:
    """Return the assessment, the source predictions, and a sample of the target predictions."""
    from oodometer.assessment.streaming import EstimateOptions, assess_streamed

    for path in (*files.other_models, *files.other_models_on_source):
        raise InputError(
            f"--other-model {path.name} cannot be used if files are read in batches, because the "
            "rows of two models would have to be read side by side. Leave it out, or use smaller "
            "files."
        )
    if files.target_labels is not None:
        raise InputError(
            "--target-labels cannot be used if files are read in batches, because rows are not "
            "numbered there. Put the labels into the label column of the target and leave the "
            "other rows blank."
        )
    settings = EstimateOptions(
        methods=split_names(options.method),
        temperature=options.parse_temperature(),
        calibration=options.calibration,  # type: ignore[arg-type]
        segment_by=options.segment_by,
        seed=options.seed,
        replicates=options.replicates,
    )
    history = load_history(files.history, files.columns)
    runner = read_options.runner()
    with progress_bar() as progress:
        result = assess_streamed(
            files.source,
            files.target,
            files.columns,
            settings,
            history=history,
            runner=runner,
            progress=progress,
        )
    if result.n_labels == result.assessment.n_target:
        print_note(f"Every row of {files.target.name} has a label; the labels are ignored.")
    return _AssessedRows(
        result.assessment,
        result.source,
        result.sample,
        result.sample_segments,
        result.source_segments,
    )


def _load_other_models(
    paths: Sequence[Path], columns: PredictionColumns
) -> list[Predictions] | None:
    return [ScoreFile.open(path).predictions(columns, labelled=False) for path in paths] or None


def read_target_labels(path: Path, n_rows: int) -> list[Any]:
    """Return one label per target row; the label is None for rows without a label.

    The table has a column `row`, counted from 0, and a column `label`, like the file that
    `oodometer plan` writes. Rows of the table with a blank label are ignored.
    """
    table = ScoreFile.open(path)
    rows = table.column("row")
    labels = table.partial_labels(PredictionColumns())
    if labels is None:
        raise InputError(f"{path.name}: no row has a label. Fill in the column label.")
    if rows.dtype.kind not in "iu":
        raise InputError(f"{path.name}: the column row must be whole numbers, counted from 0.")
    outside = rows[(rows < 0) | (rows >= n_rows)]
    if len(outside):
        raise InputError(
            f"{path.name}: there is no row {outside[0]}; the target has rows 0 to {n_rows - 1}."
        )
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        raise InputError(f"{path.name}: row {values[counts > 1][0]} is listed more than once.")
    target_labels: list[Any] = [None] * n_rows
    for row, label in zip(rows.tolist(), labels, strict=True):
        target_labels[row] = None if is_blank(label) else label
    return target_labels


def _partial_labels(target: ScoreFile, columns: PredictionColumns) -> list[Any] | None:
    """Return the labels of a partly labelled target; if all rows are labelled, None with a note."""
    labels = target.partial_labels(columns)
    if labels is None or any(is_blank(label) for label in labels):
        return labels
    print_note(
        f"Every row of {target.path.name} has a label; the labels are ignored. "
        f"`oodometer evaluate none {target.path.name}` computes the accuracy."
    )
    return None


def load_history(
    paths: Sequence[Path], columns: PredictionColumns
) -> History | list[Predictions] | None:
    """Return the past domains from a table of estimates, or from files of labelled predictions."""
    if not paths:
        return None
    files = [ScoreFile.open(path) for path in paths]
    tables = [file for file in files if {"estimate", "truth"} <= set(_column_names(file))]
    if not tables:
        return [file.predictions(columns, labelled=True) for file in files]
    if len(files) > 1:
        raise InputError(
            f"{tables[0].path.name} is a table of past estimates, but --history was given "
            f"{len(files)} files. Give one such table, or one file of labelled predictions per "
            "domain."
        )
    return _read_history_table(tables[0])


def _column_names(file: ScoreFile) -> list[str]:
    content = file.content
    return list(content if isinstance(content, dict) else content.column_names)


def _read_history_table(table: ScoreFile) -> History:
    try:
        return History(
            _read_fractions(table, "estimate"),
            _read_fractions(table, "truth"),
            _read_fractions(table, "spread") if "spread" in _column_names(table) else None,
        )
    except InputError as error:
        raise InputError(f"{table.path.name}: {error}") from error


def _read_fractions(table: ScoreFile, name: str) -> Floats:
    values = table.column(name)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The column {name!r} must contain numbers from 0 to 1; got {values[:1].tolist()[0]!r}."
        ) from error


def render_assessment_page(files: PredictionFiles, result: FileAssessment) -> str:
    """Return the HTML report on an assessment."""
    from oodometer import report

    return report.assessment_page(
        result.assessment,
        result.source,
        result.target,
        additional_results=result.additional,
        title=f"{files.target.name}: estimated accuracy without labels",
        reproduce=provenance(files.paths, seed=result.assessment.seed),
    )
