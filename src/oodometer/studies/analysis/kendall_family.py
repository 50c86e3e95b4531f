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

from oodometer.core.array_types import Ints
from oodometer.studies.analysis import grouped_scores
from oodometer.studies.analysis._kendall import ConcordanceCounts, count_pairs, dense_ranks
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import GroupedScores, RowGroups


@dataclass(frozen=True)
class TauStatistic:
    """One of the family: what its groups share, and whether they are of trained domains."""

    name: str
    key_columns: tuple[str, ...]
    in_distribution: bool = False


PAIR_COLUMNS = ("architecture", "trained_on", "tested_on")
TAU_STATISTICS = (
    TauStatistic("id_tau", PAIR_COLUMNS, in_distribution=True),
    TauStatistic("macro_tau", PAIR_COLUMNS),
    TauStatistic("micro_tau", ("architecture", "tested_on")),
    TauStatistic("arch_tau", ("tested_on",)),
    TauStatistic("cross_domain_tau", ("architecture", "model")),
)


def kendall_scores(table: EvaluationTable) -> tuple[GroupedScores, ...]:
    """Every τ of every measure in every group.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m"], "trained_on": ["a"] * 3,
    ...                     "tested_on": ["b"] * 3, "accuracy": [0.7, 0.8, 0.9], "ni": [1, 3, 2]})
    >>> [(scores.statistic, scores.values.round(3).tolist()) for scores in kendall_scores(table)][1]
    ('macro_tau', [[0.333]])
    """
    # Ranks are taken once: within a group they order rows as the values do.
    accuracy = dense_ranks(table.accuracy)
    measures = {name: dense_ranks(values) for name, values in table.measures.items()}
    return tuple(_score_tau(one, table, accuracy, measures) for one in TAU_STATISTICS)


def _score_tau(
    statistic: TauStatistic, table: EvaluationTable, accuracy: Ints, measures: dict[str, Ints]
) -> GroupedScores:
    made = RowGroups.from_columns(
        table, statistic.key_columns, table.in_distribution == statistic.in_distribution
    )
    y = accuracy[made.rows]
    found = [count_pairs(x[made.rows], y, made.group, len(made)) for x in measures.values()]
    shape = (len(measures), len(made))
    return GroupedScores(
        statistic.name,
        tuple(measures),
        made,
        np.array([part.n for part in found], dtype=np.int64).reshape(shape),
        np.array([part.tau for part in found], dtype=np.float64).reshape(shape),
        np.array([_missing_reasons(part) for part in found], dtype=np.int64).reshape(shape),
    )


def _missing_reasons(counts: ConcordanceCounts) -> Ints:
    """Why a group has no τ; the first of the reasons that hold."""
    return np.select(
        [counts.n < 2, counts.tied_y == counts.n_pairs, counts.tied_x == counts.n_pairs],
        [
            grouped_scores.TOO_FEW_VALUES,
            grouped_scores.CONSTANT_ACCURACY,
            grouped_scores.CONSTANT_MEASURE,
        ],
        grouped_scores.HAS_VALUE,
    )
