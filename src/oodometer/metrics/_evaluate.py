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

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Metric, ProgressCallback
from oodometer.core.results import Score
from oodometer.data.dataset import TransformedDataset
from oodometer.metrics.registry import resolve_metrics
from oodometer.models import as_model
from oodometer.models.model_view import ModelView, ViewFactory
from oodometer.transforms.corruptions import Corruption


@dataclass(frozen=True)
class CorruptionScores:
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
    skipped: Mapping[str, str]
    by_corruption: tuple[CorruptionScores, ...]
    seed: int

    def __getitem__(self, name: str) -> Score:
        """The score of one metric on the data as they are."""
        if name in self.skipped:
            raise NotApplicable(f"{name} is not applicable: {self.skipped[name]}")
        return self.scores[name]

    @property
    def mean_under_corruption(self) -> dict[str, float]:
        """The mean of each metric over all corruptions that were asked for."""
        names = self.by_corruption[0].scores if self.by_corruption else ()
        return {
            name: float(np.mean([one.scores[name].value for one in self.by_corruption]))
            for name in names
            if all(name in one.scores for one in self.by_corruption)
        }

    def __str__(self) -> str:
        mean = self.mean_under_corruption
        wide = max(len(name) for name in (*self.scores, *self.skipped))
        lines = []
        for name, one in self.scores.items():
            after = f"  corrupted {mean[name]:.4f}" if name in mean else ""
            lines.append(f"{name:<{wide}}  {one.value:>8.4f}{after}")
        lines += [f"{name:<{wide}}  not applicable: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {
            "model": self.model,
            "data": self.data,
            "n": self.n,
            "seed": self.seed,
            "metrics": [{"metric": name, **one.to_dict()} for name, one in self.scores.items()],
            "skipped": [{"metric": name, "reason": why} for name, why in self.skipped.items()],
            "under_corruption": self.mean_under_corruption,
            "corrupted": [one.to_dict() for one in self.by_corruption],
        }


def evaluate(
    model: Any,
    data: Any,
    *,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    corruptions: str | Sequence[str] | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """How good a model is on labelled data, by every metric that applies.

    `model` is anything that `as_model` opens and `data` anything that `as_dataset` opens; without a
    model (None) the data are labelled Predictions. `metrics` are all unless named. With `corruptions`
    (all, a group such as noise, or names such as fog and jpeg-3) images are also scored after these
    corruptions, at five severities unless one is named; the adversarial error is not.

    >>> from oodometer import Predictions
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], labels=[0, 1, 1, 1])
    >>> evaluate(None, said)["error"].value
    0.25
    """
    members = resolve_metrics(metrics)
    resolved = _resolve_corruptions(corruptions)
    looking = ViewFactory(None if model is None else as_model(model), seed=seed, progress=progress)
    view = looking.view(data, "data")
    if not any("features" in member.needs for member in members):
        view = ModelView(replace(view.view_source, layer=None))
    if resolved and (view.view_source.dataset is None or view.view_source.dataset.kind != "images"):
        raise InputError(
            "Corruptions are of images, and these data are "
            f"{'outputs' if view.view_source.dataset is None else view.view_source.dataset.kind}. "
            "Leave out corruptions=… (--corruption)."
        )
    found, refused = _score_all(members, view)
    if isinstance(metrics, str | Metric) and refused:
        raise NotApplicable(
            "; ".join(f"{name} is not applicable: {why}" for name, why in refused.items())
        )
    plain = [one for one in members if one.name in found and "gradients" not in one.needs]
    return Evaluation(
        model=None if view.view_source.model is None else view.view_source.model.name,
        data=view.name,
        n=view.n,
        scores=found,
        skipped=refused,
        by_corruption=tuple(_score_corruptions(plain, view, resolved)),
        seed=seed,
    )


def _resolve_corruptions(requested: str | Sequence[str] | None) -> list[Corruption]:
    from oodometer.transforms.corruptions import parse_corruptions

    if requested is not None and not requested:
        raise InputError("No corruption was named. Name one, such as fog, a group, or all.")
    texts = [requested] if isinstance(requested, str) else requested or ()
    return list(dict.fromkeys(one for text in texts for one in parse_corruptions(text)))


def _score_all(
    members: Sequence[Metric], view: ModelView
) -> tuple[dict[str, Score], dict[str, str]]:
    found: dict[str, Score] = {}
    refused: dict[str, str] = {}
    for member in members:
        try:
            found[member.name] = evaluate_metric(member, view)
        except NotApplicable as refusal:
            refused[member.name] = str(refusal)
    return found, refused


def evaluate_metric(metric: Metric, view: ModelView) -> Score:
    """The score of a metric, or NotApplicable with what it lacks."""
    for need in metric.needs:
        reason = view.missing(need)
        if reason is not None:
            raise NotApplicable(f"it needs {need}: {reason}")
    return metric.evaluate(view)


def _score_corruptions(
    members: Sequence[Metric], view: ModelView, corruptions: Sequence[Corruption]
) -> list[CorruptionScores]:
    given, found = view.view_source, []
    for done, corruption in enumerate(corruptions):
        assert given.dataset is not None
        if given.progress:
            what = f"{corruption.name} {corruption.severity}"
            given.progress(done, len(corruptions), what)
        changed = TransformedDataset(given.dataset, corruption, given.seed)
        scores, _ = _score_all(members, ModelView(replace(given, dataset=changed, progress=None)))
        found.append(CorruptionScores(corruption, scores))
    return found
