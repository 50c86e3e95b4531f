"""Jacobian measures: how much a small change of the inputs changes what the model says. DG §7.3.

After Novak et al., Sensitivity and Generalization in Neural Networks, ICLR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures._difference_and_ratio import COMPARISON_FORMS, ComparisonForm, compare_means
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.introspection.derivatives import MEMORY_BYTES, jacobian_norms
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView


@dataclass(frozen=True)
class Jacobian:
    """Mean Frobenius norm of dc/dx: c the probabilities, x the inputs (images: pixels from 0 to 1).

    The mean on the target (`plain`), or beside that on the source. At most `rows` rows a side;
    `memory` bounds the bytes at work.
    """

    form: ComparisonForm = "plain"
    rows: int = 1000
    memory: int = MEMORY_BYTES

    needs: ClassVar[tuple[Need, ...]] = ("gradients",)
    assumes: ClassVar[str] = "a model that small changes of target rows sway errs more there"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "jacobian"

    def __post_init__(self) -> None:
        if self.form not in COMPARISON_FORMS:
            raise InputError(
                f"form must be one of {', '.join(COMPARISON_FORMS)}; got {self.form!r}. Name one of them."
            )
        if self.rows < 1:
            raise InputError(f"rows must be 1 or more; got {self.rows}. 1000 is usual.")
        if self.memory < 1:
            raise InputError(f"memory must be 1 byte or more; got {self.memory}. 2**30 is usual.")

    @property
    def name(self) -> str:
        """`jacobian`, with its form."""
        return "jacobian" if self.form == "plain" else f"jacobian-{self.form}"

    @property
    def label(self) -> str:
        """As the paper has it: Jacobian-Log-Diff."""
        return self.name.title()

    def measure(self, subject: Subject) -> Score:
        """The mean on T, or compared with that on S."""
        network, memory = subject.network, self.memory
        return compare_means(
            subject,
            self.form,
            lambda view: row_jacobian_norms(view, network, memory=memory),
            max_rows=self.rows,
            purpose="jacobian rows",
        )


def row_jacobian_norms(view: ModelView, network: Network, *, memory: int) -> Floats:
    """The norm of every row; each row is computed once for all views."""
    return view.per_row_cached(
        ("jacobian", network.module),
        lambda missing: jacobian_norms(network, missing.inputs(), memory_bytes=memory),
    )
