"""Views of whatever the user gives: a model and data, or outputs, or features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from oodometer.core import validation
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, ProgressCallback
from oodometer.core.softmax_kernels import Array, Floats
from oodometer.data import as_dataset
from oodometer.data._concat_dataset import ConcatDataset
from oodometer.models.inference import concat_predictions
from oodometer.models.introspection.network import LAST_LINEAR_INPUT, HasNetwork
from oodometer.models.model_view import ModelView, ViewSource


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
