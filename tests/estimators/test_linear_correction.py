"""Linear correction fitted on labelled domains."""

from __future__ import annotations

import pytest

from oodometer.core.errors import InputError
from oodometer.estimators import DifferenceOfConfidences, LinearCorrection
from oodometer.testing import toy_predictions


def test_line_reduces_the_error_on_a_new_domain() -> None:
    """DOC underestimates every drop; the line corrects most of this despite an outlier domain.

    The relation is curved, so the line cannot remove the whole error.
    """
    source = toy_predictions(4000, seed=0)
    domains = [toy_predictions(4000, sharpness=s, seed=9) for s in (0.5, 1.0, 1.5, 2.0, 2.5)]
    outlier = toy_predictions(4000, sharpness=-2.0, seed=10)
    corrected = LinearCorrection.fit(DifferenceOfConfidences(), source, [*domains, outlier])
    new = toy_predictions(4000, sharpness=0.8, seed=11)
    plain = DifferenceOfConfidences().estimate(source, new).value
    truth = float(new.correct.mean())
    assert abs(plain - truth) > 0.1
    assert abs(corrected.estimate(source, new).value - truth) < abs(plain - truth) / 4


def test_two_domains_are_rejected() -> None:
    source = toy_predictions()
    with pytest.raises(InputError, match="three distinct points; got 2"):
        LinearCorrection.fit(DifferenceOfConfidences(), source, [source, toy_predictions(seed=4)])
