"""A subject: a model with its source and target data, and what a measure of it is.

A subject computes outputs, features and whatever measures have in common lazily and once, so that
forty measures share the passes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Measure, Need
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView

Made = TypeVar("Made")
# Where most measures come from.
VEDANTAM_2021 = "Vedantam et al., NeurIPS 2021"
# The share of rows that a replicate is measured on. DG §2.
SUBSET_SHARE = 0.8

MeasureOutcomes = dict[str, Score | NotApplicable]


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, its labelled source data, the unlabelled target, and its training data if known.

    The papers' S is the training data where they are given, and else the source.
    """

    source: ModelView
    target: ModelView
    training: ModelView | None = None
    seed: int = 0
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False)

    @property
    def reference(self) -> ModelView:
        """The papers' S: the training data, or the source where they are not given."""
        return self.source if self.training is None else self.training

    @property
    def network(self) -> Network:
        """The torch network of the model; NotApplicable where it can't be looked into."""
        return self.target.network

    @property
    def k(self) -> int:
        """How many classes there are; two where only features are known."""
        return 2 if self.target.missing("outputs") else self.target.outputs.k

    @property
    def features(self) -> tuple[Floats, Floats]:
        """Features of S and of the target: finite, as wide, and not all one and the same."""
        return self.cached("features", self._features)

    def _features(self) -> tuple[Floats, Floats]:
        known, new = self.reference.features, self.target.features
        if known.shape[1] != new.shape[1]:
            raise InputError(
                f"Features of {self.reference.name!r} are {known.shape[1]} wide, those of "
                f"{self.target.name!r} {new.shape[1]}; both must come from one layer. Give features "
                "of equal width."
            )
        for side in (self.reference, self.target):
            odd = np.argwhere(~np.isfinite(side.features))
            if len(odd):
                row, column = (int(place) for place in odd[0])
                raise InputError(
                    f"Features must be finite; row {row} of {side.name!r} has "
                    f"{side.features[row, column]} in column {column}. Leave such rows out."
                )
        if not any((side != known[0]).any() for side in (known, new)):
            raise NotApplicable("no feature varies over both sides: there is nothing to tell apart")
        return known, new

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made at the first asking; a refusal too is kept."""
        if key not in self._memo:
            try:
                self._memo[key] = make()
            except NotApplicable as refusal:
                self._memo[key] = refusal
        found = self._memo[key]
        if isinstance(found, NotApplicable):
            raise NotApplicable(*found.args)
        kept: Made = found
        return kept

    def missing(self, need: Need) -> str | None:
        """Why it can't give what a measure needs; None where it can."""
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
        """The same with one source domain alone; what it computes is kept."""
        return self.cached(("domain", name), lambda: self._of_domain(name))

    def _of_domain(self, name: str) -> Subject:
        training = None if self.training is None else self.training.select_domain(name)
        source = self.source.select_domain(name) if training is None else self.source
        return Subject(source, self.target, training, self.seed)

    def subsample(self, share: float, rng: np.random.Generator) -> Subject:
        """The same on a share of every side's rows, drawn without replacement."""
        if not 0 < share < 1:
            raise InputError(f"share must be between 0 and 1; got {share:g}. 0.8 is usual.")
        sides = [
            None if view is None else view.rows(_random_rows(rng, view.n, share))
            for view in (self.source, self.target, self.training)
        ]
        return Subject(sides[0], sides[1], sides[2], self.seed)  # type: ignore[arg-type]


def _random_rows(rng: np.random.Generator, n: int, share: float) -> Any:
    return np.sort(rng.permutation(n)[: max(round(share * n), 1)])


def _too_few_domains(domains: tuple[str, ...]) -> str | None:
    if len(domains) >= 2:
        return None
    return (
        f"it is a mean over source domains, and there is {len(domains) or 'no word of any'}; give "
        "the source as several datasets by name"
    )


def measure_one(member: Measure, subject: Subject) -> Score:
    """The score of a subject, or NotApplicable with what the measure lacks."""
    for need in member.needs:
        reason = subject.missing(need)
        if reason is not None:
            raise NotApplicable(f"it needs {need}: {reason}")
    found = member.measure(subject)
    try:
        return found if isinstance(found, Score) else Score(float(found))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{member.name} gave {found!r}. A measure gives a Score or a number."
        ) from error


def measure_all(members: Iterable[Measure], subject: Subject) -> MeasureOutcomes:
    """Scores by the names of their measures, or why there is none."""
    found: MeasureOutcomes = {}
    for member in members:
        try:
            found[member.name] = measure_one(member, subject)
        except NotApplicable as refusal:
            found[member.name] = refusal
    return found


def random_subset(subject: Subject, replicate: int) -> Subject:
    """The same on a random share of the rows, another for every number."""
    return subject.subsample(SUBSET_SHARE, rng_for(subject.seed, "subset of rows", replicate))
