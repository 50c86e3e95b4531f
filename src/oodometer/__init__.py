"""How accurate is a classifier on data that has no labels?

>>> import oodometer
>>> source = oodometer.Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
>>> target = oodometer.Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]])
>>> oodometer.estimate(source, target, methods=["doc"], temperature=None).headline.estimate.value
0.4
"""

from oodometer.assess import estimate
from oodometer.assessment import Assessment
from oodometer.core import Estimate, Estimator
from oodometer.errors import InputError, MissingExtra, NoAnswer, OodometerError, UnknownName
from oodometer.files import read_predictions
from oodometer.predictions import Predictions

__version__ = "0.1.0"

__all__ = [
    "Assessment",
    "Estimate",
    "Estimator",
    "InputError",
    "MissingExtra",
    "NoAnswer",
    "OodometerError",
    "Predictions",
    "UnknownName",
    "__version__",
    "estimate",
    "read_predictions",
]
