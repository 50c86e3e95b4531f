"""Predictions: what a classifier said, checked once at the door."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from oodometer.core import frames, softmax_kernels, validation
from oodometer.core.array_types import Array, Bools, Floats, Ints, ScoreType
from oodometer.core.errors import InputError, NotApplicable

RowIndex = slice | Ints | Bools


def select_rows(values: Any, index: RowIndex) -> Any:
    """Some rows of what may not be there."""
    return None if values is None else values[index]


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """What is known of each row besides its scores; None where it is not known."""

    confidence: Floats | None = None
    negative_entropy: Floats | None = None
    classes: Ints | None = None
    correct: Bools | None = None

    def rows(self, index: RowIndex) -> RowStatistics:
        """The same of some rows."""
        return RowStatistics(
            confidence=select_rows(self.confidence, index),
            negative_entropy=select_rows(self.negative_entropy, index),
            classes=select_rows(self.classes, index),
            correct=select_rows(self.correct, index),
        )


CachedValue = TypeVar("CachedValue")


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """What a classifier said of n inputs, checked once: make it with one of the `from_…`.

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

    # Doors ----------------------------------------------------------------------------------

    @classmethod
    def from_probs(
        cls,
        probs: Any,
        *,
        labels: Any = None,
        features: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
    ) -> Predictions:
        """Rows of probabilities that sum to 1."""
        scores = validation.validate_score_matrix(probs, "probs")
        peaks, classes = validation.validate_probs(scores, with_classes=labels is not None)
        made = cls._from_scores(
            scores, "probs", validation.PredictionExtras(labels, features, ids, class_names)
        )
        return replace(made, precomputed=RowStatistics(confidence=peaks, classes=classes))

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        *,
        labels: Any = None,
        features: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
    ) -> Predictions:
        """Rows of raw scores, whose softmax gives the probabilities."""
        scores = validation.validate_score_matrix(logits, "logits")
        validation.check_logits(scores)
        return cls._from_scores(
            scores, "logits", validation.PredictionExtras(labels, features, ids, class_names)
        )

    @classmethod
    def _from_scores(
        cls,
        scores: Array,
        score_type: Literal["probs", "logits"],
        extras: validation.PredictionExtras,
    ) -> Predictions:
        n, k = scores.shape
        names = validation.validate_class_names(extras.class_names, k)
        return cls(
            n=n,
            k=k,
            score_type=score_type,
            scores=scores,
            labels=validation.encode_labels(extras.labels, n, k, names),
            features=validation.validate_features(extras.features, n),
            ids=validation.validate_row_values(extras.ids, n, "ids"),
            class_names=names,
        )

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
        """Hard decisions only: one class a row, by number or by name."""
        given = validation.validate_row_values(classes, None, "classes")
        if given is None or not given.size:
            raise InputError("classes is empty; at least one row was expected.")
        k = k if k is not None else len(class_names) if class_names is not None else None
        if k is None:
            raise InputError("The number of classes is not known. Give k or class_names.")
        n, names = (
            len(given),
            validation.validate_class_names(class_names, validation.validate_class_count(k)),
        )
        return cls(
            n=n,
            k=k,
            score_type="classes",
            labels=validation.encode_labels(labels, n, k, names),
            ids=validation.validate_row_values(ids, n, "ids"),
            class_names=names,
            precomputed=RowStatistics(
                classes=validation.encode_labels(given, n, k, names, argument="classes")
            ),
        )

    @classmethod
    def from_confidence(
        cls, confidence: Any, *, k: int, negative_entropy: Any = None, correct: Any = None
    ) -> Predictions:
        """Where only the confidence of each row was kept (and the negative entropy, if it was).

        >>> Predictions.from_confidence([0.9, 0.6], k=3, correct=[True, False]).correct.mean()
        np.float64(0.5)
        """
        bounds = 1.0 / validation.validate_class_count(k), 1.0
        values = validation.validate_bounded_values(confidence, None, "confidence", bounds=bounds)
        n, lowest = len(values), -float(np.log(k))
        entropy = None
        if negative_entropy is not None:
            entropy = validation.validate_bounded_values(
                negative_entropy, n, "negative_entropy", bounds=(lowest, 0.0)
            )
        right = None if correct is None else validation.validate_flags(correct, n, "correct")
        known = RowStatistics(confidence=values, negative_entropy=entropy, correct=right)
        return cls(n=n, k=k, score_type="signals", precomputed=known)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label_column: str | None = None,
        prob_columns: str | None = None,
        logit_columns: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> Predictions:
        """From any data frame that speaks the Arrow interface: pandas, polars, pyarrow.

        Scores are columns `prob_…` or `logit_…`, or one list column `prob_columns` or `logit_columns`; name
        others by their prefix or their name. Labels are the column `label` where there is one.
        """
        table = frames.as_table(frame)
        found = frames.extract_scores(table, probs=prob_columns, logits=logit_columns)
        if label_column is None and "label" in table.column_names:
            label_column = "label"
        door = cls.from_probs if found.score_type == "probs" else cls.from_logits
        return door(
            found.values,
            labels=None if label_column is None else frames.read_column(table, label_column),
            ids=frames.read_column(table, "id") if "id" in table.column_names else None,
            class_names=class_names if class_names is not None else found.class_names,
        )

    # What every estimator reads -------------------------------------------------------------

    def __len__(self) -> int:
        return self.n

    def cached(self, key: Hashable, make: Callable[[], CachedValue]) -> CachedValue:
        """Return the value that `make` returned for these rows under the key, computed once.

        Several estimators share work in this way. Rows never change; the key names all else that
        the value depends on. Values are held weakly: they are freed with the predictions, and are
        no part of their equality, `repr` or pickle.

        >>> rows = Predictions.from_probs([[0.9, 0.1]])
        >>> rows.cached("sum", lambda: 1), rows.cached("sum", lambda: 2), rows.cached("n", lambda: 3)
        (1, 1, 3)
        """
        values = _CACHE.setdefault(self, {})
        if key not in values:
            values[key] = make()
        value: CachedValue = values[key]
        return value

    def __repr__(self) -> str:
        labelled = "unlabelled" if not self.is_labelled else "labelled"
        return f"Predictions({self.n} {labelled} rows, {self.k} classes, from {self.score_type})"

    @property
    def is_labelled(self) -> bool:
        """Whether it is known which rows are right."""
        return self.labels is not None or self.precomputed.correct is not None

    @property
    def has_probs(self) -> bool:
        """Whether whole rows of probabilities are known."""
        return self.scores is not None

    @cached_property
    def _top(self) -> tuple[Floats, Ints]:
        scores, form = self.require_scores("confidence")
        return softmax_kernels.confidence_and_class(scores, form, self.temperature)

    @cached_property
    def _classes(self) -> Ints:
        # Which score is the largest hangs on no temperature.
        return softmax_kernels.confidence_and_class(self.require_scores("classes")[0], "probs")[1]

    @cached_property
    def _confidence(self) -> Floats:
        return softmax_kernels.confidence(*self.require_scores("confidence"), self.temperature)

    def require_scores(self, purpose: str) -> tuple[Array, ScoreType]:
        """The scores and their form, for `purpose` needs them; NotApplicable where there are none."""
        if self.scores is None:
            raise NotApplicable(
                f"{purpose} can't be had from {self.score_type} alone; it needs probabilities"
            )
        return self.scores, "probs" if self.score_type == "probs" else "logits"

    @property
    def confidence(self) -> Floats:
        """The largest probability of each row."""
        if self.precomputed.confidence is not None:
            return self.precomputed.confidence
        # Where there are labels both are needed, and one pass gives them.
        return self._top[0] if self.is_labelled or "_top" in self.__dict__ else self._confidence

    @property
    def classes(self) -> Ints:
        """The predicted class of each row, lowest index on ties."""
        if self.precomputed.classes is not None:
            return self.precomputed.classes
        return self._top[1] if self.is_labelled or "_top" in self.__dict__ else self._classes

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
        """Which rows are right."""
        if self.precomputed.correct is not None:
            return self.precomputed.correct
        if self.labels is None:
            raise InputError("These predictions have no labels. Give labels=… where they are made.")
        return np.asarray(self.classes == self.labels)

    @property
    def probs(self) -> Floats:
        """Probabilities (n, k) at the temperature; made anew where they were not given."""
        scores, form = self.require_scores("probabilities")
        if (
            form == "probs"
            and self.temperature == 1.0
            and scores.dtype == softmax_kernels.work_dtype(scores)
        ):
            return scores
        return softmax_kernels.softmax(scores, form, self.temperature)

    @property
    def log_probs(self) -> Floats:
        """Logarithms of the probabilities, floored."""
        return softmax_kernels.log_probs(*self.require_scores("probabilities"), self.temperature)

    @cached_property
    def class_counts(self) -> Ints:
        """How many rows are predicted to be of each class."""
        return np.bincount(self.classes, minlength=self.k)

    # Others made of this one ----------------------------------------------------------------

    @property
    def _statistics(self) -> RowStatistics:
        """What is known of the rows, and what was computed of them so far."""
        seen, known = self.__dict__, self.precomputed
        apart = seen.get("_confidence"), seen.get("_classes")
        top: tuple[Floats | None, Ints | None] = seen.get("_top", apart)
        return RowStatistics(
            confidence=known.confidence if known.confidence is not None else top[0],
            negative_entropy=seen.get("negative_entropy", known.negative_entropy),
            classes=known.classes if known.classes is not None else top[1],
            correct=seen.get("correct", known.correct),
        )

    def rows(self, index: RowIndex) -> Predictions:
        """Some of the rows, with whatever was computed for them already."""
        return replace(
            self,
            n=len(np.empty(self.n, dtype=np.int8)[index]),
            precomputed=self._statistics.rows(index),
            scores=select_rows(self.scores, index),
            labels=select_rows(self.labels, index),
            features=select_rows(self.features, index),
            ids=select_rows(self.ids, index),
            other_models=tuple(peer.rows(index) for peer in self.other_models),
        )

    def at_temperature(self, temperature: float) -> Predictions:
        """The same predictions with logits divided by a temperature."""
        if not (np.isfinite(temperature) and temperature > 0):
            raise InputError(f"temperature must be above 0; got {temperature}.")
        if self.scores is None or temperature == self.temperature:
            return self
        # Classes stay; they are kept where they are known, and left for later where they are not.
        kept = RowStatistics(classes=self._statistics.classes)
        return replace(self, temperature=float(temperature), precomputed=kept)

    def without_labels(self) -> Predictions:
        """The same predictions, with no way left to read a label."""
        if not self.is_labelled:
            return self
        return replace(self, labels=None, precomputed=replace(self._statistics, correct=None))

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> Predictions:
        """The same predictions with the classes in the order of these names."""
        if class_names is None or self.class_names is None or class_names == self.class_names:
            return self
        missing = [name for name in class_names if name not in self.class_names]
        if missing or len(class_names) != len(self.class_names):
            other = missing or [name for name in self.class_names if name not in class_names]
            raise InputError(
                f"The class {other[0]!r} is on one side only. "
                "Source and target must have the same classes."
            )
        return self._permute_classes(
            class_names, np.array([self.class_names.index(name) for name in class_names])
        )

    def _permute_classes(self, class_names: tuple[str, ...], order: Ints) -> Predictions:
        """The same with class order[j] as the class j; peers have the same classes."""
        place = np.argsort(order)
        known = self._statistics
        if known.classes is not None:
            known = replace(known, classes=place[known.classes])
        return replace(
            self,
            class_names=class_names,
            scores=None if self.scores is None else self.scores[:, order],
            labels=None if self.labels is None else place[self.labels],
            precomputed=known,
            other_models=tuple(
                peer._permute_classes(class_names, order) for peer in self.other_models
            ),
        )

    def with_other_models(self, *other_models: Predictions) -> Predictions:
        """The same, beside other models' predictions of the same rows."""
        for peer in other_models:
            if peer.n != self.n:
                raise InputError(
                    f"The second model has {peer.n} rows, the target {self.n}. "
                    "Both must be predictions of the same rows in the same order."
                )
            validation.check_same_class_count(self.k, peer.k, "the target", "the second model")
            if self.ids is not None and peer.ids is not None:
                validation.check_same_ids(self.ids, peer.ids)
        beside = (peer.without_labels().reorder_classes(self.class_names) for peer in other_models)
        return replace(self, precomputed=self._statistics, other_models=tuple(beside))


# Values that several estimators share, by the predictions that they were computed from.
_CACHE: WeakKeyDictionary[Predictions, dict[Hashable, Any]] = WeakKeyDictionary()
