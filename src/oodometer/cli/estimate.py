"""The command `estimate`, and what `report` shares with it: files of outputs, assessed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import oodometer
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    AdditionalResults,
    resolve_expected_metrics,
    run_additional,
)
from oodometer.assessment.result import Assessment
from oodometer.cli._options import (
    AsJson,
    ClassNamesText,
    HistoryPaths,
    HtmlPath,
    LabelColumn,
    LogitColumns,
    MethodNames,
    MetricNames,
    OtherModelPaths,
    ProbColumns,
    Replicates,
    Scheduler,
    Seed,
    SegmentColumn,
    Temperature,
    Workers,
    check_report_path,
    console,
    error_console,
    load_history,
    print_json,
    print_note,
    split_names,
)
from oodometer.cli._provenance import provenance, write_report_page
from oodometer.cli._streaming_options import (
    DEFAULT_READ_OPTIONS,
    FileReadOptions,
    StreamFiles,
    reject_other_models,
)
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.validation import is_blank
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.report import terminal

OtherModelSourcePaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--other-model-on-source",
        help="Predictions of the other models on the source, in the same order (for aline).",
    ),
]
TargetLabelsPath = Annotated[
    Path | None,
    typer.Option(
        help="Table with columns row (from 0) and label: the true classes of some target rows."
    ),
]


def estimate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Predictions on labelled validation data.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data.")
    ],
    other_model: OtherModelPaths = None,
    other_model_on_source: OtherModelSourcePaths = None,
    target_labels: TargetLabelsPath = None,
    history: HistoryPaths = None,
    method: MethodNames = None,
    metric: MetricNames = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Also report a lower bound on accuracy (DIS²).")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Also test whether at most this fraction of accuracy is lost (non-inferiority)."
        ),
    ] = None,
    label_column: LabelColumn = None,
    prob_columns: ProbColumns = None,
    logit_columns: LogitColumns = None,
    class_names: ClassNamesText = None,
    segment_by: SegmentColumn = None,
    temperature: Temperature = "fit",
    seed: Seed = 0,
    replicates: Replicates = 200,
    stream: StreamFiles = False,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    html: HtmlPath = None,
    fail_below: Annotated[
        float | None, typer.Option(help="Exit with code 1 if the headline is below this fraction.")
    ] = None,
) -> None:
    """Estimate the accuracy on TARGET from the outputs on SOURCE.

    Files are Parquet, CSV, Arrow or .npz, with columns prob_0, prob_1, … (or logit_…, or one list
    column probs or logits, or, of two classes, one column prob or logit) and, in the source, label.
    Labels of some target rows, in its label column or in --target-labels, are used.

    Either may be a folder or a quoted pattern. Folders, patterns and files above 1 GB are read in
    batches: estimators whose sums add up read every row, the others a random sample.

    Example: oodometer estimate validation.parquet new_site.parquet --html report.html

    Example: oodometer estimate validation.parquet "scores/*.parquet" --workers 4
    """
    _check_fraction(fail_below, "--fail-below")
    check_report_path(html)
    columns = parse_columns(label_column, prob_columns, logit_columns, class_names)
    others = AdditionalFiles(
        tuple(other_model or ()),
        tuple(other_model_on_source or ()),
        tuple(history or ()),
        target_labels,
    )
    files = AssessmentFiles(source, target, others, columns, segment_by)
    reading = FileReadOptions(stream, workers, scheduler)
    requests = AdditionalRequests(resolve_expected_metrics(split_names(metric)), bound, margin)
    settings = AssessmentSettings(
        split_names(method), temperature, seed, replicates, requests, reading
    )
    found = assess_files(files, settings)
    if as_json:
        beside = (
            {"additional": found.additional.to_dict()}
            if settings.requests != AdditionalRequests()
            else {}
        )
        print_json({**found.assessment.to_dict(), **beside})
    else:
        terminal.show_assessment(console(), found.assessment)
        terminal.show_additional(console(), found.additional)
    if html is not None:
        write_report_page(render_assessment_page(files, found), html)
    if fail_below is not None and found.assessment.headline.estimate.value < fail_below:
        raise typer.Exit(1)


@dataclass(frozen=True)
class AdditionalFiles:
    """Other models' predictions on either side, past domains, and labels of some target rows."""

    other_models: tuple[Path, ...] = ()
    other_models_on_source: tuple[Path, ...] = ()
    history: tuple[Path, ...] = ()
    target_labels: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        labels = () if self.target_labels is None else (self.target_labels,)
        return (*self.other_models, *self.other_models_on_source, *self.history, *labels)


@dataclass(frozen=True)
class AssessmentFiles:
    """Which files are assessed, and what their columns are called."""

    source: Path
    target: Path
    additional: AdditionalFiles
    columns: PredictionColumns
    segment_by: str | None


@dataclass(frozen=True)
class AssessmentSettings:
    """How they are assessed, as the command has it."""

    methods: list[str] | None
    temperature: str
    seed: int
    replicates: int
    requests: AdditionalRequests = field(default_factory=AdditionalRequests)
    read_options: FileReadOptions = DEFAULT_READ_OPTIONS


@dataclass(frozen=True, eq=False)
class FileAssessment:
    """What was found, and of which predictions."""

    assessment: Assessment
    additional: AdditionalResults
    source: Predictions
    target: Predictions


def parse_columns(
    label_column: str | None,
    prob_columns: str | None,
    logit_columns: str | None,
    class_names: str | None,
) -> PredictionColumns:
    """Return the columns that the options name."""
    names = None if class_names is None else tuple(class_names.split(","))
    return PredictionColumns(label_column, prob_columns, logit_columns, names)


def assess_files(files: AssessmentFiles, settings: AssessmentSettings) -> FileAssessment:
    """Read the files and estimate."""
    in_pieces = settings.read_options.should_stream(files.source, files.target)
    found, source, target = (_assess_in_batches if in_pieces else _assess_in_memory)(
        files, settings
    )
    asked = settings.requests
    beside = run_additional(asked, source, target, temperature=found.temperature, seed=found.seed)
    if asked != AdditionalRequests() and target.n < found.n_target:
        told = f"All of this is of a random sample of {target.n:,} rows of the target."
        beside = replace(beside, reasons=(*beside.reasons, told))
    return FileAssessment(found, beside, source, target)


AssessmentAndPredictions = tuple[Assessment, Predictions, Predictions]


def _assess_in_memory(
    files: AssessmentFiles, settings: AssessmentSettings
) -> AssessmentAndPredictions:
    """What was found, and of what rows."""
    source = ScoreFile.open(files.source).predictions(files.columns, labelled=True)
    opened = ScoreFile.open(files.target)
    target = opened.predictions(files.columns, labelled=False)
    others = files.additional
    with terminal.progress_bar(error_console()) as progress:
        found = oodometer.estimate(
            source,
            target,
            other_models=_load_other_models(others.other_models, files.columns),
            other_models_on_source=_load_other_models(others.other_models_on_source, files.columns),
            target_labels=_target_labels(opened, files, target.n),
            history=load_history(others.history, files.columns),
            methods=settings.methods,
            temperature=_parse_temperature(settings.temperature),
            segment_by=None if files.segment_by is None else opened.column(files.segment_by),
            seed=settings.seed,
            replicates=settings.replicates,
            progress=progress,
        )
    return found, source, target


def _assess_in_batches(
    files: AssessmentFiles, settings: AssessmentSettings
) -> AssessmentAndPredictions:
    """The same of files that are not read whole; of the target, a sample."""
    from oodometer.assessment.streaming import EstimateOptions as OfFiles

    reject_other_models((*files.additional.other_models, *files.additional.other_models_on_source))
    if files.additional.target_labels is not None:
        raise InputError(
            "--target-labels can't be used where files are read in batches, because rows are not "
            "numbered there. Put the labels into the target's label column, and leave the others "
            "blank."
        )
    heat = _parse_temperature(settings.temperature)
    asked = OfFiles(settings.methods, heat, files.segment_by, settings.seed, settings.replicates)
    past = load_history(files.additional.history, files.columns)
    found = settings.read_options.assess(files.source, files.target, files.columns, asked, past)
    return found.assessment, found.source, found.sample


def _load_other_models(
    paths: tuple[Path, ...], columns: PredictionColumns
) -> list[Predictions] | None:
    return [ScoreFile.open(path).predictions(columns, labelled=False) for path in paths] or None


def _target_labels(target: ScoreFile, files: AssessmentFiles, n_rows: int) -> list[Any] | None:
    """Return the labels of some target rows: from a file of their own, or from the target's."""
    if files.additional.target_labels is None:
        return _partial_labels(target, files.columns)
    return read_target_labels(files.additional.target_labels, n_rows)


def read_target_labels(path: Path, n_rows: int) -> list[Any]:
    """Return one label per target row, None for rows that the table does not label.

    The table has a column `row`, counted from 0, and a column `label`, as `oodometer plan` writes
    it; blank labels are left out.
    """
    table = ScoreFile.open(path)
    rows, labels = table.column("row"), table.partial_labels(PredictionColumns())
    if labels is None:
        raise InputError(f"{path.name}: no row has a label. Fill in the column label.")
    if rows.dtype.kind not in "iu":
        raise InputError(f"{path.name}: the column row must be whole numbers, counted from 0.")
    outside = rows[(rows < 0) | (rows >= n_rows)]
    if len(outside):
        raise InputError(
            f"{path.name}: there is no row {outside[0]}; the target has rows 0 to {n_rows - 1}."
        )
    if len(np.unique(rows)) < len(rows):
        values, counts = np.unique(rows, return_counts=True)
        raise InputError(f"{path.name}: row {values[counts > 1][0]} stands more than once.")
    found: list[Any] = [None] * n_rows
    for row, label in zip(rows.tolist(), labels, strict=True):
        found[row] = None if is_blank(label) else label
    return found


def _partial_labels(target: ScoreFile, columns: PredictionColumns) -> list[Any] | None:
    """The labels of a target that has some; where every row has one, nothing was left to tell."""
    found = target.partial_labels(columns)
    if found is None or any(is_blank(value) for value in found):
        return found
    print_note(
        f"Every row of {target.path.name} has a label; they are not looked at. "
        f"`oodometer evaluate none {target.path.name}` computes the accuracy."
    )
    return None


def render_assessment_page(files: AssessmentFiles, result: FileAssessment) -> str:
    """The report."""
    from oodometer import report

    return report.assessment_page(
        result.assessment,
        result.source,
        result.target,
        additional_results=result.additional,
        title=f"{files.target.name}: how accurate without labels?",
        reproduce=provenance(
            [files.source, files.target, *files.additional.paths], seed=result.assessment.seed
        ),
    )


def _check_fraction(value: float | None, option: str) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        hint = f" Did you mean {value / 100:g}?" if 1 < value <= 100 else ""
        raise InputError(f"{option} is a fraction from 0 to 1; got {value:g}.{hint}")


def _parse_temperature(text: str) -> Any:
    if text in ("fit", "none"):
        return "fit" if text == "fit" else None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"--temperature is 'fit', 'none' or a number above 0; got {text!r}."
        ) from error
