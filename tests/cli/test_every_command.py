"""Whatever holds for every command of the app, those not written yet too."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from rich.cells import cell_len

import oodometer
from oodometer import cli
from oodometer.cli._runtime import UsageError
from oodometer.studies import demo
from tests.support.command_line import Done, run


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))


ROOT: Any = typer.main.get_command(cli.app)
EVERY = dict(walk(ROOT))

POOL = """
name = "little"
group = "hypersphere"
domains = ["0"]
architecture = "mlp"
fixed.epochs = 1
fixed.batch = 500
grid.settings.width = [2, 3]
"""
STUDY = """
name = "points"
group = "hypersphere"
domains = ["0", "30", "60"]
rows = 40
estimators = ["ac", "atc-mc"]
[[models]]
name = "classes_only"
path = "tests.support.study_tasks:classes_only"
trained_on = "0"
"""
LONG = "a_class_whose_name_is_so_long_that_it_would_destroy_a_table_of_eighty_columns"
BALL = "tests.support.study_tasks:classes_only"

# How each is given in the folder made below, a result being what it gives.
GIVEN = {
    "estimate": "source.csv target.csv --replicates 20",
    "report": "source.csv target.csv --replicates 20",
    "plan": "target.csv --half-width 0.1",
    "invariance": f"{BALL} points.npy -n 2",
    "rank": f"{BALL} {BALL} points.npy -n 2",
    "transforms": "",
    "measure": "none --source-data points.npy --target-data moved.npy -m mmd-mean-cov,h-divergence,jacobian",
    "evaluate": "none source.csv",
    "domains": "",
    "methods": "",
    "demo": "",
    "pool list": "",
    "pool run": "little.toml",
    "pool status": "little.toml",
    "study run": "points.toml",
    "study status": "points.toml",
    "study rows": "points.toml",
    "study table": "points.toml",
    "study compare": "evaluations.csv",
    "toy spurious": "--n 200",
    "toy hypersphere": "--models 3 --distances 2 --centres 1 --steps 5",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(0)
    for name, n in (("source", 120), ("target", 90)):
        probs, labels = rng.dirichlet((2, 1, 1), n).round(4), rng.choice([LONG, "b", "c"], n)
        lines = [
            f"{p[0]},{p[1]},{1 - p[0] - p[1]:.4f},{y}" for p, y in zip(probs, labels, strict=True)
        ]
        (made / f"{name}.csv").write_text(f"prob_{LONG},prob_b,prob_c,label\n" + "\n".join(lines))
    np.save(made / "points.npy", rng.normal(size=(40, 3)))
    np.save(made / "moved.npy", rng.normal(size=(30, 3)) + 1)
    (made / "little.toml").write_text(POOL)
    (made / "points.toml").write_text(STUDY)
    rows = [
        f"{LONG}_{i},d{i % 2},d{j},{0.5 + 0.02 * i + 0.1 * j},{i * j}"
        for i in range(6)
        for j in range(3)
    ]
    (made / "evaluations.csv").write_text(
        "model,trained_on,tested_on,accuracy,mine\n" + "\n".join(rows)
    )
    # Tests may come in any order, and some ask of a study that was run.
    assert run(made, "study", "run", "points.toml", "--quiet").returncode == 0
    return made


@pytest.fixture(autouse=True)
def _small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of two shifts takes no time."""
    shifts = dict(list(demo.SHIFTS.items())[:2])
    monkeypatch.setattr("oodometer.studies.demo.SHIFTS", shifts)


def given(folder: Path, name: str, *words: str) -> Done:
    return run(folder, *name.split(), *shlex.split(GIVEN[name]), *words)


def strict(text: str) -> Any:
    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refused)


def examples(command: Any) -> list[list[str]]:
    told = re.findall(r"Example:\n  (oodometer .*)", inspect.cleandoc(command.help))
    return [shlex.split(line) for line in told]


def leaf(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words begin with, and the words after it."""
    command, rest = ROOT, words
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def test_every_command_is_tried_here() -> None:
    assert set(GIVEN) == set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_help_has_an_example_that_parses_and_fits_and_a_word_for_every_option(name: str) -> None:
    command = EVERY[name]
    found = examples(command)
    assert found, "its docstring ends with: Example: oodometer …"
    for words in found:
        assert len(shlex.join(words)) <= 76
        meant, rest = leaf(words[1:])
        assert meant is command
        meant.make_context(name, rest)
    assert [one.name for one in command.params if not one.help] == []


def test_an_example_with_an_unknown_option_would_be_found() -> None:
    command, rest = leaf(["methods", "--familly", "measure"])
    with pytest.raises(UsageError):
        command.make_context("methods", rest)


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("name", EVERY)
def test_no_word_of_help_is_cut(
    name: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = run(tmp_path, *name.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    said, params = done.stdout, EVERY[name].params
    assert "--quiet" in said
    assert {opt for one in params for opt in one.opts if "--" in opt} <= set(
        re.split(r"[\s,]", said)
    )
    whole = "".join(said.split())  # at a hyphen a line may end
    assert [word for one in params for word in one.help.split() if word not in whole] == []
    # An example is one line, to be copied; below 80 columns the longest words stick out.
    lines = [line for line in said.splitlines() if not line.startswith("    oodometer ")]
    assert width < 80 or max(map(len, lines)) <= width


@pytest.mark.parametrize("name", EVERY)
def test_a_wrong_option_is_one_line_with_what_was_meant(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, *name.split(), "--quite")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"oodometer: No such option: --quite. Did you mean --quiet? See oodometer {name} --help\n"
    )


@pytest.mark.parametrize("name", EVERY)
def test_json_is_valid_and_all_that_is_said(name: str, folder: Path) -> None:
    options = {opt for one in EVERY[name].params for opt in one.opts}
    assert "--json" in options
    done = given(folder, name, "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert strict(done.stdout)


@pytest.mark.parametrize("name", EVERY)
def test_what_is_shown_fits_a_narrow_terminal(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = given(folder, name, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= 40
    assert "\x1b" not in done.stdout
    assert "…" not in done.stdout.replace("… and", "")


def options_of(command: Any) -> dict[str, Any]:
    """The options of a command by their names, long and short."""
    return {
        name: option
        for option in command.params
        if option.param_type_name == "option"
        for name in (*option.opts, *option.secondary_opts)
    }


def test_an_option_has_one_meaning_and_one_help_text_in_all_commands() -> None:
    meanings: dict[str, dict[tuple[str, str, bool, bool], list[str]]] = {}
    for name, command in EVERY.items():
        for option, made in options_of(command).items():
            meaning = (made.name, made.help, made.is_flag, made.multiple)
            meanings.setdefault(option, {}).setdefault(meaning, []).append(name)
    assert len(meanings) > 50
    assert {option: found for option, found in meanings.items() if len(found) > 1} == {}


def test_help_texts_are_phrases() -> None:
    for name, command in EVERY.items():
        for option, made in options_of(command).items():
            assert made.help[0].isupper() or made.help[0] in "'.$", (name, option)
            end = re.sub(r" \[(default|env).*", "", made.help)
            assert end.endswith((".", "…", "?", ")")), (name, option, made.help)


def test_an_option_is_its_parameter_with_dashes() -> None:
    renamed = {"--json": "as_json", "--format": "form", "--sd": "spreads"}
    for command in EVERY.values():
        for option, made in options_of(command).items():
            if option.startswith("--") and option != "--help":
                expected = renamed.get(option, option.removeprefix("--").replace("-", "_"))
                assert made.name == expected


# Options that a command has and its Python function has not: files, columns, models and output.
OF_THE_COMMAND_LINE = {
    "json", "quiet", "html", "help", "output", "fail-below", "stream", "workers", "scheduler",
    "label-column", "prob-columns", "logit-columns", "class-names", "text", "inputs", "size",
    "skip-bad", "outputs", "mean", "std", "timeout", "trust-pickle", "magnitude", "wordnet",
    "filler", "translator", "save-examples", "examples-of", "no-identity",
    "metric", "bound", "margin",  # of estimate: analyses of their own
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("estimate", oodometer.estimate),
        ("plan", oodometer.plan_labels),
        ("invariance", oodometer.invariance),
        ("rank", oodometer.rank),
        ("measure", oodometer.measure),
        ("evaluate", oodometer.evaluate),
    ],
)
def test_options_are_named_like_python_parameters(name: str, function: Any) -> None:
    """An option that repeats is the singular of its parameter; datasets end in -data."""
    parameters = set(inspect.signature(function).parameters)
    for option in options_of(EVERY[name]):
        plain = option.removeprefix("--")
        if not option.startswith("--") or plain in OF_THE_COMMAND_LINE:
            continue
        word = plain.replace("-", "_")
        spellings = {
            word,
            f"{word}s",
            word.replace("_model", "_models"),
            word.removesuffix("_data"),
        }
        assert spellings & parameters, f"{name} {option}"
