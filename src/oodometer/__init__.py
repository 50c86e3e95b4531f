"""How accurate is a classifier on data that has no labels?

>>> import oodometer
>>> source = oodometer.Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
>>> target = oodometer.Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]])
>>> oodometer.estimate(source, target, methods=["doc"], temperature=None).headline.estimate.value
0.4
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from oodometer.core.errors import InputError, MissingExtra, NoAnswer, OodometerError, UnknownName

if TYPE_CHECKING:
    from oodometer.assessment._estimate import estimate
    from oodometer.assessment.conformal_interval import History
    from oodometer.assessment.labeling_plan import planned_labels
    from oodometer.assessment.result import Assessment
    from oodometer.assessment.streaming import estimate_files
    from oodometer.core.predictions import Predictions
    from oodometer.core.protocols import Estimate, Estimator, Score
    from oodometer.data import as_dataset
    from oodometer.data.prediction_files import read_predictions
    from oodometer.measures._measure import measure
    from oodometer.metrics._evaluate import evaluate
    from oodometer.models import as_model
    from oodometer.neighborhood._invariance import invariance
    from oodometer.neighborhood.ranking import rank
    from oodometer.neighborhood.suitability import suggest_transforms
    from oodometer.studies import Study
    from oodometer.studies.analysis._compare_measures import judge

__version__ = "0.1.0"

__all__ = [
    "Assessment",
    "Estimate",
    "Estimator",
    "History",
    "InputError",
    "MissingExtra",
    "NoAnswer",
    "OodometerError",
    "Predictions",
    "Score",
    "Study",
    "UnknownName",
    "__version__",
    "as_dataset",
    "as_model",
    "estimate",
    "estimate_files",
    "evaluate",
    "invariance",
    "judge",
    "measure",
    "planned_labels",
    "rank",
    "read_predictions",
    "suggest_transforms",
]

# Each is imported when it is first asked for: who wants one has no need to wait for all.
_LATER = {
    "Assessment": "assessment.result",
    "Estimate": "core.protocols",
    "Estimator": "core.protocols",
    "History": "assessment.conformal_interval",
    "Predictions": "core.predictions",
    "Score": "core.protocols",
    "Study": "studies",
    "as_dataset": "data",
    "as_model": "models",
    "estimate": "assessment._estimate",
    "estimate_files": "assessment.streaming",
    "evaluate": "metrics._evaluate",
    "invariance": "neighborhood._invariance",
    "judge": "studies.analysis._compare_measures",
    "measure": "measures._measure",
    "planned_labels": "assessment.labeling_plan",
    "rank": "neighborhood.ranking",
    "read_predictions": "data.prediction_files",
    "suggest_transforms": "neighborhood.suitability",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'oodometer' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"oodometer.{_LATER[name]}"), name)
    return found
