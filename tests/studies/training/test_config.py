"""Training configurations: ids and invalid values."""

from __future__ import annotations

import json
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
    "augment": "augmix", "few_shot": 5, "part": "head", "coral": 0.5, "jsd": 6.0, "keep": "best",
    "steps": 500,
}  # fmt: skip
# Values that another key needs.
NEEDED: dict[str, dict[str, Any]] = {
    "coral": {"domains": ("photo", "sketch")},
    "jsd": {"augment": "augmix-jsd"},
    "keep": {"stop_at": None, "epochs": 7},
}
SCHEDULE_KEYS = {"lr_decay", "lr_decay_epochs", "warmup_epochs"}


def test_id_depends_on_every_key() -> None:
    assert set(OTHER) | SCHEDULE_KEYS == {field.name for field in fields(TrainingConfig)}
    ids = {PLAIN.id}
    for name, value in OTHER.items():
        base = replace(PLAIN, **NEEDED.get(name, {}))
        ids |= {base.id, replace(base, **{name: value}).id}
    assert len(ids) == 1 + len(OTHER) + len(NEEDED)


def test_id_depends_on_every_key_of_the_schedule() -> None:
    step = replace(PLAIN, schedule="step", lr_decay=0.1, lr_decay_epochs=10)
    others = [
        replace(step, lr_decay=0.2),
        replace(step, lr_decay_epochs=11),
        replace(step, lr_decay_epochs=(10,)),
        replace(step, warmup_epochs=1),
    ]
    assert len({one.id for one in [PLAIN, step, *others]}) == 6
    for one in others:
        assert TrainingConfig.from_dict(json.loads(one.to_json())) == one


def test_later_keys_are_stored_only_if_they_differ_from_the_default() -> None:
    assert not SCHEDULE_KEYS & set(PLAIN.to_dict())
    assert replace(PLAIN, warmup_epochs=3).to_dict().keys() & SCHEDULE_KEYS == {"warmup_epochs"}


def test_id_does_not_depend_on_the_order_of_settings() -> None:
    turned = TrainingConfig("pacs", ["photo"], "mlp", {"depth": 1, "width": 8})  # type: ignore[arg-type]
    assert turned == PLAIN
    assert turned.id == PLAIN.id == TrainingConfig.from_dict(PLAIN.to_dict()).id
    assert hash(turned) == hash(PLAIN)


def test_integer_and_equal_float_have_the_same_id() -> None:
    for name in ("lr", "weight_decay", "label_noise", "stop_at", "momentum"):
        number = 0 if name == "momentum" else 1
        integer, fraction = (replace(PLAIN, **{name: kind(number)}) for kind in (int, float))  # type: ignore[arg-type]
        assert integer.id == fraction.id, name


def test_id_of_a_known_configuration_never_changes() -> None:
    """Models on disk are found by their id: if it must change, so must RECIPE_FORMAT."""
    assert PLAIN.id == "89b8a348af060ede"
    assert replace(PLAIN, coral=0, jsd=12).id == "89b8a348af060ede"
    assert not {"coral", "jsd"} & PLAIN.to_dict().keys()
    step = replace(PLAIN, schedule="step", lr_decay=0.1, lr_decay_epochs=100, optimizer="adamw")
    assert step.id == "5f0049666c2aef46"


def test_added_keys_are_restored_from_stored_files() -> None:
    both = replace(PLAIN, domains=("photo", "sketch"), coral=0.5, augment="augmix-jsd", jsd=6)
    assert TrainingConfig.from_dict(both.to_dict()) == both
    assert both.to_dict()["coral"] == 0.5


def test_coral_needs_two_domains_and_two_rows_of_each() -> None:
    with pytest.raises(InputError, match=r"coral .* at least two training domains.*\['photo'\]"):
        replace(PLAIN, coral=1)
    with pytest.raises(InputError, match=r"batch .* at least 4 with coral.*got 3"):
        replace(PLAIN, domains=("photo", "sketch"), coral=1, batch=3)


def test_best_epoch_needs_training_for_all_epochs() -> None:
    with pytest.raises(InputError, match=r'keep = "best" .* needs stop_at = "none".*got .* = 0.05'):
        replace(PLAIN, keep="best")
    with pytest.raises(InputError, match=r'keep = "best" .* no effect with part = "none"'):
        replace(PLAIN, keep="best", stop_at=None, part="none")
    whole = replace(PLAIN, stop_at=None)
    assert "keep" not in whole.to_dict()
    best = replace(whole, keep="best")
    assert best.to_dict() == {**whole.to_dict(), "keep": "best"}
    assert TrainingConfig.from_dict(best.to_dict()) == best


def test_jsd_needs_its_augmentation() -> None:
    with pytest.raises(InputError, match=r'jsd .* needs augment = "augmix-jsd".*jsd = 6 .*augmix'):
        replace(PLAIN, augment="augmix", jsd=6)


INVALID: list[tuple[str, Any, str]] = [
    ("domains", (), "a list of at least 1; got ()"),
    ("batch", 0, "at least 1; got 0"),
    ("batch", "8", "a whole number; got '8'"),
    ("lr", 0.0, "above 0; got 0.0"),
    ("lr", math.inf, "finite; got inf"),
    ("lr", math.nan, "finite; got nan"),
    ("momentum", 1.0, "below 1; got 1.0"),
    ("weight_decay", -1.0, "at least 0; got -1.0"),
    ("weight_decay", math.inf, "finite; got inf"),
    ("epochs", 0, "at least 1; got 0"),
    ("stop_at", 0.0, "above 0; got 0.0"),
    ("stop_at", math.inf, "finite; got inf"),
    ("label_noise", 1.1, "at most 1; got 1.1"),
    ("few_shot", 0, "at least 1; got 0"),
    ("steps", 0, "at least 1; got 0"),
    ("coral", -1.0, "at least 0; got -1.0"),
    ("coral", math.inf, "finite; got inf"),
    ("jsd", -1.0, "at least 0; got -1.0"),
    (
        "augment",
        "flipcrop",
        "'none', 'randaugment', 'augmix', 'augmix-jsd' or 'flip-crop'; got 'flipcrop'. "
        "Did you mean 'flip-crop'?",
    ),
    ("optimizer", "adams", "'adam', 'sgd' or 'adamw'; got 'adams'. Did you mean 'adam'?"),
    ("schedule", "stepp", "'cosine', 'step' or 'exponential'; got 'stepp'. Did you mean 'step'?"),
    ("lr_decay", 0.0, "above 0; got 0.0"),
    ("lr_decay", 1.1, "at most 1; got 1.1"),
    ("lr_decay_epochs", 0, "a number of epochs, at least 1, or a list of such numbers; got 0"),
    ("lr_decay_epochs", (3, 0), "a number of epochs, at least 1, or a list of such numbers; got"),
    ("warmup_epochs", -1, "at least 0; got -1"),
    ("warmup_epochs", 50, "below epochs = 50; got 50"),
]


def test_invalid_values_are_rejected() -> None:
    wrong = {}
    for name, value, expected in INVALID:
        with pytest.raises(InputError) as caught:
            replace(PLAIN, **{name: value})
        message = str(caught.value)
        if f"{name} of the training configuration must be " not in message or (
            expected not in message
        ):
            wrong[f"{name} = {value}"] = message
    assert not wrong


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"schedule": "step", "lr_decay": 0.1}, "has no key 'lr_decay_epochs', which the schedule 'step' needs"),
        ({"schedule": "exponential"}, "has no key 'lr_decay', which the schedule 'exponential' needs"),
        ({"lr_decay": 0.1}, "lr_decay of the training configuration belongs to the schedule 'step' or 'exponential'; got the schedule 'constant'"),
        ({"schedule": "exponential", "lr_decay": 0.1, "lr_decay_epochs": 2}, "lr_decay_epochs of the training configuration belongs to the schedule 'step'"),
        ({"schedule": "inverse-square-root", "warmup_epochs": 2}, "always warms up for one epoch; got 2"),
        ({"schedule": "cosine", "steps": 9}, "steps of the training configuration has no effect on the schedule 'cosine'"),
    ],
)  # fmt: skip
def test_keys_must_fit_the_schedule(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(PLAIN, **keys)
    assert message in str(caught.value)


def test_unknown_keys_and_formats_are_rejected() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'epochs'"):
        TrainingConfig.from_dict({**PLAIN.to_dict(), "epoch": 3})
    with pytest.raises(InputError, match="has format 0; expected 1"):
        TrainingConfig.from_dict({**PLAIN.to_dict(), "format": 0})
