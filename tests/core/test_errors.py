"""The exception tree and its messages."""

from __future__ import annotations

import pickle

import pytest

from oodometer.core.errors import (
    InputError,
    MissingExtra,
    NotApplicable,
    OodometerError,
    UnknownName,
)

KNOWN = ["ac", "atc-mc", "atc-ne", "doc"]


@pytest.mark.parametrize("kind", [InputError, UnknownName, NotApplicable, MissingExtra])
def test_every_error_is_of_the_one_tree(kind: type[Exception]) -> None:
    assert issubclass(kind, OodometerError)


def test_bad_input_is_also_a_value_error_and_a_missing_extra_an_import_error() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(UnknownName, InputError)
    assert issubclass(MissingExtra, ImportError)
    assert not issubclass(NotApplicable, ValueError)


@pytest.mark.parametrize(
    ("name", "meant"), [("acc", "ac"), ("ATC-MC", "atc-mc"), ("atcne", "atc-ne"), ("dco", "doc")]
)
def test_an_unknown_name_suggests_the_nearest_one(name: str, meant: str) -> None:
    message = str(UnknownName("estimator", name, KNOWN))
    assert message == (
        f"No estimator is called {name!r}. Did you mean {meant!r}? "
        "There are: ac, atc-mc, atc-ne, doc."
    )


def test_a_name_like_no_other_gets_no_suggestion() -> None:
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
def test_an_error_of_a_worker_process_arrives_as_it_was(error: Exception) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


def test_of_many_names_the_first_are_listed_and_the_near_one_is_told() -> None:
    names = [f"layer{number}" for number in range(100)]
    said = str(UnknownName("layer", "layer77x", names))
    assert "Did you mean 'layer77'?" in said
    assert said.endswith("layer28, layer29, and 70 more.")
