"""Features from the cache against a direct pass, and models body + head."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from oodometer import invariance, measure
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.dataset import ConcatDataset, TransformedDataset
from oodometer.models import FeatureCache, HeadModel, as_model, features
from oodometer.models.heads import FeatureDataset, content_keys, transform_key
from oodometer.models.inference import predict_dataset, predict_models
from oodometer.neighborhood.results import MEASURES
from oodometer.testing import check_model, toy_inputs
from oodometer.transforms import get
from oodometer.transforms.text.ssmba import SSMBA
from tests.support import tiny_bodies
from tests.support.tiny_bodies import BRIGHTNESS, WIDTH, brightness, tiny_body


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _no_rows_seen() -> None:
    tiny_bodies.ROWS_SEEN.clear()


def rows_seen(name: str = "projection") -> int:
    return tiny_bodies.ROWS_SEEN.get(name, 0)


def vectors(n: int = 30, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, 7))


def head(cache: FeatureCache | None, *, seed: int = 0, images: bool = False) -> HeadModel:
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    body = brightness() if images else tiny_body()
    return HeadModel(body, module, name=f"head {seed}", cache=cache)


def whole(model: HeadModel) -> Any:
    """Return the same classifier as one function that does not know the cache."""

    def classify(rows: Any) -> Any:
        with torch.no_grad():
            return model.module(torch.from_numpy(model.body.features(rows))).softmax(1).numpy()

    return as_model(classify, name=model.name)


@dataclass(frozen=True)
class Shift(Transform):
    """Add a random number to each vector."""

    magnitude: float = 1.0

    name: ClassVar[str] = "shift"
    label: ClassVar[str] = "Shift"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors",)
    assumes: ClassVar[str] = "nothing"

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return inputs + self.magnitude * draws.uniforms(1)


# Features ---------------------------------------------------------------------------------------


def test_cached_features_equal_a_direct_pass_and_are_computed_once(cache: FeatureCache) -> None:
    rows = vectors()
    direct = tiny_body().features(rows)
    assert np.array_equal(features(tiny_body(), rows, cache=cache), direct)
    n_first = rows_seen()
    order = np.random.default_rng(0).permutation(30)
    assert np.array_equal(features(tiny_body(), rows[order], cache=cache), direct[order])
    assert rows_seen() == n_first
    more = np.concatenate([rows[:5], vectors(4, seed=1), rows[:5]])
    assert np.array_equal(features(tiny_body(), more, cache=cache), tiny_body().features(more))
    assert rows_seen() == n_first + 4 + len(more)


def test_features_without_a_cache(cache: FeatureCache) -> None:
    rows = vectors()
    assert np.array_equal(features(tiny_body(), rows, cache=None), tiny_body().features(rows))
    assert cache.n_bytes == 0


def test_many_rows_are_stored_in_several_blocks(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oodometer.models.heads.BLOCK_ROWS", 8)
    done: list[int] = []
    found = features(tiny_body(), vectors(), cache=cache, progress=lambda now, *_: done.append(now))
    assert done == [8, 16, 24, 30]
    assert np.array_equal(found, tiny_body().features(vectors()))
    assert len(list(cache.folder.rglob("*.block"))) == 4


def test_interrupted_computation_is_resumed(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oodometer.models.heads.BLOCK_ROWS", 8)

    def stop(done: int, *_: object) -> None:
        if done == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features(tiny_body(), vectors(), cache=cache, progress=stop)
    tiny_bodies.ROWS_SEEN.clear()
    features(tiny_body(), vectors(), cache=cache)
    assert rows_seen() == 14


def test_bodies_with_other_weights_do_not_share_features(cache: FeatureCache) -> None:
    one, other = tiny_body(), tiny_body(fingerprint="tiny 2", seed=1)
    features(one, vectors(), cache=cache)
    assert np.array_equal(features(other, vectors(), cache=cache), other.features(vectors()))


def test_rows_with_equal_bytes_and_another_shape_are_different(cache: FeatureCache) -> None:
    wide = np.zeros((1, 4, 16, 3), dtype=np.uint8)
    body = brightness()
    features(body, wide, cache=cache)
    seen = rows_seen("brightness")
    features(body, wide.reshape(1, 8, 8, 3), cache=cache)
    assert rows_seen("brightness") == seen + 1


def test_rows_of_a_transformed_dataset_are_found_by_their_own_content(cache: FeatureCache) -> None:
    rows = as_dataset(vectors())
    moved = TransformedDataset(rows, Shift())
    assert np.array_equal(moved.keys, rows.keys)
    for dataset in (rows, moved, ConcatDataset("both", (rows, moved))):
        found = features(tiny_body(), dataset, cache=cache)
        assert np.array_equal(found, tiny_body().features(dataset.take(slice(None))))


def test_row_keys_of_files_are_stored_so_that_cached_rows_are_not_read(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = TransformedDataset(as_dataset(vectors()), Shift())
    expected = features(tiny_body(), moved, cache=cache)
    monkeypatch.setattr("oodometer.models.heads._KNOWN_ROW_KEYS", OrderedDict())
    taken: list[int] = []
    take = TransformedDataset.take

    def counted(self: TransformedDataset, index: Any) -> Any:
        taken.append(len(np.arange(30)[index]))
        return take(self, index)

    monkeypatch.setattr(TransformedDataset, "take", counted)
    again = TransformedDataset(as_dataset(vectors()), Shift())
    assert np.array_equal(features(tiny_body(), again, cache=cache), expected)
    assert sum(taken) == 1  # one row shows the shape
    (file,) = (cache.folder / "row_keys").iterdir()
    file.write_bytes(b"damaged")
    monkeypatch.setattr("oodometer.models.heads._KNOWN_ROW_KEYS", OrderedDict())
    assert np.array_equal(content_keys(again, cache), content_keys(again, None))


def test_draws_are_those_of_the_transform_and_do_not_collide(cache: FeatureCache) -> None:
    rows = as_dataset(vectors())
    found = [
        features(tiny_body(), rows, transform=Shift(size), draw=draw, seed=seed, cache=cache)
        for _ in range(2)
        for size, draw, seed in ((1.0, 1, 0), (1.0, 2, 0), (1.0, 1, 1), (2.0, 1, 0))
    ]
    assert rows_seen() == 4 * 30
    for at, (size, draw, seed) in enumerate(((1.0, 1, 0), (1.0, 2, 0), (1.0, 1, 1), (2.0, 1, 0))):
        streams = RowStreams(seed, rows.keys, np.full(30, draw))
        direct = tiny_body().features(Shift(size).apply(vectors(), streams))
        assert np.array_equal(found[at], direct)
        assert np.array_equal(found[at + 4], direct)


def test_transform_that_learns_is_rejected(cache: FeatureCache) -> None:
    with pytest.raises(InputError, match="learns from data"):
        features(tiny_body(), vectors(), transform=get("gaussian"), cache=cache)


def test_key_of_a_transform_is_empty_if_its_settings_are_unknown() -> None:
    class Plain:
        name = "plain"

    @dataclass(frozen=True)
    class Calling:
        change: Any
        name: ClassVar[str] = "calling"

    assert transform_key(Plain()) == ""
    assert transform_key(Calling(lambda rows: rows)) == ""
    assert transform_key(Shift()) != transform_key(Shift(2.0)) != ""
    assert transform_key(Shift(), "a") != transform_key(Shift(), "b")


def test_key_of_a_transform_with_a_model_depends_on_the_files_and_not_on_their_place(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / name for name in ("one", "same", "other")]
    for folder, weights in zip(folders, (b"1", b"1", b"2"), strict=True):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "notes.txt").write_text(folder.name)
    one, same, other = (transform_key(SSMBA(model=folder)) for folder in folders)
    assert one == same != other


# Models -----------------------------------------------------------------------------------------


def test_head_follows_the_rules_of_models(cache: FeatureCache) -> None:
    check_model(head(cache), vectors(9))
    check_model(head(None), vectors(9))


def test_model_equals_body_and_head_in_one(cache: FeatureCache) -> None:
    model = head(cache)
    expected = whole(model).classify(vectors())
    assert np.allclose(model.classify(vectors()).probs, expected.probs, atol=1e-6)
    tiny_bodies.ROWS_SEEN.clear()
    assert np.allclose(model.classify(vectors()).probs, expected.probs, atol=1e-6)
    found = model.classify_features(features(model.body, vectors(), cache=cache))
    assert np.allclose(found.probs, expected.probs, atol=1e-6)
    assert rows_seen() == 0


def test_heads_on_one_body_read_the_features_of_a_dataset_once(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {str(seed): head(cache, seed=seed) for seed in range(3)}
    others = {"plain": whole(head(None, seed=5))}
    reads: list[int] = []
    read = FeatureDataset.read

    def counted(self: FeatureDataset, rows: Any, progress: Any = None) -> Any:
        reads.append(len(rows))
        return read(self, rows, progress)

    monkeypatch.setattr(FeatureDataset, "read", counted)
    dataset = as_dataset(vectors(), labels=np.arange(30) % 3)
    found = predict_models({**models, **others}, dataset)
    assert reads == [30]
    for name, model in {**models, **others}.items():
        expected = predict_dataset(whole(model) if isinstance(model, HeadModel) else model, dataset)
        assert np.allclose(found[name].probs, expected.probs, atol=1e-6)
        assert np.array_equal(np.asarray(found[name].labels), np.asarray(expected.labels))


def test_head_without_a_location_is_pickled_with_its_weights(cache: FeatureCache) -> None:
    body = tiny_bodies.open_tiny_body()
    model = HeadModel(body, torch.nn.Linear(WIDTH, 2), cache=cache)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.classify(vectors()).probs, model.classify(vectors()).probs)


def test_head_has_no_prepare(cache: FeatureCache) -> None:
    with pytest.raises(InputError, match="prepare does not apply"):
        HeadModel(tiny_body(), torch.nn.Identity(), prepare=lambda rows: rows, cache=cache)


def test_measures_read_features_and_gradients_of_the_head(cache: FeatureCache) -> None:
    source, target = vectors(40), vectors(35, seed=1)
    labels = np.arange(40) % 3
    model = head(cache)
    names = ["mmd-mean-cov", "jacobian", "l2-path-norm", "entropy-target", "source-error"]
    found = measure(model, as_dataset(source, labels=labels), target, measures=names)
    assert rows_seen() == 75
    rows = [as_dataset(tiny_body().features(part)) for part in (source, target)]
    plain = as_model(model.module, name="plain")
    expected = measure(
        plain, as_dataset(rows[0].take(slice(None)), labels=labels), rows[1], measures=names
    )
    for name in names:
        assert found[name].value == pytest.approx(expected[name].value, rel=1e-4), name


# Invariance -------------------------------------------------------------------------------------


def all_values(result: Any) -> dict[str, float]:
    """Return all measures of all models; only pa if some draws were not classified."""
    return {
        f"{model.model} {name}": model.mean_with_interval(name).value
        for model in result
        for name in (MEASURES if model.complete else ("pa",))
    }


@pytest.mark.parametrize("options", [{}, {"max_inputs": 60}, {"batch_size": 7}, {"threads": 0}])
def test_invariance_of_heads_equals_invariance_without_the_cache(
    cache: FeatureCache, options: dict[str, Any]
) -> None:
    data = toy_inputs("images", n=20)
    models = [head(cache, seed=seed, images=True) for seed in range(2)]
    plain = [whole(model) for model in models]
    found = invariance(models, data, transform="translate", draws=4, **options)
    expected = invariance(plain, data, transform="translate", draws=4, **options)
    assert all_values(found) == pytest.approx(all_values(expected), abs=1e-6)
    tiny_bodies.ROWS_SEEN.clear()
    again = invariance(models, data, transform="translate", draws=4, **options)
    assert all_values(again) == all_values(found)
    assert again.sampling_cost == found.sampling_cost
    assert rows_seen("brightness") == 0


def test_cached_neighborhoods_are_not_drawn_again(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = toy_inputs("images", n=12)
    model = head(cache, images=True)
    first = invariance(model, data, transform="translate", draws=3)

    def fail(*_: object) -> None:
        raise AssertionError("an input was drawn")

    monkeypatch.setattr("oodometer.transforms.images.Translate.apply", fail)
    assert all_values(invariance(model, data, transform="translate", draws=3)) == all_values(first)
    other = invariance(head(cache, seed=1, images=True), data, transform="translate", draws=2)
    assert len(all_values(other)) == len(all_values(first))
    with pytest.raises(AssertionError):
        invariance(model, data, transform="translate", draws=3, seed=1)


def test_transforms_that_learn_from_other_data_do_not_share_features(cache: FeatureCache) -> None:
    model = head(cache)
    for scale in (1.0, 30.0):
        options = {"transform": "gaussian", "draws": 3, "transform_data": scale * vectors(seed=2)}
        found = invariance(model, vectors(), **options)
        expected = invariance(whole(model), vectors(), **options)
        assert all_values(found) == pytest.approx(all_values(expected), abs=1e-6)


def test_heads_and_other_models_together(cache: FeatureCache) -> None:
    data = toy_inputs("images", n=10)
    model, plain = head(cache, images=True), whole(head(None, seed=3, images=True))
    found = invariance({"head": model, "plain": plain}, data, transform="translate", draws=3)
    again = invariance({"head": model, "plain": plain}, data, transform="translate", draws=3)
    alone = invariance({"plain": plain}, data, transform="translate", draws=3)
    assert all_values(found) == all_values(again)
    for name in MEASURES:
        value = found["plain"].mean_with_interval(name).value
        assert value == alone["plain"].mean_with_interval(name).value


def test_location_of_a_body_is_enough_for_features(cache: FeatureCache) -> None:
    images = toy_inputs("images", n=5)
    assert np.array_equal(features(BRIGHTNESS, images, cache=cache), brightness().features(images))
