"""Result of estimate(): estimates, headline, diagnostics and segments, as data and as text."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.assessment.ppi import PPI_METHOD
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_percent as format_percent
from oodometer.core.jsonable import to_jsonable
from oodometer.core.predictions import Predictions
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.core.results import Diagnostic, Estimate, Status

if TYPE_CHECKING:
    from oodometer.assessment.additional_results import AdditionalResults
    from oodometer.assessment.cbpe import ExpectedMetric
    from oodometer.assessment.dis2 import AccuracyLowerBound
    from oodometer.assessment.noninferiority import NoninferiorityResult

# What the estimates of the method `regime` assume, by the name of their weight.
REGIME_ASSUMPTIONS = {
    "weight_confidence": "the model is calibrated on the target",
    "weight_label_shift": "only class frequencies changed",
    "weight_transport": "other things changed and class frequencies did not",
}
# Regimes with a smaller weight are not named.
MIN_SHOWN_WEIGHT = 0.1
# Name of the diagnostic that a target has which is the source itself.
SAME_ROWS = "same_rows"
# Maximum length of the lines of the text of an assessment, as in a terminal of usual width.
TEXT_COLUMNS = 80
# Maximum number of classes whose expected metrics are listed in this text.
MAX_METRIC_LINES = 10
# Smallest share of similar reference cases with a too high estimate that the verdict mentions.
MOSTLY_TOO_HIGH = 2 / 3


def format_interval(interval: Estimate | ShiftInterval) -> str:
    """Return the bounds of an interval as text in percent."""
    if interval.low is None or interval.high is None:
        return "unknown"
    return f"{format_percent(interval.low)}–{format_percent(interval.high)}"


def concerned_methods(diagnostic: Diagnostic) -> str:
    """Return a remark on the methods that a diagnostic concerns; empty if it concerns all.

    >>> concerned_methods(Diagnostic("borrowed_bins", 0.1, "warning", "m", methods=("im",)))
    ' (concerns im only)'
    """
    if not diagnostic.methods:
        return ""
    return f" (concerns {', '.join(diagnostic.methods)} only)"


@dataclass(frozen=True)
class Headline:
    """Estimate that is shown first, the reason for its choice, and its status.

    The status is the worst one of the diagnostics that concern the method of the estimate.
    """

    estimate: Estimate
    why: str
    status: Status

    def to_dict(self) -> dict[str, Any]:
        return {**self.estimate.to_dict(), "why": self.why, "status": self.status}


@dataclass(frozen=True)
class Segment:
    """Estimate for the target rows that have one segment value.

    If the method is not applicable to these rows, `estimate` is None and `reason` says why.
    `n_source` and `source_accuracy` are those of the source rows with the same value, if any.
    `status` says how far scores and predicted classes are from these rows, and `shift` is the
    typical range, if there is a history.
    """

    value: str
    n: int
    estimate: Estimate | None
    reason: str = ""
    n_source: int = 0
    source_accuracy: float | None = None
    status: Status = "ok"
    shift: ShiftInterval | None = None

    def to_dict(self) -> dict[str, Any]:
        estimate = self.estimate
        return {
            "segment": self.value,
            "n": self.n,
            "method": None if estimate is None else estimate.method,
            "value": None if estimate is None else estimate.value,
            "low": None if estimate is None else estimate.low,
            "high": None if estimate is None else estimate.high,
            "reason": self.reason,
            "n_source": self.n_source,
            "source_accuracy": self.source_accuracy,
            "status": self.status,
            "shift": to_jsonable(self.shift),
        }


@dataclass(frozen=True, eq=False)
class AssessedRows:
    """Predictions that an assessment was computed from; of a large target, a random sample.

    `name` is the file name of the target, if the target was read from a file.
    """

    source: Predictions
    target: Predictions
    name: str = ""


@dataclass(frozen=True, repr=False)
class Assessment(ResultViews):
    """Result of `estimate`: the accuracy on the target as estimated by every applicable method.

    ``assessment["atc-mc"]`` is the estimate of one method. Notebooks show an assessment as HTML;
    `to_frame`, `to_html` and `chart` return its tables, its report and its charts.

    Parameters
    ----------
    n_source, n_target : int
        Number of source and target rows.
    k : int
        Number of classes.
    source_accuracy : float
        Accuracy on the source.
    source_interval : tuple of float
        95 % confidence interval of the accuracy on the source (Wilson).
    temperature : float or None
        Temperature by which the logits were divided; None if the scores were not changed.
    estimates : tuple of Estimate
        Estimates of all applicable methods.
    skipped : dict of str to str
        For each method that is not applicable, by name, the reason why it is not.
    headline : Headline
        Estimate that is shown first.
    diagnostics : tuple of Diagnostic
        Checks that warn when estimates may not be reliable.
    segments : tuple of Segment
        Estimates by segment.
    seed : int
        Random seed.
    shift : ShiftInterval, optional
        Typical range of the accuracy, computed from the errors in reference cases and from a
        history of past domains.
    notes : tuple of str
        Remarks on how the numbers were computed, such as the use of samples.
    calibration : str
        How the probabilities that some methods read were calibrated: "none", "temperature",
        "isotonic", "beta" or "platt".
    labels_needed : int
        Number of target rows to label for a confidence interval of ±3 points that is valid under
        any shift.
    additional : AdditionalResults, optional
        Expected metrics, lower bound and non-inferiority test, if they were requested.
    plan_arguments : tuple of str
        Arguments that the printed command `oodometer plan` starts with: the file of the target, and
        options that name the source and the columns.
    inputs : AssessedRows, optional
        Predictions of source and target, which the report and some charts need. They stay in
        memory as long as the assessment, and are left out when it is pickled.

    Examples
    --------
    >>> from oodometer import Predictions, estimate
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> result = estimate(source, target, methods="ac", temperature=None)
    >>> result.n_target, result.source_accuracy, round(result["ac"].value, 3)
    (2, 0.5, 0.8)
    >>> result
    Assessment(accuracy=0.55, interval=(0, 1), typical_range=None, status='warning', ...)
    """

    renderer: ClassVar[str] = "oodometer.report.assessment_views"
    transient_fields: ClassVar[tuple[str, ...]] = ("inputs",)

    n_source: int
    n_target: int
    k: int
    source_accuracy: float
    source_interval: tuple[float, float]
    temperature: float | None
    estimates: tuple[Estimate, ...]
    skipped: dict[str, str]
    headline: Headline
    diagnostics: tuple[Diagnostic, ...]
    segments: tuple[Segment, ...]
    seed: int
    shift: ShiftInterval | None = None
    notes: tuple[str, ...] = ()
    calibration: str = "temperature"
    labels_needed: int = 0
    additional: AdditionalResults | None = None
    plan_arguments: tuple[str, ...] = field(default=("TARGET",), compare=False)
    inputs: AssessedRows | None = field(default=None, compare=False)

    def __getitem__(self, method: str) -> Estimate:
        """Return the estimate of one method."""
        name = method.lower()
        for estimate in self.estimates:
            if estimate.method == name:
                return estimate
        if name in self.skipped:
            raise NotApplicable(f"{method} is not applicable: {self.skipped[name]}")
        raise KeyError(method)

    @property
    def accuracy(self) -> float:
        """Return the estimated accuracy on the target: the value of the headline."""
        return self.headline.estimate.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of the accuracy; None if there is none.

        The interval reflects sampling error only, unless target labels were used; it is then valid
        under any shift.
        """
        low, high = self.headline.estimate.low, self.headline.estimate.high
        return None if low is None or high is None else (low, high)

    @property
    def typical_range(self) -> tuple[float, float] | None:
        """Return the typical range, which includes the error caused by shift; None if unknown."""
        return None if self.shift is None else (self.shift.low, self.shift.high)

    @property
    def status(self) -> Status:
        """Return the worst status of the diagnostics that concern the headline."""
        return self.headline.status

    @property
    def metrics(self) -> tuple[ExpectedMetric, ...]:
        """Return the expected metrics other than accuracy; empty if none were requested."""
        return () if self.additional is None else self.additional.metrics

    @property
    def bound(self) -> AccuracyLowerBound | None:
        """Return the lower bound on the accuracy; None if it was not requested or does not apply."""
        return None if self.additional is None else self.additional.bound

    @property
    def noninferiority(self) -> NoninferiorityResult | None:
        """Return the non-inferiority test; None if it was not requested or does not apply."""
        return None if self.additional is None else self.additional.verdict

    def key_values(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "interval": self.interval,
            "typical_range": self.typical_range,
            "status": self.status,
            "method": self.headline.estimate.method,
            "n_source": self.n_source,
            "n_target": self.n_target,
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the tables `methods`, `segments`, `diagnostics` and `metrics`."""
        names = ("method", "value", "low", "high", "assumes")
        methods = [{name: getattr(row, name) for name in names} for row in self.estimates]
        for row in methods:
            row["headline"] = row["method"] == self.headline.estimate.method
        return {
            "methods": methods,
            "segments": [_segment_row(segment) for segment in self.segments],
            "diagnostics": [
                {**check.to_dict(), "methods": ", ".join(check.methods)}
                for check in self.diagnostics
            ],
            "metrics": [] if self.additional is None else to_jsonable(self.additional.metrics),
        }

    @property
    def verdict(self) -> str:
        """Return the result as sentences, with the assumption and a warning about its limits."""
        parts = [self.summary, self._interval_caveat, *self.explanation]
        if self.next_step:
            parts.append(f"{self.next_step}: {self.plan_command}")
        return " ".join(parts)

    @property
    def explanation(self) -> tuple[str, ...]:
        """Return sentences on the shift that was found, the assumption, the diagnostics and past errors.

        The sentences repeat neither the estimate nor its intervals.
        """
        return (*self._method_sentences, self._status_sentence, *self._past_errors)

    @property
    def next_step(self) -> str:
        """Return how many rows to label; an empty text if no labels are needed or would help."""
        if self.headline.status == "ok" or self.uses_target_labels or not self.labels_needed:
            return ""
        if self.is_source:
            return ""
        rows = f"{self.labels_needed:,} rows of the target"
        if self.labels_needed == self.n_target:
            rows = f"all {rows}"
        return f"To know the accuracy within ±3 points under any shift, label {rows}"

    @property
    def plan_command(self) -> str:
        """Return the command that chooses the rows to label, quoted for a shell.

        If the target was not read from a file by a command, the word TARGET stands for its path, and
        the Python call `plan_call` can be used instead.
        """
        words = ["oodometer", "plan", *self.plan_arguments, "--labels", str(self.labels_needed)]
        return shlex.join([*words, "--output", "to_label.csv"])

    @property
    def plan_call(self) -> str:
        """Return the Python call that chooses the rows to label; `target` is that of `estimate`."""
        return (
            f'oodometer.plan_labels(target, n_labels={self.labels_needed}).to_csv("to_label.csv")'
        )

    def notes_on(self, estimate: Estimate) -> tuple[str, ...]:
        """Return the notes on an estimate; for the method of the headline, also its correction."""
        headline = self.headline.estimate
        if estimate.method != headline.method:
            return estimate.notes
        added = [f"the headline is {note}" for note in headline.notes if note not in estimate.notes]
        return (*estimate.notes, *added)

    @property
    def uses_target_labels(self) -> bool:
        """Return whether the headline is estimated from target labels, so shift cannot bias it."""
        return self.headline.estimate.method == PPI_METHOD

    @property
    def is_source(self) -> bool:
        """Return whether the target is the source itself."""
        return any(diagnostic.name == SAME_ROWS for diagnostic in self.diagnostics)

    @property
    def typical_range_text(self) -> str:
        """Return the typical range in percent, or the reason why there is none."""
        if self.uses_target_labels:
            return "not needed: the labels are those of the target"
        if self.shift is None:
            return (
                f"unknown: there are no reference cases for the method "
                f"{self.headline.estimate.method}, and no history of domains with known accuracy"
            )
        return f"{format_interval(self.shift)} ({100 * self.shift.level:.0f} %, {self.range_basis})"

    @property
    def range_basis(self) -> str:
        """Return from which errors the typical range is computed; an empty text without a range."""
        if self.shift is None:
            return ""
        counts = {
            "past domains": self.shift.n_domains,
            "batches of the source": self.shift.n_source_batches,
            "suites of reference cases": self.shift.n_suites,
        }
        parts = [f"{count} {name}" for name, count in counts.items() if count]
        return f"typical of {' and '.join(parts)}, not a guarantee"

    @property
    def interval_scope(self) -> str:
        """Return which errors the confidence interval of the headline includes."""
        return "valid under any shift" if self.uses_target_labels else "sampling error only"

    @property
    def summary(self) -> str:
        """Return the accuracy on the target and on the source, after a warning if they are equal."""
        warning = ""
        if self.is_source:
            warning = (
                "Source and target are the same rows, so the estimate says nothing about other "
                "data. "
            )
        return (
            f"{warning}The estimated accuracy on the target is "
            f"{format_percent(self.headline.estimate.value)} %, after "
            f"{format_percent(self.source_accuracy)} % on the source."
        )

    @property
    def _interval_caveat(self) -> str:
        """Return the intervals, and which errors they include."""
        interval = f"The 95 % confidence interval ({format_interval(self.headline.estimate)})"
        if self.uses_target_labels:
            return f"{interval} includes the error from shift."
        text = f"{interval} reflects sampling error only, not violations of the method's assumption"
        if self.shift is None:
            return (
                f"{text}. How large the error from such a violation is remains unknown without "
                "past domains of known accuracy (history)."
            )
        return (
            f"{text}; the typical range, {self.typical_range_text}, includes the error from shift."
        )

    @property
    def _method_sentences(self) -> tuple[str, ...]:
        """Return why the method was chosen, and what it assumes."""
        estimate = self.headline.estimate
        if "weight_confidence" in estimate.facts:
            why = self.headline.why
            return f"{why[0].upper()}{why[1:]}.", self._regime_assumption
        return (
            f"Method: {estimate.method}, {self.headline.why}.",
            f"Assumption: {estimate.assumes}.",
        )

    @property
    def _regime_assumption(self) -> str:
        """Return the assumptions of the regimes that have a weight, with the weights."""
        estimate = self.headline.estimate
        weights = {
            assumption: estimate.facts[fact] for fact, assumption in REGIME_ASSUMPTIONS.items()
        }
        used = {name: weight for name, weight in weights.items() if weight >= MIN_SHOWN_WEIGHT}
        if len(used) == 1:
            return f"The estimate (method {estimate.method}) assumes that {next(iter(used))}."
        parts = [f"{name} ({100 * weight:.0f} %)" for name, weight in used.items()]
        return (
            f"The estimate (method {estimate.method}) is an average of estimates that assume that "
            f"{', or that '.join(parts)}."
        )

    @property
    def _status_sentence(self) -> str:
        """Return the diagnostics that concern the headline and have the worst status."""
        status = self.headline.status
        names = ", ".join(
            check.name
            for check in self.diagnostics
            if check.status == status and check.concerns(self.headline.estimate.method)
        )
        if self.uses_target_labels:
            return (
                "The confidence interval is valid under any shift, because it uses target labels."
            )
        return {
            "ok": "No diagnostic found a problem.",
            "warning": f"Diagnostics with a warning: {names}.",
            "critical": f"Do not rely on this estimate before you have checked {names} (critical).",
        }[status]

    @property
    def _past_errors(self) -> tuple[str, ...]:
        """Return in which direction past estimates, or those of reference cases, were wrong."""
        shift = self.shift
        if shift is None:
            return ()
        if shift.n_domains:
            side = "high" if shift.bias > 0 else "low"
            points = f"{format_percent(abs(shift.bias))} points too {side} on average"
            correction = ""
            if shift.correction:
                correction = (
                    f", and consistently so; the estimate was corrected by "
                    f"{100 * shift.correction:+.1f} points"
                )
            return (
                f"The typical range assumes that this domain is similar to the {shift.n_domains} "
                f"past domains of the history. Their estimates were {points}{correction}.",
            )
        share = shift.too_high_share
        if share is None or share < MOSTLY_TOO_HIGH:
            return ()
        return (
            f"In reference cases like this one, {100 * share:.0f} % of the estimates were too high.",
        )

    def __str__(self) -> str:
        """Return the result as text whose lines have at most `TEXT_COLUMNS` characters."""
        interval = format_interval(self.headline.estimate)
        sentences = [
            self.summary,
            f"Confidence interval ({self.interval_scope}): {interval}",
            f"Typical range: {self.typical_range_text}",
            "",
            *self.explanation,
            *self.notes,
        ]
        lines = [line for sentence in sentences for line in _wrap(sentence)]
        if self.next_step:
            # The call is not wrapped, so that it can be copied.
            lines += [*_wrap(f"{self.next_step}:"), f"  {self.plan_call}"]
        if self.additional is not None:
            lines += ["", *self._additional_lines(self.additional)]
        lines += ["", *self._method_lines(), "", *self._diagnostic_lines()]
        if self.segments:
            lines += ["", "segment               n  accuracy  95 % interval"]
        for segment in self.segments:
            result = segment.reason
            if segment.estimate is not None:
                accuracy = format_percent(segment.estimate.value)
                result = f"{accuracy:>7}   {format_interval(segment.estimate)}"
            lines += _wrap(result, f"{segment.value:<16} {segment.n:>6}  ")
        return "\n".join(lines)

    def _additional_lines(self, additional: AdditionalResults) -> list[str]:
        """Return the expected metrics by class, then the other requested results.

        If there are many classes, only the mean over classes is listed.
        """
        lines = []
        headings, rows = additional.metric_table
        for scope, *cells in rows if len(rows) <= MAX_METRIC_LINES else rows[-1:]:
            name = "mean over classes" if scope == "macro" else f"class {scope}"
            metrics = [
                f"{heading} {value}{f', source {known}' if known else ''}"
                for heading, value, known in zip(
                    headings[1::2], cells[::2], cells[1::2], strict=True
                )
            ]
            lines += _wrap("; ".join(metrics), f"Expected metrics, {name}: ", indent=2)
        return [*lines, *(line for text in additional.sentences for line in _wrap(text))]

    def _method_lines(self) -> list[str]:
        """Return the table of the estimates, and the methods that are not applicable."""
        width = max(len(name) for name in (*(e.method for e in self.estimates), *self.skipped))
        lines = [f"{'method':<{width}}  accuracy  95 % interval  assumption"]
        for estimate in self.estimates:
            numbers = f"{format_percent(estimate.value):>7}   {format_interval(estimate):<13}"
            lines += _wrap(estimate.assumes, f"{estimate.method:<{width}}  {numbers}  ")
        for name, why in self.skipped.items():
            lines += _wrap(f"not applicable: {why}", f"{name:<{width}}  ")
        return lines

    def _diagnostic_lines(self) -> list[str]:
        """Return the table of the diagnostics; those that are not ok have a meaning and advice."""
        lines = ["status    diagnostic              value"]
        for check in self.diagnostics:
            lines.append(f"{check.status:<8}  {check.name:<22}  {check.formatted_value}")
            if check.status != "ok":
                text = f"{check.meaning}{concerned_methods(check)}. What to do: {check.advice}."
                lines += _wrap(text, " " * 10)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with stable keys, for JSON."""
        additional = {} if self.additional is None else {"additional": self.additional.to_dict()}
        return {
            "accuracy": self.accuracy,
            "interval": to_jsonable(self.interval),
            "typical_range": to_jsonable(self.typical_range),
            "status": self.status,
            "n_source": self.n_source,
            "n_target": self.n_target,
            "k": self.k,
            "source_accuracy": self.source_accuracy,
            "source_low": self.source_interval[0],
            "source_high": self.source_interval[1],
            "temperature": self.temperature,
            "calibration": self.calibration,
            "seed": self.seed,
            "estimates": to_jsonable(self.estimates),
            "skipped": [{"method": m, "reason": r} for m, r in self.skipped.items()],
            "headline": self.headline.to_dict(),
            "diagnostics": to_jsonable(self.diagnostics),
            "segments": to_jsonable(self.segments),
            "shift": to_jsonable(self.shift),
            "labels_needed": self.labels_needed,
            "notes": list(self.notes),
            "verdict": self.verdict,
            **additional,
        }


def _wrap(text: str, start: str = "", *, indent: int | None = None) -> list[str]:
    """Return `start` and a text in lines of at most `TEXT_COLUMNS` characters.

    Later lines are indented by `indent` spaces, by default by the length of `start`.

    >>> _wrap("long " * 16, "ac  ")
    ['ac  long long long long long long long long long long long long long long long', '    long']
    """
    spaces = " " * (len(start) if indent is None else indent)
    lines = textwrap.wrap(
        text,
        TEXT_COLUMNS,
        initial_indent=start,
        subsequent_indent=spaces,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start.rstrip()]


def _segment_row(segment: Segment) -> dict[str, Any]:
    """Return a segment as a flat row; its typical range has two columns."""
    row = segment.to_dict()
    shift = row.pop("shift")
    return row | {f"typical_{end}": shift and shift[end] for end in ("low", "high")}
