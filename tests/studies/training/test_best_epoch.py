"""The best epoch on held-out rows against training for every number of epochs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import Inputs
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import first_half
from oodometer.studies.splits import Domain, DomainRows
from oodometer.studies.training import _train
from oodometer.studies.training._run import TrainingTask, train_task
from oodometer.studies.training._train import TrainedModel, train
from oodometer.studies.training.best_epoch import BestEpoch
from oodometer.studies.training.build import build_network
from oodometer.studies.training.checkpoint import load_model, save
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.data_loader import as_tensor
from oodometer.studies.training.stacked import is_stackable, train_stacked
from oodometer.studies.training.training_data import load_held_out_rows, load_training_set
from tests.support.encoder_folders import bert_folder
from tests.support.training_problems import TINY_TEXT, group, images, recipe, texts, vectors


def problem(rows: tuple[Inputs, Ints], test: tuple[Inputs, Ints]) -> DomainGroup:
    return group(*rows, test_rows={"one": InMemoryDataset("one", *test)})


def noisy(**settings: Any) -> TrainingConfig:
    """Return a configuration whose accuracy rises and falls from epoch to epoch."""
    options = {"optimizer": "sgd", "lr": 0.8, "label_noise": 0.3, "epochs": 6, "stop_at": None}
    return recipe(**{**options, **settings})


def held_out_accuracy(trained: TrainedModel, where: DomainGroup) -> float:
    """Return the accuracy on the first half of the test rows, one row after another."""
    config = trained.recipe
    tokenizer = load_training_set(config, where).tokenizer
    module = build_network(config, trained.shape)
    module.load_state_dict({name: torch.tensor(w) for name, w in trained.weights.items()})
    test = where.domain("one", "test")
    assert test.labels is not None
    right = []
    for row in first_half(test.keys):
        inputs = test.take(slice(row, row + 1))
        shown: Array = inputs if tokenizer is None else tokenizer.encode(inputs)
        with torch.no_grad():
            logits = module.eval()(as_tensor(shown, trained.shape.kind, "cpu"))
        right.append(int(logits.argmax()) == test.labels[row])
    return float(np.mean(right))


CASES: dict[str, tuple[TrainingConfig, DomainGroup]] = {
    "vectors": (noisy(), problem(vectors(90), vectors(60, seed=1))),
    "batch norm": (
        noisy(architecture="small-cnn", settings={"width": 4, "depth": 1, "batch_norm": True}),
        problem(images(40), images(60)),
    ),
    "dropout": (
        noisy(settings={"dropout": 0.5, "depth": 2}),
        problem(vectors(90), vectors(60, seed=1)),
    ),
    "head": (noisy(part="head", seed=1), problem(vectors(90), vectors(60, seed=1))),
    "text": (
        noisy(architecture="text-cnn", settings=TINY_TEXT, optimizer="adam", lr=0.02),
        problem(texts(30), texts(40)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kept_weights_are_those_of_the_best_epoch(name: str) -> None:
    last, where = CASES[name]
    shorter = [train(replace(last, epochs=n), where) for n in range(1, last.epochs + 1)]
    accuracies = [held_out_accuracy(model, where) for model in shorter]
    best = int(np.argmax(accuracies))
    assert len(set(accuracies)) > 1
    found = train(replace(last, keep="best"), where)
    assert found.facts["best_epoch"] == best + 1
    assert found.facts["held_out_accuracy"] == pytest.approx(accuracies[best])
    assert found.facts["epochs"] == last.epochs
    assert found.weights.keys() == shorter[best].weights.keys()
    for weight, expected in shorter[best].weights.items():
        assert np.array_equal(found.weights[weight], expected), weight
    shared = ("loss", "accuracy", "rows", "labels_changed")
    assert {fact: found.facts[fact] for fact in shared} == {
        fact: shorter[best].facts[fact] for fact in shared
    }
    assert found.converged


def test_some_best_epoch_is_not_the_last() -> None:
    best = [train(replace(last, keep="best"), where) for last, where in CASES.values()]
    assert any(model.facts["best_epoch"] < model.recipe.epochs for model in best)


def test_held_out_rows_are_the_source_rows_of_studies() -> None:
    """Studies never test a model on these rows, so the selection does not bias the accuracy."""
    config, where = CASES["vectors"]
    held_out, sample = load_held_out_rows(config, where, load_training_set(config, where))
    source = DomainRows(Domain(where, "one"), "source", "one").dataset()
    assert np.array_equal(held_out.inputs, source.take(slice(None)))
    assert np.array_equal(sample.labels, source.labels)  # type: ignore[arg-type]
    test = DomainRows(Domain(where, "one"), "test", "one")
    tested = test.excluding_sources_of((Domain(where, "one"),)).dataset()
    assert len(tested) + len(held_out.labels) == 60
    assert not set(tested.keys.tolist()) & set(held_out.keys.tolist())


def test_head_on_an_encoder_keeps_the_best_epoch(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "encoder")
    settings: dict[str, Any] = {"folder": str(folder), "head": "mlp", "hidden": 16, "length": 20}
    settings |= {"activation": "relu", "head_dropout": [0, 0.2]}
    config = noisy(architecture="encoder", settings=settings, part="head", epochs=4, lr=0.5)
    where = problem(texts(30), texts(40))
    found = train(replace(config, keep="best"), where)
    kept = int(found.facts["best_epoch"])
    same = train(replace(config, epochs=kept), where)
    assert all(np.array_equal(found.weights[name], same.weights[name]) for name in same.weights)
    model = load_model(save(tmp_path / "pool", found))
    test = where.domain("one", "test")
    held_out = test.rows(first_half(test.keys))
    predicted = model.classify(held_out.take(slice(None))).classes
    expected = found.facts["held_out_accuracy"]
    assert np.mean(predicted == held_out.labels) == pytest.approx(expected)


def test_first_of_equal_epochs_is_kept_and_infinite_losses_are_not() -> None:
    module = torch.nn.Linear(1, 1)
    best = BestEpoch()
    for epoch, (loss, accuracy) in enumerate(
        [(1.0, 0.5), (1.0, 0.75), (0.5, 0.75), (float("nan"), 1.0), (1.0, 0.7)], start=1
    ):
        torch.nn.init.constant_(module.weight, epoch)
        best.update(epoch, loss=loss, accuracy=accuracy, module=module)
    assert best.restore(module) == {"best_epoch": 2.0, "held_out_accuracy": 0.75}
    assert module.weight.item() == 2


def test_training_that_diverges_later_keeps_the_best_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last, where = CASES["vectors"]
    expected = train(replace(last, keep="best", epochs=3), where)
    train_epoch = _train._train_epoch

    def diverge(run: Any, optimizer: Any, batches: Any, steps_done: int) -> bool:
        finite = train_epoch(run, optimizer, batches, steps_done)
        return finite and steps_done < 3 * run.steps_per_epoch

    monkeypatch.setattr(_train, "_train_epoch", diverge)
    assert "diverged" in train(last, where).facts
    found = train(replace(last, keep="best"), where)
    assert "diverged" not in found.facts
    assert found.facts["epochs"] == 4
    assert found.facts["best_epoch"] == expected.facts["best_epoch"]
    assert all(
        np.array_equal(found.weights[name], expected.weights[name]) for name in found.weights
    )


def test_best_epoch_is_trained_without_a_stack() -> None:
    config, where = CASES["vectors"]
    best = replace(config, keep="best")
    assert is_stackable(config)
    assert not is_stackable(best)
    with pytest.raises(NotApplicable, match='keep = "best" is not available for stacked models'):
        train_stacked([best], where)
    (found,) = train_task(TrainingTask((best,), where))
    assert isinstance(found, TrainedModel)
    assert found.facts["best_epoch"] == train(best, where).facts["best_epoch"]


def test_unusable_held_out_rows_are_reported() -> None:
    config = noisy(keep="best")
    inputs, labels = vectors(90)
    for test, why in (
        ((inputs[:0], labels[:0]), r"of the 0 test rows of the domain 'one' of 'toy' is empty"),
        ((inputs[:60, :5], labels[:60]), r"have shape \(5,\), and training rows have \(10,\)"),
    ):
        with pytest.raises(InputError, match=why):
            train(config, problem((inputs, labels), test))
