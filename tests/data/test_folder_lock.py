"""Folder locks: one process at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oodometer.core.errors import InputError
from oodometer.data.atomic import lock_folder
from oodometer.studies.training._run import run
from oodometer.studies.training._status import status
from oodometer.studies.training.spec import PoolSpec
from tests.support import training_tasks

SPEC = PoolSpec.open(training_tasks.SPEC)


def test_second_process_gets_an_error_that_names_the_holder(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        with pytest.raises(InputError) as refused:
            run(SPEC, tmp_path, work=training_tasks.quick)
        assert f"is being trained by process {os.getpid()} on " in str(refused.value)
        assert "Only one process may write to it" in str(refused.value)
        assert status(SPEC, tmp_path).total("pending") == 40
    assert len(run(SPEC, tmp_path, work=training_tasks.quick).trained) == 40


def test_lock_file_is_overwritten_completely(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("process 1 on a machine with a very, very, very long name")
    with lock_folder(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
        assert "very" not in (tmp_path / ".lock").read_text()


def test_uncreatable_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: .* Use another folder"):
        run(SPEC, tmp_path / "file", work=training_tasks.quick)
