"""Results computed ahead in threads: order, bounded lookahead, errors, closing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from oodometer.parallel.prefetch import prefetch


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_results_keep_the_order_of_the_tasks(workers: int) -> None:
    def slow(number: int) -> int:
        time.sleep(0.001 * (7 - number))
        return number

    assert list(prefetch(slow, range(7), workers)) == list(range(7))


def test_results_are_computed_in_another_thread() -> None:
    results = zip(*prefetch(lambda i: (i, threading.get_ident()), range(20), 1), strict=True)
    numbers, threads = results
    assert numbers == tuple(range(20))
    assert threading.get_ident() not in threads


def test_lookahead_is_bounded() -> None:
    computed: list[int] = []
    results = prefetch(computed.append, range(100), 2)
    next(results)
    time.sleep(0.05)
    assert len(computed) <= 4
    assert isinstance(results, Iterator)
    list(results)


def test_depth_results_are_computed_before_they_are_requested() -> None:
    deep_enough = threading.Event()

    def compute(number: int) -> int:
        if number == 4:
            deep_enough.set()
        return number

    results = prefetch(compute, range(50), 1, depth=4)
    assert next(results) == 0
    assert deep_enough.wait(timeout=30)
    results.close()


def test_errors_are_raised_at_their_turn() -> None:
    def compute(number: int) -> int:
        if number == 2:
            raise ValueError("no batch 2")
        return threading.get_ident()

    results = prefetch(compute, range(4), 1)
    assert next(results) != threading.get_ident()
    next(results)
    with pytest.raises(ValueError, match="no batch 2"):
        next(results)


def test_closing_ends_the_thread() -> None:
    computed: list[int] = []
    before = threading.active_count()
    results = prefetch(computed.append, range(10_000), 1, depth=4)
    next(results)
    results.close()
    assert threading.active_count() == before
    assert len(computed) <= 5
