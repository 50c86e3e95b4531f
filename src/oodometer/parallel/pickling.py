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

Instance = TypeVar("Instance")
# Names the folder of research data.
DATA_FOLDER_VARIABLE = "OODOMETER_DATA"


@dataclass(frozen=True)
class ReopenSpec:
    """A door, as package.module:function, what was opened through it, and with which settings.

    `import_folder` is where modules were looked for first.
    """

    opener: str
    target: str
    settings: tuple[tuple[str, Any], ...] = ()
    import_folder: str = ""

    @classmethod
    def create(
        cls, opener: str, target: str | Path, settings: Mapping[str, Any]
    ) -> ReopenSpec | None:
        """Where a thing is found from any folder; None where its settings are no plain values."""
        path = os.path.abspath(target) if os.path.exists(target) else str(target)
        plain = tuple((name, _to_hashable(value)) for name, value in settings.items())
        place = cls(opener, path, plain, os.getcwd())
        try:
            hash(place)
        except TypeError:  # arrays of labels, and the like
            return None
        return place

    def load(self) -> Any:
        """What is there now."""
        module, _, name = self.opener.partition(":")
        with _import_folder_first(self.import_folder):
            return getattr(import_module(module), name)(self.target, **dict(self.settings))


def _to_hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@contextmanager
def _import_folder_first(folder: str) -> Iterator[None]:
    """Modules are looked for in a folder first: a worker's own may be another."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


class ReopenOnUnpickle:
    """What is sent to another process as the place where it was opened, if it knows one."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        place = vars(self).get("_place")
        if place is None:
            return super().__reduce_ex__(protocol)
        return reopen, (place, getattr(self, "fingerprint", None))


def with_reopen_spec(instance: Instance, reopen_spec: ReopenSpec | None) -> Instance:
    """The same, which knows from now on where it was opened."""
    if isinstance(instance, ReopenOnUnpickle):
        # It may be frozen; this is no setting of it, and a changed copy does not have it.
        vars(instance)["_place"] = reopen_spec
    return instance


def reopen(reopen_spec: ReopenSpec, fingerprint: str | None) -> Any:
    """What is at a place, if it is what was there; of a model that can't be told."""
    found = reopen_spec.load()
    if fingerprint is not None and found.fingerprint != fingerprint:
        raise InputError(
            f"The rows of {reopen_spec.target!r} are not the same here as where the work was begun. Give "
            "every worker the same files."
        )
    return found
