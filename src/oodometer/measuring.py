"""measure(): every measure that applies to a model, its source and its target.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021. Measures share passes, features and gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer import measures
from oodometer.arrays import Floats
from oodometer.core import Progress, Score
from oodometer.errors import InputError, NoAnswer
from oodometer.models import as_model
from oodometer.protocol.environments import Sign, canonical_sign
from oodometer.registry import asked_for
from oodometer.stats import stream
from oodometer.subject import Measure, Subject, scored
from oodometer.views import Looking, alike

__all__ = ["Measurements", "Noise", "Sign", "canonical_sign", "chosen", "measure", "subject_of"]

# The share of rows that a replicate is measured on. DG §2.
SHARE = 0.8


@dataclass(frozen=True)
class Noise:
    """Mean and standard deviation of a measure over random subsets of the rows."""

    mean: float
    sd: float
    replicates: int

    @property
    def ratio(self) -> float | None:
        """Signal to noise, mean / sd; None where no replicate differs from another."""
        return abs(self.mean) / self.sd if self.sd > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"mean": self.mean, "sd": self.sd, "snr": self.ratio, "replicates": self.replicates}


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
    refused: Mapping[str, str]
    noise: Mapping[str, Noise]
    seed: int

    def __getitem__(self, name: str) -> Score:
        """The score of one measure, by its name."""
        if name in self.refused:
            raise NoAnswer(f"{name} gave no answer: {self.refused[name]}")
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        wide = max((len(name) for name in (*self.scores, *self.refused)), default=0)
        lines = [
            "  ".join([f"{name:<{wide}}  {one.value:>12.6g}", *one.notes])
            for name, one in self.scores.items()
        ]
        lines += [f"{name:<{wide}}  no answer: {why}" for name, why in self.refused.items()]
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
                {"measure": name, **one.to_dict(), "noise": self._noise(name)}
                for name, one in self.scores.items()
            ],
            "refused": [{"measure": name, "reason": why} for name, why in self.refused.items()],
        }

    def _noise(self, name: str) -> dict[str, Any] | None:
        return self.noise[name].to_dict() if name in self.noise else None


def measure(  # noqa: PLR0913 - the main door; all but the data are options
    names: str | Measure | Sequence[str | Measure] | None,
    model: Any,
    source: Any,
    target: Any,
    *,
    training: Any = None,
    features: tuple[Any, Any] | None = None,
    layer: str | None = None,
    replicates: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measurements:
    """Scores that may tell of the error on the target, of a model, its source and its target.

    `names` is one measure, several, or None for all. One that was asked for alone and does not
    apply is refused with NoAnswer; of several, those are skipped, and `refused` says why.

    `model` is anything that `as_model` opens, `source` (labelled, not trained on) and `target`
    anything that `as_dataset` opens; the target's labels are not looked at. A mapping from names
    to datasets gives the domains of a source. Features are taken at `layer`, or what goes into the
    last linear layer; or they are given, those of the source and of the target. Without a model
    (None), source and target are features (n, d) or Predictions, and torch is not needed.

    `training` is what the model was trained on: the papers' S; without it the source stands in.
    With `replicates`, each measure is measured again on so many random 80 % of the rows: mean,
    standard deviation and their ratio are its `noise`.

    >>> import numpy as np
    >>> near, far = np.random.default_rng(0).normal(size=(2, 400, 3)), 9.0
    >>> found = measure("h-divergence", None, near[0], near[1] + far)
    >>> found["h-divergence"].value
    1.0
    """
    members = chosen(names)
    if not isinstance(replicates, int | np.integer) or replicates < 0 or replicates == 1:
        raise InputError(f"replicates must be 0, or 2 or more; got {replicates!r}. 20 is usual.")
    subject = subject_of(
        model, source, target, training=training, features=features, layer=layer, seed=seed,
        progress=progress,
    )  # fmt: skip
    found, refused = _each(members, subject, progress)
    if isinstance(names, str | Measure) and refused:
        raise NoAnswer("; ".join(f"{name} has no answer: {why}" for name, why in refused.items()))
    noise = _noises([one for one in members if one.name in found], subject, replicates, progress)
    return Measurements(
        model=None if subject.target.given.model is None else subject.target.given.model.name,
        source=subject.source.name,
        target=subject.target.name,
        n_source=subject.source.n,
        n_target=subject.target.n,
        n_training=None if subject.training is None else subject.training.n,
        scores=found,
        refused=refused,
        noise=noise,
        seed=seed,
    )


def chosen(names: str | Measure | Sequence[str | Measure] | None) -> list[Measure]:
    """The measures asked for, each once."""
    if names is None:
        return list(measures.every())
    return asked_for(names, Measure, what="measure", named=measures.named)  # type: ignore[type-abstract]


def subject_of(
    model: Any,
    source: Any,
    target: Any,
    *,
    training: Any = None,
    features: tuple[Any, Any] | None = None,
    layer: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Subject:
    """A model with its source and target data, opened and not yet looked at."""
    looking = Looking(None if model is None else as_model(model), layer, seed, progress)
    if features is not None and (len(features) != 2 or any(part is None for part in features)):
        count = sum(part is not None for part in features)
        raise InputError(f"features are those of the source and of the target; got {count}.")
    if features is not None and training is not None:
        raise InputError(
            "features= can't go with training=: those of the training data are not known."
        )
    known, new = features if features is not None else (None, None)
    first = looking.view(source, "source", features=known)
    return Subject(
        first,
        alike(looking.view(target, "target", labelled=False, features=new), first, "target"),
        None
        if training is None
        else alike(looking.view(training, "training data"), first, "training data"),
        seed,
    )


def _each(
    members: Sequence[Measure], subject: Subject, progress: Progress | None
) -> tuple[dict[str, Score], dict[str, str]]:
    """Scores, and reasons of those that have none."""
    found: dict[str, Score] = {}
    refused: dict[str, str] = {}
    for done, member in enumerate(members):
        if progress:
            progress(done, len(members), f"measuring {member.name}")
        try:
            found[member.name] = scored(member, subject)
        except NoAnswer as refusal:
            refused[member.name] = str(refusal)
    if progress:
        progress(len(members), len(members), "measured")
    return found, refused


def _noises(
    members: Sequence[Measure], subject: Subject, replicates: int, progress: Progress | None
) -> dict[str, Noise]:
    """How much measures vary over subsets; one that fails on a subset has no noise to show."""
    values: dict[str, list[float]] = {member.name: [] for member in members}
    for number in range(replicates):
        some = subject.sampled(SHARE, stream(subject.seed, "subset of rows", number))
        found, _ = _each(members, some, None)
        for name, one in found.items():
            values[name].append(one.value)
        if progress:
            progress(number + 1, replicates, f"subset {number + 1} of {replicates}")
    return {
        name: _noise(np.array(some))
        for name, some in values.items()
        if replicates and len(some) == replicates
    }


def _noise(values: Floats) -> Noise:
    """Values that are all alike have no deviation, whatever rounding makes of their mean."""
    spread = float(values.std(ddof=1)) if np.ptp(values) > 0 else 0.0
    return Noise(float(values.mean()), spread, len(values))
