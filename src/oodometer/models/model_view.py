"""What a model makes of one dataset: outputs and features, computed lazily and once.

What a row is given at random hangs on the seed and the row's content, so that neither the order
of rows nor the batch changes a measure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np

from oodometer.core import inputs as batches_of
from oodometer.core import validation
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Need, ProgressCallback
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.dataset import ConcatDataset
from oodometer.models.inference import (
    DatasetForwardPass,
    check_consistent_outputs,
    concat_passes,
    concat_predictions,
    forward_batches,
    predict_batch,
    predict_dataset,
)
from oodometer.models.introspection.network import LAST_LINEAR_INPUT, HasNetwork, Network

NEEDS: tuple[Need, ...] = get_args(Need)
# What can be mixed: a share of one row and the rest of another make a row.
MIXABLE_KINDS: tuple[InputKind, ...] = ("images", "vectors")


@dataclass(frozen=True, eq=False)
class ViewSource:
    """What there is to look at: a dataset and a model, or just arrays of outputs and features.

    `labelled` says whether the dataset's labels may be looked at; `layer` is where features are
    taken (None: they are not wanted), `domains` has a domain's name a row. `precomputed` is what the
    model makes of all rows, where it was asked already: outputs, and features or why there are none.
    """

    name: str
    dataset: Dataset | None = None
    model: Model | None = None
    layer: str | None = LAST_LINEAR_INPUT
    outputs: Predictions | None = None
    features: Floats | None = None
    domains: Array | None = None
    labelled: bool = True
    seed: int = 0
    progress: ProgressCallback | None = None
    precomputed: DatasetForwardPass | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ModelView:
    """Some rows of what is given; those of all rows are computed once and shared by all views."""

    view_source: ViewSource
    index: Ints | None = None
    parent: ModelView | None = None
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"ModelView({self.view_source.name!r}, {self.n} rows)"

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.view_source.name

    @cached_property
    def n(self) -> int:
        """How many rows there are."""
        if self.index is not None:
            return len(self.index)
        found = (self.view_source.dataset, self.view_source.outputs, self.view_source.features)
        return next(len(part) for part in found if part is not None)

    def __len__(self) -> int:
        return self.n

    # What measures read ---------------------------------------------------------------------

    @cached_property
    def outputs(self) -> Predictions:
        """What the model says of every row."""
        if self.parent is not None:
            return self.parent.outputs.rows(self._row_index)
        if self.view_source.outputs is not None:
            return self.view_source.outputs
        self._require("outputs")
        return self._forward_pass[0]

    @cached_property
    def features(self) -> Floats:
        """What goes into the head, (n, d)."""
        if self.parent is not None:
            return np.asarray(self.parent.features[self._row_index])
        if self.view_source.features is not None:
            return self.view_source.features
        self._require("features")
        found = self._forward_pass[1]
        if isinstance(found, str):
            raise NotApplicable(f"it needs features: {found}")
        return found

    @property
    def labels(self) -> Ints:
        """The true classes."""
        self._require("labels")
        found = self.outputs.labels
        assert found is not None
        return found

    @property
    def network(self) -> Network:
        """The torch network of the model."""
        self._require("gradients")
        return self._root._network

    def inputs(self, index: Ints | slice = slice(None)) -> Inputs:
        """Some of its rows as the model is shown them."""
        if self.view_source.dataset is None:
            raise NotApplicable("only outputs or features were given, and it looks at the inputs")
        return self.view_source.dataset.take(self._row_index[index])

    def classify_inputs(self, inputs: Inputs) -> Predictions:
        """What the model says of other inputs."""
        if self.view_source.model is None:
            raise NotApplicable("only outputs or features were given, and it asks the model anew")
        found = predict_batch(self.view_source.model, inputs, self.view_source.model.name)
        check_consistent_outputs(self.outputs, found, self.view_source.model.name)
        return found

    def missing(self, need: Need) -> str | None:
        """Why it can't give what is needed; None where it can."""
        if need not in _MISSING_REASONS:
            raise UnknownName("need", need, NEEDS)
        return _MISSING_REASONS[need](self._root)

    # Rows -----------------------------------------------------------------------------------

    def rows(self, index: Ints | Bools | slice) -> ModelView:
        """Some of the rows."""
        return ModelView(self.view_source, self._row_index[index], self._root)

    def subsample(self, max_rows: int, purpose: str) -> ModelView:
        """At most so many rows, drawn at random by their content."""
        return (
            self
            if self.n <= max_rows
            else self.rows(np.sort(self.random_order(purpose)[:max_rows]))
        )

    def random_order(self, purpose: str) -> Ints:
        """All rows in a random order that hangs on their content alone."""
        return np.argsort(self.row_streams(purpose).initial_states, kind="stable")

    def row_streams(self, purpose: str) -> RowStreams:
        """A stream of random numbers a row; copies of a row have streams of their own."""
        copies = self._root._duplicate_indices[self._row_index]
        return RowStreams(self.view_source.seed, self.keys, copies).substream(purpose)

    @property
    def keys(self) -> RowHashes:
        """A number a row, made of its content."""
        return self._root._row_hashes[self._row_index]

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The domains that rows come from, where that is known."""
        domains = self.view_source.domains
        return () if domains is None else tuple(sorted({str(d) for d in domains[self._row_index]}))

    def select_domain(self, name: str) -> ModelView:
        """The rows of one domain."""
        domains = self.view_source.domains
        if domains is None or name not in self.domain_names:
            raise InputError(f"{self.name!r} has no domain {name!r}: {self.domain_names}.")
        return self.rows(domains[self._row_index].astype(str) == name)

    def per_row_cached(self, key: Hashable, compute: Callable[[ModelView], Floats]) -> Floats:
        """A value a row, which `compute` gives for some rows; each row is computed once for all views."""
        kept = self._root._memo.setdefault(key, np.full(self._root.n, np.nan))
        missing = self._row_index[np.isnan(kept[self._row_index])]
        if len(missing):
            kept[missing] = compute(ModelView(self.view_source, missing, self._root))
        return np.asarray(kept[self._row_index])

    # Once for all rows ----------------------------------------------------------------------

    @property
    def _root(self) -> ModelView:
        return self if self.parent is None else self.parent

    @cached_property
    def _row_index(self) -> Ints:
        return np.arange(self.n) if self.index is None else self.index

    @cached_property
    def _network(self) -> Network:
        return cast(HasNetwork, self.view_source.model).torch_network()

    @cached_property
    def _row_hashes(self) -> RowHashes:
        if self.view_source.dataset is not None:
            return self.view_source.dataset.keys
        if self.view_source.features is not None:
            return batches_of.hash_rows(self.view_source.features)
        scores, _ = self.outputs.require_scores("a random choice of rows")
        return batches_of.hash_rows(scores)

    @cached_property
    def _duplicate_indices(self) -> Ints:
        return duplicate_index(self._row_hashes)

    @cached_property
    def _forward_pass(self) -> DatasetForwardPass:
        """Outputs of one pass over the data, and features of the same pass or why there are none."""
        given, reason = self.view_source, self.features_missing_reason()
        if given.precomputed is not None:
            return given.precomputed
        assert given.dataset is not None
        assert given.model is not None
        if reason is None and given.layer is not None:
            try:
                parts = forward_batches(self._network, given.dataset, given.layer, name=self.name,
                               progress=given.progress)  # fmt: skip
                labels = given.dataset.labels if given.labelled else None
                return concat_passes(parts, given.layer, labels)
            except NotApplicable as refusal:  # there may be outputs nevertheless
                reason = str(refusal)
        found = predict_dataset(
            given.model, given.dataset, labelled=given.labelled, progress=given.progress
        )
        return found, str(reason)

    def features_missing_reason(self) -> str | None:
        """Why a pass over the data does not look for features; None where it does."""
        return (
            "they are given" if self.view_source.features is not None else self.missing("features")
        )

    def _require(self, need: Need) -> None:
        reason = self.missing(need)
        if reason is not None:
            raise NotApplicable(f"it needs {need}: {reason}")


def subsample_note(sample: ModelView, full: ModelView) -> tuple[str, ...]:
    """A note on rows that were not looked at, where there are any."""
    if sample.n == full.n:
        return ()
    return (f"only {sample.n:,} of {full.n:,} rows of {full.name!r} were used, drawn at random",)


def duplicate_index(keys: RowHashes) -> Ints:
    """How many rows of the same content come before each.

    >>> duplicate_index(np.array([7, 5, 7, 7], dtype=np.uint64))
    array([0, 0, 1, 2])
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    found = np.empty(len(keys), dtype=np.int64)
    found[order] = np.arange(len(keys)) - np.searchsorted(ranked, ranked)
    return found


def _no_outputs(view: ModelView) -> str | None:
    given = view.view_source
    if given.outputs is None and (given.model is None or given.dataset is None):
        return f"there are neither outputs of {view.name!r} nor a model"
    return None


def _no_labels(view: ModelView) -> str | None:
    given = view.view_source
    known = given.dataset.labels is not None if given.dataset is not None else None
    if given.outputs is not None:
        known = given.outputs.labels is not None
    if not known or not given.labelled:
        return f"{view.name!r} has no labels"
    return _no_outputs(view)


def _no_features(view: ModelView) -> str | None:
    if view.view_source.features is not None:
        return None
    closed = _no_gradients(view)
    if closed is not None:
        return (
            closed
            if view.view_source.model is not None
            else f"no features of {view.name!r} were given"
        )
    if view.view_source.layer is None:
        return "nothing that was asked for looks at features"
    if view.view_source.layer != LAST_LINEAR_INPUT:
        return None
    try:
        _ = view._network.linear_layers
    except NotApplicable as refusal:
        return str(refusal)
    return None


def _no_gradients(view: ModelView) -> str | None:
    model = view.view_source.model
    if model is None:
        return "no model was given"
    if not isinstance(model, HasNetwork):
        return (
            f"{model.name!r} is a {type(model).__name__}, and only torch modules and Hugging Face "
            "folders can be looked into"
        )
    try:
        _ = view._network
    except NotApplicable as refusal:
        return str(refusal)
    return None


def _not_mixable(view: ModelView) -> str | None:
    dataset = view.view_source.dataset
    if dataset is None or view.view_source.model is None:
        return "no model was given with its inputs"
    if dataset.kind not in MIXABLE_KINDS:
        return f"{view.name!r} are {dataset.kind}, of which two can't be mixed"
    return None


def _no_domains(view: ModelView) -> str | None:
    return (
        None if view.view_source.domains is not None else "it is not known which domain a row is of"
    )


_MISSING_REASONS: dict[Need, Callable[[ModelView], str | None]] = {
    "outputs": _no_outputs,
    "labels": _no_labels,
    "features": _no_features,
    "gradients": _no_gradients,
    "weights": _no_gradients,
    "training data": lambda view: None,
    "mixable inputs": _not_mixable,
    "source domains": _no_domains,
}


@dataclass(frozen=True, eq=False)
class ViewFactory:
    """How data are looked at: by which model, at which layer, with which seed."""

    model: Model | None
    layer: str | None = None
    seed: int = 0
    progress: ProgressCallback | None = None

    def __post_init__(self) -> None:
        if self.layer is None:
            return
        if not hasattr(self.model, "torch_network"):
            raise InputError(
                f"layer={self.layer!r} is where a torch network is looked into, and "
                f"{'no model was given' if self.model is None else f'{self.model.name!r} is none'}."
                " Leave it out."
            )
        cast(HasNetwork, self.model).torch_network().validate_layer(self.layer)

    def view(
        self, data: Any, name: str, *, labelled: bool = True, features: Any = None
    ) -> ModelView:
        """A view of a dataset, or of several by the names of their domains."""
        parts = dict(data) if isinstance(data, Mapping) else {"": data}
        if not parts:
            raise InputError(f"The {name} has no data. Give at least one dataset.")
        given = [
            self._view_source(part, str(named) or name, labelled) for named, part in parts.items()
        ]
        whole = given[0] if len(given) == 1 else _concat_sources(given, " + ".join(map(str, parts)))
        if isinstance(data, Mapping):
            sizes = [ModelView(one).n for one in given]
            whole = replace(whole, domains=np.repeat([str(part) for part in parts], sizes))
        return ModelView(_with_features(whole, features, name))

    def _view_source(self, data: Any, name: str, labelled: bool) -> ViewSource:
        shared: dict[str, Any] = {"seed": self.seed, "labelled": labelled}
        if self.model is None:
            return ViewSource(name, **_precomputed_arrays(data, name, labelled), **shared)
        dataset = as_dataset(data)
        _check_rows(len(dataset), name)
        return ViewSource(
            _display_name(dataset, name),
            dataset,
            self.model,
            layer=self.layer or LAST_LINEAR_INPUT,
            progress=self.progress,
            **shared,
        )


def align_classes(view: ModelView, reference: ModelView, name: str) -> ModelView:
    """A view with its classes in the order of the first one's; those of given outputs may differ."""
    known, own = reference.view_source.outputs, view.view_source.outputs
    if known is None or own is None:
        return view
    validation.check_same_class_count(known.k, own.k, "the source", f"the {name}")
    return ModelView(replace(view.view_source, outputs=own.reorder_classes(known.class_names)))


def _check_rows(n: int, name: str) -> None:
    if not n:
        raise InputError(f"The {name} has no rows. Give at least one.")


def _display_name(dataset: Dataset, name: str) -> str:
    """What the user calls it; an array has no name but that of its kind."""
    return name if dataset.name == dataset.kind else dataset.name


def _precomputed_arrays(data: Any, name: str, labelled: bool) -> dict[str, Any]:
    """Outputs, features, or both, where there is no model to ask."""
    if isinstance(data, Predictions):
        outputs = data if labelled else data.without_labels()
        return {"outputs": outputs, "features": data.features}
    try:
        found = np.asarray(data)
    except ValueError:  # rows of different lengths
        found = np.empty(0)
    if found.dtype.kind not in "fiu" or found.ndim != 2:
        shape = f" of shape {found.shape}" if isinstance(data, np.ndarray) else ""
        raise InputError(
            f"Without a model the {name} must be features, an array (n, d) of numbers, or "
            f"Predictions; got {type(data).__name__}{shape}."
        )
    _check_rows(len(found), name)
    return {"features": _validate_features(found, len(found), name)}


def _validate_features(values: Any, n: int, name: str) -> Floats:
    try:
        found = np.asarray(validation.validate_features(values, n))
    except InputError as error:
        raise InputError(f"The {name}: {error}") from error
    return np.asarray(found, dtype=np.result_type(found.dtype, np.float32))


def _with_features(source: ViewSource, features: Any, name: str) -> ViewSource:
    if features is None:
        return source
    return replace(source, features=_validate_features(features, ModelView(source).n, name))


def _concat_sources(parts: list[ViewSource], name: str) -> ViewSource:
    """Several domains as one."""
    features = [part.features for part in parts]
    first = replace(parts[0], name=name)
    if first.dataset is not None:
        datasets = [part.dataset for part in parts if part.dataset is not None]
        return replace(first, dataset=ConcatDataset(name, tuple(datasets)))
    widths = {part.shape[1] for part in features if part is not None}
    if len(widths) > 1:
        low, high = sorted(widths)[:2]
        raise InputError(
            f"The domains of the {name} have features {low} and {high} wide. All must be as wide."
        )
    known = [part for part in features if part is not None]
    whole = np.concatenate(known) if len(known) == len(parts) else None
    outputs = _concat_outputs([part.outputs for part in parts], name)
    if outputs is None and whole is None:
        raise InputError(
            f"Some domains of the {name} are outputs and some features. Give one or the other."
        )
    return replace(first, outputs=outputs, features=whole)


def _concat_outputs(parts: list[Predictions | None], name: str) -> Predictions | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    for part in known:
        validation.check_same_class_count(
            known[0].k, part.k, f"one domain of the {name}", "another"
        )
    known = [part.reorder_classes(known[0].class_names) for part in known]
    labels: list[Array] = [part.labels for part in known if part.labels is not None]
    return concat_predictions(known, np.concatenate(labels) if len(labels) == len(known) else None)
