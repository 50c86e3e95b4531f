"""Signal-to-noise ratios of measures on some networks of a study (DG Table 1).

The measures are computed on the rows that the study uses, and on random subsets of 80 % of them.
The result of each network is a file, so that an interrupted computation continues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from oodometer.core.stats import rng_for
from oodometer.measures import measure
from oodometer.studies import Study
from oodometer.studies.plan import StudyEvaluation, plan_study
from oodometer.studies.splits import sample_rows

MODELS = 10
SUBSAMPLES = 20
NoiseRatios = dict[str, dict[str, float]]


def noise_ratios(
    study: Study, folder: Path, measures: Sequence[str], *, measure_rows: int
) -> NoiseRatios:
    """Return |mean| / sd over subsets by network and measure, for ten networks drawn at random.

    Ratios that are undefined, because all subsets give the same value, are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ratios = {}
    for evaluation in draw_evaluations(plan_study(study).evaluations, seed=study.seed):
        path = folder / f"{evaluation.unit.model.name}.json"
        if not path.exists():
            path.write_text(
                json.dumps(_measure_noise(evaluation, measures, measure_rows, study.seed))
            )
        ratios[evaluation.unit.model.name] = json.loads(path.read_text())
    return ratios


def draw_evaluations(
    evaluations: Sequence[StudyEvaluation], *, count: int = MODELS, seed: int = 0
) -> list[StudyEvaluation]:
    """Draw ERM networks on the domain that they have not seen; the draw depends on their names."""
    unseen = [
        one
        for one in evaluations
        if one.unit.rows.name not in one.unit.model.trained_on
        and not one.unit.model.recipe.get("coral")
    ]
    unseen.sort(key=lambda one: rng_for(seed, "noise", one.unit.model.name).random())
    return unseen[:count]


def _measure_noise(
    evaluation: StudyEvaluation, measures: Sequence[str], measure_rows: int, seed: int
) -> dict[str, float]:
    target = evaluation.unit.rows.dataset()
    result = measure(
        evaluation.unit.model.load(),
        {unit.rows.domain.name: unit.rows.dataset() for unit in evaluation.sources},
        target.rows(sample_rows(target.keys, measure_rows, seed)),
        measures=list(measures),
        subsamples=SUBSAMPLES,
        seed=seed,
    )
    ratios = {name: noise.signal_to_noise for name, noise in result.noise.items()}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None}
