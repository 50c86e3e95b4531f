"""Keys under which results are stored: pinned, because renaming a class must not change them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from oodometer import estimators, measures, metrics, transforms
from oodometer.core.errors import InputError
from oodometer.core.keys import settings_key
from oodometer.data import as_dataset
from oodometer.data.dataset import TransformedDataset
from oodometer.studies.domains.synthetic import ResizeAndCrop, Rotated, TransformedDomain
from oodometer.studies.requested_values import NeighborhoodOptions, TransformRequest, build_requests
from oodometer.studies.training.config import KEYS, OPTIONAL_KEYS, TrainingConfig
from oodometer.transforms.corruptions import Corruption
from oodometer.transforms.text.apertium import Apertium
from oodometer.transforms.text.backtranslation import BackTranslation
from oodometer.transforms.text.marian import Marian


def test_key_of_each_family() -> None:
    found = build_requests(
        metrics=[metrics.get("error")],
        estimators=[estimators.get("atc-ne")],
        temperatures=["fit", "none"],
        invariance=[
            TransformRequest(transforms.get("rotate"), NeighborhoodOptions(10), ("ni-rotate",)),
            TransformRequest(
                transforms.get("MS-SSMBA"), NeighborhoodOptions(10, identity=False), ("ms-ssmba",)
            ),
        ],
        measures=[measures.get("h-divergence-ms")],
        seed=3,
    )
    assert [(one.family, one.settings) for one in found] == [
        ("accuracy", ""),
        ("metric", "error{}, seed 3"),
        ("estimator", "atc-ne{score='ne'}, temperature fit, seed 3"),
        ("estimator", "atc-ne{score='ne'}, temperature none, seed 3"),
        ("invariance", "rotate{magnitude=30.0}, 10 draws, seed 3"),
        (
            "invariance",
            "ssmba{magnitude=0.15, model=None, strength='fixed'}, 10 draws, no identity, seed 3",
        ),
        (
            "measure",
            "h-divergence-ms{base=h-divergence{head='linear', half='test', rows=2000}}, seed 3",
        ),
    ]


def test_key_of_a_nested_setting() -> None:
    assert settings_key(BackTranslation(translator=Apertium())) == (
        "backtranslate{magnitude=0.7, translator=apertium{pair=('eng-spa', 'spa-eng')}}"
    )
    assert settings_key(Corruption("fog", 2, "relative")) == "fog{severity=2}"
    assert settings_key(Corruption("fog", 2)) == "fog{severity=2, severities='published'}"


def test_all_members_have_keys_of_their_own() -> None:
    families = (estimators, measures, metrics, transforms)
    keys = [settings_key(member) for family in families for member in family.available()]
    assert len(keys) == len(set(keys))
    assert all("(" not in key.partition("{")[0] for key in keys)


def test_settings_and_name_make_the_key_and_the_class_does_not() -> None:
    @dataclass(frozen=True)
    class One:
        size: int = 1
        name: str = "same"

    @dataclass(frozen=True)
    class Other:
        size: int = 1
        name: str = "same"

    assert settings_key(One()) == settings_key(Other()) == "same{size=1}"
    assert settings_key(One(2)) != settings_key(One())
    with pytest.raises(InputError, match="has no name"):
        settings_key(One(name=""))


def test_fingerprints_of_changed_datasets() -> None:
    images = as_dataset(np.zeros((2, 4, 4), dtype=np.uint8), name="black")
    found = {
        "altered": TransformedDomain(Corruption("fog", 2, "relative"), seed=1)
        .derive(images)
        .fingerprint,
        "rotated": Rotated(30.0).derive(images).fingerprint,
        "fit": TransformedDataset(images, ResizeAndCrop((8, 8))).fingerprint,
    }
    assert found == {
        "altered": "0114fdb4fe7969b33e30522ccfe5887c",
        "rotated": "1f171fd5f7841060b5ecd9139e9ede72",
        "fit": "b725a0ce9660584777ca89cdc9201687",
    }


def test_id_of_a_training_configuration() -> None:
    config = TrainingConfig("digits", ("mnist",), "mlp", settings={"width": 8}, seed=2, lr=0.1)
    assert config.id == "ebd0b7a7ebf415f3"
    assert (set(KEYS) - set(OPTIONAL_KEYS)) | {"format"} == set(config.to_dict())
    assert TrainingConfig.from_dict(config.to_dict()) == config
    assert Marian.name == "marian"
