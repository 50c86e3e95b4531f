"""evaluate(): how good a model is on labelled data, by every metric that applies.

Six metrics of the study of 31,000 networks (Wenzel et al., "Assaying Out-Of-Distribution
Generalization in Transfer Learning", NeurIPS 2022) on the data as they are and as they are after
common corruptions; and those that users ask for beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.protocols import Metric, Progress, Score
from oodometer.data._transformed_dataset import Changed
from oodometer.metrics.registry import chosen
from oodometer.models import as_model
from oodometer.models._view_factory import Looking
from oodometer.models.model_view import View
from oodometer.transforms.corruptions import Corruption


@dataclass(frozen=True)
class Corrupted:
    """Scores on data after one corruption."""

    corruption: Corruption
    scores: Mapping[str, Score]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "corruption": self.corruption.name,
            "severity": self.corruption.severity,
            "metrics": [{"metric": name, **one.to_dict()} for name, one in self.scores.items()],
        }


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on labelled data, by metric; why others have none."""

    model: str | None
    data: str
    n: int
    scores: Mapping[str, Score]
    refused: Mapping[str, str]
    corrupted: tuple[Corrupted, ...]
    seed: int

    def __getitem__(self, name: str) -> Score:
        """The score of one metric on the data as they are."""
        if name in self.refused:
            raise NoAnswer(f"{name} gave no answer: {self.refused[name]}")
        return self.scores[name]

    @property
    def under_corruption(self) -> dict[str, float]:
        """The mean of each metric over all corruptions that were asked for."""
        names = self.corrupted[0].scores if self.corrupted else ()
        return {
            name: float(np.mean([one.scores[name].value for one in self.corrupted]))
            for name in names
            if all(name in one.scores for one in self.corrupted)
        }

    def __str__(self) -> str:
        mean = self.under_corruption
        wide = max(len(name) for name in (*self.scores, *self.refused))
        lines = []
        for name, one in self.scores.items():
            after = f"  corrupted {mean[name]:.4f}" if name in mean else ""
            lines.append(f"{name:<{wide}}  {one.value:>8.4f}{after}")
        lines += [f"{name:<{wide}}  no answer: {why}" for name, why in self.refused.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {
            "model": self.model,
            "data": self.data,
            "n": self.n,
            "seed": self.seed,
            "metrics": [{"metric": name, **one.to_dict()} for name, one in self.scores.items()],
            "refused": [{"metric": name, "reason": why} for name, why in self.refused.items()],
            "under_corruption": self.under_corruption,
            "corrupted": [one.to_dict() for one in self.corrupted],
        }


def evaluate(
    model: Any,
    data: Any,
    *,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    corrupt: str | Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """How good a model is on labelled data, by every metric that applies.

    `model` is anything that `as_model` opens and `data` anything that `as_dataset` opens; without a
    model (None) the data are labelled Predictions. `metrics` are all unless named. With `corrupt`
    (all, a group such as noise, or names such as fog and jpeg-3) images are also scored after these
    corruptions, at five severities unless one is named; the adversarial error is not.

    >>> from oodometer import Predictions
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], labels=[0, 1, 1, 1])
    >>> evaluate(None, said)["error"].value
    0.25
    """
    members = chosen(metrics)
    corruptions = _corruptions(corrupt)
    looking = Looking(None if model is None else as_model(model), seed=seed, progress=progress)
    view = looking.view(data, "data")
    if not any("features" in member.needs for member in members):
        view = View(replace(view.given, layer=None))
    if corruptions and (view.given.dataset is None or view.given.dataset.kind != "images"):
        raise InputError(
            "Corruptions are of images, and these data are "
            f"{'outputs' if view.given.dataset is None else view.given.dataset.kind}. "
            "Leave out corrupt=… (--corrupt)."
        )
    found, refused = _each(members, view)
    if isinstance(metrics, str | Metric) and refused:
        raise NoAnswer("; ".join(f"{name} has no answer: {why}" for name, why in refused.items()))
    plain = [one for one in members if one.name in found and "gradients" not in one.needs]
    return Evaluation(
        model=None if view.given.model is None else view.given.model.name,
        data=view.name,
        n=view.n,
        scores=found,
        refused=refused,
        corrupted=tuple(_corrupted(plain, view, corruptions)),
        seed=seed,
    )


def _corruptions(asked: str | Sequence[str] | None) -> list[Corruption]:
    from oodometer.transforms.corruptions import named

    if asked is not None and not asked:
        raise InputError("No corruption was named. Name one, such as fog, a group, or all.")
    texts = [asked] if isinstance(asked, str) else asked or ()
    return list(dict.fromkeys(one for text in texts for one in named(text)))


def _each(members: Sequence[Metric], view: View) -> tuple[dict[str, Score], dict[str, str]]:
    found: dict[str, Score] = {}
    refused: dict[str, str] = {}
    for member in members:
        try:
            found[member.name] = scored(member, view)
        except NoAnswer as refusal:
            refused[member.name] = str(refusal)
    return found, refused


def scored(member: Metric, view: View) -> Score:
    """The score of a metric, or NoAnswer with what it lacks."""
    for need in member.needs:
        reason = view.lacks(need)
        if reason is not None:
            raise NoAnswer(f"it needs {need}: {reason}")
    return member.score(view)


def _corrupted(
    members: Sequence[Metric], view: View, corruptions: Sequence[Corruption]
) -> list[Corrupted]:
    given, found = view.given, []
    for done, corruption in enumerate(corruptions):
        assert given.dataset is not None
        if given.progress:
            what = f"{corruption.name} {corruption.severity}"
            given.progress(done, len(corruptions), what)
        changed = Changed(given.dataset, corruption, given.seed)
        scores, _ = _each(members, View(replace(given, dataset=changed, progress=None)))
        found.append(Corrupted(corruption, scores))
    return found
