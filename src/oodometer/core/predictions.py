"""Predictions: what a classifier said, checked once at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from oodometer.core import frames, softmax_kernels, validation
from oodometer.core._row_statistics import Index, Signals, some
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.softmax_kernels import Array, Bools, Floats, Ints


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """What a classifier said of n inputs, checked once: make it with one of the `from_…`.

    >>> p = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> p.confidence, p.classes, p.correct
    (array([0.9, 0.6]), array([0, 1], dtype=int32), array([ True, False]))
    """

    n: int
    k: int
    form: Literal["probs", "logits", "classes", "signals"]
    scores: Array | None = None
    labels: Ints | None = None
    features: Array | None = None
    ids: Array | None = None
    class_names: tuple[str, ...] | None = None
    temperature: float = 1.0
    peers: tuple[Predictions, ...] = ()
    known: Signals = field(default_factory=Signals)

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
        scores = validation.matrix(probs, "probs")
        peaks, classes = validation.are_probs(scores, classes=labels is not None)
        made = cls._of(scores, "probs", validation.Extras(labels, features, ids, class_names))
        return replace(made, known=Signals(confidence=peaks, classes=classes))

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
        scores = validation.matrix(logits, "logits")
        validation.are_logits(scores)
        return cls._of(scores, "logits", validation.Extras(labels, features, ids, class_names))

    @classmethod
    def _of(
        cls, scores: Array, form: Literal["probs", "logits"], extras: validation.Extras
    ) -> Predictions:
        n, k = scores.shape
        names = validation.names(extras.class_names, k)
        return cls(
            n=n,
            k=k,
            form=form,
            scores=scores,
            labels=validation.labels(extras.labels, n, k, names),
            features=validation.features(extras.features, n),
            ids=validation.per_row(extras.ids, n, "ids"),
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
        given = validation.per_row(classes, None, "classes")
        if given is None or not given.size:
            raise InputError("classes is empty; at least one row was expected.")
        k = k if k is not None else len(class_names) if class_names is not None else None
        if k is None:
            raise InputError("The number of classes is not known. Give k or class_names.")
        n, names = len(given), validation.names(class_names, validation.class_count(k))
        return cls(
            n=n,
            k=k,
            form="classes",
            labels=validation.labels(labels, n, k, names),
            ids=validation.per_row(ids, n, "ids"),
            class_names=names,
            known=Signals(classes=validation.labels(given, n, k, names, what="classes")),
        )

    @classmethod
    def from_signals(
        cls, confidence: Any, *, k: int, negative_entropy: Any = None, correct: Any = None
    ) -> Predictions:
        """Where only the confidence of each row was kept (and the negative entropy, if it was).

        >>> Predictions.from_signals([0.9, 0.6], k=3, correct=[True, False]).correct.mean()
        np.float64(0.5)
        """
        bounds = 1.0 / validation.class_count(k), 1.0
        values = validation.signal(confidence, None, "confidence", bounds=bounds)
        n, lowest = len(values), -float(np.log(k))
        entropy = None
        if negative_entropy is not None:
            entropy = validation.signal(
                negative_entropy, n, "negative_entropy", bounds=(lowest, 0.0)
            )
        right = None if correct is None else validation.marks(correct, n, "correct")
        known = Signals(confidence=values, negative_entropy=entropy, correct=right)
        return cls(n=n, k=k, form="signals", known=known)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        labels: str | None = None,
        probs: str | None = None,
        logits: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> Predictions:
        """From any data frame that speaks the Arrow interface: pandas, polars, pyarrow.

        Scores are columns `prob_…` or `logit_…`, or one list column `probs` or `logits`; name
        others by their prefix or their name. Labels are the column `label` where there is one.
        """
        table = frames.as_table(frame)
        found = frames.scores_of(table, probs=probs, logits=logits)
        if labels is None and "label" in table.column_names:
            labels = "label"
        door = cls.from_probs if found.form == "probs" else cls.from_logits
        return door(
            found.values,
            labels=None if labels is None else frames.values(table, labels),
            ids=frames.values(table, "id") if "id" in table.column_names else None,
            class_names=class_names if class_names is not None else found.class_names,
        )

    # What every estimator reads -------------------------------------------------------------

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        labelled = "unlabelled" if not self.labelled else "labelled"
        return f"Predictions({self.n} {labelled} rows, {self.k} classes, from {self.form})"

    @property
    def labelled(self) -> bool:
        """Whether it is known which rows are right."""
        return self.labels is not None or self.known.correct is not None

    @property
    def has_probs(self) -> bool:
        """Whether whole rows of probabilities are known."""
        return self.scores is not None

    @cached_property
    def _top(self) -> tuple[Floats, Ints]:
        scores, form = self.scored("confidence")
        return softmax_kernels.top(scores, form, self.temperature)

    @cached_property
    def _classes(self) -> Ints:
        # Which score is the largest hangs on no temperature.
        return softmax_kernels.top(self.scored("classes")[0], "probs")[1]

    @cached_property
    def _confidence(self) -> Floats:
        return softmax_kernels.confidence(*self.scored("confidence"), self.temperature)

    def scored(self, what: str) -> tuple[Array, softmax_kernels.Form]:
        """The scores and their form, for `what` needs them; NoAnswer where there are none."""
        if self.scores is None:
            raise NoAnswer(f"{what} can't be had from {self.form} alone; it needs probabilities")
        return self.scores, "probs" if self.form == "probs" else "logits"

    @property
    def confidence(self) -> Floats:
        """The largest probability of each row."""
        if self.known.confidence is not None:
            return self.known.confidence
        # Where there are labels both are needed, and one pass gives them.
        return self._top[0] if self.labelled or "_top" in self.__dict__ else self._confidence

    @property
    def classes(self) -> Ints:
        """The predicted class of each row, lowest index on ties."""
        if self.known.classes is not None:
            return self.known.classes
        return self._top[1] if self.labelled or "_top" in self.__dict__ else self._classes

    @cached_property
    def negative_entropy(self) -> Floats:
        """Σ p log p of each row."""
        if self.known.negative_entropy is not None:
            return self.known.negative_entropy
        if self.form == "signals" and self.k == 2:
            return softmax_kernels.binary_negative_entropy(self.confidence)
        return softmax_kernels.negative_entropy(*self.scored("entropy"), self.temperature)

    @cached_property
    def correct(self) -> Bools:
        """Which rows are right."""
        if self.known.correct is not None:
            return self.known.correct
        if self.labels is None:
            raise InputError("These predictions have no labels. Give labels=… where they are made.")
        return np.asarray(self.classes == self.labels)

    @property
    def probs(self) -> Floats:
        """Probabilities (n, k) at the temperature; made anew where they were not given."""
        scores, form = self.scored("probabilities")
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
        return softmax_kernels.log_probs(*self.scored("probabilities"), self.temperature)

    @cached_property
    def class_counts(self) -> Ints:
        """How many rows are predicted to be of each class."""
        return np.bincount(self.classes, minlength=self.k)

    # Others made of this one ----------------------------------------------------------------

    @property
    def _seen(self) -> Signals:
        """What is known of the rows, and what was computed of them so far."""
        seen, known = self.__dict__, self.known
        apart = seen.get("_confidence"), seen.get("_classes")
        top: tuple[Floats | None, Ints | None] = seen.get("_top", apart)
        return Signals(
            confidence=known.confidence if known.confidence is not None else top[0],
            negative_entropy=seen.get("negative_entropy", known.negative_entropy),
            classes=known.classes if known.classes is not None else top[1],
            correct=seen.get("correct", known.correct),
        )

    def rows(self, index: Index) -> Predictions:
        """Some of the rows, with whatever was computed for them already."""
        return replace(
            self,
            n=len(np.empty(self.n, dtype=np.int8)[index]),
            known=self._seen.rows(index),
            scores=some(self.scores, index),
            labels=some(self.labels, index),
            features=some(self.features, index),
            ids=some(self.ids, index),
            peers=tuple(peer.rows(index) for peer in self.peers),
        )

    def at_temperature(self, temperature: float) -> Predictions:
        """The same predictions with logits divided by a temperature."""
        if not (np.isfinite(temperature) and temperature > 0):
            raise InputError(f"temperature must be above 0; got {temperature}.")
        if self.scores is None or temperature == self.temperature:
            return self
        # Classes stay; they are kept where they are known, and left for later where they are not.
        kept = Signals(classes=self._seen.classes)
        return replace(self, temperature=float(temperature), known=kept)

    def without_labels(self) -> Predictions:
        """The same predictions, with no way left to read a label."""
        if not self.labelled:
            return self
        return replace(self, labels=None, known=replace(self._seen, correct=None))

    def in_class_order(self, names: tuple[str, ...] | None) -> Predictions:
        """The same predictions with the classes in the order of these names."""
        if names is None or self.class_names is None or names == self.class_names:
            return self
        missing = [name for name in names if name not in self.class_names]
        if missing or len(names) != len(self.class_names):
            other = missing or [name for name in self.class_names if name not in names]
            raise InputError(
                f"The class {other[0]!r} is on one side only. "
                "Source and target must have the same classes."
            )
        return self._reordered(names, np.array([self.class_names.index(name) for name in names]))

    def _reordered(self, names: tuple[str, ...], order: Ints) -> Predictions:
        """The same with class order[j] as the class j; peers have the same classes."""
        place = np.argsort(order)
        known = self._seen
        if known.classes is not None:
            known = replace(known, classes=place[known.classes])
        return replace(
            self,
            class_names=names,
            scores=None if self.scores is None else self.scores[:, order],
            labels=None if self.labels is None else place[self.labels],
            known=known,
            peers=tuple(peer._reordered(names, order) for peer in self.peers),
        )

    def with_peers(self, *peers: Predictions) -> Predictions:
        """The same, beside other models' predictions of the same rows."""
        for peer in peers:
            if peer.n != self.n:
                raise InputError(
                    f"The second model has {peer.n} rows, the target {self.n}. "
                    "Both must be predictions of the same rows in the same order."
                )
            validation.same_classes(self.k, peer.k, "the target", "the second model")
            if self.ids is not None and peer.ids is not None:
                validation.same_ids(self.ids, peer.ids)
        beside = (peer.without_labels().in_class_order(self.class_names) for peer in peers)
        return replace(self, known=self._seen, peers=tuple(beside))
