"""The `oodometer transforms` command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import oodometer
from oodometer.transforms import available, available_for_kind
from tests.support.command_line import assert_one_line_error, run, run_json
from tests.support.scorer_files import SCORERS


def test_every_transform_is_listed(tmp_path: Path) -> None:
    names = [member.name for member in available()]
    assert [row["name"] for row in run_json(tmp_path, "transforms")] == names
    shown = run(tmp_path, "transforms").stdout
    assert all(name in shown for name in names)


def test_suggestions_have_every_transform_for_the_kind_of_data(scorer_folder: Path) -> None:
    words = ("transforms", "--suggest", "scorers:calm")
    rows = run_json(scorer_folder, *words, "digits.npz")
    names = {member.name for member in available_for_kind("images")}
    assert {row["transform"] for row in rows} == names
    assert all("auroc" in row for row in rows)
    assert "AUROC" in run(scorer_folder, *words, "digits.npz").stdout
    assert "AUROC" not in run(scorer_folder, *words, "photos").stdout


def test_label_column_and_number_of_examples_are_applied(scorer_folder: Path) -> None:
    with np.load(scorer_folder / "digits.npz") as archive:
        images, labels = archive["images"], archive["labels"]
    np.savez(scorer_folder / "odd.npz", images=images, truth=labels)
    namespace: dict[str, Any] = {}
    exec(SCORERS, namespace)
    dataset = oodometer.as_dataset(images, labels=labels)
    expected = oodometer.suggest_transforms(namespace["calm"], dataset, examples=15)
    words = ("transforms", "--suggest", "scorers:calm", "odd.npz", "--examples", "15")
    rows = run_json(scorer_folder, *words, "--label-column", "truth")
    assert rows == [suggestion.to_dict() for suggestion in expected]
    assert all(row["auroc"] is None for row in run_json(scorer_folder, *words))


def test_a_failing_model_is_an_error_not_an_unsuitable_transform(scorer_folder: Path) -> None:
    for scorer, message in (("nan", "must be finite"), ("short", "rows for"), ("raising", "paper")):
        result = run(scorer_folder, "transforms", "--suggest", f"scorers:{scorer}", "digits.npz")
        assert_one_line_error(result, message)
