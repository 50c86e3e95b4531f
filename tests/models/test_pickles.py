"""Pickles are rejected unless they are trusted."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from oodometer.core.errors import InputError
from oodometer.models import as_model
from oodometer.models.pickles import PICKLE_SUFFIXES

ROWS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.array(["cat", "dog"])[np.arange(12) % 2]


class Bomb:
    """Object that creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("suffix", [*PICKLE_SUFFIXES, ".PT", ".Pkl"])
def test_pickles_are_not_opened_by_default(tmp_path: Path, suffix: str) -> None:
    path, mark = tmp_path / f"model{suffix}", tmp_path / "mark"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(InputError) as refusal:
        as_model(path)
    words = str(refusal.value)
    assert "can run any code" in words
    assert all(way in words for way in ("ONNX", "safetensors", "skops", "package.module:function"))
    assert "trust_pickle=True (--trust-pickle)" in words
    assert not mark.exists()


def test_unpickling_a_bomb_runs_its_code(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "mark")))
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib"])
@pytest.mark.parametrize("dump", [joblib.dump, lambda it, path: path.write_bytes(pickle.dumps(it))])
def test_trusted_estimators_are_opened(tmp_path: Path, suffix: str, dump: Any) -> None:
    fitted = GaussianNB().fit(ROWS, LABELS)
    dump(fitted, tmp_path / f"bayes{suffix}")
    model = as_model(tmp_path / f"bayes{suffix}", trust_pickle=True)
    assert model.name == "bayes"
    assert np.array_equal(model.classify(ROWS).probs, fitted.predict_proba(ROWS))


def test_trusted_torch_files_are_opened(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2))
    torch.save(module, tmp_path / "net.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3)), tmp_path / "script.pth")  # type: ignore[no-untyped-call]
        predictions = [
            as_model(tmp_path / name, trust_pickle=True).classify(ROWS).scores
            for name in ("net.pt", "script.pth")
        ]
    expected = module(torch.tensor(ROWS, dtype=torch.float32)).detach().numpy()
    assert all(np.allclose(np.asarray(scores), expected, atol=1e-6) for scores in predictions)


def test_weights_without_an_architecture_raise(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InputError, match="weights without an architecture"):
        as_model(tmp_path / "weights.pt", trust_pickle=True)


@pytest.mark.parametrize("suffix", PICKLE_SUFFIXES)
def test_broken_files_raise_one_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(b"no model at all")
    with pytest.raises(InputError, match=rf"Cannot load '.*broken\{suffix}': ") as refusal:
        as_model(path, trust_pickle=True)
    assert "\n" not in str(refusal.value)


def twice(rows: Any) -> Any:
    return 2 * rows


def test_skops_files_of_safe_types_need_no_trust(tmp_path: Path) -> None:
    fitted = LogisticRegression().fit(ROWS, LABELS)
    skops.io.dump(fitted, tmp_path / "line.skops")
    model = as_model(str(tmp_path / "line.skops"))
    assert model.name == "line"
    assert np.array_equal(model.classify(ROWS).probs, fitted.predict_proba(ROWS))


def test_skops_files_of_unknown_types_must_be_trusted(tmp_path: Path) -> None:
    fitted = make_pipeline(FunctionTransformer(twice), GaussianNB()).fit(ROWS, LABELS)
    skops.io.dump(fitted, tmp_path / "own.skops")
    with pytest.raises(InputError, match=r"not known to be safe: .*twice"):
        as_model(tmp_path / "own.skops")
    predictions = as_model(tmp_path / "own.skops", trust_pickle=True).classify(ROWS)
    assert np.array_equal(predictions.probs, fitted.predict_proba(ROWS))
    (tmp_path / "broken.skops").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"Cannot load '.*broken\.skops'"):
        as_model(tmp_path / "broken.skops")


@pytest.mark.parametrize(
    "classifier",
    [
        RandomForestClassifier(3, random_state=0),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=1),
        make_pipeline(StandardScaler(), ExtraTreesClassifier(3)),
        CalibratedClassifierCV(DecisionTreeClassifier(), cv=2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_skops_files_of_trees_need_no_trust(tmp_path: Path, classifier: Any) -> None:
    fitted = classifier.fit(ROWS, LABELS)
    skops.io.dump(fitted, tmp_path / "forest.skops")
    predictions = as_model(tmp_path / "forest.skops").classify(ROWS)
    assert np.allclose(predictions.probs, fitted.predict_proba(ROWS))


def test_trees_with_nodes_outside_of_their_arrays_are_rejected(tmp_path: Path) -> None:
    fitted = RandomForestClassifier(2, random_state=0).fit(ROWS, LABELS)
    tree = fitted.estimators_[1].tree_
    state = tree.__getstate__()
    for field, value in (("right_child", 10_000), ("left_child", 0), ("feature", 99)):
        nodes = state["nodes"].copy()
        nodes[field][0] = value
        tree.__setstate__({**state, "nodes": nodes})
        skops.io.dump(fitted, tmp_path / "changed.skops")
        with pytest.raises(InputError, match="invalid nodes"):
            as_model(tmp_path / "changed.skops")
