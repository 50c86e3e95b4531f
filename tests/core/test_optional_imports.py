"""Imports of optional packages."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from oodometer.core.errors import MissingExtra
from oodometer.core.optional_imports import require


def test_an_installed_module_is_returned() -> None:
    assert require("math", extra="maths", purpose="Roots") is math


def test_dotted_name_returns_the_inner_module() -> None:
    assert require("os.path", extra="x", purpose="Paths").basename("a/b") == "b"


def test_missing_module_is_reported_with_purpose_and_extra() -> None:
    with pytest.raises(MissingExtra) as caught:
        require("no_such_package", extra="torch", purpose="Scoring a network")
    assert str(caught.value) == (
        "Scoring a network needs the package 'no_such_package', which is not installed. "
        'Install it with: pip install "oodometer[torch]"'
    )


def test_error_names_the_missing_dependency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_another_one.py").write_text("import no_such_inner_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match="needs the package 'no_such_inner_package'"):
        require("needs_another_one", extra="x", purpose="It")


def test_other_import_failures_are_not_reported_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_on_import.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match="broken"):
        require("broken_on_import", extra="x", purpose="It")
