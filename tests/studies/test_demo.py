"""The demo on handwritten digits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
    rows = compare_methods(replace(suite, targets=suite.targets[:2]))
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
