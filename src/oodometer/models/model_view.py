"""ModelView: a model's outputs and features on a dataset, computed on first use and then cached.

Measures read their data from views. Random choices depend on the seed and on the content of the
rows only, so neither the order of the rows nor the batch size changes the value of a measure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.inputs import InputKind, Inputs, RowHashes, hash_rows
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Need, ProgressCallback
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.dataset import ConcatDataset
from oodometer.models.inference import (
    check_consistent_outputs,
    concat_predictions,
    forward_dataset,
    predict_batch,
    predict_dataset,
)
from oodometer.models.introspection.network import LAST_LINEAR_INPUT, HasNetwork, Network

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

NEEDS: tuple[Need, ...] = get_args(Need)
# Kinds of inputs that can be interpolated: a convex combination of two inputs is a valid input.
MIXABLE_KINDS: tuple[InputKind, ...] = ("images", "vectors")


class ForwardPass(NamedTuple):
    """A model's outputs on all rows, and its features or the reason why there are no features."""

    outputs: Predictions
    features: Floats | None = None
    features_missing: str = ""


@dataclass(frozen=True, eq=False)
class ViewSource:
    """Data behind a view: either a dataset and a model, or arrays of outputs and features.

    Attributes
    ----------
    name : str
        Name of the data, used in messages.
    dataset, model : optional
        The rows, and the model that classifies them.
    layer : str or None
        Layer whose activations are the features. None if no features are needed.
    outputs, features : optional
        Outputs and features of the rows. If given, they are used instead of those that the model
        would compute.
    domains : array of shape (n,), optional
        Name of each row's domain.
    labelled : bool
        Whether measures may read the labels.
    seed : int
        Random seed.
    progress : callable, optional
        Callback that reports progress during the forward pass.
    precomputed : ForwardPass, optional
        Result of the forward pass over all rows, if the pass has already been run.
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
    precomputed: ForwardPass | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ModelView:
    """Rows of a dataset, with a model's outputs and features on these rows.

    A view of some of the rows has the view of all rows as its `parent`. Values are computed once,
    in the parent, and are shared by all views that have this parent.
    """

    view_source: ViewSource
    index: Ints | None = None
    parent: ModelView | None = None
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"ModelView({self.view_source.name!r}, {self.n} rows)"

    @property
    def name(self) -> str:
        return self.view_source.name

    @cached_property
    def n(self) -> int:
        """Return the number of rows."""
        if self.index is not None:
            return len(self.index)
        source = self.view_source
        arrays = (source.dataset, source.outputs, source.features)
        return next(len(array) for array in arrays if array is not None)

    def __len__(self) -> int:
        return self.n

    # Values that measures read ----------------------------------------------------------------

    @cached_property
    def outputs(self) -> Predictions:
        """Return the model's predictions on the rows."""
        if self.parent is not None:
            return self.parent.outputs.rows(self._row_index)
        if self.view_source.outputs is not None:
            return self.view_source.outputs
        self._require("outputs")
        return self._forward_pass.outputs

    @cached_property
    def features(self) -> Floats:
        """Return the features of the rows, (n, d); the default is the last linear layer's input."""
        if self.parent is not None:
            return np.asarray(self.parent.features[self._row_index])
        if self.view_source.features is not None:
            return self.view_source.features
        self._require("features")
        if self._forward_pass.features is None:
            raise NotApplicable(f"it needs features: {self._forward_pass.features_missing}")
        return self._forward_pass.features

    @property
    def labels(self) -> Ints:
        """Return the true classes."""
        self._require("labels")
        labels = self.outputs.labels
        assert labels is not None
        return labels

    @property
    def network(self) -> Network:
        """Return the model's torch network."""
        self._require("gradients")
        return self._root._network

    def inputs(self, index: Ints | slice = slice(None)) -> Inputs:
        """Return the model's inputs at the given positions in this view; by default all inputs."""
        if self.view_source.dataset is None:
            raise NotApplicable("it needs the inputs, and only outputs or features are available")
        return self.view_source.dataset.take(self._row_index[index])

    def classify_inputs(self, inputs: Inputs) -> Predictions:
        """Return the model's predictions on inputs that need not be rows of this view."""
        model = self.view_source.model
        if model is None:
            raise NotApplicable("it needs the model, and only outputs or features are available")
        predictions = predict_batch(model, inputs, model.name)
        check_consistent_outputs(self.outputs, predictions, model.name)
        return predictions

    # Forward pass -----------------------------------------------------------------------------

    def with_forward_pass(self, runner: Runner, progress: ProgressCallback | None) -> ModelView:
        """Return a copy of this view whose outputs and features a runner has already computed."""
        result = self._run_forward_pass(runner, progress)
        return ModelView(replace(self.view_source, progress=None, precomputed=result))

    @cached_property
    def _forward_pass(self) -> ForwardPass:
        source = self.view_source
        return source.precomputed or self._run_forward_pass(None, source.progress)

    def _run_forward_pass(
        self, runner: Runner | None, progress: ProgressCallback | None
    ) -> ForwardPass:
        """Compute outputs and features in one pass; only outputs if there can be no features."""
        source = self.view_source
        assert source.dataset is not None
        assert source.model is not None
        given = source.features is not None
        reason = "they are given" if given else self.missing("features")
        if reason is None and source.layer is not None:
            try:
                outputs, features = forward_dataset(
                    cast(HasNetwork, source.model),
                    source.dataset,
                    source.layer,
                    labelled=source.labelled,
                    runner=runner,
                    progress=progress,
                    message=f"extracting features of {self.name}",
                )
                return ForwardPass(outputs, features)
            except NotApplicable as error:  # the model may still be able to return outputs
                reason = str(error)
        outputs = predict_dataset(
            source.model,
            source.dataset,
            labelled=source.labelled,
            runner=runner,
            progress=progress,
        )
        return ForwardPass(outputs, None, reason or "")

    @cached_property
    def _network(self) -> Network:
        return cast(HasNetwork, self.view_source.model).torch_network()

    # Requirements -----------------------------------------------------------------------------

    def missing(self, need: Need) -> str | None:
        """Return the reason why this view cannot provide a need of a measure; None if it can."""
        root = self._root
        match need:
            case "outputs":
                return root._missing_outputs()
            case "labels":
                return root._missing_labels()
            case "features":
                return root._missing_features()
            case "gradients" | "weights":
                return root._missing_network()
            case "training data":  # a separate view holds the training data
                return None
            case "mixable inputs":
                return root._missing_mixable_inputs()
            case "source domains":
                known = root.view_source.domains is not None
                return None if known else "the domains of the rows are unknown"
        raise UnknownName("need", need, NEEDS)

    def _require(self, need: Need) -> None:
        reason = self.missing(need)
        if reason is not None:
            raise NotApplicable(f"it needs {need}: {reason}")

    def _missing_outputs(self) -> str | None:
        source = self.view_source
        if source.outputs is None and (source.model is None or source.dataset is None):
            return f"{self.name!r} has neither outputs nor a model"
        return None

    def _missing_labels(self) -> str | None:
        source = self.view_source
        labelled = source.dataset if source.outputs is None else source.outputs
        if labelled is None or labelled.labels is None or not source.labelled:
            return f"{self.name!r} has no labels"
        return self._missing_outputs()

    def _missing_features(self) -> str | None:
        source = self.view_source
        if source.features is not None:
            return None
        if source.model is None:
            return f"{self.name!r} has no features and no model"
        no_network = self._missing_network()
        if no_network is not None:
            return no_network
        if source.layer is None:
            return "no requested measure uses features"
        if source.layer != LAST_LINEAR_INPUT:
            return None
        try:
            _ = self._network.linear_layers
        except NotApplicable as error:
            return str(error)
        return None

    def _missing_network(self) -> str | None:
        model = self.view_source.model
        if model is None:
            return "no model was given"
        if not isinstance(model, HasNetwork):
            return (
                f"{model.name!r} is a {type(model).__name__}; only torch modules and Hugging Face "
                "folders have an accessible network"
            )
        try:
            _ = self._network
        except NotApplicable as error:
            return str(error)
        return None

    def _missing_mixable_inputs(self) -> str | None:
        source = self.view_source
        if source.dataset is None or source.model is None:
            return "no model was given with its inputs"
        if source.dataset.kind not in MIXABLE_KINDS:
            return f"{self.name!r} contains {source.dataset.kind}, which cannot be interpolated"
        return None

    # Rows -------------------------------------------------------------------------------------

    @property
    def _root(self) -> ModelView:
        return self if self.parent is None else self.parent

    @cached_property
    def _row_index(self) -> Ints:
        return np.arange(self.n) if self.index is None else self.index

    def rows(self, index: Ints | Bools | slice) -> ModelView:
        """Return a view of the selected rows."""
        return ModelView(self.view_source, self._row_index[index], self._root)

    def subsample(self, max_rows: int, purpose: str) -> ModelView:
        """Return a view of at most `max_rows` rows, the first ones in `random_order`."""
        if self.n <= max_rows:
            return self
        return self.rows(np.sort(self.random_order(purpose)[:max_rows]))

    def random_order(self, purpose: str) -> Ints:
        """Return the row numbers in a random order.

        The order depends only on the seed, on `purpose` and on the content of the rows.
        """
        return np.argsort(self.row_streams(purpose).initial_states, kind="stable")

    def row_streams(self, purpose: str) -> RowStreams:
        """Return one random stream per row; rows with equal content have different streams."""
        duplicates = self._root._duplicate_indices[self._row_index]
        return RowStreams(self.view_source.seed, self.keys, duplicates).substream(purpose)

    @property
    def keys(self) -> RowHashes:
        """Return the hash of each row's content."""
        return self._root._row_hashes[self._row_index]

    @cached_property
    def _row_hashes(self) -> RowHashes:
        if self.view_source.dataset is not None:
            return self.view_source.dataset.keys
        if self.view_source.features is not None:
            return hash_rows(self.view_source.features)
        scores, _ = self.outputs.require_scores("a random choice of rows")
        return hash_rows(scores)

    @cached_property
    def _duplicate_indices(self) -> Ints:
        return duplicate_index(self._row_hashes)

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Return the sorted names of the rows' domains; empty if the domains are unknown."""
        domains = self.view_source.domains
        return () if domains is None else tuple(sorted({str(d) for d in domains[self._row_index]}))

    def select_domain(self, name: str) -> ModelView:
        """Return a view of the rows of one domain."""
        domains = self.view_source.domains
        if domains is None or name not in self.domain_names:
            raise InputError(f"{self.name!r} has no domain {name!r}: {self.domain_names}.")
        return self.rows(domains[self._row_index].astype(str) == name)

    def per_row_cached(self, key: Hashable, compute: Callable[[ModelView], Floats]) -> Floats:
        """Return one value per row, and call `compute` only on rows without a cached value.

        Values are cached under `key`, for all views with the same parent.
        """
        cache = self._root._memo.setdefault(key, np.full(self._root.n, np.nan))
        missing = self._row_index[np.isnan(cache[self._row_index])]
        if len(missing):
            cache[missing] = compute(ModelView(self.view_source, missing, self._root))
        return np.asarray(cache[self._row_index])


def subsample_note(sample: ModelView, full: ModelView) -> tuple[str, ...]:
    """Return a note on the number of rows in the sample; no note if the sample has all rows."""
    if sample.n == full.n:
        return ()
    return (f"only {sample.n:,} of {full.n:,} rows of {full.name!r} were used, drawn at random",)


def duplicate_index(keys: RowHashes) -> Ints:
    """Return, for each row, the number of earlier rows with the same content.

    >>> duplicate_index(np.array([7, 5, 7, 7], dtype=np.uint64))
    array([0, 0, 1, 2])
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    counts = np.empty(len(keys), dtype=np.int64)
    counts[order] = np.arange(len(keys)) - np.searchsorted(ranked, ranked)
    return counts


# Views from user data ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ViewFactory:
    """Builder of views that share a model, a feature layer, a seed and a progress callback."""

    model: Model | None
    layer: str | None = None
    seed: int = 0
    progress: ProgressCallback | None = None

    def __post_init__(self) -> None:
        if self.layer is None:
            return
        if not hasattr(self.model, "torch_network"):
            if self.model is None:
                problem = "no model was given"
            else:
                problem = f"{self.model.name!r} has no torch network"
            raise InputError(
                f"layer={self.layer!r} names a layer of a torch network, and {problem}. "
                "Omit the layer."
            )
        cast(HasNetwork, self.model).torch_network().validate_layer(self.layer)

    def view(
        self, data: Any, name: str, *, labelled: bool = True, features: Any = None
    ) -> ModelView:
        """Return a view of a dataset, or of a mapping from domain names to datasets."""
        parts = list(data.items()) if isinstance(data, Mapping) else [("", data)]
        if not parts:
            raise InputError(f"The {name} has no data. Pass at least one dataset.")
        domains = [str(domain) for domain, _ in parts]
        sources = [
            self._view_source(part, domain or name, labelled)
            for domain, (_, part) in zip(domains, parts, strict=True)
        ]
        source = sources[0]
        if len(sources) > 1:
            source = _concat_sources(sources, " + ".join(domains))
        if isinstance(data, Mapping):
            sizes = [ModelView(part).n for part in sources]
            source = replace(source, domains=np.repeat(domains, sizes))
        if features is not None:
            checked = _validate_features(features, ModelView(source).n, name)
            source = replace(source, features=checked)
        return ModelView(source)

    def _view_source(self, data: Any, name: str, labelled: bool) -> ViewSource:
        if self.model is None:
            arrays = _precomputed_arrays(data, name, labelled)
            return ViewSource(name, **arrays, seed=self.seed, labelled=labelled)
        dataset = as_dataset(data)
        _check_not_empty(len(dataset), name)
        return ViewSource(
            # A dataset made from an array is named after its kind ("images"), so `name` is clearer.
            name if dataset.name == dataset.kind else dataset.name,
            dataset,
            self.model,
            layer=self.layer or LAST_LINEAR_INPUT,
            labelled=labelled,
            seed=self.seed,
            progress=self.progress,
        )


def align_classes(view: ModelView, reference: ModelView, name: str) -> ModelView:
    """Return the view with the classes of its given outputs in the order of the reference view."""
    known, own = reference.view_source.outputs, view.view_source.outputs
    if known is None or own is None:
        return view
    validation.check_same_class_count(known.k, own.k, "the source", f"the {name}")
    return ModelView(replace(view.view_source, outputs=own.reorder_classes(known.class_names)))


def _check_not_empty(n_rows: int, name: str) -> None:
    if not n_rows:
        raise InputError(f"The {name} has no rows. Pass at least one.")


def _precomputed_arrays(data: Any, name: str, labelled: bool) -> dict[str, Any]:
    """Return the fields `outputs` and `features` of a ViewSource without a model."""
    if isinstance(data, Predictions):
        outputs = data if labelled else data.without_labels()
        return {"outputs": outputs, "features": data.features}
    try:
        array = np.asarray(data)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        shape = f" of shape {array.shape}" if isinstance(data, np.ndarray) else ""
        raise InputError(
            f"Without a model, the {name} must be features, a numeric array of shape (n, d), or "
            f"Predictions; got {type(data).__name__}{shape}."
        )
    _check_not_empty(len(array), name)
    return {"features": _validate_features(array, len(array), name)}


def _validate_features(values: Any, n_rows: int, name: str) -> Floats:
    try:
        features = np.asarray(validation.validate_features(values, n_rows))
    except InputError as error:
        raise InputError(f"The {name}: {error}") from error
    return np.asarray(features, dtype=np.result_type(features.dtype, np.float32))


def _concat_sources(parts: list[ViewSource], name: str) -> ViewSource:
    """Concatenate the ViewSources of several domains."""
    first = replace(parts[0], name=name)
    if first.dataset is not None:
        datasets = [part.dataset for part in parts if part.dataset is not None]
        return replace(first, dataset=ConcatDataset(name, tuple(datasets)))
    features = [part.features for part in parts if part.features is not None]
    widths = sorted({part.shape[1] for part in features})
    if len(widths) > 1:
        raise InputError(
            f"The domains of the {name} have {widths[0]} and {widths[1]} features. All must have "
            "the same number."
        )
    outputs = [part.outputs for part in parts if part.outputs is not None]
    if len(outputs) < len(parts) and len(features) < len(parts):
        raise InputError(
            f"Some domains of the {name} are outputs and some are features. Pass either outputs or "
            "features for all of them."
        )
    return replace(
        first,
        outputs=_concat_outputs(outputs, name) if len(outputs) == len(parts) else None,
        features=np.concatenate(features) if len(features) == len(parts) else None,
    )


def _concat_outputs(parts: list[Predictions], name: str) -> Predictions:
    first = parts[0]
    for part in parts:
        validation.check_same_class_count(first.k, part.k, f"one domain of the {name}", "another")
    aligned = [part.reorder_classes(first.class_names) for part in parts]
    labels: list[Array] = [part.labels for part in aligned if part.labels is not None]
    all_labelled = len(labels) == len(aligned)
    return concat_predictions(aligned, np.concatenate(labels) if all_labelled else None)
