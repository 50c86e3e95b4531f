"""What estimate() gives back: numbers, lights and plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.assessment.diagnostics import Diagnostic, Status
from oodometer.assessment.ppi import PPI_METHOD
from oodometer.core.errors import NotApplicable
from oodometer.core.results import Estimate


def format_percent(fraction: float) -> str:
    """A fraction in percentage points.

    >>> format_percent(0.8125)
    '81.2'
    """
    return f"{100 * fraction:.1f}"


def format_interval(interval: Estimate | ShiftInterval) -> str:
    """An interval in percentage points."""
    if interval.low is None or interval.high is None:
        return "unknown"
    return f"{format_percent(interval.low)}–{format_percent(interval.high)}"


@dataclass(frozen=True)
class Headline:
    """The one number, which method it is, and why that one."""

    estimate: Estimate
    why: str
    status: Status

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**self.estimate.to_dict(), "why": self.why, "status": self.status}


@dataclass(frozen=True)
class Segment:
    """An estimate for one part of the target."""

    value: str
    n: int
    estimate: Estimate | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = self.estimate
        return {
            "segment": self.value,
            "n": self.n,
            "method": None if found is None else found.method,
            "value": None if found is None else found.value,
            "low": None if found is None else found.low,
            "high": None if found is None else found.high,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Assessment:
    """How accurate the model is on the target, by every method that could tell."""

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

    def __getitem__(self, method: str) -> Estimate:
        """The estimate of one method, by its name."""
        for found in self.estimates:
            if found.method == method.lower():
                return found
        if method.lower() in self.skipped:
            raise NotApplicable(f"{method} is not applicable: {self.skipped[method.lower()]}")
        raise KeyError(method)

    @property
    def verdict(self) -> str:
        """The result in plain words, with what is assumed."""
        found, lights = self.headline.estimate, self.headline.status
        names = [d.name for d in self.diagnostics if d.status == lights]
        trouble = {
            "green": "No sign of trouble was found.",
            "amber": f"Take care: {', '.join(names)} (amber).",
            "red": f"Do not rely on it before looking into: {', '.join(names)} (red).",
        }[lights]
        return (
            f"The model is right on about {format_percent(found.value)} % of the target "
            f"({format_interval(found)} by sampling alone), after {format_percent(self.source_accuracy)} % on the "
            f"source, says {found.method}. That holds if {found.assumes}. {trouble} "
            f"{self._shift_caveat}"
        )

    @property
    def uses_target_labels(self) -> bool:
        """Whether the headline rests on labels of the target, which no shift deceives."""
        return self.headline.estimate.method == PPI_METHOD

    @property
    def typical_range_text(self) -> str:
        """The interval for shift in percentage points; where there is none, why."""
        if self.uses_target_labels:
            return "not needed: the labels are of the target itself"
        if self.shift is None:
            return "unknown: no past domains whose truth is known"
        return (
            f"{format_interval(self.shift)} "
            f"({100 * self.shift.level:.0f} %, {self.shift.n_domains} past domains)"
        )

    @property
    def _shift_caveat(self) -> str:
        if self.uses_target_labels:
            return (
                "The interval holds whatever has shifted, for the labels are of the target itself."
            )
        if self.shift is None:
            return (
                "The interval covers the luck of the draw, not a shift that breaks the assumption: "
                "how far that goes is unknown without past domains whose truth is known (history). "
                "Where shift broke it, estimates have mostly been too high."
            )
        side = "high" if self.shift.bias > 0 else "low"
        return (
            f"With shift, if this domain is one more like the {self.shift.n_domains} of the history, it "
            f"lies in {format_interval(self.shift)} "
            f"({100 * self.shift.level:.0f} %); there estimates were {format_percent(abs(self.shift.bias))} "
            f"points too {side} on average."
        )

    def __str__(self) -> str:
        wide = max(len(found.method) for found in self.estimates)
        lines = [
            self.verdict,
            *self.notes,
            "",
            f"interval by sampling alone: {format_interval(self.headline.estimate)}",
        ]
        lines += [
            f"interval with shift: {self.typical_range_text}",
            "",
            f"{'method':<{wide}}  accuracy  95 % interval  assumes",
        ]
        lines += [
            f"{found.method:<{wide}}  {format_percent(found.value):>7}   {format_interval(found):<13}  {found.assumes}"
            for found in self.estimates
        ]
        lines += [f"{name:<{wide}}  not applicable: {why}" for name, why in self.skipped.items()]
        lines += ["", "light  diagnostic              value   meaning"]
        lines += [
            f"{d.status:<5}  {d.name:<22}  {d.formatted_value:<6}  {d.meaning}"
            for d in self.diagnostics
        ]
        if self.segments:
            lines += ["", "segment               n  accuracy  95 % interval"]
        for s in self.segments:
            shown = (
                f"{format_percent(s.estimate.value):>7}   {format_interval(s.estimate)}"
                if s.estimate
                else s.reason
            )
            lines.append(f"{s.value:<16} {s.n:>6}  {shown}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {
            "n_source": self.n_source,
            "n_target": self.n_target,
            "k": self.k,
            "source_accuracy": self.source_accuracy,
            "source_low": self.source_interval[0],
            "source_high": self.source_interval[1],
            "temperature": self.temperature,
            "seed": self.seed,
            "estimates": [found.to_dict() for found in self.estimates],
            "skipped": [{"method": m, "reason": r} for m, r in self.skipped.items()],
            "headline": self.headline.to_dict(),
            "diagnostics": [diagnostic.to_dict() for diagnostic in self.diagnostics],
            "segments": [segment.to_dict() for segment in self.segments],
            "shift": None if self.shift is None else self.shift.to_dict(),
            "notes": list(self.notes),
            "verdict": self.verdict,
        }
