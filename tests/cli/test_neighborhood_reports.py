"""HTML reports of `oodometer invariance` and `oodometer rank`."""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from oodometer.cli._html_report import invariance_provenance
from tests.support.command_line import CommandResult, assert_one_line_error, run, run_json

SCORERS = """
import pathlib
import zlib
import numpy as np

def _probs(wave):
    return np.stack([0.5 - 0.4 * wave, 0.5 + 0.4 * wave], axis=1)

def calm(rows):
    pathlib.Path("classified").touch()
    return _probs(np.tanh((np.array([np.asarray(r).mean() for r in rows]) - 100) / 20))

def shaky(rows):
    return _probs(np.sin(np.array([np.asarray(r).sum() for r in rows]) / 40.0))

def fair(rows):
    return _probs(np.sin(np.array([np.asarray(r).sum() for r in rows]) / 1000.0))

def words(texts):
    return _probs(np.sin(np.array([float(zlib.crc32(str(t).encode())) for t in texts])))

def vectors(rows):
    return _probs(np.tanh(rows[:, 0]))

def table(frame):
    return _probs(np.tanh(np.asarray(frame["size"], dtype=float)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "scorers.py").write_text(SCORERS)
    images = rng.integers(60, 140, (20, 12, 12)).astype(np.uint8)
    np.savez(tmp_path / "digits.npz", images=images, labels=np.arange(20) % 2)
    np.savez(tmp_path / "odd.npz", images=images, truth=np.arange(20) % 2)
    np.save(tmp_path / "vectors.npy", rng.normal(size=(20, 3)))
    texts = [f"a {'good' if i % 2 else 'bad'} book number {i} <b>" for i in range(20)]
    columns = {"review": texts, "second": texts[::-1], "size": rng.normal(size=20),
               "kind": ["x", "y"] * 10}  # fmt: skip
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "rows.csv")
    return tmp_path


def page(folder: Path, *words: str) -> str:
    """Return the report that a command writes."""
    result = run(folder, *words, "--html", "seen.html")
    assert result.returncode == 0, result.stderr
    assert "Report written to seen.html" in result.stderr
    return (folder / "seen.html").read_text(encoding="utf-8")


def text(markup: str) -> str:
    """Return the text of a page, without markup and with single spaces."""
    body = re.sub(r"<(script|style).*?</\1>", "", markup, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", body)).split())


KINDS: dict[str, tuple[str, ...]] = {
    "images": ("scorers:calm", "digits.npz", "-t", "brightness"),
    "text": ("scorers:words", "rows.csv", "--text", "review", "-t", "random_replace"),
    "pairs": ("scorers:words", "rows.csv", "--text", "review,second", "-t", "random_replace"),
    "vectors": ("scorers:vectors", "vectors.npy", "-t", "gaussian"),
    "table": ("scorers:table", "rows.csv", "--inputs", "size,kind", "-t", "marginal_swap"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_has_a_report_with_examples(folder: Path, kind: str) -> None:
    report = page(folder, "invariance", *KINDS[kind], "-n", "4")
    assert "invariant examples" in text(report)
    assert report.count('<article class="example"') == 12
    assert len(report.encode()) < 2_000_000
    assert ("data:image/png" in report.split("</head>")[1]) == (kind == "images")


def test_rank_shows_the_accuracy_of_labelled_data(folder: Path) -> None:
    words = ("rank", "scorers:calm", "scorers:shaky", "vectors.npy", "-t", "gaussian")
    report = text(page(folder, *words))
    assert "ranks first of 2 models" in report
    assert "Known accuracy" not in report
    labelled = text(page(folder, *words[:3], "digits.npz", "-t", "brightness"))
    assert "Known accuracy" in labelled
    assert "Known accuracy" in text(
        page(folder, *words[:3], "odd.npz", "-t", "brightness", "--label-column", "truth")
    )
    assert "Known accuracy" not in text(page(folder, *words[:3], "odd.npz", "-t", "brightness"))


def test_rank_shows_known_accuracies_beside_predicted_ones(folder: Path) -> None:
    (folder / "known.csv").write_text("model,accuracy\ncalm,0.875\nshaky,0.25\nfair,0.625\n")
    models = ("rank", "scorers:calm", "scorers:shaky", "scorers:fair")
    report = text(page(folder, *models, "odd.npz", "-t", "brightness",
                      "--known-accuracies", "known.csv"))  # fmt: skip
    assert "Predicted accuracy, %" in report
    assert "Known accuracy, %" in report
    for accuracy in ("87.5", "25.0", "62.5"):
        assert accuracy in report


def test_rank_by_an_estimator_shows_the_order_alone(folder: Path) -> None:
    words = ("rank", "scorers:calm", "scorers:shaky", "digits.npz", "--score", "doc")
    report = text(page(folder, *words, "--source-data", "digits.npz"))
    assert "has the highest doc" in report
    assert "Suitability of the transform" not in report


def test_examples_of_selects_the_model(folder: Path) -> None:
    words = ("scorers:calm", "scorers:shaky", "digits.npz", "-t", "brightness", "-n", "4")
    for name in ("calm", "shaky"):
        report = text(page(folder, "invariance", *words, "--examples-of", name))
        assert f"examples of {name}" in report


def test_report_is_written_along_with_json_and_gallery(folder: Path) -> None:
    words = ("invariance", "scorers:calm", "digits.npz", "-t", "brightness", "-n", "4")
    outputs = ("--html", "seen.html", "--save-examples", "look")
    assert run_json(folder, *words, *outputs)["n"] == 20
    assert (folder / "look" / "index.html").is_file()
    report = (folder / "seen.html").read_text()
    assert "oodometer invariance scorers:calm digits.npz -t brightness" in text(report)


def assert_rejected(result: CommandResult, folder: Path, *messages: str) -> None:
    """Assert a one-line error before any input was classified."""
    assert_one_line_error(result, *messages)
    assert not (folder / "classified").exists()


@pytest.mark.parametrize("command", ["invariance", "rank"])
def test_unusable_options_are_rejected_before_the_work(folder: Path, command: str) -> None:
    others = {"invariance": ("digits.npz",), "rank": ("scorers:shaky", "digits.npz")}[command]
    words = (command, "scorers:calm", *others)
    missing_folder = ("--html", "absent/seen.html")
    assert_rejected(run(folder, *words, *missing_folder), folder, "There is no folder")
    assert_rejected(run(folder, *words, "--html", "."), folder, "is a folder")
    misspelled = run(folder, *words, "--html", "seen.html", "--examples-of", "clam")
    assert_rejected(misspelled, folder, "No model is called 'clam'", "Did you mean 'calm'")
    # The path of the report is checked before the data is opened.
    missing_data = [word.replace("digits", "lost") for word in words]
    assert_rejected(run(folder, *missing_data, *missing_folder), folder, "There is no folder")
    assert list(folder.glob("*.html")) == []


def test_provenance_has_hashes_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"one")
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "b").write_bytes(b"two")
    (tmp_path / "pool" / "a").write_bytes(b"one")
    names = [str(tmp_path / "model.onnx"), str(tmp_path / "pool"), "package.module:function"]
    facts = invariance_provenance(names, 7, None)
    assert facts["Seed"] == "7"
    assert facts[f"SHA-256 of {names[0]}"] == hashlib.sha256(b"one").hexdigest()
    assert facts[f"SHA-256 of the files in {names[1]}"] == hashlib.sha256(b"onetwo").hexdigest()
    assert not [name for name in facts if "function" in name]
