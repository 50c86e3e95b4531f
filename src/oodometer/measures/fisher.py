"""Fisher measures: whether the weights matter on the target as they do on the source. DG §7.3, §8.3.

The empirical Fisher matrix of a side is F = (1/Ñ) Σ g gᵀ over Ñ of its rows, where g is the gradient of
log p(y|x) by all weights and y is drawn from what the model says of x. All that is asked of two such
matrices is in the inner products of the gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures._difference_and_ratio import compare
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.introspection.derivatives import (
    MEMORY_BYTES,
    InputsWithClasses,
    gradient_gram,
    sample_classes,
)
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView, subsample_note

EigenvalueForm = Literal["diff", "ratio"]
# Rows a side of a network of at most so many weights, and of a larger one.
MAX_SMALL_NETWORK_WEIGHTS, SMALL_NETWORK_ROWS, LARGE_NETWORK_ROWS = 500_000, 1000, 75
# Gradients have 32 bits: a direction of a smaller share of the first eigenvalue is rounding.
MIN_EIGENVALUE_SHARE = 1e-8


class GradientProducts(NamedTuple):
    """Inner products of gradients: of the source, of the target, and of one with the other."""

    source: Floats
    target: Floats
    cross: Floats


class FisherGradients(NamedTuple):
    """The products of a subject, and what must be said beside them."""

    products: GradientProducts
    notes: tuple[str, ...]
    facts: Mapping[str, float]


@dataclass(frozen=True)
class FisherEigenvalues:
    """The sum of the Fisher eigenvalues on the target, less that on the source or divided by it.

    There are as many that are not 0 as rows at most, so their sum is the trace: the mean ‖g‖².
    Of either side `rows` rows are drawn: 1,000, or 75 if there are over half a million weights.
    `memory` bounds the bytes at work.
    """

    form: EigenvalueForm = "diff"
    rows: int | None = None
    memory: int = MEMORY_BYTES

    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = (
        "a model whose weights matter more on the target than on the source errs"
    )
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        if self.form not in get_args(EigenvalueForm):
            raise InputError(f"form must be diff or ratio; got {self.form!r}. Name one of them.")
        _validate_settings(self.rows, self.memory)

    @property
    def name(self) -> str:
        """`fisher-eigval-diff` or `fisher-eigval-ratio`."""
        return f"fisher-eigval-{self.form}"

    @property
    def label(self) -> str:
        """As the paper has it."""
        return f"Fisher-Eigval-{self.form.title()}"

    def measure(self, subject: Subject) -> Score:
        """Σα_T − Σα_S, or Σα_T / Σα_S."""
        products, notes, facts = gradient_products(subject, self.rows, self.memory)
        source = np.trace(products.source) / len(products.source)
        target = np.trace(products.target) / len(products.target)
        value = compare(float(target), float(source), self.form)
        return Score(value, notes=notes, facts={**facts, "source": source, "target": target})


@dataclass(frozen=True)
class FisherAlignment:
    """How well the eigenvectors on the source can be paired with those on the target.

    The largest sum of |cos| over pairs, each vector in one pair. The paper has the plain cosine, but
    an eigenvector has no sign: that would hang on the library that found it. A vector whose
    eigenvalue is next to 0 has no direction either and is left out; facts count those that stay.
    The sum grows with them, so compare models on as many rows.
    """

    rows: int | None = None
    memory: int = MEMORY_BYTES

    name: ClassVar[str] = "fisher-align"
    label: ClassVar[str] = "Fisher-Align"
    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = (
        "a model errs less where the weights that matter are those of the source"
    )
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        _validate_settings(self.rows, self.memory)

    def measure(self, subject: Subject) -> Score:
        """The best pairing's sum, by the Hungarian algorithm."""
        products, notes, facts = gradient_products(subject, self.rows, self.memory)
        found = np.abs(eigenvector_cosines(products))
        if not found.size:
            raise NotApplicable("all gradients of a side are 0, and have no direction")
        counts = {"source_directions": found.shape[0], "target_directions": found.shape[1]}
        return Score(best_pairing(found), notes=notes, facts={**facts, **counts})


def eigenvector_cosines(products: GradientProducts) -> Floats:
    """Cosines of the Fisher eigenvectors of the source (rows) with those of the target.

    With G = Σ_i √μ_i u_i v_iᵀ the gradients, a row an example, GGᵀ has eigenvalues μ and eigenvectors
    u, and v_i = Gᵀu_i / √μ_i; so v_i · w_j = u_iᵀ (G_S G_Tᵀ) u_j / √(μ_i μ_j).

    >>> turned = GradientProducts(np.diag([4.0, 1.0]), np.diag([9.0, 1.0]), np.array([[0, 2], [3, 0]]))
    >>> np.abs(eigenvector_cosines(turned)).round(6)
    array([[0., 1.],
           [1., 0.]])
    """
    source, target = _whitening_vectors(products.source), _whitening_vectors(products.target)
    return np.clip(source.T @ products.cross @ target, -1.0, 1.0)


def _whitening_vectors(gram: Floats) -> Floats:
    """u_i / √μ_i in columns, the largest μ first, without those next to 0."""
    values, vectors = np.linalg.eigh(gram)
    keep = np.flatnonzero(values > MIN_EIGENVALUE_SHARE * values[-1])[::-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def best_pairing(similarities: Floats) -> float:
    """The largest sum over pairs of a row and a column, each in one pair at most.

    >>> round(best_pairing(np.array([[0.9, 0.8], [0.7, 0.1]])), 6)
    1.5
    """
    from scipy.optimize import linear_sum_assignment

    return float(similarities[linear_sum_assignment(similarities, maximize=True)].sum())


def gradient_products(subject: Subject, rows: int | None, memory: int) -> FisherGradients:
    """The inner products of both sides' gradients, computed once for all Fisher measures."""
    return subject.cached(
        ("fisher", rows), lambda: _compute_gradient_products(subject, rows, memory)
    )


def _compute_gradient_products(subject: Subject, rows: int | None, memory: int) -> FisherGradients:
    network = subject.network
    most = rows or default_rows(network)
    whole = subject.reference, subject.target
    known, target = (view.subsample(most, "fisher rows") for view in whole)
    found = gradient_gram(
        network, [_build_side(network, view) for view in (known, target)], memory_bytes=memory
    )
    notes = [
        note for pair in zip((known, target), whole, strict=True) for note in subsample_note(*pair)
    ]
    if found.used_loop:
        notes.append("gradients were computed one row after the other: the network can't do more")
    gram, n = found.values, known.n
    products = GradientProducts(gram[:n, :n], gram[n:, n:], gram[:n, n:])
    return FisherGradients(
        products, tuple(notes), {"source_rows": known.n, "target_rows": target.n}
    )


def default_rows(network: Network) -> int:
    """How many rows a side are drawn where nobody says: those of the paper."""
    size = sum(part.numel() for part in network.weights.values())
    return SMALL_NETWORK_ROWS if size <= MAX_SMALL_NETWORK_WEIGHTS else LARGE_NETWORK_ROWS


def _build_side(network: Network, view: ModelView) -> InputsWithClasses:
    inputs = view.inputs()
    # One purpose for both sides: a row that is on both has one class.
    uniforms = view.row_streams("fisher classes").uniforms(1)[:, 0]
    return InputsWithClasses(inputs, sample_classes(network, inputs, uniforms))


def _validate_settings(rows: int | None, memory: int) -> None:
    if rows is not None and rows < 1:
        raise InputError(f"rows must be 1 or more; got {rows}. Leave it out for the paper's.")
    if memory < 1:
        raise InputError(f"memory must be 1 byte or more; got {memory}. 2**30 is usual.")
