"""Real shifts with known accuracy: one half selects a rule, the other half evaluates it.

FMoW-WILDS: five published models; the natural folds of `val` select, those of `test` evaluate. PACS
and reviews: the reference pools; every second pair of domains selects. Cases used for the selection
are never used for the evaluation. In-distribution cases, where a model is tested on its training
domain, show how often a diagnostic warns without a shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import oodometer
from benchmarks.studies import fmow
from oodometer.assessment.result import Assessment
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.parallel.runners import processes
from oodometer.studies import Study
from oodometer.studies import run as evaluate
from oodometer.studies.plan import StudyEvaluation, plan_study
from oodometer.studies.store import Store

Sides = tuple[Predictions, Predictions]
Half = Literal["choose", "judge", "home, choose", "home, judge"]
POOLS = Path(__file__).parent.parent / "pools"
# Rows per target; the true accuracy then has a standard error of about two points.
ROWS = 600
OTHER_MODELS = 4


@dataclass(frozen=True)
class ReferenceCase:
    """One model on one target: estimates, diagnostics and the true accuracy."""

    suite: str
    half: Half
    model: str
    pair: str
    truth: float
    source: float
    n: int
    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    diagnostics: dict[str, float]
    statuses: dict[str, str]
    headline: str

    def off(self, method: str) -> float:
        """Return estimate minus true accuracy."""
        return self.values[method] - self.truth

    def row(self) -> dict[str, Any]:
        """Return the values of a table row."""
        return {
            "suite": self.suite, "half": self.half, "model": self.model, "pair": self.pair,
            "truth": self.truth, "source": self.source, "n": self.n, **self.values,
            "headline": self.headline,
            **{f"diagnostic {name}": value for name, value in self.diagnostics.items()},
            **{f"status {name}": status for name, status in self.statuses.items()},
        }  # fmt: skip


def case(
    names: tuple[str, Half, str, str], source: Predictions, target: Predictions
) -> ReferenceCase:
    """Compute all estimates of one model on one target."""
    result: Assessment = oodometer.estimate(
        source,
        target,
        other_models=list(target.other_models) or None,
        other_models_on_source=list(source.other_models) or None,
    )
    return ReferenceCase(
        *names,
        truth=float(target.correct.mean()),
        source=result.source_accuracy,
        n=target.n,
        values={estimate.method: estimate.value for estimate in result.estimates},
        intervals={e.method: (e.low, e.high) for e in result.estimates
                   if e.low is not None and e.high is not None},
        diagnostics={diagnostic.name: diagnostic.value for diagnostic in result.diagnostics},
        statuses={diagnostic.name: diagnostic.status for diagnostic in result.diagnostics},
        headline=result.headline.estimate.method,
    )  # fmt: skip


def all_cases(data: Path, progress: ProgressCallback | None = None) -> list[ReferenceCase]:
    """Compute the cases of all suites."""
    cases = list(fmow_cases(data / "outputs" / "wilds_fmow_signals.npz"))
    for suite, spec in (("pacs", {"split": "all"}), ("sentiment", {})):
        table = {"name": f"headline-{suite}", "pools": [str(POOLS / f"{suite}.toml")], **spec,
                 "estimators": ["ac"], "rows": ROWS, "source_rows": ROWS}  # fmt: skip
        cases += study_cases(suite, Study.open(table, data=data), progress)
    return cases


def fmow_cases(path: Path) -> Iterator[ReferenceCase]:
    """Yield five models on the folds of `val` (selection), `test` (evaluation) and in distribution."""
    archive = fmow.load(path)
    halves: dict[str, Half] = {"val": "choose", "test": "judge"}
    for model in fmow.models_of(archive):
        source = fmow.read(archive, model, "id_val", None)
        for split in fmow.SPLITS:
            for place, fold in enumerate(fmow.folds_of(archive, split)):
                half = halves.get(split) or _home(place)
                target = fmow.read(archive, model, split, archive[fold])
                yield case(("fmow", half, model, fold.removeprefix("fold/")), source, target)


def _home(place: int) -> Half:
    return "home, judge" if place % 2 else "home, choose"


def study_cases(
    suite: str, study: Study, progress: ProgressCallback | None
) -> Iterator[ReferenceCase]:
    """Yield every model of a study on every domain, with models of the same pair as other models."""
    folder = Path("studies") / study.name
    ran = evaluate(study, folder, runner=processes(2), progress=progress)
    if ran.failed:
        raise SystemExit(f"{len(ran.failed)} failed: {next(iter(ran.failed.values()))}")
    pairs: dict[str, list[StudyEvaluation]] = {}
    for evaluation in plan_study(study).evaluations:
        pairs.setdefault(_pair(evaluation), []).append(evaluation)
    halves = _halves(pairs)
    with Store.open(folder) as store:
        reader = _PredictionReader(store)
        for number, name in enumerate(sorted(pairs)):
            if progress:
                progress(number, len(pairs), f"{suite}: estimates")
            sides = [reader.source_and_target(evaluation) for evaluation in pairs[name]]
            for index, evaluation in enumerate(pairs[name]):
                names = suite, halves[name], evaluation.unit.model.name, name
                yield case(names, *_with_other_models(sides, index))


def _halves(pairs: dict[str, list[StudyEvaluation]]) -> dict[str, Half]:
    """Assign every second pair to the selection, out of distribution and in distribution."""
    in_distribution = sorted(
        name
        for name, evaluations in pairs.items()
        if evaluations[0].unit.rows.name in evaluations[0].unit.model.trained_on
    )
    shifted = sorted(set(pairs) - set(in_distribution))
    halves: dict[str, Half] = {name: _home(index) for index, name in enumerate(in_distribution)}
    return halves | {name: "judge" if index % 2 else "choose" for index, name in enumerate(shifted)}


def _with_other_models(sides: Sequence[Sides], index: int) -> Sides:
    """Attach the predictions of the next models of the same pair."""
    n_others = min(OTHER_MODELS, len(sides) - 1)
    others = [sides[(index + step) % len(sides)] for step in range(1, n_others + 1)]
    source, target = sides[index]
    return (
        source.with_other_models(*(other_source for other_source, _ in others)),
        target.with_other_models(*(other_target for _, other_target in others)),
    )


def _pair(evaluation: StudyEvaluation) -> str:
    unit = evaluation.unit
    return f"{' + '.join(unit.model.trained_on)} → {unit.rows.name}"


class _PredictionReader:
    """Predictions of a study, read from its store."""

    def __init__(self, store: Store) -> None:
        self.arrays = store.array_store
        self.references = store.prediction_references()

    def source_and_target(self, evaluation: StudyEvaluation) -> Sides:
        """Return the predictions on the single source domain and on the target."""
        (source,) = evaluation.sources
        return self._read(source), self._read(evaluation.unit)

    def _read(self, unit: Any) -> Predictions:
        return self.references[unit.pair].read(self.arrays)
