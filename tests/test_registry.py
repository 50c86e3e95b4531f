"""What other packages add to a family."""

from __future__ import annotations

from unittest import mock

import pytest

from oodometer.errors import InputError
from oodometer.registry import added


def test_members_are_made_in_order_and_only_of_the_group_asked_for() -> None:
    entries = [mock.Mock(load=lambda made=made: lambda: made) for made in (1, 2)]
    with mock.patch("importlib.metadata.entry_points", return_value=entries) as asked:
        assert added("oodometer.numbers", int, else_say="number") == (1, 2)
    asked.assert_called_once_with(group="oodometer.numbers")


def test_what_is_no_member_is_refused_by_name() -> None:
    entry = mock.Mock(load=lambda: dict)
    entry.name = "theirs"
    with (
        mock.patch("importlib.metadata.entry_points", return_value=[entry]),
        pytest.raises(InputError, match=r"'theirs' gives a dict, which is no number: it counts\."),
    ):
        added("oodometer.numbers", int, else_say="number: it counts")
