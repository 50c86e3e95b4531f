"""One pass over the rows of a target: what every estimator sums up, a sample, and few labels.

A tally of some rows and one of others add up to that of both, so parts may be read by anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oodometer.assessment import _fused_softmax
from oodometer.assessment.ppi import Chances
from oodometer.core import frames
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Staged
from oodometer.core.segments import segment_values
from oodometer.core.softmax_kernels import Array, Ints
from oodometer.data._partitions import Part
from oodometer.data._score_schema import Taken, label_values, said_of, tables
from oodometer.data.bottom_k import Bottom, Keeper, priorities

# A column with more values than this is no column of segments.
MOST_SEGMENTS = 10_000


@dataclass(frozen=True)
class Summing:
    """An estimator that sums up, with what it learned of the source."""

    member: Staged[Any, Any]
    learned: Any


@dataclass
class Segment:
    """The rows of one value: how it is shown, how many they are, and what was summed of them.

    `reason` is why nothing could be summed.
    """

    name: str
    n: int
    total: Any
    reason: str = ""


@dataclass
class Tally:
    """What was found of some rows."""

    n: int = 0
    totals: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    segments: dict[Any, Segment] = field(default_factory=dict)
    chances: Any = 0
    blanks: int = 0
    sample: Bottom | None = None
    labelled: Bottom | None = None

    def add(self, other: Tally) -> None:
        """The sums of other rows; samples are for who keeps them."""
        self.n += other.n
        self.blanks += other.blanks
        self.chances = self.chances + other.chances
        self.refused.update(other.refused)
        for name, total in other.totals.items():
            self.totals[name] = self.totals[name] + total if name in self.totals else total
        for value, segment in other.segments.items():
            self.add_segment(value, segment)

    def add_segment(self, value: Any, more: Segment) -> None:
        """More rows of one value."""
        known = self.segments.get(value)
        if known is None:
            self.segments[value] = more
            return
        known.n += more.n
        known.reason = known.reason or more.reason
        if not known.reason:
            known.total = known.total + more.total


@dataclass(frozen=True)
class Plan:
    """What is done with every part; it can be sent to workers.

    `segmented` is the estimator of the segments. Of the sample `size` rows are kept, of rows with
    labels `labels`; `limit` is a priority that no row of the sample has. `chances` are those of
    rows whose labels are few.
    """

    taken: Taken
    rows: int
    temperature: float
    members: tuple[Summing, ...]
    seed: int
    size: int
    limit: int
    labels: int
    chances: Chances
    segmented: Summing | None = None

    def __call__(self, part: Part, tell: Callable[[int], None] | None = None) -> Tally:
        """The tally of a part; `tell` hears of rows as they are done."""
        found, sample, labelled = Tally(), Keeper(self.size, self.limit), Keeper(self.labels)
        room = self._room()
        for before, table in tables(self.taken, part, self.rows):
            with said_of(part.path, part.start + before):
                rows = self.predictions(table, room)
                batch = Batch(table, part.place + before, rows, self.seed)
                self._count(found, batch)
                batch.keep(sample, labelled, self.taken)
            if tell is not None:
                tell(table.num_rows)
        found.sample, found.labelled = sample.sample(), labelled.sample()
        return found

    def _room(self) -> Array:
        """Where the scores of one batch after another are laid."""
        wide = any(str(kind) == "double" for _, kind in self.taken.types)
        shape = len(self.taken.places.columns), self.rows
        return np.empty(shape, dtype=np.float64 if wide else np.float32)

    def predictions(self, table: Any, room: Array | None = None) -> Predictions:
        """Rows of a table, checked; what is in `room` is theirs until it is used again."""
        return _fused_softmax.checked(
            self.taken.scores(table, room),
            self.taken.places.form,
            temperature=self.temperature,
            names=self.taken.class_names,
        )

    def _count(self, found: Tally, batch: Batch) -> None:
        rows = batch.predictions
        found.n += rows.n
        for one in self.members:
            if one.member.name not in found.refused:
                _add(found, one, rows)
        if self.taken.label is not None:
            found.chances = found.chances + self.chances.counts(rows.confidence)
            found.blanks += rows.n - len(batch.labelled_rows(self.taken.label))
        if self.segmented is not None and self.taken.by is not None:
            for value, segment in _segments(self.segmented, batch, self.taken.by):
                found.add_segment(value, segment)
            check_few(len(found.segments), self.taken.by)


def _add(found: Tally, one: Summing, rows: Predictions) -> None:
    name = one.member.name
    try:
        total = one.member.summarize(one.learned, rows)
    except NoAnswer as reason:
        found.refused[name] = str(reason)
        return
    found.totals[name] = found.totals[name] + total if name in found.totals else total


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a file, the place of the first one, and what the model said of them."""

    table: Any
    place: int
    predictions: Predictions
    seed: int

    def keep(self, sample: Keeper, labelled: Keeper, taken: Taken) -> None:
        """Offer the rows to the samples."""
        draws = priorities(self.seed, self.place, self.predictions.n)
        sample.offer(draws, lambda index: self._sampled(index, draws, taken.by))
        if taken.label is not None:
            known, name = self.labelled_rows(taken.label), taken.label
            labelled.offer(draws[known], lambda index: self._labels(known[index], draws, name))

    def _sampled(self, index: Ints, draws: Ints, by: str | None) -> Bottom:
        assert self.predictions.scores is not None
        kept = {"scores": self.predictions.scores[index]}
        if by is not None:
            known, codes = _coded(self.table, by)
            kept["by"] = known[codes[index]]
        return Bottom(self.place + index, draws[index], kept)

    def _labels(self, index: Ints, draws: Ints, name: str) -> Bottom:
        rows = self.predictions
        kept = {
            "labels": label_values(self.table, name, index),
            "classes": rows.classes[index],
            "confidence": rows.confidence[index],
        }
        return Bottom(self.place + index, draws[index], kept)

    def labelled_rows(self, name: str) -> Ints:
        """The rows whose label was not left out."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        blank = column.is_null(nan_is_null=pa.types.is_floating(column.type))
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            blank = pc.or_kleene(blank, pc.equal(pc.utf8_trim_whitespace(column), ""))
        return np.flatnonzero(~np.asarray(blank))


def _coded(table: Any, by: str) -> tuple[Array, Ints]:
    """The values of a column, each once and in order, and which of them every row has."""
    import pyarrow as pa

    column = table.column(by)
    frames.check_no_gaps(column, by)
    coded = pa.concat_arrays(column.chunks) if column.num_chunks > 1 else column.chunk(0)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    check_few(len(coded.dictionary), by)
    values = segment_values(frames.values(pa.table({by: coded.dictionary}), by))
    known, place = np.unique(values, return_inverse=True)
    return known, place[np.asarray(coded.indices)]


def _segments(one: Summing, batch: Batch, by: str) -> Iterator[tuple[Any, Segment]]:
    """The rows of a batch, value by value."""
    values, codes = _coded(batch.table, by)
    names = values.astype(str)
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # of 16 bits: no comparisons
    ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for j, value in enumerate(values.tolist()):
        rows = batch.predictions.rows(order[ends[j] : ends[j + 1]])
        if rows.n:
            yield value, _summed(one, str(names[j]), rows)


def _summed(one: Summing, name: str, rows: Predictions) -> Segment:
    try:
        return Segment(name, rows.n, one.member.summarize(one.learned, rows))
    except NoAnswer as reason:
        return Segment(name, rows.n, None, str(reason))


def check_few(count: int, by: str) -> None:
    """Refuse a column that is of no use for segments, and would take all memory."""
    if count > MOST_SEGMENTS:
        raise InputError(
            f"The column {by!r} has more than {MOST_SEGMENTS:,} values. Segments are made of a "
            "column with few of them, such as a site or a day."
        )
