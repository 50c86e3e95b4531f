"""The rules that every measure keeps, and a toy subject: a small torch network and its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import NotApplicable, OodometerError
from oodometer.core.optional_imports import require
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Measure, Need
from oodometer.core.stats import rng_for
from oodometer.measures import build_subject
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import TorchModel
from oodometer.models.model_view import NEEDS, ModelView, ViewSource
from oodometer.testing.estimators import is_frozen

N_ROWS, N_FEATURES, N_HIDDEN, N_CLASSES = 60, 6, 8, 3
# What can be had of arrays, without a model.
ARRAY_NEEDS: frozenset[Need] = frozenset(
    {"outputs", "labels", "features", "training data", "source domains"}
)
# Rows in another order are summed in another order.
RELATIVE_TOLERANCE = 1e-5


def toy_network(seed: int = 0) -> Any:
    """A network of three layers with a batch norm and a dropout, which has not been trained.

    Its weights have 64 bits, so that rounding does not decide what a measure gives.
    """
    torch = require("torch", extra="torch", purpose="A toy network")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = torch.nn.Sequential(
            torch.nn.Linear(N_FEATURES, N_HIDDEN),
            torch.nn.BatchNorm1d(N_HIDDEN),
            torch.nn.ReLU(inplace=True),
            torch.nn.Dropout(0.5),
            torch.nn.Linear(N_HIDDEN, N_HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(N_HIDDEN, N_CLASSES),
        ).double()
        with torch.no_grad():  # running statistics that are not those of a fresh layer
            network.train()(torch.randn(200, N_FEATURES, dtype=torch.float64) * 2 + 1)
    return network.eval()


def toy_data(seed: int = 0, shift: float = 0.0, n: int = N_ROWS) -> tuple[Array, Ints]:
    """Vectors in three classes, and their labels."""
    rng = rng_for(seed, "toy data", shift)
    labels = rng.integers(N_CLASSES, size=n)
    return rng.normal(size=(n, N_FEATURES)) + labels[:, None] + shift, labels


def toy_subject(
    seed: int = 0, *, model: Any = None, order: Any = None, shift: float = 1.0
) -> Subject:
    """A network with two source domains, their training data, and a target shifted from them.

    `order` puts the rows of every dataset in another order.
    """
    from oodometer.data import as_dataset

    def data(number: int, shift: float, n: int = N_ROWS) -> Any:
        inputs, labels = toy_data(seed + number, shift, n)
        rows = np.arange(n) if order is None else order(n)
        return as_dataset(inputs[rows], labels=labels[rows])

    opened = TorchModel(toy_network(seed), name="toy") if model is None else model
    source = {"one": data(1, 0.0), "other": data(2, 0.5, N_ROWS - 8)}
    training = {"one": data(3, 0.0), "other": data(4, 0.5)}
    return build_subject(opened, source, data(5, shift), training=training, seed=seed)


@dataclass(frozen=True, eq=False)
class MeasureTestSubjects:
    """Subjects that rules compare, each made once: measures that share work share it here too."""

    seed: int = 0

    @cached_property
    def baseline(self) -> Subject:
        """As it is."""
        return toy_subject(self.seed)

    @cached_property
    def rebuilt(self) -> Subject:
        """The same, made anew."""
        return toy_subject(self.seed)

    @cached_property
    def different(self) -> Subject:
        """Another model on other data, farther off."""
        return toy_subject(self.seed + 50, shift=4.0)

    @cached_property
    def permuted(self) -> Subject:
        """The rows in another order."""
        seed = self.seed
        return toy_subject(seed, order=lambda n: rng_for(seed, "order", n).permutation(n))

    @cached_property
    def small_batches(self) -> Subject:
        """The model shown seven rows at a time."""
        model = TorchModel(toy_network(self.seed), name="toy", batch_size=7)
        return toy_subject(self.seed, model=model)

    @cached_property
    def relabelled(self) -> Subject:
        """The target's labels changed."""
        made = toy_subject(self.seed)
        dataset: Any = made.target.view_source.dataset
        wrong = replace(dataset, labels=(dataset.labels + 1) % N_CLASSES)
        return replace(made, target=ModelView(replace(made.target.view_source, dataset=wrong)))

    @cached_property
    def single_arrays(self) -> tuple[Subject, Subject]:
        """Features and nothing else; outputs and nothing else."""
        target = self.baseline.target
        bare = (
            ViewSource("rows", features=target.features, seed=self.seed),
            ViewSource("rows", outputs=target.outputs, seed=self.seed),
        )
        first, second = (Subject(ModelView(one), ModelView(one), seed=self.seed) for one in bare)
        return first, second


def check_measure(member: Measure, seed: int = 0) -> None:
    """Raise AssertionError, with a sentence, on the first rule that a measure breaks."""
    bench = MeasureTestSubjects(seed)
    for rule in MEASURE_RULES:
        try:
            rule(member, bench)
        except OodometerError as refusal:
            raise AssertionError(f"{member.name} has no answer for a toy: {refusal}") from refusal


def _is_described(member: Measure, subjects: MeasureTestSubjects) -> None:
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


def _leaves_network_unchanged(member: Measure, subjects: MeasureTestSubjects) -> None:
    model: Any = subjects.baseline.target.view_source.model
    before = network_state(model.module)
    measure_one(member, subjects.baseline)
    after = network_state(model.module)
    assert before == after, f"{member.name} changes the network it looks into"


def _is_deterministic(member: Measure, subjects: MeasureTestSubjects) -> None:
    values = {
        measure_one(member, one).value
        for one in (subjects.baseline, subjects.baseline, subjects.rebuilt)
    }
    assert len(values) == 1, f"{member.name} differs when asked again: {values}"


def _value_or_reason(member: Measure, subject: Subject) -> float | str:
    """The value, or the reason why there is none."""
    try:
        return measure_one(member, subject).value
    except NotApplicable as reason:
        return str(reason)


def _depends_on_inputs(member: Measure, subjects: MeasureTestSubjects) -> None:
    first, other = (
        _value_or_reason(member, one) for one in (subjects.baseline, subjects.different)
    )
    assert first != other, f"{member.name} gives {first} whatever the model and the data"


def _never_reads_target_labels(member: Measure, subjects: MeasureTestSubjects) -> None:
    first, planted = (
        measure_one(member, one).value for one in (subjects.baseline, subjects.relabelled)
    )
    assert first == planted, f"{member.name} reads the target's labels"


def _ignores_row_order(member: Measure, subjects: MeasureTestSubjects) -> None:
    _assert_close(member, subjects.baseline, subjects.permuted, "the order of rows")


def _ignores_batch_size(member: Measure, subjects: MeasureTestSubjects) -> None:
    _assert_close(member, subjects.baseline, subjects.small_batches, "the size of the batch")


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


def _needs_only_what_it_declares(member: Measure, subjects: MeasureTestSubjects) -> None:
    """What needs arrays alone is given arrays alone, and only those that it names."""
    if not set(member.needs) <= ARRAY_NEEDS:
        return
    whole = subjects.baseline
    known = ModelView(_declared_arrays(whole.source, member, with_labels=True))
    new = ModelView(_declared_arrays(whole.target, member, with_labels=False))
    training = None
    if "training data" in member.needs and whole.training is not None:
        training = ModelView(_declared_arrays(whole.training, member, with_labels=True))
    try:
        measure_one(member, Subject(known, new, training, subjects.seed))
    except OodometerError as refusal:
        raise AssertionError(
            f"{member.name} needs more than {member.needs}: {refusal}"
        ) from refusal


def _declared_arrays(view: ModelView, member: Measure, *, with_labels: bool) -> ViewSource:
    needs, outputs = set(member.needs), None
    if needs & {"outputs", "labels"}:
        labels = view.labels if with_labels and "labels" in needs else None
        outputs = Predictions.from_logits(np.asarray(view.outputs.scores), labels=labels)
    return ViewSource(
        view.name,
        outputs=outputs,
        features=view.features if "features" in needs else None,
        domains=view.view_source.domains if "source domains" in needs else None,
        seed=view.view_source.seed,
    )


def _returns_score_or_reason(member: Measure, subjects: MeasureTestSubjects) -> None:
    """Given nothing but one kind of array, it gives a score or says why it can't."""
    for subject in subjects.single_arrays:
        said = ""
        try:
            said = f"{measure_one(member, subject).value}"
        except NotApplicable as refusal:
            said = str(refusal)
        assert said, f"{member.name} refuses without a reason"


def _assert_close(member: Measure, subject: Subject, other_subject: Subject, factor: str) -> None:
    first, second = measure_one(member, subject).value, measure_one(member, other_subject).value
    limit = RELATIVE_TOLERANCE * max(abs(first), abs(second), 1.0)
    assert abs(first - second) <= limit, f"{member.name} hangs on {factor}: {first}, {second}"


MEASURE_RULES: tuple[Callable[[Measure, MeasureTestSubjects], None], ...] = (
    _is_described,
    _leaves_network_unchanged,
    _is_deterministic,
    _depends_on_inputs,
    _never_reads_target_labels,
    _ignores_row_order,
    _ignores_batch_size,
    _needs_only_what_it_declares,
    _returns_score_or_reason,
)
