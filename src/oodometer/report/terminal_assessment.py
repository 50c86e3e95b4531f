"""Print assessments in the terminal: a short answer, one line, or all details.

The short answer has at most `MAX_LINES` lines in a terminal of 80 columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from oodometer.assessment.result import (
    Assessment,
    Segment,
    concerned_methods,
    format_interval,
    format_percent,
)
from oodometer.core.format import few_rows_warning, pluralize
from oodometer.core.results import STATUS_SHAPES, Estimate
from oodometer.report.terminal import (
    STATUS_STYLES,
    TerminalTable,
    drop_empty_columns,
    status_text,
    table,
    text_line,
)
from oodometer.report.verdict import (
    REQUIRED_SHAPES,
    compare_with_required,
    headline_problems,
    is_below_required,
    required_result,
    short_verdict,
    worst_segments,
)

if TYPE_CHECKING:
    from oodometer.assessment.additional_results import AdditionalResults

# Maximum number of lines of the short answer, in a terminal of at least 80 columns.
MAX_LINES = 25
# Smallest number of lines of a list that is shortened to keep the blank lines.
MIN_LIST_LINES = 4
MAX_SHOWN_SEGMENTS = 3
MAX_SHOWN_NOTES = 2
# Width of the names before the numbers of the short answer.
NAME_COLUMNS = 26
REQUIRED_STYLES = {"met": "green", "missed": "bold red", "uncertain": "yellow"}
DETAILS_HINT = "All methods, diagnostics and segments: --verbose"

Line = str | Text


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """Assessment of one target, with the path that was given for the target."""

    target: str
    assessment: Assessment
    additional: AdditionalResults | None = None


def show_line(
    console: Console, result: TargetResult, *, name_target: bool, required: float | None = None
) -> None:
    """Print the estimate, its intervals, its status and what was requested as one line."""
    assessment = result.assessment
    estimate = assessment.headline.estimate
    parts = [f"95 % confidence interval {format_interval(estimate)}"]
    if assessment.shift is not None:
        parts.append(f"typical range {format_interval(assessment.shift)}")
    parts.append(f"source {format_percent(assessment.source_accuracy)} %")
    prefix = f"{result.target}: " if name_target else ""
    line = f"{prefix}{format_percent(estimate.value)} % ({', '.join(parts)}), status "
    line += assessment.headline.status
    if assessment.is_source:
        line += ": source and target are the same rows"
    if required is not None:
        level = format_percent(required)
        line += f", required {level} %: {required_result(assessment, required)}"
    if result.additional is not None:
        line += f"; {_additional_text(result.additional)}"
    console.print(text_line(line), soft_wrap=True)


def show_answer(console: Console, result: TargetResult, *, required: float | None = None) -> None:
    """Print the verdict, the intervals, what disagrees, what to check and the next step."""
    assessment, additional = result.assessment, result.additional
    numbers = _numbers(assessment, required)
    texts: list[str] = []
    if additional is not None:
        numbers += _additional_numbers(additional)
        title, metrics = _metric_text(additional)
        texts = [f"{title}: {metrics}" if title else metrics] if metrics else []
        texts += additional.reasons
    sections = [
        _wrap(console, [" ".join(short_verdict(assessment, required=required))]),
        _wrap(console, _aligned(console, numbers)),
        _wrap(console, texts),
        _segment_lines(console, assessment.segments, required),
        _wrap(console, assessment.notes[:MAX_SHOWN_NOTES]),
        _wrap(console, _problem_lines(assessment)),
        [*_next_step(console, result, name_target=False), *_wrap(console, [DETAILS_HINT])],
    ]
    # The problems, then the metrics, the segments and the notes.
    _print_sections(console, sections, shortened={5: 2, 2: 1, 3: 3, 4: 1})


def show_answers(
    console: Console, results: Sequence[TargetResult], *, required: float | None = None
) -> None:
    """Print a table that compares several targets, lowest estimate first if some are left out."""
    lowest = min(results, key=lambda result: result.assessment.headline.estimate.value)
    segments = [
        (result.target, segment)
        for result in results
        for segment in worst_segments(result.assessment.segments, MAX_SHOWN_SEGMENTS)
    ]
    texts = [
        f"{result.target}: {_additional_text(result.additional)}"
        for result in results
        if result.additional is not None
    ]
    if results[0].additional is not None:
        title, _ = _metric_text(results[0].additional)
        texts = [title, *texts] if title else texts
    verdict = _wrap(console, [_compare_targets(results, lowest, required)])
    more = _wrap(console, texts)
    worst = _worst_segment_lines(console, segments, required)
    end = [*_next_step(console, lowest, name_target=True), *_wrap(console, [DETAILS_HINT])]
    # Lines that the other sections have in any case; one line says how many are left out.
    min_more, min_worst = 2, 3
    reserved = (min_more + 1 if more else 0) + (min_worst + 1 if worst else 0)
    max_listed = MAX_LINES - len(verdict) - len(end) - reserved
    listed = _listed_targets(console, results, max_listed, required)
    sections = [verdict, listed, more, worst, end]
    _print_sections(console, sections, shortened={2: min_more, 3: min_worst})


def _required_text(assessment: Assessment, required: float) -> Text:
    """Return the required accuracy, followed by a colored symbol and whether it is met."""
    text = Text(f"{format_percent(required)} %  ")
    return text.append_text(_required_mark(assessment, required))


def _required_mark(assessment: Assessment, required: float) -> Text:
    """Return whether the required accuracy is met, as a colored symbol, followed by a word."""
    result = required_result(assessment, required)
    text = f"{REQUIRED_SHAPES[result]} {result}"
    return Text(text, style=REQUIRED_STYLES[result], no_wrap=True)


def _numbers(assessment: Assessment, required: float | None) -> list[tuple[str, Line]]:
    """Return the names and texts of the accuracies, intervals and methods that disagree."""
    estimate = assessment.headline.estimate
    accuracy = Text(f"{format_percent(estimate.value)} %  ", style="bold")
    accuracy.append_text(status_text(assessment.headline.status))
    if required is not None:
        accuracy.append("  required ").append_text(_required_text(assessment, required))
    scope = "sampling error only"
    if assessment.uses_target_labels:
        scope = "valid under any shift"
    low, high = assessment.source_interval
    level = "" if assessment.shift is None else f" ({100 * assessment.shift.level:.0f} %)"
    return [
        ("Accuracy on the target", accuracy),
        ("Confidence interval (95 %)", f"{format_interval(estimate)} ({scope})"),
        (f"Typical range{level}", _typical_range(assessment)),
        (
            "Accuracy on the source",
            f"{format_percent(assessment.source_accuracy)} % "
            f"({format_percent(low)}–{format_percent(high)})",
        ),
        *_disagreements(assessment),
    ]


def _typical_range(assessment: Assessment) -> str:
    shift = assessment.shift
    if shift is not None and shift.n_domains:
        past = pluralize(shift.n_domains, "past domain")
        return f"{format_interval(shift)} (error from shift; uses {past})"
    if shift is not None:
        return f"{format_interval(shift)} (includes the error from shift)"
    if assessment.uses_target_labels:
        return "not needed, because target labels were used"
    return f"unknown: no reference cases for {assessment.headline.estimate.method}, no history"


def _disagreements(assessment: Assessment) -> list[tuple[str, Line]]:
    """Return the highest method if it is above the headline, and the lowest if it is below."""
    headline = assessment.headline.estimate
    others = [e for e in assessment.estimates if e.method != headline.method]
    if not others:
        return []
    highest = max(others, key=lambda estimate: estimate.value)
    lowest = min(others, key=lambda estimate: estimate.value)
    rows: list[tuple[str, Line]] = []
    if highest.value > headline.value:
        rows.append(("Highest other method", _disagreement(highest, headline, "above")))
    if lowest.value < headline.value:
        rows.append(("Lowest other method", _disagreement(lowest, headline, "below")))
    return rows


def _disagreement(estimate: Estimate, headline: Estimate, side: str) -> str:
    points = format_percent(abs(estimate.value - headline.value))
    return f"{estimate.method}, {format_percent(estimate.value)} % ({points} points {side})"


def _additional_numbers(results: AdditionalResults) -> list[tuple[str, Line]]:
    """Return the lower bound and the result of the non-inferiority test, if they were requested."""
    rows: list[tuple[str, Line]] = []
    if results.bound is not None:
        rows.append(("Lower bound (DIS²)", f"{format_percent(results.bound.value)} %"))
    if results.verdict is not None:
        loss = format_percent(results.verdict.margin)
        test = f"loss below {loss} points, p = {results.verdict.p_value:.2g}"
        rows.append(("Non-inferiority test", f"{results.verdict.decision} ({test})"))
    return rows


def _metric_text(results: AdditionalResults) -> tuple[str, str]:
    """Return a title and the expected metrics of the mean over classes, or of the last class."""
    headings, rows = results.metric_table
    if not rows:
        return "", " ".join(text for text in results.sentences if text.startswith("Expected acc"))
    scope, *cells = rows[-1]
    of = "mean over classes" if scope == "macro" else f"class {scope}"
    metrics = [
        f"{name} {value}{f', source {known}' if known else ''}"
        for name, value, known in zip(headings[1::2], cells[::2], cells[1::2], strict=True)
    ]
    return f"Expected metrics ({of})", "; ".join(metrics)


def _additional_text(results: AdditionalResults) -> str:
    """Return all additional results of one of several targets as one text."""
    _, metrics = _metric_text(results)
    numbers = [f"{name}: {value}" for name, value in _additional_numbers(results)]
    return "; ".join([*([metrics] if metrics else []), *numbers, *results.reasons])


def _problem_lines(assessment: Assessment) -> list[Line]:
    """Return a title, and one line per problem with what to do."""
    problems = headline_problems(assessment)
    if not problems:
        return []
    statuses = dict.fromkeys(problem.status for problem in problems)
    title = ", ".join(f"{STATUS_SHAPES[status]} {status}" for status in statuses)
    lines: list[Line] = [f"What to do ({title}):"]
    for problem in problems:
        text = f"{STATUS_SHAPES[problem.status]} {problem.name}: {problem.advice}"
        lines.append(text_line(text, STATUS_STYLES[problem.status]))
    return lines


def _next_step(console: Console, result: TargetResult, *, name_target: bool) -> list[Text]:
    """Return the number of rows to label, and the command that chooses them."""
    assessment = result.assessment
    if not assessment.next_step:
        return []
    prefix = f"{result.target}: " if name_target else ""
    # The command is not wrapped, so that it can be copied.
    command = text_line(f"  {assessment.plan_command}")
    return [*_wrap(console, [f"{prefix}{assessment.next_step}:"]), command]


def _segment_lines(
    console: Console, segments: Sequence[Segment], required: float | None
) -> list[Text]:
    if not segments:
        return []
    worst = worst_segments(segments, MAX_SHOWN_SEGMENTS)
    title = f"Segments: {len(worst)} of {len(segments):,}, lowest first"
    return _table_lines(console, _segment_table(title, worst, required))


def _worst_segment_lines(
    console: Console, segments: Sequence[tuple[str, Segment]], required: float | None
) -> list[Text]:
    """Return a table of the lowest segments of several targets."""
    estimated = [(target, s, s.estimate) for target, s in segments if s.estimate is not None]
    worst = sorted(estimated, key=lambda row: row[2].value)[:MAX_SHOWN_SEGMENTS]
    if not worst:
        return []
    rows = [
        (target, segment.value, f"{segment.n:,}", format_percent(estimate.value),
         format_interval(estimate), status_text(segment.status),
         _segment_mark(segment, required))
        for target, segment, estimate in worst
    ]  # fmt: skip
    headings = (
        "target", "segment", "rows", "accuracy %", "95 % interval", "status", "required",
    )  # fmt: skip
    return _table_lines(console, table("Lowest segments", *drop_empty_columns(headings, rows)))


def _compare_targets(
    results: Sequence[TargetResult], lowest: TargetResult, required: float | None
) -> str:
    """Return the lowest estimate, the number of targets not ok, and of those below `required`."""
    values = [result.assessment.headline.estimate.value for result in results]
    statuses = [result.assessment.headline.status for result in results]
    n_problems = len(statuses) - statuses.count("ok")
    source = results[0].assessment.source_accuracy
    sentences = [
        f"The estimated accuracy on {pluralize(len(results), 'target')} is "
        f"{format_percent(min(values))}–{format_percent(max(values))} %, after "
        f"{format_percent(source)} % on the source; {lowest.target} has the lowest.",
        "All have the status ok."
        if n_problems == 0
        else f"{n_problems} of {len(statuses)} have a status other than ok.",
    ]
    if required is not None:
        n_below = sum(value < required for value in values)
        sentences.append(
            f"{n_below} of {len(values)} are below the required {format_percent(required)} %."
        )
    return " ".join(sentences)


def _listed_targets(
    console: Console, results: Sequence[TargetResult], max_lines: int, required: float | None
) -> list[Text]:
    """Return a table of all targets, or of those with the lowest estimates that fit."""
    by_value = sorted(results, key=lambda result: result.assessment.headline.estimate.value)
    shown = list(results)
    while True:
        title = "Estimated accuracy"
        if len(shown) < len(results):
            title += f" ({len(shown)} of {len(results):,} targets, lowest first)"
        content = _target_table(title, shown, with_method=False, required=required)
        lines = _table_lines(console, content)
        if len(lines) <= max_lines or len(shown) == 1:
            return lines
        shown = by_value[: len(shown) - 1]


def _target_table(
    title: str, results: Sequence[TargetResult], *, with_method: bool, required: float | None
) -> TerminalTable:
    """Return a table with one row per target."""
    rows = []
    for result in results:
        assessment = result.assessment
        estimate = assessment.headline.estimate
        rows.append(
            (
                result.target,
                f"{assessment.n_target:,}",
                format_percent(estimate.value),
                format_interval(estimate),
                "" if assessment.shift is None else format_interval(assessment.shift),
                status_text(assessment.headline.status),
                "" if required is None else _required_mark(assessment, required),
                estimate.method if with_method else "",
            )
        )
    headings = (
        "target", "rows", "accuracy %", "95 % interval", "typical range", "status", "required",
        "method",
    )  # fmt: skip
    return table(title, *drop_empty_columns(headings, rows))


def _aligned(console: Console, rows: Sequence[tuple[str, Line]]) -> list[Line]:
    """Return each name and its text on one line; in a narrow terminal without padding."""
    width = NAME_COLUMNS if console.width >= 3 * NAME_COLUMNS else 0
    lines: list[Line] = []
    for name, value in rows:
        line = text_line(f"{name:<{width}}  " if width else f"{name}: ")
        lines.append(line.append_text(text_line(value) if isinstance(value, str) else value))
    return lines


def _wrap(console: Console, texts: Sequence[Line]) -> list[Text]:
    """Return the lines of texts that are wrapped at the width of the terminal."""
    lines = []
    for text in texts:
        whole = text_line(text) if isinstance(text, str) else text
        for line in whole.wrap(console, console.width):
            line.rstrip()
            lines.append(line)
    return lines


def _table_lines(console: Console, content: TerminalTable) -> list[Text]:
    return list(content.__rich_console__(console, console.options))


def _print_sections(
    console: Console, sections: Sequence[list[Text]], *, shortened: Mapping[int, int]
) -> None:
    """Print sections with blank lines between them, in at most `MAX_LINES` lines if possible.

    `shortened` maps numbers of sections to the number of lines that are kept in any case, in the
    order in which sections are shortened. If there are too many lines, the first of these sections
    is shortened to `MIN_LIST_LINES`. If that is not enough, blank lines are left out, and as many
    sections are shortened as necessary.
    """
    n_blank = sum(map(bool, sections)) - 1
    first = next(iter(shortened))
    kept = _fit(sections, MAX_LINES - n_blank, {first: MIN_LIST_LINES})
    if sum(map(len, kept)) + n_blank > MAX_LINES:
        kept = _fit(sections, MAX_LINES, shortened)
    n_free = MAX_LINES - sum(map(len, kept))
    for number, section in enumerate(kept):
        if section and number and n_free > 0:
            console.print()
            n_free -= 1
        for line in section:
            console.print(line, soft_wrap=True)


def _fit(
    sections: Sequence[list[Text]], max_lines: int, shortened: Mapping[int, int]
) -> list[list[Text]]:
    """Shorten sections, one after another, until all lines fit."""
    kept = list(sections)
    for number, min_lines in shortened.items():
        excess = sum(map(len, kept)) - max_lines
        if excess > 0:
            kept[number] = _shorten(kept[number], excess, min_lines)
    return kept


def _shorten(lines: list[Text], excess: int, min_lines: int) -> list[Text]:
    """Leave out the last lines and print their number instead."""
    n_kept = max(len(lines) - excess - 1, min_lines)
    if n_kept >= len(lines) - 1:
        return lines
    return [
        *lines[:n_kept],
        text_line(f"… and {pluralize(len(lines) - n_kept, 'more line')} (--verbose)"),
    ]


def show_details(
    console: Console, assessment: Assessment, *, required: float | None = None
) -> None:
    """Print the headline estimate, the estimates of all methods, the diagnostics and segments."""
    headline = assessment.headline.estimate
    console.print(
        Text(f"Accuracy on the target: {format_percent(headline.value)} %", style="bold"),
        status_text(assessment.headline.status),
    )
    console.print(
        text_line(f"Accuracy on the source: {format_percent(assessment.source_accuracy)} %")
    )
    console.print(
        text_line(f"Confidence interval (sampling error only): {format_interval(headline)} (95 %)")
    )
    console.print(text_line(f"Typical range: {assessment.typical_range_text}"))
    if required is not None:
        line = text_line("Required accuracy: ").append_text(_required_text(assessment, required))
        console.print(line)
        console.print(text_line(compare_with_required(assessment, required)))
    console.print()
    for sentence in (*assessment.explanation, *assessment.notes):
        console.print(text_line(sentence))
    if assessment.next_step:
        console.print(text_line(f"{assessment.next_step}:"))
        # The command is not wrapped, so that it can be copied.
        console.print(text_line(f"  {assessment.plan_command}"), soft_wrap=True)
    rows = [
        (
            estimate.method,
            format_percent(estimate.value),
            format_interval(estimate),
            "; ".join((estimate.assumes, *assessment.notes_on(estimate))),
        )
        for estimate in assessment.estimates
    ]
    rows += [
        (name, "", "", f"not applicable: {reason}") for name, reason in assessment.skipped.items()
    ]
    console.print()
    headings = ("method", "accuracy %", "95 % interval", "assumption")
    console.print(table("Estimates", headings, rows))
    console.print()
    diagnostics = [
        (status_text(d.status), d.name, d.formatted_value, f"{d.meaning}{concerned_methods(d)}")
        for d in assessment.diagnostics
    ]
    console.print(table("Diagnostics", ("status", "diagnostic", "value", "meaning"), diagnostics))
    if assessment.segments:
        console.print()
        _show_segments(console, assessment.segments, required)


def show_target_details(
    console: Console, assessments: Mapping[str, Assessment], *, required: float | None = None
) -> None:
    """Print one row per target with its headline, then notes and the segments of each target."""
    console.print(text_line(f"{len(assessments)} targets"))
    console.print()
    results = [TargetResult(target=name, assessment=one) for name, one in assessments.items()]
    content = _target_table("Estimated accuracy", results, with_method=True, required=required)
    console.print(content)
    if required is not None:
        for target, assessment in assessments.items():
            console.print(text_line(f"{target}: {compare_with_required(assessment, required)}"))
    for note, targets in _targets_by_note(assessments).items():
        prefix = "" if len(targets) == len(assessments) else f"{', '.join(targets)}: "
        console.print(text_line(f"{prefix}{note}"))
    for target, assessment in assessments.items():
        if assessment.segments:
            show_target_name(console, target)
            _show_segments(console, assessment.segments, required)


def show_target_name(console: Console, target: str) -> None:
    """Print the name of a target above its results."""
    console.print()
    console.print(text_line(target, "bold"))


def _targets_by_note(assessments: Mapping[str, Assessment]) -> dict[str, list[str]]:
    """Return the targets that each note applies to, so that a note is printed once."""
    targets: dict[str, list[str]] = {}
    for target, assessment in assessments.items():
        for note in assessment.notes:
            targets.setdefault(note, []).append(target)
    return targets


def _show_segments(console: Console, segments: Sequence[Segment], required: float | None) -> None:
    console.print(_segment_table("Segments", segments, required))
    if warning := few_rows_warning([segment.n for segment in segments]):
        console.print(Text(warning))


def _segment_mark(segment: Segment, required: float | None) -> Text | str:
    """Return a mark for a segment below the required accuracy; an empty text for others."""
    if not is_below_required(segment, required):
        return ""
    return Text(f"{REQUIRED_SHAPES['missed']} below", style=REQUIRED_STYLES["missed"], no_wrap=True)


def _segment_table(
    title: str, segments: Sequence[Segment], required: float | None = None
) -> TerminalTable:
    headings = (
        "segment", "rows", "accuracy %", "95 % interval", "source %", "status", "required",
    )  # fmt: skip
    rows = []
    for segment in segments:
        estimate, known = segment.estimate, segment.source_accuracy
        value = "" if estimate is None else format_percent(estimate.value)
        interval = f"not applicable: {segment.reason}"
        if estimate is not None:
            interval = format_interval(estimate)
        rows.append(
            (
                segment.value,
                f"{segment.n:,}",
                value,
                interval,
                "" if known is None else format_percent(known),
                status_text(segment.status),
                _segment_mark(segment, required),
            )
        )
    return table(title, *drop_empty_columns(headings, rows))


def show_additional(console: Console, results: AdditionalResults) -> None:
    """Print the other metrics, the lower bound and the verdict, each if it was requested."""
    if results.metrics:
        console.print()
        title = f"Expected metrics, assuming that {results.metrics_assume}"
        console.print(table(title, *drop_empty_columns(*results.metric_table)))
    if results.segment_metrics:
        console.print()
        title = f"Expected metrics by segment ({results.segment_scope})"
        console.print(table(title, *drop_empty_columns(*results.segment_table)))
    for sentence in results.sentences:
        console.print()
        console.print(text_line(sentence))
