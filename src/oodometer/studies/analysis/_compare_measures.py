"""All statistics of Ng et al. 2023 for all measures of a table: which measure tells the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.softmax_kernels import Bools
from oodometer.studies.analysis.estimation_error import estimates_in
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.grouped_scores import Scores, Summary
from oodometer.studies.analysis.kendall_family import taus
from oodometer.studies.analysis.linear_fit import lines

# What statistics are called on screen, in the order of the paper's tables.
LABELS = {
    "r2": "R2",
    "r2_pearson": "r2_pearson",
    "mae": "MAE",
    "raw_r2": "R2, raw",
    "raw_mae": "MAE, raw",
    "macro_tau": "Macro τ",
    "micro_tau": "Micro τ",
    "id_tau": "ID τ",
    "arch_tau": "Arch τ",
    "cross_domain_tau": "Cross-domain τ",
}
# Statistics that repeat a finer one where its groups have nothing to pool.
REPEATS = {
    "micro_tau": ("macro_tau", "one training set a test domain"),
    "arch_tau": ("micro_tau", "one architecture a test domain"),
}
# How the rule of such a one begins.
REPEATED = "the same as"


@dataclass(frozen=True, eq=False)
class Judgement:
    """What every statistic says of every measure: mean, deviation, groups and what was left out.

    `summaries` is by measure, statistic and architecture, None for all of them together; the mean
    is over groups, so an architecture with more of them counts more. MAEs are in points. `unknown`
    has how many rows lack the accuracy, `unanswered` how many lack each measure.
    """

    table: Table
    scores: tuple[Scores, ...]
    summaries: Mapping[tuple[str, str, str | None], Summary]
    unknown: int
    unanswered: Mapping[str, int]

    def of(self, measure: str, statistic: str, architecture: str | None = None) -> Summary:
        """One summary, by names; of Arch τ there is none by architecture."""
        # Of one architecture, what is said of all is said of it.
        kind = None if (architecture,) == self.table.architectures else architecture
        for place, what, name in ((0, "measure", measure), (1, "statistic", statistic),
                                  (2, "architecture of this statistic", kind)):  # fmt: skip
            known = {key[place] for key in self.summaries if place < 2 or key[1] == statistic}
            if name not in known:
                raise UnknownName(what, str(name), sorted(str(one) for one in known))
        return self.summaries[measure, statistic, kind]

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for every summary; the architecture is None for all together."""
        return [
            {
                "measure": measure,
                "statistic": statistic,
                "architecture": architecture,
                **_plain(one),
            }
            for (measure, statistic, architecture), one in self.summaries.items()
        ]

    def groups(self) -> Iterator[dict[str, Any]]:
        """A flat row for every measure, statistic and group: the papers' appendix tables."""
        for scores in self.scores:
            yield from scores.rows(self.table)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "evaluations": len(self.table),
            "models": len(np.unique(self.table.model)),
            "architectures": list(self.table.architectures),
            "domains": list(self.table.domains),
            "left_out": dict(self.table.left_out),
            "without_accuracy": self.unknown,
            "without_answer": dict(self.unanswered),
            "statistics": self.rows(),
        }


def judge(table: Table, *, estimators: Sequence[str] | None = None) -> Judgement:
    """Judge every measure of a table by R2, MAE and the τ family.

    `estimators` names the measures that are estimates of accuracy themselves, of which raw R2 and
    MAE are given too; None for those that are called as estimators are.

    >>> table = Table.read({"model": ["k", "l", "m", "n"], "trained_on": ["a"] * 4,
    ...                     "tested_on": ["b"] * 4, "accuracy": [0.6, 0.7, 0.8, 0.9],
    ...                     "doc": [0.5, 0.6, 0.7, 0.8]})
    >>> judged = judge(table)
    >>> [round(judged.of("doc", name).mean, 6) for name in ("macro_tau", "mae", "raw_mae")]
    [1.0, 0.0, 10.0]
    """
    if not table.measures:
        raise InputError("The table has no measure to judge. Read it with at least one.")
    direct = estimates_in(table) if estimators is None else estimators
    for name in direct:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    scores = {one.statistic: one for one in (*lines(table, direct=direct), *taus(table))}
    ordered = tuple(scores[name] for name in LABELS if name in scores)
    return Judgement(
        table,
        ordered,
        _summaries(table, ordered),
        int(np.isnan(table.accuracy).sum()),
        {name: int(np.isnan(values).sum()) for name, values in table.measures.items()},
    )


def _plain(one: Summary) -> dict[str, Any]:
    return {**vars(one), "left_out": dict(one.left_out)}


def _summaries(
    table: Table, scores: Sequence[Scores]
) -> dict[tuple[str, str, str | None], Summary]:
    by_name = {one.statistic: one for one in scores}
    found = {}
    for one in scores:
        for kind, where in _kinds(table, one):
            repeated = _repeats(one, by_name, kind)
            name = None if kind is None else table.architectures[kind]
            for place, measure in enumerate(one.measures):
                summary = one.summary(place, where)
                rule = repeated or summary.rule
                found[measure, one.statistic, name] = replace(summary, rule=rule)
    order = {name: place for place, name in enumerate(table.measures)}
    return dict(sorted(found.items(), key=lambda each: order[each[0][0]]))


def _kinds(table: Table, scores: Scores) -> Iterator[tuple[int | None, Bools]]:
    """The groups of all architectures, then of each where there are several."""
    yield None, np.ones(len(scores.groups), dtype=np.bool_)
    codes = scores.groups.keys.get("architecture")
    if codes is not None and len(table.architectures) > 1:
        yield from ((kind, codes == kind) for kind in range(len(table.architectures)))


def _repeats(scores: Scores, by_name: Mapping[str, Scores], kind: int | None) -> str:
    """Whether a statistic says no more than a finer one, which then has as many groups."""
    finer, why = REPEATS.get(scores.statistic, ("", ""))
    count = _count(scores, kind)
    if not finer or not count or count != _count(by_name[finer], kind):
        return ""
    return f"{REPEATED} {LABELS[finer]}: {why}"


def _count(scores: Scores, kind: int | None) -> int:
    if kind is None:
        return len(scores.groups)
    return int((scores.groups.keys["architecture"] == kind).sum())
