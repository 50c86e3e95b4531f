"""Networks of timm as architectures of a pool."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from oodometer.core.errors import InputError, UnknownName
from oodometer.models.timm import timm_package
from oodometer.studies.training import architectures
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import seeded_torch
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


def test_new_head_replaces_the_head_of_the_weights(tmp_path: Path) -> None:
    shape = InputShape("images", classes=3, size=(3, 32, 32))
    full = timm_package().create_model("test_resnet", num_classes=3)
    save_file(full.state_dict(), tmp_path / "test_resnet.safetensors")
    settings = {"weights": str(tmp_path)}
    with seeded_torch(0):
        kept = architectures.get("timm:test_resnet", settings).build(shape)
        new = architectures.get("timm:test_resnet", {**settings, "new_head": True}).build(shape)
    assert torch.equal(kept.head.weight, full.get_classifier().weight)
    assert (kept.new_head, new.new_head) == (False, True)
    assert new.head.weight.shape == kept.head.weight.shape
    assert not torch.equal(new.head.weight, kept.head.weight)
    for name, weight in kept.body.state_dict().items():
        assert torch.equal(new.body.state_dict()[name], weight), name


def test_new_head_is_stored_only_if_it_is_set_and_needs_weights() -> None:
    plain = {"weights": "folder", "dropout": 0.0, "image_size": None}
    found = architectures.get("timm:resnet50", {"weights": "folder"})
    assert architectures.stored_settings(found) == plain
    new = architectures.get("timm:resnet50", {"weights": "folder", "new_head": True})
    assert architectures.stored_settings(new) == {**plain, "new_head": True}
    with pytest.raises(InputError, match=r"new_head of .*'timm:resnet50' needs pretrained weights"):
        architectures.get("timm:resnet50", {"new_head": True})


def test_networks_of_timm_accept_images_only() -> None:
    with pytest.raises(InputError, match="'timm:resnet50d' accepts images"):
        PoolSpec.open({"group": "hypersphere", "architecture": "timm:resnet50d"})
