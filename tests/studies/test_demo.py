from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oodometer
from oodometer import estimators
from oodometer.core.errors import InputError
from oodometer.studies.demo import SHIFTS, Suite, compare, digits_suite, save


@pytest.fixture(scope="module")
def suite() -> Suite:
    return digits_suite(0)


def test_there_are_a_dozen_shifts_and_a_label_shift(suite: Suite) -> None:
    names = [target.name for target in suite.targets]
    assert names == [*SHIFTS, "label shift"]
    assert len(names) >= 13


def test_shifts_cost_accuracy_but_leave_some(suite: Suite) -> None:
    truths = {t.name: float(t.rows.correct.mean()) for t in suite.targets}
    assert truths["no shift"] == pytest.approx(suite.source.correct.mean(), abs=0.03)
    assert truths["rotated 25°"] < truths["rotated 10°"] < truths["no shift"]
    assert min(truths.values()) > 0.3


def test_every_shift_changes_what_the_model_says(suite: Suite) -> None:
    plain = suite.targets[0].rows.probs
    for target in suite.targets[1:]:
        assert np.abs(target.rows.probs - plain).mean() > 0.005, target.name


def test_the_label_shift_favours_8_and_9(suite: Suite) -> None:
    labels = suite.targets[-1].rows.labels
    assert labels is not None
    assert (labels >= 8).mean() > 0.6


def test_the_suite_is_the_same_for_the_same_seed(suite: Suite) -> None:
    again = digits_suite(0)
    assert np.array_equal(again.targets[3].rows.probs, suite.targets[3].rows.probs)


def test_every_method_is_compared_with_the_truth(suite: Suite) -> None:
    rows = compare(Suite(suite.source, suite.targets[:2]))
    lacking = {"atc-near", "aline-s", "aline-d"}  # features, and more models than two
    for row in rows:
        assert set(row.estimates) == {one.name for one in estimators.every()} - lacking
    assert rows[0].truth == suite.targets[0].rows.correct.mean()


def test_saved_files_are_read_back_without_the_truth(suite: Suite, tmp_path: Path) -> None:
    written = save(suite, tmp_path / "deep" / "folder")
    source = oodometer.read_predictions(written[0])
    assert np.allclose(source.probs, suite.source.probs)
    assert source.labelled
    assert not any(oodometer.read_predictions(path).labelled for path in written[1:])


def test_a_folder_that_cannot_be_made_is_said(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be made"):
        save(suite, tmp_path / "file" / "below")
