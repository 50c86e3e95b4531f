"""Compute results in threads, ahead of the loop that uses them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def prefetch(
    compute: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    *,
    depth: int | None = None,
) -> Generator[Result, None, None]:
    """Yield the result of each task in order, computing at most `depth` results ahead.

    Close the generator if you do not exhaust it: closing ends the threads.

    Parameters
    ----------
    compute : callable
        Function of one task.
    tasks : iterable
        Arguments of `compute`; read lazily, in the calling thread.
    workers : int
        Number of threads; 0 computes each result when it is requested.
    depth : int, optional
        Number of results computed ahead. Default: the number of threads.

    Examples
    --------
    >>> list(prefetch(abs, [-1, 2, -3], workers=2))
    [1, 2, 3]
    """
    if workers < 1:
        yield from map(compute, tasks)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(compute, task))
                if len(pending) > (depth or workers):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
