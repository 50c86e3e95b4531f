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

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Need
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Score
from oodometer.measures._difference_and_ratio import COMPARISON_FORMS, ComparisonForm, compare_means
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.inference import DEFAULT_BATCH_ROWS
from oodometer.models.model_view import ModelView

# As many rows are mixed at once as have so many cells: 32 MB of floats.
MAX_MIXED_CELLS = 2**22


@dataclass(frozen=True)
class Mixup:
    """Mean of ‖λc(x₁) + (1−λ)c(x₂) − c(λx₁ + (1−λ)x₂)‖² over pairs, λ ~ Beta(α, α) a pair.

    The mean on the target (`plain`), or beside that on the source. At most `rows` rows a side, each
    mixed once. Images are mixed as floats and rounded to grey levels again, half a level off at most.
    """

    form: ComparisonForm = "plain"
    alpha: float = 0.1
    rows: int = 5000

    needs: ClassVar[tuple[Need, ...]] = ("outputs", "mixable inputs")
    assumes: ClassVar[str] = "a model that is not smooth between target rows errs more there"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "mixup"

    def __post_init__(self) -> None:
        if self.form not in COMPARISON_FORMS:
            raise InputError(
                f"form must be one of {', '.join(COMPARISON_FORMS)}; got {self.form!r}."
            )
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
        return compare_means(
            subject,
            self.form,
            lambda view: mixup_distances(view, alpha=self.alpha),
            max_rows=self.rows,
            purpose="mixup rows",
        )


def mixup_distances(view: ModelView, *, alpha: float) -> Floats:
    """How far off the model is for every row mixed with its partner; each row is computed once."""
    return view.per_row_cached(("mixup", alpha), lambda missing: _compute_distances(missing, alpha))


def _compute_distances(view: ModelView, alpha: float) -> Floats:
    whole, index = view.parent, view.index
    assert whole is not None  # some rows of a whole are what `per_row_cached` asks for
    assert index is not None
    if whole.n < 2:
        raise NotApplicable(f"{view.name!r} has a single row, and two are mixed")
    draws = whole.row_streams("mixup")
    shares, partners = mixing_shares(draws.rows(index), alpha=alpha), mixing_partners(draws)[index]
    found = np.empty(len(index))
    for part in _mix_slices(whole, len(index)):
        found[part] = _pair_distances(whole, index[part], partners[part], shares[part])
        if view.view_source.progress:
            view.view_source.progress(part.stop, len(index), f"mixing {view.name}")
    return found


def _pair_distances(view: ModelView, first: Ints, partner: Ints, share: Floats) -> Floats:
    """‖λc(x₁) + (1−λ)c(x₂) − c(λx₁ + (1−λ)x₂)‖² of some pairs."""
    said = view.classify_inputs(mix_rows(view.inputs(first), view.inputs(partner), share))
    probs = said.reorder_classes(view.outputs.class_names).probs
    linear = _interpolate(view.outputs.rows(first).probs, view.outputs.rows(partner).probs, share)
    return np.asarray(((linear - probs) ** 2).sum(axis=1))


def _mix_slices(view: ModelView, n: int) -> Iterator[slice]:
    """Slices of so many rows as are mixed at once."""
    cells = prod(view.inputs(slice(0, 1)).shape[1:])
    step = max(1, min(DEFAULT_BATCH_ROWS, MAX_MIXED_CELLS // max(cells, 1)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def mixing_partners(draws: RowStreams) -> Ints:
    """Whom each row is mixed with: the next in a random order, and the first for the last."""
    order = np.argsort(draws.initial_states, kind="stable")
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.roll(order, -1)
    return found


def mixing_shares(draws: RowStreams, *, alpha: float) -> Floats:
    """A share λ of the first of each pair, of the distribution Beta(α, α)."""
    from scipy.special import betaincinv

    return np.asarray(betaincinv(alpha, alpha, draws.uniforms(1)[:, 0]))


def mix_rows(first: Inputs, partner: Inputs, share: Floats) -> Array:
    """λ of one row and the rest of the other; images are rounded to grey levels.

    >>> black, white = np.zeros((1, 1, 1), dtype=np.uint8), np.full((1, 1, 1), 255, dtype=np.uint8)
    >>> mix_rows(white, black, np.array([0.3]))
    array([[[76]]], dtype=uint8)
    """
    between = _interpolate(first, partner, share)
    return (np.rint(between) if first.dtype == np.uint8 else between).astype(first.dtype)


def _interpolate(first: Array, partner: Array, share: Floats) -> Floats:
    """λa + (1−λ)b, in a form that gives a itself where both are the same."""
    weight = share.reshape(-1, *[1] * (first.ndim - 1))
    start = partner.astype(np.float64)
    return np.asarray(start + weight * (first - start))
