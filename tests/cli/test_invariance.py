"""The commands that show data to models, run as users run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import oodometer
from tests.support.command_line import Done, run

SCORERS = """
import numpy as np

def _scores(images, sharpness):
    wide = images.shape[2] // 2
    gap = images[:, :, :wide].mean((1, 2)) - images[:, :, wide:].mean((1, 2))
    gap = np.tanh(gap.reshape(len(images), -1).mean(1) / sharpness)
    return np.stack([0.5 - 0.49 * gap, 0.5 + 0.49 * gap], axis=1)

def calm(images):
    return _scores(images, 6.0)

def shaky(images):
    wave = np.sin(images.reshape(len(images), -1).sum(1) / 40.0)
    return np.stack([0.5 - 0.4 * wave, 0.5 + 0.4 * wave], axis=1)

def hard(images):
    return _scores(images, 6.0).argmax(1)

def short(images):
    return _scores(images, 6.0)[1:]

def nan(images):
    return np.full((len(images), 2), np.nan)

def raising(images):
    raise RuntimeError("out of paper")

def words(texts):
    good = np.array([t.count("good") - t.count("bad") for t in texts])
    share = 1 / (1 + np.exp(-good))
    return np.stack([1 - share, share], axis=1)

def pairs(rows):
    share = np.array([0.9 if a[:1] == b[:1] else 0.2 for a, b in rows])
    return np.stack([1 - share, share], axis=1)

def small(images):
    assert len(images) <= 7
    return calm(images)

def six(images):
    assert images.shape[1:3] == (6, 6)
    return calm(images)

def spoken(images):
    return ["left" if one else "right" for one in hard(images)]

def logits(images):
    return np.log(calm(images)) + 1.0

number = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    images = rng.integers(60, 140, (40, 12, 12)).astype(np.uint8)
    images[::2, :, :6] += 60
    images[1::2, :, 6:] += 60
    (tmp_path / "scorers.py").write_text(SCORERS)
    labels = (np.arange(40) % 2 == 0).astype(int)
    labels[:4] = 1 - labels[:4]
    np.savez(tmp_path / "digits.npz", images=images, labels=labels)
    (tmp_path / "photos").mkdir()
    for i, image in enumerate(images[:12]):
        cv2.imwrite(str(tmp_path / "photos" / f"{i:02d}.png"), image)
    texts = [
        f"a {'good' if i % 2 else 'bad'} book number {i} about a good house" for i in range(30)
    ]
    table = pa.table({"id": range(30), "review": texts, "label": [i % 2 for i in range(30)]})
    pyarrow.csv.write_csv(table, tmp_path / "reviews.csv")
    nli = pa.table({"premise": texts, "hypothesis": texts[::-1]})
    pyarrow.csv.write_csv(nli, tmp_path / "nli.csv")
    return tmp_path


def asked(folder: Path, *words: str) -> Any:
    done = run(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_invariance_says_what_the_library_says(folder: Path) -> None:
    found = asked(folder, "invariance", "scorers:calm", "scorers:shaky", "digits.npz",
                  "--transform", "translate", "-n", "4", "--seed", "3")  # fmt: skip
    with np.load(folder / "digits.npz") as archive:
        images = archive["images"]
    space: dict[str, Any] = {}
    exec(SCORERS, space)
    models = {name: space[name] for name in ("calm", "shaky")}
    there = oodometer.invariance(models, images, transform="translate", draws=4, seed=3)
    assert [one["model"] for one in found["models"]] == ["calm", "shaky"]
    for one in found["models"]:
        for measure in ("ni", "ne", "ei", "pa"):
            expected = there[one["model"]].mean_with_interval(measure).to_dict()
            assert one[measure] == pytest.approx(expected)
    assert (found["transform"], found["draws"], found["n"]) == ("translate", 4, 40)


def test_options_of_the_model_and_the_data_are_obeyed(folder: Path) -> None:
    words = ("digits.npz", "-t", "translate", "-n", "3")
    calm = asked(folder, "invariance", "scorers:calm", *words)
    small = asked(folder, "invariance", "scorers:small", *words, "--batch-size", "7")
    assert small["models"][0]["ei"] == calm["models"][0]["ei"]
    logits = asked(folder, "invariance", "scorers:logits", *words, "--outputs", "logits")
    assert logits["models"][0]["ei"]["value"] == pytest.approx(calm["models"][0]["ei"]["value"])
    spoken = asked(folder, "invariance", "scorers:spoken", *words, "--class-names", "right,left")
    assert spoken["models"][0]["ni"] == calm["models"][0]["ni"]
    one_line(run(folder, "invariance", "scorers:spoken", *words), "--class-names")
    assert asked(folder, "invariance", "scorers:six", "photos", "--size", "6")["n"] == 12


def test_labels_and_examples_are_those_named(folder: Path) -> None:
    with np.load(folder / "digits.npz") as archive:
        images, labels = archive["images"], archive["labels"]
    np.savez(folder / "odd.npz", images=images, truth=labels)
    words = ("transforms", "--suggest", "scorers:calm", "odd.npz", "--examples", "15")
    space: dict[str, Any] = {}
    exec(SCORERS, space)
    given = oodometer.as_dataset(images, labels=labels)
    expected = oodometer.suggest_transforms(space["calm"], given, examples=15)
    assert asked(folder, *words, "--label-column", "truth") == [one.to_dict() for one in expected]
    assert all(row["auroc"] is None for row in asked(folder, *words))
    ranked = ("rank", "scorers:shaky", "scorers:calm", "digits.npz", "--score", "doc",
              "--source-data", "odd.npz")  # fmt: skip
    one_line(run(folder, *ranked), "data without labels")
    assert asked(folder, *ranked, "--label-column", "truth")["measure"] == "doc"


def test_the_table_fits_and_shows_every_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run(folder, "invariance", "scorers:calm", "scorers:hard", "photos", "-t", "translate")
    assert done.returncode == 0, done.stderr
    for word in ("NI-Translate", "calm", "hard", "entropy rise", "unknown", "12 of 12 examples"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_magnitude_a_budget_and_no_identity_are_obeyed(folder: Path) -> None:
    found = asked(folder, "invariance", "scorers:calm", "digits.npz", "-t", "rotate",
                  "--magnitude", "5", "--max-inputs", "60", "--no-identity")  # fmt: skip
    assert found["magnitude"] == 5.0
    assert found["sampling_cost"]["drawn"] <= 60
    assert not found["identity"]
    precise = asked(folder, "invariance", "scorers:calm", "digits.npz", "--precision", "0.2")
    assert precise["sampling_cost"]["requested_half_width"] == 0.2


def test_text_and_pairs_are_read_from_columns(folder: Path) -> None:
    found = asked(folder, "invariance", "scorers:words", "reviews.csv", "--text", "review",
                  "--transform", "random_replace")  # fmt: skip
    assert found["n"] == 30
    assert found["label"] == "RandRep"
    pairs = asked(folder, "invariance", "scorers:pairs", "nli.csv", "--text",
                  "premise,hypothesis", "-t", "ssmba")  # fmt: skip
    assert pairs["transform"] == "ssmba"


def test_a_reference_is_what_the_transform_learns_from(folder: Path) -> None:
    other = pa.table({"review": ["bad " * 20] * 5})
    pyarrow.csv.write_csv(other, folder / "other.csv")
    words = (
        "invariance",
        "scorers:words",
        "reviews.csv",
        "--text",
        "review",
        "-t",
        "random_replace",
    )
    own, by_other = asked(folder, *words), asked(folder, *words, "--transform-data", "other.csv")
    assert own["models"][0]["ei"]["value"] != by_other["models"][0]["ei"]["value"]


def test_examples_are_saved_to_look_at(folder: Path) -> None:
    done = run(folder, "invariance", "scorers:calm", "photos", "-t", "flip_crop",
               "--save-examples", "seen")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "12 examples written to seen" in done.stderr
    assert (folder / "seen" / "index.html").is_file()
    assert len(list((folder / "seen").glob("*.png"))) == 12


def test_rank_orders_models_and_says_how_sure_it_is(folder: Path) -> None:
    found = asked(folder, "rank", "scorers:shaky", "scorers:calm", "digits.npz",
                  "-t", "brightness")  # fmt: skip
    assert [one["model"] for one in found["models"]] == ["calm", "shaky"]
    assert found["models"][0]["beats_next"] > 0.9
    done = run(folder, "rank", "scorers:shaky", "scorers:calm", "digits.npz",
               "--score", "atc-mc", "--source-data", "digits.npz")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "beats the next" in done.stdout
    assert "atc-mc" in done.stdout


def test_rank_predicts_accuracy_by_a_line(folder: Path) -> None:
    words = ("rank", "scorers:shaky", "scorers:calm", "scorers:hard", "digits.npz",
             "-t", "rotate", "--known-accuracies", "known.csv")  # fmt: skip
    (folder / "known.csv").write_text("model,accuracy\ncalm,0.9\nshaky,0.5\nhard,0.9\n")
    one_line(run(folder, *words), "three distinct points")
    (folder / "known.csv").write_text("model,accuracy\ncalm,high\n")
    one_line(run(folder, *words), "must contain numbers")


def test_transforms_are_listed_and_suggested(folder: Path) -> None:
    from oodometer.transforms import available, available_for_kind

    listed = asked(folder, "transforms")
    assert [row["name"] for row in listed] == [member.name for member in available()]
    shown = run(folder, "transforms").stdout
    assert all(member.name in shown for member in available())
    found = asked(folder, "transforms", "--suggest", "scorers:calm", "digits.npz")
    assert {row["transform"] for row in found} == {
        member.name for member in available_for_kind("images")
    }
    assert all("auroc" in row for row in found)
    table = run(folder, "transforms", "--suggest", "scorers:calm", "digits.npz").stdout
    assert "AUROC" in table
    assert "AUROC" not in run(folder, "transforms", "--suggest", "scorers:calm", "photos").stdout


def test_bad_images_are_named_and_skipped_only_on_request(folder: Path) -> None:
    (folder / "photos" / "broken.png").write_bytes(b"not a picture")
    refused = run(folder, "invariance", "scorers:calm", "photos")
    one_line(refused, "broken.png")
    assert "--skip-bad" in refused.stderr
    found = asked(folder, "invariance", "scorers:calm", "photos", "--skip-bad")
    assert (found["n"], found["skipped"]) == (12, 1)
    shown = run(folder, "invariance", "scorers:calm", "photos", "--skip-bad").stdout
    assert "1 inputs that can't be read or are empty were left out" in shown


def test_empty_texts_are_named_and_skipped_only_on_request(folder: Path) -> None:
    (folder / "some.csv").write_text('review\n"a good book"\n""\n"  "\n"a bad book"\n')
    words = ("invariance", "scorers:words", "some.csv", "--text", "review", "-t", "random_replace")
    one_line(run(folder, *words), "row 1", "--skip-bad")
    found = asked(folder, *words, "--skip-bad")
    assert (found["n"], found["skipped"]) == (2, 2)


def test_a_model_that_fails_is_not_passed_off_as_unfit_transforms(folder: Path) -> None:
    for scorer, message in (("nan", "must be finite"), ("short", "rows for"), ("raising", "paper")):
        one_line(run(folder, "transforms", "--suggest", f"scorers:{scorer}", "digits.npz"), message)


def one_line(done: Done, *words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr


BAD: dict[str, tuple[tuple[str, ...], str]] = {
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
    "a timeout of no address": (("scorers:calm", "digits.npz", "--timeout", "3"), "--timeout applies"),
    "a mean of no ONNX file": (("scorers:calm", "digits.npz", "--mean", "0.5"), "--mean and --std"),
    "a column that is not there": (
        ("scorers:words", "reviews.csv", "--text", "revew"), "revew",
    ),
    "an address where nobody is": (("http://127.0.0.1:9/", "digits.npz"), "127.0.0.1:9"),
    "a pickle": (("model.pkl", "digits.npz"), "--trust-pickle"),
    "a folder that is not empty": (
        ("scorers:calm", "digits.npz", "--save-examples", "photos"), "not empty",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (folder / "model.pkl").write_bytes(b"\x80\x04N.")
    words, message = BAD[case]
    one_line(run(folder, "invariance", *words), message)


def test_one_model_cant_be_ranked(folder: Path) -> None:
    one_line(run(folder, "rank", "scorers:calm", "digits.npz"), "two models or more")


def test_the_sphere_is_shown_as_a_table_and_a_page(folder: Path) -> None:
    words = ("toy", "hypersphere", "--models", "8", "--distances", "3", "--centres", "1",
             "--steps", "30")  # fmt: skip
    rows = asked(folder, *words)
    assert [round(row["distance"], 2) for row in rows] == [0.0, 1.57, 3.14]
    done = run(folder, *words, "--html", "sphere.html")
    assert done.returncode == 0, done.stderr
    assert "Kendall" in done.stdout
    assert (folder / "sphere.html").is_file()


def test_the_array_of_an_archive_can_be_named(folder: Path) -> None:
    with np.load(folder / "digits.npz") as archive:
        np.savez(folder / "two.npz", first=archive["images"][:20], second=archive["images"][20:])
    one_line(run(folder, "invariance", "scorers:calm", "two.npz"), "first", "second")
    found = asked(folder, "invariance", "scorers:calm", "two.npz", "--inputs", "second")
    assert found["n"] == 20


def test_by_workers_the_numbers_are_the_same(folder: Path) -> None:
    """Images of a folder and of a file, and models of a module that lies beside them."""
    # A name of its own: what another test's workers have imported is not to be found.
    (folder / "spread_scorers.py").write_text(SCORERS)
    models = ("spread_scorers:calm", "spread_scorers:shaky")
    words = ("invariance", *models, "photos", "-t", "translate", "-n", "3", "--batch-size", "4")
    here, one, two = (asked(folder, *words, "--workers", count) for count in "012")
    assert one == two == here
    wish = ("rank", *models, "digits.npz", "--score", "ac", "--source-data", "digits.npz")
    assert asked(folder, *wish, "--workers", "1") == asked(folder, *wish)


NOBODY = {
    "both": (("--workers", "2", "--scheduler", "tcp://a:1"), "not both"),
    "fewer than none": (("--workers", "-1"), "--workers must be at least 0; got -1"),
    "nobody there": (("--scheduler", "tcp://127.0.0.1:9"), "No Dask scheduler answers at"),
}


@pytest.mark.parametrize("case", NOBODY)
def test_workers_that_there_are_not_are_told_in_a_line(case: str, folder: Path) -> None:
    words, told = NOBODY[case]
    one_line(run(folder, "invariance", "scorers:calm", "digits.npz", *words), told)
