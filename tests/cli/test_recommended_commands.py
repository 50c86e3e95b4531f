"""Every command that help texts, notes and errors recommend runs as it is printed.

The commands are the examples in the help, and the commands in backticks in the strings of the
package. They run in a folder with small files of the names that the examples use.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from onnx import TensorProto, helper, numpy_helper

import oodometer
from oodometer import cli
from oodometer.assessment.diagnostics import DIAGNOSTICS
from oodometer.cli._runtime import HELP_EPILOG
from tests.support.command_line import run
from tests.support.wilds_folders import write_camelyon17, write_image

PACKAGE = Path(oodometer.__file__).parent
# Values of the placeholders in recommended commands.
PLACEHOLDERS = {
    "SOURCE": "validation.parquet",
    "TARGET": "new_site.parquet",
    "FILE": "labels.csv",
}
# Options that are appended to examples whose default size takes longer than a test may.
SMALLER = {
    "oodometer toy spurious --c 0.5 --html spurious.html": "--n 200",
    "oodometer toy covariate-or-label --html worlds.html": "--n 200",
    "oodometer toy skews --html skews.html": "--max-rows 30 --epochs 5 --repeats 2",
    "oodometer toy hypersphere --html sphere.html": "--models 3 --distances 2 --centres 1 --steps 5",
    "oodometer invariance model.onnx photos/ -t randaugment --precision 0.01": "-n 2",
    "oodometer rank a.onnx b.onnx c.onnx photos/ -t randaugment": "-n 2",
}
# Commands that are not run as printed, with the reason and the command that is run instead.
NOT_RUN = {
    "oodometer pool run toy-mlp --workers 2": (
        "it trains 200 models of 25 seconds each",
        "oodometer pool run little.toml --workers 2",
    ),
    "oodometer pool run SPEC": ("SPEC is a pool", "oodometer pool run little.toml"),
    "oodometer monitor init watch --source validation.parquet": (
        "the monitor of the other examples has other settings",
        "oodometer monitor init other --source validation.parquet",
    ),
    "oodometer monitor init {…} --source FILE": (
        "the folder is that of the message",
        "oodometer monitor init other --source validation.parquet",
    ),
    "oodometer monitor label DIR FILE": (
        "DIR is a monitor",
        "oodometer monitor label watch labelled.csv",
    ),
    'oodometer monitor run --source val.parquet "scores/*.parquet" --html a.html': (
        "a monitor cannot tell from two batches, and exits with 3",
        'oodometer monitor run --source validation.parquet "scores/*.parquet" --form row',
    ),
    "oodometer monitor run b.csv --source a.csv --time-column ts --period day": (
        "a monitor cannot tell from few batches, and exits with 3",
        "oodometer monitor run january.parquet --source validation.parquet --time-column ts "
        "--period day --form row",
    ),
    "oodometer study run SPEC": ("SPEC is a study", "oodometer study run digits.toml"),
}
# Command whose arguments are optional, because options can replace them.
NEEDS_FILES_OR_A_MODEL = (
    "oodometer estimate",
    "oodometer report",
)
POOL = """
name = "little"
group = "hypersphere"
domains = ["0"]
architecture = "mlp"
fixed.epochs = 1
fixed.batch = 500
fixed.stop_at = "none"
grid.settings.width = [2, 3]
"""
STUDY = """
name = "points"
group = "hypersphere"
domains = ["0", "30", "60"]
rows = 40
estimators = ["ac", "doc"]
metrics = ["error"]
"""
MODEL = """
[[models]]
name = "{name}"
path = "my:{name}"
trained_on = "{domain}"
"""
MODELS = {"soft": "0", "firm": "0", "sharp": "30", "sharper": "30", "hard": "60"}
NETWORK = """
import functools
import numpy as np
import torch


def classify(points, scale):
    logits = np.stack([points[:, 0], -points[:, 0]], axis=1) * scale
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


soft, firm, sharp, sharper, hard = (
    functools.partial(classify, scale=scale) for scale in (0.5, 1, 2, 3, 4)
)

net = torch.nn.Linear(4, 3)
"""


def iter_help(command: Any) -> list[str]:
    """Return the help texts of a command and of the commands below it."""
    texts = [inspect.cleandoc(command.help or "")]
    for inner in getattr(command, "commands", {}).values():
        texts += iter_help(inner)
    return texts


def example_commands() -> list[str]:
    """Return the examples in the help of all commands, in their order."""
    texts = [HELP_EPILOG, *iter_help(typer.main.get_command(cli.app))]
    lines = [re.findall(r"^ *(oodometer .+)$", text, flags=re.MULTILINE) for text in texts]
    return list(dict.fromkeys(line for found in lines for line in found))


def strings(path: Path) -> list[str]:
    """Return the strings of a module; {…} stands for each value of an f-string."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [
                part.value if isinstance(part, ast.Constant) else "{…}" for part in node.values
            ]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def quoted_commands() -> set[str]:
    """Return the commands in backticks in all strings of the package."""
    texts = [text for path in PACKAGE.rglob("*.py") for text in strings(path)]
    commands = [re.findall(r"`(oodometer\s[^`]*)`", text) for text in texts]
    return {" ".join(line.split()) for found in commands for line in found}


def is_name(command: str) -> bool:
    """Return whether the words are only the name of a command that needs arguments."""
    if command in NEEDS_FILES_OR_A_MODEL:
        return True
    words, group = command.split()[1:], typer.main.get_command(cli.app)
    for word in words:
        if word not in getattr(group, "commands", {}):
            return False
        group = group.commands[word]  # type: ignore[attr-defined]
    return hasattr(group, "commands") or any(parameter.required for parameter in group.params)


def write_scores(path: Path, n: int, seed: int, **columns: Any) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet((0.5, 0.5, 0.5), n)
    labels = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    table: dict[str, Any] = {f"prob_{j}": probs[:, j] for j in range(3)}
    table |= {"site": ["north", "south"] * (n // 2), "label": labels}
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(table | columns), path)


def write_onnx(path: Path, seed: int) -> None:
    """Write a linear model of the mean color of images, with two classes."""
    weights = np.random.default_rng(seed).normal(size=(3, 2)).astype(np.float32) / 100
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["f"], ["mean"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["mean", "w"], ["logits"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", "h", "w", 3])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2])]
    constants = [numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write small files with the names that the examples use."""
    folder = tmp_path_factory.mktemp("recommended")
    write_scores(folder / "validation.parquet", 200, 0)
    names = ("new_site", "january", "february", "scores/a", "scores/b")
    for seed, name in enumerate(names, start=1):
        days = [f"2026-01-{1 + j // 10:02d}" for j in range(100)]
        write_scores(folder / f"{name}.parquet", 100, seed, label=[None] * 100, ts=days)
    init = ("monitor", "init", "watch", "--source", "validation.parquet", "--form", "row")
    assert run(folder, *init, "--quiet").returncode == 0
    for seed in range(1, 4):
        write_scores(folder / f"scores_2026-03-{seed:02d}.parquet", 100, 10 + seed)
        added = run(folder, "monitor", "add", "watch", f"scores_2026-03-{seed:02d}.parquet")
        assert added.returncode == 0
    audit = ("monitor", "audit", "watch", "--rows", "1", "--output", "to_label.csv")
    assert run(folder, *audit).returncode == 0
    header, *to_label = (folder / "to_label.csv").read_text().splitlines()
    (folder / "labelled.csv").write_text("\n".join([header, *(f"{row}1" for row in to_label)]))
    for seed, name in enumerate(("model", "a", "b", "c")):
        write_onnx(folder / f"{name}.onnx", seed)
    for number in range(8):
        name = f"photos/{'cat' if number % 2 else 'dog'}/{number}.png"
        write_image(folder / name, 30 * number)
    write_camelyon17(folder / "data")
    rng = np.random.default_rng(0)
    for name in "ab":
        features = rng.normal(size=(40, 4)).astype(np.float32)
        np.savez(folder / f"{name}.npz", inputs=features, labels=rng.integers(0, 3, 40))
    (folder / "my.py").write_text(NETWORK)
    (folder / "little.toml").write_text(POOL)
    models = [MODEL.format(name=name, domain=domain) for name, domain in MODELS.items()]
    (folder / "digits.toml").write_text(STUDY + "".join(models))
    (folder / "labels.csv").write_text("row,label\n0,1\n1,2\n")
    rows = [
        (
            f"m{i}",
            f"d{i % 2}",
            f"d{j}",
            0.5 + 0.02 * i + 0.1 * j,
            float(i * j),
            i * 0.1,
            i % 4 * 0.1,
        )
        for i in range(6)
        for j in range(3)
    ]
    keys = ("model", "trained_on", "tested_on", "accuracy", "mine", "ni-randaugment", "atc-mc")
    table = {key: list(values) for key, values in zip(keys, zip(*rows, strict=True), strict=True)}
    pq.write_table(pa.table(table), folder / "evaluations.parquet")
    lines = [f"m{i},{0.6 + 0.03 * i},{0.4 + 0.04 * i}" for i in range(6)]
    (folder / "accuracies.csv").write_text("model,imagenet,sketch\n" + "\n".join(lines) + "\n")
    assert run(folder, "study", "run", "digits.toml", "--quiet").returncode == 0
    return folder


@pytest.fixture(autouse=True)
def _small_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the demo to two shifts, and let the folder stand for home and data."""
    from oodometer.studies import demo

    shifts = dict(list(demo.SHIFTS.items())[:2])
    monkeypatch.setattr("oodometer.studies.demo.SHIFTS", shifts)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("OODOMETER_DATA", str(folder / "data"))
    monkeypatch.syspath_prepend(folder)


def assert_runs(folder: Path, command: str) -> str:
    """Run a command as a shell would and return what it prints to standard error."""
    words = [
        str(Path(word).expanduser()) if word.startswith("~") else PLACEHOLDERS.get(word, word)
        for word in shlex.split(command)[1:]
    ]
    result = run(folder, *words)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stderr


EXAMPLES = example_commands()
QUOTED = sorted(quoted_commands())


def test_examples_and_quoted_commands_are_found() -> None:
    assert len(EXAMPLES) > 30
    assert "oodometer estimate SOURCE TARGET --target-labels FILE" in QUOTED
    listed = {*SMALLER, *NOT_RUN}
    assert listed <= {*EXAMPLES, *QUOTED}, "a listed command is no longer recommended"


@pytest.mark.parametrize("command", EXAMPLES)
def test_example_in_the_help_runs(command: str, folder: Path) -> None:
    if command in NOT_RUN:
        _, command = NOT_RUN[command]
    assert_runs(folder, f"{command} {SMALLER.get(command, '')}")


@pytest.mark.parametrize("command", QUOTED)
def test_command_in_backticks_runs(command: str, folder: Path) -> None:
    if command in NOT_RUN:
        _, command = NOT_RUN[command]
    # A bare name, such as `oodometer plan`, refers to a command; its help must exist.
    assert_runs(folder, f"{command} --help" if is_name(command) else command)


def test_only_texts_with_backticks_name_a_command_with_arguments() -> None:
    """Find recommended commands that the pattern of this page would miss."""
    pattern = re.compile(r"(?:with|first|Run|run|yet):? oodometer [a-z]+")
    texts = [text for path in PACKAGE.rglob("*.py") for text in strings(path)]
    assert [text for text in texts if pattern.search(text)] == []


def recommended(text: str) -> list[str]:
    return re.findall(r"`(oodometer [^`]*)`", text)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("labelled.parquet", ""),
        ("sub folder/labelled.parquet", ""),
        ("renamed.parquet", "--label-column truth"),
        ("named.parquet", "--class-names x,y,z"),
    ],
)
def test_note_on_a_labelled_target_recommends_a_command_that_runs(
    name: str, options: str, folder: Path
) -> None:
    label = np.random.default_rng(0).integers(0, 3, 100)
    extra = {"truth": label} if "truth" in options else {}
    if "class-names" in options:
        extra = {"label": np.array(["x", "y", "z"])[label]}
    source = folder / f"source_of_{Path(name).name}"
    for path in (source, folder / name):
        write_scores(path, 100, 8, **extra)
    words = (source.name, name, *shlex.split(options), "--method", "ac", "--replicates", "20")
    (command,) = recommended(run(folder, "estimate", *words).stderr)
    assert_runs(folder, command)


def test_note_recommends_no_command_that_lacks_the_options(folder: Path) -> None:
    write_scores(folder / "labelled.parquet", 100, 8)
    words = ("validation.parquet", "labelled.parquet", "--prob-columns", "prob_")
    note = run(folder, "estimate", *words, "--method", "ac").stderr
    assert "the labels are ignored" in note
    assert recommended(note) == []


@pytest.mark.parametrize("pools", ['["little.toml"]', '[{spec = "little.toml", folder = "mine"}]'])
def test_error_on_untrained_pools_recommends_a_command_that_runs(
    pools: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "little.toml").write_text(POOL)
    study = f'pools = {pools}\ndomains = ["0"]\nestimators = ["ac"]\nrows = 40\n'
    (tmp_path / "study.toml").write_text(study)
    (command,) = recommended(run(tmp_path, "study", "run", "study.toml").stderr)
    assert_runs(tmp_path, command)
    assert run(tmp_path, "study", "run", "study.toml").returncode == 0


def test_options_in_advice_of_diagnostics_exist(folder: Path) -> None:
    options = set(re.findall(r"--[a-z-]+", run(folder, "estimate", "--help").stdout))
    advice = " ".join(inspect.getsource(diagnostic) for diagnostic in DIAGNOSTICS)
    words = re.findall(r"(--[a-z-]+) ([a-z]+)", advice)
    assert words
    for option, value in words:
        assert option in options
        command = "oodometer estimate SOURCE TARGET --method ac --replicates 20"
        assert_runs(folder, f"{command} {option} {value}")
