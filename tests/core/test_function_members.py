"""Plain functions as estimators, measures and transforms, in Python and on the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oodometer
from oodometer.core.errors import InputError
from oodometer.core.function_members import FunctionEstimator, FunctionTransform, code_hash
from oodometer.core.keys import settings_key
from oodometer.core.predictions import Predictions
from oodometer.core.random_streams import RowStreams
from oodometer.studies import Study
from tests.support.command_line import assert_one_line_error, run, run_json


def predictions(seed: int, *, labelled: bool) -> Predictions:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 200)
    p = np.clip(labels + rng.normal(0, 0.4, 200), 0.01, 0.99)
    return Predictions.from_probs(np.stack([1 - p, p], axis=1), labels=labels if labelled else None)


SOURCE, TARGET = predictions(0, labelled=True), predictions(1, labelled=False)


def mean_confidence(source: Predictions, target: Predictions) -> float:
    """Confidence equals accuracy.

    More text.
    """
    return float(target.confidence.mean())


def flip(image: Any) -> Any:
    return image[::-1]


def jitter(row: Any, rng: np.random.Generator) -> Any:
    """Add noise."""
    return row + rng.normal(0, 0.1, row.shape)


def n_target_rows(subject: Any) -> float:
    """Larger targets are harder."""
    return float(subject.target.n)


# Python -----------------------------------------------------------------------------------------


def test_function_is_an_estimator_with_name_assumption_and_interval() -> None:
    result = oodometer.estimate(
        SOURCE, TARGET, methods=[mean_confidence, "ac"], temperature=None, replicates=20
    )
    own = result["mean_confidence"]
    assert own.value == result["ac"].value
    assert own.assumes == "Confidence equals accuracy."
    assert own.low is not None
    single = oodometer.estimate(SOURCE, TARGET, methods=mean_confidence, replicates=20)
    assert "mean_confidence" in [each.method for each in single.estimates]


@pytest.mark.parametrize(
    ("value", "message"),
    [(80.0, "returned 80; expected an accuracy from 0 to 1"), ("good", "returned 'good'")],
)
def test_result_of_an_estimator_is_checked(value: Any, message: str) -> None:
    def wrong(source: Predictions, target: Predictions) -> Any:
        return value

    with pytest.raises(InputError, match=message):
        FunctionEstimator(wrong).estimate(SOURCE, TARGET)


def test_function_is_a_measure() -> None:
    features = np.random.default_rng(0).normal(size=(2, 30, 3))
    result = oodometer.measure(None, features[0], features[1], measures=[n_target_rows])
    assert result["n_target_rows"].value == 30
    assert oodometer.measure(None, *features, measures=n_target_rows)["n_target_rows"].value == 30


def classify(rows: Any) -> Any:
    return (np.asarray(rows).reshape(len(rows), -1).sum(axis=1) > 0).astype(int)


def test_function_is_a_transform_that_does_not_depend_on_batches() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2))
    results = [
        oodometer.invariance({"sum": classify}, rows, transform=jitter, batch_size=size)
        for size in (7, 40)
    ]
    assert results[0][0].mean_with_interval("ni").value < 1
    assert results[0][0].mean_with_interval("ni") == results[1][0].mean_with_interval("ni")
    assert results[0].label == "jitter"
    (suggested,) = oodometer.suggest_transforms(classify, rows, transforms=[jitter])
    assert suggested.transform == "jitter"


def test_transforms_of_each_kind_of_input() -> None:
    draws = RowStreams(0, np.arange(2, dtype=np.uint64), np.ones(2, dtype=np.int64))
    images = np.arange(8, dtype=np.uint8).reshape(2, 2, 2)
    assert np.array_equal(FunctionTransform(flip).apply(images, draws), images[:, ::-1])
    pairs = [("a", "b"), ("c", "d")]
    swap = FunctionTransform(lambda pair: (pair[1], pair[0]))
    assert swap.apply(pairs, draws) == [("b", "a"), ("d", "c")]
    table = pa.table({"age": [1, 2], "site": ["x", "y"]})
    older = FunctionTransform(lambda row: {**row, "age": row["age"] + 1})
    assert older.apply(table, draws).column("age").to_pylist() == [2, 3]
    for function, inputs in (
        (lambda image: image / 2, images),
        (lambda image: image[:1], images),
        (lambda text: 3, ["a", "b"]),
        (lambda row: {"age": 1}, table),
    ):
        with pytest.raises(InputError, match="The function 'lambda' returned"):
            FunctionTransform(function).apply(inputs, draws)


def test_key_depends_on_the_code_and_not_on_the_address() -> None:
    assert settings_key(FunctionEstimator(mean_confidence)) == settings_key(
        FunctionEstimator(mean_confidence)
    )
    assert code_hash(flip) != code_hash(jitter)
    assert code_hash(partial(flip, 1)) != code_hash(partial(flip, 2))
    assert "0x" not in repr(FunctionTransform(jitter))


# Command line -----------------------------------------------------------------------------------

MODULE = '''
import numpy as np
from dataclasses import dataclass
from oodometer.core.results import Estimate

def halved(source, target):
    """The accuracy halves."""
    return source.correct.mean() / 2

@dataclass(frozen=True)
class Fixed:
    value: float = 0.25
    name = "fixed"
    assumes = "nothing"

    def estimate(self, source, target):
        return Estimate(self.value, self.name)

class Needy:
    def __init__(self, value):
        pass

def same(row, rng):
    return row

def rows_of(subject):
    return float(subject.target.n)

def classify(rows):
    return (np.asarray(rows).sum(axis=1) > 0).astype(int)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_members.py").write_text(MODULE)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "source.npz", probs=SOURCE.probs, labels=np.asarray(SOURCE.labels))
    np.savez(tmp_path / "target.npz", probs=TARGET.probs)
    np.save(tmp_path / "rows.npy", rng.normal(size=(30, 2)))
    return tmp_path


def test_method_measure_and_transform_of_a_module(folder: Path) -> None:
    words = ("estimate", "source.npz", "target.npz", "--replicates", "20")
    result = run_json(folder, *words, "--method", "own_members:halved,own_members:Fixed")
    values = {each["method"]: each["value"] for each in result["estimates"]}
    assert values["fixed"] == 0.25
    assert values["halved"] == pytest.approx(SOURCE.correct.mean() / 2)
    result = run_json(
        folder, "invariance", "own_members:classify", "rows.npy", "-t", "own_members:same"
    )
    assert result["models"][0]["ni"]["value"] == 1.0
    result = run_json(
        folder, "measure", "none", "--source-data", "source.npz", "--target-data", "target.npz",
        "--measure", "own_members:rows_of",
    )  # fmt: skip
    assert result["measures"][0]["value"] == 200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_members:missing", "has no 'missing'"),
        ("no_such_module:f", "There is no module 'no_such_module'"),
        ("own_members:Needy", "is a class that needs arguments"),
        ("own_members:np", "Name the estimator, or pass an instance or a function"),
    ],
)
def test_wrong_modules_and_names(folder: Path, name: str, message: str) -> None:
    result = run(folder, "estimate", "source.npz", "target.npz", "--method", name)
    assert_one_line_error(result, message)


def test_code_in_a_toml_file_must_be_trusted(folder: Path, monkeypatch: Any) -> None:
    (folder / "study.toml").write_text(
        'pools = ["toy-mlp"]\ndomains = ["0"]\nestimators = ["ac", "own_members:halved"]\n'
        'invariance = [{transform = "own_members:same", draws = 3}]\n'
    )
    assert_one_line_error(
        run(folder, "study", "run", "study.toml"),
        "study.toml: 'own_members:halved' is Python code",
        "--trust-code",
    )
    monkeypatch.chdir(folder)
    study = Study.open("study.toml", trust_code=True)
    names = [name for request in study.requests for name in request.names]
    assert "halved" in names
    assert any("same" in name for name in names)
    trusted = run(folder, "study", "run", "study.toml", "--trust-code")
    assert "There is no trained model" in trusted.stderr
