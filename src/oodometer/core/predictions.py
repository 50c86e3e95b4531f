"""Validated outputs of a classifier, with statistics of each row such as its confidence."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from oodometer.core import frames, softmax_kernels, validation
from oodometer.core.array_types import Array, Bools, Floats, Ints, ScoreType
from oodometer.core.errors import InputError, NotApplicable, out_of_range, unknown_column
from oodometer.core.labels import distinct_classes, encode_labels, validate_class_names

NORMALIZED_NOTE = "Some rows of probabilities did not sum to 1, because of rounding; they were divided by their sum."
RowIndex = slice | Ints | Bools
CachedValue = TypeVar("CachedValue")


def select_rows(values: Any, index: RowIndex) -> Any:
    """Return the selected rows of an array; return None if `values` is None."""
    return None if values is None else values[index]


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Statistics of each row; a statistic that has not been computed yet is None."""

    confidence: Floats | None = None
    negative_entropy: Floats | None = None
    classes: Ints | None = None
    correct: Bools | None = None

    def rows(self, index: RowIndex) -> RowStatistics:
        return RowStatistics(
            confidence=select_rows(self.confidence, index),
            negative_entropy=select_rows(self.negative_entropy, index),
            classes=select_rows(self.classes, index),
            correct=select_rows(self.correct, index),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """Outputs of a classifier on n inputs with k classes.

    Create predictions with `from_probs`, `from_logits`, `from_classes`, `from_confidence` or
    `from_frame`, which validate their input; the constructor does not.

    Parameters
    ----------
    n, k : int
        Number of rows and of classes.
    score_type : {"probs", "logits", "classes", "signals"}
        Type of the outputs: probabilities, logits, predicted classes only ("classes"), or
        confidences only ("signals").
    scores : array of shape (n, k), optional
        Probabilities or logits.
    labels : array of int of shape (n,), optional
        True classes, as numbers.
    features : array of shape (n, d), optional
        Hidden representation of each input.
    ids : array of shape (n,), optional
        Identifier of each row.
    class_names : tuple of str, optional
        Names of the classes in their order.
    temperature : float
        Divisor of the logits, or of the logarithms of the probabilities.
    other_models : tuple of Predictions
        Predictions of other models for the same rows.
    precomputed : RowStatistics
        Statistics of the rows that have already been computed.
    class_rule : {"argmax", "decisions", "calibrated"}
        Origin of the predicted classes: the highest score ("argmax"), decisions that were passed
        ("decisions"), or the highest score before the probabilities were calibrated ("calibrated").
    notes : tuple of str
        Remarks on changes of the scores, such as the normalization of rounded probabilities.

    Examples
    --------
    >>> p = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> p.confidence, p.classes, p.correct
    (array([0.9, 0.6]), array([0, 1], dtype=int32), array([ True, False]))
    """

    n: int
    k: int
    score_type: Literal["probs", "logits", "classes", "signals"]
    scores: Array | None = None
    labels: Ints | None = None
    features: Array | None = None
    ids: Array | None = None
    class_names: tuple[str, ...] | None = None
    temperature: float = 1.0
    other_models: tuple[Predictions, ...] = ()
    precomputed: RowStatistics = field(default_factory=RowStatistics)
    class_rule: Literal["argmax", "decisions", "calibrated"] = "argmax"
    notes: tuple[str, ...] = ()

    # Constructors ---------------------------------------------------------------------------

    @classmethod
    def from_probs(
        cls,
        probs: Any,
        *,
        labels: Any = None,
        features: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
        decisions: Any = None,
    ) -> Predictions:
        """Create predictions from probabilities.

        Parameters
        ----------
        probs : array-like of shape (n, k)
            Class probabilities; every row sums to 1. Rows of rounded probabilities whose sum
            differs from 1 are divided by their sum.
        labels : array-like of shape (n,), optional
            True classes, as numbers from 0 or as class names.
        features : array-like of shape (n, d), optional
            Hidden representation of each input.
        ids : array-like of shape (n,), optional
            Identifier of each row.
        class_names : sequence of str, optional
            Names of the classes in their order.
        decisions : array-like of shape (n,), optional
            Class that was decided for each row, as a number or a class name, if it is not always
            the most probable class, for example because of a decision threshold. Accuracy is then
            that of the decisions. See also `decide`.

        Raises
        ------
        InputError
            If a row is not a probability distribution, or the other arrays do not match.
        """
        scores = validation.validate_score_matrix(probs, "probs")
        confidence, classes, must_normalize = validation.validate_probs(
            scores, with_classes=labels is not None
        )
        notes: tuple[str, ...] = ()
        if must_normalize:
            scores = validation.normalize_rows(scores)
            confidence = softmax_kernels.confidence(scores, "probs")
            notes = (NORMALIZED_NOTE,)
        return cls._from_scores(
            scores,
            "probs",
            labels=labels,
            features=features,
            ids=ids,
            class_names=class_names,
            decisions=decisions,
            precomputed=RowStatistics(confidence=confidence, classes=classes),
            notes=notes,
        )

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        *,
        labels: Any = None,
        features: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
        decisions: Any = None,
    ) -> Predictions:
        """Create predictions from logits; the probabilities are their softmax.

        Parameters
        ----------
        logits : array-like of shape (n, k)
            Raw scores. A warning is given if they look like probabilities.
        labels, features, ids, class_names, decisions
            See `from_probs`.

        Raises
        ------
        InputError
            If a logit is not finite, or the other arrays do not match.
        """
        scores = validation.validate_score_matrix(logits, "logits")
        validation.check_logits(scores)
        return cls._from_scores(
            scores,
            "logits",
            labels=labels,
            features=features,
            ids=ids,
            class_names=class_names,
            decisions=decisions,
        )

    @classmethod
    def _from_scores(
        cls,
        scores: Array,
        score_type: ScoreType,
        *,
        labels: Any,
        features: Any,
        ids: Any,
        class_names: Sequence[str] | None,
        decisions: Any,
        precomputed: RowStatistics | None = None,
        notes: tuple[str, ...] = (),
    ) -> Predictions:
        n, k = scores.shape
        names = validate_class_names(class_names, k)
        predictions = cls(
            n=n,
            k=k,
            score_type=score_type,
            scores=scores,
            labels=encode_labels(labels, n, k, names),
            features=validation.validate_features(features, n),
            ids=validation.validate_row_values(ids, n, "ids"),
            class_names=names,
            precomputed=precomputed or RowStatistics(),
            notes=notes,
        )
        return predictions if decisions is None else predictions.with_decisions(decisions)

    @classmethod
    def from_classes(
        cls,
        classes: Any,
        *,
        k: int | None = None,
        labels: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
    ) -> Predictions:
        """Create predictions from predicted classes only, as numbers or class names.

        Parameters
        ----------
        classes : array-like of shape (n,)
            Predicted class of each row.
        k : int, optional
            Number of classes; by default the number of class names.
        labels, ids, class_names
            See `from_probs`.

        Raises
        ------
        InputError
            If there are no rows, the number of classes is not known, or a value is not a class.
        """
        predicted = validation.validate_row_values(classes, None, "classes")
        if predicted is None or not predicted.size:
            raise InputError("classes has no rows; expected at least one.")
        if k is None and class_names is not None:
            k = len(class_names)
        if k is None:
            raise InputError("The number of classes is not known. Pass k or class_names.")
        n = len(predicted)
        names = validate_class_names(class_names, validation.validate_class_count(k))
        numbers = encode_labels(predicted, n, k, names, argument="classes")
        return cls(
            n=n,
            k=k,
            score_type="classes",
            labels=encode_labels(labels, n, k, names),
            ids=validation.validate_row_values(ids, n, "ids"),
            class_names=names,
            precomputed=RowStatistics(classes=numbers),
        )

    @classmethod
    def from_confidence(
        cls, confidence: Any, *, k: int, negative_entropy: Any = None, correct: Any = None
    ) -> Predictions:
        """Create predictions from confidences alone, for results without class probabilities.

        Parameters
        ----------
        confidence : array-like of shape (n,)
            Highest class probability of each row.
        k : int
            Number of classes.
        negative_entropy : array-like of shape (n,), optional
            Σ p log p of each row.
        correct : array-like of bool of shape (n,), optional
            Whether each row is classified correctly.

        Raises
        ------
        InputError
            If a value is impossible for k classes, for example a confidence below 1/k.

        Examples
        --------
        >>> Predictions.from_confidence([0.9, 0.6], k=3, correct=[True, False]).correct.mean()
        np.float64(0.5)
        """
        lowest = 1.0 / validation.validate_class_count(k)
        confidences = validation.validate_bounded_values(
            confidence, None, "confidence", bounds=(lowest, 1.0)
        )
        n = len(confidences)
        entropies = flags = None
        if negative_entropy is not None:
            entropies = validation.validate_bounded_values(
                negative_entropy, n, "negative_entropy", bounds=(-float(np.log(k)), 0.0)
            )
        if correct is not None:
            flags = validation.validate_flags(correct, n, "correct")
        known = RowStatistics(confidence=confidences, negative_entropy=entropies, correct=flags)
        return cls(n=n, k=k, score_type="signals", precomputed=known)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label_column: str | None = None,
        prob_columns: str | None = None,
        logit_columns: str | None = None,
        pred_column: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> Predictions:
        """Create predictions from a pandas, polars or pyarrow table.

        Parameters
        ----------
        frame : table with the Arrow interface
            One row per input. A column `id` identifies the rows. Without columns of scores, the
            column `pred` holds the predicted classes.
        label_column : str, optional
            Column of the true classes; by default `label`, if it exists.
        prob_columns, logit_columns : str, optional
            Name of a list column, or common prefix of one column per class. By default, the
            columns are found by the names `probs`, `prob_…` and `prob`, or `logits`, `logit_…` and
            `logit`.
        pred_column : str, optional
            Column of the decisions; by default `pred`, if it exists.
        class_names : sequence of str, optional
            Names of the classes; by default the suffixes of the score columns.

        Raises
        ------
        InputError
            If columns are missing or ambiguous, or their values are invalid.
        """
        table = frames.as_table(frame)
        if frames.has_classes_only(
            table, probs=prob_columns, logits=logit_columns, pred_column=pred_column
        ):
            return classes_from_table(
                table,
                pred_column=pred_column,
                label_column=label_column,
                class_names=None if class_names is None else tuple(class_names),
            )
        columns, label = frames.find_prediction_columns(
            table,
            label_column=label_column,
            prob_columns=prob_columns,
            logit_columns=logit_columns,
        )
        pred = frames.find_pred_column(table, pred_column)
        create = cls.from_probs if columns.score_type == "probs" else cls.from_logits
        return create(
            frames.read_scores(table, columns),
            labels=None if label is None else frames.read_column(table, label),
            decisions=None if pred is None else frames.read_column(table, pred),
            ids=frames.read_column(table, "id") if "id" in table.column_names else None,
            class_names=columns.class_names if class_names is None else class_names,
        )

    # Statistics of rows ---------------------------------------------------------------------

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        labelled = "labelled" if self.is_labelled else "unlabelled"
        return f"Predictions({self.n} {labelled} rows, {self.k} classes, from {self.score_type})"

    @property
    def is_labelled(self) -> bool:
        """Return whether it is known which rows are classified correctly."""
        return self.labels is not None or self.precomputed.correct is not None

    @property
    def has_probs(self) -> bool:
        """Return whether the probabilities of all classes are known."""
        return self.scores is not None

    @property
    def has_confidence(self) -> bool:
        """Return whether confidences are known, and not the predicted classes only."""
        return self.score_type != "classes"

    def require_scores(self, purpose: str) -> tuple[Array, ScoreType]:
        """Return the scores and their type; raise `NotApplicable` if there are none."""
        if self.scores is None:
            raise NotApplicable(
                f"{purpose} cannot be computed from {self.score_type} alone; it needs probabilities"
            )
        return self.scores, "probs" if self.score_type == "probs" else "logits"

    @property
    def has_decisions(self) -> bool:
        """Return whether the predicted classes are decisions that were passed."""
        return self.class_rule == "decisions"

    @property
    def confidence(self) -> Floats:
        """Probability of the predicted class: the highest one, unless there are decisions."""
        if self.precomputed.confidence is not None:
            return self.precomputed.confidence
        if self.class_rule != "argmax":
            return self._class_probability
        # With labels, classes are needed too, and one pass computes both.
        return self._top[0] if self.is_labelled or "_top" in self.__dict__ else self._confidence

    @property
    def classes(self) -> Ints:
        """Predicted class of each row; the lowest number wins ties."""
        if self.precomputed.classes is not None:
            return self.precomputed.classes
        return self._top[1] if self.is_labelled or "_top" in self.__dict__ else self._classes

    @cached_property
    def _top(self) -> tuple[Floats, Ints]:
        scores, score_type = self.require_scores("confidence")
        return softmax_kernels.confidence_and_class(scores, score_type, self.temperature)

    @cached_property
    def _class_probability(self) -> Floats:
        scores, score_type = self.require_scores("confidence")
        return softmax_kernels.class_probability(scores, score_type, self.classes, self.temperature)

    @cached_property
    def _confidence(self) -> Floats:
        return softmax_kernels.confidence(*self.require_scores("confidence"), self.temperature)

    @cached_property
    def _classes(self) -> Ints:
        # The highest score does not depend on the temperature or on the type of scores.
        return softmax_kernels.confidence_and_class(self.require_scores("classes")[0], "probs")[1]

    @cached_property
    def negative_entropy(self) -> Floats:
        """Σ p log p of each row."""
        if self.precomputed.negative_entropy is not None:
            return self.precomputed.negative_entropy
        if self.score_type == "signals" and self.k == 2:
            return softmax_kernels.binary_negative_entropy(self.confidence)
        return softmax_kernels.negative_entropy(*self.require_scores("entropy"), self.temperature)

    @cached_property
    def correct(self) -> Bools:
        """Return whether the predicted class of each row is the true class."""
        if self.precomputed.correct is not None:
            return self.precomputed.correct
        if self.labels is None:
            raise InputError("These predictions have no labels. Pass labels when creating them.")
        return np.asarray(self.classes == self.labels)

    @property
    def probs(self) -> Floats:
        """Probabilities (n, k) at the temperature; logits are converted on each access."""
        scores, score_type = self.require_scores("probabilities")
        is_working_type = scores.dtype == softmax_kernels.work_dtype(scores)
        if score_type == "probs" and self.temperature == 1.0 and is_working_type:
            return scores
        return softmax_kernels.softmax(scores, score_type, self.temperature)

    @property
    def log_probs(self) -> Floats:
        """Logarithms of the probabilities (n, k); probabilities below 1e-12 count as 1e-12."""
        return softmax_kernels.log_probs(*self.require_scores("probabilities"), self.temperature)

    @cached_property
    def class_counts(self) -> Ints:
        """Number of rows per predicted class."""
        return np.bincount(self.classes, minlength=self.k)

    @property
    def _known_statistics(self) -> RowStatistics:
        """Statistics that were passed to the constructor or have been computed since."""
        computed = self.__dict__
        known = self.precomputed
        confidence = computed.get("_class_probability", computed.get("_confidence"))
        separate = confidence, computed.get("_classes")
        top: tuple[Floats | None, Ints | None] = computed.get("_top", separate)
        return RowStatistics(
            confidence=known.confidence if known.confidence is not None else top[0],
            negative_entropy=computed.get("negative_entropy", known.negative_entropy),
            classes=known.classes if known.classes is not None else top[1],
            correct=computed.get("correct", known.correct),
        )

    def cached(self, key: Hashable, make: Callable[[], CachedValue]) -> CachedValue:
        """Return the value of `make()`, computed once for these rows and this key.

        Several estimators can reuse an intermediate result in this way. The key must contain
        everything that the value depends on, except the rows. The values are freed together with
        the predictions, and are not part of their pickle, equality or `repr`.

        Examples
        --------
        >>> rows = Predictions.from_probs([[0.9, 0.1]])
        >>> rows.cached("sum", lambda: 1), rows.cached("sum", lambda: 2), rows.cached("n", lambda: 3)
        (1, 1, 3)
        """
        values = _CACHE.setdefault(self, {})
        if key not in values:
            values[key] = make()
        value: CachedValue = values[key]
        return value

    # Derived predictions --------------------------------------------------------------------

    def rows(self, index: RowIndex) -> Predictions:
        """Return the predictions of the selected rows, with the statistics computed so far."""
        return replace(
            self,
            n=len(np.empty(self.n, dtype=np.int8)[index]),
            precomputed=self._known_statistics.rows(index),
            scores=select_rows(self.scores, index),
            labels=select_rows(self.labels, index),
            features=select_rows(self.features, index),
            ids=select_rows(self.ids, index),
            other_models=tuple(other.rows(index) for other in self.other_models),
        )

    def at_temperature(self, temperature: float) -> Predictions:
        """Return the predictions with their logits divided by a temperature."""
        if not (np.isfinite(temperature) and temperature > 0):
            raise out_of_range("temperature", temperature, above=0)
        if self.scores is None or temperature == self.temperature:
            return self
        # Predicted classes do not depend on the temperature.
        known = RowStatistics(classes=self._known_statistics.classes)
        return replace(self, temperature=float(temperature), precomputed=known)

    def with_scores(self, scores: Array, note: str) -> Predictions:
        """Return the predictions with slightly changed scores; the predicted classes are kept."""
        known = RowStatistics(classes=self.classes, correct=self._known_statistics.correct)
        return replace(self, scores=scores, precomputed=known, notes=(*self.notes, note))

    def with_decisions(self, decisions: Any) -> Predictions:
        """Return the predictions with given decisions as predicted classes.

        Parameters
        ----------
        decisions : array-like of shape (n,)
            Class that was decided for each row, as a number or a class name.

        Raises
        ------
        InputError
            If there are no scores, or a decision is not a class.

        Examples
        --------
        >>> rows = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]], labels=[1, 1])
        >>> decided = rows.with_decisions([1, 1])
        >>> decided.correct, decided.confidence
        (array([ True,  True]), array([0.3, 0.9]))
        """
        if self.scores is None:
            raise InputError(
                f"Decisions need probabilities or logits, not {self.score_type}. Pass the decided "
                "classes to Predictions.from_classes."
            )
        classes = encode_labels(decisions, self.n, self.k, self.class_names, argument="decisions")
        known = replace(self._known_statistics, classes=classes, confidence=None, correct=None)
        return replace(self, precomputed=known, class_rule="decisions")

    def decide(self, threshold: float | Sequence[float]) -> Predictions:
        """Return the predictions with decisions by thresholds on the probabilities.

        Parameters
        ----------
        threshold : float or sequence of float
            With two classes, the probability from which on the second class is decided. With more
            classes, one threshold t per class: the class with the highest p / t is decided.

        Raises
        ------
        InputError
            If a threshold is not between 0 and 1, or there are not as many as classes.

        Examples
        --------
        >>> rows = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
        >>> rows.decide(0.25).classes
        array([1, 1])
        """
        return self.with_decisions(self._decide(np.atleast_1d(np.asarray(threshold, float))))

    def _decide(self, thresholds: Floats) -> Ints:
        invalid = ~((thresholds > 0) & (thresholds < 1))
        if invalid.any():
            raise out_of_range("threshold", float(thresholds[invalid.argmax()]), above=0, below=1)
        probs = self.probs
        if self.k == 2 and thresholds.shape == (1,):
            # Compare in float64 so that a threshold such as 0.7 is not rounded to float32.
            return np.asarray(probs[:, 1].astype(np.float64) >= thresholds[0], dtype=np.int64)
        if thresholds.shape != (self.k,):
            raise InputError(
                f"There are {self.k} classes but {thresholds.size} thresholds. Pass one per class"
                f"{', or a single one for the second class' if self.k == 2 else ''}."
            )
        return np.asarray((probs / thresholds).argmax(axis=1))

    def without_labels(self) -> Predictions:
        """Return the predictions without labels and without statistics computed from labels."""
        if not self.is_labelled:
            return self
        known = replace(self._known_statistics, correct=None)
        return replace(self, labels=None, precomputed=known)

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> Predictions:
        """Return the predictions with the classes in the order of `class_names`.

        The predictions are returned unchanged if `class_names` is None or if they have no class
        names of their own.
        """
        if class_names is None or self.class_names is None or class_names == self.class_names:
            return self
        differ = [name for name in class_names if name not in self.class_names]
        differ += [name for name in self.class_names if name not in class_names]
        if differ:
            raise InputError(
                f"Only one side has the class {differ[0]!r}. Source and target must have the same "
                "classes."
            )
        order = np.array([self.class_names.index(name) for name in class_names])
        return self._permute_classes(class_names, order)

    def _permute_classes(self, class_names: tuple[str, ...], order: Ints) -> Predictions:
        """Return the predictions, and those of other models, with class `order[j]` as class j."""
        new_number = np.argsort(order)
        known = self._known_statistics
        if known.classes is not None:
            known = replace(known, classes=new_number[known.classes])
        return replace(
            self,
            class_names=class_names,
            scores=None if self.scores is None else self.scores[:, order],
            labels=None if self.labels is None else new_number[self.labels],
            precomputed=known,
            other_models=tuple(
                other._permute_classes(class_names, order) for other in self.other_models
            ),
        )

    def with_other_models(self, *other_models: Predictions) -> Predictions:
        """Return the predictions together with those of other models for the same rows."""
        for other in other_models:
            if other.n != self.n:
                raise InputError(
                    f"The second model has {other.n} rows, the target {self.n}. "
                    "Both must be predictions of the same rows in the same order."
                )
            validation.check_same_class_count(self.k, other.k, "the target", "the second model")
            if self.ids is not None and other.ids is not None:
                validation.check_same_ids(self.ids, other.ids)
        aligned = (
            other.without_labels().reorder_classes(self.class_names) for other in other_models
        )
        return replace(self, precomputed=self._known_statistics, other_models=tuple(aligned))


def classes_from_table(
    table: Any,
    *,
    pred_column: str | None,
    label_column: str | None,
    class_names: tuple[str, ...] | None,
    labelled: bool = True,
) -> Predictions:
    """Return the predicted classes of a table without scores.

    Without class names, the classes are those that occur as predictions or labels.
    """
    classes = frames.read_column(table, frames.find_pred_column(table, pred_column) or "")
    labels = None
    if labelled and (label_column or frames.DEFAULT_LABEL_COLUMN) in table.column_names:
        labels = frames.read_labels(table, label_column or frames.DEFAULT_LABEL_COLUMN)
    elif labelled and label_column is not None:
        raise unknown_column(label_column, table.column_names)
    names = observed_classes(classes, labels) if class_names is None else class_names
    ids = frames.read_column(table, "id") if "id" in table.column_names else None
    return Predictions.from_classes(classes, labels=labels, ids=ids, class_names=names)


def observed_classes(classes: Any, labels: Any = None) -> tuple[str, ...]:
    """Return the names of the classes that occur as predictions or labels; raise if there is one."""
    names = distinct_classes(classes, *([] if labels is None else [labels]))
    if len(names) < 2:
        raise InputError(
            f"Only one class occurs ({', '.join(names) or 'none'}); expected at least two. Name all "
            "classes with class_names=[…] (--class-names)."
        )
    return names


# Values of `Predictions.cached`, kept outside of the instances so that they are never pickled.
_CACHE: WeakKeyDictionary[Predictions, dict[Hashable, Any]] = WeakKeyDictionary()
