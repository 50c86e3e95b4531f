"""Ablations of neighborhood invariance: levels, tables and verdicts on made-up heads.

Ng et al., TMLR 2023, §5.4; the ablations are in benchmarks/studies/ablations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from benchmarks.studies import ablations
from benchmarks.studies._ablation_runs import (
    SAMPLES,
    Ablation,
    AblationData,
    TrainedHead,
    by_draws,
    by_size,
    compare_transforms,
)
from oodometer.core.array_types import Array, Floats
from oodometer.data import as_dataset
from oodometer.models import FunctionModel
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.training.config import TrainingConfig
from oodometer.transforms import Gaussian

ROWS, DRAWS = 40, 6
NOISE = (0.1, 0.2, 0.3, 0.5, 0.8, 1.2)


def head(trained_on: str, number: int) -> TrainedHead:
    """Return a linear classifier that looks at a wrong direction in part."""
    config = TrainingConfig("toy", (trained_on,), "mlp", seed=0, lr=1e-3 * (1 + number))

    def classify(rows: Array) -> Array:
        score = rows[:, 0] + NOISE[number] * rows[:, 1]
        share = 1 / (1 + np.exp(-3 * score))
        return np.stack([1 - share, share], axis=1)

    return TrainedHead(config, FunctionModel(classify, name=f"{trained_on} {number}"))


@pytest.fixture(scope="module")
def data() -> AblationData:
    rng = np.random.default_rng(0)
    domains = {}
    for place in "ab":
        rows = rng.normal(size=(120, 2))
        domains[place] = as_dataset(rows, labels=(rows[:, 0] > 0).astype(int), name=place)
    heads = {f"{place}{i}": head(place, i) for place in "ab" for i in range(len(NOISE))}
    return AblationData(
        name="Toy", unit="points", heads=heads, domains=domains, rows=ROWS, draws=DRAWS
    )


def test_heads_are_compared_on_domains_they_were_not_trained_on(data: AblationData) -> None:
    assert list(data.others("a")) == [f"b{i}" for i in range(len(NOISE))]
    table = data.to_table({"level": {place: np.arange(6.0) for place in "ab"}})
    assert not table.in_distribution.any()
    assert len(table) == 2 * len(NOISE)


def test_accuracies_use_all_rows(data: AblationData) -> None:
    rows = data.domains["a"].take(slice(None))
    expected = [
        np.mean((rows[:, 0] + noise * rows[:, 1] > 0) == (rows[:, 0] > 0)) for noise in NOISE
    ]
    assert data.accuracies["a"] == pytest.approx(expected)


def test_all_rows_and_all_draws_give_the_value_of_the_run(data: AblationData) -> None:
    change = Gaussian(magnitude=0.5)
    whole = [model.mean_with_interval("ni").value for model in data.decide("a", change)]
    for found, level in (
        (by_size(data, change, (10, ROWS)), f"{ROWS} points #0"),
        (by_draws(data, change, (1, DRAWS)), f"{DRAWS} draws"),
        (transforms(data, {"change": change}), "change"),
    ):
        table = found.evaluations
        here = table.tested_on == table.domains.index("a")
        assert table.measures[level][here] == pytest.approx(whole)


def transforms(data: AblationData, members: Mapping[str, Gaussian]) -> Ablation:
    return compare_transforms(data, members, kind="magnitude", title="strength", rows=ROWS)


def test_levels_of_sizes_are_averaged_over_samples(data: AblationData) -> None:
    found = by_size(data, Gaussian(magnitude=0.5), (10, ROWS))
    assert found.levels == ("10 points", f"{ROWS} points")
    assert len(found.evaluations.measures) == 2 * SAMPLES
    assert found.taus.replicates.shape[0] == 2
    (heading, *_), rows = found.table()
    assert heading == "level"
    assert [row[0] for row in rows] == list(found.levels)


def made(levels: Mapping[str, Floats], **facts: object) -> Ablation:
    """Return an ablation of 40 models whose accuracy is their number; `levels` are the measures."""
    models = [f"m{i:02}" for i in range(40)]
    table = EvaluationTable.read(
        {"model": models, "trained_on": ["a"] * 40, "tested_on": ["b"] * 40,
         "accuracy": (np.arange(40) / 40).tolist(), **{k: v.tolist() for k, v in levels.items()}},
        measures=list(levels),
    )  # fmt: skip
    return Ablation(
        kind="magnitude", data="Reviews", title="Reviews: x", text="", evaluations=table, facts={},
        **facts,  # type: ignore[arg-type]
    )  # fmt: skip


def noisy(scale: float) -> Floats:
    return np.arange(40) + scale * np.random.default_rng(1).normal(size=40)


def test_rising_and_falling_tau_is_an_optimum() -> None:
    inside = made({"weak": noisy(60), "middle": noisy(1), "strong": noisy(60)})
    assert inside.best == "middle"
    assert ablations.judge_optimum(inside).verdict == "held"
    rising = made({"weak": noisy(60), "middle": noisy(10), "strong": noisy(1)})
    assert ablations.judge_optimum(rising).verdict == "refuted"


def test_more_rows_and_large_magnitudes_are_judged_by_intervals() -> None:
    found = made({"few": noisy(60), "many": noisy(1)})
    assert ablations.judge_size(found).verdict == "held"
    assert ablations.judge_robust(found).verdict == "held"
    assert ablations.judge_size(made({"few": noisy(1), "many": noisy(60)})).verdict == "refuted"
    assert ablations.judge_robust(made({"few": noisy(1), "many": -noisy(1)})).verdict == "refuted"


def test_equal_tau_is_near_and_different_tau_is_not() -> None:
    same = made({"1 draw": noisy(5), "9 draws": noisy(5)})
    assert ablations.judge_draws(same).verdict == "held"
    other = made({"1 draw": noisy(60), "9 draws": noisy(1)})
    assert ablations.judge_draws(other).verdict == "refuted"


def test_entropy_rule_compares_transforms_on_both_sides() -> None:
    levels = {"mild": noisy(1), "wild": noisy(60)}
    found = made(levels, rises={"mild": 0.02, "wild": 0.3})
    result = ablations.judge_entropy_rule(found)
    assert result is not None
    assert result.verdict == "held"
    assert ablations.judge_entropy_rule(made(levels, rises={"mild": 0.02, "wild": 0.03})) is None


def test_augmented_heads_are_compared_with_plain_ones(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 40
    accuracy = np.tile(np.arange(n) / n, 2)
    score = np.concatenate([noisy(1), noisy(60)])
    table = {
        "model": [f"{kind}{i}" for kind in "pq" for i in range(n)], "trained_on": ["a"] * 2 * n,
        "tested_on": ["b"] * 2 * n, "accuracy": accuracy, "ni-randaugment": score,
        "recipe.augment": ["none"] * n + ["randaugment"] * n,
    }  # fmt: skip
    pq.write_table(pa.table(table), tmp_path / "study.parquet")
    result = ablations.judge_augmented(tmp_path / "study.parquet")
    assert result is not None
    assert result.verdict == "refuted"
    assert ablations.judge_augmented(tmp_path / "missing.parquet") is None


def test_page_lists_every_ablation() -> None:
    found = made({"5%": noisy(60), "15%": noisy(1)}, scale={"5%": 0.05, "15%": 0.15})
    text = ablations.ablation_page([found], 1.0).text()
    assert "## Reviews: x" in text
    rows = ablations.long_rows([found])
    assert [(row["level"], row["scale"], row["series"]) for row in rows] == [
        ("5%", 0.05, "x"), ("15%", 0.15, "x"),
    ]  # fmt: skip
