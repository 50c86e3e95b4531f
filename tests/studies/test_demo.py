"""The demo on handwritten digits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer import estimators
from oodometer.core.errors import InputError
from oodometer.studies.demo import (
    SHIFTS,
    DigitsSuite,
    compare_methods,
    make_digits_suite,
    save_suite,
)


@pytest.fixture(scope="module")
def suite() -> DigitsSuite:
    return make_digits_suite(0)


def test_demo_does_not_need_opencv(suite: DigitsSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)  # importing cv2 raises ImportError
    assert np.array_equal(make_digits_suite(0).source.probs, suite.source.probs)


def test_images_are_changed_as_by_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    large = rng.uniform(0, 16, (3, 32, 32)).astype(np.float32)
    turn = cv2.getRotationMatrix2D((15.5, 15.5), 25, 1.0)
    shear = np.array([[1, 0.2, -3.1], [0, 1, 0]])
    square = np.ones((4, 4), np.uint8)
    expected: dict[str, Any] = {
        "rotated 25°": lambda image: cv2.warpAffine(image, turn, (32, 32)),
        "sheared": lambda image: cv2.warpAffine(image, shear, (32, 32)),
        "blurred": lambda image: cv2.GaussianBlur(image, (0, 0), 3.0),
        "thick strokes": lambda image: cv2.dilate(image, square),
        "thin strokes": lambda image: cv2.erode(image, square),
    }
    for name, change in expected.items():
        images = np.stack([change(image) for image in large])
        assert np.allclose(SHIFTS[name](large, rng), images, atol=1e-3), name


def test_suite_has_all_shifts_and_a_label_shift(suite: DigitsSuite) -> None:
    names = [target.name for target in suite.targets]
    assert names == [*SHIFTS, "label shift"]
    assert len(names) >= 13


def test_shifts_reduce_accuracy_above_chance(suite: DigitsSuite) -> None:
    truths = {t.name: float(t.predictions.correct.mean()) for t in suite.targets}
    assert truths["no shift"] == pytest.approx(suite.source.correct.mean(), abs=0.03)
    assert truths["rotated 25°"] < truths["rotated 10°"] < truths["no shift"]
    assert min(truths.values()) > 0.3


def test_every_shift_changes_the_predictions(suite: DigitsSuite) -> None:
    plain = suite.targets[0].predictions.probs
    for target in suite.targets[1:]:
        assert np.abs(target.predictions.probs - plain).mean() > 0.005, target.name


def test_label_shift_favours_8_and_9(suite: DigitsSuite) -> None:
    labels = suite.targets[-1].predictions.labels
    assert labels is not None
    assert (labels >= 8).mean() > 0.6


def test_suite_is_deterministic(suite: DigitsSuite) -> None:
    again = make_digits_suite(0)
    assert np.array_equal(again.targets[3].predictions.probs, suite.targets[3].predictions.probs)


def test_every_method_is_compared_with_the_accuracy(suite: DigitsSuite) -> None:
    rows = compare_methods(DigitsSuite(suite.source, suite.other_models, suite.targets[:2]))
    lacking = {"atc-near", "aline-s", "aline-d"}  # features, and more models than two
    for row in rows:
        assert set(row.estimates) == {one.name for one in estimators.available()} - lacking
    assert rows[0].truth == suite.targets[0].predictions.correct.mean()


def test_saved_targets_have_no_labels(suite: DigitsSuite, tmp_path: Path) -> None:
    written = save_suite(suite, tmp_path / "deep" / "folder")
    source = oodometer.read_predictions(written[0])
    assert np.allclose(source.probs, suite.source.probs)
    assert source.is_labelled
    assert not any(oodometer.read_predictions(path).is_labelled for path in written[1:])


def test_folder_that_cannot_be_created_is_reported(suite: DigitsSuite, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot create the folder"):
        save_suite(suite, tmp_path / "file" / "below")
