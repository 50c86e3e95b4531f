"""Lazy package faces: names are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import oodometer
from oodometer.core.lazy import lazy_exports


def test_name_is_imported_on_first_use_and_cached() -> None:
    code = (
        "import sys, oodometer\n"
        "assert 'oodometer.assessment' not in sys.modules\n"
        "first = oodometer.History\n"
        "assert 'oodometer.assessment.conformal_interval' in sys.modules\n"
        "assert vars(oodometer)['History'] is first is oodometer.History\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'oodometer' has no attribute 'estimat'"):
        oodometer.estimat  # type: ignore[attr-defined]  # noqa: B018
    get, names = lazy_exports("oodometer.core", {"InputError": "errors"})
    with pytest.raises(AttributeError, match=r"'oodometer.core' has no attribute 'errors'"):
        get("errors")
    assert names() == ["InputError"]


def test_dir_lists_the_public_names() -> None:
    assert dir(oodometer) == sorted(oodometer.__all__)
