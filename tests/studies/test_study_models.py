"""Models of a study: those of pools and the user's own."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from oodometer.core.errors import InputError
from oodometer.studies import Study
from oodometer.studies.study_models import (
    MAX_OPEN_HEADS,
    Pool,
    StudyModels,
    clear_cache,
    collect_models,
)
from oodometer.studies.training import checkpoint
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec
from tests.support.study_tasks import Ball, model, study
from tests.support.tiny_bodies import BRIGHTNESS, PROJECTION
from tests.support.training_tasks import SPEC, fake_model


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """Return a pool of forty configurations, ten not trained; those with a batch of 8 converged."""
    spec = PoolSpec.open(SPEC)
    for recipe in spec.recipes()[10:]:
        checkpoint.save(tmp_path / "pool", fake_model(recipe))
    return Pool(spec, tmp_path / "pool")


def members(pool: Pool, *, converged: bool = True) -> StudyModels:
    table = {"pools": [{"spec": pool.spec, "folder": pool.folder}], "converged": converged}
    return Study.open(table).available_models()


def test_models_that_did_not_converge_are_counted_and_skipped(pool: Pool) -> None:
    found = members(pool)
    done = pool.spec.recipes()[10:]
    assert [one.name for one in found.models] == [one.id for one in done if one.batch == 8]
    assert (found.left_out, found.untrained) == (sum(one.batch == 16 for one in done), 10)
    every = members(pool, converged=False)
    assert (len(every.models), every.left_out) == (30, 0)
    first = every.models[0].record()
    recipe = done[0]
    assert (first.name, first.trained_on) == (recipe.id, recipe.domains)
    assert (first.recipe, first.architecture) == (recipe.to_dict(), "mlp")
    assert first.facts["seconds"] == 2.0


def test_pool_without_converged_models_is_reported(pool: Pool) -> None:
    for folder in checkpoint.finished_models(pool.folder).values():
        content = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps({**content, "converged": False}))
    with pytest.raises(
        InputError, match=r"None of the 30 models converged\. Set converged = false"
    ):
        members(pool)


def test_retrained_model_has_another_key(pool: Pool) -> None:
    before = {one.name: one.key for one in members(pool).models}
    assert len(set(before.values())) == len(before)
    name = next(iter(before))
    path = pool.folder / name / "result.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "facts": {"seconds": 3.0}}))
    after = {one.name: one.key for one in members(pool).models}
    assert {one for one in before if before[one] != after[one]} == {name}


def test_unreadable_result_does_not_affect_other_models(pool: Pool) -> None:
    name = members(pool).models[0].name
    (pool.folder / name / "result.json").write_text("{")
    found = members(pool)
    assert found.models[0].name == name
    with pytest.raises(InputError, match=r"Cannot read result\.json of the model .*"):
        found.models[0].load()


def test_configuration_in_two_pools_is_evaluated_once(pool: Pool) -> None:
    twice = collect_models([pool, pool], [], only_converged=True, domain_labels=_shown(pool))
    assert twice.models == members(pool).models


def _shown(pool: Pool) -> dict[tuple[str, str], str]:
    group = pool.spec.group
    return {(group.name, name): name for name in group.domains}


def test_second_model_differs_only_in_the_seed(tmp_path: Path) -> None:
    first: TrainingConfig = PoolSpec.open(SPEC).recipes()[0]
    recipes = [
        *(replace(first, seed=seed) for seed in (5, 2, 9)),
        replace(first, seed=1, lr=0.7),
        replace(first, seed=0, domains=("90",)),
    ]
    for recipe in recipes:
        checkpoint.save(tmp_path, fake_model(recipe))
    spec = PoolSpec.open(
        {**SPEC, "domains": ["0"], "seeds": [5, 2, 9], "grid": {"epochs": [5], "batch": [8]}}
    )
    same = [one for one in spec.recipes() if one.id in {r.id for r in recipes}]
    assert len(same) == 3
    found = Study.open({"pools": [{"spec": spec, "folder": tmp_path}]}).available_models()
    peers = {
        one.recipe["seed"]: found.other_models()[one.key].recipe["seed"] for one in found.models
    }
    assert peers == {5: 2, 2: 5, 9: 2}


def test_heads_on_different_bodies_are_different_architectures(tmp_path: Path) -> None:
    """Heads share the features that a task reads, so a task has more heads than networks."""
    bodies = [BRIGHTNESS, PROJECTION]
    table = {
        "name": "heads",
        "group": "hypersphere",
        "architecture": "head",
        "domains": ["0"],
        "grid": {"settings": {"body": bodies}},
    }
    spec = PoolSpec.open(table)
    for recipe in spec.recipes():
        checkpoint.save(tmp_path, fake_model(recipe))
    pools = [{"spec": spec, "folder": tmp_path}]
    heads = Study.open({"pools": pools, "converged": False}).available_models().models
    assert {model.architecture for model in heads} == {f"head on {body}" for body in bodies}
    assert {model.max_per_task for model in heads} == {MAX_OPEN_HEADS}


def test_key_of_a_user_model_depends_on_its_files(tmp_path: Path) -> None:
    file, folder = tmp_path / "a.onnx", tmp_path / "folder"
    folder.mkdir()

    def key(path: object, **changes: str) -> str:
        given = {**model("m", path), **changes}
        return study(models=[given]).available_models().models[0].key

    file.write_bytes(b"one")
    (folder / "weights").write_bytes(b"one")
    before = key(file), key(folder)
    assert (key(file), key(str(folder))) == before
    assert len({*before, key(file, name="n"), key(file, architecture="x"), key("a:b")}) == 5
    file.write_bytes(b"two")
    (folder / "weights").rename(folder / "others")
    assert key(file) != before[0]
    assert key(folder) != before[1]


def test_user_models_are_opened_by_as_model() -> None:
    found = study(
        models=[model("ball", Ball()), model("fn", "tests.support.study_tasks:classes_only")]
    )
    for one in found.available_models().models:
        data = found.domains["0"].group.domain("0", "test").take(slice(0, 3))
        assert one.load().classify(data).n == 3
        assert one.load() is one.load()


def test_duplicate_model_names_are_rejected() -> None:
    twice = study(models=[model("m", Ball()), model("m", Ball(2.0))])
    with pytest.raises(InputError, match="Two models have the name 'm'"):
        twice.available_models()


def test_pickles_are_opened_only_if_trusted(tmp_path: Path) -> None:
    place = tmp_path / "ball.pkl"
    place.write_bytes(pickle.dumps(Ball()))
    table = {"group": "hypersphere", "models": [model("pickled", place)]}
    (refused,) = Study.open(table).available_models().models
    with pytest.raises(InputError, match="--trust-pickle"):
        refused.load()
    (trusted,) = Study.open(table, trust_pickle=True).available_models().models
    assert trusted.key == refused.key
    clear_cache()
    assert trusted.load().name == "pickled"
    clear_cache()
