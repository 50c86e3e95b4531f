"""Views of whatever the user gives: a model and data, or outputs, or features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from oodometer.core import validation
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Progress
from oodometer.core.softmax_kernels import Array, Floats
from oodometer.data import as_dataset
from oodometer.data._concat_dataset import Joined
from oodometer.models.inference import joined
from oodometer.models.introspection.network import LAST, Opened
from oodometer.models.model_view import Given, View


@dataclass(frozen=True, eq=False)
class Looking:
    """How data are looked at: by which model, at which layer, with which seed."""

    model: Model | None
    layer: str | None = None
    seed: int = 0
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.layer is None:
            return
        if not hasattr(self.model, "opened"):
            raise InputError(
                f"layer={self.layer!r} is where a torch network is looked into, and "
                f"{'no model was given' if self.model is None else f'{self.model.name!r} is none'}."
                " Leave it out."
            )
        cast(Opened, self.model).opened().checked(self.layer)

    def view(self, data: Any, name: str, *, labelled: bool = True, features: Any = None) -> View:
        """A view of a dataset, or of several by the names of their domains."""
        parts = dict(data) if isinstance(data, Mapping) else {"": data}
        if not parts:
            raise InputError(f"The {name} has no data. Give at least one dataset.")
        given = [self._given(part, str(named) or name, labelled) for named, part in parts.items()]
        whole = given[0] if len(given) == 1 else _joined(given, " + ".join(map(str, parts)))
        if isinstance(data, Mapping):
            sizes = [View(one).n for one in given]
            whole = replace(whole, domains=np.repeat([str(part) for part in parts], sizes))
        return View(_with_features(whole, features, name))

    def _given(self, data: Any, name: str, labelled: bool) -> Given:
        shared: dict[str, Any] = {"seed": self.seed, "labelled": labelled}
        if self.model is None:
            return Given(name, **_arrays(data, name, labelled), **shared)
        dataset = as_dataset(data)
        _check_rows(len(dataset), name)
        return Given(
            _name_of(dataset, name),
            dataset,
            self.model,
            layer=self.layer or LAST,
            progress=self.progress,
            **shared,
        )


def alike(view: View, first: View, name: str) -> View:
    """A view with its classes in the order of the first one's; those of given outputs may differ."""
    known, own = first.given.outputs, view.given.outputs
    if known is None or own is None:
        return view
    validation.same_classes(known.k, own.k, "the source", f"the {name}")
    return View(replace(view.given, outputs=own.in_class_order(known.class_names)))


def _check_rows(n: int, name: str) -> None:
    if not n:
        raise InputError(f"The {name} has no rows. Give at least one.")


def _name_of(dataset: Dataset, name: str) -> str:
    """What the user calls it; an array has no name but that of its kind."""
    return name if dataset.name == dataset.kind else dataset.name


def _arrays(data: Any, name: str, labelled: bool) -> dict[str, Any]:
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
    return {"features": _features(found, len(found), name)}


def _features(given: Any, n: int, name: str) -> Floats:
    try:
        found = np.asarray(validation.features(given, n))
    except InputError as error:
        raise InputError(f"The {name}: {error}") from error
    return np.asarray(found, dtype=np.result_type(found.dtype, np.float32))


def _with_features(given: Given, features: Any, name: str) -> Given:
    if features is None:
        return given
    return replace(given, features=_features(features, View(given).n, name))


def _joined(parts: list[Given], name: str) -> Given:
    """Several domains as one."""
    features = [part.features for part in parts]
    first = replace(parts[0], name=name)
    if first.dataset is not None:
        datasets = [part.dataset for part in parts if part.dataset is not None]
        return replace(first, dataset=Joined(name, tuple(datasets)))
    widths = {part.shape[1] for part in features if part is not None}
    if len(widths) > 1:
        low, high = sorted(widths)[:2]
        raise InputError(
            f"The domains of the {name} have features {low} and {high} wide. All must be as wide."
        )
    known = [part for part in features if part is not None]
    whole = np.concatenate(known) if len(known) == len(parts) else None
    outputs = _outputs([part.outputs for part in parts], name)
    if outputs is None and whole is None:
        raise InputError(
            f"Some domains of the {name} are outputs and some features. Give one or the other."
        )
    return replace(first, outputs=outputs, features=whole)


def _outputs(parts: list[Predictions | None], name: str) -> Predictions | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    for part in known:
        validation.same_classes(known[0].k, part.k, f"one domain of the {name}", "another")
    known = [part.in_class_order(known[0].class_names) for part in known]
    labels: list[Array] = [part.labels for part in known if part.labels is not None]
    return joined(known, np.concatenate(labels) if len(labels) == len(known) else None)
