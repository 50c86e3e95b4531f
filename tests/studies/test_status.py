"""Status of a study against the content of its store."""

from __future__ import annotations

import json
from pathlib import Path

from oodometer.studies import run, status
from oodometer.studies._status import StudyStatusRow
from oodometer.studies.store import Store
from tests.support import study_tasks
from tests.support.study_tasks import model, study


def test_status_counts_by_training_domains_and_architecture(tmp_path: Path) -> None:
    bad = model("bad", "tests.support.study_tasks:broken", architecture="stone")
    every = study(models=[*study_tasks.BALLS, bad])
    nothing = status(every, tmp_path / "none")
    assert (nothing.total("models"), nothing.total("done"), nothing.total("pending")) == (5, 0, 15)
    assert not (tmp_path / "none").exists()
    run(every, tmp_path, limit=8)
    found = status(every, tmp_path)
    # Models of one training domain come first; the broken one fails on its source.
    assert set(found.rows) == {
        StudyStatusRow(("0",), "ball", 2, 6, 0, 0),
        StudyStatusRow(("0",), "stone", 1, 0, 3, 0),
        StudyStatusRow(("90",), "ball", 1, 0, 0, 3),
        StudyStatusRow(("0", "90"), "ball", 1, 0, 0, 3),
    }
    assert set(found.failed) == {"bad on 0", "bad on 30", "bad on 90"}
    assert all("out of order" in why for why in found.failed.values())
    run(every, tmp_path)
    last = status(every, tmp_path)
    assert [last.total(name) for name in ("done", "failed", "pending")] == [12, 3, 0]
    told = json.loads(json.dumps(last.to_dict()))
    assert (told["done"], told["models"], set(told["reasons"])) == (12, 5, set(last.failed))


def test_not_applicable_values_are_counted(tmp_path: Path) -> None:
    run(study(), tmp_path)
    found = status(study(), tmp_path)
    assert found.not_applicable["gde"] == found.not_applicable["gde (pre-T)"] == 12
    with Store.open(tmp_path) as store:
        assert sum(found.not_applicable.values()) == len(store.missing_reasons())
    assert "gde" not in status(study(estimators=["ac"]), tmp_path).not_applicable


def test_status_can_be_read_during_a_run(tmp_path: Path) -> None:
    run(study(), tmp_path, limit=4)
    with Store.open(tmp_path, "write"):
        assert status(study(), tmp_path).total("done") == 4
