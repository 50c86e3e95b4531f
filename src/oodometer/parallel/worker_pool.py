"""Worker processes that run one task at a time and are replaced if they die.

`concurrent.futures` is not used for two reasons. In an experiment with 12 tasks, one of which
killed its worker, 9 tasks failed. If the parent process was killed, a worker process kept running.
"""

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

# A task has failed when this many workers have died while running it.
MAX_ATTEMPTS = 3
_THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def capture_outcome(work: Callable[[Task], Result], task: Task) -> Result | Exception:
    """Return the result of a task, or the exception that it raised.

    >>> capture_outcome(abs, -1), capture_outcome(int, "one")
    (1, ValueError("invalid literal for int() with base 10: 'one'"))
    """
    try:
        return work(task)
    except Exception as error:
        return error


class WorkerPool:
    """Pool of worker processes that all run the same function until the pool is closed."""

    def __init__(self, work: Callable[[Any], Any], size: int) -> None:
        self._work = work
        self._workers: list[_Worker] = []
        self._failed_starts = 0
        for _ in range(size):
            self._spawn_worker()

    def close(self) -> None:
        """Kill all worker processes; results that they have not sent yet are lost."""
        for worker in self._workers:
            worker.process.kill()
            worker.join_and_close()

    def outcomes(self, tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its outcome as soon as the task is finished."""
        waiting = deque(_Job(task) for task in tasks)
        n_unfinished = len(waiting)
        while n_unfinished:
            for worker in self._workers:
                if worker.is_idle and waiting:
                    worker.assign(waiting.popleft())
            for worker in self._ready_workers():
                job, outcome = self._collect(worker)
                if job is None:
                    continue
                if outcome is _RETRY:
                    waiting.appendleft(job)
                    continue
                n_unfinished -= 1
                yield job.task, outcome

    def _spawn_worker(self) -> None:
        context = get_context("spawn")
        own_end, worker_end = context.Pipe()
        process = context.Process(target=_worker_main, args=(self._work, worker_end), daemon=True)
        with _limit_child_threads(), _block_interrupts():
            process.start()
        worker_end.close()
        self._workers.append(_Worker(process, own_end))

    def _ready_workers(self) -> list[_Worker]:
        """Wait for messages; return the workers that have sent one or have died."""
        ready = connection.wait([worker.connection for worker in self._workers])
        return [worker for worker in self._workers if worker.connection in ready]

    def _collect(self, worker: _Worker) -> tuple[_Job | None, Any]:
        """Return the job that a worker was running, if any, and the outcome of the job."""
        job = worker.job
        worker.job = None
        try:
            outcome = worker.connection.recv()
        except (EOFError, OSError):
            return job, self._respawn(worker, job)
        worker.ready = True
        self._failed_starts = 0
        return job, outcome

    def _respawn(self, worker: _Worker, job: _Job | None) -> Any:
        """Replace a dead worker; return `_RETRY` or, after too many deaths, an error."""
        self._workers.remove(worker)
        code = worker.join_and_close()
        self._failed_starts += not worker.ready
        if self._failed_starts >= MAX_ATTEMPTS:
            raise OodometerError(
                f"Workers die before they receive a task (exit code {code}). A script must start "
                'workers under: if __name__ == "__main__".'
            )
        self._spawn_worker()
        if job is None:
            return None
        job.attempts += 1
        if job.attempts < MAX_ATTEMPTS:
            return _RETRY
        return OodometerError(
            f"Its worker died {MAX_ATTEMPTS} times, last with exit code {code} (-9: killed, for "
            "example because memory ran out). Use fewer workers or a smaller batch."
        )


# Outcome of a job that must run again because its worker died.
_RETRY = object()


@dataclass
class _Job:
    """Task, and the number of workers that have died while running it."""

    task: Any
    attempts: int = 0


@dataclass
class _Worker:
    """Worker process with the pipe for its messages and its current job."""

    process: Any
    connection: Connection
    ready: bool = False
    job: _Job | None = None

    @property
    def is_idle(self) -> bool:
        return self.ready and self.job is None

    def assign(self, job: _Job) -> None:
        self.job = job
        with suppress(OSError):  # `_collect` notices that the worker is dead
            self.connection.send(job.task)

    def join_and_close(self) -> int | None:
        """Wait for the end of the process and return its exit code."""
        self.process.join()
        self.connection.close()
        code: int | None = self.process.exitcode
        return code


@contextmanager
def _limit_child_threads() -> Iterator[None]:
    """Limit linear algebra to one thread in processes that are started in the `with` block."""
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
    """Block Ctrl-C in processes that are started in the `with` block; defer it in this process.

    A new process inherits the signal mask, so it never receives Ctrl-C, not even while it imports
    modules. In this process, the mask is not sufficient: another thread may receive the signal, and
    Python would then raise `KeyboardInterrupt` in the main thread while a process is being started.
    """
    if sys.platform == "win32":
        yield
        return
    # The resource tracker would unblock the signal if it were started with the first process.
    resource_tracker.ensure_running()
    with _defer_interrupts():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Defer an interrupt that arrives in the `with` block until the end of the block."""
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


# In the worker process --------------------------------------------------------------------------


def _worker_main(work: Callable[[Any], Any], pipe: Connection) -> None:
    """Send a message when the worker is ready, then run tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
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
    """Return a pickled outcome, or a pickled error if the outcome cannot be pickled."""
    try:
        data = pickle.dumps(message)
        if isinstance(message, Exception):
            pickle.loads(data)
    except Exception as error:
        reported = message if isinstance(message, Exception) else error
        return pickle.dumps(OodometerError(f"{type(reported).__name__}: {reported}"))
    return data
