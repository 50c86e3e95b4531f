from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.network_files import write_network_files
from tests.support.scorer_files import write_scorer_files
from tests.support.stub_models import forget_modules


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path) -> Iterator[None]:
    """Forget the modules that a test wrote, so that the next test can import others by the name."""
    yield
    forget_modules(tmp_path)


@pytest.fixture
def scorer_folder(tmp_path: Path) -> Path:
    """Return a folder with small models, images and texts."""
    return write_scorer_files(tmp_path)


@pytest.fixture(scope="module")
def _network_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_network_files(tmp_path_factory.mktemp("networks"))


@pytest.fixture
def network_folder(_network_files: Path) -> Path:
    """Return a folder with torch networks, data, outputs and features; one per test file."""
    forget_modules(_network_files)
    return _network_files
