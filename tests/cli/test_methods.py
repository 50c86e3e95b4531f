"""The `oodometer methods` command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oodometer import estimators, measures, metrics
from oodometer.measures import EntropySource
from tests.support.command_line import assert_one_line_error, run, run_json

FAMILIES: dict[str, tuple[Any, ...]] = {
    "estimator": (*estimators.available(), *estimators.ON_REQUEST),
    "measure": measures.available(),
    "metric": metrics.available(),
}


def test_every_member_of_every_family_is_described(tmp_path: Path) -> None:
    rows = run_json(tmp_path, "methods")
    members = [(family, member) for family in FAMILIES for member in FAMILIES[family]]
    assert [(row["family"], row["name"]) for row in rows] == [
        (family, member.name) for family, member in members
    ]
    for row, (_, member) in zip(rows, members, strict=True):
        assert (row["assumes"], row["paper"]) == (member.assumes, member.paper)
        assert row["label"] == getattr(member, "label", member.name)
        assert row["needs"] == list(member.needs)
        assert row["is_mergeable"] == getattr(member, "is_mergeable", False)
    assert all(row["needs"] and row["assumes"] and row["paper"] for row in rows)
    needs = {row["name"]: row["needs"] for row in rows}
    assert needs["fisher-align"] == ["gradients"]
    assert needs["h-divergence-ms"] == ["features", "source domains"]


def test_all_families_are_shown_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run(tmp_path, "methods").stdout
    assert "Garg et al." in shown
    assert "Metrics on labelled data" in shown


@pytest.mark.parametrize("family", FAMILIES)
def test_family_option_selects_one_table(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    shown = run(tmp_path, "methods", "--family", f"{family}s").stdout
    first_words = [line.split()[0] for line in shown.splitlines() if line.strip()]
    names = [member.name for member in FAMILIES[family]]
    assert first_words[2 : 2 + len(names)] == names
    assert ("named with --method: bbse-features" in shown) == (family == "estimator")
    assert first_words[1] == family
    assert ("description" in shown.splitlines()[1]) == (family == "metric")
    rows = run_json(tmp_path, "methods", "--family", f"{family}s")
    assert {row["family"] for row in rows} == {family}


def test_unknown_family_is_a_one_line_error(tmp_path: Path) -> None:
    result = run(tmp_path, "methods", "--family", "measur")
    assert_one_line_error(result, "Did you mean 'measure'")


def test_members_from_other_packages_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "available", lambda: (EntropySource(),))
    rows = run_json(tmp_path, "methods", "--family", "measure")
    assert [row["name"] for row in rows] == ["entropy-source"]
