"""Training set of one configuration: its rows and labels as arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes, hash_rows
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import ConcatDataset
from oodometer.models.bodies import Body
from oodometer.models.feature_cache import FeatureCache
from oodometer.models.heads import DrawnFeatures, FeatureDataset, content_keys, transform_key
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import first_half
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.augment import augmentation
from oodometer.studies.training.build import get_architecture
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.sampling import add_label_noise, sample_per_class
from oodometer.studies.training.tokenizer import Tokenizer

TEXT_KINDS: tuple[InputKind, ...] = ("text", "pairs")
TOKENS_FILE = "tokens.json"
# Name of the file with the fingerprint of the frozen body, if only a head was trained and saved.
BODY_FILE = "body.txt"
# Namespace of the random streams of augmented rows.
AUGMENTATION_STREAM = "augment"


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """All rows of the training domains.

    inputs      images as uint8, texts as token ids, vectors as numbers
    keys        hash of the content of each row
    shape       shape of the inputs, and the number of classes
    domains     index of each row's domain in the list of training domains
    tokenizer   tokenizer of the texts; None for other inputs
    body        fingerprint of the body if the inputs are features, else None
    augmented   features of augmented copies of all rows, which the epochs use in turn; empty if the
                rows are not features or are not augmented
    """

    inputs: Array
    labels: Ints
    keys: RowHashes
    shape: InputShape
    domains: Ints
    tokenizer: Tokenizer | None = None
    body: str | None = None
    augmented: tuple[Array, ...] = ()

    def at_epoch(self, epoch: int) -> TrainingSet:
        """Return the training set with the inputs of an epoch; epochs are counted from 1."""
        if not self.augmented:
            return self
        return replace(self, inputs=self.augmented[(epoch - 1) % len(self.augmented)])

    def take(self, rows: Ints) -> Array:
        """Return the selected rows; texts are shortened to the longest selected text."""
        inputs: Array = self.inputs[rows]
        return inputs if self.tokenizer is None else self.tokenizer.trim_padding(inputs)

    @property
    def files(self) -> dict[str, bytes]:
        """Files to save with the weights, as bytes keyed by file name."""
        if self.body is not None:
            return {BODY_FILE: self.body.encode()}
        return {} if self.tokenizer is None else {TOKENS_FILE: self.tokenizer.to_bytes()}


@dataclass(frozen=True, eq=False)
class TrainingSample:
    """Row numbers, (noisy) labels and domains of the rows that a model is trained on, and facts."""

    rows: Ints
    labels: Ints
    domains: Ints
    facts: Mapping[str, float]


def load_training_set(config: TrainingConfig, group: DomainGroup) -> TrainingSet:
    """Load all rows of the training domains of a configuration, before rows are sampled.

    If the body of the network is cached, the inputs are features.
    """
    parts = [load_training_domain(group, name) for name in config.domains]
    whole = ConcatDataset(" + ".join(config.domains), tuple(parts))
    _check_same_shape(config.domains, parts)
    if config.has_cached_body:
        _check_class_count(config, group, np.asarray(whole.labels))
        return _load_features(config, group, whole)
    inputs = whole.take(slice(None))
    # Hash the loaded rows, because whole.keys would read the files a second time.
    keys = hash_rows(inputs)
    tokenizer = None
    if whole.kind in TEXT_KINDS:
        tokenizer = get_architecture(config, whole.kind).tokens(inputs)
        inputs = tokenizer.encode(inputs)
    _check_class_count(config, group, np.asarray(whole.labels))
    shape = InputShape(
        kind=whole.kind,
        classes=len(group.classes),
        size=_input_size(whole.kind, inputs),
        vocabulary=0 if tokenizer is None else tokenizer.size,
        pad=0 if tokenizer is None else tokenizer.pad,
    )
    return TrainingSet(
        inputs=inputs,
        labels=np.asarray(whole.labels, dtype=np.int64),
        keys=keys,
        shape=shape,
        domains=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        tokenizer=tokenizer,
    )


def cache_features(config: TrainingConfig, group: DomainGroup, domain: str) -> None:
    """Compute the features of a training domain that are not in the cache yet."""
    dataset = ConcatDataset(domain, (load_training_domain(group, domain),))
    _load_features(config, group, dataset)


def _load_features(
    config: TrainingConfig, group: DomainGroup, dataset: ConcatDataset
) -> TrainingSet:
    """Return the features of the training rows and of their augmented copies."""
    body = get_architecture(config, group.kind).open_body()
    cache = FeatureCache.default()
    inputs = np.asarray(FeatureDataset(dataset, body, cache).take(slice(None)))
    return TrainingSet(
        inputs=inputs,
        labels=np.asarray(dataset.labels, dtype=np.int64),
        keys=content_keys(dataset, cache),
        shape=InputShape("vectors", len(group.classes), inputs.shape[1:]),
        domains=np.repeat(np.arange(len(dataset.parts)), [len(part) for part in dataset.parts]),
        body=body.fingerprint,
        augmented=tuple(_augmented_features(config, dataset, body, cache)),
    )


def _augmented_features(
    config: TrainingConfig, dataset: Dataset, body: Body, cache: FeatureCache | None
) -> Iterator[Array]:
    """Yield the features of each augmented copy of all rows.

    The copies do not depend on the seed of the configuration, so that all heads share them.
    """
    change = augmentation(config.augment)
    if change is None:
        return
    if dataset.kind not in change.kinds:
        raise InputError(
            f"{config.augment} applies to images, and {config.group!r} holds {dataset.kind}. Set "
            'augment = "none".'
        )
    drawn = DrawnFeatures(
        dataset, body, cache, change, transform_key(change), namespace=AUGMENTATION_STREAM
    )
    for draw in range(1, get_architecture(config, dataset.kind).draws + 1):
        yield drawn.read(np.arange(len(dataset)), draw)


def load_input_shape(config: TrainingConfig, group: DomainGroup) -> InputShape:
    """Return the shape of images or vectors of the training domains; read one row per domain."""
    parts = [load_training_domain(group, name) for name in config.domains]
    _check_same_shape(config.domains, parts)
    size = _input_size(group.kind, parts[0].take(slice(0, 1)))
    return InputShape(kind=group.kind, classes=len(group.classes), size=size)


def load_held_out_rows(
    config: TrainingConfig, group: DomainGroup, training_set: TrainingSet
) -> tuple[TrainingSet, TrainingSample]:
    """Load the held-out rows of the training domains, with their labels.

    They are the first half of the test split of each domain, which a study uses as the labelled
    source of the model and on which it never tests the model.
    """
    parts = []
    for name in config.domains:
        test = group.domain(name, "test")
        rows = first_half(test.keys)
        if not len(rows):
            raise InputError(
                f'keep = "{config.keep}" needs held-out rows, which are the first half of the test '
                f"split; this half of the {len(test)} test rows of the domain {name!r} of "
                f"{group.name!r} is empty. Add test rows."
            )
        parts.append(test.rows(rows))
    whole = ConcatDataset(" + ".join(config.domains), tuple(parts))
    inputs: Inputs = whole.take(slice(None))
    if config.has_cached_body:
        body = get_architecture(config, group.kind).open_body()
        inputs = np.asarray(FeatureDataset(whole, body, FeatureCache.default()).take(slice(None)))
    if training_set.tokenizer is not None:
        inputs = training_set.tokenizer.encode(inputs)
    elif inputs.shape[1:] != training_set.inputs.shape[1:]:
        raise InputError(
            f"Test rows of {' + '.join(config.domains)} of {group.name!r} have shape "
            f"{inputs.shape[1:]}, and training rows have {training_set.inputs.shape[1:]}. A network "
            "accepts one shape; set the shape of the group."
        )
    labels = np.asarray(whole.labels, dtype=np.int64)
    domains = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    held_out = replace(training_set, inputs=inputs, labels=labels, keys=whole.keys, domains=domains)
    return held_out, TrainingSample(np.arange(len(labels)), labels, domains, {})


def draw_sample(training_data: TrainingSet, config: TrainingConfig) -> TrainingSample:
    """Apply the few-shot selection and the label noise of a configuration to a training set."""
    labels, classes = training_data.labels, training_data.shape.classes
    rows: Ints = np.arange(len(labels))
    facts: dict[str, float] = {}
    if config.few_shot is not None:
        rows = sample_per_class(labels, training_data.keys, count=config.few_shot, seed=config.seed)
        counts = np.bincount(labels[rows], minlength=classes)
        facts["short_classes"] = float((counts < config.few_shot).sum())
    true = labels[rows]
    noisy = add_label_noise(
        true, training_data.keys[rows], classes=classes, share=config.label_noise, seed=config.seed
    )
    facts |= {"rows": float(len(rows)), "labels_changed": float((noisy != true).mean())}
    domains = training_data.domains[rows]
    if config.coral:
        _check_domain_rows(config, domains)
    return TrainingSample(rows, noisy, domains, facts)


def _check_domain_rows(config: TrainingConfig, domains: Ints) -> None:
    """Raise if a training domain has fewer than two rows, which have no covariance."""
    counts = np.bincount(domains, minlength=len(config.domains))
    if counts.min() < 2:
        raise InputError(
            f"coral needs at least two training rows of each domain; the domain "
            f"{config.domains[counts.argmin()]!r} of {config.group!r} has {counts.min()} (few_shot "
            f"is {config.few_shot}). Use more rows, or set coral = 0."
        )


def load_training_domain(group: DomainGroup, name: str) -> Dataset:
    """Return the training split of a domain; raise if networks cannot be trained on it."""
    data = group.domain(name, "train")
    labels = np.asarray([] if data.labels is None else data.labels)
    if not len(data) or len(labels) != len(data):
        missing = "no labels" if len(data) else "no rows"
        raise InputError(
            f"The domain {name!r} of {group.name!r} has {missing} to train on. Add labelled rows."
        )
    if data.kind == "table":
        raise InputError(
            f"The domain {name!r} of {group.name!r} is a table, and networks accept images, texts, "
            'pairs or vectors. Use numeric columns as vectors: vectors = ["age", …].'
        )
    bad = np.flatnonzero((labels < 0) | (labels >= len(group.classes)))
    if len(bad):
        raise InputError(
            f"Row {bad[0]} of the domain {name!r} has the label {labels[bad[0]]}, and {group.name!r} "
            f"has {len(group.classes)} classes, 0 to {len(group.classes) - 1}. Correct the label."
        )
    return data


def _check_class_count(config: TrainingConfig, group: DomainGroup, labels: Ints) -> None:
    """Raise if all training rows belong to one class."""
    if len(labels) and (labels == labels[0]).all():
        raise InputError(
            f"All {len(labels)} training rows of {' and '.join(config.domains)} of {group.name!r} "
            f"are of the class {group.classes[labels[0]]!r}; expected at least two classes. Add "
            "rows of other classes, or train on several domains together."
        )


def _check_same_shape(names: Sequence[str], parts: Sequence[Dataset]) -> None:
    """Raise if the rows of different domains have different shapes."""
    shapes = [getattr(part.take(slice(0, 1)), "shape", ())[1:] for part in parts]
    for name, shape in zip(names, shapes, strict=True):
        if shape != shapes[0]:
            raise InputError(
                f"Rows of the domain {name!r} have shape {shape}, and those of {names[0]!r} have "
                f"{shapes[0]}. A network accepts one shape; set the shape of the group."
            )


def _input_size(kind: InputKind, inputs: Array) -> tuple[int, ...]:
    """Return `InputShape.size`: (channels, height, width), (d,) or (number of tokens,)."""
    if kind == "images":
        height, width, *channels = inputs.shape[1:]
        return (channels[0] if channels else 1, height, width)
    return (inputs.shape[-1],) if kind in TEXT_KINDS else inputs.shape[1:]
