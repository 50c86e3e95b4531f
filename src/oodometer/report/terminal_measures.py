"""Terminal output of `oodometer measure` and `oodometer evaluate`."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from oodometer import measures, metrics
from oodometer.core.results import Score
from oodometer.measures import Measurements, SubsetNoise
from oodometer.metrics import Evaluation
from oodometer.report.terminal import drop_empty_columns, format_number, table, text_line

MAX_CLASSES_SHOWN = 30


def show_scores(console: Console, result: Measurements | Evaluation) -> None:
    """Print all measures or metrics, and the reasons for those without a value."""
    if isinstance(result, Measurements):
        console.print(text_line(_data_description(result)))
        _show_measures(console, result)
    else:
        model = "outputs only" if result.model is None else result.model
        labelled = "labelled " if result.scores else ""
        console.print(text_line(f"{model} on {result.data}: {result.n:,} {labelled}rows"))
        _show_metrics(console, result)
        _show_classes(console, result)
        _show_corruptions(console, result)
    _show_skipped(console, result.skipped)


def _data_description(measurements: Measurements) -> str:
    model = "outputs or features only" if measurements.model is None else measurements.model
    text = (
        f"{model}: source {measurements.source} ({measurements.n_source:,} rows), target "
        f"{measurements.target} ({measurements.n_target:,} unlabelled rows)"
    )
    if measurements.n_training is None:
        return text
    return f"{text}, {measurements.n_training:,} rows of training data"


def _show_measures(console: Console, measurements: Measurements) -> None:
    """Print the value and noise of each measure, with numbered notes below the table."""
    if not measurements.scores:
        return
    notes = list(
        dict.fromkeys(note for score in measurements.scores.values() for note in score.notes)
    )
    rows = []
    for name, score in measurements.scores.items():
        numbers = " ".join(f"({notes.index(note) + 1})" for note in score.notes)
        label = measures.get(name).label
        noise = _format_noise(measurements.noise.get(name))
        rows.append((label, f"{score.value:.4g}", _format_interval(score, ".4g"), *noise, numbers))
    headings = ("measure", "value", "95 %", "sd", "signal/noise", "notes")
    console.print(table("Measures", *drop_empty_columns(headings, rows)))
    for number, note in enumerate(notes, start=1):
        console.print(text_line(f"({number}) {note}"))


def _format_interval(score: Score, format_spec: str) -> str:
    if score.low is None or score.high is None:
        return ""
    return f"{score.low:{format_spec}}–{score.high:{format_spec}}"


def _format_noise(noise: SubsetNoise | None) -> tuple[str, str]:
    """Format the standard deviation and the signal-to-noise ratio."""
    if noise is None:
        return "", ""
    ratio = "constant" if noise.signal_to_noise is None else f"{noise.signal_to_noise:.1f}"
    return f"{noise.sd:.2g}", ratio


def _show_skipped(console: Console, skipped: Mapping[str, str]) -> None:
    """Print the measures or metrics without a value, one row per reason."""
    if not skipped:
        return
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        names_by_reason.setdefault(reason, []).append(name)
    rows = [(reason, ", ".join(names)) for reason, names in names_by_reason.items()]
    console.print()
    console.print(table("Not applicable", ("reason", "names"), rows))


def _show_metrics(console: Console, evaluation: Evaluation) -> None:
    """Print each metric with its interval and, if computed, its mean over corruptions."""
    if not evaluation.scores:
        return
    means = evaluation.mean_under_corruption
    rows = []
    for name, score in evaluation.scores.items():
        corrupted = [format_number(means.get(name), ".4f")] if means else []
        label = metrics.get(name).label
        interval = _format_interval(score, ".4f")
        rows.append([label, f"{score.value:.4f}", interval, *corrupted, "; ".join(score.notes)])
    headings = ["metric", "value", "95 %", *(["corrupted"] if means else []), "notes"]
    console.print(table("Metrics", headings, rows))


def _show_classes(console: Console, evaluation: Evaluation) -> None:
    """Print the values per class of all metrics that have them."""
    by_metric = {
        name: score.by_class for name, score in evaluation.scores.items() if score.by_class
    }
    classes = list(dict.fromkeys(label for values in by_metric.values() for label in values))
    if not classes:
        return
    rows = [
        (label, *(format_number(values.get(label), ".4f") for values in by_metric.values()))
        for label in classes[:MAX_CLASSES_SHOWN]
    ]
    console.print()
    headings = ("class", *(metrics.get(name).label for name in by_metric))
    console.print(table("By class", headings, rows))
    if len(classes) > MAX_CLASSES_SHOWN:
        n_hidden = len(classes) - MAX_CLASSES_SHOWN
        console.print(Text(f"… and {n_hidden} more classes; --json shows all."))


def _show_corruptions(console: Console, evaluation: Evaluation) -> None:
    """Print the first metric that has a value under every corruption, by severity."""
    first = next(iter(evaluation.mean_under_corruption), None)
    if first is None:
        return
    values: dict[str, dict[int, float]] = {}
    for result in evaluation.by_corruption:
        corruption = result.corruption
        values.setdefault(corruption.name, {})[corruption.severity] = result.scores[first].value
    severities = sorted({severity for row in values.values() for severity in row})
    rows = [
        (name, *(format_number(row.get(severity), ".4f") for severity in severities))
        for name, row in values.items()
    ]
    console.print()
    title = f"{metrics.get(first).label} under corruption, by severity"
    console.print(table(title, ("corruption", *map(str, severities)), rows))
