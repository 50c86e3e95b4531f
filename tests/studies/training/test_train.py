"""Training: stopping, learning and determinism."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from oodometer.core.array_types import Array
from oodometer.studies.training._train import (
    TrainedModel,
    TrainingRun,
    adam_constants,
    evaluate_fit,
    make_optimizer,
    train,
)
from oodometer.studies.training.build import build_network, seeded_torch
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.sampling import batches
from oodometer.studies.training.training_data import draw_sample, load_training_set
from tests.support.training_problems import TINY_TEXT, group, images, recipe, texts, vectors

TOY = group(*vectors())


def training_run(one: TrainingConfig, where: Any = TOY) -> TrainingRun:
    material = load_training_set(one, where)
    with seeded_torch(one.seed):
        module = build_network(one, material.shape)
    return TrainingRun(one, material, draw_sample(material, one), module, "cpu")


def naive_loop(one: TrainingConfig) -> dict[str, Array]:
    """Return the weights after all epochs by a plain loop."""
    lesson = training_run(one)
    module, sample, n = lesson.module, lesson.sample, len(lesson.sample.rows)
    optimizer: Any = (
        torch.optim.SGD(
            module.parameters(), lr=one.lr, momentum=one.momentum, weight_decay=one.weight_decay
        )
        if one.optimizer == "sgd"
        else torch.optim.Adam(module.parameters(), lr=one.lr, weight_decay=one.weight_decay)
    )
    steps = math.ceil(n / one.batch)
    with seeded_torch(one.seed):
        for epoch in range(1, one.epochs + 1):
            for place, index in enumerate(
                batches(n, batch_size=one.batch, seed=one.seed, epoch=epoch)
            ):
                if one.schedule == "cosine":
                    passed = ((epoch - 1) * steps + place) / (steps * one.epochs)
                    optimizer.param_groups[0]["lr"] = one.lr * (1 + math.cos(math.pi * passed)) / 2
                inputs = torch.tensor(
                    lesson.training_set.inputs[sample.rows[index]], dtype=torch.float32
                )
                optimizer.zero_grad()
                loss: Any = cross_entropy(module(inputs), torch.tensor(sample.labels[index]))
                loss.backward()
                optimizer.step()
    return {name: value.numpy() for name, value in module.state_dict().items()}


def same(one: TrainedModel | dict[str, Array], other: TrainedModel | dict[str, Array]) -> bool:
    first, second = (
        part.weights if isinstance(part, TrainedModel) else part for part in (one, other)
    )
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name]) for name in first
    )


@pytest.mark.parametrize(
    "one",
    [
        recipe(stop_at=None),
        recipe(stop_at=None, optimizer="sgd", momentum=0.8, weight_decay=0.01, schedule="cosine"),
        recipe(stop_at=None, weight_decay=0.05, label_noise=0.4, few_shot=20, seed=9),
    ],
    ids=["adam", "sgd", "few and noisy"],
)
def test_training_matches_the_plain_loop(one: TrainingConfig) -> None:
    assert same(train(one, TOY), naive_loop(one))


IMAGE_TOY = group(*images())
SAME = {
    "dropout": (recipe(settings={"dropout": 0.5}), TOY),
    "batch norm, augmix": (
        recipe("small-cnn", settings={"width": 4, "batch_norm": True}, augment="augmix"),
        IMAGE_TOY,
    ),
    "texts": (
        recipe("text-cnn", settings=TINY_TEXT, schedule="inverse-square-root"),
        group(*texts()),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_configuration_determines_the_weights(name: str) -> None:
    one, where = SAME[name]
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = train(one, where)
    torch.set_num_threads(2)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    second = train(one, where)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    assert same(first, second)
    assert first.files == second.files
    assert not same(first, train(replace(one, seed=1), where))


def test_training_stops_at_the_first_epoch_below_the_target() -> None:
    one = recipe(epochs=60, stop_at=0.2)
    found = train(one, TOY)
    epochs = int(found.facts["epochs"])
    assert found.converged
    assert 1 < epochs < 60
    assert found.facts["loss"] <= 0.2
    before = train(replace(one, epochs=epochs - 1), TOY)
    assert not before.converged
    assert before.facts["epochs"] == epochs - 1
    assert before.facts["loss"] > 0.2
    # The weights equal those of the same number of epochs without a target.
    assert same(found, train(replace(one, epochs=epochs, stop_at=None), TOY))


def test_training_ends_after_the_last_step() -> None:
    """The toy has 4 batches per epoch: 8 steps are two epochs, and 10 steps end in the third."""
    one = recipe(epochs=9, stop_at=None, batch=24)
    assert training_run(one).steps_per_epoch == 4
    two_epochs = train(replace(one, epochs=2), TOY)
    assert same(train(replace(one, steps=8), TOY), two_epochs)
    longer = train(replace(one, steps=10), TOY)
    assert longer.facts["epochs"] == 3
    assert longer.converged
    assert not same(longer, two_epochs)
    assert not same(longer, train(replace(one, epochs=3), TOY))
    # The number of epochs is a limit as well.
    assert same(train(replace(one, epochs=2, steps=10), TOY), two_epochs)


def test_without_target_all_epochs_are_trained() -> None:
    found = train(recipe(epochs=4, stop_at=None), TOY)
    assert found.converged
    assert found.facts["epochs"] == 4


def test_fit_is_measured_in_evaluation_mode_on_noisy_labels() -> None:
    one = recipe(settings={"dropout": 0.5}, label_noise=0.5)
    found = train(one, TOY)
    lesson = training_run(one)
    lesson.module.load_state_dict({name: torch.tensor(w) for name, w in found.weights.items()})
    logits = lesson.module.eval()(torch.tensor(lesson.training_set.inputs, dtype=torch.float32))
    labels = torch.tensor(lesson.sample.labels)
    assert found.facts["loss"] == pytest.approx(cross_entropy(logits, labels).item(), abs=1e-6)
    assert found.facts["accuracy"] == (logits.argmax(1) == labels).double().mean().item()
    assert found.facts["labels_changed"] > 0.1


def test_fit_is_returned_only_below_the_bound(monkeypatch: Any) -> None:
    monkeypatch.setitem(evaluate_fit.__globals__["EVALUATION_BATCH_ROWS"], "vectors", 7)
    lesson = training_run(recipe())
    whole = evaluate_fit(lesson, max_loss=math.inf)
    assert whole is not None
    assert evaluate_fit(lesson, max_loss=whole.loss * 1.0001) == whole
    assert evaluate_fit(lesson, max_loss=whole.loss * 0.9999) is None
    assert evaluate_fit(lesson, max_loss=-math.inf) is None


def test_diverged_training_is_a_result() -> None:
    found = train(recipe(optimizer="sgd", lr=1e30, epochs=20), TOY)
    assert not found.converged
    assert found.facts["diverged"] == 1
    assert "loss" not in found.facts
    assert not train(recipe(optimizer="sgd", lr=1e30, epochs=20, stop_at=None), TOY).converged


def test_few_shot_limits_the_rows() -> None:
    found = train(recipe(few_shot=5), TOY)
    assert found.facts["rows"] == 10


def test_head_training_keeps_the_body() -> None:
    settings = {"width": 4, "batch_norm": True}
    one = recipe("small-cnn", settings=settings, part="head", stop_at=None)
    fresh = training_run(one, IMAGE_TOY).module.state_dict()
    found = train(one, IMAGE_TOY).weights
    moved = [name for name in fresh if not np.array_equal(found[name], fresh[name].numpy())]
    assert len(moved) == 2
    whole = train(replace(one, part="whole"), IMAGE_TOY).weights
    assert all(not np.array_equal(whole[name], fresh[name].numpy()) for name in fresh)


def test_adam_constants_by_kind() -> None:
    assert adam_constants("adam", "text") == adam_constants("adam", "pairs") == ((0.9, 0.98), 1e-6)
    assert adam_constants("adam", "images") == ((0.9, 0.999), 1e-8)
    assert adam_constants("adamw", "text") == ((0.9, 0.999), 1e-8)
    one = recipe("text-cnn", settings=TINY_TEXT, weight_decay=0.1)
    defaults = make_optimizer(training_run(one, group(*texts())), "text").defaults
    assert (defaults["betas"], defaults["eps"]) == ((0.9, 0.98), 1e-6)
    assert defaults["weight_decay"] == 0.1


def test_adamw_with_a_step_schedule_matches_a_plain_loop_of_torch() -> None:
    one = recipe(
        optimizer="adamw", weight_decay=0.5, batch=100, epochs=4, stop_at=None,
        schedule="step", lr_decay=0.1, lr_decay_epochs=2,
    )  # fmt: skip
    toy = group(*vectors(100))
    run = training_run(one, toy)
    inputs, labels = torch.tensor(run.training_set.inputs).float(), torch.tensor(run.sample.labels)
    optimizer = torch.optim.AdamW(run.module.parameters(), lr=one.lr, weight_decay=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(run.module(inputs), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
    found = train(one, toy).weights
    for name, weight in run.module.state_dict().items():
        np.testing.assert_allclose(found[name], weight.numpy(), atol=1e-6)


def test_progress_is_reported_and_waiting_is_a_fraction() -> None:
    reports: list[tuple[int, int, str]] = []
    one = recipe("small-cnn", settings={"width": 4}, augment="randaugment", stop_at=None)
    found = train(one, IMAGE_TOY, progress=lambda *words: reports.append(words))
    assert reports == [(epoch, 3, f"training {one.id}") for epoch in (1, 2, 3)]
    assert 0 <= found.facts["data_wait"] <= 1
    assert found.facts["seconds"] > 0


def test_facts_and_weights_of_a_trained_model() -> None:
    found = train(recipe(), TOY)
    assert found.classes == ("class 0", "class 1")
    assert found.shape == load_training_set(recipe(), TOY).shape
    assert all(weight.dtype == np.float32 for weight in found.weights.values())
