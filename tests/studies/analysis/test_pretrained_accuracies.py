"""Accuracies of pretrained networks as metrics of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from oodometer.core.errors import InputError
from oodometer.studies.analysis import add_pretrained_accuracies, average_correlations
from oodometer.studies.analysis.averaged_correlations import adjusted_correlations
from tests.support.evaluation_rows import rank_correlation
from tests.support.fine_tuning_rows import PRETRAINED, fine_tuning_rows, is_ood, mean, to_table


def test_pretrained_errors_are_variables_of_the_matrix() -> None:
    rows = fine_tuning_rows(groups=["pacs"])
    table = add_pretrained_accuracies(to_table(rows), PRETRAINED)
    matrix = average_correlations(table, metrics=["nll"]).overall
    assert matrix.first[-2:] == ("pretrained imagenet error", "pretrained imagenet-a error")
    coefficients = []
    accuracies = dict(zip(PRETRAINED["model"], PRETRAINED["imagenet"], strict=True))
    for pair in sorted({(row["trained_on"], row["tested_on"]) for row in rows if is_ood(row)}):
        own = [row for row in rows if (row["trained_on"], row["tested_on"]) == pair]
        coefficients.append(
            rank_correlation(
                [1 - accuracies[row["architecture"]] for row in own],
                [1 - row["accuracy"] for row in own],
            )
        )
    score = matrix.score("pretrained imagenet error", "OOD error")
    assert score["value"] == pytest.approx(mean([value or 0.0 for value in coefficients]))
    assert score["pairs"] == 6
    # The other variables do not depend on the new ones.
    before = average_correlations(to_table(rows), metrics=["nll"]).overall
    assert before.score("ID nll", "OOD error") == matrix.score("ID nll", "OOD error")
    adjusted = adjusted_correlations(table, metrics=["nll"]).overall
    assert "pretrained imagenet-a error" in adjusted.first


def test_columns_are_not_measures_and_survive_a_file(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {**row, "pretrained.imagenet": 0.8 if row["architecture"] == "resnet50d" else 0.9}
        for row in fine_tuning_rows(groups=["pacs"])
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    from oodometer.studies.analysis import EvaluationTable

    table = EvaluationTable.read(tmp_path / "rows.parquet")
    assert "pretrained.imagenet" not in table.measures
    assert average_correlations(table).overall.first[-1] == "pretrained imagenet error"


def test_unknown_architectures_and_bad_accuracies_raise() -> None:
    table = to_table(fine_tuning_rows(groups=["fmow"]))
    with pytest.raises(InputError, match="none of the architectures resnet50d"):
        add_pretrained_accuracies(table, {"model": ["alexnet"], "imagenet": [56.5]})
    rows = [{**row, "pretrained.imagenet": 80.5} for row in fine_tuning_rows(groups=["fmow"])]
    with pytest.raises(InputError, match=r"'pretrained.imagenet' must hold accuracies from 0 to 1"):
        average_correlations(to_table(rows))


def test_networks_of_timm_are_found_by_their_name_in_timm() -> None:
    rows = fine_tuning_rows(groups=["fmow"])
    table = to_table([{**row, "architecture": f"timm:{row['architecture']}"} for row in rows])
    added = add_pretrained_accuracies(table, PRETRAINED)
    assert set(added.columns["pretrained.imagenet"]) == {"0.805", "0.845"}


def test_architecture_without_accuracy_is_left_out() -> None:
    table = to_table(fine_tuning_rows(groups=["fmow"]))
    added = add_pretrained_accuracies(table, {"model": ["resnet50d"], "imagenet": [0.8]})
    assert set(added.columns["pretrained.imagenet"]) == {"0.8", ""}
