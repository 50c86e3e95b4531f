"""Atomic writes: a file is complete or unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from oodometer.data.atomic import atomic_write


def test_file_is_unchanged_until_the_write_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("before")
    with atomic_write(path) as partial:
        partial.write_text("after")
        assert path.read_text() == "before"
        assert partial.parent == tmp_path
    assert path.read_text() == "after"
    assert [file.name for file in tmp_path.iterdir()] == ["report.txt"]


def full(partial: Path) -> None:
    partial.write_text("half")
    raise OSError("full")


def test_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("before")
    with pytest.raises(OSError, match="full"), atomic_write(path) as partial:
        full(partial)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["report.txt"]


def test_original_error_is_raised_if_cleanup_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(KeyError, match="stopped"), atomic_write(tmp_path / "report.txt"):
        raise KeyError("stopped")


def test_long_file_names_are_supported(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    with atomic_write(path) as partial:
        partial.write_text("all")
    assert path.read_text() == "all"
