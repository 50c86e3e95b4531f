from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stub_models import forget_modules


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path) -> Iterator[None]:
    """Models that a test writes as a module are not those of the next test that names one so."""
    yield
    forget_modules(tmp_path)
