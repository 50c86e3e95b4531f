"""Sentences at the top of a study page: what was compared, which measure is best."""

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

# If two means differ by fewer standard errors than this, the comparison is called undecided.
MIN_STANDARD_ERRORS = 2.0
# Maximum number of equally good measures that a sentence names.
MAX_NAMED_MEASURES = 3


def study_description(comparison: MeasureComparison) -> str:
    """Return sentences on what was compared and what is missing."""
    table = comparison.table
    sentences = [
        f"{pluralize(len(table.measures), 'measure')} compared over "
        f"{pluralize(len(table), 'evaluation')} of "
        f"{pluralize(len(np.unique(table.model)), 'model')} "
        f"({pluralize(len(np.unique(table.architecture)), 'architecture')}, "
        f"{pluralize(len(np.unique(table.trained_on)), 'training set')}) on "
        f"{pluralize(len(np.unique(table.tested_on)), 'domain')}."
    ]
    if comparison.n_unknown_accuracies:
        n_unknown = pluralize(comparison.n_unknown_accuracies, "evaluation")
        sentences.append(f"{n_unknown} without an accuracy.")
    missing = {name: count for name, count in comparison.n_missing_values.items() if count}
    if missing:
        worst = max(missing, key=lambda name: missing[name])
        n_values = len(table) * len(comparison.n_missing_values)
        sentences.append(
            f"Missing values: {sum(missing.values()):,} of {n_values:,}, {missing[worst]:,} of them "
            f"for {truncate_name(worst)}."
        )
    sentences += [
        f"{pluralize(count, 'row')} left out: {reason}." for reason, count in table.left_out.items()
    ]
    return " ".join(sentences)


def verdict(comparison: MeasureComparison) -> str:
    """Return sentences that name the best measure and compare it with the next one."""
    order = sort_statistic(comparison)
    if order is None:
        return f"No statistic can be computed: {_failure_reasons(comparison)}."
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
    """Return remarks on how the line was fitted, equal statistics, and groups without a value."""
    summaries = {
        (measure, statistic): summary
        for (measure, statistic, architecture), summary in comparison.summaries.items()
        if architecture is None
    }
    rules = dict.fromkeys(
        summary.rule for (_, name), summary in summaries.items() if name == "r2" and summary.rule
    )
    remarks = [f"R2 and MAE use a line fitted by this rule: {rule}." for rule in rules]
    repeats = {
        STATISTIC_LABELS[name]: summary.rule
        for (_, name), summary in summaries.items()
        if summary.rule.startswith(SAME_AS_PREFIX)
    }
    remarks += [f"{label} is {rule}." for label, rule in repeats.items()]
    left_out: dict[str, Counter[str]] = {}
    for (_, name), summary in summaries.items():
        for reason, count in summary.left_out.items():
            left_out.setdefault(reason, Counter())[STATISTIC_LABELS[name]] += count
    for reason, counts in left_out.items():
        listed = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        remarks.append(f"Groups without a value ({reason}): {listed}.")
    return remarks


def _tie_sentence(comparison: MeasureComparison, order: str) -> str:
    """Return a sentence for the case of only one measure, or of measures that are all equal."""
    summaries = eligible_summaries(comparison, order)
    name, summary = next(iter(summaries.items()))
    text = _format_summary(summary, order)
    if len(summaries) > 1:
        return f"By {STATISTIC_LABELS[order]}, {len(summaries)} measures are equal: {text}."
    return f"By {STATISTIC_LABELS[order]}, {truncate_name(name)} has {text}."


def _format_summary(summary: MeanStd, statistic: str) -> str:
    unit = " points" if statistic in STATISTICS_IN_POINTS else ""
    mean = format_number(summary.mean, 2)
    if summary.sd is None:
        return f"{mean}{unit} in one group"
    groups = pluralize(summary.groups, "group")
    return f"{mean} ± {format_number(summary.sd, 2)}{unit} (mean ± sd over {groups})"


def _best_sentence(comparison: MeasureComparison, order: str, best: Sequence[str]) -> str:
    """Return a sentence that names the best measure and compares it with the next one."""
    summaries = eligible_summaries(comparison, order)
    rest = [f"{len(best) - MAX_NAMED_MEASURES} more"] if len(best) > MAX_NAMED_MEASURES else []
    names = " and ".join([*map(truncate_name, best[:MAX_NAMED_MEASURES]), *rest])
    verb = "is" if len(best) == 1 else "are"
    text = _format_summary(summaries[best[0]], order)
    sentence = f"By {STATISTIC_LABELS[order]}, {names} {verb} best: {text}"
    others = [name for name in rank_measures(comparison) if name in summaries and name not in best]
    if others:
        sentence += f"; {_runner_up_text(comparison, order, best[0], others[0])}"
    return f"{sentence}."


def _runner_up_text(comparison: MeasureComparison, order: str, best: str, other: str) -> str:
    """Compare the second-best measure with the best one, in the groups where both have a value."""
    scores = next(scores for scores in comparison.scores if scores.statistic == order)
    best_values, other_values = (
        scores.values[scores.measures.index(name)] for name in (best, other)
    )
    lead = (best_values - other_values) * (-1 if order in LOWER_IS_BETTER else 1)
    lead = lead[~np.isnan(lead)]
    mean = format_number(defined_summaries(comparison, order)[other].mean, 2)
    text = f"the next, {truncate_name(other)}, has {mean}"
    if not len(lead):
        return text
    standard_error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else np.inf
    decided = lead.mean() > MIN_STANDARD_ERRORS * standard_error
    note = "" if decided else f" (undecided: below {MIN_STANDARD_ERRORS:g} standard errors)"
    return f"{text} and is worse in {(lead > 0).sum():,} of {pluralize(len(lead), 'group')}{note}"


def _inverted_sentence(comparison: MeasureComparison, order: str, best: str) -> str:
    """Return a sentence on a measure that ranks models better with the opposite sign."""
    if not order.endswith("tau"):
        return ""
    summaries = eligible_summaries(comparison, order)
    name = min(summaries, key=lambda candidate: summaries[candidate].mean or 0.0)
    if -(summaries[name].mean or 0.0) <= abs(summaries[best].mean or 0.0):
        return ""
    text = _format_summary(summaries[name], order)
    return f"With the opposite sign, {truncate_name(name)} ranks models better: {text}."


def _lowest_mae_sentence(comparison: MeasureComparison, order: str) -> str:
    """Return a sentence with the best measure by MAE; empty if measures are sorted by MAE."""
    best = best_measures(comparison, "mae") if order != "mae" else []
    if not best:
        return ""
    text = _format_summary(eligible_summaries(comparison, "mae")[best[0]], "mae")
    return f"A line fitted on {truncate_name(best[0])} predicts accuracy best: MAE {text}."


def _failure_reasons(comparison: MeasureComparison) -> str:
    reasons: Counter[str] = Counter()
    for summary in comparison.summaries.values():
        reasons.update(summary.left_out)
    return "; ".join(reason for reason, _ in reasons.most_common()) or "there are no groups"
