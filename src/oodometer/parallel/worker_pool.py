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
MAX_ATTEMPTS = 3
_THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def capture_outcome(work: Callable[[Task], Result], task: Task) -> Result | Exception:
    """The result of a task, or the exception that it ended in.

    >>> capture_outcome(abs, -1), capture_outcome(int, "one")
    (1, ValueError("invalid literal for int() with base 10: 'one'"))
    """
    try:
        return work(task)
    except Exception as error:
        return error


class WorkerPool:
    """So many processes, which do one kind of work until they are closed."""

    def __init__(self, work: Callable[[Any], Any], size: int) -> None:
        self._work = work
        self._workers: list[_Worker] = []
        self._failed_starts = 0
        for _ in range(size):
            self._spawn_worker()

    def close(self) -> None:
        """End every process, at once: what they have not sent is lost."""
        for worker in self._workers:
            worker.process.kill()
            worker.join_and_close()

    def outcomes(self, tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Every task with what came of it, as it comes."""
        jobs = [_Job(task) for task in tasks]
        waiting, left = deque(jobs), len(jobs)
        while left:
            for worker in self._workers:
                if worker.is_idle and waiting:
                    worker.assign(waiting.popleft())
            for worker in self._ready_workers():
                job, said = self._collect(worker)
                if job is None:
                    continue
                if said is _RETRY:
                    waiting.appendleft(job)
                    continue
                left -= 1
                yield job.task, said

    def _spawn_worker(self) -> None:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_worker_main, args=(self._work, there), daemon=True)
        with _limit_child_threads(), _block_interrupts():
            process.start()
        there.close()
        self._workers.append(_Worker(process, here))

    def _ready_workers(self) -> list[_Worker]:
        """Those that have sent something or have died: a dead one's line is at its end."""
        lines = connection.wait([worker.connection for worker in self._workers])
        return [worker for worker in self._workers if worker.connection in lines]

    def _collect(self, worker: _Worker) -> tuple[_Job | None, Any]:
        """The job that a worker had, if it had one, and what came of it."""
        job, worker.job = worker.job, None
        try:
            said = worker.connection.recv()
        except (EOFError, OSError):
            return job, self._respawn(worker, job)
        worker.ready, self._failed_starts = True, 0
        return job, said

    def _respawn(self, worker: _Worker, job: _Job | None) -> Any:
        """Another worker for a dead one, whose job is done again, or has failed."""
        self._workers.remove(worker)
        code = worker.join_and_close()
        self._failed_starts += not worker.ready
        if self._failed_starts >= MAX_ATTEMPTS:
            raise OodometerError(
                f"Workers die before they have a task (exit code {code}). A script that starts "
                'workers does so under: if __name__ == "__main__".'
            )
        self._spawn_worker()
        if job is None:
            return None
        job.attempts += 1
        return (
            _RETRY if job.attempts < MAX_ATTEMPTS else OodometerError(_worker_death_message(code))
        )


# What a worker that died leaves of its job.
_RETRY = object()


@dataclass
class _Job:
    """A task, and how many workers have died of it."""

    task: Any
    attempts: int = 0


@dataclass
class _Worker:
    """A process, the line to it, and the job that it has."""

    process: Any
    connection: Connection
    ready: bool = False
    job: _Job | None = None

    @property
    def is_idle(self) -> bool:
        return self.ready and self.job is None

    def assign(self, job: _Job) -> None:
        self.job = job
        with suppress(OSError):  # it has died, which is seen when it is heard
            self.connection.send(job.task)

    def join_and_close(self) -> int | None:
        """The exit code of a process that has ended, or is about to."""
        self.process.join()
        self.connection.close()
        code: int | None = self.process.exitcode
        return code


def _worker_death_message(exit_code: int | None) -> str:
    return (
        f"Its worker died {MAX_ATTEMPTS} times, at last with exit code {exit_code} (-9 is killed, as for want "
        "of memory). Use fewer workers, or a smaller batch."
    )


@contextmanager
def _limit_child_threads() -> Iterator[None]:
    """Processes started meanwhile have one thread each for linear algebra."""
    before = {name: os.environ.get(name) for name in _THREAD_COUNT_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_COUNT_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, not even while they import; raise it here afterwards.

    The mask is inherited by the new process. It is not enough for this one: another thread may
    receive the signal, and Python would raise it in the main thread, in the middle of a start.
    """
    if sys.platform == "win32":
        yield
        return
    # Started with the first process, it would have the signal through again.
    resource_tracker.ensure_running()
    with _defer_interrupts():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Raise an interrupt that arrives in the block after it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)


# In the process ---------------------------------------------------------------------------------


def _worker_main(work: Callable[[Any], Any], pipe: Connection) -> None:
    """Say that it is there, then answer tasks until the line is cut."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send(None)
        while True:
            pipe.send_bytes(_pickle_outcome(capture_outcome(work, pipe.recv())))


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _pickle_outcome(message: Any) -> bytes:
    """An outcome as bytes; one that can't be sent, or not be read again, is told in words."""
    try:
        data = pickle.dumps(message)
        if isinstance(message, Exception):
            pickle.loads(data)
    except Exception as error:
        told = message if isinstance(message, Exception) else error
        return pickle.dumps(OodometerError(f"{type(told).__name__}: {told}"))
    return data
