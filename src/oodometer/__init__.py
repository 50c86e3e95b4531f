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

from oodometer.errors import InputError, MissingExtra, NoAnswer, OodometerError, UnknownName

if TYPE_CHECKING:
    from oodometer.assess import estimate
    from oodometer.assessment import Assessment
    from oodometer.core import Estimate, Estimator, Score
    from oodometer.datasets import as_dataset
    from oodometer.evaluation import evaluate
    from oodometer.files import read_predictions
    from oodometer.history import History
    from oodometer.labelling import planned_labels
    from oodometer.measuring import measure
    from oodometer.models import as_model
    from oodometer.neighborhood import invariance
    from oodometer.predictions import Predictions
    from oodometer.protocol.judged import judge
    from oodometer.ranking import rank
    from oodometer.streaming import estimate_files
    from oodometer.studies import Study
    from oodometer.suitability import suggest_transforms

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
    "Assessment": "assessment",
    "Estimate": "core",
    "Estimator": "core",
    "History": "history",
    "Predictions": "predictions",
    "Score": "core",
    "Study": "studies",
    "as_dataset": "datasets",
    "as_model": "models",
    "estimate": "assess",
    "estimate_files": "streaming",
    "evaluate": "evaluation",
    "invariance": "neighborhood",
    "judge": "protocol.judged",
    "measure": "measuring",
    "planned_labels": "labelling",
    "rank": "ranking",
    "read_predictions": "files",
    "suggest_transforms": "suitability",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'oodometer' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"oodometer.{_LATER[name]}"), name)
    return found
