"""Real shifts whose truth is known, to choose a rule on one half of and to judge it on the other.

FMoW-WILDS: five published models; the natural folds of `val` choose, those of `test` judge. PACS and
reviews: the reference pools; of all pairs of domains every second one chooses. What chose a rule
never judges it. Where a model is tested on what it learned nothing has shifted: these cases tell
how often a sign of trouble is luck.
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
POOLS = Path(__file__).parent / "pools"
# Fewer rows of a target than all: the truth is then known to about two points.
ROWS = 600
PEERS = 4


@dataclass(frozen=True)
class Case:
    """A model on a target: what was said of it, and what is true."""

    suite: str
    half: Half
    model: str
    pair: str
    truth: float
    source: float
    n: int
    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    signs: dict[str, float]
    statuses: dict[str, str]
    headline: str

    def off(self, method: str) -> float:
        """Estimate minus truth."""
        return self.values[method] - self.truth

    def row(self) -> dict[str, Any]:
        """Plain values, for a table."""
        return {
            "suite": self.suite, "half": self.half, "model": self.model, "pair": self.pair,
            "truth": self.truth, "source": self.source, "n": self.n, **self.values,
            "headline": self.headline,
            **{f"sign {name}": value for name, value in self.signs.items()},
            **{f"status {name}": status for name, status in self.statuses.items()},
        }  # fmt: skip


def case(names: tuple[str, Half, str, str], source: Predictions, target: Predictions) -> Case:
    """All estimates of one model on one target."""
    found: Assessment = oodometer.estimate(
        source,
        target,
        other_models=list(target.other_models) or None,
        other_models_on_source=list(source.other_models) or None,
    )
    return Case(
        *names,
        truth=float(target.correct.mean()),
        source=found.source_accuracy,
        n=target.n,
        values={one.method: one.value for one in found.estimates},
        intervals={e.method: (e.low, e.high) for e in found.estimates
                   if e.low is not None and e.high is not None},
        signs={one.name: one.value for one in found.diagnostics},
        statuses={one.name: one.status for one in found.diagnostics},
        headline=found.headline.estimate.method,
    )  # fmt: skip


def every(data: Path, progress: ProgressCallback | None = None) -> list[Case]:
    """The cases of all suites."""
    found = list(fmow_cases(data / "outputs" / "wilds_fmow_signals.npz"))
    for suite, spec in (("pacs", {"split": "all"}), ("sentiment", {})):
        table = {"name": f"headline-{suite}", "pools": [str(POOLS / f"{suite}.toml")], **spec,
                 "estimators": ["ac"], "rows": ROWS, "source_rows": ROWS}  # fmt: skip
        found += study_cases(suite, Study.open(table, data=data), progress)
    return found


def fmow_cases(path: Path) -> Iterator[Case]:
    """Five models on the folds of `val` (which choose), of `test` (which judge) and at home."""
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


def study_cases(suite: str, study: Study, progress: ProgressCallback | None) -> Iterator[Case]:
    """Every model of a study on every domain that it has not learned, its siblings as peers."""
    folder = Path("studies") / study.name
    ran = evaluate(study, folder, runner=processes(2), progress=progress)
    if ran.failed:
        raise SystemExit(f"{len(ran.failed)} failed: {next(iter(ran.failed.values()))}")
    pairs: dict[str, list[StudyEvaluation]] = {}
    for one in plan_study(study).evaluations:
        pairs.setdefault(_pair(one), []).append(one)
    halves = _halves(pairs)
    with Store.open(folder) as store:
        desk = _Desk(store)
        for number, name in enumerate(sorted(pairs)):
            if progress:
                progress(number, len(pairs), f"{suite}: estimates")
            sides = [desk.sides(one) for one in pairs[name]]
            for place, one in enumerate(pairs[name]):
                names = suite, halves[name], one.unit.model.name, name
                yield case(names, *_with_peers(sides, place))


def _halves(pairs: dict[str, list[StudyEvaluation]]) -> dict[str, Half]:
    """Every second of the pairs of different domains chooses, and so does every second home."""
    home = sorted(name for name, some in pairs.items()
                  if some[0].unit.rows.name in some[0].unit.model.trained_on)  # fmt: skip
    away = sorted(set(pairs) - set(home))
    found: dict[str, Half] = {name: _home(place) for place, name in enumerate(home)}
    return found | {name: "judge" if place % 2 else "choose" for place, name in enumerate(away)}


def _with_peers(sides: Sequence[Sides], place: int) -> Sides:
    """What a model says of both sides, and what some of its siblings do."""
    others = [sides[(place + step) % len(sides)] for step in range(1, min(PEERS + 1, len(sides)))]
    source, target = sides[place]
    return (
        source.with_other_models(*(known for known, _ in others)),
        target.with_other_models(*(new for _, new in others)),
    )


def _pair(one: StudyEvaluation) -> str:
    return f"{' + '.join(one.unit.model.trained_on)} → {one.unit.rows.name}"


class _Desk:
    """Predictions of a study, read as they are asked for."""

    def __init__(self, store: Store) -> None:
        self.shelf, self.references = store.array_store, store.prediction_references()

    def sides(self, one: StudyEvaluation) -> Sides:
        """Of a model's source, which is one domain, and of its target."""
        (source,) = one.sources
        return self._read(source), self._read(one.unit)

    def _read(self, unit: Any) -> Predictions:
        return self.references[unit.pair].read(self.shelf)
