"""The pages of invariance and rank, written as users have them written."""

from __future__ import annotations

import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from oodometer.cli._provenance import invariance_provenance
from tests.support.command_line import Done, run

SCORERS = """
import pathlib
import zlib
import numpy as np

def _said(wave):
    return np.stack([0.5 - 0.4 * wave, 0.5 + 0.4 * wave], axis=1)

def calm(rows):
    pathlib.Path("asked").touch()
    return _said(np.tanh((np.array([np.asarray(r).mean() for r in rows]) - 100) / 20))

def shaky(rows):
    return _said(np.sin(np.array([np.asarray(r).sum() for r in rows]) / 40.0))

def fair(rows):
    return _said(np.sin(np.array([np.asarray(r).sum() for r in rows]) / 1000.0))

def words(texts):
    return _said(np.sin(np.array([float(zlib.crc32(str(t).encode())) for t in texts])))

def vectors(rows):
    return _said(np.tanh(rows[:, 0]))

def table(frame):
    return _said(np.tanh(np.asarray(frame["size"], dtype=float)))
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
    done = run(folder, *words, "--html", "seen.html")
    assert done.returncode == 0, done.stderr
    assert "Report written to seen.html" in done.stderr
    return (folder / "seen.html").read_text(encoding="utf-8")


def text(markup: str) -> str:
    body = re.sub(r"<(script|style).*?</\1>", "", markup, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", body)).split())


EVERY: dict[str, tuple[str, ...]] = {
    "images": ("scorers:calm", "digits.npz", "-t", "brightness"),
    "text": ("scorers:words", "rows.csv", "--text", "review", "-t", "random_replace"),
    "pairs": ("scorers:words", "rows.csv", "--text", "review,second", "-t", "random_replace"),
    "vectors": ("scorers:vectors", "vectors.npy", "-t", "gaussian"),
    "table": ("scorers:table", "rows.csv", "--inputs", "size,kind", "-t", "marginal_swap"),
}


@pytest.mark.parametrize("kind", EVERY)
def test_every_kind_has_its_page(folder: Path, kind: str) -> None:
    found = page(folder, "invariance", *EVERY[kind], "-n", "4")
    assert "invariant examples" in text(found)
    assert found.count('<article class="example"') == 12
    assert len(found.encode()) < 2_000_000
    assert ("data:image/png" in found.split("</head>")[1]) == (kind == "images")


def test_rank_writes_its_page_with_known_accuracies(folder: Path) -> None:
    words = ("rank", "scorers:calm", "scorers:shaky", "vectors.npy", "-t", "gaussian")
    found = text(page(folder, *words))
    assert "comes first of 2 models" in found
    assert "Known accuracy" not in found
    labelled = text(page(folder, *words[:3], "digits.npz", "-t", "brightness"))
    assert "Known accuracy" in labelled
    assert "Known accuracy" in text(
        page(folder, *words[:3], "odd.npz", "-t", "brightness", "--label-column", "truth")
    )
    assert "Known accuracy" not in text(page(folder, *words[:3], "odd.npz", "-t", "brightness"))


def test_accuracies_that_are_given_are_beside_those_by_their_line(folder: Path) -> None:
    (folder / "known.csv").write_text("model,accuracy\ncalm,0.875\nshaky,0.25\nfair,0.625\n")
    models = ("rank", "scorers:calm", "scorers:shaky", "scorers:fair")
    found = text(page(folder, *models, "odd.npz", "-t", "brightness",
                      "--known-accuracies", "known.csv"))  # fmt: skip
    assert "Accuracy by the line, %" in found
    assert "Known accuracy, %" in found
    for accuracy in ("87.5", "25.0", "62.5"):
        assert accuracy in found


def test_rank_by_an_estimator_has_a_page_of_the_order(folder: Path) -> None:
    words = ("rank", "scorers:calm", "scorers:shaky", "digits.npz", "--score", "doc")
    found = text(page(folder, *words, "--source-data", "digits.npz"))
    assert "has the highest doc" in found
    assert "Is the transform suitable?" not in found


def test_the_examples_are_of_the_model_named(folder: Path) -> None:
    words = ("scorers:calm", "scorers:shaky", "digits.npz", "-t", "brightness", "-n", "4")
    for name in ("calm", "shaky"):
        found = text(page(folder, "invariance", *words, "--examples-of", name))
        assert f"examples of {name}" in found


def test_the_page_goes_with_the_rest(folder: Path) -> None:
    words = ("invariance", "scorers:calm", "digits.npz", "-t", "brightness", "-n", "4")
    done = run(folder, *words, "--json", "--html", "seen.html", "--save-examples", "look")
    assert json.loads(done.stdout)["n"] == 20
    assert (folder / "look" / "index.html").is_file()
    shown = (folder / "seen.html").read_text()
    assert "oodometer invariance scorers:calm digits.npz -t brightness" in text(shown)


def refused(done: Done, folder: Path, *words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in words)
    assert not (folder / "asked").exists()


@pytest.mark.parametrize("command", ["invariance", "rank"])
def test_what_cant_be_written_is_refused_before_any_work(folder: Path, command: str) -> None:
    given = {"invariance": ("digits.npz",), "rank": ("scorers:shaky", "digits.npz")}
    words = (command, "scorers:calm", *given[command])
    refused(run(folder, *words, "--html", "absent/seen.html"), folder, "There is no folder")
    refused(run(folder, *words, "--html", "."), folder, "is a folder")
    named = run(folder, *words, "--html", "seen.html", "--examples-of", "clam")
    refused(named, folder, "No model is called 'clam'", "Did you mean 'calm'")
    # Even before the data are looked for.
    lost = (command, "scorers:calm", *[word.replace("digits", "lost") for word in given[command]])
    refused(run(folder, *lost, "--html", "absent/seen.html"), folder, "There is no folder")
    assert sorted(path.name for path in folder.glob("*.html")) == []


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
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
