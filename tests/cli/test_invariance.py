"""The `oodometer invariance` command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import oodometer
from tests.support.command_line import assert_one_line_error, run, run_json
from tests.support.marian_folders import write_marian_folders
from tests.support.scorer_files import SCORERS


def test_results_equal_those_of_the_library(scorer_folder: Path) -> None:
    result = run_json(scorer_folder, "invariance", "scorers:calm", "scorers:shaky", "digits.npz",
                      "--transform", "translate", "-n", "4", "--seed", "3")  # fmt: skip
    with np.load(scorer_folder / "digits.npz") as archive:
        images = archive["images"]
    namespace: dict[str, Any] = {}
    exec(SCORERS, namespace)
    models = {name: namespace[name] for name in ("calm", "shaky")}
    expected = oodometer.invariance(models, images, transform="translate", draws=4, seed=3)
    assert [model["model"] for model in result["models"]] == ["calm", "shaky"]
    for model in result["models"]:
        for measure in ("ni", "ne", "ei", "pa"):
            reading = expected[model["model"]].mean_with_interval(measure).to_dict()
            assert model[measure] == pytest.approx(reading)
    assert (result["transform"], result["draws"], result["n"]) == ("translate", 4, 40)


def test_model_and_data_options_are_applied(scorer_folder: Path) -> None:
    words = ("digits.npz", "-t", "translate", "-n", "3")
    calm = run_json(scorer_folder, "invariance", "scorers:calm", *words)
    small = run_json(scorer_folder, "invariance", "scorers:small", *words, "--batch-size", "7")
    assert small["models"][0]["ei"] == calm["models"][0]["ei"]
    logits = run_json(scorer_folder, "invariance", "scorers:logits", *words, "--outputs", "logits")
    assert logits["models"][0]["ei"]["value"] == pytest.approx(calm["models"][0]["ei"]["value"])
    named = ("invariance", "scorers:named", *words)
    result = run_json(scorer_folder, *named, "--class-names", "right,left")
    assert result["models"][0]["ni"] == calm["models"][0]["ni"]
    assert_one_line_error(run(scorer_folder, *named), "--class-names")
    resized = run_json(scorer_folder, "invariance", "scorers:six", "photos", "--size", "6")
    assert resized["n"] == 12


def test_table_shows_every_model_in_80_columns(
    scorer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(
        scorer_folder, "invariance", "scorers:calm", "scorers:hard", "photos", "-t", "translate"
    )
    assert result.returncode == 0, result.stderr
    for word in (
        "NI-Translate",
        "calm",
        "hard",
        "entropy increase",
        "unknown",
        "12 of 12 examples",
    ):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_magnitude_max_inputs_precision_and_no_identity_are_applied(scorer_folder: Path) -> None:
    result = run_json(scorer_folder, "invariance", "scorers:calm", "digits.npz", "-t", "rotate",
                      "--magnitude", "5", "--max-inputs", "60", "--no-identity")  # fmt: skip
    assert result["magnitude"] == 5.0
    assert result["sampling_cost"]["drawn"] <= 60
    assert not result["identity"]
    words = ("invariance", "scorers:calm", "digits.npz", "--precision", "0.2")
    assert run_json(scorer_folder, *words)["sampling_cost"]["requested_half_width"] == 0.2


def test_text_and_pairs_are_read_from_columns(scorer_folder: Path) -> None:
    result = run_json(scorer_folder, "invariance", "scorers:words", "reviews.csv", "--text",
                      "review", "--transform", "random_replace")  # fmt: skip
    assert result["n"] == 30
    assert result["label"] == "RandRep"
    pairs = run_json(scorer_folder, "invariance", "scorers:pairs", "nli.csv", "--text",
                     "premise,hypothesis", "-t", "ssmba")  # fmt: skip
    assert pairs["transform"] == "ssmba"


def test_transform_learns_from_transform_data(scorer_folder: Path) -> None:
    other = pa.table({"review": ["bad " * 20] * 5})
    pyarrow.csv.write_csv(other, scorer_folder / "other.csv")
    words = ("invariance", "scorers:words", "reviews.csv", "--text", "review", "-t",
             "random_replace")  # fmt: skip
    own = run_json(scorer_folder, *words)
    by_other = run_json(scorer_folder, *words, "--transform-data", "other.csv")
    assert own["models"][0]["ei"]["value"] != by_other["models"][0]["ei"]["value"]


def test_save_examples_writes_a_gallery(scorer_folder: Path) -> None:
    result = run(scorer_folder, "invariance", "scorers:calm", "photos", "-t", "flip_crop",
                 "--save-examples", "seen")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "12 examples written to seen" in result.stderr
    assert (scorer_folder / "seen" / "index.html").is_file()
    assert len(list((scorer_folder / "seen").glob("*.png"))) == 12


def test_unreadable_images_are_skipped_only_on_request(scorer_folder: Path) -> None:
    (scorer_folder / "photos" / "broken.png").write_bytes(b"not a picture")
    words = ("invariance", "scorers:calm", "photos")
    assert_one_line_error(run(scorer_folder, *words), "broken.png", "--skip-bad")
    result = run_json(scorer_folder, *words, "--skip-bad")
    assert (result["n"], result["skipped"]) == (12, 1)
    shown = run(scorer_folder, *words, "--skip-bad").stdout
    assert "1 inputs that are unreadable or empty were skipped" in shown


def test_empty_texts_are_skipped_only_on_request(scorer_folder: Path) -> None:
    (scorer_folder / "some.csv").write_text('review\n"a good book"\n""\n"  "\n"a bad book"\n')
    words = ("invariance", "scorers:words", "some.csv", "--text", "review", "-t", "random_replace")
    assert_one_line_error(run(scorer_folder, *words), "row 1", "--skip-bad")
    result = run_json(scorer_folder, *words, "--skip-bad")
    assert (result["n"], result["skipped"]) == (2, 2)


def test_array_of_an_archive_is_selected_by_name(scorer_folder: Path) -> None:
    with np.load(scorer_folder / "digits.npz") as archive:
        images = archive["images"]
    np.savez(scorer_folder / "two.npz", first=images[:20], second=images[20:])
    words = ("invariance", "scorers:calm", "two.npz")
    assert_one_line_error(run(scorer_folder, *words), "first", "second")
    assert run_json(scorer_folder, *words, "--inputs", "second")["n"] == 20


def test_workers_do_not_change_the_numbers(scorer_folder: Path) -> None:
    """Images of a folder and of a file, and models of a module in the working folder."""
    # A module name of its own: workers of another test may have imported `scorers`.
    (scorer_folder / "spread_scorers.py").write_text(SCORERS)
    models = ("spread_scorers:calm", "spread_scorers:shaky")
    words = ("invariance", *models, "photos", "-t", "translate", "-n", "3", "--batch-size", "4")
    serial, one, two = (run_json(scorer_folder, *words, "--workers", count) for count in "012")
    assert one == two == serial
    ranking = ("rank", *models, "digits.npz", "--score", "ac", "--source-data", "digits.npz")
    assert run_json(scorer_folder, *ranking, "--workers", "1") == run_json(scorer_folder, *ranking)


INVALID: dict[str, tuple[tuple[str, ...], str]] = {
    "too few rows": (("scorers:short", "digits.npz"), "returned"),
    "nan": (("scorers:nan", "digits.npz"), "must be finite"),
    "a function that raises": (("scorers:raising", "digits.npz"), "out of paper"),
    "not a function": (("scorers:number", "digits.npz"), "is not a model"),
    "no such function": (("scorers:clam", "digits.npz"), "calm"),
    "no such module": (("scorer:calm", "digits.npz"), "There is no module 'scorer'"),
    "no such file": (("scorers:calm", "digit.npz"), "digit.npz"),
    "no such model": (("model.onnx", "digits.npz"), "There is no file 'model.onnx'"),
    "a transform of another kind": (("scorers:calm", "digits.npz", "-t", "eda"), "applies to text"),
    "an unknown transform": (("scorers:calm", "digits.npz", "-t", "rotat"), "Did you mean 'rotate'"),
    "a magnitude out of range": (("scorers:calm", "digits.npz", "--magnitude", "-1"), "magnitude"),
    "a setting of another transform": (
        ("scorers:calm", "digits.npz", "--wordnet", "."), "--wordnet is not a setting",
    ),
    "a filler of another transform": (
        ("scorers:calm", "digits.npz", "--filler", "."), "--filler is not a setting",
    ),
    "a wrong precision": (("scorers:calm", "digits.npz", "--precision", "5"), "precision"),
    "wrong outputs": (("scorers:calm", "digits.npz", "--outputs", "odds"), "--outputs must be"),
    "a timeout without an address": (
        ("scorers:calm", "digits.npz", "--timeout", "3"), "--timeout applies to",
    ),
    "a mean without an .onnx file": (
        ("scorers:calm", "digits.npz", "--mean", "0.5"), "--mean and --std",
    ),
    "no such column": (("scorers:words", "reviews.csv", "--text", "revew"), "revew"),
    "no server at the address": (("http://127.0.0.1:9/", "digits.npz"), "127.0.0.1:9"),
    "a pickle": (("model.pkl", "digits.npz"), "--trust-pickle"),
    "a folder that is not empty": (
        ("scorers:calm", "digits.npz", "--save-examples", "photos"), "not empty",
    ),
    "workers and a scheduler": (
        ("scorers:calm", "digits.npz", "--workers", "2", "--scheduler", "tcp://a:1"), "not both",
    ),
    "a negative number of workers": (
        ("scorers:calm", "digits.npz", "--workers", "-1"), "--workers must be at least 0; got -1",
    ),
    "no scheduler at the address": (
        ("scorers:calm", "digits.npz", "--scheduler", "tcp://127.0.0.1:9"),
        "There is no Dask scheduler at",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_invalid_input_is_a_one_line_error(
    scorer_folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (scorer_folder / "model.pkl").write_bytes(b"\x80\x04N.")
    words, message = INVALID[case]
    assert_one_line_error(run(scorer_folder, "invariance", *words), message)


def test_swapped_arguments_are_recognized(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.ones((8, 3)))
    result = run(tmp_path, "invariance", "data.npy", "mine:classify")
    assert_one_line_error(result, "It looks like data: pass the model first")


def test_strength_and_smoothness_names_are_applied(scorer_folder: Path) -> None:
    words = ("invariance", "scorers:words", "reviews.csv", "--text", "review", "-t")
    smooth = run_json(scorer_folder, *words, "MS-RandRep")
    assert (smooth["strength"], smooth["identity"], smooth["draws"]) == ("fixed", False, 10)
    literal = run_json(scorer_folder, *words, "random_replace", "--strength", "fixed",
                       "--no-identity")  # fmt: skip
    assert literal == smooth
    assert run_json(scorer_folder, *words, "MS-RandRep", "--identity")["identity"]
    up_to = run_json(scorer_folder, *words, "MSE-RandRep", "--strength", "up_to")
    assert (up_to["strength"], up_to["identity"]) == ("up_to", False)
    shown = run(scorer_folder, *words, "MS-RandRep").stdout
    for word in ("MS-RandRep", "fixed strength", "without the identity", "MSE"):
        assert word in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_invalid_strength_is_an_error(scorer_folder: Path) -> None:
    words = ("invariance", "scorers:words", "reviews.csv", "--text", "review", "-t")
    assert_one_line_error(
        run(scorer_folder, *words, "ssmba", "--strength", "full"),
        "The strength of ssmba must be 'up_to' or 'fixed'; got 'full'.",
    )
    assert_one_line_error(
        run(scorer_folder, *words, "backtranslate", "--strength", "fixed"),
        "--strength is not a setting of the transform 'backtranslate'. Leave it out.",
    )


def test_translator_names_two_marian_models(scorer_folder: Path) -> None:
    write_marian_folders(scorer_folder)
    words = ("invariance", "scorers:words", "reviews.csv", "--text", "review", "-t", "NI-BT",
             "--draws", "2", "--max-inputs", "30")  # fmt: skip
    folders = ("--translator", "en-de", "de-en")
    result = run_json(scorer_folder, *words, *folders)
    assert (result["transform"], result["label"], result["magnitude"]) == (
        "backtranslate", "BT", 0.7,
    )  # fmt: skip
    assert "en-de" in result["settings"]
    small = run_json(scorer_folder, *words, *folders, "--batch-size", "7")
    assert small["models"] == result["models"]
    other = run_json(scorer_folder, *words, *folders, "--seed", "1")
    assert other["models"] != result["models"]
    missing = run(scorer_folder, *words, "--translator", "en-de", "en-fr")
    assert_one_line_error(missing, "en-fr", "as a translation model: it has no config.json")
    wrong = run(scorer_folder, "invariance", "scorers:words", "reviews.csv", "--text", "review",
                "-t", "eda", *folders)  # fmt: skip
    assert_one_line_error(wrong, "--translator is not a setting of the transform 'eda'.")
