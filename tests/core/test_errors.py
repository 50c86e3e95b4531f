"""Exceptions and the constructors of their messages."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from oodometer.core.errors import (
    InputError,
    MissingExtra,
    NotApplicable,
    OodometerError,
    UnknownName,
    format_error,
    not_a_file,
    out_of_range,
    unknown_column,
    wrong_shape,
)

KNOWN = ["ac", "atc-mc", "atc-ne", "doc"]


@pytest.mark.parametrize("kind", [InputError, UnknownName, NotApplicable, MissingExtra])
def test_all_errors_share_one_base_class(kind: type[Exception]) -> None:
    assert issubclass(kind, OodometerError)


def test_errors_also_derive_from_builtin_exceptions() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(UnknownName, InputError)
    assert issubclass(MissingExtra, ImportError)
    assert not issubclass(NotApplicable, ValueError)


@pytest.mark.parametrize(
    ("name", "meant"), [("acc", "ac"), ("ATC-MC", "atc-mc"), ("atcne", "atc-ne"), ("dco", "doc")]
)
def test_unknown_name_suggests_the_most_similar_one(name: str, meant: str) -> None:
    message = str(UnknownName("estimator", name, KNOWN))
    assert message == (
        f"No estimator is called {name!r}. Did you mean {meant!r}? "
        "There are: ac, atc-mc, atc-ne, doc."
    )


def test_dissimilar_name_gets_no_suggestion() -> None:
    message = str(UnknownName("estimator", "zzzzzz", KNOWN))
    assert message == "No estimator is called 'zzzzzz'. There are: ac, atc-mc, atc-ne, doc."


def test_known_names_may_come_from_an_iterator() -> None:
    assert "Did you mean 'doc'? There are: ac, doc." in str(
        UnknownName("estimator", "docs", iter(["ac", "doc"]))
    )


@pytest.mark.parametrize(
    "error",
    [
        InputError("bad"),
        UnknownName("estimator", "acc", KNOWN),
        NotApplicable("because"),
        MissingExtra("get it"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: Exception) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


def test_long_lists_of_names_are_truncated_but_searched_completely() -> None:
    names = [f"layer{number}" for number in range(100)]
    message = str(UnknownName("layer", "layer77x", names))
    assert "Did you mean 'layer77'?" in message
    assert message.endswith("layer28, layer29, and 70 more.")


@pytest.mark.parametrize(
    ("error", "line", "first_line"),
    [
        (ValueError("two\nlines."), "ValueError: two lines.", "two"),
        (ValueError("A sentence."), "ValueError: A sentence.", "A sentence"),
        (InputError("Pass more rows."), "Pass more rows.", "Pass more rows"),
        (ValueError(), "ValueError", "ValueError"),
        (KeyError("age"), "KeyError: 'age'", "'age'"),
        (OSError(2, "No such file", "a.csv"), "OSError: [Errno 2] No such file: 'a.csv'", None),
    ],
)
def test_error_is_formatted_as_one_line(
    error: Exception, line: str, first_line: str | None
) -> None:
    if isinstance(error, OSError):
        line = line.replace("OSError", type(error).__name__)
    assert format_error(error) == line
    assert format_error(error, first_line=True) == (first_line or "No such file")


def test_unknown_column_lists_columns_and_the_most_similar_one() -> None:
    message = "There is no column 'lable' in the table. Did you mean 'label'? Columns: label, id."
    error = unknown_column("lable", iter(["label", "id"]))
    assert isinstance(error, InputError)
    assert str(error) == message
    assert str(unknown_column("x", [])) == "There is no column 'x' in the table. Columns: none."
    assert "in 'a.csv'." in str(unknown_column("x", ["y"], where="'a.csv'"))


def test_unknown_column_truncates_long_lists() -> None:
    message = str(unknown_column("x", [f"column{number}" for number in range(100)]))
    assert message.endswith("column29, and 70 more.")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"low": 20}, "n must be at least 20; got 5."),
        ({"low": 0, "high": 4}, "n must be at least 0 and at most 4; got 5."),
        ({"above": 0, "below": 1}, "n must be above 0 and below 1; got 5."),
        ({"low": 1_000_000}, "n must be at least 1,000,000; got 5."),
    ],
)
def test_out_of_range_states_the_limits_and_the_value(limits: dict[str, Any], message: str) -> None:
    error = out_of_range("n", 5, **limits)
    assert isinstance(error, InputError)
    assert str(error) == message


def test_out_of_range_quotes_text() -> None:
    assert str(out_of_range("n", "5", low=0)) == "n must be at least 0; got '5'."


def test_wrong_shape_states_both_shapes() -> None:
    error = wrong_shape("features", "(n, d)", (3,))
    assert isinstance(error, InputError)
    assert str(error) == "features must have shape (n, d); got (3,)."


def test_not_a_file_tells_missing_files_from_folders(tmp_path: Path) -> None:
    missing = tmp_path / "a.csv"
    assert str(not_a_file(missing, expected="a table")) == (
        f"There is no file {str(missing)!r}; expected a table. Check the path."
    )
    assert str(not_a_file(tmp_path)).startswith(f"{str(tmp_path)!r} is a folder; expected a file.")
    assert str(not_a_file("/dev/null")).startswith("'/dev/null' is not a regular file;")


def test_not_a_file_truncates_very_long_names() -> None:
    assert len(str(not_a_file("x" * 5000))) < 400
