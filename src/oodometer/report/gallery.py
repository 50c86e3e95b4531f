"""A folder to look at: the neighborhoods of the examples that models are least invariant on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oodometer.arrays import Floats, Ints
from oodometer.core import Model
from oodometer.errors import InputError
from oodometer.inputs import kind_of
from oodometer.predictions import Predictions
from oodometer.readings import Neighborhoods
from oodometer.report.changes import Sheet, written
from oodometer.report.folder import INDEX, MARK, check_folder, put_files
from oodometer.report.grids import Caption, grid
from oodometer.report.page import FOLDER, environment
from oodometer.sampling import Round
from oodometer.showing import Show, Shown

# No script may run. `self` is nothing to some browsers when the page is opened from a disk.
_POLICY = "'none'; img-src 'self' file:"


@dataclass(frozen=True)
class Decision:
    """The class a model put an input in, and whether it is another than the original's."""

    number: int
    name: str
    moved: bool

    @property
    def plain(self) -> str:
        """The class as a font of ASCII can write it, a sign before it where it is another."""
        writable = self.name.isascii() and self.name.isprintable() and self.name.strip()
        return ("!= " if self.moved else "") + (self.name if writable else str(self.number))


@dataclass(frozen=True)
class Member:
    """One of the different inputs of a neighborhood, and how many of its members it is."""

    name: str
    times: int
    decisions: tuple[Decision, ...]

    @property
    def caption(self) -> Caption:
        """What stands below its image: what the first model says."""
        times = f" x{self.times}" if self.times > 1 else ""
        first = self.decisions[0]
        return Caption(first.plain, self.name + times, first.moved)


@dataclass(frozen=True, eq=False)
class Example:
    """An example, the measure of it by each model, and its neighborhood."""

    position: int
    values: tuple[float, ...]
    members: tuple[Member, ...]
    sheet: Sheet
    picture: bytes | None
    source: str = ""

    @property
    def value(self) -> float:
        """The mean over models."""
        return float(np.mean(self.values))

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"example_{self.position:04d}.png"


def write_gallery(
    folder: str | Path,
    found: Neighborhoods,
    models: Mapping[str, Model],
    show: Show,
    *,
    count: int = 12,
    measure: str = "pa",
) -> int:
    """Write the neighborhoods of the `count` least invariant examples; gives how many there are.

    `models` and `show` are those that `found` was made with: the inputs are drawn again from the
    same seed. The folder then has a page `index.html`, and for images a picture an example.
    """
    check_folder(folder)
    if count < 1:
        raise InputError(f"count must be 1 or more; got {count}. Give how many examples to write.")
    _check_same(found, models, show)
    values = np.stack([one.by_example(measure) for one in found])
    chosen = least(values.mean(axis=0), count)
    examples = [_example(found, models, show, row, values[:, row]) for row in chosen]
    files = {one.file: one.picture for one in examples if one.picture is not None}
    page = _page(found, examples, measure).encode("utf-8", errors="replace")
    put_files(folder, {**files, INDEX: page})
    return len(examples)


def least(values: Floats, count: int) -> Ints:
    """Where the lowest values are, lowest first; of equal ones the first, NaN last.

    >>> least(np.array([1.0, 0.5, 0.2, 0.5]), 3)
    array([2, 1, 3])
    """
    return np.asarray(np.argsort(values, kind="stable")[:count])


def _check_same(found: Neighborhoods, models: Mapping[str, Model], show: Show) -> None:
    """Refuse to show what was not judged."""
    now = {
        "models": tuple(models),
        "fingerprint": show.dataset.fingerprint,
        "transform": show.transform.name,
        "magnitude": show.transform.magnitude,
        "seed": show.seed,
    }
    name = found.differing(now)
    if name is not None:
        raise InputError(
            f"The result has {name} {getattr(found, name)!r}, what is to be shown {now[name]!r}. "
            "Give the models, data, transform and seed that the result was made with."
        )


def _example(
    found: Neighborhoods, models: Mapping[str, Model], show: Show, row: int, values: Floats
) -> Example:
    """An example's members as they were judged: as many draws, and the same ones."""
    position = int(found[0].positions[row])
    drawn = int(found[0].tally.drawn[row])
    shown = show.make(Round(np.array([position]), range(drawn + 1)))
    members = _members(shown, [model.classify(shown.inputs) for model in models.values()])
    images = kind_of(shown.inputs) == "images"
    picture = grid(shown.inputs, [one.caption for one in members]) if images else None
    # A folder of images knows its files by name.
    files: Sequence[str] = getattr(show.dataset, "files", ())
    source = files[position] if files else ""
    sheet = written(shown.inputs)
    return Example(position, tuple(map(float, values)), members, sheet, picture, source)


def _members(shown: Shown, said: list[Predictions]) -> tuple[Member, ...]:
    """The different inputs, in the order in which they first come: the original before all."""
    _, first, times = np.unique(shown.places[:, 0], return_index=True, return_counts=True)
    return tuple(
        Member(
            f"draw {number}" if number else "original",
            int(times[place]),
            tuple(_decision(one, place) for one in said),
        )
        for place, number in enumerate(first)
    )


def _decision(said: Predictions, place: int) -> Decision:
    number = int(said.classes[place])
    name = said.class_names[number] if said.class_names else str(number)
    return Decision(number, name, number != int(said.classes[0]))


def _page(found: Neighborhoods, examples: list[Example], measure: str) -> str:
    """The page that shows them all."""
    # Imported here, so that a command without a page starts without it.
    from markupsafe import Markup

    style = "".join(
        (FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "gallery.css")
    )
    context = {
        "title": f"Least invariant examples of {found.data}",
        "found": found,
        "examples": examples,
        "measure": found.named(measure),
        "mark": Markup(MARK),
        "style": Markup(style),
        "scripts": [],
        "allowed": _POLICY,
    }
    return environment().get_template("gallery.html").render(context)
