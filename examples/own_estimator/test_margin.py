"""The conformance check that every estimator must pass."""

from oodometer_margin import AverageThresholdedMargin

from oodometer.testing import check_estimator


def test_estimator_passes_the_conformance_check() -> None:
    check_estimator(AverageThresholdedMargin())
