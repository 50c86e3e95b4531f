"""Conformance check of measures, and a toy subject (a small torch network with its data)."""

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
from oodometer.core.protocols import Measure, Metric, Need
from oodometer.core.stats import rng_for
from oodometer.measures import build_subject
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import TorchModel
from oodometer.models.model_view import NEEDS, ModelView, ViewSource
from oodometer.testing.estimators import is_frozen

N_ROWS = 60
N_FEATURES = 6
N_HIDDEN = 8
N_CLASSES = 3
# Needs that can be satisfied by arrays, without a model.
ARRAY_NEEDS: frozenset[Need] = frozenset(
    {"outputs", "labels", "features", "training data", "source domains"}
)
# Sums over permuted rows differ by rounding.
RELATIVE_TOLERANCE = 1e-5


def toy_network(seed: int = 0) -> Any:
    """Return an untrained network of three linear layers with batch norm and dropout.

    Its weights are float64, so that rounding does not affect the measures.
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
        with torch.no_grad():  # changes the running statistics of batch norm
            network.train()(torch.randn(200, N_FEATURES, dtype=torch.float64) * 2 + 1)
    return network.eval()


def toy_data(seed: int = 0, shift: float = 0.0, n: int = N_ROWS) -> tuple[Array, Ints]:
    """Return random vectors of three classes, and their labels."""
    rng = rng_for(seed, "toy data", shift)
    labels = rng.integers(N_CLASSES, size=n)
    return rng.normal(size=(n, N_FEATURES)) + labels[:, None] + shift, labels


def toy_subject(
    seed: int = 0, *, model: Any = None, order: Any = None, shift: float = 1.0
) -> Subject:
    """Return a small network with two source domains, training data and a shifted target.

    Parameters
    ----------
    seed : int
        Random seed.
    model : TorchModel, optional
        Model to use instead of the toy network.
    order : callable, optional
        Function that is called with the number of rows of a dataset and returns their order.
    shift : float
        Distance by which the target inputs are shifted.

    Returns
    -------
    Subject
        Subject that can be passed to `Measure.measure`.

    Examples
    --------
    >>> subject = toy_subject()
    >>> subject.reference.domain_names, subject.target.n
    (('one', 'other'), 60)
    """
    from oodometer.data import as_dataset

    def data(number: int, shift: float, n: int = N_ROWS) -> Any:
        inputs, labels = toy_data(seed + number, shift, n)
        rows = np.arange(n) if order is None else order(n)
        return as_dataset(inputs[rows], labels=labels[rows])

    model = model or TorchModel(toy_network(seed), name="toy")
    source = {"one": data(1, 0.0), "other": data(2, 0.5, N_ROWS - 8)}
    training = {"one": data(3, 0.0), "other": data(4, 0.5)}
    return build_subject(model, source, data(5, shift), training=training, seed=seed)


@dataclass(frozen=True, eq=False)
class MeasureTestSubjects:
    """Subjects that the rules compare, each built once and used for all measures."""

    seed: int = 0

    @cached_property
    def baseline(self) -> Subject:
        return toy_subject(self.seed)

    @cached_property
    def rebuilt(self) -> Subject:
        """Return a new subject with the same model and data."""
        return toy_subject(self.seed)

    @cached_property
    def different(self) -> Subject:
        """Return a subject with another model and with other data that have a larger shift."""
        return toy_subject(self.seed + 50, shift=4.0)

    @cached_property
    def permuted(self) -> Subject:
        """Return the subject with the rows of all data in another order."""
        seed = self.seed
        return toy_subject(seed, order=lambda n: rng_for(seed, "order", n).permutation(n))

    @cached_property
    def small_batches(self) -> Subject:
        """Return the subject with a model that classifies seven rows at a time."""
        model = TorchModel(toy_network(self.seed), name="toy", batch_size=7)
        return toy_subject(self.seed, model=model)

    @cached_property
    def relabelled(self) -> Subject:
        """Return the subject with other target labels."""
        subject = toy_subject(self.seed)
        source = subject.target.view_source
        dataset: Any = source.dataset
        relabelled = replace(dataset, labels=(dataset.labels + 1) % N_CLASSES)
        return replace(subject, target=ModelView(replace(source, dataset=relabelled)))

    @cached_property
    def single_arrays(self) -> tuple[Subject, Subject]:
        """Return a subject with features only and one with outputs only."""
        target = self.baseline.target
        features = ModelView(ViewSource("rows", features=target.features, seed=self.seed))
        outputs = ModelView(ViewSource("rows", outputs=target.outputs, seed=self.seed))
        return (
            Subject(features, features, seed=self.seed),
            Subject(outputs, outputs, seed=self.seed),
        )


def check_measure(member: Measure, seed: int = 0) -> None:
    """Raise if a measure violates a rule that all measures must satisfy.

    Parameters
    ----------
    member : Measure
        Measure to check.
    seed : int
        Random seed of the toy subject.

    Raises
    ------
    AssertionError
        If a rule is violated; the message names the first such rule.

    Examples
    --------
    >>> from oodometer.measures import EntropyTarget
    >>> check_measure(EntropyTarget())
    """
    subjects = MeasureTestSubjects(seed)
    for rule in MEASURE_RULES:
        try:
            rule(member, subjects)
        except OodometerError as error:
            raise AssertionError(f"{member.name} fails on a toy subject: {error}") from error


def _is_described(member: Measure, subjects: MeasureTestSubjects) -> None:
    assert isinstance(member, Measure), (
        f"{member!r} lacks name, label, needs, assumes, paper or measure"
    )
    check_description(member)


def check_description(member: Measure | Metric) -> None:
    """Raise if an attribute that describes a measure or a metric is empty or invalid."""
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert " " not in member.name, f"the name {member.name!r} must be one word"
    for attribute in ("label", "assumes", "paper", "needs"):
        assert getattr(member, attribute), f"{member.name} has an empty attribute {attribute!r}"
    unknown = set(member.needs) - set(NEEDS)
    assert not unknown, f"{member.name} has unknown needs {unknown}; known: {', '.join(NEEDS)}"
    assert is_frozen(member), f"{member.name} must be a frozen dataclass"


def _leaves_network_unchanged(member: Measure, subjects: MeasureTestSubjects) -> None:
    model: Any = subjects.baseline.target.view_source.model
    before = network_state(model.module)
    measure_one(member, subjects.baseline)
    after = network_state(model.module)
    assert before == after, f"{member.name} changes the network"


def _is_deterministic(member: Measure, subjects: MeasureTestSubjects) -> None:
    values = {
        measure_one(member, subject).value
        for subject in (subjects.baseline, subjects.baseline, subjects.rebuilt)
    }
    assert len(values) == 1, f"{member.name} differs between two calls: {values}"


def _value_or_reason(member: Measure, subject: Subject) -> float | str:
    try:
        return measure_one(member, subject).value
    except NotApplicable as error:
        return str(error)


def _depends_on_inputs(member: Measure, subjects: MeasureTestSubjects) -> None:
    first = _value_or_reason(member, subjects.baseline)
    other = _value_or_reason(member, subjects.different)
    assert first != other, f"{member.name} is {first} for different models and data"


def _never_reads_target_labels(member: Measure, subjects: MeasureTestSubjects) -> None:
    original = measure_one(member, subjects.baseline).value
    relabelled = measure_one(member, subjects.relabelled).value
    assert original == relabelled, f"{member.name} reads the target labels"


def _ignores_row_order(member: Measure, subjects: MeasureTestSubjects) -> None:
    _assert_close(member, subjects.baseline, subjects.permuted, "the order of rows")


def _ignores_batch_size(member: Measure, subjects: MeasureTestSubjects) -> None:
    _assert_close(member, subjects.baseline, subjects.small_batches, "the batch size")


def network_state(module: Any) -> tuple[Any, ...]:
    """Return the weights, statistics, modes, gradients and hooks that a measure could change."""
    tensors = {
        name: tensor.detach().cpu().numpy().tobytes()
        for name, tensor in module.state_dict().items()
    }
    modes = tuple(layer.training for layer in module.modules())
    hooks = tuple(
        len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in module.modules()
    )
    gradients = tuple(
        (parameter.requires_grad, parameter.grad is None) for parameter in module.parameters()
    )
    return tensors, modes, hooks, gradients


def _needs_only_what_it_declares(member: Measure, subjects: MeasureTestSubjects) -> None:
    """Check that a measure of arrays can be computed from only those arrays that it declares."""
    if not set(member.needs) <= ARRAY_NEEDS:
        return
    baseline = subjects.baseline
    source = ModelView(_declared_arrays(baseline.source, member, with_labels=True))
    target = ModelView(_declared_arrays(baseline.target, member, with_labels=False))
    training = None
    if "training data" in member.needs and baseline.training is not None:
        training = ModelView(_declared_arrays(baseline.training, member, with_labels=True))
    try:
        measure_one(member, Subject(source, target, training, subjects.seed))
    except OodometerError as error:
        raise AssertionError(f"{member.name} needs more than {member.needs}: {error}") from error


def _declared_arrays(view: ModelView, member: Measure, *, with_labels: bool) -> ViewSource:
    needs = set(member.needs)
    outputs = None
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
    """Check that features only, and outputs only, give a score or NotApplicable with a reason."""
    for subject in subjects.single_arrays:
        try:
            float(measure_one(member, subject).value)
        except NotApplicable as error:
            if not str(error):
                raise AssertionError(
                    f"{member.name} raises NotApplicable without a reason"
                ) from error


def _assert_close(member: Measure, subject: Subject, other_subject: Subject, factor: str) -> None:
    first = measure_one(member, subject).value
    second = measure_one(member, other_subject).value
    tolerance = RELATIVE_TOLERANCE * max(abs(first), abs(second), 1.0)
    assert abs(first - second) <= tolerance, f"{member.name} depends on {factor}: {first}, {second}"


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
