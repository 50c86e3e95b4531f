"""write_page(): atomic writes and rejected paths."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from oodometer.core.errors import InputError
from oodometer.report import write_page


def test_write_page_writes_utf8_and_replaces_files(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page("old", path)
    write_page("±1 \ud800", str(path))
    assert path.read_bytes() == "±1 ?".encode()
    assert os.listdir(tmp_path) == ["report.html"]


def test_file_has_default_permissions(tmp_path: Path) -> None:
    write_page("text", tmp_path / "report.html")
    (tmp_path / "other").write_text("text")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    write_page("new", tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"


@pytest.mark.parametrize("broken", ["replace", "write"])
def test_failed_write_keeps_the_old_file(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    write_page("old", path)

    def half(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    if broken == "write":
        monkeypatch.setattr(Path, "write_bytes", half)
    else:
        monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, match=r"Cannot write .*report.html: [NP]") as caught:
        write_page("new", path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_interrupt_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_page("new", tmp_path / "report.html")
    assert not os.listdir(tmp_path)


def test_missing_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no folder .*absent\. Create it"):
        write_page("new", tmp_path / "absent" / "report.html")


def test_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder\. Give the path of a file in it, such as"):
        write_page("new", tmp_path)


def test_device_is_not_replaced() -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        write_page("new", os.devnull)
