"""What tests of models share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tiny networks on a busy machine lose far more time to threads than they gain."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
