"""measure(): compute every applicable measure of a model on its source and target data.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021. All measures use the same forward passes, features and gradients,
which are computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.function_members import is_function
from oodometer.core.protocols import Measure, ProgressCallback
from oodometer.core.registry import resolve_members
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.core.results import Score
from oodometer.measures.distributed import (
    MeasureRequest,
    group_by_shared_work,
    precompute_outputs,
    run_requests,
)
from oodometer.measures.registry import available, get
from oodometer.measures.subject import MeasureOutcomes, Subject, measure_all, random_subset
from oodometer.models import as_model
from oodometer.models.model_view import ViewFactory, align_classes

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

MeasureInput = str | Measure | Callable[[Subject], float | Score]
MeasuresInput = MeasureInput | Sequence[MeasureInput] | None

__all__ = ["Measurements", "SubsetNoise", "build_subject", "measure"]


@dataclass(frozen=True)
class SubsetNoise:
    """Mean and standard deviation of a measure over random subsets of the rows.

    Parameters
    ----------
    mean : float
        Mean over the subsets.
    sd : float
        Standard deviation over the subsets.
    subsamples : int
        Number of subsets.

    Examples
    --------
    >>> SubsetNoise(mean=2.0, sd=0.5, subsamples=20).signal_to_noise
    4.0
    """

    mean: float
    sd: float
    subsamples: int

    @property
    def signal_to_noise(self) -> float | None:
        """Return abs(mean) / sd, or None if all subsets give the same value."""
        return abs(self.mean) / self.sd if self.sd > 0 else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "sd": self.sd,
            "snr": self.signal_to_noise,
            "subsamples": self.subsamples,
        }


@dataclass(frozen=True, repr=False)
class Measurements(ResultViews, Mapping[str, Score]):
    """Mapping from measure names to scores, with the reasons why measures were skipped.

    A measure is skipped if it is not applicable. Looking up a skipped measure raises NotApplicable.

    Parameters
    ----------
    model : str or None
        Name of the model; None if the measures were computed without a model.
    source, target : str
        Names of the datasets.
    n_source, n_target : int
        Number of source rows and number of target rows.
    n_training : int or None
        Number of training rows; None if no training data were given.
    scores : mapping from str to Score
        Score of each measure that applies.
    skipped : mapping from str to str
        For each measure that does not apply, the reason why it does not.
    noise : mapping from str to SubsetNoise
        Mean and standard deviation of each measure over random subsets of the rows. Empty if no
        subsets were requested.
    seed : int
        Random seed.
    """

    renderer: ClassVar[str] = "oodometer.report.score_views"

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
        if name in self.skipped:
            raise NotApplicable(f"{name} is not applicable: {self.skipped[name]}")
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def key_values(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "source": self.source,
            "target": self.target,
            "measures": len(self.scores),
            "skipped": len(self.skipped),
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the tables `measures` and `skipped`."""
        rows = []
        for name, score in self.scores.items():
            noise = self.noise.get(name)
            rows.append(
                {
                    "measure": name,
                    "value": score.value,
                    "low": score.low,
                    "high": score.high,
                    "sd": None if noise is None else noise.sd,
                    "signal_to_noise": None if noise is None else noise.signal_to_noise,
                    "notes": "; ".join(score.notes),
                }
            )
        skipped = [{"measure": name, "reason": reason} for name, reason in self.skipped.items()]
        return {"measures": rows, "skipped": skipped}

    def __str__(self) -> str:
        width = max((len(name) for name in (*self.scores, *self.skipped)), default=0)
        lines = [
            "  ".join([f"{name:<{width}}  {score.value:>12.6g}", *score.notes])
            for name, score in self.scores.items()
        ]
        lines += [
            f"{name:<{width}}  not applicable: {reason}" for name, reason in self.skipped.items()
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with stable keys, for JSON."""
        return {
            "model": self.model,
            "source": self.source,
            "target": self.target,
            "n_source": self.n_source,
            "n_target": self.n_target,
            "n_training": self.n_training,
            "seed": self.seed,
            "measures": [
                {
                    "measure": name,
                    **score.to_dict(),
                    "noise": self.noise[name].to_dict() if name in self.noise else None,
                }
                for name, score in self.scores.items()
            ],
            "skipped": [
                {"measure": name, "reason": reason} for name, reason in self.skipped.items()
            ],
        }


def measure(
    model: Any,
    source: Any,
    target: Any,
    *,
    measures: MeasuresInput = None,
    training_data: Any = None,
    features: tuple[Any, Any] | None = None,
    layer: str | None = None,
    subsamples: int = 0,
    seed: int = 0,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
) -> Measurements:
    """Compute scores that may correlate with the target error, without target labels.

    Parameters
    ----------
    model : object or None
        Anything that `as_model` accepts. If it is None, pass features of shape (n, d) or
        Predictions as source and target; torch is then not needed.
    source : object
        Labelled data that the model was not trained on: anything that `as_dataset` accepts, or a
        mapping from domain names to datasets.
    target : object
        Unlabelled data: anything that `as_dataset` accepts. Labels are ignored.
    measures : str, Measure, function, or sequence of these, optional
        Measures to compute. A function of the subject returns a number; its name is the name of the
        measure. Default: all.
    training_data : object, optional
        Data that the model was trained on. Measures compare these data with the target; the papers
        call them S. Default: the source.
    features : pair of arrays, optional
        Features of the source and of the target. By default, the features are the output of
        `layer`.
    layer : str, optional
        Name of the layer whose output is the features. Default: the input of the last linear layer.
    subsamples : int
        Number of random subsets, each of 80 % of the rows, on which every measure is computed again
        to report its mean, standard deviation and signal-to-noise ratio. Must be 0 or at least 2.
    seed : int
        Random seed.
    runner : Runner, optional
        Runner whose workers compute the forward passes and the measures, with one thread per
        worker. By default, everything is computed in this process.
    progress : callable, optional
        Called with the number of steps done, their total and a description.

    Returns
    -------
    Measurements
        Scores by measure name. If several measures were requested, a measure that does not apply is
        skipped, and the result contains the reason.

    Raises
    ------
    NotApplicable
        If a single measure was requested and does not apply.
    InputError
        If an argument is invalid or a name is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> source, target = np.random.default_rng(0).normal(size=(2, 400, 3))
    >>> result = measure(None, source, target + 9.0, measures="h-divergence")
    >>> result["h-divergence"].value
    1.0
    """
    members = resolve_members(measures, Measure, available=available, get=get)  # type: ignore[type-abstract]
    if not isinstance(subsamples, int | np.integer) or subsamples < 0 or subsamples == 1:
        raise InputError(f"subsamples must be 0 or at least 2; got {subsamples!r}.")
    subject = build_subject(
        model,
        source,
        target,
        training=training_data,
        features=features,
        layer=layer,
        seed=seed,
        progress=progress,
    )
    if runner is not None and any({"outputs", "features"} & set(m.needs) for m in members):
        subject = precompute_outputs(runner, subject, progress)
    outcomes = _measure_members(members, subject, runner, progress)
    scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    skipped = {name: str(outcome) for name, outcome in outcomes.items() if name not in scores}
    if skipped and (isinstance(measures, str | Measure) or is_function(measures)):
        raise NotApplicable(
            "; ".join(f"{name} is not applicable: {reason}" for name, reason in skipped.items())
        )
    applicable = [member for member in members if member.name in scores]
    subsets = _measure_subsets(applicable, subject, subsamples, runner, progress)
    opened_model = subject.target.view_source.model
    return Measurements(
        model=None if opened_model is None else opened_model.name,
        source=subject.source.name,
        target=subject.target.name,
        n_source=subject.source.n,
        n_target=subject.target.n,
        n_training=None if subject.training is None else subject.training.n,
        scores=scores,
        skipped=skipped,
        noise=_noise_by_measure(subsets, applicable),
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
    """Return the subject that measures are computed on, without computing outputs or features yet.

    Parameters
    ----------
    model : object or None
        Anything that `as_model` accepts, or None.
    source, target : object
        Anything that `as_dataset` accepts. If there is no model, features or Predictions.
    training : object, optional
        Data that the model was trained on.
    features : pair of arrays, optional
        Features of the source and of the target.
    layer : str, optional
        Name of the layer whose output is the features.
    seed : int
        Random seed.
    progress : callable, optional
        Called with the number of steps done, their total and a description.

    Returns
    -------
    Subject
        Model with its source, target and training data; the argument of `Measure.measure`.

    Examples
    --------
    >>> import numpy as np
    >>> build_subject(None, np.zeros((3, 2)), np.ones((4, 2))).target.n
    4
    """
    factory = ViewFactory(None if model is None else as_model(model), layer, seed, progress)
    if features is None:
        features = (None, None)
    elif len(features) != 2 or any(array is None for array in features):
        count = sum(array is not None for array in features)
        raise InputError(
            f"features must be a pair, those of the source and of the target; got {count}."
        )
    elif training is not None:
        raise InputError(
            "features= cannot be combined with training_data=: the features of the training data "
            "are not known."
        )
    source_view = factory.view(source, "source", features=features[0])
    target_view = factory.view(target, "target", labelled=False, features=features[1])
    training_view = None if training is None else factory.view(training, "training data")
    return Subject(
        source_view,
        align_classes(target_view, source_view, "target"),
        training_view and align_classes(training_view, source_view, "training data"),
        seed,
    )


def _measure_members(
    members: Sequence[Measure],
    subject: Subject,
    runner: Runner | None,
    progress: ProgressCallback | None,
) -> MeasureOutcomes:
    """Return the outcome of each measure on all rows, in the order of the measures."""
    if runner is None:
        return _measure_serially(members, subject, progress)
    requests = [
        MeasureRequest(tuple(member.name for member in group))
        for group in group_by_shared_work(members)
    ]
    outcomes: MeasureOutcomes = {}
    for group_outcomes in run_requests(runner, members, subject, requests, progress):
        outcomes |= group_outcomes
    return {member.name: outcomes[member.name] for member in members}


def _measure_serially(
    members: Sequence[Measure], subject: Subject, progress: ProgressCallback | None
) -> MeasureOutcomes:
    outcomes: MeasureOutcomes = {}
    for done, member in enumerate(members):
        if progress:
            progress(done, len(members), f"measuring {member.name}")
        outcomes |= measure_all([member], subject)
    if progress:
        progress(len(members), len(members), "measured")
    return outcomes


def _measure_subsets(
    members: Sequence[Measure],
    subject: Subject,
    subsamples: int,
    runner: Runner | None,
    progress: ProgressCallback | None,
) -> list[MeasureOutcomes]:
    """Return the outcomes of all measures on each random subset of the rows."""
    if not members:
        return []
    if runner is not None:
        names = tuple(member.name for member in members)
        requests = [MeasureRequest(names, replicate) for replicate in range(subsamples)]
        return run_requests(runner, members, subject, requests, progress)
    outcomes = []
    for replicate in range(subsamples):
        outcomes.append(measure_all(members, random_subset(subject, replicate)))
        if progress:
            progress(replicate + 1, subsamples, f"subset {replicate + 1} of {subsamples}")
    return outcomes


def _noise_by_measure(
    subsets: Sequence[MeasureOutcomes], members: Sequence[Measure]
) -> dict[str, SubsetNoise]:
    """Return the noise of each measure that has a score on every subset."""
    noise = {}
    for member in members:
        scores = [outcomes[member.name] for outcomes in subsets]
        values = np.array([score.value for score in scores if isinstance(score, Score)])
        if len(values) and len(values) == len(scores):
            # If all values are equal, `std` may still return a tiny number, because the mean is
            # rounded. The standard deviation is then set to 0.
            sd = float(values.std(ddof=1)) if np.ptp(values) > 0 else 0.0
            noise[member.name] = SubsetNoise(float(values.mean()), sd, len(values))
    return noise
