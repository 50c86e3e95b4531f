"""What a recipe's model learns from: its domains' rows in memory, as numbers, and their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, RowHashes, hash_rows
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import ConcatDataset
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import get_architecture
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.sampling import add_label_noise, sample_per_class
from oodometer.studies.training.tokenizer import Tokenizer

TEXT_KINDS: tuple[InputKind, ...] = ("text", "pairs")
TOKENS_FILE = "tokens.json"


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """All rows of the training domains; images stay uint8, texts are token numbers."""

    inputs: Array
    labels: Ints
    keys: RowHashes
    shape: InputShape
    tokenizer: Tokenizer | None = None

    def take(self, rows: Ints) -> Array:
        """Some rows; texts only as long as the longest of them."""
        some: Array = self.inputs[rows]
        return some if self.tokenizer is None else self.tokenizer.trim_padding(some)

    @property
    def files(self) -> dict[str, bytes]:
        """What must lie beside the weights."""
        return {} if self.tokenizer is None else {TOKENS_FILE: self.tokenizer.to_bytes()}


@dataclass(frozen=True, eq=False)
class TrainingSample:
    """The rows that a recipe keeps, by number, the labels that it learns, and facts of both."""

    rows: Ints
    labels: Ints
    facts: Mapping[str, float]


def load_training_set(config: TrainingConfig, group: DomainGroup) -> TrainingSet:
    """The rows of a recipe's domains; the same for all recipes of the same domains and settings."""
    parts = [load_training_domain(group, name) for name in config.domains]
    whole = ConcatDataset(" + ".join(config.domains), tuple(parts))
    _check_same_shape(config.domains, parts)
    inputs, tokens = whole.take(slice(None)), None
    # Not the dataset's own, for which files would be read twice.
    examples = hash_rows(inputs)
    if whole.kind in TEXT_KINDS:
        tokens = get_architecture(config, whole.kind).tokens(inputs)
        inputs = tokens.encode(inputs)
    vocabulary = 0 if tokens is None else tokens.size
    _check_class_count(config, group, np.asarray(whole.labels))
    shape = InputShape(whole.kind, len(group.classes), _input_size(whole.kind, inputs), vocabulary)
    return TrainingSet(inputs, np.asarray(whole.labels, dtype=np.int64), examples, shape, tokens)


def draw_sample(training_data: TrainingSet, config: TrainingConfig) -> TrainingSample:
    """The rows that a recipe keeps, and their labels with its noise."""
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
    return TrainingSample(rows, noisy, facts)


def load_training_domain(group: DomainGroup, name: str) -> Dataset:
    """The training rows of a domain: some, labelled with the group's classes, of a kind to learn."""
    data = group.domain(name, "train")
    labels = np.asarray([] if data.labels is None else data.labels)
    if not len(data) or len(labels) != len(data):
        what = "no labels" if len(data) else "no rows"
        raise InputError(
            f"The domain {name!r} of {group.name!r} has {what} to train on. Give labelled rows."
        )
    if data.kind == "table":
        raise InputError(
            f"The domain {name!r} of {group.name!r} is a table, and networks learn images, texts, "
            'pairs or vectors. Name columns of numbers as its vectors: vectors = ["age", …].'
        )
    bad = np.flatnonzero((labels < 0) | (labels >= len(group.classes)))
    if len(bad):
        raise InputError(
            f"Row {bad[0]} of the domain {name!r} has the label {labels[bad[0]]}, and {group.name!r} "
            f"has {len(group.classes)} classes, 0 to {len(group.classes) - 1}. Correct the label."
        )
    return data


def _check_class_count(config: TrainingConfig, group: DomainGroup, labels: Ints) -> None:
    """Rows of two classes or more: of one alone there is nothing to tell apart."""
    if len(labels) and (labels == labels[0]).all():
        raise InputError(
            f"All {len(labels)} training rows of {' and '.join(config.domains)} of {group.name!r} "
            f"are of the class {group.classes[labels[0]]!r}; two classes or more were expected. "
            "Give rows of others, or train on more domains at once."
        )


def _check_same_shape(names: Sequence[str], parts: Sequence[Dataset]) -> None:
    """Arrays of one shape a row, for a network has one."""
    shapes = [getattr(part.take(slice(0, 1)), "shape", ())[1:] for part in parts]
    for name, shape in zip(names, shapes, strict=True):
        if shape != shapes[0]:
            raise InputError(
                f"Rows of the domain {name!r} have the shape {shape}, those of {names[0]!r} "
                f"{shapes[0]}. A network takes one shape; bring them to one size and colour."
            )


def _input_size(kind: InputKind, inputs: Array) -> tuple[int, ...]:
    """As `InputShape` has it: channels first, the features of a vector, the length of a text."""
    if kind == "images":
        height, width, *channels = inputs.shape[1:]
        return (channels[0] if channels else 1, height, width)
    return (inputs.shape[-1],) if kind in TEXT_KINDS else inputs.shape[1:]
