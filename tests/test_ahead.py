"""Reading ahead: the same items, the same failures, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer import ahead


@given(st.lists(st.integers()))
def test_it_is_the_loop_itself(items: list[int]) -> None:
    assert list(ahead.read(iter(items))) == items


def test_a_failure_comes_where_it_belongs() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    found = ahead.read(failing())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no more"):
        next(found)


def test_who_stops_listening_ends_the_thread_and_closes_the_file() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    before = threading.active_count()
    found = ahead.read(endless())
    assert next(found) == 1
    found.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert threading.active_count() == before


def test_only_a_few_items_wait() -> None:
    read: list[int] = []

    def counted() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    found = ahead.read(counted())
    assert next(found) == 0
    assert len(read) <= ahead.WAITING + 3
    found.close()  # type: ignore[attr-defined]
