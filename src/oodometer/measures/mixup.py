"""Mixup as a measure: how far the model is from linear between two rows. DG §7.3.

A row's partner is the next one in a random order of *all* the rows that were given, and its share
is drawn by its content. So a row has one value whichever subset it is looked at in, a bootstrap over
subsets asks the model nothing anew, and the order of rows changes nothing. The copies of a row are
told apart by their number, or else a row would mostly be mixed with its own copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Need, Score
from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Array, Floats, Ints
from oodometer.measures._difference_and_ratio import FORMS, Form, means_compared
from oodometer.measures.subject import DG, Subject
from oodometer.models.inference import ROWS
from oodometer.models.model_view import View

# As many rows are mixed at once as have so many cells: 32 MB of floats.
CELLS = 2**22


@dataclass(frozen=True)
class Mixup:
    """Mean of ‖λc(x₁) + (1−λ)c(x₂) − c(λx₁ + (1−λ)x₂)‖² over pairs, λ ~ Beta(α, α) a pair.

    The mean on the target (`plain`), or beside that on the source. At most `rows` rows a side, each
    mixed once. Images are mixed as floats and rounded to grey levels again, half a level off at most.
    """

    form: Form = "plain"
    alpha: float = 0.1
    rows: int = 5000

    needs: ClassVar[tuple[Need, ...]] = ("outputs", "mixable inputs")
    assumes: ClassVar[str] = "a model that is not smooth between target rows errs more there"
    paper: ClassVar[str] = DG
    shares: ClassVar[str] = "mixup"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InputError(f"form must be one of {', '.join(FORMS)}; got {self.form!r}.")
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise InputError(
                f"alpha must be above 0; got {self.alpha:g}. The paper has 0.1 and 0.3."
            )
        if self.rows < 1:
            raise InputError(f"rows must be 1 or more; got {self.rows}. 5000 is usual.")

    @property
    def name(self) -> str:
        """`mixup`, with its form, and with its α where that is not 0.1."""
        form = "" if self.form == "plain" else f"-{self.form}"
        return f"mixup{form}" + ("" if self.alpha == 0.1 else f"-{self.alpha:g}")

    @property
    def label(self) -> str:
        """As the paper has it: Mixup-Log-Diff-Alpha-0.3."""
        form = "" if self.form == "plain" else f"-{self.form.title()}"
        return f"Mixup{form}" + ("" if self.alpha == 0.1 else f"-Alpha-{self.alpha:g}")

    def measure(self, subject: Subject) -> Score:
        """The mean on T, or compared with that on S."""
        return means_compared(
            subject,
            self.form,
            lambda view: distances(view, alpha=self.alpha),
            rows=self.rows,
            purpose="mixup rows",
        )


def distances(view: View, *, alpha: float) -> Floats:
    """How far off the model is for every row mixed with its partner; each row is computed once."""
    return view.per_row(("mixup", alpha), lambda missing: _computed(missing, alpha))


def _computed(view: View, alpha: float) -> Floats:
    whole, index = view.whole, view.index
    assert whole is not None  # some rows of a whole are what `per_row` asks for
    assert index is not None
    if whole.n < 2:
        raise NoAnswer(f"{view.name!r} has a single row, and two are mixed")
    draws = whole.draws("mixup")
    shares, partners = shares_of(draws.rows(index), alpha=alpha), partners_of(draws)[index]
    found = np.empty(len(index))
    for part in _parts(whole, len(index)):
        found[part] = _distance(whole, index[part], partners[part], shares[part])
        if view.given.progress:
            view.given.progress(part.stop, len(index), f"mixing {view.name}")
    return found


def _distance(view: View, one: Ints, other: Ints, share: Floats) -> Floats:
    """‖λc(x₁) + (1−λ)c(x₂) − c(λx₁ + (1−λ)x₂)‖² of some pairs."""
    said = view.classified(mixed(view.inputs(one), view.inputs(other), share))
    probs = said.in_class_order(view.outputs.class_names).probs
    linear = _between(view.outputs.rows(one).probs, view.outputs.rows(other).probs, share)
    return np.asarray(((linear - probs) ** 2).sum(axis=1))


def _parts(view: View, n: int) -> Iterator[slice]:
    """Slices of so many rows as are mixed at once."""
    cells = prod(view.inputs(slice(0, 1)).shape[1:])
    step = max(1, min(ROWS, CELLS // max(cells, 1)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def partners_of(draws: Draws) -> Ints:
    """Whom each row is mixed with: the next in a random order, and the first for the last."""
    order = np.argsort(draws.states, kind="stable")
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.roll(order, -1)
    return found


def shares_of(draws: Draws, *, alpha: float) -> Floats:
    """A share λ of the first of each pair, of the distribution Beta(α, α)."""
    from scipy.special import betaincinv

    return np.asarray(betaincinv(alpha, alpha, draws.uniforms(1)[:, 0]))


def mixed(one: Inputs, other: Inputs, share: Floats) -> Array:
    """λ of one row and the rest of the other; images are rounded to grey levels.

    >>> black, white = np.zeros((1, 1, 1), dtype=np.uint8), np.full((1, 1, 1), 255, dtype=np.uint8)
    >>> mixed(white, black, np.array([0.3]))
    array([[[76]]], dtype=uint8)
    """
    between = _between(one, other, share)
    return (np.rint(between) if one.dtype == np.uint8 else between).astype(one.dtype)


def _between(one: Array, other: Array, share: Floats) -> Floats:
    """λa + (1−λ)b, in a form that gives a itself where both are the same."""
    weight = share.reshape(-1, *[1] * (one.ndim - 1))
    start = other.astype(np.float64)
    return np.asarray(start + weight * (one - start))
