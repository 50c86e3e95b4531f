"""`oodometer estimate` with several targets: one source, one table, the numbers of single runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oodometer import Reference
from oodometer.assessment import reference
from tests.support.command_line import assert_one_line_error, run, run_json

FEW = ("--method", "doc,atc-mc", "--replicates", "20")


def write(path: Path, n: int, seed: int, *, labelled: bool = False, k: int = 3) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.3 + 0.1 * seed), size=n)
    columns: dict[str, Any] = {f"prob_{j}": probs[:, j] for j in range(k)}
    columns["site"] = ["north", "south"] * (n // 2)
    if labelled:
        columns["label"] = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "source.parquet", 300, 0, labelled=True)
    for seed, name in enumerate(("jan", "feb", "mar"), start=1):
        write(tmp_path / f"{name}.parquet", 80 + 20 * seed, seed)
    for part in range(2):
        write(tmp_path / "spring" / f"{part}.parquet", 60, 5 + part)
    return tmp_path


MONTHS = ("jan.parquet", "feb.parquet", "mar.parquet")


@pytest.mark.parametrize("words", [(), ("--segment-by", "site"), ("--stream",)])
def test_json_of_each_target_equals_a_run_of_its_own(folder: Path, words: tuple[str, ...]) -> None:
    result = run_json(folder, "estimate", "source.parquet", *MONTHS, *FEW, *words)
    assert list(result) == ["schema", "targets"]
    assert result["schema"] == 1
    for month, target in zip(MONTHS, result["targets"], strict=True):
        alone = run_json(folder, "estimate", "source.parquet", month, *FEW, *words)
        assert target == {"target": month, **alone}
        assert "target" not in alone


def test_folder_and_file_can_be_mixed_and_a_folder_is_one_target(folder: Path) -> None:
    words = ("jan.parquet", "spring", "sprin*/*.parquet")
    targets = run_json(folder, "estimate", "source.parquet", *words, *FEW)["targets"]
    assert [target["target"] for target in targets] == list(words)
    assert [target["n_target"] for target in targets] == [100, 120, 120]
    for word, target in zip(words, targets, strict=True):
        alone = run_json(folder, "estimate", "source.parquet", word, *FEW)
        assert target == {"target": word, **alone}


@pytest.mark.parametrize("words", [(), ("--stream", "--segment-by", "site")])
def test_source_is_read_once(folder: Path, words: tuple[str, ...]) -> None:
    with (
        mock.patch.object(reference, "whole_source", wraps=reference.whole_source) as load,
        mock.patch.object(reference, "Reference", wraps=Reference) as learn,
    ):
        run_json(folder, "estimate", "source.parquet", *MONTHS, *FEW, *words)
    assert (load.call_count, learn.call_count) == (1, 1)


def test_first_line_counts_the_targets_and_a_table_compares_them(folder: Path) -> None:
    shown = run(folder, "estimate", "source.parquet", *MONTHS, *FEW)
    first, _, title, headings, *lines = shown.stdout.splitlines()
    assert (first, title) == ("3 targets", "Estimated accuracy")
    assert headings.split() == [
        "target",
        "rows",
        "accuracy",
        "%",
        "95",
        "%",
        "interval",
        "status",
        "method",
    ]
    for month, line in zip(MONTHS, lines, strict=False):
        alone = run_json(folder, "estimate", "source.parquet", month, *FEW)
        assert line.split()[:3] == [month, str(alone["n_target"]),
                                    f"{100 * alone['headline']['value']:.1f}"]  # fmt: skip
        assert line.split()[-1] == alone["headline"]["method"]
    assert "Diagnostics" not in shown.stdout
    alone_shown = run(folder, "estimate", "source.parquet", "jan.parquet", *FEW).stdout
    assert alone_shown.startswith("Accuracy on the target")


def test_segments_and_metrics_are_shown_per_target(folder: Path) -> None:
    words = ("--segment-by", "site", "--metric", "f1")
    shown = run(folder, "estimate", "source.parquet", *MONTHS, *FEW, *words).stdout
    # Once in the table of estimates and once in that of metrics.
    assert shown.count("north") == shown.count("south") == 6
    # One table for all rows and one by segment, for each target.
    assert shown.count("Expected metrics") == 6
    assert all(shown.splitlines().count(month) == 2 for month in MONTHS)


def test_fail_below_names_the_targets_below(folder: Path) -> None:
    targets = run_json(folder, "estimate", "source.parquet", *MONTHS, *FEW)["targets"]
    values = {target["target"]: target["headline"]["value"] for target in targets}
    ordered = sorted(values, key=lambda name: values[name])
    limit = (values[ordered[0]] + values[ordered[1]]) / 2
    words = ("--fail-below", f"{limit:.6f}")
    shown = run(folder, "estimate", "source.parquet", *MONTHS, *FEW, *words)
    assert shown.returncode == 1
    assert ordered[0] in shown.stderr
    assert ordered[1] not in shown.stderr
    assert run(folder, "estimate", "source.parquet", *MONTHS, "--fail-below", "0").stderr == ""


@pytest.mark.parametrize("option", ["--html", "--other-model", "--target-labels"])
def test_options_for_one_target_are_rejected(folder: Path, option: str) -> None:
    shown = run(folder, "estimate", "source.parquet", *MONTHS, option, "new.html")
    assert_one_line_error(shown, f"{option} applies to one target", "Run the command once per")


def test_errors_name_the_target(folder: Path) -> None:
    write(folder / "other.parquet", 40, 9, k=4)
    shown = run(folder, "estimate", "source.parquet", "jan.parquet", "other.parquet", *FEW)
    assert_one_line_error(shown, "other.parquet: the source has 3 classes, the target has 4")
    shown = run(folder, "estimate", "source.parquet", "jan.parquet", "none.parquet", *FEW)
    assert_one_line_error(shown, "There is no file 'none.parquet'")
