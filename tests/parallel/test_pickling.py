"""Pickling by reference: objects are reopened and checked."""

from __future__ import annotations

import contextlib
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.inputs import batches_equal
from oodometer.data import as_dataset
from oodometer.models import FunctionModel, as_model
from oodometer.parallel.pickling import ReopenSpec
from tests.support.stub_models import forget_modules


def pickled_and_back(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


FILES = {
    "rows.csv": "text,label\ngood,1\nbad,0\n",
    "table.csv": "a,b,label\n1,x,1\n2,y,0\n",
}


@pytest.mark.parametrize("name", FILES)
def test_file_is_pickled_by_reference(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    with contextlib.chdir(tmp_path):
        here = as_dataset(name, labels="label")
    there = pickled_and_back(here)
    assert len(pickle.dumps(here)) < 1000
    assert (there.name, there.fingerprint, len(there)) == (here.name, here.fingerprint, 2)
    assert there.labels.tolist() == [1, 0]
    assert batches_equal(there.take(slice(0, 2)), here.take(slice(0, 2)))


def test_changed_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "points.npy"
    np.save(path, np.eye(3))
    packed = pickle.dumps(as_dataset(path))
    np.save(path, 2 * np.eye(3))
    with pytest.raises(
        InputError, match=r"The rows of '.*points.npy' differ from those in the pro"
    ):
        pickle.loads(packed)
    path.unlink()
    with pytest.raises(InputError, match=r"There is no file or folder '.*points\.npy'"):
        pickle.loads(packed)


def test_selected_rows_and_custom_labels_are_pickled_by_value(tmp_path: Path) -> None:
    path = tmp_path / "points.npy"
    np.save(path, np.eye(3))
    some = as_dataset(path).rows(np.array([2, 0]))
    own = as_dataset(path, labels=np.array([0, 1, 1]))
    path.unlink()
    assert pickled_and_back(some).take(slice(0, 2)).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert pickled_and_back(own).labels.tolist() == [0, 1, 1]


def test_image_folder_is_pickled_by_its_files(tmp_path: Path) -> None:
    for number in range(3):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((4, 4), 50 * number, dtype=np.uint8))
    with contextlib.chdir(tmp_path.parent):
        here = as_dataset(Path(tmp_path.name))
        packed = pickle.dumps(here)
    there = pickle.loads(packed)
    assert np.array_equal(there.take(slice(0, 3)), as_dataset(tmp_path).take(slice(0, 3)))
    cv2.imwrite(str(tmp_path / "1.png"), np.full((4, 4), 7, dtype=np.uint8))
    assert len(there.take(np.array([0, 2]))) == 2
    with pytest.raises(InputError, match=r"1\.png has changed since .* was opened\. Open it"):
        there.take(slice(0, 3))


def test_function_model_is_imported_from_its_original_folder(tmp_path: Path) -> None:
    (tmp_path / "odd_scorers.py").write_text("def second(x):\n    return [[0.2, 0.8]] * len(x)\n")
    with contextlib.chdir(tmp_path):
        here = as_model("odd_scorers:second", class_names=["no", "yes"])
    packed = pickle.dumps(here)
    forget_modules(tmp_path)
    assert "odd_scorers" not in sys.modules
    there = pickle.loads(packed)
    forget_modules(tmp_path)
    assert (there.name, there.class_names) == ("second", ("no", "yes"))
    assert there.classify(["a"]).confidence.tolist() == [0.8]
    assert str(tmp_path) not in sys.path


def test_changed_copy_is_pickled_by_value(tmp_path: Path) -> None:
    (tmp_path / "other_scorers.py").write_text("def second(x):\n    return [1] * len(x)\n")
    with contextlib.chdir(tmp_path):
        here = as_model("other_scorers:second")
    assert isinstance(here, FunctionModel)
    changed = replace(here, function=abs, name="abs")
    forget_modules(tmp_path)
    assert pickled_and_back(changed).function is abs


def test_unhashable_settings_have_no_reopen_spec() -> None:
    assert ReopenSpec.create("a:b", "c", {"labels": np.zeros(2)}) is None
    found = ReopenSpec.create("a:b", "c", {"classes": ["x", "y"]})
    assert found is not None
    assert found.settings == (("classes", ("x", "y")),)
