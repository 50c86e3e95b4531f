"""Line from a measure to accuracy, fitted to models of known accuracy (Ng et al., TMLR 2023, 4.3).

A measure that ranks models assumes that its line rises. If the line falls, or if it rises only
because of a single model, notes say so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.stats import Line, least_squares_line


def fit_accuracy_line(values: Mapping[str, float], accuracies: Mapping[str, float]) -> Line:
    """Return the least-squares line through the models of known accuracy.

    >>> line = fit_accuracy_line({"a": 0.5, "b": 0.75, "c": 1.0}, {"a": 0.25, "b": 0.5, "c": 0.75})
    >>> line(0.75)
    0.5
    """
    return least_squares_line([values[name] for name in accuracies], list(accuracies.values()))


def accuracy_line_notes(
    measure: str, values: Mapping[str, float], accuracies: Mapping[str, float]
) -> tuple[str, ...]:
    """Return notes on a line that falls, or whose direction depends on a single model.

    >>> values, accuracies = {"a": 0.5, "b": 0.75, "c": 1.0}, {"a": 0.75, "b": 0.5, "c": 0.25}
    >>> accuracy_line_notes("NI", values, accuracies)[0][:52]
    'the line through the 3 known accuracies falls: on th'
    """
    x = np.array([values[name] for name in accuracies])
    y = np.array(list(accuracies.values()))
    is_falling = _slope_sign(x, y) < 0
    notes = []
    if is_falling:
        notes.append(
            f"the line through the {len(y)} known accuracies falls: on these data, models with a "
            f"higher {measure} are less accurate. This is contrary to the assumption of the "
            "measure; do not rely on the order or on the predicted accuracies"
        )
    deciding = _deciding_models(x, y, tuple(accuracies))
    if deciding:
        direction = "rises" if is_falling else "does not rise"
        notes.append(
            f"the direction of the line through the {len(y)} known accuracies is uncertain: it "
            f"{direction} without {' or without '.join(deciding)}. Add models of known accuracy"
        )
    return tuple(notes)


def _slope_sign(x: Floats, y: Floats) -> int:
    """Return the sign of the slope of the least-squares line; 0 if it is flat or undefined."""
    slope = float((x - x.mean()) @ (y - y.mean()))
    return int(np.sign(slope)) if abs(slope) > 1e-12 else 0


def _deciding_models(x: Floats, y: Floats, names: tuple[str, ...]) -> list[str]:
    """Return the models without which the slope of the line has another sign."""
    sign = _slope_sign(x, y)
    return [
        name
        for j, name in enumerate(names)
        if np.ptp(np.delete(x, j)) > 0 and _slope_sign(np.delete(x, j), np.delete(y, j)) != sign
    ]
