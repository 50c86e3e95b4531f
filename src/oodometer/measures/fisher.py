"""Fisher measures: eigenvalues and eigenvectors of the Fisher matrices of source and target.

Vedantam et al., NeurIPS 2021, §7.3, §8.3.

The empirical Fisher matrix is F = (1/Ñ) Σ g gᵀ over Ñ source rows or Ñ target rows. For a row x, g
is the gradient of log p(y|x) with respect to all weights, and y is a class sampled from the
predicted probabilities. The measures need only the inner products of the gradients, so F is never
computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable, out_of_range
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
# Default numbers of rows from the source and from the target (Vedantam et al., 2021, §8.3). They
# depend on whether the network has more weights than the first number.
MAX_SMALL_NETWORK_WEIGHTS = 500_000
SMALL_NETWORK_ROWS = 1000
LARGE_NETWORK_ROWS = 75
# Gradients are float32, so eigenvalues below this share of the largest are rounding errors.
MIN_EIGENVALUE_SHARE = 1e-8


class GradientProducts(NamedTuple):
    """Inner products of gradients within the source, within the target, and between the two."""

    source: Floats
    target: Floats
    cross: Floats


class FisherGradients(NamedTuple):
    """Inner products of the gradients of a subject, with the notes and additional values that the score reports."""

    products: GradientProducts
    notes: tuple[str, ...]
    facts: Mapping[str, float]


@dataclass(frozen=True)
class FisherEigenvalues:
    """Sum of the Fisher eigenvalues on the target compared with the sum on the source.

    The sum of all eigenvalues is the trace of the Fisher matrix, which is the mean of ‖g‖².

    Parameters
    ----------
    form : {"diff", "ratio"}
        Σα_T − Σα_S or Σα_T / Σα_S, where α are the eigenvalues, T is the target and S the source.
    rows : int, optional
        Maximum number of rows of the source and of the target. Default: 1,000, or 75 for networks
        of more than 500,000 weights.
    memory : int
        Maximum memory of the computation, in bytes.

    Examples
    --------
    >>> FisherEigenvalues("ratio").name
    'fisher-eigval-ratio'
    """

    form: EigenvalueForm = "diff"
    rows: int | None = None
    memory: int = MEMORY_BYTES

    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = (
        "the larger the gradients on the target relative to the source, the higher the error"
    )
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        if self.form not in get_args(EigenvalueForm):
            raise InputError(f"form must be diff or ratio; got {self.form!r}.")
        _validate_settings(self.rows, self.memory)

    @property
    def name(self) -> str:
        return f"fisher-eigval-{self.form}"

    @property
    def label(self) -> str:
        return f"Fisher-Eigval-{self.form.title()}"

    def measure(self, subject: Subject) -> Score:
        products, notes, facts = gradient_products(subject, self.rows, self.memory)
        source = np.trace(products.source) / len(products.source)
        target = np.trace(products.target) / len(products.target)
        value = compare(float(target), float(source), self.form)
        return Score(value, notes=notes, facts={**facts, "source": source, "target": target})


@dataclass(frozen=True)
class FisherAlignment:
    """Largest sum of |cos| over one-to-one pairs of source and target Fisher eigenvectors.

    The paper uses the signed cosine, but the sign of an eigenvector is arbitrary and depends on the
    library. Eigenvectors whose eigenvalue is close to 0 are left out. The facts of the score give
    the number of eigenvectors that remain. The sum grows with this number, so compare models only
    on the same number of rows.

    Parameters
    ----------
    rows : int, optional
        Maximum number of rows of the source and of the target. Default: 1,000, or 75 for networks
        of more than 500,000 weights.
    memory : int
        Maximum memory of the computation, in bytes.

    Examples
    --------
    >>> FisherAlignment(rows=75).name
    'fisher-align'
    """

    rows: int | None = None
    memory: int = MEMORY_BYTES

    name: ClassVar[str] = "fisher-align"
    label: ClassVar[str] = "Fisher-Align"
    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = (
        "the better the Fisher eigenvectors of source and target align, the lower the error"
    )
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        _validate_settings(self.rows, self.memory)

    def measure(self, subject: Subject) -> Score:
        products, notes, facts = gradient_products(subject, self.rows, self.memory)
        similarities = np.abs(eigenvector_cosines(products))
        if not similarities.size:
            raise NotApplicable("all gradients of the source or of the target are 0")
        n_source, n_target = similarities.shape
        counts = {"source_directions": n_source, "target_directions": n_target}
        return Score(best_pairing(similarities), notes=notes, facts={**facts, **counts})


def eigenvector_cosines(products: GradientProducts) -> Floats:
    """Return the cosines between source eigenvectors (rows) and target eigenvectors (columns).

    Let G be the matrix with one gradient per row, and G = Σ_i √μ_i u_i v_iᵀ its singular value
    decomposition. GGᵀ has eigenvalues μ_i and eigenvectors u_i, and the Fisher eigenvectors are
    v_i = Gᵀu_i / √μ_i. For source S and target T, this gives
    v_S,i · v_T,j = u_S,iᵀ (G_S G_Tᵀ) u_T,j / √(μ_S,i μ_T,j).

    >>> swapped = GradientProducts(np.diag([4.0, 1.0]), np.diag([9.0, 1.0]), np.array([[0, 2], [3, 0]]))
    >>> np.abs(eigenvector_cosines(swapped)).round(6)
    array([[0., 1.],
           [1., 0.]])
    """
    source, target = _whitening_vectors(products.source), _whitening_vectors(products.target)
    return np.clip(source.T @ products.cross @ target, -1.0, 1.0)


def _whitening_vectors(gram: Floats) -> Floats:
    """Return u_i / √μ_i as columns, by decreasing eigenvalue μ_i; drop eigenvalues close to 0."""
    values, vectors = np.linalg.eigh(gram)
    keep = np.flatnonzero(values > MIN_EIGENVALUE_SHARE * values[-1])[::-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def best_pairing(similarities: Floats) -> float:
    """Return the largest sum over one-to-one pairs of rows and columns (Hungarian algorithm).

    >>> round(best_pairing(np.array([[0.9, 0.8], [0.7, 0.1]])), 6)
    1.5
    """
    from scipy.optimize import linear_sum_assignment

    return float(similarities[linear_sum_assignment(similarities, maximize=True)].sum())


def gradient_products(subject: Subject, rows: int | None, memory: int) -> FisherGradients:
    """Return the inner products of the gradients, computed once for all Fisher measures."""
    return subject.cached(
        ("fisher", rows), lambda: _compute_gradient_products(subject, rows, memory)
    )


def _compute_gradient_products(subject: Subject, rows: int | None, memory: int) -> FisherGradients:
    network = subject.network
    max_rows = rows or default_rows(network)
    source = subject.reference.subsample(max_rows, "fisher rows")
    target = subject.target.subsample(max_rows, "fisher rows")
    gram = gradient_gram(
        network, [_sample_side(network, view) for view in (source, target)], memory_bytes=memory
    )
    notes = [
        *subsample_note(source, subject.reference),
        *subsample_note(target, subject.target),
    ]
    if gram.used_loop:
        notes.append("gradients were computed row by row: the network does not support batches")
    n = source.n
    products = GradientProducts(gram.values[:n, :n], gram.values[n:, n:], gram.values[:n, n:])
    return FisherGradients(products, tuple(notes), {"source_rows": n, "target_rows": target.n})


def default_rows(network: Network) -> int:
    """Return the number of rows that the paper uses for a network of this size."""
    n_weights = sum(weight.numel() for weight in network.weights.values())
    return SMALL_NETWORK_ROWS if n_weights <= MAX_SMALL_NETWORK_WEIGHTS else LARGE_NETWORK_ROWS


def _sample_side(network: Network, view: ModelView) -> InputsWithClasses:
    inputs = view.inputs()
    # Source and target use the same random stream, so a row that occurs in both gets one class.
    uniforms = view.row_streams("fisher classes").uniforms(1)[:, 0]
    return InputsWithClasses(inputs, sample_classes(network, inputs, uniforms))


def _validate_settings(rows: int | None, memory: int) -> None:
    if rows is not None and rows < 1:
        raise out_of_range("rows", rows, low=1)
    if memory < 1:
        raise out_of_range("memory", memory, low=1)
