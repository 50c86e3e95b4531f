"""The `oodometer estimate` command, and the functions that assess files of predictions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    add_results,
    make_requests,
)
from oodometer.assessment.result import Assessment
from oodometer.assessment.segments import combine_segments, row_chunks, time_periods
from oodometer.assessment.target_labels import missing_label_notes, read_target_labels
from oodometer.cli._html_report import (
    check_report_path,
    provenance,
    write_report_page,
)
from oodometer.cli._model_outputs import TABLE_EXTENSIONS, predict_file
from oodometer.cli._options import (
    MODEL_HELP,
    SOURCE_DATA_HELP,
    TARGET_DATA_HELP,
    AsJson,
    ColumnOptions,
    DatasetFileOptions,
    GateOptions,
    HtmlPath,
    MethodNames,
    MetricNames,
    ModelOptions,
    OtherModelPaths,
    Period,
    Quiet,
    Seed,
    SegmentColumns,
    TimeColumn,
    Verbose,
    WorkerOptions,
    given_options,
    split_members,
    split_names,
    with_option_groups,
)
from oodometer.cli._runtime import (
    check_verbosity,
    console,
    print_json,
    print_note,
    progress_bar,
)
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, NotApplicable, not_a_file
from oodometer.core.labels import is_blank
from oodometer.core.predictions import Predictions
from oodometer.data.batch_reader import (
    expand_location,
    find_files,
    is_multi_file,
    is_read_in_batches,
)
from oodometer.data.prediction_files import (
    PredictionColumns,
    ScoreFile,
    label_column_candidates,
)
from oodometer.report import terminal_assessment
from oodometer.report.verdict import required_result

if TYPE_CHECKING:
    from oodometer.assessment.conformal_interval import HistoryInput
    from oodometer.assessment.learned_reference import SourceRows
    from oodometer.assessment.reference import EstimateOptions, Reference
    from oodometer.cli._gates import GateResult
    from oodometer.parallel.runners import Runner


@dataclass(frozen=True, kw_only=True)
class EstimationOptions:
    """Options of the estimation, used by the commands `estimate` and `report`."""

    method: MethodNames = None
    segment_by: SegmentColumns = None
    time_column: TimeColumn = None
    period: Period = None
    chunk_rows: Annotated[
        int | None,
        typer.Option(
            help="Number of rows of a segment: consecutive rows of the file, or with --time-column "
            "rows in the order of time."
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
            help="Calibration of the probabilities that regime, ac, cot, cott, mlls, leap, pape and "
            "the metrics read: auto, temperature, isotonic, beta, platt or none."
        ),
    ] = "auto"
    seed: Seed = 0
    replicates: Annotated[int, typer.Option(help="Number of bootstrap replicates.")] = 200

    def check_segments(self) -> None:
        """Raise if options that define segments contradict each other."""
        if self.segment_by and (self.time_column or self.chunk_rows):
            other = "--time-column" if self.time_column else "--chunk-rows"
            raise InputError(f"Both --segment-by and {other} are given. Give only one of them.")
        if self.period is not None and self.chunk_rows is not None:
            raise InputError("Both --period and --chunk-rows are given. Give only one of them.")
        if self.period is not None and self.time_column is None:
            raise InputError("--period needs --time-column, the column with the times.")

    @property
    def segment_columns(self) -> tuple[str, ...]:
        """Columns of the segments: those of --segment-by, or of times that are cut into periods."""
        if self.chunk_rows is not None:
            return ()
        return tuple(self.segment_by or ()) if self.time_column is None else (self.time_column,)

    @property
    def used_period(self) -> str | None:
        """Length of the periods; None unless segments are periods of --time-column."""
        if self.time_column is None or self.chunk_rows is not None:
            return None
        return self.period or "day"

    def read_segments(self, file: ScoreFile, n: int) -> Array | None:
        """Return the segment of each row of a target file; None without segments."""
        if self.chunk_rows is not None:
            times = None if self.time_column is None else file.column(self.time_column)
            return row_chunks(n, self.chunk_rows, times)
        if not self.segment_columns:
            return None
        values = combine_segments([file.column(name) for name in self.segment_columns])
        return values if self.used_period is None else time_periods(values, self.used_period)

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


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """Options for further files: other models, target labels and past domains."""

    other_model: OtherModelPaths = None
    other_model_on_source: Annotated[
        list[Path] | None,
        typer.Option(
            help="Predictions of another model on the source, which correct the headline and are "
            "needed for aline-s and aline-d; repeat the option, in the same order as --other-model.",
        ),
    ] = None
    target_labels: Annotated[
        Path | None,
        typer.Option(
            help="Table with the true classes of some target rows, in the column label and the "
            "column row (counted from 0) or id: the file of oodometer plan --output, filled in."
        ),
    ] = None
    history: Annotated[
        list[Path] | None,
        typer.Option(
            help="Past domains with known accuracy, which the typical range also uses; a consistent "
            "bias corrects the headline. A table with the columns estimate and truth (optional: "
            "expected_error, spread) or, if repeated, one file of labelled predictions per domain. "
            "Folders and quoted patterns stand for their files.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions:
    """Options for results other than the estimated accuracy."""

    metric: MetricNames = None
    bound: Annotated[
        bool, typer.Option("--bound", help="Also report a lower bound on accuracy (DIS²).")
    ] = False
    margin: Annotated[
        float | None,
        typer.Option(
            help="Also test whether the loss of accuracy is smaller than this fraction "
            "(non-inferiority test)."
        ),
    ] = None

    def requests(self) -> AdditionalRequests | None:
        """Return the requested analyses; None if there are none."""
        if not self.metric and not self.bound and self.margin is None:
            return None
        return make_requests(split_names(self.metric), bound=self.bound, margin=self.margin)


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options for the content of the HTML report."""

    title: Annotated[str | None, typer.Option(help="Title of the HTML report.")] = None
    date: Annotated[
        str | None, typer.Option(help="Date to show below the title of the HTML report.")
    ] = None
    required: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="Required accuracy, as a fraction; the verdict compares the estimate and its "
            "intervals with it, and the charts of the HTML report show it as a line.",
        ),
    ] = None

    def check(self, html: Path | None) -> None:
        """Raise if the required accuracy is not a fraction or there is no page for the texts."""
        check_fraction(self.required, "--required")
        for option, value in (("--title", self.title), ("--date", self.date)):
            if value is not None and html is None:
                raise InputError(f"{option} is a text of the HTML report. Give --html FILE too.")


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Options that replace files of predictions by a model and two datasets."""

    model: Annotated[
        str | None,
        typer.Option(
            help=f"Run this model on --source-data and --target-data, instead of reading SOURCE and "
            f"TARGET. {MODEL_HELP}"
        ),
    ] = None
    source_data: Annotated[list[str] | None, typer.Option(help=SOURCE_DATA_HELP)] = None
    target_data: Annotated[str | None, typer.Option(help=TARGET_DATA_HELP)] = None

    @property
    def is_given(self) -> bool:
        """Return whether one of the options is given."""
        return bool(given_options(self))

    def check(self, source: Path | None, targets: Sequence[Path]) -> None:
        """Raise if files and a model are both given, or if parts are missing."""
        if not self.is_given:
            if source is None or not targets:
                missing = "SOURCE" if source is None else "TARGET"
                raise InputError(
                    f"{missing} is missing. Give two files of predictions, SOURCE and TARGET, or a "
                    "model with its data: --model, --source-data and --target-data."
                )
            return
        if source is not None:
            raise InputError(
                f"Both SOURCE ({source}) and {next(iter(given_options(self)))} are given. Give files of "
                "predictions, SOURCE and TARGET, or --model with --source-data and --target-data."
            )
        if self.source_data and len(self.source_data) > 1:
            raise InputError("--source-data was given more than once. Give one dataset.")
        for name in ("--model", "--source-data", "--target-data"):
            if name not in given_options(self):
                raise InputError(
                    f"{name} is missing. --model, --source-data and --target-data belong together."
                )


@dataclass(frozen=True, kw_only=True)
class AssessmentOptions:
    """All options that determine an assessment, used by the commands `estimate` and `report`."""

    model_inputs: ModelInputs
    evidence: EvidenceOptions
    estimation: EstimationOptions
    analyses: AnalysisOptions
    columns: ColumnOptions
    data: DatasetFileOptions
    model: ModelOptions
    reading: FileReadOptions

    def files(self, source: Path | None, targets: Sequence[Path]) -> PredictionFiles:
        """Return the files of predictions, or the predictions of --model on both datasets."""
        self.model_inputs.check(source, targets)
        opened: dict[Path, ScoreFile] = {}
        columns = self.columns
        if self.model_inputs.model is not None:
            self.estimation.check_segments()
            opened = self._run_model()
            source, *targets = list(opened)
            columns = replace(columns, label_column=None)  # predict_file names the column label
        else:
            _reject_model_options(self.data, self.model)
        assert source is not None
        if len(targets) > 1:
            several = {
                "--other-model": self.evidence.other_model,
                "--target-labels": self.evidence.target_labels,
            }
            reject_several_targets(several)
        return PredictionFiles.from_options(source, targets, columns, self.evidence, opened)

    def assess(self, files: PredictionFiles) -> list[FileAssessment]:
        """Return the assessments of all targets, with the requested analyses."""
        return assess_files(files, self.estimation, self.reading, self.analyses.requests())

    def _run_model(self) -> dict[Path, ScoreFile]:
        """Return the predictions of the model on both datasets, by the path of the data."""
        inputs = self.model_inputs
        if self.reading.stream:
            raise InputError(
                "--stream applies to files of predictions, not to --model. Leave it out."
            )
        assert inputs.model is not None
        model = self.model.open(inputs.model)
        options = self.estimation
        kept = [*options.segment_columns, *filter(None, [options.time_column, "id"])]
        return {
            Path(location): predict_file(
                model,
                location,
                label_column=self.columns.label_column,
                data_options=self.data,
                worker_options=self.reading,
                kept_columns=kept,
            )
            for location in (*(inputs.source_data or ()), inputs.target_data)
            if location is not None
        }


@with_option_groups
def estimate(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SOURCE", help="Predictions on labelled validation data."),
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data."),
    ] = None,
    *,
    options: AssessmentOptions,
    html: HtmlPath = None,
    page_options: PageOptions,
    gates: GateOptions,
    verbose: Verbose = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the accuracy on every TARGET from the predictions on SOURCE.

    The files are Parquet, CSV, TSV, JSON-lines, Arrow or .npz files with one column per class, named
    prob_0, prob_1, … or logit_0, logit_1, …. One list column named probs or logits is also possible
    and, for two classes, a single column named prob or logit. A file with predicted classes only has
    a column named pred; few methods apply to it. The source needs a column named label. If some
    target rows have labels, in a column named label or in --target-labels, the labels are used.

    With several TARGETs, the source is read and learned once, and a table compares the targets.

    SOURCE and TARGET can also be a folder or a quoted pattern, which is one target. Folders,
    patterns and files above 1 GB are read in batches. Mergeable estimators then use every row, and
    all other estimators use a random sample.

    With --model, --source-data and --target-data instead of SOURCE and TARGET, the model is run on
    both datasets first.

    Example:
      oodometer estimate validation.parquet new_site.parquet --html report.html

    Example:
      oodometer estimate validation.parquet january.parquet february.parquet

    Example:
      oodometer estimate validation.parquet "scores/*.parquet" --workers 4

    Example:
      oodometer estimate --model my:net --source-data a.npz --target-data b.npz
    """
    gates.check()
    check_report_path(html)
    page_options.check(html)
    check_verbosity(verbose, quiet)
    if target is not None and len(target) > 1:
        reject_several_targets({"--html": html})
    files = options.files(source, target or ())
    results = options.assess(files)
    gate = gate_results(results, gates, options.analyses.margin)
    if as_json:
        _print_results_as_json(results, gate, page_options.required)
    elif verbose:
        _show_details(results, page_options.required)
    else:
        _show_answer(results, page_options.required, quiet=quiet)
    if html is not None:
        write_report_page(render_assessment_page(files, results[0], page_options), html)
    if gate is not None:
        gate.exit()


def _reject_model_options(*groups: DatasetFileOptions | ModelOptions) -> None:
    """Raise if an option was given that describes a model or a dataset, but there is none."""
    shared = {f"--{option.name.replace('_', '-')}" for option in fields(ColumnOptions)}
    for name in (name for group in groups for name in given_options(group)):
        if name not in shared:
            raise InputError(
                f"{name} applies to --model, --source-data and --target-data. Leave it out for files "
                "of predictions."
            )


def _print_results_as_json(
    results: Sequence[FileAssessment], gate: GateResult | None, required: float | None
) -> None:
    """Print one target as an object, and several targets as a list of such objects."""
    gated = {} if gate is None else {"gate": gate.to_dict()}
    contents = [result.assessment.to_dict() for result in results]
    if required is not None:
        for content, result in zip(contents, results, strict=True):
            met = required_result(result.assessment, required)
            content["required"] = {"level": required, "result": met}
    if len(results) == 1:
        print_json(contents[0] | gated)
        return
    paths = [{"target": str(result.path)} for result in results]
    targets = [path | content for path, content in zip(paths, contents, strict=True)]
    print_json({"schema": 1, "targets": targets} | gated)


def _show_answer(results: Sequence[FileAssessment], required: float | None, *, quiet: bool) -> None:
    """Show the short answer; with `quiet`, one line per target."""
    shown = [
        terminal_assessment.TargetResult(
            target=str(result.path),
            assessment=result.assessment,
            additional=result.assessment.additional,
        )
        for result in results
    ]
    if quiet:
        for one in shown:
            terminal_assessment.show_line(
                console(), one, name_target=len(shown) > 1, required=required
            )
    elif len(shown) == 1:
        terminal_assessment.show_answer(console(), shown[0], required=required)
    else:
        terminal_assessment.show_answers(console(), shown, required=required)


def _show_details(results: Sequence[FileAssessment], required: float | None) -> None:
    """Show all details of one target, or a table that compares several targets."""
    if len(results) == 1:
        (result,) = results
        terminal_assessment.show_details(console(), result.assessment, required=required)
        _show_additional(result.assessment)
        return
    terminal_assessment.show_target_details(
        console(), {str(result.path): result.assessment for result in results}, required=required
    )
    for result in results:
        if result.assessment.additional is not None:
            terminal_assessment.show_target_name(console(), str(result.path))
            _show_additional(result.assessment)


def _show_additional(assessment: Assessment) -> None:
    if assessment.additional is not None:
        terminal_assessment.show_additional(console(), assessment.additional)


def gate_results(
    results: Sequence[FileAssessment], gates: GateOptions, margin: float | None
) -> GateResult | None:
    """Return which conditions fail for any target; None if there are no conditions.

    Reasons name the target if there are several.
    """
    if not gates.is_given and margin is None:
        return None
    from oodometer.cli._gates import GateResult, gate_assessment

    parts = [
        gate_assessment(gates, result.assessment, str(result.path) if len(results) > 1 else "")
        for result in results
    ]
    return GateResult(
        tuple(reason for part in parts for reason in part.failed),
        tuple(reason for part in parts for reason in part.undecided),
    )


def reject_several_targets(options: Mapping[str, Any]) -> None:
    """Raise if an option was given that applies to one target only."""
    for name, value in options.items():
        if value:
            raise InputError(
                f"{name} applies to one target, and several were given. Run the command once per "
                "target, or put quotes around a pattern to read its files as one target."
            )


def check_fraction(value: float | None, option: str) -> None:
    """Raise if the value of an option is not a fraction."""
    if value is not None and not 0.0 <= value <= 1.0:
        hint = f" Did you mean {value / 100:g}?" if 1 < value <= 100 else ""
        raise InputError(f"{option} must be a fraction from 0 to 1; got {value:g}.{hint}")


@dataclass(frozen=True, kw_only=True)
class PredictionFiles:
    """Paths of the files to assess, and the names of their columns."""

    source: Path
    targets: tuple[Path, ...]
    columns: PredictionColumns
    other_models: tuple[Path, ...] = ()
    other_models_on_source: tuple[Path, ...] = ()
    history: tuple[Path, ...] = ()
    target_labels: Path | None = None
    # Tables of predictions that a model made, by the path of their data.
    opened: Mapping[Path, ScoreFile] = field(default_factory=dict)

    def open(self, path: Path) -> ScoreFile:
        """Return the content of a file, or the predictions of a model on these data."""
        return self.opened[path] if path in self.opened else ScoreFile.open(path)

    @classmethod
    def from_options(
        cls,
        source: Path,
        targets: Sequence[Path],
        column_options: ColumnOptions,
        evidence: EvidenceOptions,
        opened: Mapping[Path, ScoreFile] | None = None,
    ) -> PredictionFiles:
        """Return the files that are given by the options of a command."""
        return cls(
            source=source,
            targets=tuple(targets),
            columns=column_options.prediction_columns(),
            other_models=tuple(evidence.other_model or ()),
            other_models_on_source=tuple(evidence.other_model_on_source or ()),
            history=tuple(evidence.history or ()),
            target_labels=evidence.target_labels,
            opened=opened or {},
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        return (
            self.source,
            *self.targets,
            *self.other_models,
            *self.other_models_on_source,
            *self.history,
            *(() if self.target_labels is None else (self.target_labels,)),
        )


@dataclass(frozen=True, eq=False)
class FileAssessment:
    """Assessment of one target file."""

    path: Path
    assessment: Assessment


def assess_files(
    files: PredictionFiles,
    options: EstimationOptions,
    read_options: FileReadOptions,
    requests: AdditionalRequests | None,
) -> list[FileAssessment]:
    """Read the source once and every target, as a whole or in batches; return the assessments."""
    options.check_segments()
    assessor = _FileAssessor(files, options, read_options)
    for path in files.targets:
        assessor.check_target(path)
    results = []
    for path in files.targets:
        with _named_errors(path if len(files.targets) > 1 else None):
            assessment, segments = assessor.assess(path)
            if requests is not None:
                assessment = add_results(
                    assessment, requests, assessor.reference, segment_by=segments
                )
            arguments = _plan_arguments(files, path)
            results.append(FileAssessment(path, replace(assessment, plan_arguments=arguments)))
    return results


def _plan_arguments(files: PredictionFiles, target: Path) -> tuple[str, ...]:
    """Return the target, the source and the columns as arguments of the command `oodometer plan`."""
    words = [str(target)]
    # The command `plan` reads one file of predictions, not a folder, a pattern or a dataset.
    if files.source not in files.opened and not is_multi_file(files.source):
        words += ["--source", str(files.source)]
    columns = files.columns
    thresholds = columns.thresholds
    options = {
        "--label-column": columns.label_column,
        "--prob-columns": columns.prob_columns,
        "--logit-columns": columns.logit_columns,
        "--pred-column": columns.pred_column,
        "--threshold": None if thresholds is None else ",".join(map(str, thresholds)),
        "--class-names": None if columns.class_names is None else ",".join(columns.class_names),
    }
    for option, value in options.items():
        if value is not None:
            words += [option, value]
    return tuple(words)


@contextmanager
def _named_errors(path: Path | None) -> Iterator[None]:
    """Put the name of a target before the message of an error; None leaves errors unchanged."""
    try:
        yield
    except (InputError, NotApplicable) as error:
        if path is None or path.name in str(error):
            raise
        raise type(error)(f"{path.name}: {error}") from error


@dataclass(frozen=True, eq=False)
class _FileAssessor:
    """Assessments of target files; source and history are read once."""

    files: PredictionFiles
    options: EstimationOptions
    read_options: FileReadOptions

    @cached_property
    def settings(self) -> EstimateOptions:
        from oodometer.assessment.reference import EstimateOptions

        return EstimateOptions(
            methods=split_members(self.options.method),
            temperature=self.options.parse_temperature(),
            calibration=self.options.calibration,  # type: ignore[arg-type]
            segment_by=self.options.segment_columns or None,
            period=self.options.used_period,  # type: ignore[arg-type]
            seed=self.options.seed,
            replicates=self.options.replicates,
        )

    @cached_property
    def history(self) -> HistoryInput:
        from oodometer.assessment.prediction_inputs import open_history

        return open_history(self.files.history or None, self.files.columns, argument="--history")

    @cached_property
    def runner(self) -> Runner:
        return self.read_options.runner()

    @cached_property
    def reference(self) -> Reference:
        """Return the source, read as a whole or in batches."""
        rows = self.source_rows
        other_models = self._read_other_models(self.files.other_models_on_source)
        return self.settings.learn(rows, other_models=other_models)

    @cached_property
    def source_rows(self) -> SourceRows:
        """Return the rows of the source; raise with a hint if they have no labels."""
        rows = self._read_source()
        if not rows.predictions.is_labelled:
            raise self._unlabelled_source()
        return rows

    def _unlabelled_source(self) -> InputError:
        """Return the error for a source without labels, with the most likely reason."""
        source, columns = self.files.source, self.files.columns
        problem = f"{source.name} has no labels, and the accuracy on SOURCE is needed."
        for path in self.files.targets:
            if not self.is_streamed(path) and self.files.open(path).partial_labels(columns):
                return InputError(
                    f"{problem} {path.name} has labels: SOURCE and TARGET seem to be swapped. Give "
                    "the labelled file first."
                )
        names: list[str] = []
        if source.suffix.lower() in (*TABLE_EXTENSIONS, ".npz") and not is_multi_file(source):
            names = ScoreFile.open(source).column_names  # of the data, if a model was run on them
        candidates = label_column_candidates(names)
        if candidates:
            return InputError(
                f"{problem} If the column {candidates[0]!r} has the true classes, name it with "
                f"--label-column {shlex.quote(candidates[0])}."
            )
        listed = f" Columns: {', '.join(names[:30])}." if names else ""
        return InputError(
            f"{problem}{listed} Add a column label, or name the column with --label-column."
        )

    def _read_unlabelled(self, file: ScoreFile) -> Predictions:
        from oodometer.assessment.prediction_inputs import read_unlabelled

        return read_unlabelled(file, self.files.columns, self.source_rows.predictions)

    def _read_other_models(self, paths: Sequence[Path]) -> list[Predictions] | None:
        return [self._read_unlabelled(ScoreFile.open(path)) for path in paths] or None

    def _read_source(self) -> SourceRows:
        from oodometer.assessment.source_files import read_source, whole_source

        files = self.files
        segment_by = tuple(self.options.segment_by or ())
        if files.source in files.opened:
            return whole_source(files.open(files.source), files.columns, segment_by)

        with progress_bar() as progress:
            return read_source(
                files.source,
                files.columns,
                segment_by=segment_by,
                seed=self.settings.seed,
                runner=self.runner,
                progress=progress,
            )

    def is_streamed(self, target: Path) -> bool:
        if target in self.files.opened:
            return False
        return self.read_options.should_stream(self.files.source, target)

    def check_target(self, target: Path) -> None:
        """Raise if files are missing or cannot be read in batches, before the source is read."""
        if self.is_streamed(target):
            _check_batch_inputs(self.files)
            if self.options.chunk_rows is not None:
                raise InputError(
                    "--chunk-rows cannot be used if files are read in batches. Use --time-column "
                    "with --period, or smaller files."
                )
            find_files(target)
        elif target not in self.files.opened and not target.is_file():
            raise not_a_file(target, expected="a table or an .npz file")

    def assess(self, target: Path) -> tuple[Assessment, Array | None]:
        """Return the assessment, and the segments of the target rows or of a sample of them."""
        if self.is_streamed(target):
            return self._assess_in_batches(target)
        return self._assess_in_memory(target)

    def _assess_in_memory(self, path: Path) -> tuple[Assessment, Array | None]:
        columns, reference = self.files.columns, self.reference
        file = self.files.open(path)
        target = self._read_unlabelled(file)
        if self.files.target_labels is None:
            target_labels = _partial_labels(file, columns)
        else:
            labels = ScoreFile.open(self.files.target_labels)
            target_labels = read_target_labels(labels, target, label_column=columns.label_column)
        segments = self.options.read_segments(file, target.n)
        other_models = self._read_other_models(self.files.other_models)
        history = self.history
        with progress_bar() as progress:
            assessment = reference.estimate(
                target,
                segment_by=segments,
                target_labels=target_labels,
                history=history,
                other_models=other_models,
                progress=progress,
            )
        if self.files.target_labels is not None:
            notes = missing_label_notes(self.files.target_labels, columns.label_column)
            assessment = replace(assessment, notes=(*notes, *assessment.notes))
        return assessment, segments

    def _assess_in_batches(self, path: Path) -> tuple[Assessment, Array | None]:
        from oodometer.assessment.streaming import assess_streamed

        reference, history = self.reference, self.history
        with progress_bar() as progress:
            result = assess_streamed(
                reference,
                path,
                self.files.columns,
                segment_by=self.settings.segment_columns,
                period=self.settings.period,
                history=history,
                runner=self.runner,
                progress=progress,
            )
        if result.n_labels == result.assessment.n_target:
            print_note(f"Every row of {path.name} has a label; the labels are ignored.")
        return result.assessment, result.sample_segments


def _check_batch_inputs(files: PredictionFiles) -> None:
    """Raise if there are inputs that cannot be read in batches."""
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


def _partial_labels(target: ScoreFile, columns: PredictionColumns) -> list[Any] | None:
    """Return the labels of a partly labelled target; if all rows are labelled, None with a note."""
    labels = target.partial_labels(columns)
    if labels is None or any(is_blank(label) for label in labels):
        return labels
    note = f"Every row of {target.path.name} has a label; the labels are ignored."
    command = _evaluate_command(target.path, columns)
    print_note(note if command is None else f"{note} `{command}` computes the error rate.")
    return None


def _evaluate_command(path: Path, columns: PredictionColumns) -> str | None:
    """Return the command that computes metrics from the labels; None if it lacks an option."""
    if columns != PredictionColumns(columns.label_column, class_names=columns.class_names):
        return None
    words = ["oodometer", "evaluate", "none", str(path)]
    if columns.label_column is not None:
        words += ["--label-column", columns.label_column]
    if columns.class_names is not None:
        words += ["--class-names", ",".join(columns.class_names)]
    return shlex.join(words)


def _hashable_paths(files: PredictionFiles) -> Iterator[Path]:
    """Yield the files to hash in a report; the folders of images of a model are not hashed."""
    for path in files.paths:
        if path not in files.opened or path.is_file():
            yield from expand_location(path) if path in files.history else (path,)


def render_assessment_page(
    files: PredictionFiles, result: FileAssessment, page_options: PageOptions
) -> str:
    """Return the HTML report on an assessment."""
    from oodometer import report

    inputs = result.assessment.inputs
    assert inputs is not None
    title = page_options.title or f"{result.path.name}: estimated accuracy without labels"
    return report.assessment_page(
        result.assessment,
        inputs.source,
        inputs.target,
        additional_results=result.assessment.additional,
        title=title,
        date=page_options.date,
        required=page_options.required,
        reproduce=provenance(_hashable_paths(files), seed=result.assessment.seed),
    )
