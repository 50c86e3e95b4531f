"""How many threads work on numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """Sums by several threads differ in their last bits; and workers have a core each anyway.

    On small matrices several threads wait for each other more than they work: tenfold the time.
    """
    from threadpoolctl import threadpool_limits

    torch: Any = sys.modules.get("torch")
    threads = 1 if torch is None else torch.get_num_threads()
    with threadpool_limits(1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(threads)
