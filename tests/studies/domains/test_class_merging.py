"""Models with the 1000 classes of ImageNet on groups whose classes consist of these."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.models import as_model
from oodometer.studies import Study, run
from oodometer.studies.domains.class_lists import imagenet_wnids
from oodometer.studies.domains.class_merging import ClassMergingModel, adapt_model, merge_classes
from oodometer.studies.domains.group import DomainGroup, get
from oodometer.studies.store import Store
from tests.support.wilds_folders import write_image

OBJECTNET = get("objectnet")
CLOCK, BANANA = (OBJECTNET.classes.index(name) for name in ("alarm_clock", "banana"))


def literal_merge(scores: Array, group: DomainGroup, names: tuple[str, ...]) -> Array:
    """Return the maximum over the members of each class, computed by loops."""
    merged = np.empty((len(scores), len(group.classes)))
    for row, values in enumerate(scores):
        for column, members in enumerate(group.members):
            merged[row, column] = max(values[names.index(wnid)] for wnid in members)
    return merged


@pytest.mark.parametrize("name", ["objectnet", "imagenet-vid-robust", "imagenet-200", "imagenet-a"])
def test_logits_of_a_class_are_the_maximum_of_its_members(name: str) -> None:
    group = get(name)
    logits = np.random.default_rng(0).normal(size=(7, 1000))
    merged = merge_classes(Predictions.from_logits(logits), group)
    assert merged.scores is not None
    np.testing.assert_array_equal(merged.scores, literal_merge(logits, group, imagenet_wnids()))
    assert merged.class_names == group.classes


def test_probabilities_and_logits_give_the_same_predictions() -> None:
    logits = np.random.default_rng(1).normal(size=(9, 1000), scale=3.0)
    by_logits = merge_classes(Predictions.from_logits(logits), OBJECTNET)
    probs = Predictions.from_logits(logits).probs
    by_probs = merge_classes(Predictions.from_probs(probs), OBJECTNET)
    np.testing.assert_allclose(by_logits.probs, by_probs.probs, atol=1e-12)


def test_classes_are_found_by_wordnet_id_in_any_order() -> None:
    order = np.random.default_rng(2).permutation(1000)
    names = tuple(imagenet_wnids()[number] for number in order)
    logits = np.random.default_rng(3).normal(size=(4, 1000))
    merged = merge_classes(Predictions.from_logits(logits, class_names=names), OBJECTNET)
    assert merged.scores is not None
    np.testing.assert_array_equal(merged.scores, literal_merge(logits, OBJECTNET, names))


def test_other_classes_are_left_out() -> None:
    probs = np.zeros((2, 1000))
    probs[0, [0, 409, 530, 954]] = 0.5, 0.2, 0.1, 0.2  # tench, two clocks, banana
    probs[1, 0] = 1.0
    merged = merge_classes(Predictions.from_probs(probs), OBJECTNET)
    assert merged.probs[0, [CLOCK, BANANA]].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(merged.probs[1], 1 / 113)


def test_predictions_that_cannot_be_merged() -> None:
    same = Predictions.from_logits(np.zeros((1, 113)))
    assert merge_classes(same, OBJECTNET) is same
    with pytest.raises(InputError, match=r"has 5 classes; expected the 113 classes of 'objectnet' or the 1000"):  # fmt: skip
        merge_classes(Predictions.from_logits(np.zeros((1, 5))), OBJECTNET)
    with pytest.raises(InputError, match=r"returns classes only. Its ImageNet classes cannot"):
        merge_classes(Predictions.from_classes(np.array([999]), k=1000), OBJECTNET)


def bright_classifier(images: Array) -> Array:
    """Return probabilities of 1000 classes: dark images are digital clocks, others tenches.

    The second most probable class of a tench is the banana.
    """
    probs = np.zeros((len(images), 1000))
    dark = images.reshape(len(images), -1).mean(axis=1) < 100
    probs[dark, 530] = 0.9
    probs[~dark, 0] = 0.7
    probs[:, 954] = np.where(dark, 0.1, 0.3)
    return probs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data folder with clocks and bananas in ObjectNet and in ImageNet."""
    rng = np.random.default_rng(0)
    for number in range(40):
        name, low = (("alarm_clock", 10), ("banana", 110))[number % 2]
        value = low + int(rng.integers(0, 80)) if number % 5 else 150 - low
        write_image(tmp_path / f"objectnet-1.0/images/{name}/{number}.png", value, 6 + number)
        wnid = imagenet_wnids()[(409, 954)[number % 2]]
        for split in ("train", "val"):
            side = 20 + number + 40 * (split == "val")
            write_image(tmp_path / f"imagenet/{split}/{wnid}/{number}.JPEG", value, side)
    mappings = tmp_path / "objectnet-1.0/mappings"
    mappings.mkdir()
    folders = {"alarm_clock": "Alarm clock", "banana": "Banana"}
    shared = {"Alarm clock": "analog clock; digital clock", "Banana": "banana"}
    (mappings / "folder_to_objectnet_label.json").write_text(json.dumps(folders))
    (mappings / "objectnet_to_imagenet_1k.json").write_text(json.dumps(shared))
    return tmp_path


def test_imagenet_model_is_evaluated_in_a_study(data: Path, tmp_path: Path) -> None:
    group = get("objectnet", root=data)
    target = group.domain("objectnet", "test")
    model = adapt_model(as_model(bright_classifier), group, target)
    assert isinstance(model, ClassMergingModel)
    correct = model.classify(target.take(slice(None))).classes == target.labels
    study = Study.open(
        {
            "name": "shared", "group": "objectnet", "domains": ["objectnet"], "estimators": ["ac"],
            "invariance": [{"transform": "rotate", "draws": 2}],
            "models": [{
                "name": "imagenet", "path": f"{__name__}:bright_classifier",
                "trained_on": ["imagenet"],
            }],
        },
        data=data,
    )  # fmt: skip
    assert not run(study, tmp_path / "store").failed
    with Store.open(tmp_path / "store") as store:
        table = store.to_table().to_pydict()
    assert set(table["tested_on"]) == {"objectnet"}
    assert set(table["accuracy"]) == {correct.mean()}
    assert correct.mean() == 0.8  # one of five images has the brightness of the other class
    assert None not in table["value"]


def test_models_of_the_group_are_not_changed(data: Path) -> None:
    group = get("objectnet", root=data)
    rows = group.domain("objectnet", "test")
    model = as_model(lambda images: np.zeros((len(images), 113)), outputs="logits", name="own")
    assert adapt_model(model, group, rows) is model
    assert adapt_model(model, get("pacs"), rows) is model
