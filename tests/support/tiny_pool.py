"""A pool of tiny networks that a test trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oodometer.studies.training._run import run
from oodometer.studies.training.spec import PoolSpec

SPEC: dict[str, Any] = {
    "name": "little",
    "group": "hypersphere",
    "domains": ["0", "90"],
    "architecture": "mlp",
    "seeds": 2,
    "fixed": {"epochs": 2, "batch": 250, "lr": 0.02, "settings": {"width": 4}},
    "grid": {"stop_at": [9.0, 1e-9]},
}


def train_pool(folder: Path, **changes: Any) -> PoolSpec:
    """Train eight models, of which four converge; return their spec."""
    spec = PoolSpec.open({**SPEC, **changes})
    assert not run(spec, folder).failed
    return spec
