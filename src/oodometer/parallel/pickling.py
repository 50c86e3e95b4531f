"""Pickling of models and datasets by reference: the path or URL is pickled, not the content.

A worker opens the path or URL itself. Therefore no large data are sent through a pipe or a
scheduler, and objects that cannot be pickled, such as open sessions, can be used in workers.
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
# Environment variable with the folder of cached features.
CACHE_FOLDER_VARIABLE = "OODOMETER_CACHE"


@dataclass(frozen=True)
class ReopenSpec:
    """Description of how an object was opened, from which a worker can open it again.

    `opener` is the function that opened the object, written as package.module:function. `target` is
    its first argument, a path or URL, and `settings` are its other arguments. `import_folder` is
    the folder in which modules are searched first.
    """

    opener: str
    target: str
    settings: tuple[tuple[str, Any], ...] = ()
    import_folder: str = ""

    @classmethod
    def create(
        cls, opener: str, target: str | Path, settings: Mapping[str, Any]
    ) -> ReopenSpec | None:
        """Return a spec that is valid in any working directory; None if a setting has no hash."""
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
    """Search this folder first for modules, because a worker may run in another folder."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


class ReopenOnUnpickle:
    """Base class of objects that are pickled by their `ReopenSpec` if they have one."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        spec = vars(self).get("_reopen_spec")
        if spec is None:
            return super().__reduce_ex__(protocol)
        return reopen, (spec, getattr(self, "fingerprint", None))


def with_reopen_spec(instance: Instance, reopen_spec: ReopenSpec | None) -> Instance:
    """Store a `ReopenSpec` in an instance, and return the instance."""
    if isinstance(instance, ReopenOnUnpickle):
        # The spec is not a dataclass field, because the instance may be frozen and a changed copy of
        # the instance must not have the spec.
        vars(instance)["_reopen_spec"] = reopen_spec
    return instance


def reopen(reopen_spec: ReopenSpec, fingerprint: str | None) -> Any:
    """Open an object again; raise if the content of a dataset differs from the fingerprint."""
    instance = reopen_spec.load()
    if fingerprint is not None and instance.fingerprint != fingerprint:
        raise InputError(
            f"The rows of {reopen_spec.target!r} differ from those in the process that sent them. "
            "Give every worker the same files."
        )
    return instance
