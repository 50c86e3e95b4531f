"""ordered_map: order of results, failures, and work that cannot be pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, MissingExtra
from oodometer.parallel.runners import (
    MAX_TASK_ROWS,
    MIN_TASKS,
    Runner,
    distributed,
    group_batches,
    label_payload,
    ordered_map,
    processes,
    serial,
)
from tests.support.distributed_work import Adding, mailed


@given(tasks=st.lists(st.integers()), seed=st.integers(0, 99))
def test_results_are_in_the_order_of_tasks(tasks: list[int], seed: int) -> None:
    expected = [task + 1 for task in tasks]
    assert list(ordered_map(mailed(seed), Adding(), tasks)) == expected
    assert list(ordered_map(serial, Adding(), tasks)) == expected


def test_processes_and_cluster_give_equal_results(two_workers: str) -> None:
    tasks = list(range(20))
    for runner in (processes(2), distributed(two_workers)):
        assert list(ordered_map(runner, Adding(5), tasks)) == list(range(5, 25))


def test_large_work_is_sent_to_a_cluster_without_a_warning(two_workers: str) -> None:
    """Dask warns about more than 10 MB, and warnings are errors in tests."""
    work = Large(bytes(12_000_000))
    assert list(ordered_map(distributed(two_workers), work, [1, 2])) == [12_000_001, 12_000_002]


class Large(Adding):
    def __init__(self, load: bytes) -> None:
        object.__setattr__(self, "load", load)
        super().__init__(len(load))


@given(fails=st.integers(0, 9), seed=st.integers(0, 99))
def test_failure_is_raised_in_its_turn(fails: int, seed: int) -> None:
    results = ordered_map(mailed(seed), Adding(fails=fails), range(10))
    assert list(islice(results, fails)) == list(range(1, fails + 1))
    with pytest.raises(ValueError, match=f"no luck with {fails}"):
        next(results)


def recording_close(closed: list[str]) -> Runner:
    def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[tuple[Any, Any]]:
        try:
            yield from serial(work, tasks)
        finally:
            closed.append("closed")

    return run


def test_closing_the_generator_closes_the_runner() -> None:
    closed: list[str] = []
    results = ordered_map(recording_close(closed), Adding(), [1, 2, 3])
    assert next(results) == 2
    results.close()
    assert closed == ["closed"]


def test_no_tasks_start_no_runner() -> None:
    closed: list[str] = []
    assert list(ordered_map(recording_close(closed), Adding(), [])) == []
    assert closed == []


class Holding(Adding):
    """Work with an object in its payload."""

    def __init__(self, held: Any, labelled: bool = True) -> None:
        super().__init__()
        object.__setattr__(self, "held", held)
        object.__setattr__(self, "labelled", labelled)

    def payload(self) -> dict[str, Any]:
        return label_payload("model", {"good": 1, "mine": self.held}) if self.labelled else {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("labelled", "who"), [(True, "The model 'mine'"), (False, "The data of this task")]
)
def test_unpicklable_object_is_reported_before_running(labelled: bool, who: str) -> None:
    held = lambda inputs: inputs  # noqa: E731
    with pytest.raises(
        InputError, match=rf"^{who} cannot be sent to workers \(.*pickle.*\)\. Pass a f"
    ) as no:
        list(ordered_map(mailed(0), Holding(held, labelled), [1]))
    assert "\n" not in str(no.value)
    assert list(ordered_map(serial, Holding(held, labelled), [1])) == [2]


class Absent:
    """Object that raises when it is unpickled."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        return _raise, (self.error,)


def _raise(error: Exception) -> None:
    raise error


def test_unpickling_failure_in_a_worker_is_reported_in_one_line() -> None:
    work = Holding(Absent(ModuleNotFoundError("No module named 'mine'")))
    with pytest.raises(
        InputError, match=r"A worker cannot open the data that it received: Mod"
    ) as no:
        list(ordered_map(mailed(0), work, [1]))
    assert str(no.value).endswith("Give every worker the same files and the same packages.")
    with pytest.raises(MissingExtra, match=r"^pip install it$"):
        list(ordered_map(mailed(0), Holding(Absent(MissingExtra("pip install it"))), [1]))


def test_work_is_unpickled_once_and_forwarded_as_bytes() -> None:
    from oodometer.parallel.runners import _PickledTask

    packed = _PickledTask.from_task(Adding())
    assert packed.work is packed.work
    again = pickle.loads(pickle.dumps(packed))
    assert "work" in vars(packed)
    assert "work" not in vars(again)
    assert again((0, 1)) == 2


@given(n=st.integers(0, 400), rows=st.integers(1, 3 * MAX_TASK_ROWS))
def test_grouped_batches_are_complete_ordered_and_bounded(n: int, rows: int) -> None:
    cut = group_batches(range(n), rows)
    assert [batch for block in cut for batch in block] == list(range(n))
    assert all(len(block) * rows <= MAX_TASK_ROWS or len(block) == 1 for block in cut)
    assert len(cut) >= min(n, MIN_TASKS)
