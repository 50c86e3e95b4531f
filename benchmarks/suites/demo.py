"""The digits of the demo under its fifteen shifts, with several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Floats
from oodometer.core.predictions import Predictions
from oodometer.studies import demo

N_SEEDS = 6


def groups(space: Workspace) -> Sequence[str]:
    return tuple(f"seed {seed}" for seed in range(N_SEEDS))


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Make the source and the targets as the demo does, with both of its models."""
    seed = int(group.removeprefix("seed "))
    suite = demo.make_digits_suite(seed)
    labels = suite.source.labels
    assert labels is not None
    yield Domain(HOME, labels, _probs(suite.source, suite.other_models))
    for target in suite.targets:
        assert target.predictions.labels is not None
        probs = _probs(target.predictions, target.other_models)
        yield Domain(target.name, target.predictions.labels, probs)


def _probs(first: Predictions, second: Predictions) -> dict[str, Floats]:
    return {"first": first.probs, "second": second.probs}


SUITES = (
    Suite(name="demo", family="demo", k=10, groups=groups, predict=predict, outputs="demo",
          whole_targets=True, target_regimes={"no shift": "none", "label shift": "label"},
          cases=360),
)  # fmt: skip
