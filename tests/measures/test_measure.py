"""measure(): applicable measures are computed, others are skipped with a reason; noise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import oodometer
from oodometer import measures
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Need
from oodometer.core.stats import rng_for
from oodometer.measures._measure import SubsetNoise, build_subject, measure
from oodometer.measures.registry import get
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import TorchModel
from oodometer.testing.measures import toy_data, toy_network

SOURCE, LABELS = toy_data(1)
TARGET, _ = toy_data(2, 1.0)
DOMAINS = {"one": SOURCE[:30], "other": SOURCE[30:]}


@dataclass(frozen=True)
class MeanFeature:
    """Mean of all target features."""

    name: str = "mean-feature"
    label: str = "Mean-Feature"
    needs: tuple[Need, ...] = ("features",)
    assumes: str = "nothing"
    paper: str = "none"

    def measure(self, subject: Subject) -> float:
        return float(subject.target.features.mean())


@dataclass(frozen=True)
class Selective(MeanFeature):
    """0.1, or NotApplicable on some selections of rows (None for all rows)."""

    fails_on: Callable[[Any], bool] = bool

    def measure(self, subject: Subject) -> float:
        if self.fails_on(subject.target.index):
            raise NotApplicable("not for these rows")
        return 0.1


def model() -> TorchModel:
    return TorchModel(toy_network(), name="toy")


def labelled() -> Any:
    return oodometer.as_dataset(SOURCE, labels=LABELS)


def test_every_measure_is_scored_or_skipped_with_a_reason() -> None:
    result = measure(model(), labelled(), TARGET)
    names = {member.name for member in measures.available()}
    assert set(result.scores) | set(result.skipped) == names
    assert not set(result.scores) & set(result.skipped)
    missing_data = {
        name
        for name in names
        if {"training data", "source domains"} & set(measures.get(name).needs)
    }
    assert set(result.skipped) == missing_data
    assert result.skipped["sharpness"] == "it needs training data: no training data were given"
    complete = measure(
        model(),
        {name: oodometer.as_dataset(rows, labels=LABELS[:30]) for name, rows in DOMAINS.items()},
        TARGET,
        training_data={name: oodometer.as_dataset(rows, labels=LABELS[:30]) for name, rows in DOMAINS.items()},
    )  # fmt: skip
    assert set(complete.scores) == names


def test_measures_computed_together_equal_single_ones() -> None:
    together = measure(model(), labelled(), TARGET)
    for name in together:
        alone = measure(model(), labelled(), TARGET, measures=name)
        assert alone[name].value == together[name].value, name


class RowCounter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.rows = toy_network(), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += len(x)
        return self.inner(x)  # type: ignore[no-any-return]


def test_outputs_and_features_need_one_forward_pass() -> None:
    counting_model = TorchModel(RowCounter(), name="counted")
    names = [
        m.name for m in measures.available() if set(m.needs) <= {"outputs", "features", "labels"}
    ]
    assert len(names) > 15
    measure(counting_model, labelled(), TARGET, measures=names)
    assert counting_model.module.rows == len(SOURCE) + len(TARGET)


def test_single_measure_that_does_not_apply_raises() -> None:
    with pytest.raises(NotApplicable, match="sharpness is not applicable: it needs training data"):
        measure(model(), labelled(), TARGET, measures="sharpness")
    result = measure(model(), labelled(), TARGET, measures=["sharpness", "entropy-target"])
    assert list(result) == ["entropy-target"]
    with pytest.raises(NotApplicable, match="sharpness is not applicable: it needs training data"):
        _ = result["sharpness"]
    with pytest.raises(KeyError):
        _ = result["nothing"]
    with pytest.raises(NotApplicable, match="mean-feature is not applicable: not for these rows"):
        measure(None, SOURCE, TARGET, measures=Selective(fails_on=lambda rows: rows is None))


def test_fisher_names_the_model_without_gradients() -> None:
    function_model = oodometer.as_model(lambda rows: np.full((len(rows), 3), 1 / 3), name="closed")
    with pytest.raises(
        NotApplicable, match=r"fisher-align is not applicable: .*'closed' is a FunctionModel"
    ):
        measure(function_model, labelled(), TARGET, measures="fisher-align")
    result = measure(function_model, labelled(), TARGET)
    assert {"entropy-source", "source-error", "mixup"} <= set(result)
    assert {"jacobian", "l2-path-norm", "h-divergence"} <= set(result.skipped)


def test_outputs_or_features_alone_need_no_model() -> None:
    outputs = Predictions.from_logits(SOURCE[:, :3], labels=LABELS)
    target_outputs = Predictions.from_logits(TARGET[:, :3])
    assert set(measure(None, outputs, target_outputs)) == {
        "entropy-source",
        "entropy-target",
        "source-error",
        "mde",
        "mano",
        "mutual-information",
        "nuclear-norm",
        "softmax-corr",
    }
    result = measure(None, {"a": SOURCE[:30], "b": SOURCE[30:]}, TARGET)
    expected_names = {
        m.name for m in measures.available() if set(m.needs) <= {"features", "source domains"}
    }
    assert set(result) == expected_names
    assert result.model is None


def test_torch_is_not_imported_without_a_model() -> None:
    code = (
        "import sys, numpy as np, oodometer\n"
        "z = np.random.default_rng(0).normal(size=(2, 60, 4))\n"
        "result = oodometer.measure(None, z[0], z[1] + 1)\n"
        "assert len(result) > 8, result\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_features_from_a_layer_and_from_arrays() -> None:
    layer = measure(model(), labelled(), TARGET, measures=MeanFeature(), layer="4")
    with torch.no_grad():
        expected = toy_network()[:5](torch.from_numpy(TARGET)).mean()
    assert layer["mean-feature"].value == pytest.approx(float(expected), rel=1e-5)
    from_arrays = measure(
        model(), labelled(), TARGET, measures=MeanFeature(), features=(SOURCE, TARGET)
    )
    assert from_arrays["mean-feature"].value == pytest.approx(TARGET.mean())


def test_measures_are_found_by_label_and_computed_once() -> None:
    names = ["Entropy-Source", "entropy-source", "ENTROPY-TARGET"]
    outputs = Predictions.from_logits(SOURCE[:, :3])
    assert list(measure(None, outputs, outputs, measures=names)) == [
        "entropy-source", "entropy-target",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], {}, "No measure was named"),
        ("entropy", {}, "No measure is called 'entropy'. Did you mean 'entropy-"),
        (None, {"layer": "7"}, "No layer of 'toy' is called '7'"),
        (None, {"subsamples": 1}, "subsamples must be 0 or at least 2"),
        (None, {"subsamples": -1}, "got -1"),
        (None, {"features": (SOURCE,)}, "of the source and of the target; got 1"),
        (
            None,
            {"features": (SOURCE, TARGET), "training_data": SOURCE},
            "cannot be combined with training_data",
        ),
        (None, {"features": (SOURCE, TARGET[:4])}, r"shape \(60, d\); got .*\(4, 6\)"),
    ],
)
def test_invalid_arguments_raise(names: Any, settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(model(), labelled(), TARGET, measures=names, **settings)


def test_unequal_widths_and_constant_features_are_rejected() -> None:
    with pytest.raises(InputError, match=r"6.*3"):
        measure(None, SOURCE, TARGET[:, :3], measures=["h-divergence", "mmd-gaussian"])
    flat = np.ones((20, 3))
    result = measure(None, flat, flat[:9])
    assert set(result.skipped.values()) >= {"all features are constant over source and target"}
    assert not result.scores


def test_multi_source_measures_need_several_domains() -> None:
    for source in (SOURCE, {"one": SOURCE}):
        with pytest.raises(
            NotApplicable, match=r"h-divergence-ms is not applicable: .*mean over source domains"
        ):
            measure(None, source, TARGET, measures="h-divergence-ms")


# Noise ------------------------------------------------------------------------------------------


def test_noise_equals_a_loop_over_subsets() -> None:
    names = ["entropy-target", "source-error", "h-divergence"]
    result = measure(model(), labelled(), TARGET, measures=names, subsamples=6, seed=3)
    subject = build_subject(model(), labelled(), TARGET, seed=3)
    values = np.array([
        [measure_one(measures.get(name), subject.subsample(0.8, rng_for(3, "subset of rows", r))).value
         for name in names]
        for r in range(6)
    ])  # fmt: skip
    for name, column in zip(names, values.T, strict=True):
        noise = result.noise[name]
        assert noise.mean == pytest.approx(column.mean())
        assert noise.sd == pytest.approx(column.std(ddof=1))
        assert noise.signal_to_noise == pytest.approx(column.mean() / column.std(ddof=1))
        assert noise.subsamples == 6


def test_noise_needs_a_score_on_all_rows_and_on_every_subset() -> None:
    partial = Selective("some", fails_on=lambda rows: rows is not None and 0 not in rows)
    failing = Selective("late", fails_on=lambda rows: rows is None)
    result = measure(
        None, SOURCE, TARGET, measures=[MeanFeature(), partial, failing], subsamples=12
    )
    assert list(result) == ["mean-feature", "some"]
    assert list(result.noise) == ["mean-feature"]
    assert measure(None, SOURCE, TARGET, measures=MeanFeature()).noise == {}


def test_equal_values_have_exactly_zero_deviation() -> None:
    assert np.std([0.1] * 3) > 0
    result = measure(
        None, SOURCE, TARGET, measures=Selective(fails_on=lambda rows: False), subsamples=3
    )
    noise = result.noise["mean-feature"]
    assert (noise.sd, noise.signal_to_noise, noise.subsamples) == (0, None, 3)


def test_noise_of_a_mean_matches_sampling_theory() -> None:
    """80 % drawn without replacement: sd = σ √((1 − 0.8) / (0.8 n))."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 1))
    result = measure(None, features, features, measures=MeanFeature(), subsamples=400)
    expected = features.std(ddof=1) * np.sqrt(0.2 / (0.8 * 500))
    assert result.noise["mean-feature"].sd == pytest.approx(expected, rel=0.12)


def test_signal_to_noise_is_none_without_noise() -> None:
    result = measure(model(), labelled(), TARGET, measures="spectral-norm", subsamples=2)
    assert result.noise["spectral-norm"].sd == 0
    assert result.noise["spectral-norm"].signal_to_noise is None
    assert SubsetNoise(-2.0, 0.5, 9).signal_to_noise == 4.0


# Results ----------------------------------------------------------------------------------------


def test_result_is_a_mapping_with_table_and_json() -> None:
    import json

    result = measure(
        model(), labelled(), TARGET, measures=["entropy-target", "sharpness"], subsamples=2
    )
    assert len(result) == 1
    assert dict(result) == {"entropy-target": result["entropy-target"]}
    lines = str(result).splitlines()
    assert lines[0].startswith("entropy-target  ")
    assert (
        lines[1]
        == "sharpness       not applicable: it needs training data: no training data were given"
    )
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["model"] == "toy"
    assert (data["n_source"], data["n_target"], data["n_training"]) == (60, 60, None)
    row = data["measures"][0]
    assert row["measure"] == "entropy-target"
    assert row["value"] == result["entropy-target"].value
    assert set(row["noise"]) == {"mean", "sd", "snr", "subsamples"}
    assert data["skipped"][0]["measure"] == "sharpness"


def test_result_names_data_seed_and_sizes() -> None:
    source = oodometer.as_dataset(SOURCE[:50], labels=LABELS[:50], name="site")
    result = measure(
        model(),
        source,
        TARGET[:40],
        measures="entropy-target",
        training_data=labelled(),
        subsamples=2,
        seed=5,
    )
    data = result.to_dict()
    noise = result.noise["entropy-target"]
    assert data["measures"][0]["noise"] == {
        "mean": noise.mean, "sd": noise.sd, "snr": noise.mean / noise.sd, "subsamples": 2,
    }  # fmt: skip
    del data["measures"]
    assert data == {
        "model": "toy", "source": "site", "target": "target", "n_source": 50, "n_target": 40,
        "n_training": 60, "seed": 5, "skipped": [],
    }  # fmt: skip


def test_notes_are_printed() -> None:
    result = measure(None, SOURCE, TARGET, measures=measures.MmdGaussian(rows=20))
    assert str(result).count("only 20 of 60 rows") == 2


def test_all_views_have_the_seed_and_only_the_target_lacks_labels() -> None:
    subject = build_subject(model(), labelled(), labelled(), training=labelled(), seed=3)
    assert subject.training is not None
    for view in (subject.source, subject.target, subject.training):
        assert view.view_source.seed == subject.seed == 3
    assert np.array_equal(subject.source.labels, LABELS)
    assert np.array_equal(subject.training.labels, LABELS)
    assert subject.target.outputs.labels is None
    assert subject.target.missing("labels") == "'target' has no labels"


def test_progress_is_reported_per_measure_and_subset() -> None:
    reports: list[tuple[int, int, str]] = []
    measure(
        model(), labelled(), TARGET, measures=["entropy-source", "entropy-target"], subsamples=2,
        progress=lambda done, total, what: reports.append((done, total, what)),
    )  # fmt: skip
    assert reports == [
        (0, 2, "measuring entropy-source"), (60, 60, "extracting features of source"),
        (1, 2, "measuring entropy-target"), (60, 60, "extracting features of target"), (2, 2, "measured"),
        (1, 2, "subset 1 of 2"), (2, 2, "subset 2 of 2"),
    ]  # fmt: skip


def test_unknown_measure_raises() -> None:
    with pytest.raises(UnknownName):
        get("fisher")


def test_different_class_counts_raise() -> None:
    source, target = (Predictions.from_logits(SOURCE[:, :k]) for k in (3, 4))
    with pytest.raises(InputError, match="the source has 3 classes, the target has 4"):
        measure(None, source, target)
    with pytest.raises(InputError, match="the source has 3 classes, the training data has 4"):
        measure(None, source, source, training_data=target)


@pytest.mark.parametrize("wrong", [2.5, "3", 1, -2])
def test_invalid_subsamples_raise(wrong: Any) -> None:
    with pytest.raises(InputError, match="subsamples must be 0 or at least 2; got"):
        measure(model(), SOURCE, TARGET, measures="entropy-target", subsamples=wrong)


def test_features_must_be_a_pair() -> None:
    for partial in ((SOURCE,), (SOURCE, None)):
        wrong: Any = partial
        with pytest.raises(InputError, match="of the source and of the target; got 1"):
            measure(model(), SOURCE, TARGET, measures="mmd-gaussian", features=wrong)


def test_measure_that_returns_no_number_is_named() -> None:
    @dataclass(frozen=True)
    class Silent(MeanFeature):
        name: str = "silent"

        def measure(self, subject: Subject) -> Any:
            return None

    with pytest.raises(
        InputError, match=r"silent returned None\. A measure must return a Score or a number"
    ):
        measure(model(), SOURCE, TARGET, measures=Silent())
