"""Lazy exports: the public names of a package are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its public names on first use.

    Type checkers read the imports under `TYPE_CHECKING` instead. Define `__getattr__` and `__dir__`
    only if `TYPE_CHECKING` is false: otherwise a type checker would accept every misspelt name.

    Parameters
    ----------
    package : str
        Name of the package, its `__name__`.
    modules : mapping of str to str
        Module that defines each public name, relative to the package.

    Examples
    --------
    >>> get, names = lazy_exports("oodometer.core", {"InputError": "errors"})
    >>> get("InputError").__name__, names()
    ('InputError', ['InputError'])
    """

    def __getattr__(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted(getattr(sys.modules[package], "__all__", modules))

    return __getattr__, __dir__
