"""Reference: results equal those of separate estimates, and the source is learned once."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import oodometer
from oodometer import InputError, Predictions, Reference, UnknownName
from oodometer.assessment import _estimate
from oodometer.core.calibration import calibrate, fit_temperature
from oodometer.estimators.atc import ATC

METHODS = ("ac", "doc", "atc-mc", "cot", "bbse", "iw")


def rows(n: int, seed: int, *, k: int = 3, decimals: int | None = None) -> tuple[Any, Any]:
    """Return probabilities and labels of rows that are overconfident."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    sharp = np.exp(1.5 * logits) / np.exp(1.5 * logits).sum(axis=1, keepdims=True)
    return (sharp if decimals is None else sharp.round(decimals)), labels


def labelled(n: int, seed: int, **options: Any) -> Predictions:
    probs, labels = rows(n, seed, **options)
    return Predictions.from_probs(probs, labels=labels)


def targets(**options: Any) -> list[Predictions]:
    return [labelled(n, seed, **options) for seed, n in enumerate((80, 120, 60), start=1)]


@pytest.mark.parametrize("decimals", [None, 2])
def test_results_equal_separate_estimates(decimals: int | None) -> None:
    source = labelled(300, 0, decimals=decimals)
    reference = Reference(source, methods=METHODS, seed=3)
    for target in targets(decimals=decimals):
        expected = oodometer.estimate(source, target, methods=METHODS, seed=3)
        assert reference.estimate(target).to_dict() == expected.to_dict()


def test_results_with_segments_and_labels_equal_separate_estimates() -> None:
    source = labelled(300, 0)
    source_segments = np.arange(300) % 3
    reference = Reference(source, methods=METHODS, segment_by=source_segments)
    for target in targets():
        options: dict[str, Any] = {
            "segment_by": np.arange(target.n) % 4,
            "target_labels": (np.arange(30), target.labels[:30]),  # type: ignore[index]
        }
        expected = oodometer.estimate(
            source, target, methods=METHODS, source_segment_by=source_segments, **options
        )
        result = reference.estimate(target, **options)
        assert result.to_dict() == expected.to_dict()
        assert [segment.n_source for segment in result.segments] == [100, 100, 100, 0]


def test_results_do_not_depend_on_the_order_of_targets() -> None:
    reference = Reference(labelled(300, 0), methods=METHODS)
    first, second, _ = targets()
    forwards = [reference.estimate(target).to_dict() for target in (first, second)]
    backwards = [reference.estimate(target).to_dict() for target in (second, first)]
    assert forwards == backwards[::-1]


def test_other_models_and_history_equal_separate_estimates() -> None:
    source, (target, *_) = labelled(300, 0), targets()
    others = [labelled(300, seed) for seed in (20, 21)]
    others_on_target = [labelled(target.n, seed) for seed in (22, 23)]
    history = [labelled(70, seed) for seed in range(30, 36)]
    methods = ("ac", "doc", "gde", "aline-s")
    expected = oodometer.estimate(
        source,
        target,
        methods=methods,
        other_models=others_on_target,
        other_models_on_source=others,
    )
    reference = Reference(source, methods=methods, other_models=others)
    result = reference.estimate(target, other_models=others_on_target)
    assert result.to_dict() == expected.to_dict()
    plain = Reference(source, methods=METHODS)
    result = plain.estimate(target, history=history)
    expected = oodometer.estimate(source, target, methods=METHODS, history=history)
    assert result.to_dict() == expected.to_dict()


def test_targets_with_and_without_probabilities_can_be_mixed() -> None:
    source, (target, *_) = labelled(300, 0), targets()
    classes = Predictions.from_classes(target.classes, k=3)
    reference = Reference(source)
    temperatures = []
    for rows_ in (target, classes, target, classes):
        result = reference.estimate(rows_)
        assert result.to_dict() == oodometer.estimate(source, rows_).to_dict()
        temperatures.append(result.temperature)
    assert temperatures[1] is temperatures[3] is None
    assert temperatures[0] == temperatures[2] != 1.0


def test_source_is_learned_once() -> None:
    reference = Reference(labelled(300, 0), methods=("atc-mc", "ac"))
    with (
        mock.patch.object(_estimate, "fit_temperature", wraps=fit_temperature) as fit,
        mock.patch.object(_estimate, "calibrate", wraps=calibrate) as further,
        mock.patch.object(ATC, "learn", autospec=True, side_effect=ATC.learn) as learn,
    ):
        for target in targets():
            reference.estimate(target, segment_by=np.arange(target.n) % 2)
    assert (fit.call_count, further.call_count, learn.call_count) == (1, 1, 1)


def test_invalid_sources_and_settings_raise_at_construction() -> None:
    source = labelled(50, 0)
    with pytest.raises(InputError, match="The source has no labels"):
        Reference(source.without_labels())
    with pytest.raises(InputError, match=r"source: probs must have shape \(n, k\)"):
        Reference([0.5])
    with pytest.raises(InputError, match="replicates"):
        Reference(source, replicates=3)
    with pytest.raises(UnknownName, match="calibration"):
        Reference(source, calibration="isotonnic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="temperature must be 'fit', None"):
        Reference(source, temperature="warm")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="segment_by of the source"):
        Reference(source, segment_by=[1, 2])
    with pytest.raises(UnknownName, match="atc"):
        Reference(source, methods="atc-mcc")
