"""Neighborhood invariance: how stable a model's decisions are when its inputs are transformed.

Ng, Hulkund, Cho & Ghassemi, "Predicting Out-of-Domain Generalization with Neighborhood
Invariance", TMLR 2023; and its earlier form, local manifold smoothness, of 2022. Transformed inputs
are drawn once and shown to every model; only a batch of them is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer import transforms
from oodometer.core.errors import InputError
from oodometer.core.protocols import Dataset, Model, ProgressCallback, Transform
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.inference import check_consistent_outputs
from oodometer.neighborhood import results, sampling
from oodometer.neighborhood._decisions import (
    BatchDecisions,
    BatchResult,
    accumulate,
    classify_batch,
)
from oodometer.neighborhood.results import (
    DecisionCounts,
    InvarianceResult,
    ModelInvariance,
    SamplingCost,
)
from oodometer.neighborhood.sampling import NeighborhoodSampler, SamplingStep
from oodometer.parallel.prefetch import prefetch

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# What a transform learns from (a vocabulary, the columns) is learned from so many rows.
MAX_LEARN_ROWS = 20_000

StepResults = Callable[[SamplingStep], Generator[BatchResult, None, None]]


def invariance(
    models: Any,
    data: Any,
    *,
    transform: str | Transform | None = None,
    draws: int = 10,
    identity: bool = True,
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
    """How invariant the decisions of models are in the neighborhoods of unlabelled data.

    `models` is anything that `as_model` opens, a list of such, or a mapping from names; `data`
    anything that `as_dataset` opens; `transform` a name or a Transform, by default the usual one of
    the data's kind. Every example is shown with `draws` transformed copies; `identity` says whether
    the example itself has a vote. With `precision` (the half-width wanted of pa) or `max_inputs`
    (inputs drawn, those of an earlier run too) only as much is looked at as that takes; `resume`
    goes on from an earlier result of the same run, with as many draws or more. A transform that
    learns (a vocabulary, the columns) does so from `transform_data`, or else from the data. Transforming
    is done by `threads` beside the models (0: in turn with them), or all of it by the workers of a
    `runner`, with one thread each; neither they nor `batch_size` nor the order of the data change the
    result.
    """
    sampling.validate_sampling_options(
        draws, precision, max_inputs, identity=identity, batch_size=batch_size
    )
    opened, dataset = as_models(models), as_dataset(data)
    known = dataset if transform_data is None else as_dataset(transform_data)
    show = NeighborhoodSampler(dataset, prepare_transform(transform, dataset, known, seed), seed)
    run = _InvarianceRun(opened, show, draws, identity, progress, batch_size or show.default_batch_size(), threads, runner,
               _settings_text(show.transform, known))  # fmt: skip
    if not isinstance(resume, InvarianceResult | None):
        raise InputError(f"resume must be what invariance gave before; got {resume!r}.")
    run.start(resume)
    return run.build_result(*run.sample_until(precision, max_inputs))


def as_models(models: Any) -> dict[str, Model]:
    """Models by name; a name that stands twice is given a number."""
    several = isinstance(models, Mapping | Sequence) and not isinstance(models, str)
    if several and not len(models):
        raise InputError("There are no models; at least one was expected.")
    if isinstance(models, Mapping):
        return {name: _with_name(thing, name) for name, thing in models.items()}
    found: dict[str, Model] = {}
    for thing in models if several else [models]:
        model = as_model(thing)
        number, name = 2, model.name
        while name in found:
            name, number = f"{model.name} ({number})", number + 1
        found[name] = model
    return found


def _with_name(thing: Any, name: str) -> Model:
    """What is a model already goes by the name it is given here."""
    return thing if isinstance(thing, Model) else as_model(thing, name=name)


def prepare_transform(
    transform: str | Transform | None, dataset: Dataset, transform_data: Dataset, seed: int
) -> Transform:
    """The transform asked for, fit for the data, having learned what it needs from the known."""
    if transform is None:
        transform = transforms.DEFAULT_TRANSFORMS[dataset.kind]
    chosen = transforms.get(transform) if isinstance(transform, str) else transform
    if not isinstance(chosen, Transform):
        raise InputError(
            f"transform must be a name or a Transform; got {chosen!r}. See oodometer transforms."
        )
    if dataset.kind not in chosen.kinds:
        fit = ", ".join(one.name for one in transforms.available() if dataset.kind in one.kinds)
        raise InputError(
            f"The transform {chosen.name!r} changes {' and '.join(chosen.kinds)}; the data "
            f"{dataset.name!r} are {dataset.kind}. For {dataset.kind} there are: {fit}."
        )
    if transform_data.kind != dataset.kind:
        raise InputError(
            f"The reference data are {transform_data.kind}, the data {dataset.kind}. "
            "Give reference data of the same kind."
        )
    if not _learns_from_data(chosen):
        return chosen
    some = sampling.shuffled_order(transform_data.keys, seed)[:MAX_LEARN_ROWS]
    return chosen.learn(transform_data.take(some))


def _learns_from_data(transform: Transform) -> bool:
    """Whether it has use for data; if not, thousands of images need not be read for it."""
    return type(transform).learn is not Transform.learn


def _settings_text(transform: Transform, reference: Dataset) -> str:
    """All that a draw hangs on besides the seed and the example."""
    learned = f", learned from {reference.fingerprint}" if _learns_from_data(transform) else ""
    return f"{transform!r}{learned}"


@dataclass(eq=False)
class _InvarianceRun:
    """Models, what they are shown, and what they have decided so far."""

    models: dict[str, Model]
    sampler: NeighborhoodSampler
    draws: int
    identity: bool
    progress: ProgressCallback | None
    batch_size: int
    threads: int
    runner: Runner | None
    settings: str
    counts: dict[str, DecisionCounts] = field(default_factory=dict)
    class_names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    first_decisions: dict[str, BatchDecisions] = field(default_factory=dict)
    n_drawn: int = 0
    n_classified: int = 0

    def start(self, resume: InvarianceResult | None) -> None:
        """Begin with nothing, or with what an earlier run left."""
        n = len(self.sampler.dataset)
        if resume is None:
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
        self.class_names = {one.model: one.class_names for one in resume}
        self.n_drawn, self.n_classified = (
            resume.sampling_cost.drawn,
            resume.sampling_cost.classified,
        )

    @property
    def _any_counts(self) -> DecisionCounts:
        """All models have seen the same."""
        return next(iter(self.counts.values()))

    def sample_until(
        self, precision: float | None, max_inputs: int | None
    ) -> tuple[float | None, bool]:
        """Look at neighborhoods until all are seen, or it is precise enough, or paid for."""
        dataset, seed = self.sampler.dataset, self.sampler.seed
        total = len(dataset) * (self.draws + 1)
        total = total if max_inputs is None else min(max_inputs, total)
        if precision is None and max_inputs is None:
            rounds = sampling.full_pass(len(dataset), self.draws)
        else:
            rounds = sampling.progressive_rounds(dataset.keys, self.draws, seed)
        seen = (self._any_counts.classes != results.MISSING_CLASS).sum(axis=1)
        with self._open_steps(sampling.plan_steps(rounds, total, seen, self.batch_size)) as (
            steps,
            answers,
        ):
            for step in steps:
                self._accumulate_step(answers(step), total)
                if step.is_last or (precision is not None and self._max_half_width() <= precision):
                    break
        return precision, precision is None or self._max_half_width() <= precision

    @contextmanager
    def _open_steps(
        self, steps: Iterator[SamplingStep]
    ) -> Iterator[tuple[Iterable[SamplingStep], StepResults]]:
        """The steps, and what models say in one after another: here, or by a runner."""
        if self.runner is None:
            yield steps, self._classify_step
            return
        from oodometer.neighborhood._decisions import (
            _SampleAndClassify,
            distributed_batches,
        )

        planned = list(steps)
        with distributed_batches(
            self.runner, _SampleAndClassify(self.models, self.sampler), planned
        ) as answers:
            yield planned, answers

    def _classify_step(self, step: SamplingStep) -> Generator[BatchResult, None, None]:
        # Whatever a model raises, and whoever interrupts it: no thread is left behind.
        with closing(prefetch(self.sampler.sample, step.batches, self.threads)) as batches:
            for shown in batches:
                yield classify_batch(self.models, shown)

    def _accumulate_step(
        self, batch_results: Generator[BatchResult, None, None], total: int
    ) -> None:
        """Write down what all models say of the batches of a step."""
        with closing(batch_results):
            for answered in batch_results:
                for name, heard in answered.decisions.items():
                    check_consistent_outputs(
                        self.first_decisions.setdefault(name, heard), heard, name
                    )
                    self.class_names[name] = heard.class_names
                    accumulate(self.counts[name], answered.round, heard)
                self.n_drawn += answered.round.size
                self.n_classified += answered.n_inputs
                if self.progress:
                    self.progress(self.n_drawn, total, "classifying")

    def _max_half_width(self) -> float:
        """The half-width of pa of the least sure model."""
        return max(one.mean_with_interval("pa").half_width for one in self._model_results())

    def _model_results(self) -> tuple[ModelInvariance, ...]:
        # An earlier run may have had one draw only, which is too few for pa where there are more.
        seen = np.flatnonzero(self._any_counts.n_draws >= min(sampling.FIRST_DRAWS, self.draws))
        return tuple(
            ModelInvariance(name, tally.rows(seen), seen, self.identity, self.class_names.get(name))
            for name, tally in self.counts.items()
        )

    def build_result(self, precision: float | None, reached: bool) -> InvarianceResult:
        """What came out."""
        dataset, transform = self.sampler.dataset, self.sampler.transform
        models = self._model_results()
        return InvarianceResult(
            data=dataset.name,
            fingerprint=dataset.fingerprint,
            n=len(dataset),
            transform=transform.name,
            label=transform.label,
            magnitude=transform.magnitude,
            draws=self.draws,
            identity=self.identity,
            seed=self.sampler.seed,
            skipped=len(getattr(dataset, "skipped", ())),
            sampling_cost=SamplingCost(
                len(models[0].positions), self.n_drawn, self.n_classified, precision, reached
            ),
            results=models,
            settings=self.settings,
        )
