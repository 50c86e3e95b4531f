"""Analyses of published ImageNet models, on made-up accuracies."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies._imagenet_results import (
    ADVERSARIAL,
    ATTACKS,
    PUBLISHED_CORRELATIONS,
    PUBLISHED_SETS,
    TESTBED_OOD,
    evaluations,
    set_correlations,
    to_table,
)
from benchmarks.studies.imagenet import CLAIMS
from oodometer.studies.analysis.id_ood_predictors import predictor_table
from oodometer.studies.analysis.wide_table import AccuracyMatrix
from tests.support.imagenet_results import block, made_up


def test_corruptions_and_attacks_of_the_testbed_belong_to_imagenet() -> None:
    table = to_table(evaluations(block().testbed, tuple(TESTBED_OOD.values()), "testbed"))
    assert "ImageNet/fog-3" in table.domains
    assert not set(ATTACKS) & set(table.domains)
    predictors = predictor_table(table)
    assert {"ID error", "ID corrupted error", f"ID {ADVERSARIAL}"} <= set(predictors.measures)
    assert {predictors.domains[code] for code in predictors.tested_on} == set(TESTBED_OOD.values())


def test_verdicts_follow_the_correlations() -> None:
    close, loose = block().results(), block(noise=0.3).results()
    assert {result.id for result in close} == set(CLAIMS.values())
    assert {result.verdict for result in close} == {"held"}
    assert {result.verdict for result in loose} == {"refuted"}
    assert all(result.configurations == 12 for result in close)


def test_weights_of_one_architecture_are_drawn_together() -> None:
    # Two copies of every model say no more than one of them, and must not narrow the interval.
    once = made_up(("a", "b"), noise=0.1)
    twice = AccuracyMatrix(
        tuple(f"{name}.{copy}" for copy in "xy" for name in (n.replace(".", "-") for n in once.models)),
        once.test_sets,
        np.concatenate([once.accuracy, once.accuracy]),
    )  # fmt: skip
    alone = AccuracyMatrix(
        tuple(n.replace(".", "-") for n in once.models), once.test_sets, once.accuracy
    )
    widths = [
        float(found.high[0, 1] - found.low[0, 1])
        for found in (set_correlations(wide, 1000) for wide in (alone, twice))
    ]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)


def test_tables_show_every_collection() -> None:
    tables = block().tables()
    assert len(tables) == 4
    assert all(rows for _, rows in tables.values())
    assert {row[0] for _, rows in list(tables.values())[1:] for row in rows} == {"timm", "testbed"}


def test_published_block_is_symmetric() -> None:
    values = np.array(PUBLISHED_CORRELATIONS)
    assert values.shape == (len(PUBLISHED_SETS),) * 2
    assert np.array_equal(values, values.T)


def test_page_counts_published_models_apart() -> None:
    page = block().page()
    assert page.scale is None
    assert "24 models (12 architectures) of timm on 6 test sets" in page.text()
