"""The list of methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oodometer import estimators, measures, metrics
from oodometer.measures import EntropySource
from tests.support.command_line import run

FAMILIES: dict[str, tuple[Any, ...]] = {
    "estimator": estimators.available(),
    "measure": measures.available(),
    "metric": metrics.available(),
}


def test_every_member_of_every_family_is_described(tmp_path: Path) -> None:
    rows = json.loads(run(tmp_path, "methods", "--json").stdout)
    members = [(family, one) for family, every in FAMILIES.items() for one in every]
    assert [(row["family"], row["name"]) for row in rows] == [
        (family, one.name) for family, one in members
    ]
    for row, (_, one) in zip(rows, members, strict=True):
        assert (row["assumes"], row["paper"]) == (one.assumes, one.paper)
        assert row["label"] == getattr(one, "label", one.name)
        assert row["needs"] == list(one.needs)
        assert row["is_mergeable"] == getattr(one, "is_mergeable", False)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_family_is_a_table_of_its_members_alone(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    shown = run(tmp_path, "methods", "--family", f"{family}s").stdout
    lines = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert lines[2:] == [one.name for one in FAMILIES[family]]
    assert lines[1] == family
    assert ("description" in shown.splitlines()[1]) == (family == "metric")


def test_members_that_other_packages_add_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "available", lambda: (EntropySource(),))
    rows = json.loads(run(tmp_path, "methods", "--json", "--family", "measure").stdout)
    assert [row["name"] for row in rows] == ["entropy-source"]
