"""Parallel measures: the same scores, errors and noise as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.measures import available
from oodometer.measures import distributed as distributed_measures
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
NAMES = ["entropy-source", "source-error", "h-divergence", "h-divergence+source-error", "mmd-mean-cov",
        "fisher-align", "jacobian", "mixup", "spectral-norm", "nuclear-norm", "sharpness"]  # fmt: skip


@pytest.fixture(autouse=True)
def _small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small batches, so that there are many blocks; also in one process."""
    monkeypatch.setattr("oodometer.models.inference.DEFAULT_BATCH_ROWS", 16)
    monkeypatch.setattr(runners, "MAX_TASK_ROWS", 40)


def source() -> Any:
    from oodometer.data import as_dataset

    half = len(SOURCE) // 2
    return {
        "one": as_dataset(SOURCE[:half], labels=LABELS[:half]),
        "other": as_dataset(SOURCE[half:], labels=LABELS[half:]),
    }


def run(runner: Runner | None, names: Any = None, **given: Any) -> dict[str, Any]:
    """Return the measurements of a toy network as plain values."""
    model = given.pop("model", TorchModel(toy_network(), name="toy"))
    return measure(model, source(), TARGET, measures=names, runner=runner, **given).to_dict()


def test_scores_do_not_depend_on_task_order() -> None:
    quick = [entry.name for entry in available() if not entry.name.startswith(("hplus", "hdh"))]
    expected = run(None, quick)
    assert len(expected["measures"]) > 30
    assert [entry["measure"] for entry in expected["skipped"]] == ["sharpness"]
    assert run(mailed(0), quick) == expected


def test_noise_does_not_depend_on_task_order() -> None:
    given: dict[str, Any] = {"names": NAMES, "subsamples": 2, "seed": 4}
    expected = run(serial, **given)
    assert all(entry["noise"]["subsamples"] == 2 for entry in expected["measures"])
    assert run(None, **given) == run(mailed(0), **given) == expected


def test_processes_and_cluster_survive_dying_workers(two_workers: str, tmp_path: Path) -> None:
    """Without torch, which takes seconds to import; the tests of the commands use it."""
    names = ["entropy-source", "source-error", "mixup", "nuclear-norm"]
    expected = run(serial, [MortalMeasure(), *names], model=Bright())
    assert len(expected["measures"]) == 5
    for runner, name in ((processes(2), "processes"), (distributed(two_workers), "cluster")):
        mortal = MortalMeasure(trace=tmp_path / name)
        assert run(runner, [mortal, *names], model=Bright()) == expected
        assert mortal.trace.exists()


class AlwaysNotApplicable(Confident):
    def measure(self, subject: Subject) -> float:
        raise NotApplicable("not today")


class AlwaysInvalid(Confident):
    def measure(self, subject: Subject) -> float:
        raise InputError("Out of order. Repair it.")


def test_errors_of_measures_are_the_same_as_in_one_process() -> None:
    result = run(mailed(0), [AlwaysNotApplicable(), "jacobian"])
    assert result["skipped"] == [{"measure": "confident", "reason": "not today"}]
    with pytest.raises(NotApplicable, match="confident is not applicable: not today"):
        run(mailed(0), AlwaysNotApplicable())
    with pytest.raises(InputError, match=r"^Out of order\. Repair it\.$"):
        run(mailed(0), [AlwaysInvalid(), "jacobian"])


def test_unpicklable_model_is_named() -> None:
    unpicklable = TorchModel(toy_network(), name="mine", prepare=lambda x: x)
    with pytest.raises(InputError, match="The model 'mine' cannot be sent to workers"):
        run(processes(2), ["jacobian"], model=unpicklable)


def test_unpicklable_measure_is_named() -> None:
    class LocalMeasure(Confident):
        pass

    with pytest.raises(InputError, match="The measure 'confident' cannot be sent to workers"):
        run(processes(2), [LocalMeasure(), "spectral-norm"], model=Bright())


def test_skipped_measures_have_no_noise() -> None:
    reports: list[Any] = []
    given: dict[str, Any] = {"subsamples": 2, "progress": lambda *report: reports.append(report)}
    result = run(mailed(0), ["jacobian", "fisher-align"], model=Bright(), **given)
    assert len(result["skipped"]) == 2
    assert result["measures"] == []


def test_function_models_give_outputs_only() -> None:
    names = ["entropy-target", "jacobian", "mmd-mean-cov"]
    expected = run(None, names, model=Bright())
    assert len(expected["skipped"]) == 2
    assert run(mailed(1), names, model=Bright()) == expected


def test_networks_without_linear_layers_give_outputs_only() -> None:
    names, model = ["entropy-target", "mmd-mean-cov"], TorchModel(nn.Softplus(), name="bare")
    expected = run(None, names, model=model)
    assert [entry["measure"] for entry in expected["measures"]] == ["entropy-target"]
    assert run(mailed(1), names, model=model) == expected


def test_arrays_need_no_forward_pass() -> None:
    source_outputs = Predictions.from_logits(SOURCE[:, :3], labels=LABELS)
    target_outputs = Predictions.from_logits(TARGET[:, :3])
    names = ["entropy-target", "source-error"]
    expected = measure(None, source_outputs, target_outputs, measures=names)
    result = measure(None, source_outputs, target_outputs, measures=names, runner=mailed(0))
    assert result == expected
    features = measure(None, SOURCE, TARGET, measures="mmd-mean-cov", runner=mailed(0))
    assert features == measure(None, SOURCE, TARGET, measures="mmd-mean-cov")


def test_outputs_are_precomputed_by_the_workers() -> None:
    subject = build_subject(TorchModel(toy_network(), name="toy"), source(), TARGET)
    computed = distributed_measures.precompute_outputs(mailed(0), subject, None)
    for before, after in ((subject.source, computed.source), (subject.target, computed.target)):
        assert after.view_source.precomputed is not None
        assert np.array_equal(after.features, before.features)
        assert np.array_equal(np.asarray(after.outputs.scores), np.asarray(before.outputs.scores))


def test_failing_view_only_affects_measures_that_read_it() -> None:
    """The source has too few columns, but weight norms do not read it."""
    from oodometer.data import as_dataset

    model = TorchModel(toy_network(), name="toy")
    narrow = as_dataset(SOURCE[:, :2], labels=LABELS)
    names = ["spectral-norm", "entropy-target"]
    expected = measure(model, narrow, TARGET, measures=names)
    assert measure(model, narrow, TARGET, measures=names, runner=mailed(0)) == expected
    with pytest.raises(InputError, match="toy"):
        measure(model, narrow, TARGET, measures=["entropy-source"], runner=mailed(0))


def test_progress_counts_measures() -> None:
    reports: list[tuple[int, int, str]] = []
    run(
        mailed(0),
        ["jacobian", "spectral-norm"],
        subsamples=2,
        progress=lambda *n: reports.append(n),
    )
    assert [report[:2] for report in reports] == [(1, 2), (2, 2), (2, 4), (4, 4)]


def test_groups_cover_all_measures_and_share_a_classifier() -> None:
    groups = group_by_shared_work(available())
    assert sorted(entry.name for group in groups for entry in group) == sorted(
        entry.name for entry in available()
    )
    (h_group,) = [group for group in groups if group[0].name == "h-divergence"]
    assert "h-divergence-train-ms+source-error" in [entry.name for entry in h_group]
    assert "hplus-divergence" not in [entry.name for entry in h_group]
