"""Mixup as a measure: how far the model is from linear between pairs of rows.

Vedantam et al., NeurIPS 2021, §7.3.

Each row is mixed with a partner, which is the next row in a random order of *all* rows. The random
order and the mixing share λ are derived from the row content. Therefore a row has the same value in
every subset of the rows, subsets need no further predictions, and the order of rows does not
matter. Duplicate rows are numbered; otherwise most of them would be mixed with their own copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Need
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Score
from oodometer.measures._difference_and_ratio import ComparisonForm, check_form, compare_means
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.inference import DEFAULT_BATCH_ROWS
from oodometer.models.model_view import ModelView

# Maximum number of input values that are mixed at once. They take 32 MB as float64.
MAX_MIXED_CELLS = 2**22


@dataclass(frozen=True)
class Mixup:
    """Mean of ‖λc(x₁) + (1−λ)c(x₂) − c(λx₁ + (1−λ)x₂)‖² over pairs of rows, λ ~ Beta(α, α).

    x₁ is a row, x₂ is its partner, and c are the probabilities that the model predicts. Mixed
    images are rounded to integer grey levels, which changes a pixel by at most half a level.

    Parameters
    ----------
    form : {"plain", "diff", "ratio", "log-diff"}
        T, T − S, T / S or log T − log S, where T is the mean on the target and S on the source.
    alpha : float
        Parameter α of the Beta distribution.
    rows : int
        Maximum number of rows of the source and of the target; a random subsample is used if there
        are more. Each row is mixed with one partner.

    Examples
    --------
    >>> Mixup("diff").name, Mixup("log-diff", alpha=0.3).label
    ('mixup-diff', 'Mixup-Log-Diff-Alpha-0.3')
    """

    form: ComparisonForm = "plain"
    alpha: float = 0.1
    rows: int = 5000

    needs: ClassVar[tuple[Need, ...]] = ("outputs", "mixable inputs")
    assumes: ClassVar[str] = (
        "the less linear the model is between target rows, the higher its error there"
    )
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "mixup"

    def __post_init__(self) -> None:
        check_form(self.form)
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise out_of_range("alpha", self.alpha, above=0)
        if self.rows < 1:
            raise out_of_range("rows", self.rows, low=1)

    @property
    def name(self) -> str:
        form = "" if self.form == "plain" else f"-{self.form}"
        return f"mixup{form}" + ("" if self.alpha == 0.1 else f"-{self.alpha:g}")

    @property
    def label(self) -> str:
        form = "" if self.form == "plain" else f"-{self.form.title()}"
        return f"Mixup{form}" + ("" if self.alpha == 0.1 else f"-Alpha-{self.alpha:g}")

    def measure(self, subject: Subject) -> Score:
        return compare_means(
            subject,
            self.form,
            lambda view: mixup_distances(view, alpha=self.alpha),
            max_rows=self.rows,
            purpose="mixup rows",
        )


def mixup_distances(view: ModelView, *, alpha: float) -> Floats:
    """Return the deviation from linearity of each row mixed with its partner; rows are cached."""
    return view.per_row_cached(("mixup", alpha), lambda missing: _compute_distances(missing, alpha))


def _compute_distances(view: ModelView, alpha: float) -> Floats:
    parent = view.parent
    index = view.index
    assert parent is not None  # because `per_row_cached` passes a view of selected rows
    assert index is not None
    if parent.n < 2:
        raise NotApplicable(f"{view.name!r} has a single row, and mixing needs two")
    draws = parent.row_streams("mixup")
    shares = mixing_shares(draws.rows(index), alpha=alpha)
    partners = mixing_partners(draws)[index]
    distances = np.empty(len(index))
    for rows in _mix_slices(parent, len(index)):
        distances[rows] = _pair_distances(parent, index[rows], partners[rows], shares[rows])
        if view.view_source.progress:
            view.view_source.progress(rows.stop, len(index), f"mixing {view.name}")
    return distances


def _pair_distances(view: ModelView, first: Ints, partner: Ints, share: Floats) -> Floats:
    """Return ‖λc(x₁) + (1−λ)c(x₂) − c(λx₁ + (1−λ)x₂)‖² per pair."""
    mixed = view.classify_inputs(mix_rows(view.inputs(first), view.inputs(partner), share))
    probs = mixed.reorder_classes(view.outputs.class_names).probs
    linear = _interpolate(view.outputs.rows(first).probs, view.outputs.rows(partner).probs, share)
    return np.asarray(((linear - probs) ** 2).sum(axis=1))


def _mix_slices(view: ModelView, n: int) -> Iterator[slice]:
    """Return slices of rows that are small enough to be mixed at once."""
    cells = prod(view.inputs(slice(0, 1)).shape[1:])
    step = max(1, min(DEFAULT_BATCH_ROWS, MAX_MIXED_CELLS // max(cells, 1)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def mixing_partners(draws: RowStreams) -> Ints:
    """Return the partner of each row: the next row in a random cyclic order."""
    order = np.argsort(draws.initial_states, kind="stable")
    partners = np.empty(len(order), dtype=np.int64)
    partners[order] = np.roll(order, -1)
    return partners


def mixing_shares(draws: RowStreams, *, alpha: float) -> Floats:
    """Return the share λ of the first row of each pair, drawn from Beta(α, α)."""
    from scipy.special import betaincinv

    return np.asarray(betaincinv(alpha, alpha, draws.uniforms(1)[:, 0]))


def mix_rows(first: Inputs, partner: Inputs, share: Floats) -> Array:
    """Return λ·first + (1−λ)·partner; images are rounded to integer grey levels.

    >>> black, white = np.zeros((1, 1, 1), dtype=np.uint8), np.full((1, 1, 1), 255, dtype=np.uint8)
    >>> mix_rows(white, black, np.array([0.3]))
    array([[[76]]], dtype=uint8)
    """
    mixed = _interpolate(first, partner, share)
    return (np.rint(mixed) if first.dtype == np.uint8 else mixed).astype(first.dtype)


def _interpolate(first: Array, partner: Array, share: Floats) -> Floats:
    """Return λa + (1−λ)b in a form without rounding error where a = b."""
    weight = share.reshape(-1, *[1] * (first.ndim - 1))
    start = partner.astype(np.float64)
    return np.asarray(start + weight * (first - start))
