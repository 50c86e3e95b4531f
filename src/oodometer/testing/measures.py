"""The rules that every measure keeps, and a toy subject: a small torch network and its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.core.errors import NoAnswer, OodometerError
from oodometer.core.optional_imports import require
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Measure, Need
from oodometer.core.softmax_kernels import Array, Ints
from oodometer.core.stats import stream
from oodometer.measures import subject_of
from oodometer.measures.subject import Subject, scored
from oodometer.models import TorchModel
from oodometer.models.model_view import NEEDS, Given, View
from oodometer.testing.estimators import is_frozen

ROWS, WIDTH, HIDDEN, CLASSES = 60, 6, 8, 3
# What can be had of arrays, without a model.
ARRAYS: frozenset[Need] = frozenset(
    {"outputs", "labels", "features", "training data", "source domains"}
)
# Rows in another order are summed in another order.
CLOSE = 1e-5


def toy_network(seed: int = 0) -> Any:
    """A network of three layers with a batch norm and a dropout, which has not been trained.

    Its weights have 64 bits, so that rounding does not decide what a measure gives.
    """
    torch = require("torch", extra="torch", purpose="A toy network")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, HIDDEN),
            torch.nn.BatchNorm1d(HIDDEN),
            torch.nn.ReLU(inplace=True),
            torch.nn.Dropout(0.5),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, CLASSES),
        ).double()
        with torch.no_grad():  # running statistics that are not those of a fresh layer
            network.train()(torch.randn(200, WIDTH, dtype=torch.float64) * 2 + 1)
    return network.eval()


def toy_data(seed: int = 0, shift: float = 0.0, n: int = ROWS) -> tuple[Array, Ints]:
    """Vectors in three classes, and their labels."""
    rng = stream(seed, "toy data", shift)
    labels = rng.integers(CLASSES, size=n)
    return rng.normal(size=(n, WIDTH)) + labels[:, None] + shift, labels


def toy_subject(
    seed: int = 0, *, model: Any = None, order: Any = None, shift: float = 1.0
) -> Subject:
    """A network with two source domains, their training data, and a target shifted from them.

    `order` puts the rows of every dataset in another order.
    """
    from oodometer.data import as_dataset

    def data(number: int, shift: float, n: int = ROWS) -> Any:
        inputs, labels = toy_data(seed + number, shift, n)
        rows = np.arange(n) if order is None else order(n)
        return as_dataset(inputs[rows], labels=labels[rows])

    opened = TorchModel(toy_network(seed), name="toy") if model is None else model
    source = {"one": data(1, 0.0), "other": data(2, 0.5, ROWS - 8)}
    training = {"one": data(3, 0.0), "other": data(4, 0.5)}
    return subject_of(opened, source, data(5, shift), training=training, seed=seed)


@dataclass(frozen=True, eq=False)
class Bench:
    """Subjects that rules compare, each made once: measures that share work share it here too."""

    seed: int = 0

    @cached_property
    def plain(self) -> Subject:
        """As it is."""
        return toy_subject(self.seed)

    @cached_property
    def again(self) -> Subject:
        """The same, made anew."""
        return toy_subject(self.seed)

    @cached_property
    def other(self) -> Subject:
        """Another model on other data, farther off."""
        return toy_subject(self.seed + 50, shift=4.0)

    @cached_property
    def mixed(self) -> Subject:
        """The rows in another order."""
        seed = self.seed
        return toy_subject(seed, order=lambda n: stream(seed, "order", n).permutation(n))

    @cached_property
    def small(self) -> Subject:
        """The model shown seven rows at a time."""
        model = TorchModel(toy_network(self.seed), name="toy", batch=7)
        return toy_subject(self.seed, model=model)

    @cached_property
    def planted(self) -> Subject:
        """The target's labels changed."""
        made = toy_subject(self.seed)
        dataset: Any = made.target.given.dataset
        wrong = replace(dataset, labels=(dataset.labels + 1) % CLASSES)
        return replace(made, target=View(replace(made.target.given, dataset=wrong)))

    @cached_property
    def alone(self) -> tuple[Subject, Subject]:
        """Features and nothing else; outputs and nothing else."""
        target = self.plain.target
        bare = (
            Given("rows", features=target.features, seed=self.seed),
            Given("rows", outputs=target.outputs, seed=self.seed),
        )
        first, second = (Subject(View(one), View(one), seed=self.seed) for one in bare)
        return first, second


def check_measure(member: Measure, seed: int = 0) -> None:
    """Raise AssertionError, with a sentence, on the first rule that a measure breaks."""
    bench = Bench(seed)
    for rule in MEASURE_RULES:
        try:
            rule(member, bench)
        except OodometerError as refusal:
            raise AssertionError(f"{member.name} has no answer for a toy: {refusal}") from refusal


def _is_described(member: Measure, bench: Bench) -> None:
    assert isinstance(member, Measure), f"{member!r} lacks name, label, needs, assumes or measure"
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert " " not in member.name, f"the name {member.name!r} must be one word"
    assert member.label, f"{member.name} must have a label"
    assert member.assumes, f"{member.name} must say what it assumes"
    assert member.paper, f"{member.name} must say where it comes from"
    assert member.needs, f"{member.name} must say what it needs"
    unknown = set(member.needs) - set(NEEDS)
    assert not unknown, f"{member.name} needs {unknown}, which nothing can give"
    assert is_frozen(member), f"{member.name} must be a frozen dataclass"


def _leaves_the_network_alone(member: Measure, bench: Bench) -> None:
    model: Any = bench.plain.target.given.model
    before = network_state(model.module)
    scored(member, bench.plain)
    after = network_state(model.module)
    assert before == after, f"{member.name} changes the network it looks into"


def _says_the_same_twice(member: Measure, bench: Bench) -> None:
    values = {scored(member, one).value for one in (bench.plain, bench.plain, bench.again)}
    assert len(values) == 1, f"{member.name} differs when asked again: {values}"


def _answer(member: Measure, subject: Subject) -> float | str:
    """The value, or the reason why there is none."""
    try:
        return scored(member, subject).value
    except NoAnswer as reason:
        return str(reason)


def _hangs_on_what_is_given(member: Measure, bench: Bench) -> None:
    first, other = (_answer(member, one) for one in (bench.plain, bench.other))
    assert first != other, f"{member.name} gives {first} whatever the model and the data"


def _never_reads_target_labels(member: Measure, bench: Bench) -> None:
    first, planted = (scored(member, one).value for one in (bench.plain, bench.planted))
    assert first == planted, f"{member.name} reads the target's labels"


def _ignores_row_order(member: Measure, bench: Bench) -> None:
    _alike(member, bench.plain, bench.mixed, "the order of rows")


def _ignores_the_batch(member: Measure, bench: Bench) -> None:
    _alike(member, bench.plain, bench.small, "the size of the batch")


def network_state(module: Any) -> tuple[Any, ...]:
    """All that a measure could change: weights, statistics, modes, gradients and hooks."""
    tensors = {
        name: part.detach().cpu().numpy().tobytes() for name, part in module.state_dict().items()
    }
    modes = tuple(part.training for part in module.modules())
    hooks = tuple(
        len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()
    )
    grads = tuple((part.requires_grad, part.grad is None) for part in module.parameters())
    return tensors, modes, hooks, grads


def _needs_no_more_than_it_says(member: Measure, bench: Bench) -> None:
    """What needs arrays alone is given arrays alone, and only those that it names."""
    if not set(member.needs) <= ARRAYS:
        return
    whole = bench.plain
    known = View(_arrays(whole.source, member, labelled=True))
    new = View(_arrays(whole.target, member, labelled=False))
    training = None
    if "training data" in member.needs and whole.training is not None:
        training = View(_arrays(whole.training, member, labelled=True))
    try:
        scored(member, Subject(known, new, training, bench.seed))
    except OodometerError as refusal:
        raise AssertionError(
            f"{member.name} needs more than {member.needs}: {refusal}"
        ) from refusal


def _arrays(view: View, member: Measure, *, labelled: bool) -> Given:
    needs, outputs = set(member.needs), None
    if needs & {"outputs", "labels"}:
        labels = view.labels if labelled and "labels" in needs else None
        outputs = Predictions.from_logits(np.asarray(view.outputs.scores), labels=labels)
    return Given(
        view.name,
        outputs=outputs,
        features=view.features if "features" in needs else None,
        domains=view.given.domains if "source domains" in needs else None,
        seed=view.given.seed,
    )


def _refuses_what_it_can_not_measure(member: Measure, bench: Bench) -> None:
    """Given nothing but one kind of array, it gives a score or says why it can't."""
    for subject in bench.alone:
        said = ""
        try:
            said = f"{scored(member, subject).value}"
        except NoAnswer as refusal:
            said = str(refusal)
        assert said, f"{member.name} refuses without a reason"


def _alike(member: Measure, one: Subject, other: Subject, what: str) -> None:
    first, second = scored(member, one).value, scored(member, other).value
    limit = CLOSE * max(abs(first), abs(second), 1.0)
    assert abs(first - second) <= limit, f"{member.name} hangs on {what}: {first}, {second}"


MEASURE_RULES: tuple[Callable[[Measure, Bench], None], ...] = (
    _is_described,
    _leaves_the_network_alone,
    _says_the_same_twice,
    _hangs_on_what_is_given,
    _never_reads_target_labels,
    _ignores_row_order,
    _ignores_the_batch,
    _needs_no_more_than_it_says,
    _refuses_what_it_can_not_measure,
)
