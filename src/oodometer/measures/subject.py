"""Subject: a model with its source, target and training data, which is the input of a measure.

A subject computes outputs, features and other intermediate results when they are first needed, and
stores them, so that all measures use the same forward passes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, out_of_range
from oodometer.core.protocols import Measure, Need
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView

Value = TypeVar("Value")
# The paper that most measures come from.
VEDANTAM_2021 = "Vedantam et al., NeurIPS 2021"
# Share of the rows in each random subset (Vedantam et al., 2021, §2).
SUBSET_SHARE = 0.8

MeasureOutcomes = dict[str, Score | NotApplicable]


@dataclass(frozen=True, eq=False)
class Subject:
    """Model with labelled source data, unlabelled target data and, if known, its training data.

    `reference` is the dataset that the target is compared with: the training data if they were
    given, otherwise the source. The papers call it S.
    """

    source: ModelView
    target: ModelView
    training: ModelView | None = None
    seed: int = 0
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False)

    @property
    def reference(self) -> ModelView:
        return self.source if self.training is None else self.training

    @property
    def network(self) -> Network:
        """Return the torch network of the model, or raise NotApplicable."""
        return self.target.network

    @property
    def k(self) -> int:
        """Return the number of classes, or 2 if there are features but no outputs."""
        return 2 if self.target.missing("outputs") else self.target.outputs.k

    @property
    def features(self) -> tuple[Floats, Floats]:
        """Return the features of the reference and of the target, after validating them.

        All features must be finite, the number of features per row must be equal, and the rows must
        not all be the same.
        """
        return self.cached("features", self._validated_features)

    def _validated_features(self) -> tuple[Floats, Floats]:
        reference = self.reference.features
        target = self.target.features
        if reference.shape[1] != target.shape[1]:
            raise InputError(
                f"{self.reference.name!r} has {reference.shape[1]} features per row and "
                f"{self.target.name!r} has {target.shape[1]}. Pass features of one layer for both."
            )
        for view in (self.reference, self.target):
            invalid = np.argwhere(~np.isfinite(view.features))
            if len(invalid):
                row, column = (int(position) for position in invalid[0])
                raise InputError(
                    f"Features must be finite; row {row} of {view.name!r} has "
                    f"{view.features[row, column]} in column {column}. Remove such rows."
                )
        if not any((features != reference[0]).any() for features in (reference, target)):
            raise NotApplicable("all features are constant over source and target")
        return reference, target

    def cached(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the result of `compute`, which is called only once per key.

        If `compute` raised NotApplicable, later calls with the same key raise it again.
        """
        if key not in self._memo:
            try:
                self._memo[key] = compute()
            except NotApplicable as error:
                self._memo[key] = error
        value = self._memo[key]
        if isinstance(value, NotApplicable):
            raise NotApplicable(*value.args)
        cached: Value = value
        return cached

    def missing(self, need: Need) -> str | None:
        """Return the reason why a need of a measure is not met, or None if it is met."""
        if need == "training data":
            return None if self.training is not None else "no training data were given"
        if need == "labels":
            return self.source.missing(need)
        if need == "source domains":
            return _too_few_domains(self.reference.domain_names)
        if need in ("gradients", "weights"):
            return self.target.missing(need)
        return self.reference.missing(need) or self.target.missing(need)

    def select_domain(self, name: str) -> Subject:
        """Return the subject with one source domain; later calls return the same object."""
        return self.cached(("domain", name), lambda: self._with_domain(name))

    def _with_domain(self, name: str) -> Subject:
        training = None if self.training is None else self.training.select_domain(name)
        source = self.source.select_domain(name) if training is None else self.source
        return Subject(source, self.target, training, self.seed)

    def subsample(self, share: float, rng: np.random.Generator) -> Subject:
        """Return the subject with a random share of the source, target and training rows each."""
        if not 0 < share < 1:
            raise out_of_range("share", share, above=0, below=1)
        source = _subsample_view(self.source, share, rng)
        target = _subsample_view(self.target, share, rng)
        training = None if self.training is None else _subsample_view(self.training, share, rng)
        return Subject(source, target, training, self.seed)


def _subsample_view(view: ModelView, share: float, rng: np.random.Generator) -> ModelView:
    index: Ints = np.sort(rng.permutation(view.n)[: max(round(share * view.n), 1)])
    return view.rows(index)


def _too_few_domains(domains: tuple[str, ...]) -> str | None:
    if len(domains) >= 2:
        return None
    count = "only one is" if domains else "none are"
    return (
        f"it is a mean over source domains, and {count} known; pass the source as a mapping from "
        "domain names to datasets"
    )


def measure_one(member: Measure, subject: Subject) -> Score:
    """Return the score of one measure, or raise NotApplicable if one of its needs is not met."""
    for need in member.needs:
        reason = subject.missing(need)
        if reason is not None:
            raise NotApplicable(f"it needs {need}: {reason}")
    result = member.measure(subject)
    try:
        return result if isinstance(result, Score) else Score(float(result))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{member.name} returned {result!r}. A measure must return a Score or a number."
        ) from error


def measure_all(members: Iterable[Measure], subject: Subject) -> MeasureOutcomes:
    """Return the score of each measure by name, or the NotApplicable that it raised."""
    outcomes: MeasureOutcomes = {}
    for member in members:
        try:
            outcomes[member.name] = measure_one(member, subject)
        except NotApplicable as error:
            outcomes[member.name] = error
    return outcomes


def random_subset(subject: Subject, replicate: int) -> Subject:
    """Return the subject with a random subset of the rows that is determined by `replicate`."""
    return subject.subsample(SUBSET_SHARE, rng_for(subject.seed, "subset of rows", replicate))
