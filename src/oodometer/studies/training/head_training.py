"""Train many heads on the features of a pretrained body at once, without a pool or domain group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import hash_rows
from oodometer.core.labels import encode_labels
from oodometer.core.optional_imports import torch_package
from oodometer.data import as_dataset
from oodometer.models.bodies import Body, open_body
from oodometer.models.feature_cache import FeatureCache
from oodometer.models.heads import DefaultCache, HeadModel, features
from oodometer.studies.training._train import TrainedModel
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.head import HeadType
from oodometer.studies.training.build import build_network
from oodometer.studies.training.config import CACHED_BODY_ARCHITECTURE, TrainingConfig
from oodometer.studies.training.stacked import (
    is_stackable,
    max_stack_models,
    stack_key,
    train_stack,
)
from oodometer.studies.training.training_data import TrainingSet


def train_heads(
    body: str | Path | Body,
    data: Any,
    settings: Sequence[Mapping[str, Any]],
    *,
    class_names: Sequence[str],
    labels: Any = None,
    head: HeadType = "linear",
    cache: FeatureCache | DefaultCache | None = "default",
) -> list[HeadModel]:
    """Train heads on the features of a body, many at once.

    Heads whose settings differ only in `seed`, `lr`, `weight_decay` and `label_noise` are trained
    together by batched matrix products. The weights equal those of separate training up to rounding
    errors.

    Parameters
    ----------
    body : str, Path or Body
        Pretrained body; see `oodometer.models.open_body`.
    data : object
        Labelled rows; anything that `as_dataset` accepts.
    settings : sequence of mappings
        Settings of each head, with the keys of a training configuration of a pool: `seed`, `lr`,
        `weight_decay`, `label_noise`, `few_shot`, `epochs`, `batch`, `optimizer`, `schedule`, …
    class_names : sequence of str
        Names of the classes in the order of their numbers.
    labels : array-like, optional
        True class of each row, as a number or a name. Default: the labels of `data`.
    head : {"linear", "mlp128", "mlp512"}
        Type of the heads.
    cache : FeatureCache or None
        Cache of features; see `oodometer.models.features`.

    Returns
    -------
    list of HeadModel
        Trained models, in the order of `settings`.

    Raises
    ------
    InputError
        If there are no labels, or if settings are invalid or cannot be stacked (CORAL,
        augmentation, `keep = "best"`).

    Examples
    --------
    >>> body = Body(name="same", kinds=("vectors",), width=16, fingerprint="1",
    ...             load=lambda: lambda rows: rows)
    >>> rows = np.repeat(np.eye(16), 4, axis=0)
    >>> settings = [{"seed": seed, "lr": 0.1, "epochs": 5} for seed in (0, 1)]
    >>> models = train_heads(body, rows, settings, class_names=["a", "b"],
    ...                      labels=np.arange(64) // 32, cache=None)
    >>> [float((model.classify(rows).classes == np.arange(64) // 32).mean()) for model in models]
    [1.0, 1.0]
    """
    opened = open_body(body)
    names = tuple(str(name) for name in class_names)
    training_set = _feature_set(opened, data, labels, names, cache)
    own = {"body": opened.location or opened.name, "head": head}
    configs = [
        TrainingConfig("heads", ("data",), CACHED_BODY_ARCHITECTURE, own, **values)
        for values in settings
    ]
    trained = _train_stacks(configs, training_set, names)
    store = FeatureCache.default() if cache == "default" else cache
    return [_to_model(model, opened, store) for model in trained]


def _feature_set(
    body: Body,
    data: Any,
    labels: Any,
    class_names: tuple[str, ...],
    cache: FeatureCache | DefaultCache | None,
) -> TrainingSet:
    dataset = as_dataset(data, labels=labels)
    inputs = features(body, dataset, cache=cache)
    encoded = encode_labels(dataset.labels, len(dataset), len(class_names), class_names)
    if encoded is None:
        raise InputError(f"The data {dataset.name!r} have no labels to train on. Pass labels=….")
    return TrainingSet(
        inputs=inputs,
        labels=np.asarray(encoded, dtype=np.int64),
        keys=hash_rows(inputs),
        shape=InputShape("vectors", len(class_names), inputs.shape[1:]),
        domains=np.zeros(len(inputs), dtype=np.int64),
        body=body.fingerprint,
    )


def _train_stacks(
    configs: Sequence[TrainingConfig], training_set: TrainingSet, class_names: tuple[str, ...]
) -> list[TrainedModel]:
    """Train configurations in stacks; return the models in the order of the configurations."""
    stacks: dict[str, list[int]] = {}
    for index, config in enumerate(configs):
        if config.augment != "none" or not is_stackable(config):
            raise InputError(
                'Heads are trained at once without augmentation, CORAL and keep = "best"; got '
                f"augment = {config.augment!r}, coral = {config.coral:g} and keep = "
                f"{config.keep!r}. Train such heads in a pool."
            )
        stacks.setdefault(stack_key(config), []).append(index)
    models: dict[int, TrainedModel] = {}
    for members in stacks.values():
        size = max_stack_models(configs[members[0]])
        for start in range(0, len(members), size):
            part = members[start : start + size]
            trained = train_stack([configs[index] for index in part], training_set, class_names)
            models |= dict(zip(part, trained, strict=True))
    return [models[index] for index in range(len(configs))]


def _to_model(trained: TrainedModel, body: Body, cache: FeatureCache | None) -> HeadModel:
    torch = torch_package()
    module = build_network(trained.recipe, trained.shape)
    module.load_state_dict({name: torch.from_numpy(w) for name, w in trained.weights.items()})
    return HeadModel(body, module, name=trained.recipe.id, class_names=trained.classes, cache=cache)
