"""A recipe: all that settles a trained model. Its id is a hash of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from oodometer.core.errors import InputError, UnknownName

OptimizerName = Literal["adam", "sgd"]
Schedule = Literal["constant", "inverse-square-root", "cosine"]
Augment = Literal["none", "randaugment", "augmix"]
TrainedPart = Literal["whole", "head"]
# Raised when the same recipe would train another model than it did before.
RECIPE_FORMAT = 1
# Key of each setting on disk, in TOML files and in the hash that is a model's id, with the attribute
# that holds it. Keys are data: an attribute may be renamed, a key may not.
KEYS: dict[str, str] = {
    "group": "group",
    "domains": "domains",
    "architecture": "architecture",
    "settings": "settings",
    "seed": "seed",
    "batch": "batch",
    "lr": "lr",
    "optimizer": "optimizer",
    "momentum": "momentum",
    "weight_decay": "weight_decay",
    "schedule": "schedule",
    "epochs": "epochs",
    "stop_at": "stop_at",
    "label_noise": "label_noise",
    "augment": "augment",
    "few_shot": "few_shot",
    "part": "part",
}


@dataclass(frozen=True)
class TrainingConfig:
    """What a model is trained on, what it is made of, and how it is trained.

    group, domains   the domain group, and those of its domains that are trained on
    architecture     its name, and `settings`: width, depth, dropout, …
    label_noise      the share of training labels that are drawn anew from all classes
    augment          how training images are changed; `few_shot` how many rows a class are kept
    part             whether the whole network learns, or the head alone; then all before it is in
                     evaluation mode, and the dropout is that before the head
    stop_at          the training cross-entropy that ends the training; without it, all epochs
    """

    group: str
    domains: tuple[str, ...]
    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch: int = 64
    lr: float = 1e-3
    optimizer: OptimizerName = "adam"
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    epochs: int = 50
    stop_at: float | None = 0.05
    label_noise: float = 0.0
    augment: Augment = "none"
    few_shot: int | None = None
    part: TrainedPart = "whole"

    def __post_init__(self) -> None:
        object.__setattr__(self, "domains", tuple(self.domains))
        object.__setattr__(self, "settings", dict(sorted(self.settings.items())))
        for name in _FLOAT_KEYS:  # 1 and 1.0 are one recipe, and must be one hash
            if type(getattr(self, name)) is int:
                object.__setattr__(self, name, float(getattr(self, name)))
        for name, kinds in _CHOICES.items():
            if getattr(self, name) not in kinds:
                raise UnknownName(name, str(getattr(self, name)), kinds)
        if not self.domains:
            raise InputError("A recipe has one training domain or more; got none.")
        _check_numbers(self)

    def __hash__(self) -> int:
        return hash(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Plain values by the keys of `KEYS`, for JSON and for the id."""
        values = {key: getattr(self, attribute) for key, attribute in KEYS.items()}
        return {
            **values,
            "domains": list(self.domains),
            "settings": dict(self.settings),
            "format": RECIPE_FORMAT,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """The recipe of plain values; a key that it has not is named."""
        for key in values:
            if key not in (*KEYS, "format"):
                raise UnknownName("key of a recipe", key, list(KEYS))
        if values.get("format", RECIPE_FORMAT) != RECIPE_FORMAT:
            raise InputError(
                f"The recipe has the format {values['format']}, and {RECIPE_FORMAT} was expected. "
                "It was written by another version; train it anew."
            )
        return cls(**{KEYS[key]: value for key, value in values.items() if key != "format"})

    def to_json(self) -> str:
        """The same bytes for the same recipe, whatever the machine."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def id(self) -> str:
        """Sixteen letters that no other recipe has."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()


_FLOAT_KEYS = ("lr", "momentum", "weight_decay", "stop_at", "label_noise")
_CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(OptimizerName),
    "schedule": get_args(Schedule),
    "augment": get_args(Augment),
    "part": get_args(TrainedPart),
}


def _check_numbers(config: TrainingConfig) -> None:
    rules = {
        "batch": (config.batch >= 1, "1 or more"),
        "lr": (0 < config.lr < math.inf, "finite and above 0"),
        "weight_decay": (0 <= config.weight_decay < math.inf, "finite and 0 or more"),
        "momentum": (0 <= config.momentum < 1, "from 0 to below 1"),
        "epochs": (config.epochs >= 1, "1 or more"),
        "stop_at": (
            config.stop_at is None or 0 < config.stop_at < math.inf,
            "finite and above 0, or left out",
        ),
        "label_noise": (0 <= config.label_noise <= 1, "a share from 0 to 1"),
        "few_shot": (config.few_shot is None or config.few_shot >= 1, "1 or more, or left out"),
    }
    for name, (holds, right) in rules.items():
        if not holds:
            raise InputError(f"{name} must be {right}; got {getattr(config, name)!r}.")
