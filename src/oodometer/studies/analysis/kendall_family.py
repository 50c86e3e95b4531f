"""Kendall's τ of measure and accuracy averaged over groups: ID, Macro, Micro, Arch, Cross-domain τ.

"Predicting Out-of-Domain Generalization with Neighborhood Invariance", 2023, §4.3 and B.2.

The statistics differ in what τ compares, and in the columns that define a group:

| statistic | compared | a group has the same |
| --- | --- | --- |
| ID τ | models of one training set, on a domain of it | architecture, training set, test domain |
| Macro τ | models of one training set, on other domains | architecture, training set, test domain |
| Micro τ | all models not trained on the test domain | architecture, test domain |
| Arch τ | models of all architectures not trained on the test domain | test domain |
| Cross-domain τ | the domains that one model was not trained on | model |

In the paper, the models of a set F_i have the same architecture, because its tables list CNN and
RoBERTa separately. "Averaged across all architectures" (Table 2b) means the average over the groups
of all architectures, because the four ID τ of Table 25 have the mean and the standard deviation
given in Tables 2b and 28b.

The result contains every group of the table. A group with fewer than two values, or in which the
measure or the accuracy is constant, has a reason instead of a τ.
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
    """Name of a τ statistic, the columns that define its groups, and whether it uses ID rows."""

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
    """Return the τ of every measure in every group, for each of the five statistics.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.7, 0.8, 0.9], "ni": [1, 3, 2]})
    >>> [(scores.statistic, scores.values.round(3).tolist()) for scores in kendall_scores(table)][1]
    ('macro_tau', [[0.333]])
    """
    # Ranks are computed once over all rows. Within a group, they have the same order as the values.
    accuracy = dense_ranks(table.accuracy)
    measures = {name: dense_ranks(values) for name, values in table.measures.items()}
    return tuple(_score_tau(statistic, table, accuracy, measures) for statistic in TAU_STATISTICS)


def _score_tau(
    statistic: TauStatistic, table: EvaluationTable, accuracy: Ints, measures: dict[str, Ints]
) -> GroupedScores:
    groups = RowGroups.from_columns(
        table, statistic.key_columns, table.in_distribution == statistic.in_distribution
    )
    y = accuracy[groups.rows]
    counts = [count_pairs(x[groups.rows], y, groups.group, len(groups)) for x in measures.values()]
    shape = (len(measures), len(groups))
    return GroupedScores(
        statistic=statistic.name,
        measures=tuple(measures),
        groups=groups,
        n=np.array([count.n for count in counts], dtype=np.int64).reshape(shape),
        values=np.array([count.tau for count in counts], dtype=np.float64).reshape(shape),
        reasons=np.array([_missing_reasons(c) for c in counts], dtype=np.int64).reshape(shape),
    )


def _missing_reasons(counts: ConcordanceCounts) -> Ints:
    """Return, for each group, the first reason that applies why it has no τ."""
    return np.select(
        [counts.n < 2, counts.tied_y == counts.n_pairs, counts.tied_x == counts.n_pairs],
        [
            grouped_scores.TOO_FEW_VALUES,
            grouped_scores.CONSTANT_ACCURACY,
            grouped_scores.CONSTANT_MEASURE,
        ],
        grouped_scores.HAS_VALUE,
    )
