"""Training configuration of one model; the hash of the configuration is the id of the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies._toml import Field, NonEmpty, PositiveInt, validate_fields

OptimizerName = Literal["adam", "sgd"]
Schedule = Literal["constant", "inverse-square-root", "cosine"]
Augment = Literal["none", "randaugment", "augmix"]
TrainedPart = Literal["whole", "head"]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Version of the training code; increment it if the same configuration now gives another model.
RECIPE_FORMAT = 1
# Maps the key of each setting to the attribute that holds it. The keys are used in stored files, in
# TOML files and in the hash that forms a model's id. An attribute can be renamed, but a key must
# stay, because otherwise all ids would change.
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
    """Training data, architecture and hyperparameters of one model.

    group          name of the domain group
    domains        domains of the group that the model is trained on
    architecture   name of the architecture
    settings       settings of the architecture, such as width, depth and dropout
    batch          batch size
    lr             learning rate
    schedule       schedule of the learning rate
    epochs         maximum number of epochs
    stop_at        training stops if the training cross-entropy is at most this value; None trains
                   for all epochs
    label_noise    fraction of training labels that are replaced by random classes
    augment        augmentation of training images
    few_shot       number of training rows used per class; None uses all rows
    part           "whole" trains all weights, "head" only the last linear layer; the rest of the
                   network is then in evaluation mode, so dropout applies only before the head
    """

    group: str
    domains: NonEmpty[str]
    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch: PositiveInt = 64
    lr: PositiveFloat = 1e-3
    optimizer: OptimizerName = "adam"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    schedule: Schedule = "constant"
    epochs: PositiveInt = 50
    stop_at: PositiveFloat | None = 0.05
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    augment: Augment = "none"
    few_shot: PositiveInt | None = None
    part: TrainedPart = "whole"

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", dict(sorted(self.settings.items())))
        # This also converts 1 to 1.0 in float fields, so that both give the same hash.
        validate_fields(self, "the training configuration")

    def __hash__(self) -> int:
        return hash(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, with the keys of `KEYS`, for JSON and for the id."""
        values = {key: getattr(self, attribute) for key, attribute in KEYS.items()}
        return {
            **values,
            "domains": list(self.domains),
            "settings": dict(self.settings),
            "format": RECIPE_FORMAT,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Return the configuration for the output of `to_dict`; raise if a key is unknown."""
        for key in values:
            if key not in (*KEYS, "format"):
                raise UnknownName("key of a training configuration", key, list(KEYS))
        if values.get("format", RECIPE_FORMAT) != RECIPE_FORMAT:
            raise InputError(
                f"The training configuration has format {values['format']}; expected "
                f"{RECIPE_FORMAT}. It was written by another version; train the model again."
            )
        return cls(**{KEYS[key]: value for key, value in values.items() if key != "format"})

    def to_json(self) -> str:
        """Return the configuration as JSON; equal configurations give equal bytes everywhere."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def id(self) -> str:
        """Model id: 16 hexadecimal digits of a hash of the configuration."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()
