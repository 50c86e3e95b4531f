"""Comparison of measures: means over groups, per architecture and overall."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.analysis._compare_measures import (
    STATISTIC_LABELS,
    MeasureComparison,
    compare_measures,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from tests.support.evaluation_tables import (
    assert_same,
    loop_lines,
    loop_taus,
    random_columns,
    values_by_key,
)
from tests.support.seeds import failing_seeds


def compared(columns: dict[str, Any], **options: Any) -> MeasureComparison:
    return compare_measures(EvaluationTable.read(columns), **options)


def check_against_loops(seed: int) -> None:
    table = EvaluationTable.read(random_columns(seed))
    found = compare_measures(table)
    expected = {**loop_taus(table), **loop_lines(table, ["doc"])}
    assert_same(values_by_key(found.group_rows()), expected)
    several = len(table.architectures) > 1
    for row in found.rows():
        of = (row["measure"], row["statistic"])
        mine = [
            value_and_reason
            for key, value_and_reason in expected.items()
            if key[:2] == of and row["architecture"] in (None, key[2])
        ]
        values = [value for value, *_ in mine if value is not None]
        assert row["groups"] == len(values)
        assert row["left_out"] == Counter(reason for _, reason, *_ in mine if reason)
        assert (row["mean"] is None) == (not values)
        if values:
            mean = sum(values) / len(values)
            assert math.isclose(row["mean"], mean, rel_tol=1e-6, abs_tol=1e-9)
        if len(values) > 1:
            squares = sum((value - mean) ** 2 for value in values) / len(values)
            assert math.isclose(row["sd"], math.sqrt(squares), rel_tol=1e-5, abs_tol=1e-7)
        assert several or row["architecture"] is None


def test_groups_and_means_match_naive_loops() -> None:
    assert failing_seeds(check_against_loops, range(40)) == {}


def test_summaries_are_ordered_and_unique() -> None:
    seed = next(s for s in range(99) if len(set(random_columns(s)["architecture"])) == 2)
    keys = [
        (r["measure"], r["statistic"], r["architecture"])
        for r in compared(random_columns(seed)).rows()
    ]
    assert len(set(keys)) == len(keys)
    assert list(dict.fromkeys(key[0] for key in keys)) == ["near", "coarse", "doc", "nothing"]
    of_doc = [key[1:] for key in keys if key[0] == "doc"]
    assert list(dict.fromkeys(name for name, _ in of_doc)) == list(STATISTIC_LABELS)
    assert [kind for name, kind in of_doc if name == "r2"] == [None, "k0", "k1"]
    assert [kind for name, kind in of_doc if name == "arch_tau"] == [None]
    assert not any(name.startswith("raw_") for measure, name, _ in keys if measure != "doc")


def two_kinds() -> dict[str, Any]:
    """Return two architectures, three domains, four models per training domain and architecture."""
    rng = np.random.default_rng(4)
    model = np.repeat(np.arange(24), 3)
    accuracy = rng.random(72)
    return {
        "model": model,
        "architecture": [f"k{m % 2}" for m in model],
        "trained_on": [f"d{m // 2 % 3}" for m in model],
        "tested_on": ["d0", "d1", "d2"] * 24,
        "accuracy": accuracy,
        "ni": accuracy + rng.normal(0, 0.2, size=72),
    }


def test_overall_mean_is_over_groups_of_all_architectures() -> None:
    found = compared(two_kinds())
    for statistic, groups in (("r2", 6), ("macro_tau", 6), ("micro_tau", 3), ("id_tau", 3)):
        whole = found.summary("ni", statistic)
        parts = [found.summary("ni", statistic, kind) for kind in ("k0", "k1")]
        assert [part.groups for part in parts] == [groups, groups]
        assert whole.groups == 2 * groups
        assert whole.mean == pytest.approx(np.mean([part.mean for part in parts]))
    assert found.summary("ni", "arch_tau").groups == 3
    assert found.summary("ni", "cross_domain_tau").groups == 24


def test_empty_measure_is_counted_and_does_not_change_others() -> None:
    columns = two_kinds()
    found = compared({**columns, "none": [None] * 72})
    alone = compared(columns)
    assert found.n_missing_values == {"ni": 0, "none": 72}
    for statistic in ("r2", "macro_tau", "cross_domain_tau"):
        summary = found.summary("none", statistic)
        assert (summary.mean, summary.sd, summary.groups) == (None, None, 0)
        assert sum(summary.left_out.values()) == alone.summary("ni", statistic).groups
        assert found.summary("ni", statistic) == alone.summary("ni", statistic)


def test_equal_accuracies_leave_out_every_group() -> None:
    found = compared({**two_kinds(), "accuracy": [0.5] * 72})
    for statistic in ("r2", "r2_pearson", "id_tau", "macro_tau", "micro_tau", "arch_tau"):
        summary = found.summary("ni", statistic)
        assert summary.mean is None
        assert list(summary.left_out) == ["all accuracies equal"]
    assert found.summary("ni", "mae").mean == pytest.approx(0.0, abs=1e-9)


def test_rows_without_an_accuracy_are_counted_and_left_out() -> None:
    columns = two_kinds()
    accuracy = [math.nan if j % 10 == 0 else value for j, value in enumerate(columns["accuracy"])]
    found = compared({**columns, "accuracy": accuracy})
    assert found.n_unknown_accuracies == 8
    known = [j for j, value in enumerate(accuracy) if not math.isnan(value)]
    without = {name: [cells[j] for j in known] for name, cells in columns.items()}
    for row, other in zip(found.rows(), compared(without).rows(), strict=True):
        assert row["mean"] == pytest.approx(other["mean"])


@pytest.mark.parametrize(
    ("kinds", "rule"), [(2, "other architectures"), (1, "leave one model out")]
)
def test_fit_rule_for_one_training_domain_is_named(kinds: int, rule: str) -> None:
    columns = {**two_kinds(), "trained_on": ["d0"] * 72}
    columns["architecture"] = [f"k{int(kind[1]) % kinds}" for kind in columns["architecture"]]
    found = compared(columns)
    for statistic in ("r2", "mae"):
        assert found.summary("ni", statistic).rule == rule
        assert found.summary("ni", statistic).mean is not None
    same = "the same as Macro τ: one training set per test domain"
    assert found.summary("ni", "micro_tau").rule == same
    assert found.summary("ni", "micro_tau").mean == found.summary("ni", "macro_tau").mean
    alone = "the same as Micro τ: one architecture per test domain" if kinds == 1 else ""
    assert found.summary("ni", "arch_tau").rule == alone


def test_fit_rule_for_several_training_domains_is_that_of_the_paper() -> None:
    found = compared(two_kinds())
    assert found.summary("ni", "r2").rule == "other training domains"
    assert found.summary("ni", "micro_tau").rule == found.summary("ni", "arch_tau").rule == ""


def test_mixed_fit_rules_are_listed_with_counts() -> None:
    columns = two_kinds()
    columns["trained_on"] = [{"d2": "d1"}.get(name, name) for name in columns["trained_on"]]
    found = compared(columns).summary("ni", "r2")
    assert found.rule == "other architectures (4), other training domains (4)"


def test_table_with_only_id_rows_has_only_id_tau() -> None:
    columns = {name: list(cells) for name, cells in two_kinds().items()}
    own = [j for j in range(72) if columns["trained_on"][j] == columns["tested_on"][j]]
    found = compared({name: [cells[j] for j in own] for name, cells in columns.items()})
    assert found.summary("ni", "id_tau").groups == 6
    for statistic in ("r2", "mae", "macro_tau", "micro_tau", "arch_tau", "cross_domain_tau"):
        summary = found.summary("ni", statistic)
        assert (summary.mean, summary.groups, dict(summary.left_out)) == (None, 0, {})


def test_direct_estimates_are_detected_by_name_or_passed() -> None:
    columns = {**two_kinds(), "atc-mc (pre-T)": [0.5] * 72, "mine": [0.4] * 72}
    by_name = {row["measure"] for row in compared(columns).rows() if row["statistic"] == "raw_mae"}
    assert by_name == {"atc-mc (pre-T)"}
    rows = compared(columns, methods=["mine"]).rows()
    assert {row["measure"] for row in rows if row["statistic"] == "raw_mae"} == {"mine"}
    assert not [r for r in compared(columns, methods=()).rows() if r["statistic"] == "raw_mae"]
    with pytest.raises(UnknownName, match=r"^No measure is called 'mime'. Did you mean 'mine'\?"):
        compared(columns, methods=["mime"])


def test_result_is_json() -> None:
    found = compare_measures(
        EvaluationTable.read(
            {**random_columns(3), "converged": [True] * len(random_columns(3)["model"])}
        )
    )
    text = json.dumps([found.to_dict(), list(found.group_rows())], allow_nan=False)
    back = json.loads(text)[0]
    assert back["statistics"] == found.rows()
    assert back["evaluations"] == len(found.table)
    assert back["without_answer"]["nothing"] == len(found.table)


def test_unknown_names_raise() -> None:
    found = compared(two_kinds())
    with pytest.raises(UnknownName, match=r"^No measure is called 'in'"):
        found.summary("in", "r2")
    with pytest.raises(
        UnknownName, match=r"^No statistic is called 'macro'\. Did you mean 'macro_"
    ):
        found.summary("ni", "macro")
    with pytest.raises(UnknownName, match=r"^No architecture of this statistic is called 'k9'"):
        found.summary("ni", "r2", "k9")
    with pytest.raises(UnknownName, match=r"^No architecture of this statistic is called 'k0'"):
        found.summary("ni", "arch_tau", "k0")


def test_single_architecture_can_be_named() -> None:
    found = compared({**two_kinds(), "architecture": ["k0"] * 72})
    assert found.summary("ni", "r2", "k0") == found.summary("ni", "r2")


def test_table_without_measures_raises() -> None:
    table = EvaluationTable.read(two_kinds(), measures=())
    with pytest.raises(InputError, match=r"^The table has no measure to compare\."):
        compare_measures(table)


@pytest.mark.parametrize("seed", range(5))
def test_row_order_does_not_matter(seed: int) -> None:
    columns = random_columns(seed)
    order = np.random.default_rng(seed).permutation(len(columns["model"]))
    shuffled = {name: [cells[j] for j in order] for name, cells in columns.items()}
    for row, other in zip(compared(columns).rows(), compared(shuffled).rows(), strict=True):
        assert row == {
            **other,
            "mean": pytest.approx(other["mean"], abs=1e-9),
            "sd": pytest.approx(other["sd"], abs=1e-9),
        }


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas", "polars", "pyarrow", "mapping"])
def test_path_or_frame_gives_the_statistics_of_a_table(form: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(random_columns(3))
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet")
    data: dict[str, Any] = {
        "csv": str(tmp_path / "table.csv"),
        "parquet": tmp_path / "table.parquet",
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "pyarrow": pa.Table.from_pandas(frame),
        "mapping": frame.to_dict("list"),
    }
    expected = compared(random_columns(3))
    assert compare_measures(data[form]).rows() == expected.rows()
    assert len(expected.to_frame()) == len(expected.rows())


def test_errors_of_a_path_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("model,accuracy\nm,0.5\n")
    with pytest.raises(InputError, match=r"table\.csv: The table has no column 'trained_on'"):
        compare_measures(tmp_path / "table.csv")
    with pytest.raises(InputError, match="int is not a table"):
        compare_measures(3)
