"""invariance(): measure how stable the decisions of models are when inputs are transformed.

The method is from Ng, Hulkund, Cho & Ghassemi, "Predicting Out-of-Domain Generalization with
Neighborhood Invariance", TMLR 2023; a preprint of 2022 calls it local manifold smoothness. Inputs
are transformed once, and all models classify the same transformed inputs. Only a few batches are in
memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer import transforms
from oodometer.core.errors import InputError
from oodometer.core.function_members import wrap_function
from oodometer.core.protocols import Dataset, Model, ProgressCallback, Transform
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.heads import transform_key
from oodometer.models.inference import check_consistent_outputs
from oodometer.neighborhood import sampling
from oodometer.neighborhood._decisions import (
    ClassifiedBatch,
    Decisions,
    classify_in_process,
    classify_in_workers,
)
from oodometer.neighborhood.results import (
    MISSING_CLASS,
    DecisionCounts,
    InvarianceResult,
    ModelInvariance,
    SamplingCost,
)
from oodometer.neighborhood.sampling import NeighborhoodSampler, SamplingRound
from oodometer.transforms.registry import is_smoothness_name

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

TransformInput = str | Transform | Callable[..., Any] | None
# Maximum number of rows from which a transform learns, for example a vocabulary.
MAX_LEARN_ROWS = 20_000


def invariance(
    models: Any,
    data: Any,
    *,
    transform: TransformInput = None,
    draws: int = 10,
    identity: bool | None = None,
    precision: float | None = None,
    max_inputs: int | None = None,
    transform_data: Any = None,
    seed: int = 0,
    batch_size: int | None = None,
    threads: int = 1,
    runner: Runner | None = None,
    resume: InvarianceResult | None = None,
    progress: ProgressCallback | None = None,
) -> InvarianceResult:
    """Measure how invariant the decisions of models are in neighborhoods of unlabelled data.

    The neighborhood of an example consists of `draws` transformed copies of the example and, if
    `identity` is true, the example itself. The result does not depend on `batch_size`, `threads`,
    `runner` or the order of the rows.

    Parameters
    ----------
    models : model, list of models, or mapping from names to models
        Anything that `as_model` accepts.
    data : object
        Unlabelled data; anything that `as_dataset` accepts.
    transform : str, Transform or function, optional
        Transform that creates the neighborhoods. A function takes one example and, if it has two
        parameters, a random generator of numpy, and returns the changed example. By default, the usual transform for the kind of
        data is used. The name of a measure of local manifold smoothness such as "MS-SSMBA" means
        the transform at fixed strength, without the identity.
    draws : int
        Number of transformed copies per example.
    identity : bool, optional
        Whether the example itself belongs to its neighborhood. Default: True, but False if
        `transform` is a name such as "MS-SSMBA" or "MSE-SSMBA".
    precision : float, optional
        Stop as soon as the confidence interval of pa (pairwise agreement) has at most this
        half-width for every model.
    max_inputs : int, optional
        Maximum number of inputs to classify, including the inputs of a resumed run.
    transform_data : object, optional
        Data that the transform learns from, for example a vocabulary or the values of columns.
        Default: `data`.
    seed : int
        Random seed.
    batch_size : int, optional
        Number of inputs per batch. By default, a batch has at most 512 inputs and 32 MiB.
    threads : int
        Number of threads that transform the next inputs while models classify. With 0, no
        additional threads are used.
    runner : Runner, optional
        Runner whose workers transform and classify inputs, with one thread per worker.
    resume : InvarianceResult, optional
        Earlier result to continue from. It must have the same settings, and its number of draws
        must not be larger.
    progress : callable, optional
        Called as ``progress(done, total, text)``.

    Returns
    -------
    InvarianceResult
        Measures of each model, with confidence intervals.

    Raises
    ------
    InputError
        If an option is out of range, if the transform does not fit the data, or if `resume` has
        different settings.

    Examples
    --------
    >>> sign = lambda rows: (rows[:, 0] > 0).astype(int)
    >>> rows = np.array([[-9.0, 0.0], [9.0, 1.0]])
    >>> result = invariance({"sign": sign}, rows, transform="gaussian", draws=4)
    >>> result["sign"].mean_with_interval("pa").value
    1.0
    """
    identity = not is_smoothness_name(transform) if identity is None else identity
    sampling.validate_sampling_options(
        draws, precision, max_inputs, identity=identity, batch_size=batch_size
    )
    if not isinstance(resume, InvarianceResult | None):
        raise InputError(f"resume must be a result of invariance(); got {resume!r}.")
    named_models = as_models(models)
    dataset = as_dataset(data)
    reference = dataset if transform_data is None else as_dataset(transform_data)
    prepared = prepare_transform(transform, dataset, reference, seed)
    learned_from = reference.fingerprint if _learns_from_data(prepared) else ""
    sampler = NeighborhoodSampler(dataset, prepared, seed, transform_key(prepared, learned_from))
    run = _InvarianceRun(
        models=named_models,
        sampler=sampler,
        draws=draws,
        identity=identity,
        batch_size=batch_size or sampler.default_batch_size(),
        threads=threads,
        runner=runner,
        progress=progress,
        settings=_settings_text(sampler.transform, reference),
    )
    run.start(resume)
    run.sample_until(precision, max_inputs)
    return run.result(precision)


def as_models(models: Any) -> dict[str, Model]:
    """Open models and return them by name; a number is added to repeated names.

    Parameters
    ----------
    models : model, list of models, or mapping from names to models
        Anything that `as_model` accepts.

    Returns
    -------
    dict of str to Model
        Models by unique names.

    Raises
    ------
    InputError
        If there are no models.

    Examples
    --------
    >>> def zeros(rows):
    ...     return [0] * len(rows)
    >>> list(as_models([zeros, zeros]))
    ['zeros', 'zeros (2)']
    """
    is_collection = isinstance(models, Mapping | Sequence) and not isinstance(models, str)
    if is_collection and not len(models):
        raise InputError("There are no models; give at least one.")
    if isinstance(models, Mapping):
        return {
            name: thing if isinstance(thing, Model) else as_model(thing, name=name)
            for name, thing in models.items()
        }
    named: dict[str, Model] = {}
    for thing in models if is_collection else [models]:
        model = as_model(thing)
        name = model.name
        number = 2
        while name in named:
            name = f"{model.name} ({number})"
            number += 1
        named[name] = model
    return named


def prepare_transform(
    transform: TransformInput, dataset: Dataset, transform_data: Dataset, seed: int
) -> Transform:
    """Return a transform for a dataset; if the transform can learn, it has learned from data.

    Parameters
    ----------
    transform : str, Transform, function or None
        Name or instance of a transform, or a function of one example. With None, the usual transform for the kind of data is
        used.
    dataset : Dataset
        Data to transform.
    transform_data : Dataset
        Data that the transform learns from; at most 20,000 random rows are used.
    seed : int
        Random seed for the selection of the rows to learn from.

    Returns
    -------
    Transform
        Transform that is ready to be applied.

    Raises
    ------
    InputError
        If the transform does not fit the kind of data, or the two datasets differ in kind.

    Examples
    --------
    >>> rows = as_dataset(np.eye(3))
    >>> prepare_transform("gaussian", rows, rows, seed=0).name
    'gaussian'
    """
    if transform is None:
        transform = transforms.DEFAULT_TRANSFORMS[dataset.kind]
    if isinstance(transform, str):
        transform = transforms.get(transform)
    chosen = wrap_function(transform, Transform)
    if not isinstance(chosen, Transform):
        raise InputError(
            f"transform must be a name, a Transform or a function; got {chosen!r}. "
            "`oodometer transforms` lists the names."
        )
    if dataset.kind not in chosen.kinds:
        suitable = ", ".join(
            member.name for member in transforms.available() if dataset.kind in member.kinds
        )
        raise InputError(
            f"The transform {chosen.name!r} applies to {' and '.join(chosen.kinds)}; the data "
            f"{dataset.name!r} are {dataset.kind}. Transforms for {dataset.kind}: {suitable}."
        )
    if transform_data.kind != dataset.kind:
        raise InputError(
            f"The reference data are {transform_data.kind}, the data {dataset.kind}. "
            "Give reference data of the same kind."
        )
    if not _learns_from_data(chosen):
        return chosen
    rows = sampling.shuffled_order(transform_data.keys, seed)[:MAX_LEARN_ROWS]
    return chosen.learn(transform_data.take(rows))


def _learns_from_data(transform: Transform) -> bool:
    """Return whether the transform overrides `learn`; if not, no rows are read for learning."""
    return type(transform).learn is not Transform.learn


def _settings_text(transform: Transform, reference: Dataset) -> str:
    """Return a text with everything except seed and example that determines a draw."""
    learned = f", learned from {reference.fingerprint}" if _learns_from_data(transform) else ""
    return f"{transform!r}{learned}"


@dataclass(eq=False, kw_only=True)
class _InvarianceRun:
    """State of a running `invariance` call: models, sampler, options, and decisions so far."""

    models: dict[str, Model]
    sampler: NeighborhoodSampler
    draws: int
    identity: bool
    batch_size: int
    threads: int
    runner: Runner | None
    progress: ProgressCallback | None
    settings: str
    counts: dict[str, DecisionCounts] = field(default_factory=dict)
    class_names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    first_decisions: dict[str, Decisions] = field(default_factory=dict)
    n_drawn: int = 0
    n_classified: int = 0

    def start(self, resume: InvarianceResult | None) -> None:
        """Initialize the decisions; if there is an earlier result, copy its decisions."""
        if resume is None:
            n = len(self.sampler.dataset)
            self.counts = {name: DecisionCounts.empty(n, self.draws) for name in self.models}
            return
        resume.check_resumable(
            {
                "models": tuple(self.models),
                "fingerprint": self.sampler.dataset.fingerprint,
                "transform": self.sampler.transform.name,
                "magnitude": self.sampler.transform.magnitude,
                "identity": self.identity,
                "seed": self.sampler.seed,
                "settings": self.settings,
            }
        )
        self.draws = max(self.draws, resume.draws)
        self.counts = dict(zip(self.models, resume.full_counts(self.draws), strict=True))
        self.class_names = {result.model: result.class_names for result in resume}
        self.n_drawn = resume.sampling_cost.drawn
        self.n_classified = resume.sampling_cost.classified

    @property
    def _any_counts(self) -> DecisionCounts:
        """Return the counts of the first model; all models have classified the same inputs."""
        return next(iter(self.counts.values()))

    def sample_until(self, precision: float | None, max_inputs: int | None) -> None:
        """Sample until all inputs are classified, or a limit on precision or inputs is reached."""
        dataset = self.sampler.dataset
        total = len(dataset) * (self.draws + 1)
        if max_inputs is not None:
            total = min(max_inputs, total)
        if precision is None and max_inputs is None:
            rounds = sampling.full_pass(len(dataset), self.draws)
        else:
            rounds = sampling.progressive_rounds(dataset.keys, self.draws, self.sampler.seed)
        n_seen = (self._any_counts.classes != MISSING_CLASS).sum(axis=1)
        steps = list(sampling.plan_steps(rounds, total, n_seen, self.batch_size))
        with closing(self._classified_batches(steps)) as classified:
            for step in steps:
                for batch in step:
                    self._add(batch, *next(classified))
                    if self.progress:
                        self.progress(self.n_drawn, total, "classifying")
                if precision is not None and self._max_half_width() <= precision:
                    break

    def _classified_batches(
        self, steps: list[list[SamplingRound]]
    ) -> Generator[ClassifiedBatch, None, None]:
        if self.runner is None:
            return classify_in_process(self.models, self.sampler, steps, self.threads)
        return classify_in_workers(self.models, self.sampler, steps, self.runner)

    def _add(self, batch: SamplingRound, n_inputs: int, decisions: dict[str, Decisions]) -> None:
        for name, current in decisions.items():
            first = self.first_decisions.setdefault(name, current)
            check_consistent_outputs(first, current, name)
            self.class_names[name] = current.class_names
            self.counts[name].add(
                batch.examples,
                batch.members,
                classes=current.classes,
                confidence=current.confidence,
                entropy=current.entropy,
            )
        self.n_drawn += batch.size
        self.n_classified += n_inputs

    def _max_half_width(self) -> float:
        """Return the largest half-width of the confidence interval of pa over all models."""
        return max(result.mean_with_interval("pa").half_width for result in self._model_results())

    def _model_results(self) -> tuple[ModelInvariance, ...]:
        # A resumed run may have had only one draw per example. If more draws were requested now, an
        # example is used only after it has two draws.
        enough_draws = self._any_counts.n_draws >= min(sampling.FIRST_DRAWS, self.draws)
        positions = np.flatnonzero(enough_draws)
        return tuple(
            ModelInvariance(
                model=name,
                counts=counts.rows(positions),
                positions=positions,
                identity=self.identity,
                class_names=self.class_names.get(name),
            )
            for name, counts in self.counts.items()
        )

    def result(self, precision: float | None) -> InvarianceResult:
        dataset, transform = self.sampler.dataset, self.sampler.transform
        models = self._model_results()
        return InvarianceResult(
            data=dataset.name,
            fingerprint=dataset.fingerprint,
            n=len(dataset),
            transform=transform.name,
            label=transform.label,
            magnitude=transform.magnitude,
            strength=getattr(transform, "strength", None),
            draws=self.draws,
            identity=self.identity,
            seed=self.sampler.seed,
            skipped=len(getattr(dataset, "skipped", ())),
            sampling_cost=SamplingCost(
                examples=len(models[0].positions),
                drawn=self.n_drawn,
                classified=self.n_classified,
                requested_half_width=precision,
                precision_reached=precision is None or self._max_half_width() <= precision,
            ),
            results=models,
            settings=self.settings,
            sampler=self.sampler,
        )
