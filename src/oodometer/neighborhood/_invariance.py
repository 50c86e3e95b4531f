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
from oodometer.core.protocols import Dataset, Model, Progress, Transform
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.inference import check_alike
from oodometer.neighborhood import _invariance_measures, sampling
from oodometer.neighborhood._decisions import Answered, Heard, asked, record
from oodometer.neighborhood._neighborhood_sampler import Show, ahead
from oodometer.neighborhood.results import Effort, Invariance, Neighborhoods, Tally
from oodometer.neighborhood.sampling import Step

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# What a transform learns from (a vocabulary, the columns) is learned from so many rows.
LEARN_FROM = 20_000

Answers = Callable[[Step], Generator[Answered, None, None]]


def invariance(  # noqa: PLR0913 - the main door; all but the data are options
    models: Any,
    data: Any,
    transform: str | Transform | None = None,
    *,
    draws: int = 10,
    identity: bool = True,
    precision: float | None = None,
    budget: int | None = None,
    reference: Any = None,
    seed: int = 0,
    batch: int | None = None,
    threads: int = 1,
    runner: Runner | None = None,
    resume: Neighborhoods | None = None,
    progress: Progress | None = None,
) -> Neighborhoods:
    """How invariant the decisions of models are in the neighborhoods of unlabelled data.

    `models` is anything that `as_model` opens, a list of such, or a mapping from names; `data`
    anything that `as_dataset` opens; `transform` a name or a Transform, by default the usual one of
    the data's kind. Every example is shown with `draws` transformed copies; `identity` says whether
    the example itself has a vote. With `precision` (the half-width wanted of pa) or `budget`
    (inputs drawn, those of an earlier run too) only as much is looked at as that takes; `resume`
    goes on from an earlier result of the same run, with as many draws or more. A transform that
    learns (a vocabulary, the columns) does so from `reference`, or else from the data. Transforming
    is done by `threads` beside the models (0: in turn with them), or all of it by the workers of a
    `runner`, with one thread each; neither they nor `batch` nor the order of the data change the
    result.
    """
    sampling.check_wishes(draws, precision, budget, identity=identity, batch=batch)
    opened, dataset = opened_models(models), as_dataset(data)
    known = dataset if reference is None else as_dataset(reference)
    show = Show(dataset, ready_transform(transform, dataset, known, seed), seed)
    run = _Run(opened, show, draws, identity, progress, batch or show.rows(), threads, runner,
               _settings(show.transform, known))  # fmt: skip
    if not isinstance(resume, Neighborhoods | None):
        raise InputError(f"resume must be what invariance gave before; got {resume!r}.")
    run.start(resume)
    return run.result(*run.spend(precision, budget))


def opened_models(models: Any) -> dict[str, Model]:
    """Models by name; a name that stands twice is given a number."""
    several = isinstance(models, Mapping | Sequence) and not isinstance(models, str)
    if several and not len(models):
        raise InputError("There are no models; at least one was expected.")
    if isinstance(models, Mapping):
        return {name: _renamed(thing, name) for name, thing in models.items()}
    found: dict[str, Model] = {}
    for thing in models if several else [models]:
        model = as_model(thing)
        number, name = 2, model.name
        while name in found:
            name, number = f"{model.name} ({number})", number + 1
        found[name] = model
    return found


def _renamed(thing: Any, name: str) -> Model:
    """What is a model already goes by the name it is given here."""
    return thing if isinstance(thing, Model) else as_model(thing, name=name)


def ready_transform(
    transform: str | Transform | None, dataset: Dataset, known: Dataset, seed: int
) -> Transform:
    """The transform asked for, fit for the data, having learned what it needs from the known."""
    if transform is None:
        transform = transforms.USUAL[dataset.kind]
    chosen = transforms.named(transform) if isinstance(transform, str) else transform
    if not isinstance(chosen, Transform):
        raise InputError(
            f"transform must be a name or a Transform; got {chosen!r}. See oodometer transforms."
        )
    if dataset.kind not in chosen.kinds:
        fit = ", ".join(one.name for one in transforms.every() if dataset.kind in one.kinds)
        raise InputError(
            f"The transform {chosen.name!r} changes {' and '.join(chosen.kinds)}; the data "
            f"{dataset.name!r} are {dataset.kind}. For {dataset.kind} there are: {fit}."
        )
    if known.kind != dataset.kind:
        raise InputError(
            f"The reference data are {known.kind}, the data {dataset.kind}. "
            "Give reference data of the same kind."
        )
    if not _learns(chosen):
        return chosen
    some = sampling.visiting_order(known.keys, seed)[:LEARN_FROM]
    return chosen.learn(known.take(some))


def _learns(transform: Transform) -> bool:
    """Whether it has use for data; if not, thousands of images need not be read for it."""
    return type(transform).learn is not Transform.learn


def _settings(transform: Transform, known: Dataset) -> str:
    """All that a draw hangs on besides the seed and the example."""
    learned = f", learned from {known.fingerprint}" if _learns(transform) else ""
    return f"{transform!r}{learned}"


@dataclass(eq=False)
class _Run:
    """Models, what they are shown, and what they have decided so far."""

    models: dict[str, Model]
    show: Show
    draws: int
    identity: bool
    progress: Progress | None
    batch: int
    threads: int
    runner: Runner | None
    settings: str
    tallies: dict[str, Tally] = field(default_factory=dict)
    class_names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    first: dict[str, Heard] = field(default_factory=dict)
    drawn: int = 0
    classified: int = 0

    def start(self, resume: Neighborhoods | None) -> None:
        """Begin with nothing, or with what an earlier run left."""
        n = len(self.show.dataset)
        if resume is None:
            self.tallies = {name: Tally.empty(n, self.draws) for name in self.models}
            return
        resume.check_same(
            {
                "models": tuple(self.models),
                "fingerprint": self.show.dataset.fingerprint,
                "transform": self.show.transform.name,
                "magnitude": self.show.transform.magnitude,
                "identity": self.identity,
                "seed": self.show.seed,
                "settings": self.settings,
            }
        )
        self.draws = max(self.draws, resume.draws)
        self.tallies = dict(zip(self.models, resume.tallies(self.draws), strict=True))
        self.class_names = {one.model: one.class_names for one in resume}
        self.drawn, self.classified = resume.effort.drawn, resume.effort.classified

    @property
    def _any(self) -> Tally:
        """All models have seen the same."""
        return next(iter(self.tallies.values()))

    def spend(self, precision: float | None, budget: int | None) -> tuple[float | None, bool]:
        """Look at neighborhoods until all are seen, or it is precise enough, or paid for."""
        dataset, seed = self.show.dataset, self.show.seed
        total = len(dataset) * (self.draws + 1)
        total = total if budget is None else min(budget, total)
        if precision is None and budget is None:
            rounds = sampling.everything(len(dataset), self.draws)
        else:
            rounds = sampling.by_rounds(dataset.keys, self.draws, seed)
        seen = (self._any.classes != _invariance_measures.MISSING).sum(axis=1)
        with self._asking(sampling.steps(rounds, total, seen, self.batch)) as (steps, answers):
            for step in steps:
                self._look(answers(step), total)
                if step.last or (precision is not None and self._widest() <= precision):
                    break
        return precision, precision is None or self._widest() <= precision

    @contextmanager
    def _asking(self, steps: Iterator[Step]) -> Iterator[tuple[Iterable[Step], Answers]]:
        """The steps, and what models say in one after another: here, or by a runner."""
        if self.runner is None:
            yield steps, self._here
            return
        from oodometer.neighborhood._distributed_decisions import Showing, asking

        planned = list(steps)
        with asking(self.runner, Showing(self.models, self.show), planned) as answers:
            yield planned, answers

    def _here(self, step: Step) -> Generator[Answered, None, None]:
        # Whatever a model raises, and whoever interrupts it: no thread is left behind.
        with closing(ahead(self.show.make, step.portions, self.threads)) as batches:
            for shown in batches:
                yield asked(self.models, shown)

    def _look(self, answers: Generator[Answered, None, None], total: int) -> None:
        """Write down what all models say of the batches of a step."""
        with closing(answers):
            for answered in answers:
                for name, heard in answered.heard.items():
                    check_alike(self.first.setdefault(name, heard), heard, name)
                    self.class_names[name] = heard.class_names
                    record(self.tallies[name], answered.round, heard)
                self.drawn += answered.round.size
                self.classified += answered.inputs
                if self.progress:
                    self.progress(self.drawn, total, "classifying")

    def _widest(self) -> float:
        """The half-width of pa of the least sure model."""
        return max(one.reading("pa").half_width for one in self._results())

    def _results(self) -> tuple[Invariance, ...]:
        # An earlier run may have had one draw only, which is too few for pa where there are more.
        seen = np.flatnonzero(self._any.drawn >= min(sampling.FIRST_DRAWS, self.draws))
        return tuple(
            Invariance(name, tally.rows(seen), seen, self.identity, self.class_names.get(name))
            for name, tally in self.tallies.items()
        )

    def result(self, wanted: float | None, reached: bool) -> Neighborhoods:
        """What came out."""
        dataset, transform = self.show.dataset, self.show.transform
        models = self._results()
        return Neighborhoods(
            data=dataset.name,
            fingerprint=dataset.fingerprint,
            n=len(dataset),
            transform=transform.name,
            label=transform.label,
            magnitude=transform.magnitude,
            draws=self.draws,
            identity=self.identity,
            seed=self.show.seed,
            skipped=len(getattr(dataset, "skipped", ())),
            effort=Effort(len(models[0].positions), self.drawn, self.classified, wanted, reached),
            results=models,
            settings=self.settings,
        )
