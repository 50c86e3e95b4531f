"""Exception classes of the package, and constructors of errors with common messages.

OodometerError
├── InputError      invalid input (also a ValueError)
│   └── UnknownName     unknown name of an estimator, layer, class, ...
├── NotApplicable   the method does not apply to this input; the message is the reason
└── MissingExtra    an optional package is not installed (also an ImportError)

A message says what is wrong (with the value), what was expected, and how to correct it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

# Maximum number of known names that an error message lists.
MAX_LISTED_NAMES = 30
# Maximum length of a path in an error message, in characters.
MAX_PATH_CHARS = 300


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return a suggestion to append to an error message; "" if no known name is similar.

    >>> did_you_mean("lable", ["label", "site"]), did_you_mean("atc", ["ac", "atc-mc"])
    (" Did you mean 'label'?", " Did you mean 'atc-mc'?")
    >>> did_you_mean("Sex", ["AGE", "SEX"])
    " Did you mean 'SEX'?"
    """
    by_lower_case: dict[str, str] = {}
    for known in known_names:
        by_lower_case.setdefault(known.lower(), known)
    typed = name.lower()
    completions = [known for known in by_lower_case if typed and known.startswith(typed)]
    cutoff = 0.0 if completions else 0.5
    nearest = difflib.get_close_matches(typed, completions or by_lower_case, n=1, cutoff=cutoff)
    return f" Did you mean {by_lower_case[nearest[0]]!r}?" if nearest else ""


class OodometerError(Exception):
    """Base class of the exceptions that this package raises."""


class InputError(OodometerError, ValueError):
    """Invalid input; the message says what would be valid."""


class UnknownName(InputError):
    """Unknown name, with the known names and the most similar one.

    Parameters
    ----------
    kind : str
        Noun for the objects that have such names, for example "estimator".
    name : str
        The unknown name.
    known_names : iterable of str
        The names that exist.

    Examples
    --------
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
        # Workers send this exception to the parent process. By default, unpickling would call the
        # constructor with the message as its only argument.
        return UnknownName, self._init_args


class NotApplicable(OodometerError):
    """Raised by a method that does not apply to its input; the message is the reason."""


class MissingExtra(OodometerError, ImportError):
    """Raised if an optional package is not installed; the message says how to install it."""


def format_error(error: BaseException, *, first_line: bool = False) -> str:
    """Return an exception as one line of text.

    Parameters
    ----------
    error : BaseException
        The exception. The text begins with the type of the exception, except for an
        `OodometerError`, whose message is complete without the type.
    first_line : bool
        Return only the first line of the message, without the type and the final period, so that
        it can be quoted in another message. For an `OSError`, the line is the text of the operating
        system without the path.

    Examples
    --------
    >>> format_error(ValueError("bad\\nvalue")), format_error(InputError("Pass more rows."))
    ('ValueError: bad value', 'Pass more rows.')
    >>> format_error(ValueError("Bad value.\\nDetails"), first_line=True)
    'Bad value'
    """
    name = type(error).__name__
    if first_line:
        message = str(getattr(error, "strerror", None) or error).strip()
        return (message.splitlines() or [name])[0].rstrip(". ") or name
    message = " ".join(str(error).split())
    if isinstance(error, OodometerError):
        return message
    return f"{name}: {message}" if message else name


def unknown_column(name: str, columns: Iterable[str], *, where: str = "the table") -> InputError:
    """Return the error for a column that does not exist.

    Parameters
    ----------
    name : str
        The requested column.
    columns : iterable of str
        The columns that exist.
    where : str
        Noun phrase for the place that was searched, for example a quoted file name.

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
        The expected shape, such as ``"(n, k)"``, optionally followed by an explanation.
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
        Noun phrase for the expected kind of file, for example "a Parquet file".

    Examples
    --------
    >>> str(not_a_file("scroes.csv", expected="a Parquet file"))
    "There is no file 'scroes.csv'; expected a Parquet file. Check the path."
    """
    name = repr(str(path))[:MAX_PATH_CHARS]
    # A path without an extension is more likely the path of a folder.
    has_extension = bool(os.path.splitext(os.fspath(path))[1])
    problem = f"There is no file {name}" if has_extension else f"There is no file or folder {name}"
    # os.path is used because the methods of Path raise if a name is too long for the file system.
    if os.path.isdir(path):
        problem = f"{name} is a folder"
    elif os.path.exists(path):
        problem = f"{name} is not a regular file"
    return InputError(f"{problem}; expected {expected}. Check the path.")


def _limit_names(names: list[str]) -> list[str]:
    if len(names) <= MAX_LISTED_NAMES:
        return names
    return [*names[:MAX_LISTED_NAMES], f"and {len(names) - MAX_LISTED_NAMES} more"]
