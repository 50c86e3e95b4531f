"""The rules that every metric keeps."""

from __future__ import annotations

from collections.abc import Callable

from oodometer.core.errors import NoAnswer
from oodometer.core.protocols import Metric, Score
from oodometer.core.stats import stream
from oodometer.data import as_dataset
from oodometer.models import TorchModel
from oodometer.models.model_view import NEEDS, Given, View
from oodometer.testing.estimators import is_frozen
from oodometer.testing.measures import network_state, toy_data, toy_network

# Rows in another order are summed in another order.
CLOSE = 1e-6


def toy_view(seed: int = 0, *, model: TorchModel | None = None, mixed: bool = False) -> View:
    """A small network on labelled data; `mixed` puts its rows in another order."""
    inputs, labels = toy_data(seed)
    order = stream(seed, "order").permutation(len(labels)) if mixed else slice(None)
    opened = TorchModel(toy_network(seed), name="toy") if model is None else model
    return View(Given("data", as_dataset(inputs[order], labels=labels[order]), opened, seed=seed))


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


def _gives_a_score_within_its_interval(member: Metric, seed: int) -> None:
    found = member.score(toy_view(seed))
    assert isinstance(found, Score), f"{member.name} must give a Score"
    if found.low is not None and found.high is not None:
        inside = found.low <= found.value <= found.high
        assert inside, f"{member.name}: {found.value} is not in {found.low} … {found.high}"


def _says_the_same_twice(member: Metric, seed: int) -> None:
    view = toy_view(seed)
    found = [member.score(view), member.score(view), member.score(toy_view(seed))]
    assert found[0] == found[1] == found[2], f"{member.name} differs when asked again"


def _hangs_on_what_is_given(member: Metric, seed: int) -> None:
    first, other = (member.score(toy_view(seed + step)).value for step in (0, 50))
    assert first != other, f"{member.name} gives {first} whatever the model and the data"


def _ignores_row_order(member: Metric, seed: int) -> None:
    first, second = (member.score(toy_view(seed, mixed=mixed)).value for mixed in (False, True))
    assert abs(first - second) <= CLOSE, f"{member.name} hangs on the order: {first}, {second}"


def _leaves_the_network_alone(member: Metric, seed: int) -> None:
    model = TorchModel(toy_network(seed), name="toy")
    before = network_state(model.module)
    member.score(toy_view(seed, model=model))
    assert before == network_state(model.module), f"{member.name} changes the network"


def _answers_or_says_why(member: Metric, seed: int) -> None:
    """One row, and rows that are all right, are legal: a score, or NoAnswer with a reason."""
    whole = toy_view(seed)
    right = whole.rows(whole.outputs.correct)
    for view in (whole.rows(slice(0, 1)), right):
        said = ""
        try:
            said = f"{member.score(view).value}"
        except NoAnswer as refusal:
            said = str(refusal)
        assert said, f"{member.name} refuses without a reason"


METRIC_RULES: tuple[Callable[[Metric, int], None], ...] = (
    _is_described,
    _gives_a_score_within_its_interval,
    _says_the_same_twice,
    _hangs_on_what_is_given,
    _ignores_row_order,
    _leaves_the_network_alone,
    _answers_or_says_why,
)
