"""Places: where a model or a dataset was opened, which is all that a worker is sent of it.

A worker opens the file or the address itself. Nothing large goes through a pipe or a scheduler, and
what can't be sent at all, such as an open session, need not be.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from oodometer.core.errors import InputError

Thing = TypeVar("Thing")
# Names the folder of research data.
VARIABLE = "OODOMETER_DATA"


@dataclass(frozen=True)
class Place:
    """A door, as package.module:function, what was opened through it, and with which settings.

    `folder` is where modules were looked for first.
    """

    door: str
    thing: str
    settings: tuple[tuple[str, Any], ...] = ()
    folder: str = ""

    @classmethod
    def of(cls, door: str, thing: str | Path, settings: Mapping[str, Any]) -> Place | None:
        """Where a thing is found from any folder; None where its settings are no plain values."""
        path = os.path.abspath(thing) if os.path.exists(thing) else str(thing)
        plain = tuple((name, _plain(value)) for name, value in settings.items())
        place = cls(door, path, plain, os.getcwd())
        try:
            hash(place)
        except TypeError:  # arrays of labels, and the like
            return None
        return place

    def opened(self) -> Any:
        """What is there now."""
        module, _, name = self.door.partition(":")
        with _first(self.folder):
            return getattr(import_module(module), name)(self.thing, **dict(self.settings))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@contextmanager
def _first(folder: str) -> Iterator[None]:
    """Modules are looked for in a folder first: a worker's own may be another."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


class Placed:
    """What is sent to another process as the place where it was opened, if it knows one."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        place = vars(self).get("_place")
        if place is None:
            return super().__reduce_ex__(protocol)
        return reopened, (place, getattr(self, "fingerprint", None))


def placed(opened: Thing, place: Place | None) -> Thing:
    """The same, which knows from now on where it was opened."""
    if isinstance(opened, Placed):
        # It may be frozen; this is no setting of it, and a changed copy does not have it.
        vars(opened)["_place"] = place
    return opened


def reopened(place: Place, fingerprint: str | None) -> Any:
    """What is at a place, if it is what was there; of a model that can't be told."""
    found = place.opened()
    if fingerprint is not None and found.fingerprint != fingerprint:
        raise InputError(
            f"The rows of {place.thing!r} are not the same here as where the work was begun. Give "
            "every worker the same files."
        )
    return found
