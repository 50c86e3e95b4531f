"""Types of shift by Table S1 of the paper, and tasks by domain group."""

from __future__ import annotations

import pytest

from oodometer.studies.analysis import average_correlations
from oodometer.studies.analysis.shift_types import domain_type
from tests.support.fine_tuning_rows import fine_tuning_rows, to_table


@pytest.mark.parametrize(
    ("task", "real", "artificial"),
    [
        ("pacs", ("photo",), ("art_painting", "cartoon", "sketch")),
        ("domain-net", ("real",), ("clipart", "infograph", "painting", "quickdraw", "sketch")),
        ("office-home", ("Product", "Real World"), ("Art", "Clipart")),
        ("vlcs", ("Caltech101", "LabelMe", "SUN09", "VOC2007"), ()),
        ("sviro", (), ("aclass", "zoe")),
        ("terra-incognita", ("location_100",), ()),
    ],
)
def test_domain_types_are_those_of_the_paper(
    task: str, real: tuple[str, ...], artificial: tuple[str, ...]
) -> None:
    assert {domain_type(task, name) for name in real} <= {"real"}
    assert {domain_type(task, name) for name in artificial} <= {"artificial"}


def test_group_is_the_task_and_determines_the_shift() -> None:
    correlations = average_correlations(to_table(fine_tuning_rows()), metrics=["nll"])
    assert list(correlations.tasks) == ["fmow", "pacs", "terra-incognita"]
    pairs = {
        name: int(matrix.score("ID error", "OOD error")["pairs"])
        for name, matrix in correlations.shifts.items()
    }
    assert pairs == {
        "artificial → artificial": 2,
        "artificial → real": 2,
        "real → artificial": 2,
        "real → real": 1 + 4,
    }
    # A task with one OOD domain has no held-out OOD domain.
    fmow = correlations.tasks["fmow"]
    assert fmow.score("held-out OOD error", "OOD error")["value"] is None
    assert correlations.tasks["pacs"].score("held-out OOD error", "OOD error")["value"] is not None


def test_columns_task_and_shift_take_precedence() -> None:
    rows = [{**row, "task": "t", "shift": "s"} for row in fine_tuning_rows(groups=["pacs"])]
    correlations = average_correlations(to_table(rows), metrics=["nll"])
    assert (list(correlations.tasks), list(correlations.shifts)) == (["t"], ["s"])


def test_models_without_a_group_share_the_task_of_the_others() -> None:
    rows = fine_tuning_rows(groups=["pacs"])
    first = rows[0]["model"]
    rows = [{**row, "group": None if row["model"] == first else row["group"]} for row in rows]
    assert list(average_correlations(to_table(rows), metrics=["nll"]).tasks) == ["pacs"]
    mixed = [{**row, "group": "x" if row["model"] == first else row["group"]} for row in rows]
    assert "unnamed" in average_correlations(to_table(mixed), metrics=["nll"]).tasks
