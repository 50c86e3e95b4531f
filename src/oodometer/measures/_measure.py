"""measure(): every measure that applies to a model, its source and its target.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021. Measures share passes, features and gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.protocols import Measure, Progress, Score
from oodometer.core.softmax_kernels import Floats
from oodometer.measures._shared_work import families
from oodometer.measures.registry import chosen
from oodometer.measures.subject import Found, Subject, subset, taken
from oodometer.models import as_model
from oodometer.models._view_factory import Looking, alike

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

__all__ = ["Measurements", "Noise", "measure", "subject_of"]


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
    runner: Runner | None = None,
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
    standard deviation and their ratio are its `noise`. With a `runner` its workers look at the rows
    and take the measures, with one thread each.

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
    if runner is not None:
        subject = _looked_at(runner, members, subject, progress)
    found, refused = _each(members, subject, runner, progress)
    if isinstance(names, str | Measure) and refused:
        raise NoAnswer("; ".join(f"{name} has no answer: {why}" for name, why in refused.items()))
    able = [one for one in members if one.name in found]
    noise = _noises(_subsets(able, subject, replicates, runner, progress), able)
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


def _looked_at(
    runner: Runner, members: Sequence[Measure], subject: Subject, progress: Progress | None
) -> Subject:
    """The same; if a measure reads them, outputs and features of all rows are known."""
    from oodometer.measures.distributed import passed

    read = any({"outputs", "features"} & set(member.needs) for member in members)
    return passed(runner, subject, progress) if read else subject


def _each(
    members: Sequence[Measure],
    subject: Subject,
    runner: Runner | None,
    progress: Progress | None,
) -> tuple[dict[str, Score], dict[str, str]]:
    """Scores, and reasons of those that have none."""
    if runner is None:
        whole = _here(members, subject, progress)
    else:
        from oodometer.measures.distributed import Wanted, measured

        wanted = [Wanted(tuple(one.name for one in some)) for some in families(members)]
        parts = measured(runner, members, subject, wanted, progress)
        whole = {name: one for part in parts for name, one in part.items()}
    ranked = [(member.name, whole[member.name]) for member in members]
    found = {name: one for name, one in ranked if isinstance(one, Score)}
    return found, {name: str(one) for name, one in ranked if isinstance(one, NoAnswer)}


def _here(members: Sequence[Measure], subject: Subject, progress: Progress | None) -> Found:
    found: Found = {}
    for done, member in enumerate(members):
        if progress:
            progress(done, len(members), f"measuring {member.name}")
        found.update(taken([member], subject))
    if progress:
        progress(len(members), len(members), "measured")
    return found


def _subsets(
    members: Sequence[Measure],
    subject: Subject,
    replicates: int,
    runner: Runner | None,
    progress: Progress | None,
) -> list[Found]:
    """What measures say of random subsets of the rows."""
    if not members:
        return []
    if runner is not None:
        from oodometer.measures.distributed import Wanted, measured

        names = tuple(member.name for member in members)
        wanted = [Wanted(names, number) for number in range(replicates)]
        return measured(runner, members, subject, wanted, progress)
    found = []
    for number in range(replicates):
        found.append(taken(members, subset(subject, number)))
        if progress:
            progress(number + 1, replicates, f"subset {number + 1} of {replicates}")
    return found


def _noises(subsets: Sequence[Found], members: Sequence[Measure]) -> dict[str, Noise]:
    """How much measures vary over subsets; one that fails on a subset has no noise to show."""
    found = {}
    for member in members:
        scores = [some[member.name] for some in subsets]
        values = [one.value for one in scores if isinstance(one, Score)]
        if values and len(values) == len(scores):
            found[member.name] = _noise(np.array(values))
    return found


def _noise(values: Floats) -> Noise:
    """Values that are all alike have no deviation, whatever rounding makes of their mean."""
    spread = float(values.std(ddof=1)) if np.ptp(values) > 0 else 0.0
    return Noise(float(values.mean()), spread, len(values))
