"""What `measure` and `metrics` show in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from oodometer import measures, metrics
from oodometer.core.results import Score
from oodometer.measures import Measurements, SubsetNoise
from oodometer.metrics import Evaluation
from oodometer.report import terminal

# So many classes are shown at most.
MAX_CLASSES_SHOWN = 30


def show_scores(console: Console, result: Measurements | Evaluation) -> None:
    """What was found, and why the rest was not."""
    if isinstance(result, Measurements):
        console.print(Text(_data_description(result)))
        _show_measures(console, result)
    else:
        by = "outputs alone" if result.model is None else result.model
        labelled = "labelled " if result.scores else ""
        console.print(Text(f"{by} on {result.data}: {result.n:,} {labelled}rows"))
        _show_metrics(console, result)
        _show_classes(console, result)
        _show_corruptions(console, result)
    _show_skipped(console, result.skipped)


def _show_measures(console: Console, measurements: Measurements) -> None:
    """Every measure's value and noise."""
    if not measurements.scores:
        return
    notes = list(dict.fromkeys(note for one in measurements.scores.values() for note in one.notes))
    cells = [
        (measures.get(name).label, f"{one.value:.4g}", _short_interval(one), *_format_noise(measurements.noise.get(name)), _note_numbers(one, notes))
        for name, one in measurements.scores.items()
    ]  # fmt: skip
    heads = ("measure", "value", "95 %", "sd", "signal/noise", "notes")
    kept = [place for place in range(len(heads)) if any(row[place] for row in cells)]
    rows = [[row[place] for place in kept] for row in cells]
    title = "Measures"
    console.print(terminal.table(title, [heads[place] for place in kept], rows))
    for number, note in enumerate(notes, start=1):
        console.print(Text(f"({number}) {note}"))


def _show_skipped(console: Console, skipped: Mapping[str, str]) -> None:
    """Why others have none, a reason a row."""
    if not skipped:
        return
    reasons: dict[str, list[str]] = {}
    for name, why in skipped.items():
        reasons.setdefault(why, []).append(name)
    rows = [(why, ", ".join(names)) for why, names in reasons.items()]
    console.print()
    console.print(terminal.table("Not measured", ("why", "which"), rows))


def _note_numbers(score: Score, notes: Sequence[str]) -> str:
    """The numbers of its notes, which stand below the table."""
    return " ".join(f"({notes.index(note) + 1})" for note in score.notes)


def _short_interval(score: Score) -> str:
    return "" if score.low is None or score.high is None else f"{score.low:.4g}–{score.high:.4g}"


def _data_description(measurements: Measurements) -> str:
    training = (
        ""
        if measurements.n_training is None
        else f", {measurements.n_training:,} rows of training data"
    )
    by = "outputs or features alone" if measurements.model is None else measurements.model
    return (
        f"{by}: source {measurements.source} ({measurements.n_source:,} rows), target {measurements.target} "
        f"({measurements.n_target:,} rows without labels){training}"
    )


def _format_noise(noise: SubsetNoise | None) -> tuple[str, str]:
    if noise is None:
        return "", ""
    ratio = "constant" if noise.signal_to_noise is None else f"{noise.signal_to_noise:.1f}"
    return f"{noise.sd:.2g}", ratio


def _show_metrics(console: Console, evaluation: Evaluation) -> None:
    """Every metric with its interval."""
    if not evaluation.scores:
        return
    mean = evaluation.mean_under_corruption
    cells = [
        (metrics.get(name).label, f"{one.value:.4f}", _fixed_interval(one), terminal.format_number(mean.get(name), ".4f"), "; ".join(one.notes))
        for name, one in evaluation.scores.items()
    ]  # fmt: skip
    heads = ("metric", "value", "95 %", "corrupted", "notes")
    if not mean:
        heads, cells = (*heads[:3], "notes"), [(*row[:3], row[4]) for row in cells]  # type: ignore[assignment, misc]
    console.print(terminal.table("How good the model is", heads, cells))


def _fixed_interval(score: Score) -> str:
    return "" if score.low is None or score.high is None else f"{score.low:.4f}–{score.high:.4f}"


def _show_classes(console: Console, evaluation: Evaluation) -> None:
    """The metrics that tell classes apart, a row a class."""
    several = {name: one.by_class for name, one in evaluation.scores.items() if one.by_class}
    names = list(dict.fromkeys(label for values in several.values() for label in values))
    if not names:
        return
    cells = [
        (label, *(terminal.format_number(values.get(label), ".4f") for values in several.values()))
        for label in names[:MAX_CLASSES_SHOWN]
    ]
    console.print()
    heads = ("class", *(metrics.get(name).label for name in several))
    console.print(terminal.table("By class", heads, cells))
    if len(names) > MAX_CLASSES_SHOWN:
        console.print(Text(f"… and {len(names) - MAX_CLASSES_SHOWN} classes more; --json has all."))


def _show_corruptions(console: Console, evaluation: Evaluation) -> None:
    """The first metric that has an answer after every corruption, a column a severity."""
    first = next(iter(evaluation.mean_under_corruption), None)
    if first is None:
        return
    values: dict[str, dict[int, float]] = {}
    for one in evaluation.by_corruption:
        values.setdefault(one.corruption.name, {})[one.corruption.severity] = one.scores[
            first
        ].value
    severities = sorted({level for row in values.values() for level in row})
    cells = [
        (name, *(terminal.format_number(row.get(level), ".4f") for level in severities))
        for name, row in values.items()
    ]
    console.print()
    title = f"{metrics.get(first).label} after corruption, by severity"
    console.print(terminal.table(title, ("corruption", *map(str, severities)), cells))
