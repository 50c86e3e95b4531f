"""What a model makes of one dataset: outputs and features, computed lazily and once.

What a row is given at random hangs on the seed and the row's content, so that neither the order
of rows nor the batch changes a measure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np

from oodometer.core import inputs as batches_of
from oodometer.core.errors import InputError, NoAnswer, UnknownName
from oodometer.core.inputs import Inputs, Keys, Kind
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Need, Progress
from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Array, Bools, Floats, Ints
from oodometer.models._feature_passes import Passed, looked, together
from oodometer.models.inference import check_alike, classify_all, said
from oodometer.models.introspection.network import LAST, Network, Opened

NEEDS: tuple[Need, ...] = get_args(Need)
# What can be mixed: a share of one row and the rest of another make a row.
MIXABLE: tuple[Kind, ...] = ("images", "vectors")


@dataclass(frozen=True, eq=False)
class Given:
    """What there is to look at: a dataset and a model, or just arrays of outputs and features.

    `labelled` says whether the dataset's labels may be looked at; `layer` is where features are
    taken (None: they are not wanted), `domains` has a domain's name a row. `passed` is what the
    model makes of all rows, where it was asked already: outputs, and features or why there are none.
    """

    name: str
    dataset: Dataset | None = None
    model: Model | None = None
    layer: str | None = LAST
    outputs: Predictions | None = None
    features: Floats | None = None
    domains: Array | None = None
    labelled: bool = True
    seed: int = 0
    progress: Progress | None = None
    passed: Passed | None = None


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """Some rows of what is given; those of all rows are computed once and shared by all views."""

    given: Given
    index: Ints | None = None
    whole: View | None = None
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"View({self.given.name!r}, {self.n} rows)"

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.given.name

    @cached_property
    def n(self) -> int:
        """How many rows there are."""
        if self.index is not None:
            return len(self.index)
        found = (self.given.dataset, self.given.outputs, self.given.features)
        return next(len(part) for part in found if part is not None)

    def __len__(self) -> int:
        return self.n

    # What measures read ---------------------------------------------------------------------

    @cached_property
    def outputs(self) -> Predictions:
        """What the model says of every row."""
        if self.whole is not None:
            return self.whole.outputs.rows(self._rows)
        if self.given.outputs is not None:
            return self.given.outputs
        self._require("outputs")
        return self._pass[0]

    @cached_property
    def features(self) -> Floats:
        """What goes into the head, (n, d)."""
        if self.whole is not None:
            return np.asarray(self.whole.features[self._rows])
        if self.given.features is not None:
            return self.given.features
        self._require("features")
        found = self._pass[1]
        if isinstance(found, str):
            raise NoAnswer(f"it needs features: {found}")
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
        if self.given.dataset is None:
            raise NoAnswer("only outputs or features were given, and it looks at the inputs")
        return self.given.dataset.take(self._rows[index])

    def classified(self, inputs: Inputs) -> Predictions:
        """What the model says of other inputs."""
        if self.given.model is None:
            raise NoAnswer("only outputs or features were given, and it asks the model anew")
        found = said(self.given.model, inputs, self.given.model.name)
        check_alike(self.outputs, found, self.given.model.name)
        return found

    def lacks(self, need: Need) -> str | None:
        """Why it can't give what is needed; None where it can."""
        if need not in _LACKS:
            raise UnknownName("need", need, NEEDS)
        return _LACKS[need](self._root)

    # Rows -----------------------------------------------------------------------------------

    def rows(self, index: Ints | Bools | slice) -> View:
        """Some of the rows."""
        return View(self.given, self._rows[index], self._root)

    def first(self, count: int, purpose: str) -> View:
        """At most so many rows, drawn at random by their content."""
        return self if self.n <= count else self.rows(np.sort(self.order(purpose)[:count]))

    def order(self, purpose: str) -> Ints:
        """All rows in a random order that hangs on their content alone."""
        return np.argsort(self.draws(purpose).states, kind="stable")

    def draws(self, purpose: str) -> Draws:
        """A stream of random numbers a row; copies of a row have streams of their own."""
        copies = self._root._copies[self._rows]
        return Draws(self.given.seed, self.keys, copies).of(purpose)

    @property
    def keys(self) -> Keys:
        """A number a row, made of its content."""
        return self._root._all_keys[self._rows]

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The domains that rows come from, where that is known."""
        domains = self.given.domains
        return () if domains is None else tuple(sorted({str(d) for d in domains[self._rows]}))

    def of_domain(self, name: str) -> View:
        """The rows of one domain."""
        domains = self.given.domains
        if domains is None or name not in self.domain_names:
            raise InputError(f"{self.name!r} has no domain {name!r}: {self.domain_names}.")
        return self.rows(domains[self._rows].astype(str) == name)

    def per_row(self, key: Hashable, make: Callable[[View], Floats]) -> Floats:
        """A value a row, which `make` gives for some rows; each row is computed once for all views."""
        kept = self._root._memo.setdefault(key, np.full(self._root.n, np.nan))
        missing = self._rows[np.isnan(kept[self._rows])]
        if len(missing):
            kept[missing] = make(View(self.given, missing, self._root))
        return np.asarray(kept[self._rows])

    # Once for all rows ----------------------------------------------------------------------

    @property
    def _root(self) -> View:
        return self if self.whole is None else self.whole

    @cached_property
    def _rows(self) -> Ints:
        return np.arange(self.n) if self.index is None else self.index

    @cached_property
    def _network(self) -> Network:
        return cast(Opened, self.given.model).opened()

    @cached_property
    def _all_keys(self) -> Keys:
        if self.given.dataset is not None:
            return self.given.dataset.keys
        if self.given.features is not None:
            return batches_of.keys(self.given.features)
        scores, _ = self.outputs.scored("a random choice of rows")
        return batches_of.keys(scores)

    @cached_property
    def _copies(self) -> Ints:
        return copies_before(self._all_keys)

    @cached_property
    def _pass(self) -> Passed:
        """Outputs of one pass over the data, and features of the same pass or why there are none."""
        given, reason = self.given, self.featureless()
        if given.passed is not None:
            return given.passed
        assert given.dataset is not None
        assert given.model is not None
        if reason is None and given.layer is not None:
            try:
                parts = looked(self._network, given.dataset, given.layer, name=self.name,
                               progress=given.progress)  # fmt: skip
                labels = given.dataset.labels if given.labelled else None
                return together(parts, given.layer, labels)
            except NoAnswer as refusal:  # there may be outputs nevertheless
                reason = str(refusal)
        found = classify_all(
            given.model, given.dataset, labelled=given.labelled, progress=given.progress
        )
        return found, str(reason)

    def featureless(self) -> str | None:
        """Why a pass over the data does not look for features; None where it does."""
        return "they are given" if self.given.features is not None else self.lacks("features")

    def _require(self, need: Need) -> None:
        reason = self.lacks(need)
        if reason is not None:
            raise NoAnswer(f"it needs {need}: {reason}")


def left_out(some: View, whole: View) -> tuple[str, ...]:
    """A note on rows that were not looked at, where there are any."""
    if some.n == whole.n:
        return ()
    return (f"only {some.n:,} of {whole.n:,} rows of {whole.name!r} were used, drawn at random",)


def copies_before(keys: Keys) -> Ints:
    """How many rows of the same content come before each.

    >>> copies_before(np.array([7, 5, 7, 7], dtype=np.uint64))
    array([0, 0, 1, 2])
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    found = np.empty(len(keys), dtype=np.int64)
    found[order] = np.arange(len(keys)) - np.searchsorted(ranked, ranked)
    return found


def _no_outputs(view: View) -> str | None:
    given = view.given
    if given.outputs is None and (given.model is None or given.dataset is None):
        return f"there are neither outputs of {view.name!r} nor a model"
    return None


def _no_labels(view: View) -> str | None:
    given = view.given
    known = given.dataset.labels is not None if given.dataset is not None else None
    if given.outputs is not None:
        known = given.outputs.labels is not None
    if not known or not given.labelled:
        return f"{view.name!r} has no labels"
    return _no_outputs(view)


def _no_features(view: View) -> str | None:
    if view.given.features is not None:
        return None
    closed = _no_gradients(view)
    if closed is not None:
        return (
            closed if view.given.model is not None else f"no features of {view.name!r} were given"
        )
    if view.given.layer is None:
        return "nothing that was asked for looks at features"
    if view.given.layer != LAST:
        return None
    try:
        _ = view._network.linears
    except NoAnswer as refusal:
        return str(refusal)
    return None


def _no_gradients(view: View) -> str | None:
    model = view.given.model
    if model is None:
        return "no model was given"
    if not isinstance(model, Opened):
        return (
            f"{model.name!r} is a {type(model).__name__}, and only torch modules and Hugging Face "
            "folders can be looked into"
        )
    try:
        _ = view._network
    except NoAnswer as refusal:
        return str(refusal)
    return None


def _not_mixable(view: View) -> str | None:
    dataset = view.given.dataset
    if dataset is None or view.given.model is None:
        return "no model was given with its inputs"
    if dataset.kind not in MIXABLE:
        return f"{view.name!r} are {dataset.kind}, of which two can't be mixed"
    return None


def _no_domains(view: View) -> str | None:
    return None if view.given.domains is not None else "it is not known which domain a row is of"


_LACKS: dict[Need, Callable[[View], str | None]] = {
    "outputs": _no_outputs,
    "labels": _no_labels,
    "features": _no_features,
    "gradients": _no_gradients,
    "weights": _no_gradients,
    "training data": lambda view: None,
    "mixable inputs": _not_mixable,
    "source domains": _no_domains,
}
