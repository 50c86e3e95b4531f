"""A crew: processes that work off tasks, one at a time each, and are replaced where they die."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from oodometer.core.errors import OodometerError

Task = TypeVar("Task")
Result = TypeVar("Result")

# A task whose worker dies is given to another, until so many have died of it.
TRIES = 3
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def outcome(work: Callable[[Task], Result], task: Task) -> Result | Exception:
    """The result of a task, or the exception that it ended in.

    >>> outcome(abs, -1), outcome(int, "one")
    (1, ValueError("invalid literal for int() with base 10: 'one'"))
    """
    try:
        return work(task)
    except Exception as error:
        return error


class Crew:
    """So many processes, which do one kind of work until they are closed."""

    def __init__(self, work: Callable[[Any], Any], size: int) -> None:
        self._work = work
        self._workers: list[_Worker] = []
        self._stillborn = 0
        for _ in range(size):
            self._hire()

    def close(self) -> None:
        """End every process, at once: what they have not sent is lost."""
        for worker in self._workers:
            worker.process.kill()
            worker.leave()

    def outcomes(self, tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Every task with what came of it, as it comes."""
        jobs = [_Job(task) for task in tasks]
        waiting, left = deque(jobs), len(jobs)
        while left:
            for worker in self._workers:
                if worker.free and waiting:
                    worker.take(waiting.popleft())
            for worker in self._heard():
                job, said = self._news(worker)
                if job is None:
                    continue
                if said is _AGAIN:
                    waiting.appendleft(job)
                    continue
                left -= 1
                yield job.task, said

    def _hire(self) -> None:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(self._work, there), daemon=True)
        with _single_threads(), _deaf_to_interrupts():
            process.start()
        there.close()
        self._workers.append(_Worker(process, here))

    def _heard(self) -> list[_Worker]:
        """Those that have sent something or have died: a dead one's line is at its end."""
        lines = connection.wait([worker.line for worker in self._workers])
        return [worker for worker in self._workers if worker.line in lines]

    def _news(self, worker: _Worker) -> tuple[_Job | None, Any]:
        """The job that a worker had, if it had one, and what came of it."""
        job, worker.job = worker.job, None
        try:
            said = worker.line.recv()
        except (EOFError, OSError):
            return job, self._replaced(worker, job)
        worker.ready, self._stillborn = True, 0
        return job, said

    def _replaced(self, worker: _Worker, job: _Job | None) -> Any:
        """Another worker for a dead one, whose job is done again, or has failed."""
        self._workers.remove(worker)
        code = worker.leave()
        self._stillborn += not worker.ready
        if self._stillborn >= TRIES:
            raise OodometerError(
                f"Workers die before they have a task (exit code {code}). A script that starts "
                'workers does so under: if __name__ == "__main__".'
            )
        self._hire()
        if job is None:
            return None
        job.deaths += 1
        return _AGAIN if job.deaths < TRIES else OodometerError(_died(code))


# What a worker that died leaves of its job.
_AGAIN = object()


@dataclass
class _Job:
    """A task, and how many workers have died of it."""

    task: Any
    deaths: int = 0


@dataclass
class _Worker:
    """A process, the line to it, and the job that it has."""

    process: Any
    line: Connection
    ready: bool = False
    job: _Job | None = None

    @property
    def free(self) -> bool:
        return self.ready and self.job is None

    def take(self, job: _Job) -> None:
        self.job = job
        with suppress(OSError):  # it has died, which is seen when it is heard
            self.line.send(job.task)

    def leave(self) -> int | None:
        """The exit code of a process that has ended, or is about to."""
        self.process.join()
        self.line.close()
        code: int | None = self.process.exitcode
        return code


def _died(code: int | None) -> str:
    return (
        f"Its worker died {TRIES} times, at last with exit code {code} (-9 is killed, as for want "
        "of memory). Use fewer workers, or a smaller batch."
    )


@contextmanager
def _single_threads() -> Iterator[None]:
    """Processes started meanwhile have one thread each for linear algebra."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started meanwhile never see Ctrl-C, not even while they import; we do, after it."""
    if sys.platform == "win32":
        yield
        return
    # Started with the first process, it would have the signal through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the process ---------------------------------------------------------------------------------


def _serve(work: Callable[[Any], Any], line: Connection) -> None:
    """Say that it is there, then answer tasks until the line is cut."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        line.send(None)
        while True:
            line.send_bytes(_packed(outcome(work, line.recv())))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _packed(said: Any) -> bytes:
    """An outcome as bytes; one that can't be sent, or not be read again, is told in words."""
    try:
        data = pickle.dumps(said)
        if isinstance(said, Exception):
            pickle.loads(data)
    except Exception as error:
        told = said if isinstance(said, Exception) else error
        return pickle.dumps(OodometerError(f"{type(told).__name__}: {told}"))
    return data
