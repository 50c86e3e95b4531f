"""Estimated against true accuracy."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest
from scipy.stats import siegelslopes

from oodometer.core.errors import UnknownName
from oodometer.studies.analysis import comparison_with_truth as module
from oodometer.studies.analysis.comparison_with_truth import compare_with_truth
from tests.support.evaluation_rows import complete_rows, out_of_domain_rows, random_rows, to_table


def test_mae_bias_and_r2_match_naive_formulas() -> None:
    rows = random_rows(0, measures=("doc",), gaps=0.3)
    some = complete_rows(out_of_domain_rows(rows), "doc")
    found = compare_with_truth(to_table(rows), "doc")
    off = [row["doc"] - row["accuracy"] for row in some]
    middle = statistics.mean(row["accuracy"] for row in some)
    around = sum((row["accuracy"] - middle) ** 2 for row in some)
    assert found.mae == pytest.approx(100 * statistics.mean(map(abs, off)))
    assert found.bias == pytest.approx(100 * statistics.mean(off))
    assert found.r2 == pytest.approx(1 - sum(gap**2 for gap in off) / around)
    assert found.lacking == len(out_of_domain_rows(rows)) - len(some)
    assert sorted((p.trained_on, p.tested_on, p.true, p.estimated, p.n) for p in found.points) == sorted(
        (r["trained_on"], r["tested_on"], r["accuracy"], r["doc"], 1) for r in some
    )  # fmt: skip


def test_line_matches_scipy_siegelslopes() -> None:
    rows = random_rows(1, measures=("doc",))
    found = compare_with_truth(to_table(rows), "doc")
    true = [row["accuracy"] for row in out_of_domain_rows(rows)]
    peer = siegelslopes([row["doc"] for row in out_of_domain_rows(rows)], true, method="separate")
    assert found.line is not None
    assert found.line.slope == pytest.approx(peer.slope)


def test_line_is_robust_to_outliers() -> None:
    rows = random_rows(2, measures=("doc",))
    for j, row in enumerate(rows):
        row["doc"] = 9.0 if j % 3 == 0 else 0.5 * row["accuracy"] + 0.25
    line = compare_with_truth(to_table(rows), "doc").line
    assert line is not None
    assert (line.slope, line.intercept) == pytest.approx((0.5, 0.25), abs=0.05)


def test_points_are_means_over_seeds() -> None:
    rows = [
        {**row, "seed": int(row["model"][1]) // 2, "recipe.depth": int(row["model"][1]) % 2}
        for row in random_rows(3, measures=("doc",))
    ]
    points = compare_with_truth(to_table(rows), "doc").points
    assert len(points) == len(out_of_domain_rows(rows)) / 3
    alike = [r for r in out_of_domain_rows(rows)
             if (r["trained_on"], r["tested_on"], r["architecture"]) == ("b", "d", "vgg")]  # fmt: skip
    found = [p for p in points if (p.trained_on, p.tested_on, p.architecture) == ("b", "d", "vgg")]
    assert [point.n for point in found] == [3]
    assert found[0].true == pytest.approx(statistics.mean(row["accuracy"] for row in alike))
    assert found[0].estimated == pytest.approx(statistics.mean(row["doc"] for row in alike))


def test_line_of_many_points_uses_evenly_spaced_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = random_rows(4, measures=("doc",), models=20)
    for row in rows:
        row["doc"] = row["accuracy"] ** 2
    whole = compare_with_truth(to_table(rows), "doc")
    monkeypatch.setattr(module, "MAX_LINE_POINTS", 60)
    part = compare_with_truth(to_table(rows), "doc")
    assert whole.line is not None
    assert part.line is not None
    assert len(part.points) == 240
    assert part.mae == whole.mae
    assert part.line != whole.line
    assert part.line.slope == pytest.approx(whole.line.slope, abs=0.05)


def test_undefined_values_are_none() -> None:
    rows = out_of_domain_rows(random_rows(5, measures=("doc",)))
    two = compare_with_truth(to_table([dict(row, accuracy=0.25 + (j % 2) / 2)
                              for j, row in enumerate(rows)]), "doc")  # fmt: skip
    assert two.line is None
    assert two.r2 is not None
    one = compare_with_truth(to_table([dict(row, accuracy=0.5) for row in rows]), "doc")
    assert (one.line, one.r2) == (None, None)
    assert one.mae == pytest.approx(100 * np.mean([abs(row["doc"] - 0.5) for row in rows]))
    none = compare_with_truth(to_table([dict(row, doc=math.nan) for row in rows]), "doc")
    assert (none.points, none.mae, none.bias, none.lacking) == ((), None, None, len(rows))
    with pytest.raises(UnknownName, match="No measure is called 'dox'"):
        compare_with_truth(to_table(rows), "dox")


def test_result_is_json_with_flat_rows() -> None:
    found = compare_with_truth(to_table(random_rows(6, measures=("doc",))), "doc")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert found.line is not None
    assert plain["line"] == {"slope": found.line.slope, "intercept": found.line.intercept}
    assert found.rows()[0] == {"estimator": "doc", **plain["points"][0]}
