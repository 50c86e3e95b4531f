"""The exception tree.

OodometerError
├── InputError      what was given can't be used (also a ValueError)
│   └── UnknownName     a name that nothing has
├── NotApplicable   the method does not apply here; the message is the reason
└── MissingExtra    an optional package is not installed (also an ImportError)
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

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
        listed = ", ".join(_limit_names(names))
        super().__init__(f"No {kind} is called {name!r}.{hint} There are: {listed}.")

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


def unknown_column(name: str, columns: Iterable[str], *, where: str = "the table") -> InputError:
    """Return the error for a column that does not exist.

    Parameters
    ----------
    name : str
        The requested column.
    columns : iterable of str
        The columns that exist.
    where : str
        What was searched, as a noun phrase.

    Examples
    --------
    >>> str(unknown_column("lable", ["label", "site"], where="'scores.csv'"))
    "There is no column 'lable' in 'scores.csv'. Did you mean 'label'? Columns: label, site."
    """
    names = list(columns)
    return InputError(
        f"There is no column {name!r} in {where}.{did_you_mean(name, names)} "
        f"Columns: {', '.join(_limit_names(names)) or 'none'}."
    )


def out_of_range(
    argument: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> InputError:
    """Return the error for a number outside its range.

    Parameters
    ----------
    argument : str
        Name of the parameter or option.
    value : object
        The value that was passed.
    low, high : float, optional
        Inclusive bounds.
    above, below : float, optional
        Exclusive bounds.

    Examples
    --------
    >>> str(out_of_range("replicates", 5, low=20))
    'replicates must be at least 20; got 5.'
    >>> str(out_of_range("level", 1.5, above=0, below=1))
    'level must be above 0 and below 1; got 1.5.'
    """
    phrases = {"at least": low, "at most": high, "above": above, "below": below}
    limits = [f"{words} {limit:,}" for words, limit in phrases.items() if limit is not None]
    return InputError(f"{argument} must be {' and '.join(limits)}; got {value!r}.")


def wrong_shape(argument: str, expected: str, shape: tuple[int, ...]) -> InputError:
    """Return the error for an array of the wrong shape.

    Parameters
    ----------
    argument : str
        Name of the parameter.
    expected : str
        The right shape, such as ``"(n, k)"``, with a remark if one is needed.
    shape : tuple of int
        Shape of the array that was passed.

    Examples
    --------
    >>> str(wrong_shape("features", "(n, d)", (3,)))
    'features must have shape (n, d); got (3,).'
    """
    return InputError(f"{argument} must have shape {expected}; got {shape}.")


def not_a_file(path: str | os.PathLike[str], *, expected: str = "a file") -> InputError:
    """Return the error for a path that does not lead to a file.

    Parameters
    ----------
    path : str or path-like
        The path that was passed.
    expected : str
        What was expected there, as a noun phrase.

    Examples
    --------
    >>> str(not_a_file("scroes.csv"))
    "'scroes.csv' does not exist; expected a file. Check the path."
    """
    location = Path(path)
    found = "is a folder" if location.is_dir() else "does not exist"
    if location.exists() and not location.is_dir():
        found = "is not a regular file"
    return InputError(f"{str(path)!r} {found}; expected {expected}. Check the path.")


def _limit_names(names: list[str]) -> list[str]:
    if len(names) <= MAX_LISTED_NAMES:
        return names
    return [*names[:MAX_LISTED_NAMES], f"and {len(names) - MAX_LISTED_NAMES} more"]
