"""Comparison of the class frequencies that several models predict on the same unlabelled rows.

A model that assigns nearly all rows to one class changes its decisions rarely, so measures of
invariance rank it high however wrong it is. Without labels, such a model shows only in the
comparison with other models: the frequencies of its predicted classes differ from theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.results import Diagnostic, status_by_limits
from oodometer.core.stats import rng_for
from oodometer.neighborhood.results import InvarianceResult

DIAGNOSTIC_NAME = "class_frequency_difference"
# Smallest difference, beyond sampling noise, with status "warning" and with status "critical"
# (docs/results/quality_ranking.md).
STATUS_LIMITS = (0.1, 0.2)
# The distance that sampling noise explains is this quantile of bootstrap replicates: the value of a
# model whose true frequencies equal those of the other models is above 0 in at most about 1 % of
# the datasets.
NOISE_QUANTILE = 0.99
N_REPLICATES = 400


@dataclass(frozen=True, eq=False)
class PredictedClasses:
    """Predicted classes of several models on the same rows, with common class numbers.

    Parameters
    ----------
    models : tuple of str
        Names of the models.
    classes : numpy.ndarray
        Class numbers of shape (models, rows).
    class_names : tuple of str
        Name of each class.

    Examples
    --------
    >>> rows = PredictedClasses.align({"a": [0, 1], "b": [0, 0]}, {"a": ("x", "y"), "b": ("y", "x")})
    >>> rows.class_names, rows.classes.tolist()
    (('x', 'y'), [[0, 1], [1, 1]])
    """

    models: tuple[str, ...]
    classes: Ints
    class_names: tuple[str, ...]

    @classmethod
    def align(
        cls,
        classes: Mapping[str, Sequence[int] | Ints],
        class_names: Mapping[str, tuple[str, ...] | None],
    ) -> PredictedClasses | None:
        """Return the classes with common numbers; None if the classes cannot be compared.

        Classes are compared by name if the names of the models differ, and by number otherwise.
        They cannot be compared if the names differ and some models have no names.
        """
        rows = {name: np.asarray(numbers) for name, numbers in classes.items()}
        distinct = set(class_names.values())
        if len(distinct - {None}) > 1:
            if None in distinct:
                return None
            union = tuple(dict.fromkeys(name for names in distinct for name in names or ()))
            positions = {name: number for number, name in enumerate(sorted(union))}
            rows = {
                model: np.array([positions[name] for name in class_names[model] or ()])[numbers]
                for model, numbers in rows.items()
            }
            return cls(tuple(rows), np.stack(list(rows.values())), tuple(sorted(union)))
        stacked = np.stack(list(rows.values()))
        names = next(iter(distinct - {None}), None)
        return cls(tuple(rows), stacked, names or tuple(map(str, range(int(stacked.max()) + 1))))

    @classmethod
    def from_neighborhoods(cls, result: InvarianceResult) -> PredictedClasses | None:
        """Return the classes of the unchanged examples, or None if they cannot be compared."""
        return cls.align(
            {model.model: model.counts.classes[:, 0] for model in result},
            {model.model: model.class_names for model in result},
        )

    def sorted_rows(self) -> PredictedClasses:
        """Return the same rows, sorted by their classes, so that their order has no effect."""
        return replace(self, classes=self.classes[:, np.lexsort(self.classes)])

    def frequencies(self, rows: Ints | slice = slice(None)) -> Floats:
        """Return the frequencies of the classes in selected rows, of shape (models, classes)."""
        k = len(self.class_names)
        selected = self.classes[:, rows]
        offsets = k * np.arange(len(self.models))[:, None]
        counts = np.bincount((selected + offsets).ravel(), minlength=k * len(self.models))
        return np.asarray(counts.reshape(len(self.models), k) / selected.shape[1])


def differences_from_median(frequencies: Floats) -> Floats:
    """Return each model's class frequencies minus the median over all models.

    The median is taken per class and divided by the sum of the medians, so that it sums to 1. If all
    medians are 0, the mean is used instead. The model itself is included: among three models, the
    median of the two others would be their mean, so one unusual model would make the others unusual.

    >>> differences_from_median(np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])).tolist()
    [[0.5, -0.5], [0.0, 0.0], [0.0, 0.0]]
    """
    center = np.median(frequencies, axis=0)
    total = center.sum()
    return np.asarray(frequencies - (center / total if total > 0 else frequencies.mean(axis=0)))


def total_variation(differences: Floats) -> Floats:
    """Return half the sum of the absolute differences per row.

    >>> total_variation(np.array([[0.25, -0.25], [0.0, 0.0]]))
    array([0.25, 0.  ])
    """
    return np.asarray(np.abs(differences).sum(axis=-1) / 2)


def noise_of_distances(predicted: PredictedClasses, seed: int) -> Floats:
    """Return, for each model, the distance from the median that sampling noise explains.

    Each replicate resamples the same rows for all models. The noise of a replicate is the total
    variation distance between its differences and those of the original rows; the result is the
    99 % quantile of the replicates.
    """
    rng = rng_for(seed, "class frequencies")
    predicted = predicted.sorted_rows()
    n = int(predicted.classes.shape[1])
    observed = differences_from_median(predicted.frequencies())
    replicates = []
    for _ in range(N_REPLICATES):
        rows = rng.integers(0, n, size=n)
        differences = differences_from_median(predicted.frequencies(rows))
        replicates.append(total_variation(differences - observed))
    return np.asarray(np.quantile(np.stack(replicates), NOISE_QUANTILE, axis=0))


def class_frequency_diagnostics(
    predicted: PredictedClasses, *, seed: int
) -> tuple[Diagnostic, ...]:
    """Compare each model's predicted class frequencies with those of the other models.

    The value of a model is the total variation distance between its predicted class frequencies and
    the median over all models (per class, renormalized), minus the distance that sampling noise
    explains (`noise_of_distances`), and at least 0. The status is warning from 0.1 on and
    critical from 0.2 on.

    Parameters
    ----------
    predicted : PredictedClasses
        Predicted classes of the models on the same rows.
    seed : int
        Random seed of the bootstrap.

    Returns
    -------
    tuple of Diagnostic
        One diagnostic per model; empty if there are fewer than three models, because the
        difference between two models does not show which of them is unusual.

    Examples
    --------
    >>> classes = {"a": [0] * 100, "b": [0, 1] * 50, "c": [0, 1] * 50}
    >>> predicted = PredictedClasses.align(classes, dict.fromkeys(classes))
    >>> [diagnostic.status for diagnostic in class_frequency_diagnostics(predicted, seed=0)]
    ['critical', 'ok', 'ok']
    """
    if len(predicted.models) < 3:
        return ()
    frequencies = predicted.frequencies()
    distances = total_variation(differences_from_median(frequencies))
    noise = noise_of_distances(predicted, seed)
    return tuple(
        _diagnostic(predicted, j, float(distances[j]), float(noise[j]))
        for j in range(len(predicted.models))
    )


def _diagnostic(
    predicted: PredictedClasses, model: int, distance: float, noise: float
) -> Diagnostic:
    excess = max(distance - noise, 0.0)
    return Diagnostic(
        DIAGNOSTIC_NAME,
        excess,
        status_by_limits(excess, *STATUS_LIMITS),
        f"{_describe_top_class(predicted, model)}; the total variation distance between its "
        f"predicted class frequencies and the median of the models is {distance:.2f}, of which "
        f"sampling noise explains up to {noise:.2f}",
        "look at examples on which it differs from the other models, or label some examples, before "
        "you choose it",
    )


def _describe_top_class(predicted: PredictedClasses, model: int) -> str:
    """Describe the share of a model's most predicted class and its share in the other models."""
    frequencies = predicted.frequencies()
    top = int(frequencies[model].argmax())
    others = np.delete(frequencies[:, top], model)
    low, high = (f"{100 * share:.1f}" for share in (others.min(), others.max()))
    return (
        f"it assigns {100 * frequencies[model, top]:.1f} % of the examples to class "
        f"{predicted.class_names[top]}, the other models {low if low == high else f'{low} to {high}'} %"
    )


def two_model_note(predicted: PredictedClasses, *, seed: int) -> str:
    """Describe the difference between two models; empty if there is no warning.

    The note does not name one of the models as unusual.

    >>> classes = {"a": [0] * 100, "b": [0, 1] * 50}
    >>> predicted = PredictedClasses.align(classes, {"a": ("x", "y"), "b": ("x", "y")})
    >>> two_model_note(predicted, seed=0)[:68]
    'a assigns 100.0 % of the examples to class x and b assigns 50.0 % of'
    """
    if len(predicted.models) != 2:
        return ""
    frequencies = predicted.frequencies()
    distance = float(total_variation(frequencies[0] - frequencies[1]))
    # The median of two models is their mean, so a distance from it is half the distance of the two.
    noise = 2 * float(noise_of_distances(predicted, seed)[0])
    if distance - noise < STATUS_LIMITS[0]:
        return ""
    k = int(np.abs(frequencies[0] - frequencies[1]).argmax())
    first, second = (f"{100 * share:.1f} %" for share in frequencies[:, k])
    return (
        f"{predicted.models[0]} assigns {first} of the examples to class {predicted.class_names[k]} "
        f"and {predicted.models[1]} assigns {second} of them; the total variation distance between "
        f"their predicted class frequencies is {distance:.2f}, of which sampling noise explains up to "
        f"{noise:.2f}. With two models it is not known which of them is wrong: compare them with a "
        "third one, or label some examples"
    )
