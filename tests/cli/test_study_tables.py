"""The `oodometer study compare` command on users' tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command_line import CommandResult, assert_one_line_error, run
from tests.support.fine_tuning_rows import PRETRAINED, fine_tuning_rows

HEAD = "model,architecture,trained_on,tested_on,accuracy,ni,atc-mc\n"


def compare(folder: Path, *words: str) -> CommandResult:
    return run(folder, "study", "compare", *words)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = []
    for number in range(12):
        for tested in "abc":
            accuracy, trained = rng.random(), "ab"[number % 2]
            kind = "cnn" if number < 6 else "mlp"
            noisy = min(1.0, accuracy * 0.9)
            lines.append(f"m{number},{kind},{trained},{tested},{accuracy},{accuracy**2},{noisy}\n")
    (tmp_path / "rows.csv").write_text(HEAD + "".join(lines))
    return tmp_path


def test_statistics_are_shown_with_notes_on_their_computation(rows: Path) -> None:
    result = compare(rows, "rows.csv")
    assert (result.returncode, result.stderr) == (0, "")
    assert "All architectures: 36 evaluations" in result.stdout
    assert "1.000" in result.stdout
    assert "R2 and MAE use a line fitted by this rule: " in result.stdout
    assert "Number of groups: R2 8" in " ".join(result.stdout.split())
    alone = compare(rows, "rows.csv", "--architecture", "cnn", "--measure", "ni", "--sd")
    assert "cnn: 36 evaluations" in alone.stdout
    assert "atc-mc" not in alone.stdout
    assert "±" in alone.stdout


def test_table_is_exported_as_markdown_latex_csv_and_json(rows: Path) -> None:
    assert compare(rows, "rows.csv", "--format", "markdown").stdout.startswith("| measure |")
    assert r"\begin{tabular}" in compare(rows, "rows.csv", "--format", "latex").stdout
    content = json.loads(compare(rows, "rows.csv", "--json").stdout)
    assert content["evaluations"] == 36
    assert {row["measure"] for row in content["statistics"]} == {"ni", "atc-mc"}
    result = compare(rows, "rows.csv", "--output", "out.tex")
    assert (result.stdout, result.stderr) == ("", "Table written to out.tex\n")
    assert (rows / "out.tex").read_text().startswith(r"\begin{tabular}")
    assert compare(rows, "rows.csv", "--output", "out.csv").returncode == 0
    assert (rows / "out.csv").read_text().startswith("measure,R2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rows.csv", "--output", "out.doc"), "must end in .md, .tex, .csv; or give --format"),
        (("rows.csv", "--format", "markdwon"), "Did you mean 'markdown'"),
        (("rows.csv", "--architecture", "cmn"), "Did you mean 'cnn'"),
        (("rows.csv", "--measure", "no"), "Did you mean 'ni'"),
        (("none.csv",), "none.csv"),
    ],
)
def test_invalid_input_is_a_one_line_error(
    rows: Path, words: tuple[str, ...], message: str
) -> None:
    assert_one_line_error(compare(rows, *words), message)


def test_missing_column_is_named_with_a_suggestion(rows: Path) -> None:
    text = (rows / "rows.csv").read_text()
    (rows / "bad.csv").write_text(text.replace("accuracy", "accurracy", 1))
    result = compare(rows, "bad.csv")
    assert result.returncode == 2
    assert "no column 'accuracy'" in result.stderr
    assert "Did you mean 'accurracy'?" in result.stderr


def test_table_with_an_accuracy_column_is_a_table_of_evaluations(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.csv").write_text("model,tested,accuracy,ni\nm,b,0.5,1\n")
    result = compare(tmp_path, "rows.csv")
    assert result.returncode == 2
    assert "no column 'trained_on' or 'tested_on'" in result.stderr
    assert "Columns: model, tested, accuracy, ni." in result.stderr


def test_note_if_all_evaluations_are_in_distribution(tmp_path: Path) -> None:
    lines = "".join(f"m{j},a,a,0.{5 + j},{j}\n" for j in range(4))
    (tmp_path / "rows.csv").write_text("model,trained_on,tested_on,accuracy,ni\n" + lines)
    shown = " ".join(compare(tmp_path, "rows.csv").stdout.split())
    assert "No model is tested on a domain that it was not trained on" in shown
    assert "the same as" not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,val\nm,90\nn,80\n", "'val' is the only test set"),
        ("model,val,new\nm,90%,80%\nn,80%,70%\n", "Columns: val ('90%'), new ('80%')."),
        ("model;val;new\nm;90,1;80,2\n", "has semicolons between its columns; expected commas"),
    ],
)
def test_invalid_table_of_accuracies_is_a_one_line_error(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "sets.csv").write_text(text)
    result = compare(tmp_path, "sets.csv", "--reference-domain", "val")
    assert_one_line_error(result, message)


def test_table_of_accuracies_is_compared_with_the_reference(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    usual = rng.uniform(50, 90, 30)
    lines = [
        f"m{j},{accuracy},{accuracy - 10 + rng.normal()},{rng.uniform(5, 60)}"
        for j, accuracy in enumerate(usual)
    ]
    (tmp_path / "sets.csv").write_text("\n".join(["model,val,v2,odd", *lines]))
    missing = compare(tmp_path, "sets.csv")
    assert_one_line_error(missing, "Use --reference-domain", "val, v2, odd")
    result = compare(tmp_path, "sets.csv", "--reference-domain", "val")
    assert "2 test sets against val, over 30 models" in result.stdout
    assert "Patterns: functional 1, cloud 1." in result.stdout
    assert "Mean Spearman correlation" in result.stdout
    shown = json.loads(compare(tmp_path, "sets.csv", "--reference-domain", "val", "--json").stdout)
    assert [one["name"] for one in shown["sets"]] == ["v2", "odd"]
    assert shown["sets"][0]["spearman"] > 0.9
    wrong = compare(tmp_path, "sets.csv", "--reference-domain", "vall")
    assert "Did you mean 'val'?" in wrong.stderr


def test_equal_accuracies_give_reasons_instead_of_a_table(tmp_path: Path) -> None:
    rows = "model,trained_on,tested_on,accuracy,ni\na,x,y,0.5,1\nb,x,y,0.5,2\n"
    (tmp_path / "same.csv").write_text(rows)
    result = compare(tmp_path, "same.csv")
    assert result.stdout.startswith("No statistic can be computed, for the reasons below.\n")
    shown = " ".join(result.stdout.split())
    assert "Groups without a value (all accuracies equal): R2 1, r2_pearson 1, Macro τ 1" in shown
    assert "Groups without a value (fewer than two models to fit the line to): MAE 1." in shown


def test_report_on_evaluations_is_written(rows: Path) -> None:
    result = compare(rows, "rows.csv", "--html", "report.html")
    assert result.returncode == 0
    assert "All architectures: 36 evaluations" in result.stdout
    assert result.stderr == "Report written to report.html\n"
    page = (rows / "report.html").read_text()
    assert "rows.csv: which measures predict accuracy?" in page
    assert "oodometer study compare rows.csv --html report.html" in page
    assert "SHA-256 of rows.csv" in page
    shown = compare(rows, "rows.csv", "--json", "--measure", "ni", "--html", "one.html")
    assert json.loads(shown.stdout)["evaluations"] == 36
    assert "1 measure compared over 36 evaluations" in (rows / "one.html").read_text()


def test_report_on_a_table_of_accuracies_uses_the_reference(tmp_path: Path) -> None:
    lines = [f"m{j},{50 + j},{40 + j},{90 - 2 * j}" for j in range(12)]
    (tmp_path / "sets.csv").write_text("\n".join(["model,val,v2,odd", *lines]))
    result = compare(tmp_path, "sets.csv", "--reference-domain", "val", "--html", "report.html")
    assert (result.returncode, result.stderr) == (0, "Report written to report.html\n")
    page = (tmp_path / "report.html").read_text()
    assert "1 measure compared over 36 evaluations of 12 models" in page
    assert "By Macro τ, accuracy on val has 0.00 ± 1.00" in page


def test_unwritable_report_is_an_error_before_the_work(rows: Path) -> None:
    result = compare(rows, "rows.csv", "--html", "nowhere/report.html")
    assert (result.returncode, result.stdout) == (2, "")
    assert "There is no folder" in result.stderr


def test_output_never_replaces_the_table(rows: Path) -> None:
    before = (rows / "rows.csv").read_text()
    result = compare(rows, "rows.csv", "--output", "./rows.csv")
    assert (result.returncode, result.stdout) == (2, "")
    assert "rows.csv is the table itself. Choose another name." in result.stderr
    assert (rows / "rows.csv").read_text() == before


def test_note_on_measures_that_need_target_labels(rows: Path) -> None:
    text = (rows / "rows.csv").read_text()
    (rows / "mixed.csv").write_text(text.replace("ni", "ece", 1))
    shown = "ece: computed with target labels, for comparison only."
    assert shown in " ".join(compare(rows, "mixed.csv").stdout.split())
    assert "target labels" not in compare(rows, "rows.csv").stdout


ANALYSIS_NAMES = (
    "joint", "averaged", "adjusted", "tasks", "shifts", "difficulty", "strategies", "augmentation",
    "models", "noise", "factors", "rank", "truth", "errors",
)  # fmt: skip


@pytest.fixture
def replicated(tmp_path: Path) -> Path:
    """Two training domains with three seeds of two recipes each, tested on three domains."""
    rng = np.random.default_rng(1)
    lines = []
    for number in range(12):
        skill = rng.random()
        for tested in "abc":
            accuracy = 0.3 + 0.5 * skill + 0.1 * rng.random()
            values = (accuracy**2, 0.9 * accuracy, rng.random(), number % 3, number // 6)
            trained = "ab"[number // 3 % 2]
            part, augment = [("whole", "none"), ("head", "augmix")][number // 6]
            names = f"{part},{augment},task-{trained},near,{1 - skill}"
            numbers = ",".join(map(str, values))
            lines.append(f"m{number},{trained},{tested},{accuracy},{numbers},{names}\n")
    head = (
        "model,trained_on,tested_on,accuracy,ni,atc-mc,noise,seed,recipe.width,recipe.part,"
        "recipe.augment,task,shift,source-error\n"
    )
    (tmp_path / "rows.csv").write_text(head + "".join(lines))
    return tmp_path


def test_analyses_are_shown_instead_of_the_comparison(replicated: Path) -> None:
    result = compare(replicated, "rows.csv", "--analysis", "joint,truth", "--analysis", "noise")
    assert (result.returncode, result.stderr) == (0, "")
    assert "All architectures" not in result.stdout
    joint, truth, noise = (
        result.stdout.index(title)
        for title in ("Joint regression", "Estimated against true", "Signal-to-noise")
    )
    assert joint < truth < noise
    assert "all measures" in result.stdout


def test_every_analysis_has_a_table_and_json_values(replicated: Path) -> None:
    options = [word for name in ANALYSIS_NAMES for word in ("--analysis", name)]
    result = compare(replicated, "rows.csv", *options, "--format", "markdown")
    assert result.stderr == ""
    assert len(result.stdout.strip().split("\n\n")) == len(ANALYSIS_NAMES)
    values = json.loads(compare(replicated, "rows.csv", *options, "--json").stdout)
    assert values["evaluations"] == 36
    assert tuple(values["analyses"]) == ANALYSIS_NAMES
    assert values["analyses"]["truth"][0]["estimator"] == "atc-mc"
    assert values["analyses"]["noise"]["ni"]["groups"] == 12
    assert "analyses" not in json.loads(compare(replicated, "rows.csv", "--json").stdout)


def test_all_analyses_skips_those_that_do_not_apply(rows: Path) -> None:
    result = compare(rows, "rows.csv", "--analysis", "all")
    assert result.returncode == 0
    assert "Skipped noise: The signal-to-noise ratio needs replicates" in result.stderr
    assert "Factor analysis" in result.stdout
    values = json.loads(compare(rows, "rows.csv", "--analysis", "all", "--json").stdout)
    assert "needs replicates" in values["analyses"]["noise"]["reason"]


def test_one_analysis_can_be_written_as_csv_and_by_architecture(replicated: Path) -> None:
    assert compare(replicated, "rows.csv", "--analysis", "rank", "--output", "t.csv").stdout == ""
    lines = (replicated / "t.csv").read_text().splitlines()
    assert lines[0].startswith("measure,ρ,environments")
    assert [line.split(",")[0] for line in lines[1:]] == ["ni", "atc-mc", "noise", "source-error"]


def test_architecture_restricts_an_analysis(rows: Path) -> None:
    options = ("--analysis", "truth", "--architecture", "cnn", "--json")
    values = json.loads(compare(rows, "rows.csv", *options).stdout)
    points = values["analyses"]["truth"][0]["points"]
    assert {point["architecture"] for point in points} == {"cnn"}


def test_analyses_of_a_matrix_of_accuracies_use_the_reference(tmp_path: Path) -> None:
    lines = "".join(f"m{j},{50 + 4 * j},{40 + 3 * j},{30 + 5 * j}\n" for j in range(10))
    (tmp_path / "sets.csv").write_text("model,val,new,sketch\n" + lines)
    options = ("--reference-domain", "val", "--analysis", "rank")
    result = compare(tmp_path, "sets.csv", *options)
    assert "accuracy on val" in result.stdout
    values = json.loads(compare(tmp_path, "sets.csv", *options, "--json").stdout)
    assert values["analyses"]["rank"]["accuracy on val"]["mean"]["mean"] == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--analysis", "joined"), "Did you mean 'joint'"),
        (("--analysis", "noise"), "needs replicates"),
        (("--analysis", "rank,truth", "--format", "csv"), "CSV holds one table, not 2"),
    ],
)
def test_invalid_analyses_are_a_one_line_error(
    rows: Path, options: tuple[str, ...], message: str
) -> None:
    assert_one_line_error(compare(rows, "rows.csv", *options), message)


def test_fine_tuned_networks_are_analyzed_with_pretrained_accuracies(tmp_path: Path) -> None:
    write_table(fine_tuning_rows(), tmp_path / "rows.csv")
    write_table(
        [dict(zip(PRETRAINED, row, strict=True)) for row in zip(*PRETRAINED.values(), strict=True)],
        tmp_path / "imagenet.csv",
    )
    options = ("--analysis", "averaged,factors,models", "--pretrained", "imagenet.csv")
    result = compare(tmp_path, "rows.csv", *options, "--rotation", "quartimax", "--json",
                     "--html", "page.html")  # fmt: skip
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)["analyses"]
    cells = {
        (cell["first"], cell["second"]): cell["value"]
        for cell in values["averaged"]["overall"]["cells"]
    }
    assert cells["pretrained imagenet-a error", "OOD error"] is not None
    assert (values["factors"]["rotation"], len(values["factors"]["names"])) == ("quartimax", 16)
    assert len(values["models"]) == 12
    page = (tmp_path / "page.html").read_text()
    assert "Loadings after quartimax" in page
    assert "pretrained imagenet-a error" in page
    wrong = compare(tmp_path, "rows.csv", "--rotation", "promax")
    assert_one_line_error(wrong, "No rotation is called 'promax'", "equamax, varimax, quartimax")
    write_table([{"model": "alexnet", "imagenet": 56.5}], tmp_path / "other.csv")
    wrong = compare(tmp_path, "rows.csv", "--pretrained", "other.csv")
    assert_one_line_error(wrong, "none of the architectures resnet50d")


def write_table(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    csv.write_csv(pa.Table.from_pylist(rows), path)


def test_help_names_every_analysis(tmp_path: Path) -> None:
    from oodometer.studies.analysis import ANALYSES

    assert ANALYSES == ANALYSIS_NAMES
    text = run(tmp_path, "study", "compare", "--help").stdout
    assert not [name for name in ANALYSIS_NAMES if name not in text]


def test_two_measures_are_compared_with_intervals(rows: Path) -> None:
    result = compare(rows, "rows.csv", "--pair", "ni", "atc-mc", "--format", "csv")
    assert (result.returncode, result.stderr) == (0, "")
    header, *lines = result.stdout.strip().splitlines()
    assert header == "statistic,ni,atc-mc,difference,95 % interval,ni is better"
    assert "Macro τ,1.000,1.000,+0.000,+0.000 to +0.000,undecided" in lines
    shown = compare(rows, "rows.csv", "--pair", "ni", "atc-mc")
    assert "12 configurations, 12 models, 24 evaluations, 2,000 replicates" in " ".join(
        shown.stdout.split()
    )
    values = json.loads(compare(rows, "rows.csv", "--pair", "ni", "atc-mc", "--json").stdout)
    by_name = {entry["statistic"]: entry for entry in values["differences"]}
    assert by_name["r2_pearson"]["models"] == 12
    assert values["reliability"] is None


def test_pair_of_one_architecture_uses_its_models_only(rows: Path) -> None:
    options = ("--pair", "ni", "atc-mc", "--architecture", "cnn", "--json")
    values = json.loads(compare(rows, "rows.csv", *options).stdout)
    assert {entry["models"] for entry in values["differences"]} == {6}


def test_unknown_measure_of_a_pair_is_a_one_line_error(rows: Path) -> None:
    assert_one_line_error(compare(rows, "rows.csv", "--pair", "ni", "atc"), "Did you mean 'atc-mc'")
