"""Trained models on disk: written atomically and loaded unchanged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertModel

from oodometer.core.errors import InputError
from oodometer.models import as_model
from oodometer.studies.training import checkpoint
from oodometer.studies.training._train import TrainedModel, train
from oodometer.studies.training.build import build_network, get_architecture, seeded_torch
from oodometer.studies.training.checkpoint import (
    finished_models,
    load_facts,
    load_model,
    load_recipe,
    save,
)
from oodometer.testing import check_model, toy_inputs
from tests.support.encoder_folders import bert_folder
from tests.support.training_problems import (
    TINY_TEXT,
    group,
    images,
    recipe,
    texts,
    untrained_model,
    vectors,
)

TOY = group(*vectors())


PAIRS = toy_inputs("pairs", n=12)
TRAINED = {
    "vectors": (recipe(), TOY),
    "images, batch norm": (
        recipe("small-cnn", settings={"width": 4, "batch_norm": True}),
        group(*images()),
    ),
    "text": (recipe("text-cnn", settings=TINY_TEXT), group(*texts())),
    "pairs": (recipe("text-cnn", settings=TINY_TEXT), group(PAIRS, np.arange(12) % 2)),
}


@pytest.mark.parametrize("name", TRAINED)
def test_loaded_model_equals_the_trained_one(name: str, tmp_path: Path) -> None:
    one, where = TRAINED[name]
    trained = train(one, where)
    state = torch.get_rng_state()
    model: Any = load_model(save(tmp_path, trained))
    assert torch.equal(torch.get_rng_state(), state)
    assert model.name == one.id
    data = where.domain("one", "train")
    check_model(model, data.take(slice(0, 8)))
    predictions = model.classify(data.take(slice(None)))
    assert predictions.class_names == where.classes
    assert (predictions.classes == data.labels).mean() == trained.facts["accuracy"]
    for weight, (part, kept) in zip(
        trained.weights.values(), model.module.state_dict().items(), strict=True
    ):
        assert np.array_equal(weight, kept.numpy()), part


def test_as_model_opens_a_model_folder(tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    plain, named = as_model(str(folder)), as_model(folder, name="mine")
    assert (plain.name, named.name) == (folder.name, "mine")
    rows = TOY.domain("one", "train").take(slice(0, 5))
    assert np.array_equal(named.classify(rows).probs, load_model(str(folder)).classify(rows).probs)
    with pytest.raises(InputError, match="is already a model, so outputs= cannot be set"):
        as_model(folder, outputs="logits")


def test_fine_tuned_encoder_is_loaded_unchanged(tmp_path: Path) -> None:
    body = bert_folder(tmp_path / "body")
    settings = {"folder": str(body), "length": 20}
    inputs, labels = texts()
    one = recipe("encoder", settings=settings, part="head", lr=0.05, stop_at=None)
    trained = train(one, group(inputs, labels))
    model = load_model(save(tmp_path / "pool", trained))
    check_model(model, inputs[:5])
    assert (model.classify(inputs).classes == labels).mean() == trained.facts["accuracy"]
    assert set(trained.weights) == {"head.weight", "head.bias"}
    whole = train(replace(one, part="whole", epochs=1), group(inputs, labels))
    again = load_model(save(tmp_path / "pool", whole))
    assert (again.classify(inputs).classes == labels).mean() == whole.facts["accuracy"]
    fresh = BertModel.from_pretrained(str(body)).state_dict()
    kept = {name[5:]: one for name, one in whole.weights.items() if name.startswith("body.")}
    assert any(not np.array_equal(fresh[name], weight) for name, weight in kept.items())


@pytest.mark.parametrize("part", ["head", "whole"])
def test_encoder_with_mlp_head_is_loaded_unchanged(tmp_path: Path, part: str) -> None:
    body = bert_folder(tmp_path / "body")
    settings = {"folder": str(body), "length": 20, "pooling": "cls", "head": "mlp", "hidden": 8}
    one = recipe("encoder", settings=settings, part=part, lr=0.05, stop_at=None, few_shot=8)
    words, labels = texts()
    trained = train(one, group(words, labels))
    head = {f"head.{at}.{name}" for at in (0, 3) for name in ("weight", "bias")}
    assert {name for name in trained.weights if not name.startswith("body.")} == head
    assert (set(trained.weights) == head) == (part == "head")
    model = load_model(save(tmp_path / "pool", trained))
    with seeded_torch(one.seed):
        module = build_network(one, trained.shape)
    before = module.state_dict()
    assert all(not np.array_equal(trained.weights[name], before[name]) for name in head)
    module.load_state_dict(
        {**before, **{name: torch.tensor(value) for name, value in trained.weights.items()}}
    )
    tokens = get_architecture(one, "text").tokens([])
    logits = module.eval()(torch.from_numpy(tokens.encode(words))).detach()
    assert np.allclose(model.classify(words).probs, logits.softmax(dim=1), atol=1e-5)


def test_heads_of_one_encoder_share_it_and_its_outputs(tmp_path: Path) -> None:
    body = bert_folder(tmp_path / "body")
    inputs, labels = texts()
    where = group(inputs, labels)
    settings = {"folder": str(body), "length": 20}
    one = recipe("encoder", settings=settings, part="head", lr=0.05, stop_at=None)
    trained = [train(replace(one, seed=seed), where) for seed in range(3)]
    models: list[Any] = [load_model(save(tmp_path / "pool", model)) for model in trained]
    shared = models[0].module.body
    assert all(model.module.body is shared for model in models)
    calls: list[int] = []
    shared.register_forward_pre_hook(lambda *_: calls.append(1))
    found = [model.classify(inputs[:6]) for model in models]
    assert len(calls) == 1
    assert not np.array_equal(found[0].probs, found[1].probs)
    alone: Any = load_model(tmp_path / "pool" / trained[1].recipe.id)
    own: Any = BertModel.from_pretrained(str(body))
    alone.module.body = own.eval()
    assert np.array_equal(alone.classify(inputs[:6]).probs, found[1].probs)
    other = models[0].classify(inputs[6:12])
    assert len(calls) == 2
    assert not np.array_equal(other.probs, found[0].probs)


def test_head_is_not_combined_with_a_changed_encoder(tmp_path: Path) -> None:
    body = bert_folder(tmp_path / "body")
    settings = {"folder": str(body), "length": 20}
    one = recipe("encoder", settings=settings, part="head", epochs=1)
    folder = save(tmp_path / "pool", train(one, group(*texts())))
    weights = body / "model.safetensors"
    bytes_before = weights.read_bytes()
    weights.write_bytes(bytes_before[:-4] + b"\x00\x00\x00\x40")
    with pytest.raises(InputError, match="now holds another network"):
        load_model(folder)


def test_files_of_a_model_folder(tmp_path: Path) -> None:
    one = recipe(seed=7)
    folder = save(tmp_path, untrained_model(one, epochs=3))
    assert folder == tmp_path / one.id
    assert sorted(part.name for part in folder.iterdir()) == [
        "recipe.json", "result.json", "weights.safetensors",
    ]  # fmt: skip
    assert (folder / "recipe.json").read_text() == one.to_json()
    assert load_recipe(folder) == one
    assert load_facts(folder) == {"converged": True, "loss": 0.5, "epochs": 3.0}
    assert finished_models(tmp_path) == {one.id: folder}
    assert [part.name for part in tmp_path.iterdir()] == [one.id]


def test_equal_configurations_have_equal_bytes(tmp_path: Path) -> None:
    one, other = (save(tmp_path / name, untrained_model(recipe(lr=0.1 + 0.2))) for name in "ab")
    assert (one / "recipe.json").read_bytes() == (other / "recipe.json").read_bytes()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model(epochs=1))
    before = (folder / "result.json").stat()
    assert save(tmp_path, untrained_model(epochs=2)) == folder
    assert load_facts(folder)["epochs"] == 1
    assert (folder / "result.json").stat() == before


def test_missing_pool_has_no_models(tmp_path: Path) -> None:
    assert finished_models(tmp_path / "pool") == {}


KILL = """
import os, sys
from pathlib import Path
from oodometer.studies.training import checkpoint
from tests.support.training_problems import untrained_model
calls = 0
def killed(*arguments):
    global calls
    calls += 1
    if calls == int(sys.argv[3]):
        os._exit(9)
    return original(*arguments)
original = getattr(os, sys.argv[2])
setattr(os, sys.argv[2], killed)
checkpoint.save(Path(sys.argv[1]), untrained_model())
"""


@pytest.mark.parametrize(("call", "number"), [("fsync", 1), ("fsync", 3), ("rename", 1)])
def test_killed_writer_leaves_no_model(call: str, number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILL, str(tmp_path), call, str(number)], check=False
    )
    assert done.returncode == 9
    assert list(tmp_path.iterdir()) != []
    assert finished_models(tmp_path) == {}
    assert glob(str(tmp_path / "*")) == []
    # The next writer removes the leftovers.
    other = save(tmp_path, untrained_model(recipe(seed=5)))
    assert list(tmp_path.iterdir()) == [other]
    assert len(finished_models(tmp_path)) == 1
    save(tmp_path, untrained_model())
    assert len(finished_models(tmp_path)) == 2


@pytest.mark.parametrize("number", range(1, 5))
def test_full_disk_leaves_no_model(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = [], os.fsync

    def full(opened: int) -> None:
        calls.append(opened)
        if len(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(opened)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError, match=r"Cannot write the model .*: No space left on device. Free space"
    ):
        save(tmp_path, untrained_model())
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    folder = save(tmp_path, untrained_model())
    assert finished_models(tmp_path) == {folder.name: folder}


def test_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, untrained_model())
    assert list(tmp_path.iterdir()) == []


def test_pool_path_that_is_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "pool").write_text("")
    with pytest.raises(InputError, match="Cannot write the model"):
        save(tmp_path / "pool", untrained_model())


def test_incomplete_folder_is_neither_counted_nor_overwritten(tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    (folder / "weights.safetensors").unlink()
    assert finished_models(tmp_path) == {}
    with pytest.raises(InputError, match="exists but is incomplete, and nothing is overwritten"):
        save(tmp_path, untrained_model())
    shutil.rmtree(folder)
    assert save(tmp_path, untrained_model()) == folder


def test_other_files_in_a_pool_are_kept(tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    shutil.copytree(folder, tmp_path / "a copy")
    (tmp_path / "notes.txt").write_text("mine")
    save(tmp_path, untrained_model(recipe(seed=1)))
    assert folder.name in finished_models(tmp_path)
    assert len(finished_models(tmp_path)) == 2
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "a copy").is_dir()


@pytest.mark.parametrize("name", ["recipe.json", "a/b", "..", "", ".hidden"])
def test_invalid_file_names_are_rejected(name: str, tmp_path: Path) -> None:
    one = untrained_model()
    odd = TrainedModel(one.recipe, one.shape, one.classes, one.weights, True, {}, {name: b""})
    with pytest.raises(InputError, match="A file of a model cannot have the name"):
        save(tmp_path, odd)
    assert not list(tmp_path.iterdir())


def test_broken_files_are_named(tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    kept = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(kept[:-10])
    with pytest.raises(InputError, match=r"Cannot read weights\.safetensors of the model in .*"):
        load_model(folder)
    (folder / "result.json").write_text('{"converged": true}')
    with pytest.raises(
        InputError, match=r"Cannot read result\.json of the model in .* has no key 'facts'"
    ):
        load_facts(folder)
    (folder / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"Cannot read result\.json of the model in .*"):
        load_facts(folder)
    (folder / "recipe.json").write_text("[]")
    with pytest.raises(
        InputError, match=r"Cannot read recipe\.json of the model in .* it is not a JSON object"
    ):
        load_recipe(folder)
    (folder / "recipe.json").unlink()
    with pytest.raises(InputError, match=r"recipe\.json .* No such file"):
        load_recipe(folder)


@pytest.mark.parametrize(
    "change", [{"lr": "fast"}, {"epochs": None}, {"settings": 3}, {"domains": 3}]
)
def test_invalid_training_configurations_are_named(change: dict[str, Any], tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    for content in (change, {**recipe().to_dict(), **change}):
        (folder / "recipe.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"Cannot read recipe\.json of the model in .*"):
            load_model(folder)


@pytest.mark.parametrize(
    "change",
    [{"facts": 3}, {"classes": "ab"}, {"shape": 3}, {"shape": {}}, {"shape": {"size": 3, "n": 1}}],
)
def test_invalid_results_are_named(change: dict[str, Any], tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    told = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**told, **change}))
    with pytest.raises(InputError, match=r"Cannot read result\.json of the model in .*"):
        load_model(folder)


def test_weights_of_another_network_are_rejected(tmp_path: Path) -> None:
    folder = save(tmp_path, untrained_model())
    told = json.loads((folder / "recipe.json").read_text())
    told["settings"] = {"width": 3}
    (folder / "recipe.json").write_text(json.dumps(told))
    with pytest.raises(
        InputError, match=r"Cannot read weights\.safetensors of the model in .*"
    ) as found:
        load_model(folder)
    assert "\n" not in str(found.value)


def test_diverged_model_is_saved_and_not_loaded(tmp_path: Path) -> None:
    found = train(recipe(optimizer="sgd", lr=1e30, epochs=20), TOY)
    folder = save(tmp_path, found)
    assert load_facts(folder)["converged"] is False
    assert load_facts(folder)["diverged"] == 1
    with pytest.raises(
        InputError, match=r"diverged in training \(lr was 1e\+30\), .* Leave it out"
    ):
        load_model(folder)


def test_scalars_and_transposed_arrays_keep_their_shape(tmp_path: Path) -> None:
    one = untrained_model()
    weights = {**one.weights, "count": np.array(3), "turned": np.arange(6.0).reshape(2, 3).T}
    folder = save(tmp_path, TrainedModel(one.recipe, one.shape, one.classes, weights, True))
    kept = checkpoint._load_weights(folder)
    assert kept["count"].shape == ()
    assert np.array_equal(kept["turned"], weights["turned"])
