"""Work that carries data, spread over workers, its results in the order of the tasks.

What is made of many results hangs on their order, in its last bits at least; so they are given in a
fixed one, and neither the number of workers nor who is first changes anything.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from oodometer.core.errors import InputError, MissingExtra, format_error
from oodometer.parallel.runners import Runner, serial

# A task has so many rows at most; but there are so many tasks at least, if there are the batches.
MAX_TASK_ROWS, MIN_TASKS = 8192, 32

Task_ = TypeVar("Task_", contravariant=True)
Result_ = TypeVar("Result_", covariant=True)
Task = TypeVar("Task")
Result = TypeVar("Result")


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
