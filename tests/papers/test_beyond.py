"""Quality of methods published after the five papers, on real outputs."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from benchmarks import quality_few_labels
from benchmarks.studies import agreement_cifar
from oodometer.estimators.aline import agreements, fit_agreement_line
from tests.support.research_data import require_data


@pytest.mark.realdata
@pytest.mark.parametrize("labels", quality_few_labels.LABELS)
def test_few_label_intervals_have_nominal_coverage_on_fmow(labels: int) -> None:
    path = require_data("outputs/wilds_fmow_signals.npz")
    found = [
        quality_few_labels.ppi_quality(correct, scores, labels, quality_few_labels.random_rows)
        for _, correct, scores in islice(quality_few_labels.rows_of(path), 2)
    ]
    least, most = quality_few_labels.COVERAGE_BOUNDS
    assert least <= np.mean([one.covered for one in found]) <= most
    assert np.mean([one.saved for one in found]) > 0.1


@pytest.mark.realdata
def test_agreement_on_the_line_predicts_thirty_models_on_cifar10_1() -> None:
    """MAE is about 1.1 points; the median over subsets of three models is similar."""
    _, source, targets = agreement_cifar.read(
        require_data("cifar/cifar10_and_10.1_predictions.npz")
    )
    target = targets["v6"]

    def error(models: np.ndarray) -> tuple[float, float]:
        line = fit_agreement_line(
            source.accuracy[models],
            agreements(source.classes[models]),
            agreements(target.classes[models]),
        )
        truth = target.accuracy[models]
        return tuple(
            100 * float(np.abs(one - truth).mean()) for one in (line.aline_s, line.aline_d)
        )  # type: ignore[return-value]

    s, d = error(np.arange(len(source.classes)))
    assert min(s, d) == pytest.approx(1.1, abs=0.15)
    assert max(s, d) < 1.6
    assert 100 * np.abs(source.accuracy - target.accuracy).mean() > 6
    rng = np.random.default_rng(0)
    some = [error(rng.choice(len(source.classes), 3, replace=False)) for _ in range(200)]
    assert np.median([one[0] for one in some]) == pytest.approx(1.1, abs=0.25)
