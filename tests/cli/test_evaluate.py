"""The `oodometer evaluate` command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.testing.measures import toy_data
from tests.support.command_line import assert_one_line_error, run, run_json

# Square brackets are markup for rich.
BRACKETS = ("--class-names", "cat,dog,[red]owl[/red]")


def test_all_metrics_of_a_network_are_shown(network_folder: Path) -> None:
    result = run(network_folder, "evaluate", "toy_nets:network", "one.npz")
    assert result.returncode == 0, result.stderr
    for word in (
        "Error",
        "NLL",
        "ECE",
        "Adversarial error",
        "Demographic disparity",
        "F1",
        "By class",
    ):
        assert word in result.stdout
    content = run_json(network_folder, "evaluate", "toy_nets:network", "one.npz")
    assert [row["metric"] for row in content["metrics"]][:2] == ["error", "nll"]


def test_corruptions_add_errors_by_severity(network_folder: Path) -> None:
    words = ("--corruption", "fog,jpeg-3", "--metric", "error,nll", *BRACKETS)
    result = run(network_folder, "evaluate", "toy_nets:images", "pictures.npz", *words)
    assert result.returncode == 0, result.stderr
    assert "Error under corruption, by severity" in result.stdout
    assert "corrupted" in result.stdout
    assert "jpeg" in result.stdout


def test_severities_of_corruptions_can_be_selected(network_folder: Path) -> None:
    words = ("evaluate", "toy_nets:images", "pictures.npz", "--corruption", "glass_blur-2,fog-2")
    content = run_json(network_folder, *words, "--metric", "error")
    assert [row["severities"] for row in content["corrupted"]] == ["published", "published"]
    message = "glass_blur has no relative severities. Use --severities published."
    assert_one_line_error(run(network_folder, *words, "--severities", "relative"), message)
    message = "severities must be published or relative; got 'own'."
    assert_one_line_error(run(network_folder, *words, "--severities", "own"), message)


def test_file_of_outputs_needs_no_model(network_folder: Path) -> None:
    result = run(network_folder, "evaluate", "none", "one_outputs.npz", "--metric", "error")
    assert result.returncode == 0, result.stderr
    assert "outputs only on one_outputs: 60 labelled rows" in result.stdout
    corrupted = run(network_folder, "evaluate", "none", "one_outputs.npz", "--corruption", "fog")
    assert corrupted.returncode == 2


def test_outputs_can_be_logits_with_named_classes_and_label_column(network_folder: Path) -> None:
    rows, labels = toy_data(1)
    names = np.array(["cat", "dog", "owl"])[labels]
    np.savez(network_folder / "named.npz", logits=rows[:, :3], truth=names)
    words = ("--label-column", "truth", "--class-names", "cat,dog,owl", "--metric", " error, nll,")
    result = run_json(network_folder, "evaluate", "none", "named.npz", *words, "--seed", "5")
    error = np.mean(rows[:, :3].argmax(1) != labels)
    assert [row["metric"] for row in result["metrics"]] == ["error", "nll"]
    assert result["metrics"][0]["value"] == pytest.approx(error)
    assert (result["data"], result["seed"]) == ("named", 5)


def test_markup_in_class_names_is_shown_as_text(network_folder: Path) -> None:
    words = ("evaluate", "toy_nets:images", "pictures.npz", "--metric", "f1,error", *BRACKETS)
    assert "[red]owl[/red]" in run(network_folder, *words).stdout


def test_exit_code_is_2_without_outputs(network_folder: Path) -> None:
    result = run(network_folder, "evaluate", "none", "one_features.npz")
    assert result.returncode == 2
    assert "labelled" not in result.stdout


def test_empty_list_of_corruptions_is_an_error(network_folder: Path) -> None:
    words = ("evaluate", "toy_nets:images", "pictures.npz", "--corruption", ",")
    assert_one_line_error(run(network_folder, *words), "No corruption was named")
