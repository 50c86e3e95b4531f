"""Runners: how many tasks are worked off. One after another, by processes, by a Dask cluster.

A runner takes a function and tasks, and yields every task with its result as it comes, or with the
exception that it ended in. Functions, tasks and results must be such that pickle can send them.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from oodometer.core.errors import InputError, MissingExtra, OodometerError, format_error
from oodometer.core.optional_imports import require
from oodometer.parallel.worker_pool import Result, Task, WorkerPool, capture_outcome


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


Outcomes = Generator[tuple[Task, Result | Exception], None, None]
# Seconds that a cluster may take to answer, and to have a worker.
CONNECT_TIMEOUT_SECONDS = 20.0
# One task at a time in a process: torch's random state is the process's own.
_TASK_LOCK = threading.Lock()


class Runner(Protocol):
    """Works off tasks in its own way, and yields each with what came of it, in any order."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], /
    ) -> Outcomes[Task, Result]:
        """Every task once."""


def serial(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
    """One after another, here.

    >>> dict(serial(abs, [-1, 2]))
    {-1: 1, 2: 2}
    """
    for task in tasks:
        yield task, capture_outcome(work, task)


def threads(count: int) -> Runner:
    """By so many threads of this process: for work that is done in numpy and Arrow.

    >>> sorted(threads(2)(abs, [-1, 2]))
    [(-1, 1), (2, 2)]
    """

    def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
        hands = ThreadPoolExecutor(count)
        try:
            futures = {hands.submit(capture_outcome, work, task): task for task in tasks}
            for done in as_completed(list(futures)):
                yield futures.pop(done), done.result()
        finally:
            hands.shutdown(wait=False, cancel_futures=True)

    return run


def processes(workers: int) -> Runner:
    """By so many processes, each with one thread and one task at a time.

    A task whose process dies (killed, out of memory) is given to another; after three deaths it
    has failed. The processes end with this one, however it ends.
    """
    if workers < 1:
        raise InputError(f"workers must be 1 or more; got {workers}. Each takes one core.")

    def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
        with closing(WorkerPool(work, min(workers, len(tasks)))) as crew:
            yield from crew.outcomes(tasks)

    return run


def distributed(address: str) -> Runner:
    """By the workers of a Dask cluster, whose scheduler is at an address such as tcp://host:8786.

    A task whose worker dies runs elsewhere. Every worker must have this package, of this version.
    """
    dask = require("distributed", extra="scale", purpose="A Dask cluster")

    def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
        with _silence_dask_log(), _connect(dask, address) as client:
            sent = _submit_work(client, work)
            futures = {
                client.submit(_run_exclusively, sent, task, pure=False): task for task in tasks
            }
            for future in dask.as_completed(list(futures), loop=client.loop):
                task = futures.pop(future)
                if future.cancelled():
                    raise OodometerError(
                        f"The Dask scheduler at {address!r} has gone, and what it had not sent. "
                        "Start it again, and run again."
                    )
                error = future.exception()
                found = future.result() if error is None else error
                future.release()  # or the cluster would keep it, and make it anew where it is lost
                yield task, found

    return run


def _submit_work(client: Any, work: Callable[[Task], Result]) -> Any:
    """A function as it is; what carries data is sent once, and not with every task.

    It is the result of a task of its own, which the cluster makes anew where it is lost.
    """
    if isinstance(work, FunctionType | BuiltinFunctionType):
        return work
    with warnings.catch_warnings():
        # Dask would have users change what they have no hand in.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return client.submit(_identity, work, pure=False)


@contextmanager
def _silence_dask_log() -> Iterator[None]:
    """Dask writes nothing on the screen of a scheduler that has gone: we say it ourselves."""
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _connect(dask: Any, address: str) -> Any:
    """A client of a cluster that has a worker, and this package everywhere."""
    try:
        place = urlsplit(address)
        # Dask itself asks again and again, and a client that has found nobody is slow to go.
        socket.create_connection(
            (place.hostname, place.port or 0), timeout=CONNECT_TIMEOUT_SECONDS
        ).close()
        kind = _server_type(dask, address)
    except (OSError, ValueError) as error:
        raise _no_scheduler_error(address, str(error)) from error
    if kind != "Scheduler":
        raise _no_scheduler_error(address, f"what is there is {kind}")
    client = dask.Client(address, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False)
    try:
        _check_workers(client, address)
    except BaseException:
        client.close()
        raise
    return client


def _server_type(dask: Any, address: str) -> str:
    """What answers at an address: Scheduler, Worker, or nothing of Dask's, such as a page's server.

    A client that is given such an address waits for ever, or fails in words of its own.
    """

    async def asked() -> Any:
        async with dask.rpc(address) as server:
            return await asyncio.wait_for(server.identity(), CONNECT_TIMEOUT_SECONDS)

    # In a thread, for the caller's may run a loop of its own, as notebooks do.
    with ThreadPoolExecutor(1) as thread:
        try:
            return str(thread.submit(lambda: asyncio.run(asked())).result()["type"])
        except Exception:  # whatever Dask makes of what another server says
            return "no server of Dask's; is this the port of a page?"


def _no_scheduler_error(address: str, reason: str) -> InputError:
    return InputError(
        f"No Dask scheduler answers at {address!r} ({reason}). Give the address that `dask scheduler` "
        "says, such as tcp://host:8786."
    )


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise InputError(
            f"The Dask scheduler at {address!r} has no worker. Start one or more: "
            f"dask worker {address}"
        ) from error
    found = client.get_versions(packages=["oodometer"])
    ours = found["client"]["packages"]["oodometer"]
    for worker, facts in found["workers"].items():
        theirs = facts["packages"].get("oodometer")
        if theirs != ours:
            raise InputError(
                f"The worker {worker} has oodometer {theirs}, and this is {ours}. Install the "
                "same version everywhere."
            )


def _identity(work: Callable[[Task], Result]) -> Callable[[Task], Result]:
    return work


def _run_exclusively(work: Callable[[Task], Result], task: Task) -> Result:
    """Workers of a cluster may have many threads; one works at a time."""
    with _TASK_LOCK:
        return work(task)


# A task has so many rows at most; but there are so many tasks at least, if there are the batches.
MAX_TASK_ROWS, MIN_TASKS = 8192, 32

Task_ = TypeVar("Task_", contravariant=True)
Result_ = TypeVar("Result_", covariant=True)


class RemoteTask(Protocol[Task_, Result_]):
    """What is done with a task, and what it needs for that, by what messages call it."""

    def __call__(self, task: Task_, /) -> Result_:
        """What comes of a task."""

    def payload(self) -> Mapping[str, Any]:
        """What workers are sent besides tasks: `the model 'a'`, …"""


def label_payload(kind: str, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Things by what messages call them.

    >>> label_payload("model", {"a": abs})
    {"The model 'a'": <built-in function abs>}
    """
    return {f"The {kind} {name!r}": thing for name, thing in objects.items()}


def group_batches(batches: Sequence[Task], batch_size: int) -> list[Sequence[Task]]:
    """Batches of so many rows that lie side by side, as tasks.

    >>> [len(block) for block in group_batches(range(66), batch_size=500)][-2:], len(group_batches(range(4), batch_size=500))
    ([2, 2], 4)
    """
    few = max(min(MAX_TASK_ROWS // max(batch_size, 1), len(batches) // MIN_TASKS), 1)
    return [batches[start : start + few] for start in range(0, len(batches), few)]


def ordered_map(
    runner: Runner, work: RemoteTask[Task, Result], tasks: Sequence[Task]
) -> Generator[Result, None, None]:
    """The results of all tasks, in order; a task that failed raises when it is its turn.

    Close it where not all are asked for: that ends the workers.
    """
    if not tasks:
        return
    do: Callable[[tuple[int, Task]], Result]
    do = _LocalTask(work) if runner is serial else _PickledTask.from_task(work)
    early: dict[int, Result | Exception] = {}
    due = 0
    with closing(runner(do, list(enumerate(tasks)))) as outcomes:
        for (number, _), found in outcomes:
            early[number] = found
            while due in early:
                yield _raise_if_error(early.pop(due))
                due += 1


def _raise_if_error(outcome: Result | Exception) -> Result:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@dataclass(frozen=True)
class _LocalTask:
    """Work in this process, on tasks that have a number."""

    work: Any

    def __call__(self, task: tuple[int, Any]) -> Any:
        return self.work(task[1])


@dataclass(frozen=True)
class _PickledTask:
    """Work as bytes, made once, and read once in every process: models stay open between tasks."""

    data: bytes

    @classmethod
    def from_task(cls, work: RemoteTask[Any, Any]) -> _PickledTask:
        try:
            return cls(pickle.dumps(work))
        except Exception as error:
            raise _pickling_error(work, error) from error

    @cached_property
    def work(self) -> Any:
        """What was packed; here it is opened."""
        try:
            return pickle.loads(self.data)
        except MissingExtra:
            raise
        except Exception as error:
            reason = format_error(error).rstrip(". ")
            raise InputError(
                f"A worker can't open what it was sent: {reason}. Give every worker the same files "
                "and the same packages."
            ) from error

    def __call__(self, task: tuple[int, Any]) -> Any:
        return self.work(task[1])

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers of a cluster pass it on to one another: as it came, not what they opened.
        return _PickledTask, (self.data,)


def _pickling_error(work: RemoteTask[Any, Any], error: Exception) -> InputError:
    """Who is at fault, in one line."""
    culprit = "What workers need"
    for what, thing in work.payload().items():
        try:
            pickle.dumps(thing)
        except Exception as own:
            culprit, error = what, own
            break
    return InputError(
        f"{culprit} can't be sent to workers ({format_error(error)}). Give a function of a module, or "
        "a file; or work without workers."
    )
