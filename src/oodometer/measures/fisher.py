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

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.protocols import Need, Score
from oodometer.core.softmax_kernels import Floats
from oodometer.measures._difference_and_ratio import compared
from oodometer.measures.subject import DG, Subject
from oodometer.models.introspection.derivatives import MEMORY, Side, gradient_gram, sampled_classes
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import View, left_out

EigenvalueForm = Literal["diff", "ratio"]
# Rows a side of a network of at most so many weights, and of a larger one.
SMALL, ROWS_OF_SMALL, ROWS_OF_LARGE = 500_000, 1000, 75
# Gradients have 32 bits: a direction of a smaller share of the first eigenvalue is rounding.
NEGLIGIBLE = 1e-8


class Products(NamedTuple):
    """Inner products of gradients: of the source, of the target, and of one with the other."""

    source: Floats
    target: Floats
    cross: Floats


class Gradients(NamedTuple):
    """The products of a subject, and what must be said beside them."""

    products: Products
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
    memory: int = MEMORY

    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = (
        "a model whose weights matter more on the target than on the source errs"
    )
    paper: ClassVar[str] = DG
    shares: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        if self.form not in get_args(EigenvalueForm):
            raise InputError(f"form must be diff or ratio; got {self.form!r}. Name one of them.")
        _check(self.rows, self.memory)

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
        products, notes, facts = gradients(subject, self.rows, self.memory)
        source = np.trace(products.source) / len(products.source)
        target = np.trace(products.target) / len(products.target)
        value = compared(float(target), float(source), self.form)
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
    memory: int = MEMORY

    name: ClassVar[str] = "fisher-align"
    label: ClassVar[str] = "Fisher-Align"
    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = (
        "a model errs less where the weights that matter are those of the source"
    )
    paper: ClassVar[str] = DG
    shares: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        _check(self.rows, self.memory)

    def measure(self, subject: Subject) -> Score:
        """The best pairing's sum, by the Hungarian algorithm."""
        products, notes, facts = gradients(subject, self.rows, self.memory)
        found = np.abs(cosines(products))
        if not found.size:
            raise NoAnswer("all gradients of a side are 0, and have no direction")
        counts = {"source_directions": found.shape[0], "target_directions": found.shape[1]}
        return Score(best_pairing(found), notes=notes, facts={**facts, **counts})


def cosines(products: Products) -> Floats:
    """Cosines of the Fisher eigenvectors of the source (rows) with those of the target.

    With G = Σ_i √μ_i u_i v_iᵀ the gradients, a row an example, GGᵀ has eigenvalues μ and eigenvectors
    u, and v_i = Gᵀu_i / √μ_i; so v_i · w_j = u_iᵀ (G_S G_Tᵀ) u_j / √(μ_i μ_j).

    >>> turned = Products(np.diag([4.0, 1.0]), np.diag([9.0, 1.0]), np.array([[0, 2], [3, 0]]))
    >>> np.abs(cosines(turned)).round(6)
    array([[0., 1.],
           [1., 0.]])
    """
    source, target = _whitened(products.source), _whitened(products.target)
    return np.clip(source.T @ products.cross @ target, -1.0, 1.0)


def _whitened(gram: Floats) -> Floats:
    """u_i / √μ_i in columns, the largest μ first, without those next to 0."""
    values, vectors = np.linalg.eigh(gram)
    keep = np.flatnonzero(values > NEGLIGIBLE * values[-1])[::-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def best_pairing(similarities: Floats) -> float:
    """The largest sum over pairs of a row and a column, each in one pair at most.

    >>> round(best_pairing(np.array([[0.9, 0.8], [0.7, 0.1]])), 6)
    1.5
    """
    from scipy.optimize import linear_sum_assignment

    return float(similarities[linear_sum_assignment(similarities, maximize=True)].sum())


def gradients(subject: Subject, rows: int | None, memory: int) -> Gradients:
    """The inner products of both sides' gradients, computed once for all Fisher measures."""
    return subject.once(("fisher", rows), lambda: _gradients(subject, rows, memory))


def _gradients(subject: Subject, rows: int | None, memory: int) -> Gradients:
    network = subject.network
    most = rows or rows_of(network)
    whole = subject.known, subject.target
    known, target = (view.first(most, "fisher rows") for view in whole)
    found = gradient_gram(
        network, [_side(network, view) for view in (known, target)], memory=memory
    )
    notes = [note for pair in zip((known, target), whole, strict=True) for note in left_out(*pair)]
    if found.looped:
        notes.append("gradients were computed one row after the other: the network can't do more")
    gram, n = found.values, known.n
    products = Products(gram[:n, :n], gram[n:, n:], gram[:n, n:])
    return Gradients(products, tuple(notes), {"source_rows": known.n, "target_rows": target.n})


def rows_of(network: Network) -> int:
    """How many rows a side are drawn where nobody says: those of the paper."""
    size = sum(part.numel() for part in network.weights.values())
    return ROWS_OF_SMALL if size <= SMALL else ROWS_OF_LARGE


def _side(network: Network, view: View) -> Side:
    inputs = view.inputs()
    # One purpose for both sides: a row that is on both has one class.
    uniforms = view.draws("fisher classes").uniforms(1)[:, 0]
    return Side(inputs, sampled_classes(network, inputs, uniforms))


def _check(rows: int | None, memory: int) -> None:
    if rows is not None and rows < 1:
        raise InputError(f"rows must be 1 or more; got {rows}. Leave it out for the paper's.")
    if memory < 1:
        raise InputError(f"memory must be 1 byte or more; got {memory}. 2**30 is usual.")
