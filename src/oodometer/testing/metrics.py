"""The rules that every metric keeps."""

from __future__ import annotations

from collections.abc import Callable

from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Metric
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.data import as_dataset
from oodometer.models import TorchModel
from oodometer.models.model_view import NEEDS, ModelView, ViewSource
from oodometer.testing.estimators import is_frozen
from oodometer.testing.measures import network_state, toy_data, toy_network

# Rows in another order are summed in another order.
ABSOLUTE_TOLERANCE = 1e-6


def toy_view(
    seed: int = 0, *, model: TorchModel | None = None, permuted: bool = False
) -> ModelView:
    """A small network on labelled data; `permuted` puts its rows in another order."""
    inputs, labels = toy_data(seed)
    order = rng_for(seed, "order").permutation(len(labels)) if permuted else slice(None)
    opened = TorchModel(toy_network(seed), name="toy") if model is None else model
    return ModelView(
        ViewSource("data", as_dataset(inputs[order], labels=labels[order]), opened, seed=seed)
    )


def check_metric(member: Metric, seed: int = 0) -> None:
    """Raise AssertionError, with a sentence, on the first rule that a metric breaks."""
    for rule in METRIC_RULES:
        rule(member, seed)


def _is_described(member: Metric, seed: int) -> None:
    assert isinstance(member, Metric), f"{member!r} lacks name, label, needs, assumes or score"
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert " " not in member.name, f"the name {member.name!r} must be one word"
    for what in ("label", "assumes", "paper", "needs"):
        assert getattr(member, what), f"{member.name} lacks {what}"
    unknown = set(member.needs) - set(NEEDS)
    assert not unknown, f"{member.name} needs {unknown}, which nothing can give"
    assert is_frozen(member), f"{member.name} must be a frozen dataclass"


def _score_lies_in_interval(member: Metric, seed: int) -> None:
    found = member.evaluate(toy_view(seed))
    assert isinstance(found, Score), f"{member.name} must give a Score"
    if found.low is not None and found.high is not None:
        inside = found.low <= found.value <= found.high
        assert inside, f"{member.name}: {found.value} is not in {found.low} … {found.high}"


def _is_deterministic(member: Metric, seed: int) -> None:
    view = toy_view(seed)
    found = [member.evaluate(view), member.evaluate(view), member.evaluate(toy_view(seed))]
    assert found[0] == found[1] == found[2], f"{member.name} differs when asked again"


def _depends_on_inputs(member: Metric, seed: int) -> None:
    first, other = (member.evaluate(toy_view(seed + step)).value for step in (0, 50))
    assert first != other, f"{member.name} gives {first} whatever the model and the data"


def _ignores_row_order(member: Metric, seed: int) -> None:
    first, second = (
        member.evaluate(toy_view(seed, permuted=mixed)).value for mixed in (False, True)
    )
    assert abs(first - second) <= ABSOLUTE_TOLERANCE, (
        f"{member.name} hangs on the order: {first}, {second}"
    )


def _leaves_network_unchanged(member: Metric, seed: int) -> None:
    model = TorchModel(toy_network(seed), name="toy")
    before = network_state(model.module)
    member.evaluate(toy_view(seed, model=model))
    assert before == network_state(model.module), f"{member.name} changes the network"


def _returns_score_or_reason(member: Metric, seed: int) -> None:
    """One row, and rows that are all right, are legal: a score, or NotApplicable with a reason."""
    whole = toy_view(seed)
    right = whole.rows(whole.outputs.correct)
    for view in (whole.rows(slice(0, 1)), right):
        said = ""
        try:
            said = f"{member.evaluate(view).value}"
        except NotApplicable as refusal:
            said = str(refusal)
        assert said, f"{member.name} refuses without a reason"


METRIC_RULES: tuple[Callable[[Metric, int], None], ...] = (
    _is_described,
    _score_lies_in_interval,
    _is_deterministic,
    _depends_on_inputs,
    _ignores_row_order,
    _leaves_network_unchanged,
    _returns_score_or_reason,
)
