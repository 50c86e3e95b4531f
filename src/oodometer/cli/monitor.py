"""The `oodometer monitor` commands, which watch the accuracy of a model over time."""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oodometer.cli._gates import gate_monitor
from oodometer.cli._html_report import check_report_path, provenance, write_report_page
from oodometer.cli._options import (
    AsJson,
    ColumnOptions,
    GateOptions,
    HtmlPath,
    OutputPath,
    Period,
    Quiet,
    Seed,
    SegmentColumns,
    TimeColumn,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_error, print_json, print_note
from oodometer.cli.estimate import PageOptions
from oodometer.core.errors import InputError
from oodometer.core.jsonable import to_jsonable
from oodometer.data.atomic import atomic_write
from oodometer.data.batch_reader import expand_location
from oodometer.report.terminal import text_line

if TYPE_CHECKING:
    from oodometer.monitor import AuditRow, MonitoredBatch, MonitorStatus
    from oodometer.monitor._monitor import Monitor

app = typer.Typer(
    help="Watch the accuracy of a model over time, with a bound on false alarms.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MonitorFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the monitor.")]
BatchPaths = Annotated[
    list[Path],
    typer.Argument(metavar="BATCH", help="Files with the outputs of the model on new rows."),
]
SourcePath = Annotated[
    Path,
    typer.Option(
        help="Predictions on labelled data, which calibrate the confidences of plan, or from "
        "which a monitor learns."
    ),
]


@dataclass(frozen=True, kw_only=True)
class BaselineOptions:
    """Options that are fixed when a monitor is created."""

    alarm_margin: Annotated[
        float, typer.Option(help="Fall of the mean score that is tolerated, as a fraction.")
    ] = 0.01
    false_alarms: Annotated[
        float,
        typer.Option(
            help="Largest probability of ever raising an alarm if nothing changes, as a fraction."
        ),
    ] = 0.01
    watched_score: Annotated[
        str,
        typer.Option(
            help="Score whose mean is watched: atc (indicator of ATC) or confidence (calibrated)."
        ),
    ] = "atc"
    form: Annotated[
        str,
        typer.Option(
            help="Form of the test: batch (means of batches), or row (exact for independent rows)."
        ),
    ] = "batch"
    audit_share: Annotated[
        float, typer.Option(help="Share of the rows of each batch to label, as a fraction.")
    ] = 0.01
    raised_audit_share: Annotated[
        float,
        typer.Option(help="Share of the rows to label while the evidence is high, as a fraction."),
    ] = 0.1
    keep_rows: Annotated[
        bool, typer.Option("--keep-rows", help="Also store the rows of the source.")
    ] = False

    def create(
        self,
        folder: Path,
        source: Path,
        columns: ColumnOptions,
        segment_by: Sequence[str] | None,
        seed: int,
    ) -> Monitor:
        """Create the monitor, or open it if it was created in the same way before."""
        from oodometer.monitor import Monitor

        return Monitor.create(
            folder,
            source,
            alarm_margin=self.alarm_margin,
            false_alarms=self.false_alarms,
            score=self.watched_score,  # type: ignore[arg-type]
            form=self.form,  # type: ignore[arg-type]
            segment_by=list(segment_by) if segment_by else None,
            audit_shares=(self.audit_share, self.raised_audit_share),
            columns=columns.prediction_columns(),
            keep_rows=self.keep_rows,
            seed=seed,
            exist_ok=True,
        )


@app.command("init")
@with_option_groups
def init(
    folder: MonitorFolder,
    *,
    source: SourcePath,
    baseline: BaselineOptions,
    segment_by: SegmentColumns = None,
    columns: ColumnOptions,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Create a monitor in the folder DIR from labelled predictions.

    What the estimators learned is stored, not the rows. The watched score, its level, the margin and
    the false-alarm rate are fixed. The level allows for the error of the source, whose cost is
    printed. With --segment-by, each segment of the source has a test of its own.

    Example:
      oodometer monitor init watch --source validation.parquet
    """
    with baseline.create(folder, source, columns, segment_by, seed) as monitor:
        level = monitor.baseline
        if as_json:
            print_json(
                {"schema": 1, "folder": str(folder), "settings": monitor.settings,
                 "level": level.level, "cost": level.cost, **asdict(level)}
            )  # fmt: skip
            return
        _show(
            f"An alarm is raised if the mean score falls below {100 * level.level:.1f} %: "
            f"{100 * level.source_mean:.1f} % on the source, minus {100 * level.cost:.1f} points for "
            f"the size of the source ({level.n_source:,} rows), minus {100 * level.margin:g} "
            f"points of margin."
        )


@app.command("add")
def add(
    folder: MonitorFolder,
    batch: BatchPaths,
    *,
    time: Annotated[
        str | None,
        typer.Option(
            help="Time of the batch, such as 2026-03-01. [default: the date in the file name]"
        ),
    ] = None,
    segment_by: SegmentColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add batches to a monitor; a batch with the same content is not counted again.

    A folder or a quoted pattern stands for its files, in the order of their names.

    Example:
      oodometer monitor add watch scores_2026-03-01.parquet
    """
    files = _batch_files(batch)
    if time is not None and len(files) > 1:
        raise InputError("--time applies to one batch, and several were given.")
    with _open(folder) as monitor:
        added = [
            monitor.add(path, time=time, segment_by=segment_by or None) for path in files
        ]  # fmt: skip
    if as_json:
        print_json({"schema": 1, "batches": to_jsonable(added)})
        return
    for each in added:
        _show_batch(each)


@app.command("label")
def label(
    folder: MonitorFolder,
    labels_file: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="Table with the columns row (or id) and label, and batch for audited rows.",
        ),
    ],
    *,
    batch: Annotated[
        Path | None,
        typer.Option(help="File of the batch, read again, if rows outside its sample have labels."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add labels that arrived later: of audited rows, or with --batch of any rows of a batch.

    The accuracy of the batch is estimated from the labels and the scores of all its rows (PPI++).

    Example:
      oodometer monitor label watch labelled.csv
    """
    with _open(folder) as monitor:
        result = monitor.label(labels_file, batch=batch)
    if as_json:
        print_json({"schema": 1, **to_jsonable(result)})
        return
    _show(f"{result.n_labels:,} new labels, {result.n_audited:,} of them of audited rows.")
    for each in result.batches:
        _show(
            f"Batch {each.number}: accuracy {_percent(each.label_estimate)} "
            f"({_percent(each.label_low)} to {_percent(each.label_high)}) from {each.n_labels:,} "
            f"labels; it was estimated as {_percent(each.estimate)} without labels."
        )


@app.command("audit")
def audit(
    folder: MonitorFolder,
    *,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of rows, chosen at random. [default: all]"),
    ] = None,
    output: OutputPath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List rows to label next, drawn at random from the latest batches.

    While the evidence of a fall is high, more rows of each batch are listed. Fill in the column label
    of the file that --output writes, and pass it to `oodometer monitor label DIR FILE`.

    Example:
      oodometer monitor audit watch --rows 50 --output to_label.csv
    """
    if output is not None and output.suffix.lower() != ".csv":
        raise InputError(f"--output of monitor audit must be a .csv file; got {output.name!r}.")
    with _open(folder) as monitor:
        chosen = monitor.audit(rows)
    if output is not None:
        _write_audit(chosen, output)
    if as_json:
        print_json({"schema": 1, "rows": to_jsonable(chosen)})
        return
    _show(f"{len(chosen):,} rows to label.")
    if output is None:
        for each in chosen:
            _show(f"batch {each.batch} {each.name} row {each.row}")


@app.command("status")
@with_option_groups
def status(
    folder: MonitorFolder,
    *,
    gates: GateOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the state of a monitor; exit with 0 (quiet), 1 (alarm) or 3 (cannot tell).

    --fail-below and --fail-drop add conditions on the estimate of the latest batch, or of any batch.

    Example:
      oodometer monitor status watch --json
    """
    gates.check()
    with _open(folder) as monitor:
        result = monitor.status()
        gate = gate_monitor(gates, result, monitor.batches() if gates.is_given else ())
    if as_json:
        print_json({**result.to_dict(), "gate": gate.to_dict()})
    else:
        show_status(result)
    if gate.failed:
        gate.exit()
    exit_by_status(result)
    gate.exit()


@app.command("report")
@with_option_groups
def report(
    folder: MonitorFolder,
    *,
    html: HtmlPath = Path("monitor.html"),
    page_options: PageOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write an HTML page: status, accuracy and evidence over time, alarms, worst segments.

    Example:
      oodometer monitor report watch --html watch.html --required 0.8
    """
    page_options.check(html)
    with _open(folder) as monitor:
        _write_page(monitor, html, page_options)
        result = monitor.status()
    if as_json:
        print_json({**result.to_dict(), "html": None if html is None else str(html)})
        return
    _show(f"{result.state.upper()}: {result.reason}.")


@app.command("export")
def export(
    folder: MonitorFolder,
    *,
    prometheus: Annotated[
        Path, typer.Option(help="File to write in the text format of Prometheus, such as m.prom.")
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the status in the text format of Prometheus, for its textfile collector.

    The file is replaced atomically. The label `monitor` is the name of the folder.

    Example:
      oodometer monitor export watch --prometheus watch.prom
    """
    from oodometer.monitor.prometheus import prometheus_text

    with _open(folder) as monitor:
        result = monitor.status()
    text = prometheus_text(result, folder.absolute().name)
    with atomic_write(prometheus) as partial:
        partial.write_text(text, encoding="utf-8")
    if as_json:
        print_json({**result.to_dict(), "prometheus": str(prometheus)})
        return
    _show(f"{text.count('# TYPE')} metrics written to {prometheus}.")


@app.command("acknowledge")
def acknowledge(folder: MonitorFolder, *, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Acknowledge all alarms and restart their tests, with a smaller share of the false alarms.

    Example:
      oodometer monitor acknowledge watch
    """
    with _open(folder) as monitor:
        count = monitor.acknowledge()
    if as_json:
        print_json({"schema": 1, "acknowledged": count})
        return
    _show(f"{count} alarms acknowledged." if count else "There is no alarm to acknowledge.")


@app.command("forget")
def forget(
    folder: MonitorFolder,
    batch_name: Annotated[
        list[str], typer.Argument(metavar="BATCH", help="Numbers or names of batches.")
    ],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Delete the sums, the sample and the labels of batches; their bets are not undone.

    Example:
      oodometer monitor forget watch 1
    """
    with _open(folder) as monitor:
        for each in batch_name:
            monitor.forget(each)
    if as_json:
        print_json({"schema": 1, "forgotten": batch_name})
        return
    _show(f"{len(batch_name)} batches forgotten.")


@app.command("run")
@with_option_groups
def run(
    batch: BatchPaths,
    *,
    source: SourcePath,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the monitor, to continue it later. [default: a temporary folder]"
        ),
    ] = None,
    baseline: BaselineOptions,
    segment_by: SegmentColumns = None,
    time_column: TimeColumn = None,
    period: Period = None,
    columns: ColumnOptions,
    html: HtmlPath = None,
    page_options: PageOptions,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Monitor a folder of files, in the order of their names, in one command.

    A quoted pattern or a folder stands for its files; each file is a batch. With --time-column, each
    --period of a file is a batch. The exit codes are those of `oodometer monitor status`.

    Example:
      oodometer monitor run --source val.parquet "scores/*.parquet" --html a.html

    Example:
      oodometer monitor run b.csv --source a.csv --time-column ts --period day
    """
    if period is not None and time_column is None:
        raise InputError("--period needs --time-column, the column with the times.")
    page_options.check(html)
    check_report_path(html)
    with (
        _monitor_folder(store) as folder,
        baseline.create(folder, source, columns, segment_by, seed) as monitor,
    ):
        added: list[MonitoredBatch] = []
        for path in _batch_files(batch):
            if time_column is None:
                added.append(monitor.add(path))
            else:
                added += monitor.add_periods(path, time_column=time_column, period=period or "day")
        result = monitor.status()
        _write_page(monitor, html, page_options)
    if as_json:
        print_json({**result.to_dict(), "batches": to_jsonable(added)})
    else:
        for each in added:
            _show_batch(each)
        show_status(result)
    exit_by_status(result)


# Input and output --------------------------------------------------------------------------------


@contextmanager
def _monitor_folder(store: Path | None) -> Iterator[Path]:
    """Yield the folder of the monitor, or a temporary one that is removed."""
    if store is not None:
        yield store
        return
    folder = Path(tempfile.mkdtemp(prefix="oodometer-monitor-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_page(monitor: Monitor, html: Path | None, options: PageOptions) -> None:
    """Write the page of a monitor; do nothing without a path."""
    if html is None:
        return
    from oodometer.monitor.page import monitor_page

    check_report_path(html)
    page = monitor_page(
        monitor,
        title=options.title or "Accuracy over time",
        date=options.date,
        required=options.required,
        reproduce=provenance((), seed=monitor.settings["seed"]),
    )
    write_report_page(page, html)


def _open(folder: Path) -> Monitor:
    from oodometer.monitor import Monitor

    return Monitor.open(folder)


def _batch_files(batches: Sequence[Path]) -> list[Path]:
    """Return the files of all paths, folders and patterns."""
    return [file for batch in batches for file in expand_location(batch)]


def _write_audit(rows: Sequence[AuditRow], path: Path) -> None:
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["batch", "name", "row", "predicted", "label"])
        writer.writerows([each.batch, each.name, each.row, each.predicted, ""] for each in rows)
    print_note(f"{len(rows):,} rows to label written to {path}")


def _show(text: str) -> None:
    console().print(text_line(text))


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _show_batch(batch: MonitoredBatch) -> None:
    label = batch.time or batch.name or str(batch.number)
    known = "" if batch.is_new else " (known before, not counted again)"
    _show(
        f"{label}: accuracy {_percent(batch.estimate)} ({_percent(batch.low)} to "
        f"{_percent(batch.high)}), {batch.n:,} rows, evidence {batch.evidence:.3g}{known}"
    )


def show_status(status: MonitorStatus) -> None:
    """Print the state, the latest batch, segments with a drop, audits and the promise."""
    _show(f"{status.state.upper()}: {status.reason}.")
    if status.latest is not None:
        _show_batch(status.latest)
    for segment in status.segments[:3]:
        drop = "" if segment.drop is None else f", {100 * -segment.drop:+.1f} points"
        alarm = ", ALARM" if segment.is_alarm else ""
        _show(f"Segment {segment.name}: {_percent(segment.estimate)}{drop}{alarm}")
    audit = status.audit
    if audit.n_labels or audit.n_waiting:
        _show(
            f"Audits: {audit.n_correct:,} of {audit.n_labels:,} labelled rows correct, "
            f"{audit.n_waiting:,} wait for a label, evidence {audit.evidence:.3g}."
        )
    _show(f"{status.n_batches:,} batches, {status.n_rows:,} rows. {status.promise}")


def exit_by_status(status: MonitorStatus) -> Any:
    """Exit with the code of the state; unless it is quiet, print the reason to standard error."""
    if status.exit_code:
        print_error(f"{status.state}: {status.reason}")
        raise typer.Exit(status.exit_code)
