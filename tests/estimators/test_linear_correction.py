from __future__ import annotations

import pytest

from oodometer.core.errors import InputError
from oodometer.estimators import DifferenceOfConfidences, LinearCorrection
from oodometer.testing import toy_predictions


def test_a_line_fitted_on_labelled_domains_corrects_a_new_one() -> None:
    """DOC sees only part of every drop; the line learns how much, a broken domain regardless.

    The relation is curved, so the line does not hit: it must take away most of DOC's error.
    """
    source = toy_predictions(4000, seed=0)
    domains = [toy_predictions(4000, sharpness=s, seed=9) for s in (0.5, 1.0, 1.5, 2.0, 2.5)]
    broken = toy_predictions(4000, sharpness=-2.0, seed=10)
    tuned = LinearCorrection.fit(DifferenceOfConfidences(), source, [*domains, broken])
    new = toy_predictions(4000, sharpness=0.8, seed=11)
    plain = DifferenceOfConfidences().estimate(source, new).value
    truth = float(new.correct.mean())
    assert abs(plain - truth) > 0.1
    assert abs(tuned.estimate(source, new).value - truth) < abs(plain - truth) / 4


def test_two_domains_are_too_few() -> None:
    source = toy_predictions()
    with pytest.raises(InputError, match="three distinct points; got 2"):
        LinearCorrection.fit(DifferenceOfConfidences(), source, [source, toy_predictions(seed=4)])
