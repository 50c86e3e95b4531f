"""Runners, which execute tasks one by one, in threads, in processes or on a Dask cluster.

A runner is called with a function and a list of tasks. As soon as a task is finished, the runner
yields the task with its result, or with the exception that the function raised. Functions, tasks
and results must be picklable.
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
from functools import cached_property, lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from oodometer.core.errors import (
    InputError,
    MissingExtra,
    OodometerError,
    format_error,
    out_of_range,
)
from oodometer.core.optional_imports import require
from oodometer.parallel.worker_pool import Result, Task, WorkerPool, capture_outcome

Outcomes = Generator[tuple[Task, Result | Exception], None, None]
ContraTask = TypeVar("ContraTask", contravariant=True)
CoResult = TypeVar("CoResult", covariant=True)

# Time limit for connecting to a scheduler, and for waiting until the scheduler has a worker.
CONNECT_TIMEOUT_SECONDS = 20.0
# Consecutive batches are grouped into tasks of at most this many rows, but into at least this many
# tasks if there are enough batches.
MAX_TASK_ROWS = 8192
MIN_TASKS = 32
# A process runs one task at a time, because torch has one random state per process.
_TASK_LOCK = threading.Lock()


class Runner(Protocol):
    """Function that runs tasks and yields each task with its outcome, in any order."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], /
    ) -> Outcomes[Task, Result]:
        """Run every task once."""


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:
    """Return the thread pools of the loaded libraries.

    Finding them takes 3 ms, so they are found again only after modules were imported.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread.

    There are three reasons: sums that several threads compute can differ in their last bits; on
    small matrices, several threads are ten times slower than one, because they mostly wait for each
    other; and a worker process has only one core.
    """
    torch: Any = sys.modules.get("torch")
    n_threads = 1 if torch is None else torch.get_num_threads()
    with _thread_pools(len(sys.modules)).limit(limits=1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(n_threads)


def serial(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
    """Run tasks one after another in this process.

    >>> dict(serial(abs, [-1, 2]))
    {-1: 1, 2: 2}
    """
    for task in tasks:
        yield task, capture_outcome(work, task)


def threads(count: int) -> Runner:
    """Return a runner with `count` threads of this process.

    Threads are useful for functions that spend their time inside numpy or Arrow.

    >>> sorted(threads(2)(abs, [-1, 2]))
    [(-1, 1), (2, 2)]
    """

    def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
        executor = ThreadPoolExecutor(count)
        try:
            futures = {executor.submit(capture_outcome, work, task): task for task in tasks}
            for future in as_completed(list(futures)):
                yield futures.pop(future), future.result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    return run


def processes(workers: int) -> Runner:
    """Return a runner with worker processes, each of which runs one task at a time in one thread.

    If a worker process dies, for example because memory runs out, another process runs its task
    again; a task has failed after three workers have died while running it. The worker processes
    end when this process ends, even if this process is killed.
    """
    if workers < 1:
        raise out_of_range("workers", workers, low=1)

    def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
        with closing(WorkerPool(work, min(workers, len(tasks)))) as pool:
            yield from pool.outcomes(tasks)

    return run


def distributed(address: str) -> Runner:
    """Return a runner that uses the workers of a Dask cluster.

    `address` is the URL of the scheduler, such as tcp://host:8786. If a worker dies, another worker
    runs its task again. All workers must have the same version of this package as this process.
    """
    dask = require("distributed", extra="scale", purpose="A Dask cluster")

    def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Outcomes[Task, Result]:
        with _silence_dask_log(), _connect(dask, address) as client:
            remote_work = _submit_work(client, work)
            futures = {
                client.submit(_run_exclusively, remote_work, task, pure=False): task
                for task in tasks
            }
            for future in dask.as_completed(list(futures), loop=client.loop):
                task = futures.pop(future)
                if future.cancelled():
                    raise OodometerError(
                        f"Lost the connection to the Dask scheduler at {address!r}. Start it and "
                        "this command again."
                    )
                error = future.exception()
                outcome = future.result() if error is None else error
                future.release()  # otherwise the cluster keeps it, and recomputes it if it is lost
                yield task, outcome

    return run


def _submit_work(client: Any, work: Callable[[Task], Result]) -> Any:
    """Return a plain function unchanged; store a callable that holds data on the cluster.

    The callable is submitted as the result of a task, so Dask sends it to each worker once, and
    computes it again if the worker that holds it dies.
    """
    if isinstance(work, FunctionType | BuiltinFunctionType):
        return work
    with warnings.catch_warnings():
        # Users cannot act on this warning.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return client.submit(_identity, work, pure=False)


@contextmanager
def _silence_dask_log() -> Iterator[None]:
    """Disable Dask's log of a lost scheduler, because this module reports it as an error."""
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _connect(dask: Any, address: str) -> Any:
    """Connect to a cluster; raise unless it has workers with this version of the package."""
    try:
        parts = urlsplit(address)
        # The server is checked first because Dask's client would retry for a long time.
        socket.create_connection(
            (parts.hostname, parts.port or 0), timeout=CONNECT_TIMEOUT_SECONDS
        ).close()
        server_type = _server_type(dask, address)
    except (OSError, ValueError) as error:
        raise _no_scheduler_error(address, str(error)) from error
    if server_type != "Scheduler":
        raise _no_scheduler_error(address, f"the server there is {server_type}")
    client = dask.Client(address, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False)
    try:
        _check_workers(client, address)
    except BaseException:
        client.close()
        raise
    return client


def _server_type(dask: Any, address: str) -> str:
    """Return the type of the server at an address, such as "Scheduler" or "Worker".

    If the server is not a scheduler, Dask's client would wait forever or fail without explanation.
    """

    async def identify() -> Any:
        async with dask.rpc(address) as server:
            return await asyncio.wait_for(server.identity(), CONNECT_TIMEOUT_SECONDS)

    # A new thread is used because the calling thread may run an event loop, as in notebooks.
    with ThreadPoolExecutor(1) as executor:
        try:
            return str(executor.submit(lambda: asyncio.run(identify())).result()["type"])
        except Exception:  # Dask raises various types for the responses of other servers
            return "not a Dask server; is this the port of a web page?"


def _no_scheduler_error(address: str, reason: str) -> InputError:
    return InputError(
        f"There is no Dask scheduler at {address!r} ({reason}). Pass the address that "
        "`dask scheduler` prints, such as tcp://host:8786."
    )


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise InputError(
            f"The Dask scheduler at {address!r} has no worker. Start one or more: "
            f"dask worker {address}"
        ) from error
    versions = client.get_versions(packages=["oodometer"])
    own_version = versions["client"]["packages"]["oodometer"]
    for worker, info in versions["workers"].items():
        version = info["packages"].get("oodometer")
        if version != own_version:
            raise InputError(
                f"The worker {worker} has oodometer {version}, this process has {own_version}. "
                "Install the same version everywhere."
            )


def _identity(work: Callable[[Task], Result]) -> Callable[[Task], Result]:
    return work


def _run_exclusively(work: Callable[[Task], Result], task: Task) -> Result:
    """Run a task while no other task runs in this Dask worker, which may have several threads."""
    with _TASK_LOCK:
        return work(task)


# Work with data, results in order ---------------------------------------------------------------


class RemoteTask(Protocol[ContraTask, CoResult]):
    """Callable that holds data, which each worker receives once, before its first task."""

    def __call__(self, task: ContraTask, /) -> CoResult: ...

    def payload(self) -> Mapping[str, Any]:
        """Return the objects to send, keyed by the names that error messages use for them."""


def label_payload(kind: str, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Return objects keyed by the names that error messages use for them.

    >>> label_payload("model", {"a": abs})
    {"The model 'a'": <built-in function abs>}
    """
    return {f"The {kind} {name!r}": value for name, value in objects.items()}


def group_batches(batches: Sequence[Task], batch_size: int) -> list[Sequence[Task]]:
    """Group consecutive batches, each of at most `batch_size` rows, into tasks.

    Examples
    --------
    >>> [len(block) for block in group_batches(range(66), batch_size=500)][-2:]
    [2, 2]
    >>> len(group_batches(range(4), batch_size=500))
    4
    """
    per_task = max(min(MAX_TASK_ROWS // max(batch_size, 1), len(batches) // MIN_TASKS), 1)
    return [batches[start : start + per_task] for start in range(0, len(batches), per_task)]


def ordered_map(
    runner: Runner, work: RemoteTask[Task, Result], tasks: Sequence[Task]
) -> Generator[Result, None, None]:
    """Yield the results of all tasks in the order of the tasks.

    If a task has failed, its exception is raised after the results of all earlier tasks. Close the
    generator to end the workers early.
    """
    if not tasks:
        return
    if runner is serial:
        for task in tasks:
            yield work(task)
        return
    finished: dict[int, Result | Exception] = {}
    next_number = 0
    with closing(runner(_PickledTask.from_task(work), list(enumerate(tasks)))) as outcomes:
        for (number, _), outcome in outcomes:
            finished[number] = outcome
            while next_number in finished:
                yield _raise_if_error(finished.pop(next_number))
                next_number += 1


def _raise_if_error(outcome: Result | Exception) -> Result:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@dataclass(frozen=True)
class _PickledTask:
    """Pickled function that runs numbered tasks.

    The function is pickled once and unpickled once per process, so its models stay open between
    tasks.
    """

    data: bytes

    @classmethod
    def from_task(cls, work: RemoteTask[Any, Any]) -> _PickledTask:
        try:
            return cls(pickle.dumps(work))
        except Exception as error:
            raise _pickling_error(work, error) from error

    @cached_property
    def work(self) -> Any:
        """Unpickle the function."""
        try:
            return pickle.loads(self.data)
        except MissingExtra:
            raise
        except Exception as error:
            reason = format_error(error).rstrip(". ")
            raise InputError(
                f"A worker cannot open the data that it received: {reason}. Give every worker the "
                "same files and the same packages."
            ) from error

    def __call__(self, numbered_task: tuple[int, Any]) -> Any:
        _, task = numbered_task
        return self.work(task)

    def __reduce__(self) -> tuple[Any, ...]:
        # Dask workers send this object to each other; models that a worker has opened are not sent.
        return _PickledTask, (self.data,)


def _pickling_error(work: RemoteTask[Any, Any], error: Exception) -> InputError:
    """Return an error that names the object that cannot be pickled."""
    culprit = "The data of this task"
    for name, value in work.payload().items():
        try:
            pickle.dumps(value)
        except Exception as value_error:
            culprit = name
            error = value_error
            break
    return InputError(
        f"{culprit} cannot be sent to workers ({format_error(error)}). Pass a function of a module, "
        "or a file; or run without workers."
    )
