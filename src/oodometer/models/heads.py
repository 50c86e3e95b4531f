"""Heads on pretrained bodies: features of datasets from the cache, and models body + head.

The features of a row are looked up by the hash of the row's content, so a row is passed to the body
once, whichever dataset it is in and however many heads read its features.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes, hash_rows, infer_kind
from oodometer.core.keys import settings_key
from oodometer.core.optional_imports import torch_package
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, ProgressCallback, Transform
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.atomic import atomic_write
from oodometer.data.dataset import (
    BaseDataset,
    ConcatDataset,
    InMemoryDataset,
    RowSelection,
    to_row_numbers,
)
from oodometer.data.file_hash import hash_files
from oodometer.models.base import ModelAdapter, RawOutputs
from oodometer.models.bodies import Body, open_body
from oodometer.models.feature_cache import (
    ROW_KEYS_FOLDER,
    CacheSection,
    FeatureCache,
    entry_hashes,
)
from oodometer.models.introspection.network import ForwardArguments, Network
from oodometer.models.torch import extract_scores

# Maximum number of rows in a block of the cache: 5 MB of 1280 features.
BLOCK_ROWS = 1024
# Number of rows per batch when the rows of a dataset are hashed.
HASH_BATCH_ROWS = 512
# Maximum number of datasets whose row keys a process keeps in memory.
MAX_KNOWN_DATASETS = 64
_KNOWN_ROW_KEYS: OrderedDict[tuple[FeatureCache | None, str], RowHashes] = OrderedDict()
DefaultCache = Literal["default"]


# Features of rows -------------------------------------------------------------------------------


def read_or_compute(
    section: CacheSection | None,
    keys: RowHashes,
    draws: Ints,
    compute: Callable[[Ints], Floats],
    progress: Callable[[int], None] | None = None,
) -> Floats:
    """Return the features of entries; compute and store those that are not in the section.

    `compute` returns the features of entries, given their positions in `keys`. Equal entries are
    computed once. Every BLOCK_ROWS computed rows are stored as a block. Without a section,
    everything is computed. `progress` is called with the number of available rows.
    """
    if section is None:
        return compute(np.arange(len(keys)))
    values, found = section.read(keys, draws)
    missing = np.flatnonzero(~found)
    _, first, inverse = np.unique(
        entry_hashes(keys[missing], draws[missing].astype(np.uint64)),
        return_index=True,
        return_inverse=True,
    )
    # In the order of the rows, so that consecutive rows are in the same block.
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    rows = missing[first[order]]
    parts = []
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        parts.append(compute(block))
        section.commit(keys[block], draws[block], parts[-1])
        if progress is not None:
            progress(int(found.sum()) + start + len(block))
    if parts:
        values[missing] = np.concatenate(parts)[rank[inverse]]
    return values


def input_form(inputs: Inputs) -> str:
    """Return the kind of inputs and, for arrays, their type and shape.

    Row keys are hashes of bytes, which can be equal for images of different shapes.

    >>> input_form(np.zeros((5, 8, 8), dtype=np.uint8)), input_form(["a text"])
    ('images |u1 (8, 8)', 'text')
    """
    kind = infer_kind(inputs)
    if isinstance(inputs, np.ndarray):
        return f"{kind} {inputs.dtype.str} {inputs.shape[1:]}"
    return kind


def open_section(
    body: Body, cache: FeatureCache | None, inputs: Inputs, transform: str = ""
) -> CacheSection | None:
    """Return the section for rows of the form of `inputs`; None without a cache."""
    if cache is None:
        return None
    form = input_form(inputs)
    return cache.section(body.name, body.key, form=form, width=body.width, transform=transform)


def batch_features(body: Body, inputs: Inputs, cache: FeatureCache | None) -> Floats:
    """Return the features of a batch of inputs; the cache is searched by the content of rows."""
    body.check_kind(inputs)
    section = open_section(body, cache, inputs)
    if section is None:
        return body.features(inputs)
    keys = hash_rows(inputs)
    return read_or_compute(
        section,
        keys,
        np.zeros(len(keys), np.int64),
        lambda rows: body.features(_pick(inputs, rows)),
    )


def _pick(inputs: Inputs, rows: Ints) -> Inputs:
    return [inputs[int(row)] for row in rows] if isinstance(inputs, list) else inputs[rows]


def content_keys(dataset: Dataset, cache: FeatureCache | None) -> RowHashes:
    """Return the hash of the content of each row, as `take` returns it.

    `Dataset.keys` of image files are hashes of the files, and those of corrupted rows are hashes of
    the original rows. The hashes are stored in the cache, so that the rows of a dataset whose
    features are cached need not be read.
    """
    if isinstance(dataset, InMemoryDataset):
        return dataset.keys
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([content_keys(part, cache) for part in dataset.parts])
    place = (cache, dataset.fingerprint)
    keys = _KNOWN_ROW_KEYS.get(place)
    if keys is None:
        keys = _KNOWN_ROW_KEYS[place] = _load_row_keys(dataset, cache)
    while len(_KNOWN_ROW_KEYS) > MAX_KNOWN_DATASETS:
        _KNOWN_ROW_KEYS.popitem(last=False)
    return keys


def _load_row_keys(dataset: Dataset, cache: FeatureCache | None) -> RowHashes:
    path = None if cache is None else cache.folder / ROW_KEYS_FOLDER / f"{dataset.fingerprint}.npy"
    if path is not None and path.is_file():
        try:
            stored = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):  # a damaged file is written again
            stored = np.empty(0)
        if stored.dtype == np.uint64 and stored.shape == (len(dataset),):
            return np.asarray(stored)
    keys = np.concatenate([hash_rows(batch) for batch in dataset.batches(HASH_BATCH_ROWS)])
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial, partial.open("xb") as file:
            np.save(file, keys)
    return keys


# Features of datasets ---------------------------------------------------------------------------


class FeatureRows(np.ndarray[Any, Any]):
    """Array of features (n, width), which a head classifies without calling its body."""


@dataclass(frozen=True, eq=False, repr=False)
class FeatureDataset(BaseDataset):
    """Features of the rows of a dataset, read from the cache or computed when they are needed.

    Parameters
    ----------
    dataset : Dataset
        The rows.
    body : Body
        The body that computes the features.
    cache : FeatureCache, optional
        The cache; without it, features are computed whenever they are read.

    Examples
    --------
    >>> body = Body(name="sum", kinds=("vectors",), width=1, fingerprint="1",
    ...             load=lambda: lambda rows: rows.sum(axis=1, keepdims=True))
    >>> rows = FeatureDataset(as_dataset(np.array([[1.0, 2.0], [3.0, 4.0]])), body, None)
    >>> rows.take(slice(None)).tolist()
    [[3.0], [7.0]]
    """

    dataset: Dataset
    body: Body
    cache: FeatureCache | None

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"FeatureDataset({self.dataset!r}, {self.body!r})"

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def kind(self) -> InputKind:
        return "vectors"

    @property
    def labels(self) -> Array | None:
        return self.dataset.labels

    @property
    def keys(self) -> RowHashes:
        return self.dataset.keys

    @property
    def fingerprint(self) -> str:
        return f"{self.dataset.fingerprint} {self.body.key}"

    @cached_property
    def section(self) -> CacheSection | None:
        """Section of the rows; None without a cache."""
        first = self.dataset.take(slice(0, 1))
        self.body.check_kind(first)
        return open_section(self.body, self.cache, first)

    def take(self, index: RowSelection) -> FeatureRows:
        """Return the features of the selected rows, in the order of the index."""
        return self.read(np.arange(len(self))[to_row_numbers(index, len(self))])

    def read(self, rows: Ints, progress: Callable[[int], None] | None = None) -> FeatureRows:
        """Return the features of rows; `progress` is called with the number of available rows."""
        keys = np.zeros(len(rows), np.uint64)
        if self.section is not None:
            keys = content_keys(self.dataset, self.cache)[rows]
        values = read_or_compute(
            self.section,
            keys,
            np.zeros(len(rows), np.int64),
            lambda part: self.body.features(self.dataset.take(rows[part])),
            progress,
        )
        return values.view(FeatureRows)

    def rows(self, index: RowSelection) -> Self:
        return replace(self, dataset=self.dataset.rows(to_row_numbers(index, len(self))))


@dataclass(frozen=True, eq=False)
class DrawnFeatures:
    """Features of transformed copies of the rows of a dataset.

    transform   transform that changes the rows
    key         result of `transform_key` for the transform
    namespace   namespace of the random streams of the rows
    """

    dataset: Dataset
    body: Body
    cache: FeatureCache | None
    transform: Transform
    key: str
    seed: int = 0
    namespace: str = ""

    @cached_property
    def section(self) -> CacheSection | None:
        """Section of the transformed rows; None without a cache."""
        text = f"{self.key}, seed {self.seed}, namespace {self.namespace!r}"
        first = self.dataset.take(slice(0, 1))
        self.body.check_kind(first)
        return open_section(self.body, self.cache, first, text)

    @cached_property
    def _entry_keys(self) -> RowHashes:
        """Key of each row: its content, and its key, from which its random stream is derived."""
        content, keys = content_keys(self.dataset, self.cache), self.dataset.keys
        return np.where(content == keys, keys, entry_hashes(content, keys))

    def entry_keys(self, rows: Ints) -> RowHashes:
        """Return the keys of rows in the section."""
        return self._entry_keys[rows]

    def read(self, rows: Ints, draw: int) -> Floats:
        """Return the features of one draw of each row; draws are counted from 1."""
        draws = np.full(len(rows), draw)
        keys = np.zeros(len(rows), np.uint64)
        if self.section is not None:
            keys = self.entry_keys(rows)
        return read_or_compute(self.section, keys, draws, lambda at: self._compute(rows[at], draw))

    def _compute(self, rows: Ints, draw: int) -> Floats:
        streams = RowStreams(
            self.seed, self.dataset.keys[rows], np.full(len(rows), draw), self.namespace
        )
        return self.body.features(self.transform.apply(self.dataset.take(rows), streams))


def transform_key(transform: Any, learned_from: str = "") -> str:
    """Return a text with everything except seed, row and draw that determines a transformed row.

    It contains the settings (for the path of a model, a hash of its files), a hash of the source code of the transform, and `learned_from`, the
    fingerprint of the data that the transform has learned from. It is empty, and draws must not be
    cached, if the settings are unknown: those of an object that is not a dataclass, and functions.
    """
    kind = type(transform)
    if not is_dataclass(transform):
        return ""
    try:
        code = inspect.getsourcefile(kind)
    except (OSError, TypeError):  # such as a class defined in an interactive session
        code = None
    source = hash_files([Path(code)]) if code is not None and Path(code).is_file() else ""
    if not source:
        return ""
    learned = f", learned from {learned_from}" if learned_from else ""
    settings = settings_key(transform)
    for path in _setting_paths(transform):
        settings = settings.replace(repr(path), _hash_weights(path))
    # The address of an object, such as a function, can be that of another object in the next run.
    if " at 0x" in settings:
        return ""
    return f"{settings}{learned}, {kind.__qualname__} of {source}"


def _setting_paths(settings: Any) -> Iterator[Path]:
    """Yield the existing paths among the settings, also those of settings that are dataclasses."""
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if isinstance(value, Path) and value.exists():
            yield value
        elif is_dataclass(value) and not isinstance(value, type):
            yield from _setting_paths(value)


def _hash_weights(path: Path) -> str:
    """Return a hash of a file, or of the weights and tokenizer files in a folder."""
    if path.is_file():
        return hash_files([path])
    names = ("*.safetensors", "*.bin", "*.model", "*.spm", "config.json", "vocab*", "tokenizer*")
    return hash_files(sorted(file for name in names for file in path.glob(name)))


def features(
    body: str | Path | Body,
    data: Any,
    *,
    transform: Transform | None = None,
    draw: int = 1,
    seed: int = 0,
    cache: FeatureCache | DefaultCache | None = "default",
    progress: ProgressCallback | None = None,
) -> Floats:
    """Return the features of every row of a dataset; those in the cache are not computed again.

    Parameters
    ----------
    body : str, Path or Body
        Pretrained body; see `open_body`.
    data : object
        Rows; anything that `as_dataset` accepts.
    transform : Transform, optional
        Transform whose draw number `draw` is applied to each row first. It must not be one that
        learns from data.
    draw : int
        Number of the draw of the transform, from 1.
    seed : int
        Random seed of the transform.
    cache : FeatureCache or None
        The cache; None computes all features. Default: the folder $OODOMETER_CACHE, or else the
        user's cache folder.
    progress : callable, optional
        Called after each block as ``progress(done, total, text)``.

    Returns
    -------
    array of float32 of shape (n, width)
        Features, in the order of the rows.

    Raises
    ------
    InputError
        If the body does not accept this kind of data, if the transform learns from data, or if the
        cache cannot be written.

    Examples
    --------
    >>> body = Body(name="sum", kinds=("vectors",), width=1, fingerprint="1",
    ...             load=lambda: lambda rows: rows.sum(axis=1, keepdims=True))
    >>> features(body, np.array([[1.0, 2.0]]), cache=None).tolist()
    [[3.0]]
    """
    opened, dataset = open_body(body), as_dataset(data)
    store = FeatureCache.default() if cache == "default" else cache
    rows = np.arange(len(dataset))
    if transform is None:

        def report(done: int) -> None:
            if progress is not None:
                progress(done, len(rows), f"features of {dataset.name}")

        return np.asarray(FeatureDataset(dataset, opened, store).read(rows, report))
    if type(transform).learn is not Transform.learn:
        raise InputError(
            f"The transform {transform.name!r} learns from data, which its settings do not show. "
            "Use a transform that does not learn."
        )
    key = transform_key(transform)
    drawn = DrawnFeatures(dataset, opened, store if key else None, transform, key, seed)
    return drawn.read(rows, draw)


# Models -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class HeadModel(ModelAdapter):
    """Pretrained body with a head that turns its features into logits.

    Features and gradients of the model are those of the head: the network of `torch_network` is the
    head, and its inputs are the features of the body.

    Parameters
    ----------
    body : Body
        The body.
    module : torch.nn.Module
        The head, a module from features (n, width) to logits (n, k).
    cache : FeatureCache, optional
        Cache of features; None computes all features. Default: the folder $OODOMETER_CACHE, or else
        the user's cache folder.
    name, class_names, outputs, prepare, batch_size
        See `ModelAdapter`.

    Examples
    --------
    >>> import torch
    >>> body = Body(name="same", kinds=("vectors",), width=2, fingerprint="1",
    ...             load=lambda: lambda rows: rows)
    >>> model = HeadModel(body, torch.nn.Identity(), cache=None)
    >>> model.classify(np.array([[0.0, 2.0], [1.0, -1.0]])).classes.tolist()
    [1, 0]
    """

    body: Body
    module: Any
    _: KW_ONLY
    cache: FeatureCache | None = field(default_factory=FeatureCache.default)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prepare is not None:
            raise InputError(
                f"prepare does not apply to the head {self.name!r}, whose body {self.body.name!r} "
                "prepares the inputs. Leave it out."
            )
        self._set("module", copy.deepcopy(self.module).eval())

    def default_name(self) -> str:
        return f"{self.body.name} head"

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        torch = torch_package()
        with torch.inference_mode():
            logits = self.module(torch.from_numpy(self.features(inputs)))
        return RawOutputs(logits, self.outputs or "logits")

    def features(self, inputs: Inputs) -> Floats:
        """Return the features of a batch; features from `feature_rows` are returned unchanged."""
        if isinstance(inputs, FeatureRows):
            return np.ascontiguousarray(inputs).view(np.ndarray)
        return batch_features(self.body, inputs, self.cache)

    def classify_features(self, features: Floats) -> Predictions:
        """Return the predictions for features of the body."""
        return self.classify(np.asarray(features, dtype=np.float32).view(FeatureRows))

    def feature_rows(self, dataset: Dataset) -> FeatureDataset:
        """Return the rows of a dataset as features, which this model classifies."""
        return FeatureDataset(dataset, self.body, self.cache)

    def torch_network(self) -> Network:
        """Return the head as a network whose inputs are features of the body."""
        return Network(
            name=self.name,
            module=self.module,
            to_arguments=self._to_arguments,
            normalize=lambda arguments: arguments,
            extract_scores=extract_scores,
            score_type="logits",
            to_predictions=lambda values: self.to_predictions(RawOutputs(values, "logits")),
            rows_per_batch=self.rows_per_batch,
        )

    def _to_arguments(self, inputs: Inputs) -> ForwardArguments:
        return ForwardArguments((torch_package().from_numpy(self.features(inputs)),), {})
