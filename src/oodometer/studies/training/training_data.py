"""What a recipe's model learns from: its domains' rows in memory, as numbers, and their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Keys, Kind, keys
from oodometer.core.protocols import Dataset
from oodometer.core.softmax_kernels import Array, Ints
from oodometer.data._concat_dataset import Joined
from oodometer.studies.domains.group import Group
from oodometer.studies.training.architectures.base import Shape
from oodometer.studies.training.build import architecture_of
from oodometer.studies.training.config import Recipe
from oodometer.studies.training.sampling import few_of_each, with_noise
from oodometer.studies.training.tokenizer import Tokens

TEXTS: tuple[Kind, ...] = ("text", "pairs")
TOKENS_FILE = "tokens.json"


@dataclass(frozen=True, eq=False)
class Material:
    """All rows of the training domains; images stay uint8, texts are token numbers."""

    inputs: Array
    labels: Ints
    keys: Keys
    shape: Shape
    tokens: Tokens | None = None

    def take(self, rows: Ints) -> Array:
        """Some rows; texts only as long as the longest of them."""
        some: Array = self.inputs[rows]
        return some if self.tokens is None else self.tokens.trimmed(some)

    @property
    def files(self) -> dict[str, bytes]:
        """What must lie beside the weights."""
        return {} if self.tokens is None else {TOKENS_FILE: self.tokens.to_bytes()}


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that a recipe keeps, by number, the labels that it learns, and facts of both."""

    rows: Ints
    labels: Ints
    facts: Mapping[str, float]


def gathered(recipe: Recipe, group: Group) -> Material:
    """The rows of a recipe's domains; the same for all recipes of the same domains and settings."""
    parts = [checked(group, name) for name in recipe.domains]
    whole = Joined(" + ".join(recipe.domains), tuple(parts))
    _check_alike(recipe.domains, parts)
    inputs, tokens = whole.take(slice(None)), None
    # Not the dataset's own, for which files would be read twice.
    examples = keys(inputs)
    if whole.kind in TEXTS:
        tokens = architecture_of(recipe, whole.kind).tokens(inputs)
        inputs = tokens.encode(inputs)
    vocabulary = 0 if tokens is None else tokens.size
    _check_several(recipe, group, np.asarray(whole.labels))
    shape = Shape(whole.kind, len(group.classes), _size(whole.kind, inputs), vocabulary)
    return Material(inputs, np.asarray(whole.labels, dtype=np.int64), examples, shape, tokens)


def sampled(material: Material, recipe: Recipe) -> Sample:
    """The rows that a recipe keeps, and their labels with its noise."""
    labels, classes = material.labels, material.shape.classes
    rows: Ints = np.arange(len(labels))
    facts: dict[str, float] = {}
    if recipe.few_shot is not None:
        rows = few_of_each(labels, material.keys, count=recipe.few_shot, seed=recipe.seed)
        counts = np.bincount(labels[rows], minlength=classes)
        facts["short_classes"] = float((counts < recipe.few_shot).sum())
    true = labels[rows]
    noisy = with_noise(
        true, material.keys[rows], classes=classes, share=recipe.label_noise, seed=recipe.seed
    )
    facts |= {"rows": float(len(rows)), "labels_changed": float((noisy != true).mean())}
    return Sample(rows, noisy, facts)


def checked(group: Group, name: str) -> Dataset:
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


def _check_several(recipe: Recipe, group: Group, labels: Ints) -> None:
    """Rows of two classes or more: of one alone there is nothing to tell apart."""
    if len(labels) and (labels == labels[0]).all():
        raise InputError(
            f"All {len(labels)} training rows of {' and '.join(recipe.domains)} of {group.name!r} "
            f"are of the class {group.classes[labels[0]]!r}; two classes or more were expected. "
            "Give rows of others, or train on more domains at once."
        )


def _check_alike(names: Sequence[str], parts: Sequence[Dataset]) -> None:
    """Arrays of one shape a row, for a network has one."""
    shapes = [getattr(part.take(slice(0, 1)), "shape", ())[1:] for part in parts]
    for name, shape in zip(names, shapes, strict=True):
        if shape != shapes[0]:
            raise InputError(
                f"Rows of the domain {name!r} have the shape {shape}, those of {names[0]!r} "
                f"{shapes[0]}. A network takes one shape; bring them to one size and colour."
            )


def _size(kind: Kind, inputs: Array) -> tuple[int, ...]:
    """As `Shape` has it: channels first, the features of a vector, the length of a text."""
    if kind == "images":
        height, width, *channels = inputs.shape[1:]
        return (channels[0] if channels else 1, height, width)
    return (inputs.shape[-1],) if kind in TEXTS else inputs.shape[1:]
