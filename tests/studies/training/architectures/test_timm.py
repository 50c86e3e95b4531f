"""Networks of timm as architectures of a pool."""

from __future__ import annotations

import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.training import architectures
from oodometer.studies.training.spec import PoolSpec

SPEC = {
    "group": "numbers",
    "domains": ["mnist"],
    "architecture": ["timm:resnet50d", "timm:vit_base_patch16_224"],
    "grid": {"part": ["head", "whole"]},
    "fixed": {"settings": {"weights": "weights", "dropout": 0.1}},
}


def test_a_pool_names_networks_of_timm_without_importing_timm() -> None:
    configs = PoolSpec.open(SPEC).recipes()
    assert [config.architecture for config in configs[:2]] == SPEC["architecture"]
    expected = {"weights": "weights", "dropout": 0.1, "image_size": None}
    assert configs[0].settings == expected
    assert len({config.id for config in configs}) == 4


def test_unknown_setting_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"'timm:resnet50d' is called 'width'.* weights, dropout"):
        architectures.get("timm:resnet50d", {"width": 3})


def test_prefix_without_a_name_is_an_error() -> None:
    with pytest.raises(InputError, match="names no network of timm"):
        architectures.find("timm:")


def test_networks_of_timm_accept_images_only() -> None:
    with pytest.raises(InputError, match="'timm:resnet50d' accepts images"):
        PoolSpec.open({"group": "hypersphere", "architecture": "timm:resnet50d"})
