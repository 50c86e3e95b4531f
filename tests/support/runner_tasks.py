"""Work for runners, as other processes can import it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from oodometer.core.errors import UnknownName
from oodometer.parallel.runners import processes


class Unreadable(Exception):
    """Pickled well, but not unpickled: it is made of two things and gives one."""

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
    """Fails in the way that is asked for."""
    if task == "plain":
        raise ValueError("no such luck")
    if task == "named":
        raise UnknownName("fruit", "aple", ["apple"])
    if task == "unreadable":
        raise Unreadable("this", "that")
    return lambda: task  # what nobody can pickle


def die(folder: str) -> str:
    """Killed the first time, whoever does it; well the second."""
    trace = Path(folder)
    if not trace.exists():
        trace.mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{trace.name} was done after all"


def die_always(task: int) -> int:
    if task == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def note(path: str) -> None:
    """Writes down who works, and works for long."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


if __name__ == "__main__":
    list(processes(2)(note, sys.argv[1:]))
