from __future__ import annotations

import os
from pathlib import Path

import pytest

from oodometer.core.errors import InputError
from oodometer.transforms.text import apertium
from oodometer.transforms.text.apertium import Apertium

ODD = ["a [b] ^c/d$ {e} \\f <g> @h #i *j ~k", "no period", "Dr. Smith", "emoji 😀 日本語", "nul\0l"]


def fake(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "apertium"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_texts_and_special_characters_make_the_round_trip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, f'echo "$@" >> {tmp_path}/log; cat; printf "\\0\\0\\0"', monkeypatch)
    assert Apertium()(ODD) == [*ODD[:-1], "nul l"]
    expected = ["-u -z -f none eng-spa", "-u -z -f none spa-eng"]
    assert (tmp_path / "log").read_text().splitlines() == expected


def test_empty_translations_are_not_mistaken_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "sed 's/gone//g'; printf '\\0\\0'", monkeypatch)
    assert Apertium()(["gone", "here", "gone"]) == ["", "here", ""]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("cat > /dev/null; printf 'one\\0'", r"returned 1 texts for 3 in mode 'eng-spa'.* Update"),
        ("echo first >&2; echo no mode >&2; exit 3", "code 3 in mode 'eng-spa': no mode"),
        ("sleep 5", "took more than 0 s in mode 'eng-spa'. Translate smaller"),
    ],
)
def test_failures_raise_one_line(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apertium, "TIMEOUT_SECONDS", 0.3)
    fake(
        tmp_path,
        f"exec 2>&1; exec 2>/dev/null; {script}" if "sleep" in script else script,
        monkeypatch,
    )
    with pytest.raises(InputError, match=message) as caught:
        Apertium()(["a"])
    assert "\n" not in str(caught.value)


def test_missing_program_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not Apertium.is_installed()
    with pytest.raises(InputError, match=r"'apertium' is not on the PATH.* Install"):
        Apertium()(["a"])


@pytest.mark.skipif(not Apertium.is_installed(), reason="apertium is not installed")
def test_installed_apertium_does_not_depend_on_the_batch() -> None:
    texts = ["i have a lot of time", "like many people , i have ignorant neighbors .", *ODD,
             "The device is waterproof plastic, batteries (not included).", "it", "This is good."]  # fmt: skip
    whole = Apertium()(texts)
    assert len(whole) == len(texts)
    assert Apertium()(texts[::-1])[::-1] == whole
    assert Apertium()(texts[1:2]) == whole[1:2]
    assert whole[-1] == "This is well."
    assert whole != texts
