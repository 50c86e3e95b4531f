"""What is learned and stored: equal estimates after reopening, no rows, nothing pickled."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from oodometer import InputError, Monitor, Predictions, Reference
from oodometer.monitor import learned_codec
from tests.monitor.conftest import draw


def three_classes(n: int, seed: int, *, labelled: bool) -> Predictions:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3)) * 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1) if labelled else None
    return Predictions.from_logits(
        3 * logits,
        labels=None if labels is None else np.array(["a", "b", "c"])[labels],
        class_names=["a", "b", "c"],
    )


@pytest.mark.parametrize("make", ["binary", "three classes"])
def test_estimates_of_a_reopened_monitor_equal_those_of_a_reference(
    make: str, tmp_path: Path
) -> None:
    if make == "binary":
        source, batch = draw(6000, 1, labelled=True), draw(900, 2, shift=0.5)
    else:
        source, batch = three_classes(3000, 1, labelled=True), three_classes(700, 2, labelled=False)
    Monitor.create(tmp_path, source).close()
    added = Monitor.open(tmp_path).add(batch)
    expected = Reference(source).estimate(batch)
    assert set(added.estimates) >= {"ac", "doc", "atc-mc"}
    for method, value in added.estimates.items():
        assert value == pytest.approx(expected[method].value, abs=1e-12), method
    assert (added.estimate, added.low, added.high) == pytest.approx(
        (expected["atc-mc"].value, expected["atc-mc"].low, expected["atc-mc"].high), abs=1e-9
    )


def test_confidence_score_is_the_average_calibrated_confidence(tmp_path: Path) -> None:
    source, batch = draw(6000, 1, labelled=True), draw(900, 2, shift=0.5)
    monitor = Monitor.create(tmp_path, source, score="confidence")
    added = monitor.add(batch)
    expected = Reference(source).estimate(batch)["ac"]
    assert added.estimate == pytest.approx(expected.value, abs=1e-12)
    assert added.low is not None
    assert expected.low is not None
    assert abs(added.low - expected.low) < 0.01
    assert monitor.baseline.source_mean == pytest.approx(source.correct.mean(), abs=0.01)


def test_decisions_of_source_and_batches_are_used(tmp_path: Path) -> None:
    source = draw(3000, 1, labelled=True).decide(0.7)
    monitor = Monitor.create(tmp_path, source)
    batch = draw(500, 2).decide(0.7)
    assert monitor.add(batch).estimate == pytest.approx(
        Reference(source).estimate(batch)["atc-mc"].value
    )
    with pytest.raises(InputError, match="decisions"):
        monitor.add(draw(500, 3))


def test_rows_of_the_source_are_not_stored(tmp_path: Path) -> None:
    source = draw(5000, 1, labelled=True)
    monitor = Monitor.create(tmp_path, source)
    stored = monitor._store.blob("learned")
    assert len(stored) < 60_000
    with pytest.raises(InputError, match="keep_rows=True"):
        monitor.reference()


def test_kept_rows_give_the_reference(tmp_path: Path) -> None:
    source = three_classes(1500, 1, labelled=True)
    batch = three_classes(400, 2, labelled=False)
    Monitor.create(tmp_path, source, keep_rows=True).close()
    again = Monitor.open(tmp_path).reference().estimate(batch)
    assert again.accuracy == Reference(source).estimate(batch).accuracy


def test_stored_state_is_not_unpickled() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        part = io.BytesIO()
        np.save(part, np.array([{"a": 1}], dtype=object), allow_pickle=True)
        archive.writestr("tree.npy", part.getvalue())
    with pytest.raises(InputError, match="cannot be read"):
        learned_codec.decode(buffer.getvalue())


def test_unknown_classes_are_not_created() -> None:
    tree = json.dumps({"class": "Popen", "fields": {"args": "true"}}).encode()
    buffer = io.BytesIO()
    np.savez(buffer, tree=np.frombuffer(tree, dtype=np.uint8))
    with pytest.raises(InputError, match="unknown class 'Popen'"):
        learned_codec.decode(buffer.getvalue())
    with pytest.raises(TypeError, match="cannot be stored"):
        learned_codec.encode({"object": object()})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Predictions.from_classes([0, 1] * 50, labels=[0, 1] * 50, k=2), "predicted classes only"),
        (Predictions.from_probs([[0.9, 0.1]] * 100, labels=[0] * 100), "no errors"),
        (draw(100, 1), "no labels"),
    ],
)
def test_unsuitable_sources_are_rejected(source: Predictions, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        Monitor.create(tmp_path, source)
