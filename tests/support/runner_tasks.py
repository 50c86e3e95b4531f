"""Tasks for runners that worker processes can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from oodometer.core.errors import UnknownName
from oodometer.parallel.runners import processes


class Unreadable(Exception):
    """Exception that can be pickled but not unpickled: its message does not fit __init__."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def double(number: int) -> int:
    return 2 * number


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def threads(name: str) -> str:
    return os.environ[name]


def fail(task: str) -> object:
    """Fail in the requested way."""
    if task == "plain":
        raise ValueError("no such luck")
    if task == "named":
        raise UnknownName("fruit", "aple", ["apple"])
    if task == "unreadable":
        raise Unreadable("this", "that")
    return lambda: task  # cannot be pickled


def die(folder: str) -> str:
    """Kill the worker the first time; succeed the second time."""
    trace = Path(folder)
    if not trace.exists():
        trace.mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{trace.name} was done after all"


def die_always(task: int) -> int:
    if task == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def write_pid_and_sleep(path: str) -> None:
    """Write the process id to a file, then sleep."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


if __name__ == "__main__":
    list(processes(2)(write_pid_and_sleep, sys.argv[1:]))
