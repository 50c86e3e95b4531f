"""Prefetch: compute the next items in background threads, ahead of the loop that consumes them."""

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
    """Yield the result of each task in order, computing up to `depth` results in advance.

    If you stop before the last result, close the generator to end its threads.

    Parameters
    ----------
    compute : callable
        Function of one task.
    tasks : iterable
        Arguments of `compute`; the iterable is read lazily, in the calling thread.
    workers : int
        Number of threads; with 0, each result is computed when it is requested.
    depth : int, optional
        Number of results to compute in advance; by default the number of threads.

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
