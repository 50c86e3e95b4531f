"""Conformance check of metrics: check_metric() tests the rules that every metric must follow."""

from __future__ import annotations

from collections.abc import Callable

from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Metric
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.data import as_dataset
from oodometer.models import TorchModel
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.testing.measures import check_description, network_state, toy_data, toy_network

# Sums over permuted rows differ by rounding.
ABSOLUTE_TOLERANCE = 1e-6


def toy_view(
    seed: int = 0, *, model: TorchModel | None = None, permuted: bool = False
) -> ModelView:
    """Return a view of a small network on labelled data, optionally with `permuted` rows."""
    inputs, labels = toy_data(seed)
    order = rng_for(seed, "order").permutation(len(labels)) if permuted else slice(None)
    dataset = as_dataset(inputs[order], labels=labels[order])
    model = model or TorchModel(toy_network(seed), name="toy")
    return ModelView(ViewSource("data", dataset, model, seed=seed))


def check_metric(member: Metric, seed: int = 0) -> None:
    """Raise if a metric violates a rule that all metrics must satisfy.

    Parameters
    ----------
    member : Metric
        Metric to check.
    seed : int
        Random seed of the toy data.

    Raises
    ------
    AssertionError
        If a rule is violated; the message names the first such rule.

    Examples
    --------
    >>> from oodometer.metrics import Error
    >>> check_metric(Error())
    """
    for rule in METRIC_RULES:
        rule(member, seed)


def _is_described(member: Metric, seed: int) -> None:
    assert isinstance(member, Metric), (
        f"{member!r} lacks name, label, needs, assumes, paper or evaluate"
    )
    check_description(member)


def _score_lies_in_interval(member: Metric, seed: int) -> None:
    score = member.evaluate(toy_view(seed))
    assert isinstance(score, Score), f"{member.name} must return a Score"
    if score.low is not None and score.high is not None:
        assert score.low <= score.value <= score.high, (
            f"{member.name}: {score.value} is not in [{score.low}, {score.high}]"
        )


def _is_deterministic(member: Metric, seed: int) -> None:
    view = toy_view(seed)
    first, *others = (member.evaluate(v) for v in (view, view, toy_view(seed)))
    assert all(score == first for score in others), f"{member.name} differs between two calls"


def _depends_on_inputs(member: Metric, seed: int) -> None:
    first, other = (member.evaluate(toy_view(seed + step)).value for step in (0, 50))
    assert first != other, f"{member.name} is {first} for different models and data"


def _ignores_row_order(member: Metric, seed: int) -> None:
    original, permuted = (
        member.evaluate(toy_view(seed, permuted=permuted)).value for permuted in (False, True)
    )
    assert abs(original - permuted) <= ABSOLUTE_TOLERANCE, (
        f"{member.name} depends on the order of rows: {original}, {permuted}"
    )


def _leaves_network_unchanged(member: Metric, seed: int) -> None:
    model = TorchModel(toy_network(seed), name="toy")
    before = network_state(model.module)
    member.evaluate(toy_view(seed, model=model))
    assert before == network_state(model.module), f"{member.name} changes the network"


def _returns_score_or_reason(member: Metric, seed: int) -> None:
    """Check that a single row, and only correct rows, give a score or NotApplicable."""
    view = toy_view(seed)
    for rows in (view.rows(slice(0, 1)), view.rows(view.outputs.correct)):
        try:
            float(member.evaluate(rows).value)
        except NotApplicable as error:
            if not str(error):
                raise AssertionError(
                    f"{member.name} raises NotApplicable without a reason"
                ) from error


METRIC_RULES: tuple[Callable[[Metric, int], None], ...] = (
    _is_described,
    _score_lies_in_interval,
    _is_deterministic,
    _depends_on_inputs,
    _ignores_row_order,
    _leaves_network_unchanged,
    _returns_score_or_reason,
)
