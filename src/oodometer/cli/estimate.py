"""The command `estimate`, and what `report` shares with it: files of outputs, assessed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import oodometer
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    AdditionalResults,
    run_additional,
)
from oodometer.assessment.result import Assessment
from oodometer.cli._history_option import HistoryPaths, load_history
from oodometer.cli._options import (
    AsJson,
    HtmlPath,
    Seed,
    check_report_path,
    console,
    error_console,
    print_json,
    print_note,
)
from oodometer.cli._provenance import provenance, write_report_page
from oodometer.cli._streaming_options import (
    DEFAULT_READ_OPTIONS,
    FileReadOptions,
    ReaderScheduler,
    ReaderWorkers,
    StreamFiles,
    reject_other_models,
)
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.validation import is_blank
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.report import terminal

OtherModelPaths = Annotated[
    list[Path] | None,
    typer.Option(help="Another model's outputs on the target, trained alike (for gde)."),
]
OtherModelSourcePaths = Annotated[
    list[Path] | None,
    typer.Option(help="The other models' outputs on the source, in the same order (for aline)."),
]
MethodNames = Annotated[
    list[str] | None, typer.Option(help="Just this method; may be given again.")
]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of the true classes. [default: label]")
]
ProbColumns = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of probabilities.")
]
LogitColumns = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of logits.")
]
ScoreClassNames = Annotated[
    str | None, typer.Option(help="Class names in order, between commas, for a list column.")
]
SegmentColumn = Annotated[
    str | None, typer.Option(help="Also an estimate for every value (or day) of this column.")
]
TemperatureText = Annotated[str, typer.Option("--temperature", help="'fit', 'none' or a number.")]
Replicates = Annotated[int, typer.Option(help="Of the bootstrap.")]


def estimate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Outputs on labelled validation data.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Outputs on the new data.")],
    second: OtherModelPaths = None,
    second_source: OtherModelSourcePaths = None,
    history: HistoryPaths = None,
    metrics: Annotated[
        bool,
        typer.Option("--metrics", help="Also precision, recall, F1, AUROC and average precision."),
    ] = False,
    bound: Annotated[
        bool, typer.Option("--bound", help="Also an accuracy that it should not be under (DIS²).")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(help="Also a verdict: is at most this fraction of accuracy lost?"),
    ] = None,
    method: MethodNames = None,
    labels: LabelColumn = None,
    probs: ProbColumns = None,
    logits: LogitColumns = None,
    classes: ScoreClassNames = None,
    by: SegmentColumn = None,
    temperature: TemperatureText = "fit",
    seed: Seed = 0,
    replicates: Replicates = 200,
    stream: StreamFiles = False,
    workers: ReaderWorkers = 0,
    scheduler: ReaderScheduler = None,
    as_json: AsJson = False,
    html: HtmlPath = None,
    fail_below: Annotated[
        float | None, typer.Option(help="Exit with 1 if the headline is under this fraction.")
    ] = None,
) -> None:
    """Estimate the accuracy on TARGET from the outputs on SOURCE.

    Files are Parquet, CSV, Arrow or .npz, with columns prob_0, prob_1, … (or logit_…, or one list
    column probs or logits, or, of two classes, one column prob or logit) and, in the source, label.
    Where some rows of the target have a label too and others a blank, they are used.

    Either may be a folder or a pattern between quotes. Folders, patterns and files above 1 GB are
    read in pieces: methods whose sums add up see every row, the others a sample, as is told.

    Example: oodometer estimate validation.parquet new_site.parquet --html report.html

    Example: oodometer estimate validation.parquet "scores/*.parquet" --workers 4
    """
    _check_fraction(fail_below, "--fail-below")
    check_report_path(html)
    columns = parse_columns(labels, probs, logits, classes)
    others = AdditionalFiles(tuple(second or ()), tuple(second_source or ()), tuple(history or ()))
    files = AssessmentFiles(source, target, others, columns, by)
    reading = FileReadOptions(stream, workers, scheduler)
    asked = AdditionalRequests(metrics, bound, margin)
    settings = AssessmentSettings(method, temperature, seed, replicates, asked, reading)
    found = assess_files(files, settings)
    if as_json:
        beside = (
            {"more": found.additional.to_dict()}
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
    """Files beside the two: other models' outputs on either side, and past domains."""

    other_models: tuple[Path, ...] = ()
    other_models_on_source: tuple[Path, ...] = ()
    history: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.other_models, *self.other_models_on_source, *self.history)


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
    labels: str | None, probs: str | None, logits: str | None, classes: str | None
) -> PredictionColumns:
    """What the user calls things."""
    return PredictionColumns(
        labels, probs, logits, None if classes is None else tuple(classes.split(","))
    )


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
            target_labels=_partial_labels(opened, files.columns),
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
    heat = _parse_temperature(settings.temperature)
    asked = OfFiles(settings.methods, heat, files.segment_by, settings.seed, settings.replicates)
    past = load_history(files.additional.history, files.columns)
    found = settings.read_options.assess(files.source, files.target, files.columns, asked, past)
    return found.assessment, found.source, found.sample


def _load_other_models(
    paths: tuple[Path, ...], columns: PredictionColumns
) -> list[Predictions] | None:
    return [ScoreFile.open(path).predictions(columns, labelled=False) for path in paths] or None


def _partial_labels(target: ScoreFile, columns: PredictionColumns) -> list[Any] | None:
    """The labels of a target that has some; where every row has one, nothing was left to tell."""
    found = target.partial_labels(columns)
    if found is None or any(is_blank(value) for value in found):
        return found
    print_note(
        f"Every row of {target.path.name} has a label; they are not looked at. "
        f"`oodometer metrics none {target.path.name}` tells the accuracy."
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
