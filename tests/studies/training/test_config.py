"""Recipes: one id for one recipe, another for any other, and what is refused."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.training.config import TrainingConfig

PLAIN = TrainingConfig("pacs", ("photo",), "mlp", {"width": 8, "depth": 1})
OTHER: dict[str, Any] = {
    "group": "vlcs", "domains": ("sketch",), "architecture": "vgg", "settings": {"width": 9},
    "seed": 1, "batch": 65, "lr": 2e-3, "optimizer": "sgd", "momentum": 0.8, "weight_decay": 0.1,
    "schedule": "cosine", "epochs": 51, "stop_at": None, "label_noise": 0.1,
    "augment": "augmix", "few_shot": 5, "part": "head",
}  # fmt: skip


def test_every_key_has_its_share_in_the_id() -> None:
    assert set(OTHER) == {one.name for one in fields(TrainingConfig)}
    ids = {replace(PLAIN, **{name: value}).id for name, value in OTHER.items()}
    assert len(ids | {PLAIN.id}) == len(OTHER) + 1


def test_the_id_is_the_same_however_the_recipe_is_written() -> None:
    turned = TrainingConfig("pacs", ["photo"], "mlp", {"depth": 1, "width": 8})  # type: ignore[arg-type]
    assert turned == PLAIN
    assert turned.id == PLAIN.id == TrainingConfig.from_dict(PLAIN.to_dict()).id
    assert hash(turned) == hash(PLAIN)


@pytest.mark.parametrize("name", ["lr", "weight_decay", "label_noise", "stop_at", "momentum"])
def test_a_whole_number_is_the_same_as_its_float(name: str) -> None:
    number = 0 if name == "momentum" else 1
    whole, fraction = (replace(PLAIN, **{name: kind(number)}) for kind in (int, float))  # type: ignore[arg-type]
    assert whole.id == fraction.id


def test_the_id_of_a_known_recipe_never_changes() -> None:
    """Pools on disk are found by it: if it must change, so must FORMAT."""
    assert PLAIN.id == "89b8a348af060ede"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("domains", (), "one training domain or more"),
        ("batch", 0, "batch must be 1 or more; got 0"),
        ("lr", 0.0, "lr must be finite and above 0; got 0.0"),
        ("lr", math.inf, "lr must be finite and above 0; got inf"),
        ("lr", math.nan, "lr must be finite and above 0; got nan"),
        ("momentum", 1.0, "momentum must be from 0 to below 1; got 1.0"),
        ("weight_decay", -1.0, "weight_decay must be finite and 0 or more"),
        ("weight_decay", math.inf, "weight_decay must be finite and 0 or more; got inf"),
        ("epochs", 0, "epochs must be 1 or more"),
        ("stop_at", 0.0, "stop_at must be finite and above 0, or left out"),
        ("stop_at", math.inf, "stop_at must be finite and above 0, or left out; got inf"),
        ("label_noise", 1.1, "label_noise must be a share from 0 to 1; got 1.1"),
        ("few_shot", 0, "few_shot must be 1 or more, or left out"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(PLAIN, **{name: value})


def test_names_that_are_not_known_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'adam'"):
        replace(PLAIN, optimizer="adams")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="Did you mean 'epochs'"):
        TrainingConfig.from_dict({**PLAIN.to_dict(), "epoch": 3})
    with pytest.raises(InputError, match="has the format 0"):
        TrainingConfig.from_dict({**PLAIN.to_dict(), "format": 0})
