"""Run typical mistakes on the command line and write docs/mistakes.md with their messages.

Run `python -m benchmarks.mistakes` after a message has changed; a test compares the page.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from oodometer.assessment.result import SAME_ROWS
from oodometer.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "mistakes.md"
HEADER = """\
# Typical mistakes

This page shows what `oodometer` answers to typical mistakes. An error is one line on standard error, and the exit code is 2; a note is part of the result. Written by `python -m benchmarks.mistakes`.

| mistake | command | message |
| --- | --- | --- |
"""
N = 200
NAMES = ("cat", "dog", "fox")


@dataclass(frozen=True)
class Mistake:
    """Mistake, the command with it, and whether the command succeeds with a note."""

    title: str
    command: str
    is_note: bool = False


MISTAKES = (
    Mistake("percentages instead of probabilities", "estimate source.csv percent.csv"),
    Mistake("probabilities with percent signs", "estimate source.csv signs.csv"),
    Mistake("a file with a header only", "estimate source.csv header.csv"),
    Mistake("logits in columns of probabilities", "estimate source.csv logits.csv"),
    Mistake("source and target swapped", "estimate target.csv source.csv"),
    Mistake("the same file twice", "estimate source.csv source.csv", is_note=True),
    Mistake("source rows in the target", "estimate source.csv overlap.csv", is_note=True),
    Mistake("repeated rows", "estimate source.csv repeated.csv", is_note=True),
    Mistake("labels under another name", "estimate truth.csv target.csv"),
    Mistake("labels that are names, classes that are numbers", "estimate numbers.csv numbers.csv"),
    Mistake("source and target with different classes", "estimate source.csv owls.csv"),
    Mistake("a class that is missing in the target", "estimate source.csv two.csv"),
    Mistake("no columns of scores", "estimate source.csv ids.csv"),
    Mistake("scores under another name", "estimate source.csv score.csv"),
    Mistake("a missing value", "estimate source.csv hole.csv"),
    Mistake("predicted classes only", "estimate pred.csv new_pred.csv --method atc-mc"),
    Mistake("semicolons between columns", "estimate semicolons.csv target.csv"),
    Mistake("tabs in a file called .csv", "estimate tabs.csv target.csv"),
    Mistake("a misspelled path", "estimate source.csv tagret.csv"),
    Mistake("a misspelled method", "estimate source.csv target.csv --method act"),
    Mistake("a misspelled option", "estimate source.csv target.csv --methods ac"),
    Mistake("a misspelled column", "estimate source.csv target.csv --segment-by regoin"),
    Mistake("a percentage as a limit", "estimate source.csv target.csv --fail-below 80"),
    Mistake("too few replicates", "estimate source.csv target.csv --replicates 5"),
    Mistake("a plan that was not filled in", "estimate source.csv target.csv --target-labels plan.csv"),
    Mistake("few target labels", "estimate source.csv target.csv --target-labels few.csv", is_note=True),
    Mistake("a plan that was filled in partly", "estimate source.csv target.csv --target-labels part.csv", is_note=True),
    Mistake("empty source labels", "estimate half.csv target.csv"),
    Mistake("labels without row numbers", "estimate source.csv target.csv --target-labels labels.csv"),
    Mistake("a model and files of predictions", "estimate source.csv target.csv --model model.onnx"),
    Mistake("a model without target data", "estimate --model model.onnx --source-data source.csv"),
    Mistake("a pickle as a model", "predict model.pkl target.csv"),
    Mistake("images of floats without their range", "predict toy_model:classify images.npy"),
    Mistake("data before the model", "invariance target.csv toy_model:classify"),
    Mistake("a transform for other data", "invariance toy_model:classify images8.npy -t eda"),
    Mistake("code in a TOML file", "study run study.toml"),
)  # fmt: skip


def write_files(folder: Path) -> None:
    """Write the files that the commands read."""
    rng = np.random.default_rng(0)

    def probs() -> Any:
        return rng.dirichlet(np.ones(3), N)

    def write(name: str, scores: Any, names: tuple[str, ...] = NAMES, **others: Any) -> None:
        columns = {f"prob_{each}": scores[:, j] for j, each in enumerate(names)}
        pa_csv.write_csv(pa.table({**columns, **others}), folder / f"{name}.csv")

    source, target = probs(), probs()
    labels = np.array(NAMES)[rng.integers(0, 3, N)]
    region = np.array(["north", "south"])[np.arange(N) % 2]
    write("source", source, label=labels, region=region)
    write("target", target, region=region)
    write("percent", 100 * target)
    signs = {
        f"prob_{each}": [f"{100 * p:.1f}%" for p in target[:, j]] for j, each in enumerate(NAMES)
    }
    pa_csv.write_csv(pa.table(signs), folder / "signs.csv")
    (folder / "header.csv").write_text("prob_cat,prob_dog,prob_fox\n")
    write("half", source, label=np.where(np.arange(N) % 2, labels, ""))
    write("logits", np.log(target))
    write("overlap", np.concatenate([target[:100], source[:100]]))
    write("repeated", np.concatenate([target[:100], target[:100]]))
    write("truth", source, ground_truth=labels)
    write("numbers", source, ("0", "1", "2"), label=labels)
    write("owls", target, ("cat", "dog", "owl"))
    write("two", target[:, :2] / target[:, :2].sum(axis=1, keepdims=True), ("cat", "dog"))
    write("pred", target[:, :0], (), pred=labels, label=labels)
    write("new_pred", target[:, :0], (), pred=labels)
    write("ids", target[:, :0], (), id=np.arange(N))
    write("score", target[:, :0], (), predicted_probability=target[:, 0])
    write("plan", target[:2, :0], (), row=[3, 5], label=["", ""])
    write("few", target[:10, :0], (), row=np.arange(10), label=labels[:10])
    filled = np.where(np.arange(N) < 50, labels, "")
    write("part", target[:, :0], (), row=rng.permutation(N), label=filled)
    write("labels", target[:2, :0], (), label=["cat", "dog"])
    holes = pa.array([None, *target[1:, 0].tolist()])
    table = pa.table({"prob_cat": holes, "prob_dog": target[:, 1], "prob_fox": target[:, 2]})
    pa_csv.write_csv(table, folder / "hole.csv")
    for name, delimiter in (("semicolons", ";"), ("tabs", "\t")):
        text = (folder / "source.csv").read_text().replace(",", delimiter)
        (folder / f"{name}.csv").write_text(text)
    (folder / "model.pkl").write_bytes(b"")
    (folder / "toy_model.py").write_text("def classify(rows):\n    return [0] * len(rows)\n")
    np.save(folder / "images.npy", np.zeros((2, 3, 8, 8), dtype=np.float32))
    np.save(folder / "images8.npy", np.zeros((2, 8, 8, 3), dtype=np.uint8))
    (folder / "study.toml").write_text(
        'pools = ["toy-mlp"]\nestimators = ["ac", "toy_model:classify"]\n'
    )


def message_of(mistake: Mistake, folder: Path) -> str:
    """Run a command; return its error, or the first warning or note of its result."""
    out, err = io.StringIO(), io.StringIO()
    words = shlex.split(mistake.command) + (["--json"] if mistake.is_note else [])
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["oodometer", *words]),
        contextlib.suppress(SystemExit),
    ):
        main()
    if mistake.is_note:
        result = json.loads(out.getvalue())
        if any(check["name"] == SAME_ROWS for check in result["diagnostics"]):
            return f"(note) {result['verdict'].partition('. ')[0]}."
        return f"(note) {result['notes'][0]}"
    return err.getvalue().strip().removeprefix("oodometer: ")


def render() -> str:
    """Return the page with the current messages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        rows = [
            f"| {mistake.title} | `oodometer {mistake.command}` | "
            f"{message_of(mistake, folder).replace('|', chr(92) + '|')} |"
            for mistake in MISTAKES
        ]
    return HEADER + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
