"""The labelled source, gathered from many files: all of its rows, or a random sample of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.data._partitions import Part, is_many, located, parted
from oodometer.data._score_schema import Taken, batch_rows, said_of, tables, take_from
from oodometer.data.bottom_k import Bottom, Keeper, ceiling, priorities
from oodometer.data.prediction_files import Columns, Outputs
from oodometer.parallel.runners import Runner

# A source of more rows, or of more cells (rows times classes), is represented by a sample.
MOST_ROWS, MOST_CELLS = 2_000_000, 64_000_000
# A single file that is larger than this is read batch by batch.
LARGE = 1_000_000_000


@dataclass(frozen=True, eq=False)
class Source:
    """Labelled predictions, and of how many rows they are a sample."""

    predictions: Predictions
    n: int

    @property
    def note(self) -> str | None:
        """What is to be said of a sample."""
        if self.predictions.n == self.n:
            return None
        return f"The source is a random sample of {self.predictions.n:,} of {self.n:,} rows."


def is_large(where: str | Path) -> bool:
    """Whether it is many files, or one that is not read whole."""
    path = Path(where)
    return is_many(where) or (path.is_file() and path.stat().st_size > LARGE)


def gathered(
    where: str | Path,
    columns: Columns,
    seed: int,
    runner: Runner,
    tell: Callable[[int], None],
) -> Source:
    """The source of a file, a folder or a pattern; a small file is read as it always is."""
    if not is_large(where):
        whole = Outputs.open(where).predictions(columns, labelled=True)
        return Source(whole, whole.n)
    files = located(where)
    taken = take_from(files, columns, labelled=True)
    parts, total = parted(files)
    k = classes_of(taken, parts)
    size = min(MOST_ROWS, MOST_CELLS // k)
    plan = Gathering(taken, batch_rows(k), seed, size, ceiling(size, total))
    keeper, done = Keeper(size), 0
    for _, found in runner(plan, parts):
        if isinstance(found, Exception):
            raise found
        done += found[0]
        tell(found[0])
        if found[1] is not None:
            keeper.add(found[1])
    return Source(_made(keeper.sample(), taken, files), done)


def classes_of(taken: Taken, parts: Sequence[Part]) -> int:
    """How many classes there are, by the first rows that can be found."""
    if not taken.places.alone:
        return len(taken.places.columns)
    for part in parts:
        for _, table in tables(replace(taken, label=None, by=None), part, 64):
            with said_of(part.path):
                return int(taken.scores(table).shape[1])
    raise InputError("There are no rows in these files; at least one was expected.")


@dataclass(frozen=True)
class Gathering:
    """What is done with every part of the source; it can be sent to workers."""

    taken: Taken
    rows: int
    seed: int
    size: int
    limit: int

    def __call__(self, part: Part) -> tuple[int, Bottom | None]:
        """How many rows the part has, and the sample of them."""
        keeper, n = Keeper(self.size, self.limit), 0
        for before, table in tables(self.taken, part, self.rows):
            with said_of(part.path, part.start + before):
                self._keep(keeper, table, part.place + before)
            n += table.num_rows
        return n, keeper.sample()

    def _keep(self, keeper: Keeper, table: Any, place: int) -> None:
        scores = self.taken.scores(table)
        kept: dict[str, Array] = {"scores": scores}
        if self.taken.label is not None:
            kept["labels"] = frames.values(table, self.taken.label)
        draws = priorities(self.seed, place, len(scores))
        keeper.offer(draws, Bottom(place + np.arange(len(scores)), draws, kept).take)


def _made(sample: Bottom | None, taken: Taken, files: Sequence[Path]) -> Predictions:
    if sample is None:
        raise InputError(f"{files[0].parent} has no rows; at least one was expected.")
    return taken.predictions(sample.rows["scores"], sample.rows.get("labels"))
