"""The `oodometer estimate` command, and the functions that assess files of predictions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from oodometer.assessment.conformal_interval import History
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    AdditionalResults,
    resolve_expected_metrics,
    run_additional,
)
from oodometer.assessment.result import Assessment
from oodometer.assessment.segments import combine_segments, row_chunks, time_periods
from oodometer.cli._html_report import (
    check_report_path,
    provenance,
    write_report_page,
)
from oodometer.cli._model_outputs import predict_file
from oodometer.cli._options import (
    MODEL_HELP,
    SOURCE_DATA_HELP,
    TARGET_DATA_HELP,
    AsJson,
    ColumnOptions,
    DatasetFileOptions,
    HtmlPath,
    MethodNames,
    MetricNames,
    ModelOptions,
    OtherModelPaths,
    Quiet,
    Seed,
    WorkerOptions,
    split_members,
    split_names,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_error, print_json, print_note, progress_bar
from oodometer.cli._target_labels import read_target_labels
from oodometer.core.array_types import Array, Floats
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
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.assessment.reference import EstimateOptions, FileReference, StreamedSource
    from oodometer.parallel.runners import Runner


@dataclass(frozen=True, kw_only=True)
class EstimationOptions:
    """Options of the estimation, used by the commands `estimate` and `report`."""

    method: MethodNames = None
    segment_by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the target; the accuracy, and each --metric, is also estimated for "
            "each of its values (for each day if the values are times). Repeat the option for the "
            "combinations of several columns."
        ),
    ] = None
    time_column: Annotated[
        str | None,
        typer.Option(
            help="Column of the target with times; the accuracy is also estimated for each --period, "
            "or for chunks of --chunk-rows rows in the order of time."
        ),
    ] = None
    period: Annotated[
        str | None,
        typer.Option(
            help="Length of the segments of --time-column: hour, day, week or month. "
            "[default: day, unless --chunk-rows is given]"
        ),
    ] = None
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
            help="Calibration of the probabilities that ac, cot, cott, mlls, leap, pape and the "
            "metrics read: auto, temperature, isotonic, beta, platt or none."
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
class ModelInputs:
    """Options of `estimate` that replace files of predictions by a model and two datasets."""

    model: Annotated[
        str | None,
        typer.Option(
            help=f"Run this model on --source-data and --target-data, instead of reading SOURCE and "
            f"TARGET. {MODEL_HELP}"
        ),
    ] = None
    source_data: Annotated[list[str] | None, typer.Option(help=SOURCE_DATA_HELP)] = None
    target_data: Annotated[str | None, typer.Option(help=TARGET_DATA_HELP)] = None

    def check(self, source: Path | None, targets: Sequence[Path]) -> None:
        """Raise if files and a model are both given, or if parts are missing."""
        given = {
            "--model": self.model,
            "--source-data": self.source_data,
            "--target-data": self.target_data,
        }
        if not any(given.values()):
            if source is None or not targets:
                missing = "SOURCE" if source is None else "TARGET"
                raise InputError(
                    f"{missing} is missing. Give two files of predictions, SOURCE and TARGET, or a "
                    "model with its data: --model, --source-data and --target-data."
                )
            return
        if source is not None:
            first = next(name for name, value in given.items() if value)
            raise InputError(
                f"Both SOURCE ({source}) and {first} are given. Give files of predictions, SOURCE and "
                "TARGET, or --model with --source-data and --target-data."
            )
        if self.source_data and len(self.source_data) > 1:
            raise InputError("--source-data was given more than once. Give one dataset.")
        for name, value in given.items():
            if not value:
                raise InputError(
                    f"{name} is missing. --model, --source-data and --target-data belong together."
                )


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
    model_inputs: ModelInputs,
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
            help="Table with the true classes of some target rows, in the column label and the "
            "column row (counted from 0) or id: the file of oodometer plan --output, filled in."
        ),
    ] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            help="Past domains with known accuracy, from which the typical range is computed: a "
            "table with the columns estimate and truth, or, if repeated, one file of labelled "
            "predictions per domain. Folders and quoted patterns stand for their files.",
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
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    read_options: FileReadOptions,
    html: HtmlPath = None,
    fail_below: Annotated[
        float | None, typer.Option(help="Exit with code 1 if the headline is below this fraction.")
    ] = None,
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

    SOURCE and TARGET can also be a folder or a quoted pattern, which is one target. Folders, patterns and files above
    1 GB are read in batches. Mergeable estimators then use every row, and all other estimators use
    a random sample.

    Example:
      oodometer estimate validation.parquet new_site.parquet --html report.html

    Example:
      oodometer estimate validation.parquet january.parquet february.parquet

    With --model, --source-data and --target-data instead of SOURCE and TARGET, the model is run on
    both datasets first.

    Example:
      oodometer estimate validation.parquet "scores/*.parquet" --workers 4

    Example:
      oodometer estimate --model my:net --source-data a.npz --target-data b.npz
    """
    _check_fraction(fail_below, "--fail-below")
    check_report_path(html)
    model_inputs.check(source, target or ())
    opened: dict[Path, ScoreFile] = {}
    if model_inputs.model is not None:
        options.check_segments()
        opened = _run_model(
            model_inputs, column_options, data_options, model_options, read_options, options
        )
        source, *target = list(opened)
    else:
        _reject_model_options(data_options, model_options)
    assert source is not None
    assert target is not None
    if len(target) > 1:
        _reject_several_targets(
            {"--html": html, "--other-model": other_model, "--target-labels": target_labels}
        )
    files = PredictionFiles(
        source=source,
        targets=tuple(target),
        columns=column_options.prediction_columns(),
        other_models=tuple(other_model or ()),
        other_models_on_source=tuple(other_model_on_source or ()),
        history=tuple(history or ()),
        target_labels=target_labels,
        opened=opened,
    )
    requests = None
    if metric or bound or margin is not None:
        metrics = resolve_expected_metrics(split_names(metric))
        requests = AdditionalRequests(metrics=metrics, bound=bound, margin=margin)
    results = assess_files(files, options, read_options, requests)
    show = _print_results_as_json if as_json else _show_results
    show(results)
    if html is not None:
        write_report_page(render_assessment_page(files, results[0]), html)
    if fail_below is not None:
        _exit_if_below(results, fail_below)


def _run_model(
    inputs: ModelInputs,
    columns: ColumnOptions,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    read_options: FileReadOptions,
    options: EstimationOptions,
) -> dict[Path, ScoreFile]:
    """Return the predictions of the model on both datasets, by the path of the data."""
    if read_options.stream:
        raise InputError("--stream applies to files of predictions, not to --model. Leave it out.")
    assert inputs.model is not None
    model = model_options.open(inputs.model)
    kept = [*options.segment_columns, *filter(None, [options.time_column, "id"])]
    return {
        Path(location): predict_file(
            model,
            location,
            label_column=columns.label_column,
            data_options=data_options,
            worker_options=read_options,
            kept_columns=kept,
        )
        for location in (*(inputs.source_data or ()), inputs.target_data)
        if location is not None
    }


def _reject_model_options(*groups: DatasetFileOptions | ModelOptions) -> None:
    """Raise if an option was given that describes a model or a dataset, but there is none."""
    for group in groups:
        for option in fields(group):
            shared = option.name in {each.name for each in fields(ColumnOptions)}
            if not shared and getattr(group, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise InputError(
                    f"--{name} applies to --model, --source-data and --target-data. Leave it out for "
                    "files of predictions."
                )


def _print_results_as_json(results: Sequence[FileAssessment]) -> None:
    """Print one target as an object, and several targets as a list of such objects."""
    contents = []
    for result in results:
        content = result.assessment.to_dict()
        if result.additional is not None:
            content["additional"] = result.additional.to_dict()
        contents.append(content)
    if len(results) == 1:
        print_json(contents[0])
        return
    paths = [{"target": str(result.path)} for result in results]
    targets = [path | content for path, content in zip(paths, contents, strict=True)]
    print_json({"schema": 1, "targets": targets})


def _show_results(results: Sequence[FileAssessment]) -> None:
    """Show all details of one target, or a table that compares several targets."""
    if len(results) == 1:
        terminal.show_assessment(console(), results[0].assessment)
        if results[0].additional is not None:
            terminal.show_additional(console(), results[0].additional)
        return
    terminal.show_targets(console(), {str(result.path): result.assessment for result in results})
    for result in results:
        if result.additional is not None:
            terminal.show_target_name(console(), str(result.path))
            terminal.show_additional(console(), result.additional)


def _exit_if_below(results: Sequence[FileAssessment], fail_below: float) -> None:
    """Exit with code 1 and name the targets on standard error if any headline is below a limit."""
    below = [
        f"{result.path} ({100 * result.assessment.headline.estimate.value:.1f} %)"
        for result in results
        if result.assessment.headline.estimate.value < fail_below
    ]
    if below:
        print_error(f"below {100 * fail_below:g} %: {', '.join(below)}")
        raise typer.Exit(1)


def _reject_several_targets(options: Mapping[str, Any]) -> None:
    """Raise if an option was given that applies to one target only."""
    for name, value in options.items():
        if value:
            raise InputError(
                f"{name} applies to one target, and several were given. Run the command once per "
                "target, or put quotes around a pattern to read its files as one target."
            )


def _check_fraction(value: float | None, option: str) -> None:
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
    """Assessment of one target file, with the predictions; of a large target, only a sample."""

    path: Path
    assessment: Assessment
    additional: AdditionalResults | None
    source: Predictions
    target: Predictions


@dataclass(frozen=True, eq=False)
class _AssessedTarget:
    """Assessment of a target with its predictions, or a sample of them, and their segments."""

    assessment: Assessment
    target: Predictions
    segments: Array | None


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
            assessed = assessor.assess(path)
            additional = assessor.additional(assessed, requests)
            results.append(
                FileAssessment(
                    path, assessed.assessment, additional, assessor.source, assessed.target
                )
            )
    return results


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
    def history(self) -> History | list[Predictions] | None:
        return load_history(self.files.history, self.files.columns)

    @cached_property
    def runner(self) -> Runner:
        return self.read_options.runner()

    @cached_property
    def reference(self) -> FileReference:
        """Return the source, read as a whole or in batches."""
        from oodometer.assessment.reference import FileReference

        rows = self.source_rows
        other_models = self._read_other_models(self.files.other_models_on_source)
        return FileReference.learn(
            self.files.source, rows, self.settings, other_models=other_models
        )

    @cached_property
    def source_rows(self) -> StreamedSource:
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
        if source in self.files.opened or not is_multi_file(source):
            names = self.files.open(source).column_names
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
        """Return predictions on target rows; predicted classes are numbered as in the source."""
        columns = self.files.columns
        if columns.class_names is not None or not file.has_classes_only(columns):
            return file.predictions(columns, labelled=False)
        source = self.source_rows.predictions
        names = source.class_names or tuple(map(str, range(source.k)))
        try:
            return file.predictions(replace(columns, class_names=names), labelled=False)
        except InputError as error:
            raise InputError(
                f"{error} If the source lacks this class, name all classes with --class-names."
            ) from error

    def _read_other_models(self, paths: Sequence[Path]) -> list[Predictions] | None:
        return [self._read_unlabelled(ScoreFile.open(path)) for path in paths] or None

    def _read_source(self) -> StreamedSource:
        from oodometer.assessment.reference import whole_source

        files = self.files
        if files.source in files.opened or not is_read_in_batches(files.source):
            segment_by = self.options.segment_by or ()
            return whole_source(files.open(files.source), files.columns, segment_by)
        from oodometer.assessment.streaming import read_source

        with progress_bar() as progress:
            return read_source(
                files.source, files.columns, self.settings, runner=self.runner, progress=progress
            )

    @property
    def source(self) -> Predictions:
        return self.reference.rows.predictions

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

    def additional(
        self, assessed: _AssessedTarget, requests: AdditionalRequests | None
    ) -> AdditionalResults | None:
        """Return the results of the requested optional analyses; None if there are no requests."""
        if requests is None:
            return None
        assessment, target = assessed.assessment, assessed.target
        results = run_additional(
            requests, self.reference.reference, target, segment_by=assessed.segments
        )
        if target.n < assessment.n_target:
            note = f"These results are computed from a random sample of {target.n:,} target rows."
            results = replace(results, reasons=(*results.reasons, note))
        return results

    def assess(self, target: Path) -> _AssessedTarget:
        """Return the assessment, and the predictions on the target or a sample of them."""
        if self.is_streamed(target):
            return self._assess_in_batches(target)
        return self._assess_in_memory(target)

    def _assess_in_memory(self, path: Path) -> _AssessedTarget:
        columns, reference = self.files.columns, self.reference.reference
        file = self.files.open(path)
        target = self._read_unlabelled(file)
        if self.files.target_labels is None:
            target_labels = _partial_labels(file, columns)
        else:
            target_labels = read_target_labels(self.files.target_labels, target, columns)
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
        return _AssessedTarget(assessment, target, segments)

    def _assess_in_batches(self, path: Path) -> _AssessedTarget:
        from oodometer.assessment.streaming import assess_streamed

        source, history = self.reference, self.history
        with progress_bar() as progress:
            result = assess_streamed(
                source,
                path,
                self.files.columns,
                self.settings,
                history=history,
                runner=self.runner,
                progress=progress,
            )
        if result.n_labels == result.assessment.n_target:
            print_note(f"Every row of {path.name} has a label; the labels are ignored.")
        return _AssessedTarget(result.assessment, result.sample, result.sample_segments)


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


def load_history(
    paths: Sequence[Path], columns: PredictionColumns
) -> History | list[Predictions] | None:
    """Return the past domains from a table of estimates, or from files of labelled predictions."""
    if not paths:
        return None
    files = [ScoreFile.open(path) for location in paths for path in expand_location(location)]
    tables = [file for file in files if {"estimate", "truth"} <= set(file.column_names)]
    if not tables:
        return [_read_past_domain(file, columns) for file in files]
    if len(files) > 1:
        raise InputError(
            f"{tables[0].path.name} is a table of past estimates, but --history was given "
            f"{len(files)} files. Give one such table, or one file of labelled predictions per "
            "domain."
        )
    return _read_history_table(tables[0])


def _read_past_domain(file: ScoreFile, columns: PredictionColumns) -> Predictions:
    past = file.predictions(columns, labelled=True)
    if not past.is_labelled:
        raise InputError(
            f"--history {file.path.name} has no labels. Give past domains with a label column, or a "
            "table with the columns estimate and truth."
        )
    return past


def _read_history_table(table: ScoreFile) -> History:
    try:
        return History(
            _read_fractions(table, "estimate"),
            _read_fractions(table, "truth"),
            *(
                _read_fractions(table, name) if name in table.column_names else None
                for name in ("spread", "expected_error")
            ),
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


def _hashable_paths(files: PredictionFiles) -> Iterator[Path]:
    """Yield the files to hash in a report; the folders of images of a model are not hashed."""
    for path in files.paths:
        if path not in files.opened or path.is_file():
            yield from expand_location(path) if path in files.history else (path,)


def render_assessment_page(files: PredictionFiles, result: FileAssessment) -> str:
    """Return the HTML report on an assessment."""
    from oodometer import report

    return report.assessment_page(
        result.assessment,
        result.source,
        result.target,
        additional_results=result.additional,
        title=f"{result.path.name}: estimated accuracy without labels",
        reproduce=provenance(_hashable_paths(files), seed=result.assessment.seed),
    )
