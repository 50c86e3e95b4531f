"""Pages of random predictions with hostile names."""

from __future__ import annotations

import numpy as np
import pytest

import oodometer
from oodometer import Assessment, Estimate, Predictions
from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.data import as_dataset
from oodometer.report import Comparison, assessment_page, comparison_page
from oodometer.report._invariance_page import invariance_page, ranking_page
from oodometer.studies.report._study_page import study_page
from tests.support import invariance_runs
from tests.support.study_tables import evaluation_columns, table_of

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src='https://example.org/x' onerror=alert(2)>",
    '"\' onmouseover="alert(3)',
    "{{ 7 * 7 }} {% raw %} <!-- \u2028 \u202e &lt;b&gt;",
)


def drawn(seed: int, n: int, *, signal: float, k: int = len(HOSTILE)) -> Predictions:
    """Return labelled rows of noisy logits that favour the true class by `signal`."""
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
    return oodometer.estimate(source, target, segment_by=np.resize(HOSTILE, 300), replicates=20)


@pytest.fixture(scope="session")
def assessed(assessment: Assessment, source: Predictions, target: Predictions) -> str:
    reproduce = {HOSTILE[0]: HOSTILE[1], "seed": "0"}
    return assessment_page(assessment, source, target, title=HOSTILE[0], reproduce=reproduce)


@pytest.fixture(scope="session")
def timed(source: Predictions, target: Predictions) -> str:
    """Return the page of an assessment by day, with few rows per day."""
    days = np.datetime64("2026-02-20") + np.arange(300) // 10
    result = oodometer.estimate(source, target, segment_by=days, replicates=20)
    facts = {HOSTILE[1]: HOSTILE[0]}
    return assessment_page(result, source, target, title=HOSTILE[1], reproduce=facts)


@pytest.fixture(scope="session")
def compared() -> str:
    rows = [
        Comparison(
            name,
            0.8,
            {HOSTILE[0]: Estimate(0.85, low=0.8, high=0.9), "b": Estimate(0.7)},
            headline=Estimate(0.85),
            shift=ShiftInterval(0.7, 0.95, 0.9, n_domains=0, scaled_by_spread=False, bias=0.0),
            status=status,  # type: ignore[arg-type]
        )
        for name, status in zip(HOSTILE, ("ok", "warning", "critical", "ok"), strict=True)
    ]
    return comparison_page(rows, title=HOSTILE[1], methods=[HOSTILE[0], "b"])


@pytest.fixture(scope="session")
def studied() -> str:
    """Return the page of a study with all sections."""
    noise = {HOSTILE[0]: 0.02, HOSTILE[1]: 0.1, HOSTILE[2]: -0.1, HOSTILE[3]: 0.2, "ni": 0.05}
    rows = evaluation_columns(
        noise=noise, domains=HOSTILE[1:], kinds=HOSTILE[:2], names=HOSTILE[:1]
    )
    n = range(len(rows["model"]))
    rows |= {
        "task": [f"{trained} task" for trained in rows["trained_on"]],
        "shift": [HOSTILE[0]] * len(n),
        "source-error": [float(rows["model"][j][-1]) / 10 for j in n],
        "recipe.part": [("whole", "head")[int(rows["model"][j][-1]) % 2] for j in n],
        "recipe.augment": [("none", "augmix")[int(rows["model"][j][-1]) % 2] for j in n],
        "recipe.note": [f"{HOSTILE[int(rows['model'][j][-1]) % 2]}" for j in n],
    }
    return study_page(table_of(rows), title=HOSTILE[0], reproduce={HOSTILE[1]: HOSTILE[0]})


@pytest.fixture(scope="session")
def measured() -> str:
    """Return the page of a table of measures without further columns."""
    rows = evaluation_columns(noise=dict.fromkeys(HOSTILE, 0.1))
    return study_page(table_of(rows), title=HOSTILE[2], reproduce={HOSTILE[3]: HOSTILE[2]})


@pytest.fixture(scope="session")
def invariant() -> str:
    """Return the page of one model with hostile texts and class names."""
    texts = [f"{name} is number {i}" for i in range(8) for name in HOSTILE]
    run = invariance_runs.run_invariance(as_dataset(texts, labels=np.arange(32) % 4),
                         invariance_runs.Hashed(HOSTILE[0], names=HOSTILE, sure=0.7))  # fmt: skip
    facts = {HOSTILE[1]: HOSTILE[0]}
    return invariance_page(run.found, run.show, title=HOSTILE[1], reproduce=facts)


@pytest.fixture(scope="session")
def ranked_models() -> str:
    """Return the page of a ranking on images, with known and predicted accuracies."""
    models = [
        invariance_runs.Hashed(name, salt=i + 1, names=HOSTILE) for i, name in enumerate(HOSTILE)
    ]
    known = {name: 0.2 * i + 0.1 for i, name in enumerate(HOSTILE)}
    result, show = invariance_runs.run_ranking(
        invariance_runs.images(20, 12, 10, 3), *models, known_accuracies=known, draws=10
    )
    return ranking_page(
        result, show, title=HOSTILE[1], reproduce={"seed": "0"}, known_accuracies=known
    )


@pytest.fixture(
    scope="session",
    params=["assessed", "timed", "compared", "studied", "measured", "invariant", "ranked_models"],
)
def page(request: pytest.FixtureRequest) -> str:
    """Return each page in turn."""
    text: str = request.getfixturevalue(request.param)
    return text
