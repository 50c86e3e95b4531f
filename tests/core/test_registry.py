"""What other packages add to a family, and what a user asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from oodometer import metrics
from oodometer.core.errors import InputError
from oodometer.core.protocols import Metric
from oodometer.core.registry import load_entry_points, resolve_members


def test_members_are_made_in_order_and_only_of_the_group_asked_for() -> None:
    entries = [mock.Mock(load=lambda made=made: lambda: made) for made in (1, 2)]
    with mock.patch("importlib.metadata.entry_points", return_value=entries) as asked:
        assert load_entry_points("oodometer.numbers", int, requirements="number") == (1, 2)
    asked.assert_called_once_with(group="oodometer.numbers")


def test_what_is_no_member_is_refused_by_name() -> None:
    entry = mock.Mock(load=lambda: dict)
    entry.name = "theirs"
    with (
        mock.patch("importlib.metadata.entry_points", return_value=[entry]),
        pytest.raises(
            InputError, match=r"'theirs' returns a dict, which is not a valid number: it counts\."
        ),
    ):
        load_entry_points("oodometer.numbers", int, requirements="number: it counts")


def asked(names: Any) -> list[Any]:
    return resolve_members(names, Metric, available=metrics.available, get=metrics.get)


def test_members_are_asked_for_by_name_or_as_they_are_each_once() -> None:
    error = metrics.Error()
    assert asked("error") == asked(error) == asked(["error", error]) == [error]
    assert [one.name for one in asked(("nll", error))] == ["nll", "error"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "No metric was named"),
        (3, "by its name or as an instance; got 3"),
        (["error", None], "by its name or as an instance; got None"),
        (metrics.Error, "as an instance; got the class Error"),
        ([metrics.Error], "as an instance; got the class Error"),
    ],
)
def test_what_is_no_member_is_not_asked_for(wrong: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        asked(wrong)


def test_what_a_member_lacks_is_named() -> None:
    with pytest.raises(InputError, match=r"It lacks: assumes, evaluate, needs, paper\.$"):
        asked([SimpleNamespace(name="mine", label="Mine")])


def test_two_of_one_name_are_refused_unless_they_are_the_same() -> None:
    given = {
        "name": "mine",
        "label": "Mine",
        "assumes": "",
        "needs": (),
        "paper": "",
        "evaluate": len,
    }
    one, same, other = (SimpleNamespace(**given, scale=scale) for scale in (1, 1, 2))
    assert asked([one, same]) == [one]
    with pytest.raises(InputError, match="Two different metrics are called 'mine'"):
        asked([one, other])
