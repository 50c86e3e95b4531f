"""The `oodometer cache` command: size of the feature cache, and clearing it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.models import FeatureCache, features
from oodometer.parallel.pickling import CACHE_FOLDER_VARIABLE
from oodometer.transforms import get
from tests.support.command_line import run, run_json
from tests.support.tiny_bodies import brightness


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureCache:
    monkeypatch.setenv(CACHE_FOLDER_VARIABLE, str(tmp_path / "cache"))
    cache = FeatureCache(tmp_path / "cache")
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)
    features(brightness(), images, cache=cache)
    for draw in (1, 2):
        features(brightness(), images, transform=get("translate"), draw=draw, cache=cache)
    return cache


def test_sizes_are_shown_by_body_and_transform(cache: FeatureCache, tmp_path: Path) -> None:
    shown = run(tmp_path, "cache").stdout
    rows = [line.split() for line in shown.splitlines() if line.split()[:1] == ["brightness"]]
    assert sorted((row[1], row[2]) for row in rows) == [("none", "9"), ("translate", "18")]
    assert str(cache.folder) in "".join(shown.split())
    facts = run_json(tmp_path, "cache")
    assert facts["bytes"] == cache.n_bytes > 0
    assert sum(section["rows"] for section in facts["sections"]) == 27


def test_clearing_removes_everything_and_says_how_much(cache: FeatureCache, tmp_path: Path) -> None:
    before = cache.n_bytes
    facts = run_json(tmp_path, "cache", "--clear")
    assert (facts["cleared"], facts["bytes"], facts["sections"]) == (before, 0, [])
    assert cache.n_bytes == 0
    assert "Removed 0.0 MB" in run(tmp_path, "cache", "--clear").stdout


def test_option_selects_another_folder(cache: FeatureCache, tmp_path: Path) -> None:
    facts = run_json(tmp_path, "cache", "--cache-dir", str(tmp_path / "other"))
    assert (facts["folder"], facts["bytes"]) == (str(tmp_path / "other"), 0)


def test_cache_that_is_turned_off_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_FOLDER_VARIABLE, "none")
    assert "nothing is cached" in run(tmp_path, "cache").stdout
    assert run_json(tmp_path, "cache")["folder"] is None
