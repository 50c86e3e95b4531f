"""Pickling of models and datasets by reference: how they were opened instead of their content.

A worker opens the file or address itself. Nothing large goes through a pipe or a scheduler, and
objects that can't be pickled, such as open sessions, need not be.
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
# Environment variable with the folder of research data.
DATA_FOLDER_VARIABLE = "OODOMETER_DATA"


@dataclass(frozen=True)
class ReopenSpec:
    """Function that opened an object (as package.module:function), its target and its settings.

    `import_folder` is the folder that was searched first for modules.
    """

    opener: str
    target: str
    settings: tuple[tuple[str, Any], ...] = ()
    import_folder: str = ""

    @classmethod
    def create(
        cls, opener: str, target: str | Path, settings: Mapping[str, Any]
    ) -> ReopenSpec | None:
        """Return a spec that is valid in any working directory; None if a setting is unhashable."""
        path = os.path.abspath(target) if os.path.exists(target) else str(target)
        hashable = tuple(
            (name, tuple(value) if isinstance(value, list) else value)
            for name, value in settings.items()
        )
        spec = cls(opener, path, hashable, os.getcwd())
        try:
            hash(spec)
        except TypeError:  # such as arrays of labels
            return None
        return spec

    def load(self) -> Any:
        """Open the object again."""
        module, _, name = self.opener.partition(":")
        with _search_first(self.import_folder):
            return getattr(import_module(module), name)(self.target, **dict(self.settings))


@contextmanager
def _search_first(folder: str) -> Iterator[None]:
    """Import modules from a folder first; a worker may have another working directory."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


class ReopenOnUnpickle:
    """Base class of objects that are pickled as a `ReopenSpec` if they have one."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        spec = vars(self).get("_reopen_spec")
        if spec is None:
            return super().__reduce_ex__(protocol)
        return reopen, (spec, getattr(self, "fingerprint", None))


def with_reopen_spec(instance: Instance, reopen_spec: ReopenSpec | None) -> Instance:
    """Return the instance after storing in it how it was opened."""
    if isinstance(instance, ReopenOnUnpickle):
        # Not a field: the instance may be frozen, and a changed copy must not have it.
        vars(instance)["_reopen_spec"] = reopen_spec
    return instance


def reopen(reopen_spec: ReopenSpec, fingerprint: str | None) -> Any:
    """Return the reopened object; raise if the fingerprint of a dataset has changed."""
    instance = reopen_spec.load()
    if fingerprint is not None and instance.fingerprint != fingerprint:
        raise InputError(
            f"The rows of {reopen_spec.target!r} differ from those in the process that sent them. "
            "Give every worker the same files."
        )
    return instance
