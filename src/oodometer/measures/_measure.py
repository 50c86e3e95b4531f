"""measure(): every measure that applies to a model, its source and its target.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021. Measures share passes, features and gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Measure, ProgressCallback
from oodometer.core.results import Score
from oodometer.measures.distributed import group_by_shared_work
from oodometer.measures.registry import resolve_measures
from oodometer.measures.subject import MeasureOutcomes, Subject, measure_all, random_subset
from oodometer.models import as_model
from oodometer.models.model_view import ViewFactory, align_classes

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

__all__ = ["Measurements", "SubsetNoise", "build_subject", "measure"]


@dataclass(frozen=True)
class SubsetNoise:
    """Mean and standard deviation of a measure over random subsets of the rows."""

    mean: float
    sd: float
    subsamples: int

    @property
    def signal_to_noise(self) -> float | None:
        """Signal to noise, mean / sd; None where no replicate differs from another."""
        return abs(self.mean) / self.sd if self.sd > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "mean": self.mean,
            "sd": self.sd,
            "snr": self.signal_to_noise,
            "subsamples": self.subsamples,
        }


@dataclass(frozen=True)
class Measurements(Mapping[str, Score]):
    """Scores by the names of their measures; why others have none; what was looked at."""

    model: str | None
    source: str
    target: str
    n_source: int
    n_target: int
    n_training: int | None
    scores: Mapping[str, Score]
    skipped: Mapping[str, str]
    noise: Mapping[str, SubsetNoise]
    seed: int

    def __getitem__(self, name: str) -> Score:
        """The score of one measure, by its name."""
        if name in self.skipped:
            raise NotApplicable(f"{name} is not applicable: {self.skipped[name]}")
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        wide = max((len(name) for name in (*self.scores, *self.skipped)), default=0)
        lines = [
            "  ".join([f"{name:<{wide}}  {one.value:>12.6g}", *one.notes])
            for name, one in self.scores.items()
        ]
        lines += [f"{name:<{wide}}  not applicable: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {
            "model": self.model,
            "source": self.source,
            "target": self.target,
            "n_source": self.n_source,
            "n_target": self.n_target,
            "n_training": self.n_training,
            "seed": self.seed,
            "measures": [
                {"measure": name, **one.to_dict(), "noise": self._noise_dict(name)}
                for name, one in self.scores.items()
            ],
            "skipped": [{"measure": name, "reason": why} for name, why in self.skipped.items()],
        }

    def _noise_dict(self, name: str) -> dict[str, Any] | None:
        return self.noise[name].to_dict() if name in self.noise else None


def measure(
    model: Any,
    source: Any,
    target: Any,
    *,
    measures: str | Measure | Sequence[str | Measure] | None = None,
    training_data: Any = None,
    features: tuple[Any, Any] | None = None,
    layer: str | None = None,
    subsamples: int = 0,
    seed: int = 0,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
) -> Measurements:
    """Scores that may tell of the error on the target, of a model, its source and its target.

    `measures` is one measure, several, or None for all. One that was asked for alone and does not
    apply raises NotApplicable; of several, those are skipped, and `skipped` says why.

    `model` is anything that `as_model` opens, `source` (labelled, not trained on) and `target`
    anything that `as_dataset` opens; the target's labels are not looked at. A mapping from names
    to datasets gives the domains of a source. Features are taken at `layer`, or what goes into the
    last linear layer; or they are given, those of the source and of the target. Without a model
    (None), source and target are features (n, d) or Predictions, and torch is not needed.

    `training_data` is what the model was trained on: the papers' S; without it the source stands in.
    With `subsamples`, each measure is measured again on so many random 80 % of the rows: mean,
    standard deviation and their ratio are its `noise`. With a `runner` its workers look at the rows
    and take the measures, with one thread each.

    >>> import numpy as np
    >>> near, far = np.random.default_rng(0).normal(size=(2, 400, 3)), 9.0
    >>> found = measure(None, near[0], near[1] + far, measures="h-divergence")
    >>> found["h-divergence"].value
    1.0
    """
    members = resolve_measures(measures)
    if not isinstance(subsamples, int | np.integer) or subsamples < 0 or subsamples == 1:
        raise InputError(f"subsamples must be 0, or 2 or more; got {subsamples!r}. 20 is usual.")
    subject = build_subject(
        model, source, target, training=training_data, features=features, layer=layer, seed=seed,
        progress=progress,
    )  # fmt: skip
    if runner is not None:
        subject = _with_outputs(runner, members, subject, progress)
    found, refused = _measure_members(members, subject, runner, progress)
    if isinstance(measures, str | Measure) and refused:
        raise NotApplicable(
            "; ".join(f"{name} is not applicable: {why}" for name, why in refused.items())
        )
    able = [one for one in members if one.name in found]
    noise = _noise_by_measure(_measure_subsets(able, subject, subsamples, runner, progress), able)
    return Measurements(
        model=None
        if subject.target.view_source.model is None
        else subject.target.view_source.model.name,
        source=subject.source.name,
        target=subject.target.name,
        n_source=subject.source.n,
        n_target=subject.target.n,
        n_training=None if subject.training is None else subject.training.n,
        scores=found,
        skipped=refused,
        noise=noise,
        seed=seed,
    )


def build_subject(
    model: Any,
    source: Any,
    target: Any,
    *,
    training: Any = None,
    features: tuple[Any, Any] | None = None,
    layer: str | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Subject:
    """A model with its source and target data, opened and not yet looked at."""
    looking = ViewFactory(None if model is None else as_model(model), layer, seed, progress)
    if features is not None and (len(features) != 2 or any(part is None for part in features)):
        count = sum(part is not None for part in features)
        raise InputError(f"features are those of the source and of the target; got {count}.")
    if features is not None and training is not None:
        raise InputError(
            "features= can't go with training_data=: those of the training data are not known."
        )
    known, new = features if features is not None else (None, None)
    first = looking.view(source, "source", features=known)
    return Subject(
        first,
        align_classes(
            looking.view(target, "target", labelled=False, features=new), first, "target"
        ),
        None
        if training is None
        else align_classes(looking.view(training, "training data"), first, "training data"),
        seed,
    )


def _with_outputs(
    runner: Runner, members: Sequence[Measure], subject: Subject, progress: ProgressCallback | None
) -> Subject:
    """The same; if a measure reads them, outputs and features of all rows are known."""
    from oodometer.measures.distributed import precompute_outputs

    read = any({"outputs", "features"} & set(member.needs) for member in members)
    return precompute_outputs(runner, subject, progress) if read else subject


def _measure_members(
    members: Sequence[Measure],
    subject: Subject,
    runner: Runner | None,
    progress: ProgressCallback | None,
) -> tuple[dict[str, Score], dict[str, str]]:
    """Scores, and reasons of those that have none."""
    if runner is None:
        whole = _measure_serially(members, subject, progress)
    else:
        from oodometer.measures.distributed import MeasureRequest, run_requests

        wanted = [
            MeasureRequest(tuple(one.name for one in some))
            for some in group_by_shared_work(members)
        ]
        parts = run_requests(runner, members, subject, wanted, progress)
        whole = {name: one for part in parts for name, one in part.items()}
    ranked = [(member.name, whole[member.name]) for member in members]
    found = {name: one for name, one in ranked if isinstance(one, Score)}
    return found, {name: str(one) for name, one in ranked if isinstance(one, NotApplicable)}


def _measure_serially(
    members: Sequence[Measure], subject: Subject, progress: ProgressCallback | None
) -> MeasureOutcomes:
    found: MeasureOutcomes = {}
    for done, member in enumerate(members):
        if progress:
            progress(done, len(members), f"measuring {member.name}")
        found.update(measure_all([member], subject))
    if progress:
        progress(len(members), len(members), "measured")
    return found


def _measure_subsets(
    members: Sequence[Measure],
    subject: Subject,
    subsamples: int,
    runner: Runner | None,
    progress: ProgressCallback | None,
) -> list[MeasureOutcomes]:
    """What measures say of random subsets of the rows."""
    if not members:
        return []
    if runner is not None:
        from oodometer.measures.distributed import MeasureRequest, run_requests

        names = tuple(member.name for member in members)
        wanted = [MeasureRequest(names, number) for number in range(subsamples)]
        return run_requests(runner, members, subject, wanted, progress)
    found = []
    for number in range(subsamples):
        found.append(measure_all(members, random_subset(subject, number)))
        if progress:
            progress(number + 1, subsamples, f"subset {number + 1} of {subsamples}")
    return found


def _noise_by_measure(
    subsets: Sequence[MeasureOutcomes], members: Sequence[Measure]
) -> dict[str, SubsetNoise]:
    """How much measures vary over subsets; one that fails on a subset has no noise to show."""
    found = {}
    for member in members:
        scores = [some[member.name] for some in subsets]
        values = [one.value for one in scores if isinstance(one, Score)]
        if values and len(values) == len(scores):
            found[member.name] = _subset_noise(np.array(values))
    return found


def _subset_noise(values: Floats) -> SubsetNoise:
    """Values that are all alike have no deviation, whatever rounding makes of their mean."""
    spread = float(values.std(ddof=1)) if np.ptp(values) > 0 else 0.0
    return SubsetNoise(float(values.mean()), spread, len(values))
