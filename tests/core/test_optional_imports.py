"""The only door to optional packages."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from oodometer.core.errors import MissingExtra
from oodometer.core.optional_imports import require


def test_an_installed_module_is_returned() -> None:
    assert require("math", extra="maths", purpose="Roots") is math


def test_a_dotted_name_gives_the_inner_module() -> None:
    assert require("os.path", extra="x", purpose="Paths").basename("a/b") == "b"


def test_a_missing_module_is_named_with_its_purpose_and_the_way_to_get_it() -> None:
    with pytest.raises(MissingExtra) as caught:
        require("no_such_package", extra="torch", purpose="Scoring a network")
    assert str(caught.value) == (
        "Scoring a network needs the package 'no_such_package', which is not installed. "
        'Install it with: pip install "oodometer[torch]"'
    )


def test_the_package_named_is_the_one_that_is_missing_not_the_one_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_another_one.py").write_text("import no_such_inner_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match="needs the package 'no_such_inner_package'"):
        require("needs_another_one", extra="x", purpose="It")


def test_a_module_that_breaks_for_another_reason_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_on_import.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match="broken"):
        require("broken_on_import", extra="x", purpose="It")
