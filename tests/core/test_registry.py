"""Members of a family: from entry points, and selected by a user."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from oodometer import metrics
from oodometer.core.errors import InputError
from oodometer.core.protocols import Metric
from oodometer.core.registry import load_entry_points, resolve_members


def test_entry_points_of_the_group_are_loaded_in_order() -> None:
    entries = [mock.Mock(load=lambda made=made: lambda: made) for made in (1, 2)]
    with mock.patch("importlib.metadata.entry_points", return_value=entries) as asked:
        assert load_entry_points("oodometer.numbers", int, requirements="number") == (1, 2)
    asked.assert_called_once_with(group="oodometer.numbers")


def test_entry_point_of_wrong_type_raises() -> None:
    entry = mock.Mock(load=lambda: dict)
    entry.name = "theirs"
    with (
        mock.patch("importlib.metadata.entry_points", return_value=[entry]),
        pytest.raises(
            InputError, match=r"'theirs' returns a dict, which is not a valid number: it counts\."
        ),
    ):
        load_entry_points("oodometer.numbers", int, requirements="number: it counts")


def select(names: Any) -> list[Any]:
    return resolve_members(names, Metric, available=metrics.available, get=metrics.get)


def test_members_are_selected_by_name_or_instance_without_duplicates() -> None:
    error = metrics.Error()
    assert select("error") == select(error) == select(["error", error]) == [error]
    assert [member.name for member in select(("nll", error))] == ["nll", "error"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "No metric was named"),
        (3, "an instance or a function; got 3"),
        (["error", None], "an instance or a function; got None"),
        (metrics.Error, "an instance or a function; got the class Error"),
        ([metrics.Error], "an instance or a function; got the class Error"),
    ],
)
def test_selecting_a_non_member_raises(wrong: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(wrong)


def test_missing_attributes_are_reported() -> None:
    with pytest.raises(InputError, match=r"It lacks: assumes, evaluate, needs, paper\.$"):
        select([SimpleNamespace(name="mine", label="Mine")])


def test_different_members_with_one_name_raise() -> None:
    given = {
        "name": "mine",
        "label": "Mine",
        "assumes": "",
        "needs": (),
        "paper": "",
        "evaluate": len,
    }
    one, same, other = (SimpleNamespace(**given, scale=scale) for scale in (1, 1, 2))
    assert select([one, same]) == [one]
    with pytest.raises(InputError, match="Two different metrics are called 'mine'"):
        select([one, other])
