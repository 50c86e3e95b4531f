"""The `oodometer pool` commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from oodometer.data.atomic import lock_folder
from oodometer.studies.training import checkpoint
from oodometer.studies.training.spec import PoolSpec, built_in_names
from tests.support.command_line import CommandResult, assert_one_line_error, run, run_json

SPEC = """
name = "little"
group = "hypersphere"
domains = ["0", "90"]
architecture = "mlp"
[fixed]
epochs = 2
batch = 500
[grid]
settings.width = [2, 3]
stop_at = [5.0, 1e-9]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "little.toml").write_text(SPEC)
    (tmp_path / "axis.toml").write_text(f"{SPEC}settings.batch_norm = [false, true]\n")
    (tmp_path / "schedule.toml").write_text(SPEC.replace("batch = 500", 'schedule = "steps"'))
    return tmp_path


def pool(folder: Path, *words: str) -> CommandResult:
    return run(folder, "pool", *words)


def test_every_built_in_pool_is_listed(folder: Path) -> None:
    rows = run_json(folder, "pool", "list")
    assert [row["name"] for row in rows] == list(built_in_names())
    assert {row["name"]: row["models"] for row in rows}["text-cnn-sa"] == 2430
    shown = pool(folder, "list").stdout
    assert all(name in shown for name in built_in_names())


def test_file_of_a_built_in_pool_is_printed(folder: Path) -> None:
    shown = pool(folder, "show", "nin-svhn")
    assert (shown.returncode, shown.stderr) == (0, "")
    (folder / "mine.toml").write_text(shown.stdout, encoding="utf-8")
    assert PoolSpec.open(folder / "mine.toml").recipes() == PoolSpec.open("nin-svhn").recipes()
    copied = pool(folder, "show", "ao-pacs", "--output", "ao-vlcs.toml")
    assert "Pool ao-pacs written to ao-vlcs.toml" in copied.stderr
    text = (folder / "ao-vlcs.toml").read_text().replace('group = "pacs-224"', 'group = "vlcs"')
    (folder / "ao-vlcs.toml").write_text(text)
    assert run_json(folder, "pool", "status", "ao-vlcs.toml")["pending"] == 2592


def test_training_resumes_and_status_is_a_table(folder: Path) -> None:
    first = pool(folder, "run", "little.toml", "--limit", "3")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("3 models trained in ")
    assert "3 of 8 are stored, 5 remain." in first.stdout
    table = pool(folder, "status", "little.toml").stdout
    assert [line.split() for line in table.splitlines()[1:5]] == [
        ["domains", "architecture", "done", "converged", "failed", "pending"],
        ["0", "mlp", "2", "1", "0", "2"],
        ["90", "mlp", "1", "1", "0", "3"],
        ["all", "3", "2", "0", "5"],
    ]
    assert " left with one worker." in table
    second = run_json(folder, "pool", "run", "little.toml")
    assert (second["before"], len(second["trained"]), second["left"]) == (3, 5, 0)
    assert len(checkpoint.finished_models(folder / "pools" / "little")) == 8
    status = run_json(folder, "pool", "status", "little.toml")
    assert (status["done"], status["converged"], status["pending"]) == (8, 4, 0)


def test_workers_train_into_the_folder_of_models_dir(folder: Path) -> None:
    words = ("run", "little.toml", "--models-dir", "mine", "--workers", "1", "--limit", "1")
    assert "1 of 8 are stored" in pool(folder, *words).stdout
    assert len(checkpoint.finished_models(folder / "mine")) == 1


def test_failures_are_shown_with_their_reasons(folder: Path) -> None:
    (folder / "bad.toml").write_text(
        'group = "sentences.toml"\narchitecture = "encoder"\nfixed.settings.folder = "nowhere"\n'
    )
    (folder / "texts.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    (folder / "sentences.toml").write_text(
        '[groups.sentences]\nkind = "text"\nclasses = ["a", "b"]\n'
        '[groups.sentences.domains.only]\nreader = "table"\npath = "texts.csv"\n'
        'text = "text"\nlabel = "label"\n'
    )
    result = pool(folder, "run", "bad.toml")
    assert result.returncode == 1
    assert "1 failed; 0 of 1 are stored, 1 remains." in result.stdout
    assert "nowhere" in result.stdout
    table = pool(folder, "status", "bad.toml").stdout
    assert "Failed; the next run tries again" in table
    assert "nowhere" in table


INVALID: dict[str, tuple[tuple[str, ...], str]] = {
    "name": (("run", "toy-mpl"), "No pool is called 'toy-mpl'. Did you mean 'toy-mlp'?"),
    "file": (("status", "mine.toml"), "There is no file 'mine.toml'; expected a TOML file."),
    "both": (("run", "little.toml", "--workers", "2", "--scheduler", "tcp://a:1"), "not both"),
    "workers": (("run", "little.toml", "--workers", "-1"), "--workers must be at least 0; got -1"),
    "limit": (("run", "little.toml", "--limit", "0"), "limit must be at least 1; got 0."),
    "show": (
        ("show", "nin-svnh"),
        "No built-in pool is called 'nin-svnh'. Did you mean 'nin-svhn'?",
    ),
    "output": (
        ("show", "nin-svhn", "--output", "little.toml"),
        "--output of pool show must be a new .toml file; got 'little.toml'.",
    ),
    "setting": (
        ("status", "axis.toml"),
        "axis.toml: No key of the architecture 'mlp' is called 'batch_norm'. There are: width,",
    ),
    "schedule": (
        ("status", "schedule.toml"),
        "schedule.toml: schedule of the training configuration must be 'constant', 'inverse-square",
    ),
    "data": (("run", "dg-rotated-mnist", "--data-dir", "nowhere"), "digits/mnist.npz"),
    "scheduler": (
        ("run", "little.toml", "--scheduler", "tcp://127.0.0.1:9"),
        "There is no Dask scheduler at 'tcp://127.0.0.1:9'",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_input_is_a_one_line_error(case: str, folder: Path) -> None:
    words, message = INVALID[case]
    assert_one_line_error(pool(folder, *words), message)


def test_process_that_holds_the_lock_is_named(folder: Path) -> None:
    with lock_folder(folder / "pools" / "little"):
        result = pool(folder, "run", "little.toml")
    assert_one_line_error(result, "is being trained by process")
