"""Reading ahead: the next batch is read by a thread while this one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Full, Queue
from typing import Any, TypeVar

Item = TypeVar("Item")
# Batches that may wait. More would only take memory.
WAITING = 2
_END = object()


def read(items: Iterator[Item]) -> Iterator[Item]:
    """The same items in the same order, fetched by a thread; what it fails with is raised here.

    >>> list(read(iter([1, 2, 3])))
    [1, 2, 3]
    """
    queue: Queue[Any] = Queue(WAITING)
    left = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, queue, left), daemon=True)
    thread.start()
    try:
        while (found := queue.get()) is not _END:
            if isinstance(found, _Failed):
                raise found.error
            yield found
    finally:
        left.set()
        thread.join()


class _Failed:
    """What the thread ended in."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _fill(items: Iterator[Item], queue: Queue[Any], left: threading.Event) -> None:
    try:
        for item in items:
            if not _put(queue, item, left):
                return
        _put(queue, _END, left)
    except BaseException as error:
        _put(queue, _Failed(error), left)
    finally:
        close = getattr(items, "close", None)  # a file that is not read to its end is closed
        if close is not None:
            close()


def _put(queue: Queue[Any], item: Any, left: threading.Event) -> bool:
    """Wait for room; False where nobody waits for items any more."""
    while not left.is_set():
        try:
            queue.put(item, timeout=0.1)
        except Full:
            continue
        return True
    return False
