"""Folder of a gallery: written completely or not at all, without touching other files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oodometer.core.errors import InputError
from oodometer.report.gallery import (
    GALLERY_MARKER,
    check_gallery_folder,
    write_gallery_files,
)


def gallery(*numbers: int) -> dict[str, bytes]:
    """Return the files of a gallery with these pictures."""
    names = [f"example_{number:04d}.png" for number in numbers]
    page = GALLERY_MARKER + "".join(f'<img src="{name}" alt="">' for name in names)
    return {**dict.fromkeys(names, b"a picture"), "index.html": page.encode()}


def test_new_and_empty_folders_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_gallery_folder(tmp_path)
    check_gallery_folder(str(tmp_path / "new"))
    monkeypatch.chdir(tmp_path)
    check_gallery_folder("new")
    check_gallery_folder(".")
    assert not os.listdir(tmp_path)
    write_gallery_files("new", gallery(3))
    assert {name: (tmp_path / "new" / name).read_bytes() for name in os.listdir("new")} == gallery(
        3
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file.txt", r"file.txt is not a folder\. Give"),
        ("dangling", r"dangling is not a folder\. Give"),
        ("no/gallery", r"There is no folder .*no\. Create it"),
        ("site", r"site is not empty: index.html does not belong to an earlier gallery\. Give"),
        ("photos", r"photos is not empty: example_0000.png does not belong to an .*\. Give"),
        ("locked", r"Cannot write .*locked: Permission denied\. Choose"),
    ],
)
def test_unsuitable_folders_are_rejected(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.txt").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for folder, file in (("site", "index.html"), ("photos", "example_0000.png")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("mine")
    (tmp_path / "locked").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: p.name != "locked" and access(p, mode))
    with pytest.raises(InputError, match=message) as caught:
        check_gallery_folder(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_new_folder_in_a_read_only_folder_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda p, mode: p != tmp_path.resolve())
    with pytest.raises(InputError, match=r"Cannot write .*new: Permission denied"):
        check_gallery_folder(tmp_path / "new")


def test_earlier_gallery_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    write_gallery_files(tmp_path, gallery(0, 1, 2))
    (tmp_path / "notes.txt").write_text("mine")
    check_gallery_folder(tmp_path)
    write_gallery_files(tmp_path, gallery(1, 9))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert set(os.listdir(tmp_path)) == {"notes.txt", *gallery(1, 9)}


def test_picture_unknown_to_the_earlier_page_is_protected(tmp_path: Path) -> None:
    write_gallery_files(tmp_path, gallery(0))
    (tmp_path / "example_0007.png").write_text("mine")
    with pytest.raises(InputError, match=r"example_0007.png does not belong to an earlier gallery"):
        check_gallery_folder(tmp_path)


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("failing", ["write", "replace"])
def test_failed_write_leaves_no_partial_gallery(
    failing: str, earlier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gallery"
    if earlier:
        write_gallery_files(folder, gallery(4))

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        owner, name = (Path, "write_bytes") if failing == "write" else (os, "replace")
        patched.setattr(owner, name, refuse)
        with pytest.raises(InputError, match=r"Cannot write .*gallery: No space left .* Choose"):
            write_gallery_files(folder, gallery(4, 5))
    if earlier:
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == gallery(4)
    else:
        assert not os.listdir(tmp_path)


@pytest.mark.parametrize("earlier", [True, False])
def test_failed_move_leaves_no_new_file(
    earlier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gallery"
    if earlier:
        write_gallery_files(folder, gallery(4))
    replace = os.replace

    def fails_at_the_page(source: Path, target: Path) -> None:
        if target.name == "index.html":
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_at_the_page)
    with pytest.raises(InputError, match=r"Cannot write .*: Input/output error"):
        write_gallery_files(folder, gallery(5, 6))
    if earlier:
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == gallery(4)
    else:
        assert not os.listdir(tmp_path)


def test_existing_empty_folder_stays_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(InputError, match="No space left"):
        write_gallery_files(tmp_path, gallery(1))
    assert tmp_path.is_dir()
    assert not os.listdir(tmp_path)


def test_interrupt_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_gallery_files(tmp_path / "gallery", gallery(1))
    assert not os.listdir(tmp_path)


def test_page_is_moved_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    replace = os.replace

    def recorded(source: Path, target: Path) -> None:
        moved.append(target.name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", recorded)
    write_gallery_files(tmp_path / "gallery", gallery(1, 2))
    assert moved == ["example_0001.png", "example_0002.png", "index.html"]
