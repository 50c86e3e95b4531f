"""Measures by many workers: the same scores, the same refusals, the same noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.measures import available
from oodometer.measures import distributed as measured
from oodometer.measures._measure import build_subject, measure
from oodometer.measures.distributed import group_by_shared_work
from oodometer.measures.subject import Subject
from oodometer.models import TorchModel
from oodometer.parallel import runners
from oodometer.parallel.runners import Runner, distributed, processes, serial
from oodometer.testing.measures import toy_data, toy_network
from tests.support.distributed_work import Bright, Confident, MortalMeasure, mailed

SOURCE, LABELS = toy_data(1)
TARGET, _ = toy_data(2, 1.0)
SOME = ["entropy-source", "source-error", "h-divergence", "h-divergence+source-error", "mmd-mean-cov",
        "fisher-align", "jacobian", "mixup", "spectral-norm", "nuclear-norm", "sharpness"]  # fmt: skip


@pytest.fixture(autouse=True)
def _small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that rows are cut into many blocks; what is asked in one process is cut alike."""
    monkeypatch.setattr("oodometer.models.inference.DEFAULT_BATCH_ROWS", 16)
    monkeypatch.setattr(runners, "MAX_TASK_ROWS", 40)


def source() -> Any:
    from oodometer.data import as_dataset

    half = len(SOURCE) // 2
    return {
        "one": as_dataset(SOURCE[:half], labels=LABELS[:half]),
        "other": as_dataset(SOURCE[half:], labels=LABELS[half:]),
    }


def found(runner: Runner | None, names: Any = None, **given: Any) -> dict[str, Any]:
    """All that comes of a toy network."""
    model = given.pop("model", TorchModel(toy_network(), name="toy"))
    return measure(model, source(), TARGET, measures=names, runner=runner, **given).to_dict()


def test_all_measures_are_the_same_in_any_order() -> None:
    quick = [one.name for one in available() if not one.name.startswith(("hplus", "hdh"))]
    expected = found(None, quick)
    assert len(expected["measures"]) > 30
    assert [one["measure"] for one in expected["skipped"]] == ["sharpness"]
    assert found(mailed(0), quick) == expected


def test_the_noise_is_the_same_in_any_order() -> None:
    given: dict[str, Any] = {"names": SOME, "subsamples": 2, "seed": 4}
    expected = found(serial, **given)
    assert all(one["noise"]["subsamples"] == 2 for one in expected["measures"])
    assert found(None, **given) == found(mailed(0), **given) == expected


def test_processes_and_a_cluster_give_the_same_whoever_dies(
    two_workers: str, tmp_path: Path
) -> None:
    """Without torch, which takes every worker seconds to import; commands are tried with it."""
    names = ["entropy-source", "source-error", "mixup", "nuclear-norm"]
    expected = found(serial, [MortalMeasure(), *names], model=Bright())
    assert len(expected["measures"]) == 5
    for runner, name in ((processes(2), "processes"), (distributed(two_workers), "cluster")):
        mortal = MortalMeasure(trace=tmp_path / name)
        assert found(runner, [mortal, *names], model=Bright()) == expected
        assert mortal.trace.exists()


class Refusing(Confident):
    def measure(self, subject: Subject) -> float:
        raise NotApplicable("not today")


class Broken(Confident):
    def measure(self, subject: Subject) -> float:
        raise InputError("Out of order. Repair it.")


def test_a_measure_that_has_no_answer_says_its_reason_as_before() -> None:
    several = found(mailed(0), [Refusing(), "jacobian"])
    assert several["skipped"] == [{"measure": "confident", "reason": "not today"}]
    with pytest.raises(NotApplicable, match="confident is not applicable: not today"):
        found(mailed(0), Refusing())
    with pytest.raises(InputError, match=r"^Out of order\. Repair it\.$"):
        found(mailed(0), [Broken(), "jacobian"])


def test_a_model_that_can_not_be_sent_is_named() -> None:
    mine = TorchModel(toy_network(), name="mine", prepare=lambda x: x)
    with pytest.raises(InputError, match="The model 'mine' can't be sent to workers"):
        found(processes(2), ["jacobian"], model=mine)


def test_a_measure_that_can_not_be_sent_is_named() -> None:
    class Mine(Confident):
        pass

    with pytest.raises(InputError, match="The measure 'confident' can't be sent to workers"):
        found(processes(2), [Mine(), "spectral-norm"], model=Bright())


def test_without_an_answer_there_is_no_noise() -> None:
    told: list[Any] = []
    given: dict[str, Any] = {"subsamples": 2, "progress": lambda *news: told.append(news)}
    several = found(mailed(0), ["jacobian", "fisher-align"], model=Bright(), **given)
    assert len(several["skipped"]) == 2
    assert several["measures"] == []


def test_a_model_that_can_not_be_looked_into_is_asked_all_the_same() -> None:
    names = ["entropy-target", "jacobian", "mmd-mean-cov"]
    expected = found(None, names, model=Bright())
    assert len(expected["skipped"]) == 2
    assert found(mailed(1), names, model=Bright()) == expected


def test_a_network_without_a_last_layer_gives_outputs_all_the_same() -> None:
    names, model = ["entropy-target", "mmd-mean-cov"], TorchModel(nn.Softplus(), name="bare")
    expected = found(None, names, model=model)
    assert [one["measure"] for one in expected["measures"]] == ["entropy-target"]
    assert found(mailed(1), names, model=model) == expected


def test_without_a_model_there_is_nothing_to_pass_over() -> None:
    given = Predictions.from_logits(SOURCE[:, :3], labels=LABELS), TARGET
    said = given[0], Predictions.from_logits(TARGET[:, :3])
    expected = measure(None, *said, measures=["entropy-target", "source-error"])
    assert (
        measure(None, *said, measures=["entropy-target", "source-error"], runner=mailed(0))
        == expected
    )
    features = measure(None, SOURCE, TARGET, measures="mmd-mean-cov", runner=mailed(0))
    assert features == measure(None, SOURCE, TARGET, measures="mmd-mean-cov")


def test_passes_are_made_by_the_workers_and_once() -> None:
    subject = build_subject(TorchModel(toy_network(), name="toy"), source(), TARGET)
    known = measured.precompute_outputs(mailed(0), subject, None)
    for before, after in ((subject.source, known.source), (subject.target, known.target)):
        assert after.view_source.precomputed is not None
        assert np.array_equal(after.features, before.features)
        assert np.array_equal(np.asarray(after.outputs.scores), np.asarray(before.outputs.scores))


def test_a_side_that_fails_is_left_to_those_who_need_it() -> None:
    """The source has too few columns; norms do not look at it."""
    bad = TorchModel(toy_network(), name="toy")
    narrow = SOURCE[:, :2], LABELS
    from oodometer.data import as_dataset

    given = as_dataset(narrow[0], labels=narrow[1]), TARGET
    expected = measure(bad, *given, measures=["spectral-norm", "entropy-target"])
    assert (
        measure(bad, *given, measures=["spectral-norm", "entropy-target"], runner=mailed(0))
        == expected
    )
    with pytest.raises(InputError, match="toy"):
        measure(bad, *given, measures=["entropy-source"], runner=mailed(0))


def test_progress_counts_measures_to_the_last() -> None:
    told: list[tuple[int, int, str]] = []
    found(
        mailed(0), ["jacobian", "spectral-norm"], subsamples=2, progress=lambda *n: told.append(n)
    )
    assert [news[:2] for news in told] == [(1, 2), (2, 2), (2, 4), (4, 4)]


def test_families_are_all_measures_and_share_a_classifier() -> None:
    cut = group_by_shared_work(available())
    assert sorted(one.name for some in cut for one in some) == sorted(
        one.name for one in available()
    )
    (plain,) = [some for some in cut if some[0].name == "h-divergence"]
    assert "h-divergence-train-ms+source-error" in [one.name for one in plain]
    assert "hplus-divergence" not in [one.name for one in plain]
