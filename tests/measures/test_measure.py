"""measure(): what applies is measured, what does not is named; noise; signs."""

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
    """The mean of all features of the target."""

    name: str = "mean-feature"
    label: str = "Mean-Feature"
    needs: tuple[Need, ...] = ("features",)
    assumes: str = "nothing"
    paper: str = "none"

    def measure(self, subject: Subject) -> float:
        return float(subject.target.features.mean())


@dataclass(frozen=True)
class Fickle(MeanFeature):
    """0.1, or no answer where the rows that it is given, None for all, are not to its liking."""

    refuses: Callable[[Any], bool] = bool

    def measure(self, subject: Subject) -> float:
        if self.refuses(subject.target.index):
            raise NotApplicable("not of these rows")
        return 0.1


def model() -> TorchModel:
    return TorchModel(toy_network(), name="toy")


def labelled() -> Any:
    return oodometer.as_dataset(SOURCE, labels=LABELS)


def test_all_measures_are_measured_or_refused_by_name_and_reason() -> None:
    found = measure(model(), labelled(), TARGET)
    names = {member.name for member in measures.available()}
    assert set(found.scores) | set(found.skipped) == names
    assert not set(found.scores) & set(found.skipped)
    lacking = {
        name
        for name in names
        if {"training data", "source domains"} & set(measures.get(name).needs)
    }
    assert set(found.skipped) == lacking
    assert found.skipped["sharpness"] == "it needs training data: no training data were given"
    whole = measure(
        model(),
        {name: oodometer.as_dataset(rows, labels=LABELS[:30]) for name, rows in DOMAINS.items()},
        TARGET,
        training_data={name: oodometer.as_dataset(rows, labels=LABELS[:30]) for name, rows in DOMAINS.items()},
    )  # fmt: skip
    assert set(whole.scores) == names


def test_together_they_give_what_each_gives_alone() -> None:
    together = measure(model(), labelled(), TARGET)
    for name in together:
        alone = measure(model(), labelled(), TARGET, measures=name)
        assert alone[name].value == together[name].value, name


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.rows = toy_network(), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += len(x)
        return self.inner(x)  # type: ignore[no-any-return]


def test_the_data_are_shown_once_however_many_measures_read_outputs_and_features() -> None:
    counted = TorchModel(Counting(), name="counted")
    names = [
        m.name for m in measures.available() if set(m.needs) <= {"outputs", "features", "labels"}
    ]
    assert len(names) > 15
    measure(counted, labelled(), TARGET, measures=names)
    assert counted.module.rows == len(SOURCE) + len(TARGET)


def test_one_that_was_asked_for_alone_is_refused_aloud() -> None:
    with pytest.raises(NotApplicable, match="sharpness is not applicable: it needs training data"):
        measure(model(), labelled(), TARGET, measures="sharpness")
    found = measure(model(), labelled(), TARGET, measures=["sharpness", "entropy-target"])
    assert list(found) == ["entropy-target"]
    with pytest.raises(NotApplicable, match="sharpness is not applicable: it needs training data"):
        _ = found["sharpness"]
    with pytest.raises(KeyError):
        _ = found["nothing"]
    with pytest.raises(NotApplicable, match="mean-feature is not applicable: not of these rows"):
        measure(None, SOURCE, TARGET, measures=Fickle(refuses=lambda rows: rows is None))


def test_a_model_without_gradients_asked_for_fisher_is_refused_by_name() -> None:
    closed = oodometer.as_model(lambda rows: np.full((len(rows), 3), 1 / 3), name="closed")
    with pytest.raises(
        NotApplicable, match=r"fisher-align is not applicable: .*'closed' is a FunctionModel"
    ):
        measure(closed, labelled(), TARGET, measures="fisher-align")
    found = measure(closed, labelled(), TARGET)
    assert {"entropy-source", "source-error", "mixup"} <= set(found)
    assert {"jacobian", "l2-path-norm", "h-divergence"} <= set(found.skipped)


def test_outputs_alone_and_features_alone_need_no_model() -> None:
    said = Predictions.from_logits(SOURCE[:, :3], labels=LABELS)
    new = Predictions.from_logits(TARGET[:, :3])
    assert set(measure(None, said, new)) == {
        "entropy-source",
        "entropy-target",
        "source-error",
        "mde",
        "mano",
        "mutual-information",
        "nuclear-norm",
        "softmax-corr",
    }
    found = measure(None, {"a": SOURCE[:30], "b": SOURCE[30:]}, TARGET)
    wanted = {
        m.name for m in measures.available() if set(m.needs) <= {"features", "source domains"}
    }
    assert set(found) == wanted
    assert found.model is None


def test_without_a_model_torch_is_not_imported() -> None:
    code = (
        "import sys, numpy as np, oodometer\n"
        "z = np.random.default_rng(0).normal(size=(2, 60, 4))\n"
        "found = oodometer.measure(None, z[0], z[1] + 1)\n"
        "assert len(found) > 8, found\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_features_at_a_layer_and_given_features() -> None:
    layer = measure(model(), labelled(), TARGET, measures=MeanFeature(), layer="4")
    with torch.no_grad():
        expected = toy_network()[:5](torch.from_numpy(TARGET)).mean()
    assert layer["mean-feature"].value == pytest.approx(float(expected), rel=1e-5)
    given = measure(model(), labelled(), TARGET, measures=MeanFeature(), features=(SOURCE, TARGET))
    assert given["mean-feature"].value == pytest.approx(TARGET.mean())


def test_a_name_is_looked_up_by_its_label_too_and_taken_once() -> None:
    names = ["Entropy-Source", "entropy-source", "ENTROPY-TARGET"]
    outputs = Predictions.from_logits(SOURCE[:, :3])
    assert list(measure(None, outputs, outputs, measures=names)) == [
        "entropy-source", "entropy-target",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "settings", "words"),
    [
        ([], {}, "No measure was named"),
        ("entropy", {}, "No measure is called 'entropy'. Did you mean 'entropy-"),
        (None, {"layer": "7"}, "No layer of 'toy' is called '7'"),
        (None, {"subsamples": 1}, "subsamples must be 0, or 2 or more"),
        (None, {"subsamples": -1}, "got -1"),
        (None, {"features": (SOURCE,)}, "of the source and of the target; got 1"),
        (
            None,
            {"features": (SOURCE, TARGET), "training_data": SOURCE},
            "can't go with training_data",
        ),
        (None, {"features": (SOURCE, TARGET[:4])}, "60 rows"),
    ],
)
def test_what_can_not_be_used_is_refused(names: Any, settings: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        measure(model(), labelled(), TARGET, measures=names, **settings)


def test_unequal_widths_and_constant_features_are_refused() -> None:
    with pytest.raises(InputError, match=r"6.*3"):
        measure(None, SOURCE, TARGET[:, :3], measures=["h-divergence", "mmd-gaussian"])
    flat = np.ones((20, 3))
    found = measure(None, flat, flat[:9])
    assert set(found.skipped.values()) >= {
        "no feature varies over both sides: there is nothing to tell apart"
    }
    assert not found.scores


def test_one_source_domain_asked_for_several_is_refused() -> None:
    for source in (SOURCE, {"one": SOURCE}):
        with pytest.raises(
            NotApplicable, match=r"h-divergence-ms is not applicable: .*mean over source domains"
        ):
            measure(None, source, TARGET, measures="h-divergence-ms")


# Noise ------------------------------------------------------------------------------------------


def test_noise_is_that_of_a_loop_over_subsets() -> None:
    names = ["entropy-target", "source-error", "h-divergence"]
    found = measure(model(), labelled(), TARGET, measures=names, subsamples=6, seed=3)
    subject = build_subject(model(), labelled(), TARGET, seed=3)
    values = np.array([
        [measure_one(measures.get(name), subject.subsample(0.8, rng_for(3, "subset of rows", r))).value
         for name in names]
        for r in range(6)
    ])  # fmt: skip
    for name, column in zip(names, values.T, strict=True):
        noise = found.noise[name]
        assert noise.mean == pytest.approx(column.mean())
        assert noise.sd == pytest.approx(column.std(ddof=1))
        assert noise.signal_to_noise == pytest.approx(column.mean() / column.std(ddof=1))
        assert noise.subsamples == 6


def test_one_that_is_refused_on_all_rows_or_on_a_subset_has_no_noise() -> None:
    some = Fickle("some", refuses=lambda rows: rows is not None and 0 not in rows)
    late = Fickle("late", refuses=lambda rows: rows is None)
    found = measure(None, SOURCE, TARGET, measures=[MeanFeature(), some, late], subsamples=12)
    assert list(found) == ["mean-feature", "some"]
    assert list(found.noise) == ["mean-feature"]
    assert measure(None, SOURCE, TARGET, measures=MeanFeature()).noise == {}


def test_equal_values_have_no_deviation_whatever_rounding_makes_of_their_mean() -> None:
    assert np.std([0.1] * 3) > 0
    found = measure(None, SOURCE, TARGET, measures=Fickle(refuses=lambda rows: False), subsamples=3)
    noise = found.noise["mean-feature"]
    assert (noise.sd, noise.signal_to_noise, noise.subsamples) == (0, None, 3)


def test_noise_of_a_mean_is_as_large_as_sampling_theory_says() -> None:
    """Of 80 % drawn without replacement: sd = σ √((1 − 0.8) / (0.8 n))."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 1))
    found = measure(None, features, features, measures=MeanFeature(), subsamples=400)
    expected = features.std(ddof=1) * np.sqrt(0.2 / (0.8 * 500))
    assert found.noise["mean-feature"].sd == pytest.approx(expected, rel=0.12)


def test_what_does_not_hang_on_the_rows_has_no_ratio() -> None:
    found = measure(model(), labelled(), TARGET, measures="spectral-norm", subsamples=2)
    assert found.noise["spectral-norm"].sd == 0
    assert found.noise["spectral-norm"].signal_to_noise is None
    assert SubsetNoise(-2.0, 0.5, 9).signal_to_noise == 4.0


# What is given back -----------------------------------------------------------------------------


def test_it_is_a_mapping_prints_as_a_table_and_goes_into_json() -> None:
    import json

    found = measure(
        model(), labelled(), TARGET, measures=["entropy-target", "sharpness"], subsamples=2
    )
    assert len(found) == 1
    assert dict(found) == {"entropy-target": found["entropy-target"]}
    lines = str(found).splitlines()
    assert lines[0].startswith("entropy-target  ")
    assert (
        lines[1]
        == "sharpness       not applicable: it needs training data: no training data were given"
    )
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["model"] == "toy"
    assert (plain["n_source"], plain["n_target"], plain["n_training"]) == (60, 60, None)
    row = plain["measures"][0]
    assert row["measure"] == "entropy-target"
    assert row["value"] == found["entropy-target"].value
    assert set(row["noise"]) == {"mean", "sd", "snr", "subsamples"}
    assert plain["skipped"][0]["measure"] == "sharpness"


def test_what_was_looked_at_is_told() -> None:
    source = oodometer.as_dataset(SOURCE[:50], labels=LABELS[:50], name="site")
    found = measure(
        model(),
        source,
        TARGET[:40],
        measures="entropy-target",
        training_data=labelled(),
        subsamples=2,
        seed=5,
    )
    plain = found.to_dict()
    noise = found.noise["entropy-target"]
    assert plain["measures"][0]["noise"] == {
        "mean": noise.mean, "sd": noise.sd, "snr": noise.mean / noise.sd, "subsamples": 2,
    }  # fmt: skip
    del plain["measures"]
    assert plain == {
        "model": "toy", "source": "site", "target": "target", "n_source": 50, "n_target": 40,
        "n_training": 60, "seed": 5, "skipped": [],
    }  # fmt: skip


def test_notes_are_printed() -> None:
    found = measure(None, SOURCE, TARGET, measures=measures.MmdGaussian(rows=20))
    assert str(found).count("only 20 of 60 rows") == 2


def test_all_sides_have_the_seed_and_all_but_the_target_their_labels() -> None:
    subject = build_subject(model(), labelled(), labelled(), training=labelled(), seed=3)
    assert subject.training is not None
    for view in (subject.source, subject.target, subject.training):
        assert view.view_source.seed == subject.seed == 3
    assert np.array_equal(subject.source.labels, LABELS)
    assert np.array_equal(subject.training.labels, LABELS)
    assert subject.target.outputs.labels is None
    assert subject.target.missing("labels") == "'target' has no labels"


def test_progress_is_told_measure_by_measure() -> None:
    told: list[tuple[int, int, str]] = []
    measure(
        model(), labelled(), TARGET, measures=["entropy-source", "entropy-target"], subsamples=2,
        progress=lambda done, total, what: told.append((done, total, what)),
    )  # fmt: skip
    assert told == [
        (0, 2, "measuring entropy-source"), (60, 60, "extracting features of source"),
        (1, 2, "measuring entropy-target"), (60, 60, "extracting features of target"), (2, 2, "measured"),
        (1, 2, "subset 1 of 2"), (2, 2, "subset 2 of 2"),
    ]  # fmt: skip


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(UnknownName):
        get("fisher")


def test_outputs_of_other_classes_are_refused() -> None:
    source, target = (Predictions.from_logits(SOURCE[:, :k]) for k in (3, 4))
    with pytest.raises(InputError, match="the source has 3 classes, the target has 4"):
        measure(None, source, target)
    with pytest.raises(InputError, match="the source has 3 classes, the training data has 4"):
        measure(None, source, source, training_data=target)


@pytest.mark.parametrize("wrong", [2.5, "3", 1, -2])
def test_replicates_are_counted(wrong: Any) -> None:
    with pytest.raises(InputError, match="subsamples must be 0, or 2 or more; got"):
        measure(model(), SOURCE, TARGET, measures="entropy-target", subsamples=wrong)


def test_features_are_those_of_both_sides() -> None:
    for some in ((SOURCE,), (SOURCE, None)):
        wrong: Any = some
        with pytest.raises(InputError, match="of the source and of the target; got 1"):
            measure(model(), SOURCE, TARGET, measures="mmd-gaussian", features=wrong)


def test_a_measure_that_gives_no_number_is_named() -> None:
    @dataclass(frozen=True)
    class Silent(MeanFeature):
        name: str = "silent"

        def measure(self, subject: Subject) -> Any:
            return None

    with pytest.raises(InputError, match=r"silent gave None\. A measure gives a Score or a number"):
        measure(model(), SOURCE, TARGET, measures=Silent())
