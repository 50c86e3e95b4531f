"""The `oodometer rank` command."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.command_line import assert_one_line_error, run, run_json


def test_models_are_ordered_with_the_certainty_of_the_order(scorer_folder: Path) -> None:
    words = ("rank", "scorers:shaky", "scorers:calm", "digits.npz")
    result = run_json(scorer_folder, *words, "-t", "brightness")
    assert [model["model"] for model in result["models"]] == ["calm", "shaky"]
    assert result["models"][0]["higher_in_resamples"] > 0.9
    shown = run(scorer_folder, *words, "--score", "atc-mc", "--source-data", "digits.npz")
    assert shown.returncode == 0, shown.stderr
    assert "% of resamples" in shown.stdout
    assert "beats" not in shown.stdout
    assert "atc-mc" in shown.stdout


def test_known_accuracies_must_be_numbers_at_three_distinct_points(scorer_folder: Path) -> None:
    words = ("rank", "scorers:shaky", "scorers:calm", "scorers:hard", "digits.npz",
             "-t", "rotate", "--known-accuracies", "known.csv")  # fmt: skip
    known = scorer_folder / "known.csv"
    known.write_text("model,accuracy\ncalm,0.9\nshaky,0.5\nhard,0.9\n")
    assert_one_line_error(run(scorer_folder, *words), "three distinct points")
    known.write_text("model,accuracy\ncalm,high\n")
    assert_one_line_error(run(scorer_folder, *words), "must contain numbers")


def test_label_column_names_the_labels_of_the_source(scorer_folder: Path) -> None:
    with np.load(scorer_folder / "digits.npz") as archive:
        np.savez(scorer_folder / "odd.npz", images=archive["images"], truth=archive["labels"])
    words = ("rank", "scorers:shaky", "scorers:calm", "digits.npz", "--score", "doc",
             "--source-data", "odd.npz")  # fmt: skip
    assert_one_line_error(run(scorer_folder, *words), "data without labels")
    assert run_json(scorer_folder, *words, "--label-column", "truth")["measure"] == "doc"


def test_one_model_or_two_sources_are_errors(scorer_folder: Path) -> None:
    one = run(scorer_folder, "rank", "scorers:calm", "digits.npz")
    assert_one_line_error(one, "two models or more; got 1")
    words = ("rank", "scorers:shaky", "scorers:calm", "digits.npz")
    sources = ("--source-data", "digits.npz", "--source-data", "photos")
    assert_one_line_error(run(scorer_folder, *words, *sources), "rank takes one --source-data")


def test_strength_and_smoothness_names_are_applied(scorer_folder: Path) -> None:
    words = ("rank", "scorers:calm", "scorers:hard", "digits.npz", "-t")
    assert run_json(scorer_folder, *words, "MS-RandAug")["measure"] == "MS-RandAug"
    fixed = run_json(scorer_folder, *words, "randaugment", "--strength", "fixed", "--no-identity")
    assert fixed["measure"] == "MS-RandAug"
    assert run_json(scorer_folder, *words, "randaugment")["measure"] == "NI-RandAug"


def test_source_adds_estimates_and_the_default_combines_them(scorer_folder: Path) -> None:
    words = ("rank", "scorers:shaky", "scorers:calm", "digits.npz", "-t", "brightness",
             "--source-data", "digits.npz")  # fmt: skip
    result = run_json(scorer_folder, *words)
    assert result["measure"].endswith(" + doc")
    assert list(result["models"][0]["scores"]) == result["measure"].split(" + ")
    shown = run(scorer_folder, *words, "--score", "ni")
    assert "doc" in shown.stdout
    assert "not of the accuracies" in " ".join(shown.stdout.split())
