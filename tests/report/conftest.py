"""Pages of random predictions whose names are as bad as names can be."""

from __future__ import annotations

import numpy as np
import pytest

import oodometer
from oodometer import Assessment, Estimate, Predictions
from oodometer.report import Comparison, assessment_page, comparison_page

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src='https://example.org/x' onerror=alert(2)>",
    '"\' onmouseover="alert(3)',
    "{{ 7 * 7 }} {% raw %} <!-- \u2028 \u202e &lt;b&gt;",
)


def drawn(seed: int, n: int, *, signal: float, k: int = len(HOSTILE)) -> Predictions:
    """Labelled rows of noisy logits that favour the true class by `signal`."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k)) + signal * np.eye(k)[labels]
    return Predictions.from_logits(logits, labels=labels, class_names=HOSTILE if k == 4 else None)


@pytest.fixture(scope="session")
def source() -> Predictions:
    return drawn(0, 400, signal=3.0)


@pytest.fixture(scope="session")
def target() -> Predictions:
    return drawn(1, 300, signal=2.0)


@pytest.fixture(scope="session")
def assessment(source: Predictions, target: Predictions) -> Assessment:
    return oodometer.estimate(source, target, by=np.resize(HOSTILE, 300), replicates=20)


@pytest.fixture(scope="session")
def assessed(assessment: Assessment, source: Predictions, target: Predictions) -> str:
    reproduce = {HOSTILE[0]: HOSTILE[1], "seed": "0"}
    return assessment_page(assessment, source, target, title=HOSTILE[0], reproduce=reproduce)


@pytest.fixture(scope="session")
def compared() -> str:
    rows = [
        Comparison(name, 0.8, {HOSTILE[0]: Estimate(0.85, low=0.8, high=0.9), "b": Estimate(0.7)})
        for name in HOSTILE
    ]
    return comparison_page(rows, title=HOSTILE[1], methods=[HOSTILE[0], "b"])


@pytest.fixture(scope="session", params=["assessed", "compared"])
def page(request: pytest.FixtureRequest) -> str:
    """Either page."""
    text: str = request.getfixturevalue(request.param)
    return text
