"""The exception tree.

OodometerError
├── InputError      what was given can't be used (also a ValueError)
│   └── UnknownName     a name that nothing has
├── NotApplicable   the method does not apply here; the message is the reason
└── MissingExtra    an optional package is not installed (also an ImportError)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# So many names are listed at most.
MAX_LISTED_NAMES = 30


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """What to add to a message on a name that is not known: the nearest that is, or nothing.

    >>> did_you_mean("lable", ["label", "site"]), did_you_mean("atc", ["ac", "atc-mc"])
    (" Did you mean 'label'?", " Did you mean 'atc-mc'?")
    """
    names, meant = list(known_names), name.lower()
    longer = [one for one in names if meant and one.startswith(meant)]
    cutoff = 0.0 if longer else 0.5
    near = difflib.get_close_matches(meant, longer or names, n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


class OodometerError(Exception):
    """Whatever this package raises on purpose."""


class InputError(OodometerError, ValueError):
    """What was given can't be used; the message says what would be right."""


class UnknownName(InputError):
    """A name that nothing has.

    >>> str(UnknownName("estimator", "acc", ["ac", "atc-mc"]))
    "No estimator is called 'acc'. Did you mean 'ac'? There are: ac, atc-mc."
    """

    def __init__(self, kind: str, name: str, known_names: Iterable[str]) -> None:
        names = list(known_names)
        self._init_args = (kind, name, names)
        hint = did_you_mean(name, names)
        listed = (
            names
            if len(names) <= MAX_LISTED_NAMES
            else [*names[:MAX_LISTED_NAMES], f"and {len(names) - MAX_LISTED_NAMES} more"]
        )
        super().__init__(f"No {kind} is called {name!r}.{hint} There are: {', '.join(listed)}.")

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, list[str]]]:
        # An exception is unpickled from its message unless told otherwise, and workers pickle.
        return UnknownName, self._init_args


class NotApplicable(OodometerError):
    """The method does not apply to this input; the message is the reason."""


class MissingExtra(OodometerError, ImportError):
    """An optional package is not installed; the message says how to get it."""


def format_error(error: Exception) -> str:
    """What went wrong, in one line; our own errors say it all.

    >>> format_error(ValueError("no luck")), format_error(InputError("Give more rows."))
    ('ValueError: no luck', 'Give more rows.')
    """
    own = isinstance(error, OodometerError)
    return " ".join((str(error) if own else f"{type(error).__name__}: {error}").split())
