"""Training configuration of one model; the hash of the configuration is the id of the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies._toml import Field, NonEmpty, PositiveInt, freeze, validate_fields
from oodometer.studies.training.architectures import pin_settings

OptimizerName = Literal["adam", "sgd", "adamw"]
Schedule = Literal["constant", "inverse-square-root", "cosine", "step", "exponential"]
Augment = Literal["none", "randaugment", "augmix", "augmix-jsd", "flip-crop"]
TrainedPart = Literal["whole", "head", "none"]
KeptEpoch = Literal["last", "best"]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
LossWeight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# Weight of the Jensen–Shannon loss in the AugMix paper.
AUGMIX_JSD_WEIGHT = 12.0
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
    "coral": "coral",
    "jsd": "jsd",
    "lr_decay": "lr_decay",
    "lr_decay_epochs": "lr_decay_epochs",
    "warmup_epochs": "warmup_epochs",
    "keep": "keep",
    "steps": "steps",
}
# Keys that are left out of stored files and of the hash if they have their default values, because
# they were added when models already existed.
OPTIONAL_KEYS = ("coral", "jsd", "lr_decay", "lr_decay_epochs", "warmup_epochs", "keep", "steps")
# Architecture whose body is frozen and whose features are cached, so that only a head is trained.
CACHED_BODY_ARCHITECTURE = "head"
# Schedules that need a key of the learning rate; with other schedules, the key is not allowed.
SCHEDULES_WITH_KEY: dict[str, tuple[Schedule, ...]] = {
    "lr_decay": ("step", "exponential"),
    "lr_decay_epochs": ("step",),
}


@dataclass(frozen=True)
class TrainingConfig:
    """Training data, architecture and hyperparameters of one model.

    group             name of the domain group
    domains           domains of the group that the model is trained on
    architecture      name of the architecture
    settings          settings of the architecture, such as width, depth and dropout
    batch             batch size
    lr                learning rate
    schedule          schedule of the learning rate
    epochs            maximum number of epochs
    steps             maximum number of gradient steps, which may end within an epoch; None trains
                      for all epochs
    stop_at           training stops if the training cross-entropy is at most this value; None
                      trains for all epochs
    label_noise       fraction of training labels that are replaced by random classes
    augment           augmentation of training images
    few_shot          number of training rows used per class; None uses all rows
    part              "whole" trains all weights, "head" only the head, which is the last linear
                      layer or the MLP of an encoder; the rest of the network is then in evaluation
                      mode, so dropout applies only before and inside the head. "none" trains
                      nothing: a pretrained network is only evaluated. The architecture "head" always
                      has "head"
    coral             weight of the Deep CORAL loss over the training domains
    jsd               weight of the Jensen–Shannon loss if `augment` is "augmix-jsd"
    lr_decay          factor of the learning rate at each drop of the schedules "step" and
                      "exponential"
    lr_decay_epochs   schedule "step": number of epochs between two drops, or the list of epochs
                      after which the learning rate drops
    warmup_epochs     number of epochs in which the learning rate rises linearly from zero
    keep              epoch whose weights are kept: "last", or "best" for the epoch with the highest
                      accuracy on held-out rows of the training domains
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
    coral: LossWeight = 0.0
    jsd: LossWeight = AUGMIX_JSD_WEIGHT
    lr_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    lr_decay_epochs: Annotated[
        PositiveInt | NonEmpty[PositiveInt] | None,
        Field(description="a number of epochs, at least 1, or a list of such numbers"),
    ] = None
    warmup_epochs: Annotated[int, Field(ge=0)] = 0
    keep: KeptEpoch = "last"
    steps: PositiveInt | None = None

    def __post_init__(self) -> None:
        pinned = pin_settings(self.architecture, self.settings)
        settings = {name: freeze(value) for name, value in sorted(pinned.items())}
        object.__setattr__(self, "settings", settings)
        # This also converts 1 to 1.0 in float fields, so that both give the same hash.
        validate_fields(self, "the training configuration")
        if self.has_cached_body:
            self._check_cached_body()
            object.__setattr__(self, "part", "head")
        self._check_losses()
        self._check_schedule()
        self._check_keep()

    @property
    def has_cached_body(self) -> bool:
        """Return whether a head is trained on the cached features of a body."""
        return self.architecture == CACHED_BODY_ARCHITECTURE

    @property
    def architecture_name(self) -> str:
        """Name of the architecture in tables; heads on different bodies have different names."""
        if self.has_cached_body:
            return f"{self.architecture} on {self.settings['body']}"
        return self.architecture

    def _check_cached_body(self) -> None:
        """Raise if a value needs the body, or nothing to be trained."""
        if self.part == "none":
            raise InputError(
                f"part = 'none' trains nothing, and the architecture {self.architecture!r} has no "
                "pretrained head. Remove part."
            )
        if self.augment == "augmix-jsd":
            raise InputError(
                f"augment = 'augmix-jsd' is not available for the architecture "
                f"{self.architecture!r}, whose loss is the cross-entropy. Use augmix."
            )

    def _check_keep(self) -> None:
        """Raise if the best epoch is to be kept, and other values contradict this."""
        if self.keep == "best" and self.stop_at is not None:
            raise InputError(
                'keep = "best" of the training configuration needs stop_at = "none", because the '
                f"best epoch need not have reached a training loss; got stop_at = {self.stop_at:g}."
            )
        if self.keep == "best" and self.part == "none":
            raise InputError(
                'keep = "best" of the training configuration has no effect with part = "none", which '
                "trains nothing. Remove keep."
            )

    def _check_losses(self) -> None:
        """Raise if a weight of a loss does not fit the other values."""
        if self.jsd != AUGMIX_JSD_WEIGHT and self.augment != "augmix-jsd":
            raise InputError(
                f'jsd of the training configuration needs augment = "augmix-jsd"; got jsd = '
                f"{self.jsd:g} and augment = {self.augment!r}. Change augment or remove jsd."
            )
        if self.coral and len(self.domains) < 2:
            raise InputError(
                "coral of the training configuration needs at least two training domains; got coral "
                f"= {self.coral:g} and domains = {list(self.domains)!r}. Train on several domains "
                'together, for example with domains = "all-but-one", or set coral = 0.'
            )
        if self.coral and self.batch < 2 * len(self.domains):
            raise InputError(
                "batch of the training configuration must be at least "
                f"{2 * len(self.domains)} with coral, two rows for each of {len(self.domains)} "
                f"training domains; got {self.batch}."
            )

    def _check_schedule(self) -> None:
        """Raise if the schedule lacks a key, or if a key has no effect on it."""
        for key, schedules in SCHEDULES_WITH_KEY.items():
            given = getattr(self, key) is not None
            if self.schedule in schedules and not given:
                raise InputError(
                    f"The training configuration has no key {key!r}, which the schedule "
                    f"{self.schedule!r} needs. Add {key} = …."
                )
            if given and self.schedule not in schedules:
                raise InputError(
                    f"{key} of the training configuration belongs to the schedule "
                    f"{' or '.join(map(repr, schedules))}; got the schedule {self.schedule!r}. "
                    f"Change the schedule, or remove {key}."
                )
        if self.warmup_epochs and self.schedule == "inverse-square-root":
            raise InputError(
                "warmup_epochs of the training configuration must be 0 with the schedule "
                "'inverse-square-root', which always warms up for one epoch; got "
                f"{self.warmup_epochs}."
            )
        if self.steps is not None and self.schedule == "cosine":
            raise InputError(
                "steps of the training configuration has no effect on the schedule 'cosine', which "
                f"falls to 0 over all epochs; got {self.steps}. Change the schedule, or remove steps."
            )
        if self.warmup_epochs >= self.epochs:
            raise InputError(
                f"warmup_epochs of the training configuration must be below epochs = {self.epochs}; "
                f"got {self.warmup_epochs}."
            )

    def __hash__(self) -> int:
        return hash(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, with the keys of `KEYS`, for JSON and for the id."""
        values = {key: getattr(self, attribute) for key, attribute in KEYS.items()}
        for key in OPTIONAL_KEYS:
            if values[key] == getattr(type(self), KEYS[key]):
                del values[key]
        values = {**_as_lists(values), "settings": _as_lists(self.settings)}
        return {**values, "format": RECIPE_FORMAT}

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


def _as_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a mapping in which tuples are lists, as in JSON."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }
