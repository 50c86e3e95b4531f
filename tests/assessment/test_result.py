from __future__ import annotations

import json

import numpy as np
import pytest

import oodometer
from oodometer.assessment.result import format_interval, format_percent
from oodometer.core.results import Estimate
from oodometer.testing import toy_pair


@pytest.fixture(scope="module")
def found() -> oodometer.Assessment:
    source, target = toy_pair()
    return oodometer.estimate(source, target, segment_by=np.arange(target.n) % 2)


def test_the_verdict_names_number_method_assumption_and_limits(found: oodometer.Assessment) -> None:
    best = found.headline.estimate
    for words in (
        format_percent(best.value),
        best.method,
        best.assumes,
        format_percent(found.source_accuracy),
    ):
        assert words in found.verdict
    assert "not a shift that breaks the assumption" in found.verdict


def test_the_verdict_names_the_worst_lights(found: oodometer.Assessment) -> None:
    worst = [d.name for d in found.diagnostics if d.status == found.headline.status]
    assert found.headline.status != "green"
    assert all(name in found.verdict for name in worst)
    others = [d.name for d in found.diagnostics if d.name not in worst]
    assert others
    assert not any(name in found.verdict for name in others)


def test_it_prints_as_a_table_of_methods_lights_and_segments(found: oodometer.Assessment) -> None:
    lines = str(found).splitlines()
    for one in found.estimates:
        assert any(
            line.startswith(one.method) and format_percent(one.value) in line for line in lines
        )
    for diagnostic in found.diagnostics:
        assert any(diagnostic.name in line and diagnostic.status in line for line in lines)
    assert any(line.startswith("segment") for line in lines)


def test_to_dict_survives_json(found: oodometer.Assessment) -> None:
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["headline"]["status"] == found.headline.status


def test_an_interval_that_is_not_known_says_so() -> None:
    assert format_interval(Estimate(0.5)) == "unknown"
    assert format_interval(Estimate(0.5, low=0.4, high=0.612)) == "40.0–61.2"
