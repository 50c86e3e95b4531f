"""Jacobian measures: sensitivity of the predicted probabilities to the inputs.

Vedantam et al., NeurIPS 2021, §7.3, based on Novak et al., "Sensitivity and Generalization in
Neural Networks", ICLR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.array_types import Floats
from oodometer.core.errors import out_of_range
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures._difference_and_ratio import ComparisonForm, check_form, compare_means
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.introspection.derivatives import MEMORY_BYTES, jacobian_norms
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView


@dataclass(frozen=True)
class Jacobian:
    """Mean Frobenius norm of dc/dx, where c are the probabilities and x are the inputs.

    For images, the inputs are pixel values in [0, 1].

    Parameters
    ----------
    form : {"plain", "diff", "ratio", "log-diff"}
        T, T − S, T / S or log T − log S, where T is the mean on the target and S on the source.
    rows : int
        Maximum number of rows of the source and of the target; a random subsample is used if there
        are more.
    memory : int
        Maximum memory of the computation, in bytes.

    Examples
    --------
    >>> Jacobian().name, Jacobian("log-diff").label
    ('jacobian', 'Jacobian-Log-Diff')
    """

    form: ComparisonForm = "plain"
    rows: int = 1000
    memory: int = MEMORY_BYTES

    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = "higher sensitivity to the inputs means a higher error on the target"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "jacobian"

    def __post_init__(self) -> None:
        check_form(self.form)
        if self.rows < 1:
            raise out_of_range("rows", self.rows, low=1)
        if self.memory < 1:
            raise out_of_range("memory", self.memory, low=1)

    @property
    def name(self) -> str:
        return "jacobian" if self.form == "plain" else f"jacobian-{self.form}"

    @property
    def label(self) -> str:
        return self.name.title()

    def measure(self, subject: Subject) -> Score:
        network = subject.network
        return compare_means(
            subject,
            self.form,
            lambda view: row_jacobian_norms(view, network, memory=self.memory),
            max_rows=self.rows,
            purpose="jacobian rows",
        )


def row_jacobian_norms(view: ModelView, network: Network, *, memory: int) -> Floats:
    """Return the norm of dc/dx for each row; norms are cached for other views of the same rows."""
    return view.per_row_cached(
        ("jacobian", network.module),
        lambda missing: jacobian_norms(network, missing.inputs(), memory_bytes=memory),
    )
