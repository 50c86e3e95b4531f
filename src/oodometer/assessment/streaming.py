"""estimate_files(): outputs larger than memory, in one pass, by one process or by many.

Estimators whose sums add up read every row. The others, the lights and the page see a random sample
of the target. In memory are a few batches of at most 32 MiB each, the sums, and the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oodometer.assessment import _estimate, headline
from oodometer.assessment._estimate import Past
from oodometer.assessment._streamed_estimators import Summed, passed
from oodometer.assessment._streamed_source import Source, gathered
from oodometer.assessment._streamed_target import Target
from oodometer.assessment.bootstrap import Task, each, tasks_of
from oodometer.assessment.diagnostics import Evidence
from oodometer.assessment.partial_sums import Plan, Summing, Tally
from oodometer.assessment.ppi import Chances, FewLabels, Rest, few_labels
from oodometer.assessment.result import Assessment, Segment
from oodometer.core.calibration import Temperature
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Estimator, Progress, Staged
from oodometer.core.stats import stream
from oodometer.data.bottom_k import ceiling
from oodometer.data.prediction_files import Columns
from oodometer.parallel._thread_limits import one_thread
from oodometer.parallel.runners import Runner, serial

# Rows of the target that are kept for what needs all rows at once, and cells (rows times classes).
SAMPLE, SAMPLE_CELLS = 100_000, 16_000_000
# Labels of the target that are looked at.
MOST_LABELS = 100_000


@dataclass(frozen=True)
class Asked:
    """What is asked of the files, in the words of `estimate`; `by` is a column of the target."""

    methods: str | Sequence[str | Estimator] | None = None
    temperature: float | Literal["fit"] | None = "fit"
    by: str | None = None
    seed: int = 0
    replicates: int = 200

    def __post_init__(self) -> None:
        if self.replicates < 20:
            raise InputError(f"replicates must be at least 20; got {self.replicates}.")

    @cached_property
    def members(self) -> list[Estimator]:
        """The estimators themselves."""
        return _estimate.members_of(self.methods)


@dataclass(frozen=True, eq=False)
class Streamed:
    """What was found, of which source, and the sample of the target; `labels` are the target's."""

    assessment: Assessment
    source: Predictions
    sample: Predictions
    labels: int


def estimate_files(
    source: str | Path,
    target: str | Path,
    *,
    columns: Columns | None = None,
    asked: Asked | None = None,
    history: Past = None,
    runner: Runner = serial,
    progress: Progress | None = None,
) -> Assessment:
    """How accurate the model is on the target, whose outputs are in files larger than memory.

    Both are a file, a folder of files or a pattern such as "scores/*.parquet", of Parquet, CSV or
    Arrow; `columns` says what their columns are called, and `asked` is what `estimate` is asked.
    Methods whose sums add up read every row; the others and the lights see a random sample of the
    target, which the notes tell. `runner` may be `processes(4)` or `distributed(address)`: the
    result is the same.
    """
    given = Columns() if columns is None else columns
    wanted = Asked() if asked is None else asked
    how = How(runner, progress)
    return streamed(source, target, given, wanted, history=history, how=how).assessment


@dataclass(frozen=True)
class How:
    """Who works, and who is told of it."""

    runner: Runner = serial
    progress: Progress | None = None

    def teller(self, total: int | None, what: str) -> Callable[[int], None]:
        """Counts rows, and tells how many are done."""
        done = 0

        def tell(more: int) -> None:
            nonlocal done
            done += more
            if self.progress is not None:
                shown = what if total is not None else f"{done:,} {what}"
                self.progress(done, total or 0, shown)

        return tell


@one_thread()
def streamed(
    source: str | Path,
    target: str | Path,
    columns: Columns,
    asked: Asked,
    *,
    history: Past = None,
    how: How | None = None,
) -> Streamed:
    """The same, with what a page is made of."""
    how = How() if how is None else how
    rows = Target.open(target, columns, asked.by)
    given = gathered(source, columns, asked.seed, how.runner, how.teller(None, "source rows"))
    ready = _Ready.of(given.predictions, rows, asked)
    tell = how.teller(rows.total, "rows")
    tally = passed(ready.plan(), ready.rows.parts, how.runner, tell)
    seen = _Seen(ready, tally, ready.rows.predictions(tally.sample))
    assessment = seen.assessment(given, history)
    labels = tally.n - tally.blanks if rows.taken.label is not None else 0
    return Streamed(assessment, given.predictions, seen.sample, labels)


@dataclass(frozen=True, eq=False)
class _Ready:
    """What is known before the pass: the source at its temperature, and what methods learned."""

    rows: Target
    asked: Asked
    source: Predictions
    fitted: Temperature | None
    temperature: float | None
    summing: dict[str, Summing]
    refused: dict[str, str]

    @classmethod
    def of(cls, source: Predictions, rows: Target, asked: Asked) -> _Ready:
        source, first = _estimate.at_the_door(source, rows.first)
        rows = rows.in_order(source.class_names)
        fitted, used = _estimate.temperature_of(source, first, asked.temperature)
        if used is not None:
            source, first = source.at_temperature(used), first.at_temperature(used)
        summing, refused = {}, {}
        for member in asked.members:
            if isinstance(member, Staged) and member.streams:
                try:
                    learned = member.learn(source)
                    member.summarize(learned, first)  # who can't sum these up can't any
                    summing[member.name] = Summing(member, learned)
                except NoAnswer as reason:
                    refused[member.name] = str(reason)
        return cls(rows, asked, source, fitted, used, summing, refused)

    @cached_property
    def chances(self) -> Chances:
        """How often rows as sure are right on the source."""
        return Chances.of(self.source)

    def plan(self) -> Plan:
        """What is done with every part of the target."""
        size = min(SAMPLE, SAMPLE_CELLS // self.rows.k)
        return Plan(
            taken=self.rows.taken,
            rows=self.rows.batch,
            temperature=1.0 if self.temperature is None else self.temperature,
            members=tuple(self.summing.values()),
            seed=self.asked.seed,
            size=size,
            limit=ceiling(size, self.rows.total),
            labels=MOST_LABELS,
            chances=self.chances,
            segmented=self.segmented,
        )

    @property
    def segmented(self) -> Summing | None:
        """The method of the segments, where it sums up and there are any."""
        names = [m.name for m in self.asked.members if m.name not in self.refused]
        if self.asked.by is None or not names:
            return None
        return self.summing.get(headline.for_parts(names, self.source))

    def tasks(self, members: Sequence[Estimator]) -> dict[str, Task]:
        """Estimators with the source."""
        asked = self.asked
        return tasks_of(
            members, self.source, self.temperature, seed=asked.seed, replicates=asked.replicates
        )


@dataclass(frozen=True, eq=False)
class _Seen:
    """What is known after the pass."""

    ready: _Ready
    tally: Tally
    sample: Predictions

    def assessment(self, given: Source, history: Past) -> Assessment:
        """The whole of it."""
        ready = self.ready
        found, refused = self._estimates()
        evidence = Evidence(ready.source, self._tempered, tuple(found.values()), ready.fitted)
        # Past domains are read whole, by the methods themselves.
        tasks = ready.tasks(ready.asked.members)
        notes = tuple(self._notes(given, list(found)))
        case = _estimate.Case(evidence, tasks, refused, self._few(), notes)
        segments: tuple[Segment, ...] = ()
        if ready.asked.by is not None:
            segments = tuple(self._segments(headline.for_parts(found, ready.source)))
        return case.concluded(self.tally.n, segments, history)

    @cached_property
    def _tempered(self) -> Predictions:
        used = self.ready.temperature
        return self.sample if used is None else self.sample.at_temperature(used)

    @property
    def _of(self) -> str:
        return f"a random sample of {self.sample.n:,} of {self.tally.n:,} rows"

    @property
    def _in_part(self) -> bool:
        return self.sample.n < self.tally.n

    def _summed(self, name: str, total: Any) -> Summed:
        return Summed(self.ready.summing[name], total)

    def _estimates(self) -> tuple[dict[str, Estimate], dict[str, str]]:
        """What every method says, and why some say nothing; those asked for must all speak."""
        asked, totals = self.ready.asked, self.tally.totals
        refused = self.ready.refused | self.tally.refused
        members: list[Estimator] = [
            self._summed(m.name, totals[m.name]) if m.name in totals else m
            for m in asked.members
            if m.name not in refused
        ]
        found, silent = each(self.ready.tasks(members), self._tempered, None)
        order = [m.name for m in asked.members if m.name in refused | silent]
        refused = {name: (refused | silent)[name] for name in order}
        _estimate.check_spoken(found, refused, asked=bool(asked.methods))
        if self._in_part:
            for name in found.keys() - totals.keys():
                notes = (*found[name].notes, f"from {self._of}")
                found[name] = replace(found[name], notes=notes)
        return found, refused

    def _segments(self, name: str) -> Iterator[Segment]:
        """A method on each part: of its sums, or where it has none of the sample."""
        plan = self.ready.segmented
        if plan is None or plan.member.name != name:
            yield from self._sampled_segments(name)
            return
        for _, part in sorted(self.tally.segments.items()):
            if part.reason:
                yield Segment(part.name, part.n, None, part.reason)
                continue
            task = self.ready.tasks([self._summed(name, part.total)])[name]
            yield task.segment(part.name, part.n, self._tempered)

    def _sampled_segments(self, name: str) -> Iterator[Segment]:
        assert self.tally.sample is not None
        task = self.ready.tasks(self.ready.asked.members)[name]
        values = self.tally.sample.rows["by"]
        for value in np.unique(values):
            rows = self._tempered.rows(values == value)
            yield task.segment(str(np.asarray(value).astype(str)), rows.n, rows)

    def _few(self) -> FewLabels | None:
        """The accuracy from few labels; where every row has one, nothing was left to tell."""
        known = self.tally.labelled
        if known is None or not len(known) or not self.tally.blanks:
            return None
        right = known.rows["classes"] == self.ready.rows.labels(known)
        chances = self.ready.chances
        scores = chances(known.rows["confidence"])
        rest = Rest.beside(self.tally.chances, chances.shares, scores)
        return few_labels(right, scores, rest, rng=stream(self.ready.asked.seed, "few labels"))

    def _notes(self, given: Source, names: Sequence[str]) -> Iterator[str]:
        """What a reader must know of samples."""
        if given.note is not None:
            yield given.note
        if self._in_part:
            whole = [name for name in names if name in self.tally.totals]
            yield (
                f"{', '.join(whole) or 'No method'} read all rows of the target; the other "
                f"methods, the lights and the charts see {self._of}."
            )
        labels = self.tally.n - self.tally.blanks
        if self.ready.rows.taken.label is not None and MOST_LABELS < labels < self.tally.n:
            yield f"Of {labels:,} labels of the target a random sample of {MOST_LABELS:,} was used."
