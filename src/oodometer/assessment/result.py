"""Result of estimate(): estimates, headline, diagnostics and segments, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.assessment.ppi import PPI_METHOD
from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import to_jsonable
from oodometer.core.results import Diagnostic, Estimate, Status

# Smallest share of similar reference cases with a too high estimate that the verdict mentions.
MOSTLY_TOO_HIGH = 2 / 3


def format_percent(fraction: float) -> str:
    """Return a fraction as text in percent, without the percent sign.

    >>> format_percent(0.8125)
    '81.2'
    """
    return f"{100 * fraction:.1f}"


def format_interval(interval: Estimate | ShiftInterval) -> str:
    """Return the bounds of an interval as text in percent."""
    if interval.low is None or interval.high is None:
        return "unknown"
    return f"{format_percent(interval.low)}–{format_percent(interval.high)}"


@dataclass(frozen=True)
class Headline:
    """Estimate that is shown first, the reason for its choice, and the worst diagnostic status."""

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


@dataclass(frozen=True)
class Assessment:
    """Result of `estimate`: the accuracy on the target as estimated by every applicable method.

    ``assessment["atc-mc"]`` is the estimate of one method.

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

    Examples
    --------
    >>> from oodometer import Predictions, estimate
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> result = estimate(source, target, methods="ac", temperature=None)
    >>> result.n_target, result.source_accuracy, round(result["ac"].value, 3)
    (2, 0.5, 0.8)
    """

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
    def verdict(self) -> str:
        """Return the result as sentences, with the assumption and a warning about its limits."""
        estimate = self.headline.estimate
        status = self.headline.status
        names = ", ".join(
            check.name
            for check in self.diagnostics
            if check.status == status and check.concerns(estimate.method)
        )
        warnings = {
            "ok": "No diagnostic found a problem.",
            "warning": f"Diagnostics with a warning: {names}.",
            "critical": f"Do not rely on this estimate before you have checked {names} (critical).",
        }
        return (
            f"The estimated accuracy on the target is {format_percent(estimate.value)} % "
            f"(95 % confidence interval {format_interval(estimate)}), after "
            f"{format_percent(self.source_accuracy)} % on the source. Method: {estimate.method}, "
            f"{self.headline.why}. Assumption: {estimate.assumes}. {warnings[status]} "
            f"{self._shift_caveat}{self._next_step}"
        )

    @property
    def _next_step(self) -> str:
        """Return how many rows to label if the status is not ok, and the command that does it."""
        if self.headline.status == "ok" or self.uses_target_labels or not self.labels_needed:
            return ""
        return (
            f" To know the accuracy within ±3 points under any shift, label {self.labels_needed:,} "
            f"rows of the target: oodometer plan TARGET --labels {self.labels_needed} --output "
            "to_label.csv"
        )

    @property
    def uses_target_labels(self) -> bool:
        """Return whether the headline is estimated from target labels, so shift cannot bias it."""
        return self.headline.estimate.method == PPI_METHOD

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
        return (
            f"{format_interval(self.shift)} ({100 * self.shift.level:.0f} %, {self._range_basis})"
        )

    @property
    def _range_basis(self) -> str:
        assert self.shift is not None
        suites = f"typical of {self.shift.n_suites} suites of reference cases, not a guarantee"
        domains = f"{self.shift.n_domains} past domains"
        if not self.shift.n_domains:
            return suites
        return f"{domains}; {suites}" if self.shift.n_suites else domains

    @property
    def _shift_caveat(self) -> str:
        if self.uses_target_labels:
            return (
                "The confidence interval is valid under any shift, because it uses target labels."
            )
        if self.shift is None:
            return (
                "The confidence interval reflects sampling error only, not violations of the "
                "method's assumption. How large the error from such a violation is remains unknown "
                "without past domains of known accuracy (history)."
            )
        sentences = [
            f"The typical range, which includes the error from shift, is "
            f"{format_interval(self.shift)} ({100 * self.shift.level:.0f} %, {self._range_basis})."
        ]
        share = self.shift.too_high_share
        if share is not None and share >= MOSTLY_TOO_HIGH and not self.shift.n_domains:
            sentences.append(
                f"In reference cases like this one, {100 * share:.0f} % of the estimates were too "
                "high."
            )
        return " ".join([*sentences, *self._history_sentences])

    @property
    def _history_sentences(self) -> tuple[str, ...]:
        if self.shift is None or not self.shift.n_domains:
            return ()
        side = "high" if self.shift.bias > 0 else "low"
        correction = ""
        if self.shift.correction:
            correction = (
                f", consistently, so the estimate was corrected by "
                f"{100 * self.shift.correction:+.1f} points"
            )
        return (
            f"It assumes that this domain is similar to the {self.shift.n_domains} past domains of "
            f"the history; their estimates were {format_percent(abs(self.shift.bias))} points too "
            f"{side} on average{correction}.",
        )

    def __str__(self) -> str:
        width = max(len(estimate.method) for estimate in self.estimates)
        lines = [
            self.verdict,
            *self.notes,
            "",
            f"confidence interval (sampling error only): {format_interval(self.headline.estimate)}",
            f"typical range: {self.typical_range_text}",
            "",
            f"{'method':<{width}}  accuracy  95 % interval  assumption",
        ]
        lines += [
            f"{e.method:<{width}}  {format_percent(e.value):>7}   {format_interval(e):<13}  {e.assumes}"
            for e in self.estimates
        ]
        lines += [f"{name:<{width}}  not applicable: {why}" for name, why in self.skipped.items()]
        lines += ["", "status    diagnostic              value   meaning"]
        lines += [
            f"{d.status:<8}  {d.name:<22}  {d.formatted_value:<6}  {d.meaning}"
            for d in self.diagnostics
        ]
        if self.segments:
            lines += ["", "segment               n  accuracy  95 % interval"]
        for segment in self.segments:
            result = segment.reason
            if segment.estimate is not None:
                accuracy = format_percent(segment.estimate.value)
                result = f"{accuracy:>7}   {format_interval(segment.estimate)}"
            lines.append(f"{segment.value:<16} {segment.n:>6}  {result}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with stable keys, for JSON."""
        return {
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
        }
