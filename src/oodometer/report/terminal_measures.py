"""What `measure` and `metrics` show in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from oodometer import measures, metrics
from oodometer.core.protocols import Score
from oodometer.measures import Measurements, Noise
from oodometer.metrics import Evaluation
from oodometer.report import terminal

# So many classes are shown at most.
CLASSES = 30


def show(console: Console, found: Measurements | Evaluation) -> None:
    """What was found, and why the rest was not."""
    if isinstance(found, Measurements):
        console.print(Text(_looked_at(found)))
        _show_measures(console, found)
    else:
        by = "outputs alone" if found.model is None else found.model
        labelled = "labelled " if found.scores else ""
        console.print(Text(f"{by} on {found.data}: {found.n:,} {labelled}rows"))
        _show_metrics(console, found)
        _show_classes(console, found)
        _show_corruptions(console, found)
    _show_refused(console, found.refused)


def _show_measures(console: Console, found: Measurements) -> None:
    """Every measure's value and noise."""
    if not found.scores:
        return
    notes = list(dict.fromkeys(note for one in found.scores.values() for note in one.notes))
    cells = [
        (measures.named(name).label, f"{one.value:.4g}", _span(one), *_noise(found.noise.get(name)), _marks(one, notes))
        for name, one in found.scores.items()
    ]  # fmt: skip
    heads = ("measure", "value", "95 %", "sd", "signal/noise", "notes")
    kept = [place for place in range(len(heads)) if any(row[place] for row in cells)]
    rows = [[row[place] for place in kept] for row in cells]
    title = "Measures"
    console.print(terminal.table(title, [heads[place] for place in kept], rows))
    for number, note in enumerate(notes, start=1):
        console.print(Text(f"({number}) {note}"))


def _show_refused(console: Console, refused: Mapping[str, str]) -> None:
    """Why others have none, a reason a row."""
    if not refused:
        return
    reasons: dict[str, list[str]] = {}
    for name, why in refused.items():
        reasons.setdefault(why, []).append(name)
    rows = [(why, ", ".join(names)) for why, names in reasons.items()]
    console.print()
    console.print(terminal.table("Not measured", ("why", "which"), rows))


def _marks(one: Score, notes: Sequence[str]) -> str:
    """The numbers of its notes, which stand below the table."""
    return " ".join(f"({notes.index(note) + 1})" for note in one.notes)


def _span(one: Score) -> str:
    return "" if one.low is None or one.high is None else f"{one.low:.4g}–{one.high:.4g}"


def _looked_at(found: Measurements) -> str:
    training = "" if found.n_training is None else f", {found.n_training:,} rows of training data"
    by = "outputs or features alone" if found.model is None else found.model
    return (
        f"{by}: source {found.source} ({found.n_source:,} rows), target {found.target} "
        f"({found.n_target:,} rows without labels){training}"
    )


def _noise(noise: Noise | None) -> tuple[str, str]:
    if noise is None:
        return "", ""
    ratio = "constant" if noise.ratio is None else f"{noise.ratio:.1f}"
    return f"{noise.sd:.2g}", ratio


def _show_metrics(console: Console, found: Evaluation) -> None:
    """Every metric with its interval."""
    if not found.scores:
        return
    mean = found.under_corruption
    cells = [
        (metrics.named(name).label, f"{one.value:.4f}", _interval(one), terminal.number(mean.get(name), ".4f"), "; ".join(one.notes))
        for name, one in found.scores.items()
    ]  # fmt: skip
    heads = ("metric", "value", "95 %", "corrupted", "notes")
    if not mean:
        heads, cells = (*heads[:3], "notes"), [(*row[:3], row[4]) for row in cells]  # type: ignore[assignment, misc]
    console.print(terminal.table("How good the model is", heads, cells))


def _interval(one: Score) -> str:
    return "" if one.low is None or one.high is None else f"{one.low:.4f}–{one.high:.4f}"


def _show_classes(console: Console, found: Evaluation) -> None:
    """The metrics that tell classes apart, a row a class."""
    several = {name: one.by_class for name, one in found.scores.items() if one.by_class}
    names = list(dict.fromkeys(label for values in several.values() for label in values))
    if not names:
        return
    cells = [
        (label, *(terminal.number(values.get(label), ".4f") for values in several.values()))
        for label in names[:CLASSES]
    ]
    console.print()
    heads = ("class", *(metrics.named(name).label for name in several))
    console.print(terminal.table("By class", heads, cells))
    if len(names) > CLASSES:
        console.print(Text(f"… and {len(names) - CLASSES} classes more; --json has all."))


def _show_corruptions(console: Console, found: Evaluation) -> None:
    """The first metric that has an answer after every corruption, a column a severity."""
    first = next(iter(found.under_corruption), None)
    if first is None:
        return
    values: dict[str, dict[int, float]] = {}
    for one in found.corrupted:
        values.setdefault(one.corruption.name, {})[one.corruption.severity] = one.scores[
            first
        ].value
    severities = sorted({level for row in values.values() for level in row})
    cells = [
        (name, *(terminal.number(row.get(level), ".4f") for level in severities))
        for name, row in values.items()
    ]
    console.print()
    title = f"{metrics.named(first).label} after corruption, by severity"
    console.print(terminal.table(title, ("corruption", *map(str, severities)), cells))
