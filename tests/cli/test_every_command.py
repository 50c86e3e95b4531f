"""Rules that hold for every command of the app, future ones included."""

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
from tests.support.command_line import CommandResult, assert_one_line_error, run


def iter_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from iter_commands(inner, (*path, name))


ROOT: Any = typer.main.get_command(cli.app)
COMMANDS = dict(iter_commands(ROOT))

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
# A class name wider than a table of 80 columns has room for.
LONG = "a_class_whose_name_is_so_long_that_it_would_destroy_a_table_of_eighty_columns"
MODEL = "tests.support.study_tasks:classes_only"

# Arguments with which each command succeeds in the folder of the fixture.
ARGUMENTS = {
    "estimate": "source.csv target.csv --replicates 20",
    "report": "source.csv target.csv --replicates 20",
    "plan": "target.csv --half-width 0.1",
    "invariance": f"{MODEL} points.npy -n 2",
    "rank": f"{MODEL} {MODEL} points.npy -n 2",
    "transforms": "",
    "measure": "none --source-data points.npy --target-data moved.npy -m mmd-mean-cov,h-divergence,jacobian",
    "evaluate": "none source.csv",
    "domains": "",
    "predict": "tests.support.wilds_folders:brightness_model hypersphere 0 --output out.parquet",
    "methods": "",
    "cache": "",
    "demo": "",
    "monitor init": "other --source source.csv --watched-score confidence",
    "monitor add": "watch target.csv",
    "monitor label": "watch labels.csv --batch target.csv",
    "monitor audit": "watch --rows 3",
    "monitor status": "watch",
    "monitor report": "watch",
    "monitor export": "watch --prometheus watch.prom",
    "monitor acknowledge": "watch",
    "monitor forget": "watch 2",
    "monitor run": "target.csv --source source.csv --form row",
    "pool list": "",
    "pool show": "toy-mlp",
    "pool run": "little.toml",
    "pool status": "little.toml",
    "study run": "points.toml",
    "study status": "points.toml",
    "study rows": "points.toml",
    "study table": "points.toml",
    "study compare": "evaluations.csv",
    "toy spurious": "--n 200",
    "toy covariate-or-label": "--n 200",
    "toy skews": "--max-rows 30 --epochs 5 --repeats 2",
    "toy hypersphere": "--models 3 --distances 2 --centres 1 --steps 5",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    for name, n in (("source", 120), ("target", 90)):
        probs, labels = rng.dirichlet((2, 1, 1), n).round(4), rng.choice([LONG, "b", "c"], n)
        lines = [
            f"{p[0]},{p[1]},{1 - p[0] - p[1]:.4f},{y}" for p, y in zip(probs, labels, strict=True)
        ]
        header = f"prob_{LONG},prob_b,prob_c,label\n"
        (folder / f"{name}.csv").write_text(header + "\n".join(lines))
    np.save(folder / "points.npy", rng.normal(size=(40, 3)))
    np.save(folder / "moved.npy", rng.normal(size=(30, 3)) + 1)
    (folder / "little.toml").write_text(POOL)
    (folder / "points.toml").write_text(STUDY)
    rows = [
        f"{LONG}_{i},d{i % 2},d{j},{0.5 + 0.02 * i + 0.1 * j},{i * j}"
        for i in range(6)
        for j in range(3)
    ]
    header = "model,trained_on,tested_on,accuracy,mine\n"
    (folder / "evaluations.csv").write_text(header + "\n".join(rows))
    (folder / "labels.csv").write_text("row,label\n0,b\n7,c\n")
    init = ("monitor", "init", "watch", "--source", "source.csv", "--form", "row")
    assert run(folder, *init, "--quiet").returncode == 0
    for name in ("target.csv", "source.csv"):
        assert run(folder, "monitor", "add", "watch", name, "--quiet").returncode == 0
    # Some commands need the results of a study, and tests may run in any order.
    assert run(folder, "study", "run", "points.toml", "--quiet").returncode == 0
    return folder


@pytest.fixture(autouse=True)
def _small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the demo to two shifts."""
    shifts = dict(list(demo.SHIFTS.items())[:2])
    monkeypatch.setattr("oodometer.studies.demo.SHIFTS", shifts)


def run_with_arguments(folder: Path, name: str, *words: str) -> CommandResult:
    return run(folder, *name.split(), *shlex.split(ARGUMENTS[name]), *words)


def parse_strict_json(text: str) -> Any:
    def reject(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=reject)


def examples(command: Any) -> list[list[str]]:
    lines = re.findall(r"Example:\n  (oodometer .*)", inspect.cleandoc(command.help))
    return [shlex.split(line) for line in lines]


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words start with, and the remaining words."""
    command = ROOT
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def test_every_command_has_arguments_here() -> None:
    assert set(ARGUMENTS) == set(COMMANDS)


def test_every_command_has_examples_of_76_columns_that_parse() -> None:
    for name, command in COMMANDS.items():
        lines = examples(command)
        assert lines, f"{name}: the docstring must end with an example"
        for words in lines:
            assert len(shlex.join(words)) <= 76, name
            found, rest = find_command(words[1:])
            assert found is command, name
            found.make_context(name, rest)


def test_example_with_an_unknown_option_would_be_found() -> None:
    command, rest = find_command(["methods", "--familly", "measure"])
    with pytest.raises(UsageError):
        command.make_context("methods", rest)


def test_every_option_and_argument_has_a_help_text() -> None:
    missing = [
        (name, parameter.name)
        for name, command in COMMANDS.items()
        for parameter in command.params
        if not parameter.help
    ]
    assert missing == []


@pytest.mark.parametrize("width", [40, 80])
def test_help_is_complete_in_a_narrow_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name, command in COMMANDS.items():
        result = run(tmp_path, *name.split(), "--help")
        assert (result.returncode, result.stderr) == (0, ""), name
        shown, params = result.stdout, command.params
        options = {option for param in params for option in param.opts if "--" in option}
        assert {"--quiet", "--json", *options} <= set(re.split(r"[\s,]", shown)), name
        joined = "".join(shown.split())  # a line may break at a hyphen
        words = [word for param in params for word in param.help.split()]
        assert [word for word in words if word not in joined] == [], name
        # An example is one line, to be copied; in 40 columns the longest words stick out.
        lines = [line for line in shown.splitlines() if not line.startswith("    oodometer ")]
        assert width < 80 or max(map(len, lines)) <= width, name


def test_unknown_option_is_a_one_line_error_with_a_suggestion(tmp_path: Path) -> None:
    for name in COMMANDS:
        result = run(tmp_path, *name.split(), "--quite")
        message = f"No such option: --quite. Did you mean --quiet? See oodometer {name} --help\n"
        assert_one_line_error(result, message)


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_valid_and_the_only_output(name: str, folder: Path) -> None:
    result = run_with_arguments(folder, name, "--json", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    assert parse_strict_json(result.stdout)


ONE_LINE = ("estimate", "demo")


@pytest.mark.parametrize("name", ONE_LINE)
def test_quiet_output_is_one_line(name: str, folder: Path) -> None:
    result = run_with_arguments(folder, name, "--quiet")
    assert (result.returncode, result.stderr, result.stdout.count("\n")) == (0, "", 1)


# `pool show` prints a file, whose lines must not be broken.
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "pool show"])
def test_output_fits_a_narrow_terminal(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    # With --quiet, these commands print one line of any length.
    result = run_with_arguments(folder, name, *(() if name in ONE_LINE else ("--quiet",)))
    assert result.returncode == 0
    assert name in ONE_LINE or result.stderr == ""
    # A command is not wrapped, so that it can be copied.
    lines = [line for line in result.stdout.splitlines() if not line.startswith("  oodometer ")]
    assert lines
    assert max(map(cell_len, lines)) <= 40
    assert "\x1b" not in result.stdout
    assert "…" not in result.stdout.replace("… and", "")


def options_of(command: Any) -> dict[str, Any]:
    """Return the options of a command by name, long and short."""
    return {
        name: option
        for option in command.params
        if option.param_type_name == "option"
        for name in (*option.opts, *option.secondary_opts)
    }


def test_option_has_one_meaning_and_one_help_text_in_all_commands() -> None:
    meanings: dict[str, dict[tuple[str, str, bool, bool], list[str]]] = {}
    for name, command in COMMANDS.items():
        for option, parameter in options_of(command).items():
            meaning = (parameter.name, parameter.help, parameter.is_flag, parameter.multiple)
            meanings.setdefault(option, {}).setdefault(meaning, []).append(name)
    assert len(meanings) > 50
    assert {option: uses for option, uses in meanings.items() if len(uses) > 1} == {}


def test_help_texts_are_phrases() -> None:
    for name, command in COMMANDS.items():
        for option, parameter in options_of(command).items():
            text = re.sub(r" \[(default|env).*", "", parameter.help)
            assert text[0].isupper() or text[0] in "'.$", (name, option)
            assert text.endswith((".", "…", "?", ")")), (name, option, text)


def test_option_is_its_parameter_with_dashes() -> None:
    renamed = {
        "--json": "as_json",
        "--format": "form",
        "--sd": "spreads",
        "--no-identity": "identity",
    }
    for command in COMMANDS.values():
        for option, parameter in options_of(command).items():
            if option.startswith("--") and option != "--help":
                expected = renamed.get(option, option.removeprefix("--").replace("-", "_"))
                assert parameter.name == expected


# Options without a counterpart in the Python function: files, columns, models and output.
COMMAND_LINE_ONLY = {
    "json", "quiet", "html", "help", "output", "fail-below", "stream", "workers", "scheduler",
    "label-column", "prob-columns", "logit-columns", "pred-column", "threshold", "time-column",
    "period", "chunk-rows", "class-names", "text", "inputs", "size", "pixel-range", "channels",
    "model", "source-data", "target-data",  # of estimate: instead of files of predictions
    "skip-bad", "outputs", "mean", "std", "timeout", "trust-pickle", "weights", "magnitude", "wordnet",
    "filler", "translator", "cache-dir", "save-examples", "examples-of", "strength", "no-identity",
    "verbose", "title", "date", "required",
    "fail-drop", "fail-on", "fail-at", "use",  # of estimate and monitor status: gates
    "metric", "bound", "margin",  # of estimate: additional analyses
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
    """A repeatable option is the singular of its parameter; options of datasets end in -data.

    The option of a number may lack the `n_` of its parameter.
    """
    parameters = set(inspect.signature(function).parameters)
    for option in options_of(COMMANDS[name]):
        plain = option.removeprefix("--")
        if not option.startswith("--") or plain in COMMAND_LINE_ONLY:
            continue
        word = plain.replace("-", "_")
        spellings = {
            word,
            f"{word}s",
            f"n_{word}",
            word.replace("_model", "_models"),
            word.removesuffix("_data"),
        }
        assert spellings & parameters, f"{name} {option}"
