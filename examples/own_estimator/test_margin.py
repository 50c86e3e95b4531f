"""The rules that every estimator keeps."""

from oodometer_margin import AverageThresholdedMargin

from oodometer.testing import check_estimator


def test_it_keeps_the_rules() -> None:
    check_estimator(AverageThresholdedMargin())
