"""Rows of a table in groups, one statistic of every measure in every group, and what that sums to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.studies.analysis.evaluation_table import EvaluationTable


@dataclass(frozen=True)
class MeanStd:
    """The mean over groups, its standard deviation (ddof 1), and how many have none, by reason.

    >>> MeanStd.from_values([0.5, 0.7, "fewer than two models"])
    MeanStd(mean=0.6, sd=0.14142135623730948, groups=2, left_out={'fewer than two models': 1})
    """

    mean: float | None
    sd: float | None
    groups: int
    left_out: Mapping[str, int]

    @classmethod
    def from_values(cls, values_or_reasons: Iterable[float | str]) -> MeanStd:
        """Of a value a group, or the reason why a group has none."""
        told = list(values_or_reasons)
        values = np.array([one for one in told if not isinstance(one, str)], dtype=np.float64)
        reasons = Counter(one for one in told if isinstance(one, str))
        mean = float(values.mean()) if len(values) else None
        # Equal values have no deviation, whatever rounding makes of their mean.
        sd = (float(values.std(ddof=1)) if np.ptp(values) else 0.0) if len(values) > 1 else None
        return cls(mean, sd, len(values), dict(reasons))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"mean": self.mean, "sd": self.sd, "groups": self.groups,
                "left_out": dict(self.left_out)}  # fmt: skip


# Why a group has no answer; 0 is that it has one.
MISSING_REASONS = (
    "",
    "no answers",
    "fewer than two answers",
    "all accuracies equal",
    "all values of the measure equal",
    "fewer than two models to fit the line to",
    "all values equal where the line is fitted",
)
(
    HAS_VALUE,
    NO_VALUES,
    TOO_FEW_VALUES,
    CONSTANT_ACCURACY,
    CONSTANT_MEASURE,
    TOO_FEW_TO_FIT,
    CONSTANT_FIT_VALUES,
) = range(len(MISSING_REASONS))


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Rows by group: `rows` in the order of their `group`, which share what `keys` says of each.

    >>> table = EvaluationTable.read({"model": ["m", "n", "m"], "trained_on": ["a"] * 3,
    ...                     "tested_on": ["b", "b", "c"], "accuracy": [0.9, 0.7, 0.8]}, measures=())
    >>> found = RowGroups.from_columns(table, ("tested_on",), np.ones(3, dtype=np.bool_))
    >>> found.rows.tolist(), found.group.tolist(), [table.domains[j] for j in found.keys["tested_on"]]
    ([0, 1, 2], [0, 0, 1], ['b', 'c'])
    """

    rows: Ints
    group: Ints
    keys: Mapping[str, Ints]

    @classmethod
    def from_columns(
        cls, table: EvaluationTable, key_columns: Sequence[str], mask: Bools
    ) -> RowGroups:
        """The marked rows of a table by some of its integer columns."""
        rows = np.flatnonzero(mask)
        columns = np.stack([getattr(table, name)[rows] for name in key_columns])
        order = np.lexsort(columns[::-1])
        columns = columns[:, order]
        fresh = np.ones(len(rows), dtype=np.bool_)
        fresh[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
        keys = dict(zip(key_columns, columns[:, fresh], strict=True))
        return cls(rows[order], np.cumsum(fresh) - 1, keys)

    def __len__(self) -> int:
        return len(next(iter(self.keys.values())))

    def __iter__(self) -> Iterator[Ints]:
        return iter(
            np.split(self.rows, np.flatnonzero(np.diff(self.group)) + 1) if len(self) else []
        )


@dataclass(frozen=True, eq=False)
class GroupedScores:
    """One statistic of every measure (first axis) in every group (second).

    `n` is how many rows had an answer, `values` is NaN where the group has none, and `reasons` are
    places in REASONS. `rules` says of every group how it was computed, where there is a choice.
    """

    statistic: str
    measures: tuple[str, ...]
    groups: RowGroups
    n: Ints
    values: Floats
    reasons: Ints
    rules: tuple[str, ...] = ()

    def rows(self, table: EvaluationTable) -> Iterator[dict[str, Any]]:
        """A row for every measure and group, by names; what the group is not of is None."""
        named = [
            dict.fromkeys(NAME_LOOKUPS) | self._group_names(table, g)
            for g in range(len(self.groups))
        ]
        for j, measure in enumerate(self.measures):
            for g, names in enumerate(named):
                value = float(self.values[j, g])
                yield {
                    "measure": measure,
                    "statistic": self.statistic,
                    **names,
                    "n": int(self.n[j, g]),
                    "value": None if np.isnan(value) else value,
                    "reason": MISSING_REASONS[self.reasons[j, g]] or None,
                    "rule": self.rules[g] if self.rules else None,
                }

    def _group_names(self, table: EvaluationTable, group: int) -> dict[str, str]:
        return {
            name: NAME_LOOKUPS[name](table, codes[group])
            for name, codes in self.groups.keys.items()
        }

    def summary(self, measure_index: int, mask: Bools) -> ScoreSummary:
        """What the marked groups of a measure sum to."""
        values, reasons = self.values[measure_index, mask], self.reasons[measure_index, mask]
        answers = values[reasons == HAS_VALUE]
        left_out = Counter(MISSING_REASONS[reason] for reason in reasons if reason != HAS_VALUE)
        rules = Counter(rule for rule, mine in zip(self.rules, mask, strict=False) if mine)
        return ScoreSummary(
            mean=float(answers.mean()) if len(answers) else None,
            sd=float(answers.std()) if len(answers) > 1 else None,
            groups=len(answers),
            left_out=dict(sorted(left_out.items())),
            rule=_join_rules(rules),
        )


NAME_LOOKUPS: dict[str, Any] = {
    "architecture": lambda table, code: table.architectures[code],
    "trained_on": lambda table, code: table.training(code),
    "tested_on": lambda table, code: table.domains[code],
    "model": lambda table, code: table.models[code],
}


@dataclass(frozen=True)
class ScoreSummary:
    """The mean of a statistic over groups, their standard deviation, and what was left out.

    The deviation is that of these groups and no more (divided by their number), as NI Table 28 is;
    of one group there is none.
    """

    mean: float | None
    sd: float | None
    groups: int
    left_out: Mapping[str, int]
    rule: str


def _join_rules(rules: Counter[str]) -> str:
    """One rule by its name, several with how many groups each has."""
    if len(rules) < 2:
        return "".join(rules)
    return ", ".join(f"{rule} ({count})" for rule, count in rules.most_common())
