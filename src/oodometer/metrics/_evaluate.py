"""evaluate(): compute every applicable metric of a model on labelled data.

The metrics are those of Wenzel et al., "Assaying Out-Of-Distribution Generalization in Transfer
Learning", NeurIPS 2022, and some further ones. They can be computed on the original data and on
images after common corruptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Metric, ProgressCallback
from oodometer.core.registry import resolve_members
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.core.results import Score
from oodometer.data.dataset import TransformedDataset
from oodometer.metrics.registry import available, get
from oodometer.models import as_model
from oodometer.models.model_view import ModelView, ViewFactory
from oodometer.transforms.corruptions import Corruption, SeverityScale


@dataclass(frozen=True)
class CorruptionScores:
    """Scores of a model on images after one corruption."""

    corruption: Corruption
    scores: Mapping[str, Score]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with stable keys, for JSON."""
        return {
            "corruption": self.corruption.name,
            "severity": self.corruption.severity,
            "severities": self.corruption.severities,
            "metrics": [{"metric": name, **score.to_dict()} for name, score in self.scores.items()],
        }


@dataclass(frozen=True, repr=False)
class Evaluation(ResultViews):
    """Scores of a model on labelled data, one per metric.

    Indexing by the name of a metric returns its score on the original data, without corruption. It
    raises NotApplicable if the metric was skipped.

    Parameters
    ----------
    model : str or None
        Name of the model; None if only its predictions were given.
    data : str
        Name of the dataset.
    n : int
        Number of rows.
    scores : mapping from str to Score
        Score of each applicable metric, by name.
    skipped : mapping from str to str
        Metrics that are not applicable, each with the reason.
    by_corruption : tuple of CorruptionScores
        Scores after each requested corruption.
    seed : int
        Random seed.
    """

    renderer: ClassVar[str] = "oodometer.report.score_views"

    model: str | None
    data: str
    n: int
    scores: Mapping[str, Score]
    skipped: Mapping[str, str]
    by_corruption: tuple[CorruptionScores, ...]
    seed: int

    def __getitem__(self, name: str) -> Score:
        if name in self.skipped:
            raise NotApplicable(f"{name} is not applicable: {self.skipped[name]}")
        return self.scores[name]

    @property
    def mean_under_corruption(self) -> dict[str, float]:
        """Return the mean of each metric over all requested corruptions.

        Metrics without a score for some corruption are left out.
        """
        names = self.by_corruption[0].scores if self.by_corruption else ()
        return {
            name: float(np.mean([corrupted.scores[name].value for corrupted in self.by_corruption]))
            for name in names
            if all(name in corrupted.scores for corrupted in self.by_corruption)
        }

    def key_values(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "data": self.data,
            "n": self.n,
            **{name: score.value for name, score in list(self.scores.items())[:3]},
            "metrics": len(self.scores),
            "skipped": len(self.skipped),
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the tables `metrics`, `classes`, `corruptions` and `skipped`."""
        means = self.mean_under_corruption
        return {
            "metrics": [
                {
                    "metric": name,
                    "value": score.value,
                    "low": score.low,
                    "high": score.high,
                    "under_corruption": means.get(name),
                    "notes": "; ".join(score.notes),
                }
                for name, score in self.scores.items()
            ],
            "classes": [
                {"metric": name, "class": label, "value": value}
                for name, score in self.scores.items()
                for label, value in score.by_class.items()
            ],
            "corruptions": [
                {
                    "corruption": corrupted.corruption.name,
                    "severity": corrupted.corruption.severity,
                    "metric": name,
                    "value": score.value,
                }
                for corrupted in self.by_corruption
                for name, score in corrupted.scores.items()
            ],
            "skipped": [
                {"metric": name, "reason": reason} for name, reason in self.skipped.items()
            ],
        }

    def __str__(self) -> str:
        means = self.mean_under_corruption
        width = max(len(name) for name in (*self.scores, *self.skipped))
        lines = []
        for name, score in self.scores.items():
            corrupted = f"  corrupted {means[name]:.4f}" if name in means else ""
            lines.append(f"{name:<{width}}  {score.value:>8.4f}{corrupted}")
        lines += [
            f"{name:<{width}}  not applicable: {reason}" for name, reason in self.skipped.items()
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with stable keys, for JSON."""
        return {
            "model": self.model,
            "data": self.data,
            "n": self.n,
            "seed": self.seed,
            "metrics": [{"metric": name, **score.to_dict()} for name, score in self.scores.items()],
            "skipped": [
                {"metric": name, "reason": reason} for name, reason in self.skipped.items()
            ],
            "under_corruption": self.mean_under_corruption,
            "corrupted": [corrupted.to_dict() for corrupted in self.by_corruption],
        }


def evaluate(
    model: Any,
    data: Any,
    *,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    corruptions: str | Sequence[str] | None = None,
    severities: SeverityScale = "published",
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Compute every applicable metric of a model on labelled data.

    Parameters
    ----------
    model : object or None
        Anything that `as_model` accepts. If it is None, the data must be Predictions.
    data : object
        Labelled data, which can be anything that `as_dataset` accepts, or labelled Predictions.
    metrics : str, Metric or sequence of these, optional
        Metrics to compute. Default: all metrics.
    corruptions : str or sequence of str, optional
        Corruptions of images. The metrics are also computed after each of them. Possible values are
        "all" (nineteen corruptions), "standard" (fifteen), a group such as "noise", a name such as
        "fog" for all five severities, or a name with a severity such as "jpeg-3". The adversarial
        error is computed on the original images only.
    severities : {"published", "relative"}
        Severities of the corruptions: those of CIFAR-10-C (images with a longer side below 64
        pixels) and ImageNet-C (larger images), or severities relative to the size of the image.
    seed : int
        Random seed.
    progress : callable, optional
        Called with the number of finished steps, the total number of steps and a description.

    Returns
    -------
    Evaluation
        Scores by metric name. Metrics that are not applicable are skipped, with the reason.

    Raises
    ------
    NotApplicable
        If only one metric was requested and it is not applicable.
    InputError
        If a name is unknown, or corruptions are requested for data that are not images.

    Examples
    --------
    >>> from oodometer import Predictions
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    >>> evaluate(None, Predictions.from_probs(probs, labels=[0, 1, 1, 1]))["error"].value
    0.25
    """
    members = resolve_members(metrics, Metric, available=available, get=get)  # type: ignore[type-abstract]
    resolved = _resolve_corruptions(corruptions, severities)
    factory = ViewFactory(None if model is None else as_model(model), seed=seed, progress=progress)
    view = factory.view(data, "data")
    if not any("features" in member.needs for member in members):
        view = ModelView(replace(view.view_source, layer=None))
    dataset = view.view_source.dataset
    if resolved and (dataset is None or dataset.kind != "images"):
        raise InputError(
            "Corruptions apply to images only; these data are "
            f"{'model outputs' if dataset is None else dataset.kind}. "
            "Leave out corruptions=… (--corruption)."
        )
    scores, skipped = _score_all(members, view)
    if isinstance(metrics, str | Metric) and skipped:
        raise NotApplicable(
            "; ".join(f"{name} is not applicable: {reason}" for name, reason in skipped.items())
        )
    # Metrics that need gradients are too slow to be computed again for every corruption.
    repeated = [
        member for member in members if member.name in scores and "gradients" not in member.needs
    ]
    return Evaluation(
        model=None if view.view_source.model is None else view.view_source.model.name,
        data=view.name,
        n=view.n,
        scores=scores,
        skipped=skipped,
        by_corruption=tuple(_score_corruptions(repeated, view, resolved)),
        seed=seed,
    )


def _resolve_corruptions(
    requested: str | Sequence[str] | None, severities: SeverityScale
) -> list[Corruption]:
    from oodometer.transforms.corruptions.registry import check_severities, parse_corruptions

    check_severities(severities)
    if requested is not None and not requested:
        raise InputError("No corruption was named. Name one, such as fog, a group, or all.")
    names = [requested] if isinstance(requested, str) else requested or ()
    return list(
        dict.fromkeys(
            corruption
            for name in names
            for corruption in parse_corruptions(name, severities=severities)
        )
    )


def _score_all(
    members: Sequence[Metric], view: ModelView
) -> tuple[dict[str, Score], dict[str, str]]:
    """Return the score of each applicable metric, and the reason why each other one is skipped."""
    scores: dict[str, Score] = {}
    skipped: dict[str, str] = {}
    for member in members:
        try:
            scores[member.name] = evaluate_metric(member, view)
        except NotApplicable as error:
            skipped[member.name] = str(error)
    return scores, skipped


def evaluate_metric(metric: Metric, view: ModelView) -> Score:
    """Return the score of one metric.

    Parameters
    ----------
    metric : Metric
        Metric to compute.
    view : ModelView
        Outputs of a model on labelled data.

    Returns
    -------
    Score
        Value in the metric's unit, usually with a confidence interval.

    Raises
    ------
    NotApplicable
        If the view does not provide everything that the metric needs.

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.metrics import Error
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> evaluate_metric(Error(), ModelView(ViewSource("toy", outputs=outputs))).value
    0.5
    """
    for need in metric.needs:
        reason = view.missing(need)
        if reason is not None:
            raise NotApplicable(f"it needs {need}: {reason}")
    return metric.evaluate(view)


def _score_corruptions(
    members: Sequence[Metric], view: ModelView, corruptions: Sequence[Corruption]
) -> list[CorruptionScores]:
    source = view.view_source
    by_corruption = []
    for done, corruption in enumerate(corruptions):
        assert source.dataset is not None
        if source.progress:
            source.progress(done, len(corruptions), f"{corruption.name} {corruption.severity}")
        corrupted = TransformedDataset(source.dataset, corruption, source.seed)
        scores, _ = _score_all(
            members, ModelView(replace(source, dataset=corrupted, progress=None))
        )
        by_corruption.append(CorruptionScores(corruption, scores))
    return by_corruption
