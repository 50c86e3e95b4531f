"""A statistic computed in each group of rows, with mean and standard deviation over the groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.studies.analysis.evaluation_table import EvaluationTable


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation over groups, and the number of groups without a value.

    Parameters
    ----------
    mean : float or None
        Mean over the groups that have a value; None if no group has one.
    sd : float or None
        Standard deviation over these groups; None for fewer than two groups.
    groups : int
        Number of groups that have a value.
    left_out : mapping of str to int
        Number of groups without a value, by reason.
    rule : str
        How the values were computed; empty if there is only one way to compute them.

    Examples
    --------
    >>> summary = MeanStd.from_values([0.5, 0.7, "fewer than two models"])
    >>> summary.mean, round(summary.sd, 6), summary.groups, summary.left_out
    (0.6, 0.141421, 2, {'fewer than two models': 1})
    """

    mean: float | None
    sd: float | None
    groups: int
    left_out: Mapping[str, int]
    rule: str = ""

    @classmethod
    def from_values(cls, values_or_reasons: Iterable[float | str]) -> MeanStd:
        """Summarize groups, each given by its value or by the reason why it has none.

        The divisor of the variance is the number of values minus 1 (ddof 1).
        """
        items = list(values_or_reasons)
        values = np.array([item for item in items if not isinstance(item, str)], dtype=np.float64)
        reasons = Counter(item for item in items if isinstance(item, str))
        return cls(*_mean_and_sd(values, ddof=1), len(values), dict(reasons))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except `rule`, for JSON."""
        return {
            "mean": self.mean,
            "sd": self.sd,
            "groups": self.groups,
            "left_out": dict(self.left_out),
        }


def _mean_and_sd(values: Floats, *, ddof: int) -> tuple[float | None, float | None]:
    """Return mean and standard deviation; None if there are too few values for one of them."""
    if len(values) < 2:
        return (float(values[0]) if len(values) else None), None
    # The standard deviation of equal values is exactly 0, but their computed mean may differ from
    # them by a rounding error.
    sd = float(values.std(ddof=ddof)) if np.ptp(values) else 0.0
    return float(values.mean()), sd


# Reasons why a group has no value. The empty reason at index 0 stands for groups with a value.
MISSING_REASONS = (
    "",
    "no values",
    "fewer than two values",
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
    """Rows of a table, sorted by group.

    `rows` are the indices of the rows, `group` is the number of each row's group, and `keys` holds,
    for each column that defines the groups, the value of every group.

    >>> table = EvaluationTable.read({"model": ["m", "n", "m"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b", "b", "c"], "accuracy": [0.9, 0.7, 0.8]}, measures=())
    >>> groups = RowGroups.from_columns(table, ("tested_on",), np.ones(3, dtype=np.bool_))
    >>> groups.rows.tolist(), groups.group.tolist()
    ([0, 1, 2], [0, 0, 1])
    >>> [table.domains[code] for code in groups.keys["tested_on"]]
    ['b', 'c']
    """

    rows: Ints
    group: Ints
    keys: Mapping[str, Ints]

    @classmethod
    def from_columns(
        cls, table: EvaluationTable, key_columns: Sequence[str], mask: Bools
    ) -> RowGroups:
        """Group the rows selected by `mask` by some of the table's integer columns."""
        rows = np.flatnonzero(mask)
        columns = np.stack([getattr(table, name)[rows] for name in key_columns])
        order = np.lexsort(columns[::-1])
        columns = columns[:, order]
        is_first = np.ones(len(rows), dtype=np.bool_)
        is_first[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
        keys = dict(zip(key_columns, columns[:, is_first], strict=True))
        return cls(rows[order], np.cumsum(is_first) - 1, keys)

    def __len__(self) -> int:
        return len(next(iter(self.keys.values())))

    def __iter__(self) -> Iterator[Ints]:
        return iter(
            np.split(self.rows, np.flatnonzero(np.diff(self.group)) + 1) if len(self) else []
        )


@dataclass(frozen=True, eq=False)
class GroupedScores:
    """Values of one statistic per measure (first axis) and group (second axis).

    `values` is NaN where a group has no value, and `reasons` tells why, as indices into
    `MISSING_REASONS`. `n` is the number of rows of the group in which the measure has a value. If
    the statistic can be computed in several ways, `rules` has the way used for each group.
    """

    statistic: str
    measures: tuple[str, ...]
    groups: RowGroups
    n: Ints
    values: Floats
    reasons: Ints
    rules: tuple[str, ...] = ()

    def rows(self, table: EvaluationTable) -> Iterator[dict[str, Any]]:
        """Yield one row per measure and group; columns that do not define the groups are None."""
        group_names = [
            dict.fromkeys(NAME_LOOKUPS)
            | {
                name: NAME_LOOKUPS[name](table, codes[g])
                for name, codes in self.groups.keys.items()
            }
            for g in range(len(self.groups))
        ]
        for j, measure in enumerate(self.measures):
            for g, names in enumerate(group_names):
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

    def summary(self, measure_index: int, mask: Bools) -> MeanStd:
        """Return mean and standard deviation of a measure over the groups selected by `mask`.

        The divisor of the variance is the number of groups (ddof 0), as in Ng et al., Table 28.
        """
        rules = Counter(rule for rule, used in zip(self.rules, mask, strict=False) if used)
        reasons = self.reasons[measure_index, mask]
        values = self.values[measure_index, mask][reasons == HAS_VALUE]
        left_out = Counter(MISSING_REASONS[reason] for reason in reasons if reason != HAS_VALUE)
        return MeanStd(
            *_mean_and_sd(values, ddof=0),
            groups=len(values),
            left_out=dict(sorted(left_out.items())),
            rule=_join_rules(rules),
        )


NAME_LOOKUPS: dict[str, Callable[[EvaluationTable, int], str]] = {
    "architecture": lambda table, code: table.architectures[code],
    "trained_on": lambda table, code: table.training(code),
    "tested_on": lambda table, code: table.domains[code],
    "model": lambda table, code: table.models[code],
}


def _join_rules(rules: Counter[str]) -> str:
    """Return the rules as one text; if there are several, each has its number of groups."""
    if len(rules) < 2:
        return "".join(rules)
    return ", ".join(f"{rule} ({count})" for rule, count in rules.most_common())
