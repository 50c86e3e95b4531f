"""Files that are written aside: whole, or as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from oodometer.data.atomic import atomic_write


def test_a_file_is_as_it_was_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "told.txt"
    path.write_text("before")
    with atomic_write(path) as partial:
        partial.write_text("after")
        assert path.read_text() == "before"
        assert partial.parent == tmp_path
    assert path.read_text() == "after"
    assert [file.name for file in tmp_path.iterdir()] == ["told.txt"]


def full(partial: Path) -> None:
    partial.write_text("half")
    raise OSError("full")


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "told.txt"
    path.write_text("before")
    with pytest.raises(OSError, match="full"), atomic_write(path) as partial:
        full(partial)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["told.txt"]


def test_what_went_wrong_is_told_even_where_nothing_can_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(KeyError, match="stopped"), atomic_write(tmp_path / "told.txt"):
        raise KeyError("stopped")


def test_a_long_name_has_room(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    with atomic_write(path) as partial:
        partial.write_text("all")
    assert path.read_text() == "all"
