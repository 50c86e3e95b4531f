"""Measures by many workers: first what the model makes of all rows, then the measures of it.

The rows are cut into blocks, whose outputs and features are put together here. Then measures that
have much in common go to one worker, and so do all measures of one subset of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.core.errors import NoAnswer, OodometerError
from oodometer.core.protocols import Measure, Progress
from oodometer.measures.subject import Found, Subject, subset, taken
from oodometer.models._feature_passes import Part, Passed, together
from oodometer.models.inference import ROWS, check_alike, said
from oodometer.models.introspection.network import LAST, Network
from oodometer.models.model_view import Given, View
from oodometer.parallel._ordered_map import blocks, named, ordered
from oodometer.parallel._thread_limits import one_thread
from oodometer.parallel.runners import Runner

# Measures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """Measures of all rows, or of the subset of a number."""

    names: tuple[str, ...]
    number: int | None = None


@dataclass(frozen=True, eq=False)
class Measuring:
    """Takes measures of a subject, told by what there is to look at."""

    members: Mapping[str, Measure]
    source: Given
    target: Given
    training: Given | None
    seed: int

    @classmethod
    def of(cls, members: Sequence[Measure], subject: Subject) -> Measuring:
        """Of a subject whose progress nobody hears of."""
        by_name = {member.name: member for member in members}
        views = (subject.source, subject.target, subject.training)
        sides = [None if one is None else replace(one.given, progress=None) for one in views]
        return cls(by_name, sides[0], sides[1], sides[2], subject.seed)  # type: ignore[arg-type]

    @cached_property
    def subject(self) -> Subject:
        """The subject, which keeps what measures share from one task to the next."""
        training = None if self.training is None else View(self.training)
        return Subject(View(self.source), View(self.target), training, self.seed)

    def __call__(self, wanted: Wanted) -> Found:
        """Scores, or why there are none."""
        with one_thread():
            whole = self.subject
            some = whole if wanted.number is None else subset(whole, wanted.number)
            return taken([self.members[name] for name in wanted.names], some)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "subject"}

    def sent(self) -> dict[str, Any]:
        """Measures, the model and the data."""
        sides = [side for side in (self.source, self.target, self.training) if side is not None]
        model = self.target.model
        return {
            **named("measure", self.members),
            **named("model", {} if model is None else {model.name: model}),
            **named("data", {side.name: replace(side, model=None) for side in sides}),
        }


def measured(
    runner: Runner,
    members: Sequence[Measure],
    subject: Subject,
    wanted: Sequence[Wanted],
    progress: Progress | None,
) -> list[Found]:
    """What came of every wish, in order."""
    total, done, found = sum(len(one.names) for one in wanted), 0, []
    with closing(ordered(runner, Measuring.of(members, subject), wanted)) as results:
        for wish, some in zip(wanted, results, strict=True):
            done += len(some)
            found.append(some)
            if progress:
                what = "" if wish.number is None else f", subset {wish.number + 1}"
                progress(done, total, f"measured {wish.names[-1]}{what}")
    return found


# Passes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """Why a block can't be looked at. As an error it would be raised, and end the work on all."""

    error: OodometerError


@dataclass(frozen=True, eq=False)
class Looking:
    """Shows batches of rows to the model: of what, and at which layer; at none, it is just asked."""

    sides: tuple[tuple[Given, str | None], ...]

    @cached_property
    def networks(self) -> list[Network | None]:
        """The open network of every side, where it is looked into."""
        return [None if layer is None else View(given).network for given, layer in self.sides]

    def __call__(self, task: tuple[int, Sequence[slice]]) -> list[Part] | Refused:
        """Outputs and features of some batches of a side, or why there are none."""
        side, batches = task
        try:
            with one_thread():
                return [self._part(side, batch) for batch in batches]
        except OodometerError as error:
            return Refused(error)

    def _part(self, side: int, batch: slice) -> Part:
        (given, layer), network = self.sides[side], self.networks[side]
        assert given.dataset is not None
        assert given.model is not None
        inputs = given.dataset.take(batch)
        if network is not None and layer is not None:
            return network.look(inputs, layer)
        return said(given.model, inputs, given.model.name), np.empty((len(inputs), 0))

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "networks"}

    def sent(self) -> dict[str, Any]:
        """The model and the data."""
        models = {given.model.name: given.model for given, _ in self.sides if given.model}
        data = {given.name: given.dataset for given, _ in self.sides}
        return {**named("model", models), **named("data", data)}


def passed(runner: Runner, subject: Subject, progress: Progress | None) -> Subject:
    """The same, whose outputs and features are known already; where there are none, as it was."""
    views = [subject.source, subject.target, subject.training]
    known = {
        place: _Side(replace(view.given, progress=None), view.featureless())
        for place, view in enumerate(views)
        if view is not None and view.given.dataset is not None and view.given.outputs is None
    }
    for _ in range(2):  # what could not be looked into is asked, in a second round
        _look(runner, [one for one in known.values() if one.unknown], progress)
    for place, one in known.items():
        # A side on which the model fails is left to the measures, some of which may not need it.
        if isinstance(one.result, tuple):
            views[place] = View(replace(one.given, passed=one.result))
    return Subject(views[0], views[1], views[2], subject.seed)  # type: ignore[arg-type]


@dataclass
class _Side:
    """A side, why it is not looked into, and what came of it."""

    given: Given
    reason: str | None
    result: Passed | OodometerError | None = None

    @property
    def unknown(self) -> bool:
        return self.result is None

    @property
    def layer(self) -> str | None:
        return self.given.layer if self.reason is None else None

    @property
    def batches(self) -> list[slice]:
        n = View(self.given).n
        return [slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS)]

    def add(self, parts: Sequence[list[Part] | Refused]) -> None:
        """What came of its blocks."""
        failed = next((part.error for part in parts if isinstance(part, Refused)), None)
        if isinstance(failed, NoAnswer) and self.layer is not None:
            self.reason = str(failed)  # there may be outputs nevertheless
            return
        self.result = failed
        if failed is None:
            self._put_together([one for part in parts if isinstance(part, list) for one in part])

    def _put_together(self, parts: list[Part]) -> None:
        dataset = self.given.dataset
        labels = dataset.labels if dataset is not None and self.given.labelled else None
        try:
            for outputs, _ in parts:
                check_alike(parts[0][0], outputs, self.given.model.name if self.given.model else "")
            outputs, features = together(parts, self.layer or LAST, labels)
            self.result = outputs, features if self.reason is None else self.reason
        except NoAnswer as refusal:
            self.reason = str(refusal)
        except OodometerError as error:
            self.result = error


def _look(runner: Runner, sides: Sequence[_Side], progress: Progress | None) -> None:
    """Have all blocks of some sides looked at."""
    work = Looking(tuple((one.given, one.layer) for one in sides))
    tasks = [(at, part) for at, one in enumerate(sides) for part in blocks(one.batches, ROWS)]
    found: list[list[list[Part] | Refused]] = [[] for _ in sides]
    with closing(ordered(runner, work, tasks)) as results:
        for done, ((at, _), part) in enumerate(zip(tasks, results, strict=True), start=1):
            found[at].append(part)
            if progress:
                progress(done, len(tasks), f"looking at {sides[at].given.name}")
    for one, parts in zip(sides, found, strict=True):
        one.add(parts)
