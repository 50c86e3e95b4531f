"""The sentences of a study: what was judged, which measure is best, how sure, what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from oodometer.core.format import format_number, pluralize
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis import SAME_AS_PREFIX, STATISTIC_LABELS, MeasureComparison
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.text_tables import LOWER_IS_BETTER, STATISTICS_IN_POINTS
from oodometer.studies.report.tables import (
    best_measures,
    defined_summaries,
    eligible_summaries,
    rank_measures,
    sort_statistic,
)

# Two means are told apart if they differ by so many standard errors.
MIN_STANDARD_ERRORS = 2.0
# So many names of equally good measures are written out.
MAX_NAMED_MEASURES = 3


def study_description(comparison: MeasureComparison) -> str:
    """One sentence of what was judged, and what is lacking."""
    table = comparison.table
    kinds, trainings = len(np.unique(table.architecture)), len(np.unique(table.trained_on))
    told = (
        f"{pluralize(len(table.measures), 'measure')} judged by "
        f"{pluralize(len(table), 'evaluation')} of {pluralize(len(np.unique(table.model)), 'model')} "
        f"({pluralize(kinds, 'architecture')}, {pluralize(trainings, 'training set')}) on "
        f"{pluralize(len(np.unique(table.tested_on)), 'domain')}."
    )
    return " ".join([told, *_omission_sentences(comparison)])


def verdict(comparison: MeasureComparison) -> str:
    """Which measure is best by which statistic, and how sure that is."""
    order = sort_statistic(comparison)
    if order is None:
        return f"No statistic has an answer: {_failure_reasons(comparison)}."
    best = best_measures(comparison, order)
    if not best:
        return _tie_sentence(comparison, order)
    parts = [
        _best_sentence(comparison, order, best),
        _inverted_sentence(comparison, order, best[0]),
        _lowest_mae_sentence(comparison, order),
    ]
    return " ".join(part for part in parts if part)


def computation_remarks(comparison: MeasureComparison) -> list[str]:
    """By which rules it was computed, and why groups have no answer."""
    mine = {key: one for key, one in comparison.summaries.items() if key[2] is None}
    rules = {one.rule: None for key, one in mine.items() if key[1] == "r2" and one.rule}
    found = [f"R2 and MAE are of a line that was fitted elsewhere: {rule}." for rule in rules]
    repeats = {STATISTIC_LABELS[key[1]]: one.rule for key, one in mine.items() if key[1] != "r2"}
    found += [
        f"{label} is {rule}." for label, rule in repeats.items() if rule.startswith(SAME_AS_PREFIX)
    ]
    lost: dict[str, Counter[str]] = {}
    for key, one in mine.items():
        for reason, count in one.left_out.items():
            lost.setdefault(reason, Counter())[STATISTIC_LABELS[key[1]]] += count
    return found + [
        f"No answer, as {reason}: "
        + ", ".join(f"{label} {count:,} ×" for label, count in counts.items())
        + "."
        for reason, counts in lost.items()
    ]


def _tie_sentence(comparison: MeasureComparison, order: str) -> str:
    """Of one measure, or of several that can't be told apart."""
    found = eligible_summaries(comparison, order)
    name, one = next(iter(found.items()))
    if len(found) > 1:
        return f"By {STATISTIC_LABELS[order]} {len(found)} measures are equal: {_format_summary(one, order)}."
    return f"By {STATISTIC_LABELS[order]}, {truncate_name(name)} has {_format_summary(one, order)}."


def _format_summary(group_summary: MeanStd, statistic: str) -> str:
    unit = " points" if statistic in STATISTICS_IN_POINTS else ""
    if group_summary.sd is None:
        return f"{format_number(group_summary.mean, 2)}{unit} in one group"
    spread = f"{format_number(group_summary.mean, 2)} ± {format_number(group_summary.sd, 2)}{unit}"
    return f"{spread} (mean and sd over {pluralize(group_summary.groups, 'group')})"


def _best_sentence(comparison: MeasureComparison, order: str, best: Sequence[str]) -> str:
    """The best by the first statistic, beside the next."""
    found = eligible_summaries(comparison, order)
    rest = [f"{len(best) - MAX_NAMED_MEASURES} more"] if len(best) > MAX_NAMED_MEASURES else []
    names = " and ".join([*map(truncate_name, best[:MAX_NAMED_MEASURES]), *rest])
    told = f"By {STATISTIC_LABELS[order]}, {names} come{'s' if len(best) == 1 else ''} out best: "
    told += _format_summary(found[best[0]], order)
    others = [name for name in rank_measures(comparison) if name in found and name not in best]
    return (
        f"{told}; {_runner_up_text(comparison, order, best[0], others[0])}."
        if others
        else f"{told}."
    )


def _runner_up_text(comparison: MeasureComparison, order: str, best: str, other: str) -> str:
    """How the next measure stands to the best, in the groups that both have."""
    scores = next(one for one in comparison.scores if one.statistic == order)
    mine, theirs = (scores.values[scores.measures.index(name)] for name in (best, other))
    ahead = (mine - theirs) * (-1 if order in LOWER_IS_BETTER else 1)
    ahead = ahead[~np.isnan(ahead)]
    told = f"the next, {truncate_name(other)}, has {format_number(defined_summaries(comparison, order)[other].mean, 2)}"
    if not len(ahead):
        return told
    error = ahead.std(ddof=1) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.inf
    close = "" if ahead.mean() > MIN_STANDARD_ERRORS * error else ": too close to call"
    return (
        f"{told} and is behind in {(ahead > 0).sum():,} of {pluralize(len(ahead), 'group')}{close}"
    )


def _inverted_sentence(comparison: MeasureComparison, order: str, best: str) -> str:
    """A measure that says more upside down than the best as it is."""
    if not order.endswith("tau"):
        return ""
    found = eligible_summaries(comparison, order)
    name = min(found, key=lambda one: found[one].mean or 0.0)
    if -(found[name].mean or 0.0) <= abs(found[best].mean or 0.0):
        return ""
    return f"Upside down, {truncate_name(name)} orders models better: {_format_summary(found[name], order)}."


def _lowest_mae_sentence(comparison: MeasureComparison, order: str) -> str:
    """The best by MAE, where that was not said."""
    best = best_measures(comparison, "mae") if order != "mae" else []
    if not best:
        return ""
    told = _format_summary(eligible_summaries(comparison, "mae")[best[0]], "mae")
    return f"A line from {truncate_name(best[0])} comes nearest to accuracy: off by {told}."


def _omission_sentences(comparison: MeasureComparison) -> list[str]:
    """What was left out, and what has no answer."""
    found = []
    if comparison.n_unknown_accuracies:
        found.append(
            f"{pluralize(comparison.n_unknown_accuracies, 'evaluation')} without an accuracy."
        )
    lacking = {name: count for name, count in comparison.n_missing_values.items() if count}
    if lacking:
        worst = max(lacking, key=lambda name: lacking[name])
        found.append(
            f"{sum(lacking.values()):,} of {len(comparison.table) * len(comparison.n_missing_values):,} values "
            f"have no answer, {lacking[worst]:,} of them of {truncate_name(worst)}."
        )
    left_out = comparison.table.left_out
    return found + [
        f"{pluralize(count, 'row')} left out: {why}." for why, count in left_out.items()
    ]


def _failure_reasons(comparison: MeasureComparison) -> str:
    lost: Counter[str] = Counter()
    for one in comparison.summaries.values():
        lost.update(one.left_out)
    return "; ".join(reason for reason, _ in lost.most_common()) or "there are no groups"
