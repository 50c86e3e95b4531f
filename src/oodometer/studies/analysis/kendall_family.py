"""The τ family of "Predicting Out-of-Domain Generalization with Neighborhood Invariance" (Ng et al.
2023, §4.3 and B.2): how alike a measure and accuracy order what is compared.

| statistic | compared | a group is |
| --- | --- | --- |
| ID τ | models of one training set, on a domain of it | architecture, training set, test domain |
| Macro τ | models of one training set, on another domain | architecture, training set, test domain |
| Micro τ | all models not trained on the test domain | architecture, test domain |
| Arch τ | the same, of all architectures together | test domain |
| Cross-domain τ | the domains that one model was not trained on | model |

The paper's F_i are of one architecture: its tables give CNN and RoBERTa apart, and where they say
"averaged across all architectures" (Table 2b) the mean is over the groups of all of them: the four
ID τ of Table 25 have the mean and the standard deviation of Tables 2b and 28b. So here.

Every group that is in the table is there; one with fewer than two answers or with a constant side
has no τ, and says why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oodometer.core.softmax_kernels import Ints
from oodometer.studies.analysis import grouped_scores
from oodometer.studies.analysis._kendall import Pairs, pairs, ranks
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.grouped_scores import Groups, Scores


@dataclass(frozen=True)
class Tau:
    """One of the family: what its groups share, and whether they are of trained domains."""

    name: str
    by: tuple[str, ...]
    own: bool = False


PAIR = ("architecture", "trained_on", "tested_on")
FAMILY = (
    Tau("id_tau", PAIR, own=True),
    Tau("macro_tau", PAIR),
    Tau("micro_tau", ("architecture", "tested_on")),
    Tau("arch_tau", ("tested_on",)),
    Tau("cross_domain_tau", ("architecture", "model")),
)


def taus(table: Table) -> tuple[Scores, ...]:
    """Every τ of every measure in every group.

    >>> table = Table.read({"model": ["k", "l", "m"], "trained_on": ["a"] * 3,
    ...                     "tested_on": ["b"] * 3, "accuracy": [0.7, 0.8, 0.9], "ni": [1, 3, 2]})
    >>> [(scores.statistic, scores.values.round(3).tolist()) for scores in taus(table)][1]
    ('macro_tau', [[0.333]])
    """
    # Ranks are taken once: within a group they order rows as the values do.
    accuracy = ranks(table.accuracy)
    measures = {name: ranks(values) for name, values in table.measures.items()}
    return tuple(_scores(one, table, accuracy, measures) for one in FAMILY)


def _scores(one: Tau, table: Table, accuracy: Ints, measures: dict[str, Ints]) -> Scores:
    made = Groups.of(table, one.by, table.own == one.own)
    y = accuracy[made.rows]
    found = [pairs(x[made.rows], y, made.group, len(made)) for x in measures.values()]
    shape = (len(measures), len(made))
    return Scores(
        one.name,
        tuple(measures),
        made,
        np.array([part.n for part in found], dtype=np.int64).reshape(shape),
        np.array([part.tau for part in found], dtype=np.float64).reshape(shape),
        np.array([_reasons(part) for part in found], dtype=np.int64).reshape(shape),
    )


def _reasons(found: Pairs) -> Ints:
    """Why a group has no τ; the first of the reasons that hold."""
    return np.select(
        [found.n < 2, found.tied_y == found.total, found.tied_x == found.total],
        [grouped_scores.FEW, grouped_scores.SAME_ACCURACY, grouped_scores.SAME_MEASURE],
        grouped_scores.ANSWERED,
    )
