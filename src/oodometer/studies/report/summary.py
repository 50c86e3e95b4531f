"""The sentences of a study: what was judged, which measure is best, how sure, what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from oodometer.core.format import counted, number
from oodometer.report.histograms import shortened
from oodometer.studies.analysis import LABELS, REPEATED, Judgement
from oodometer.studies.analysis.grouped_scores import Summary
from oodometer.studies.analysis.text_tables import LESS, POINTS
from oodometer.studies.report.tables import answers, best_of, contenders, order_of, ranked

# Two means are told apart if they differ by so many standard errors.
ERRORS = 2.0
# So many names of equally good measures are written out.
NAMED = 3


def subject(judged: Judgement) -> str:
    """One sentence of what was judged, and what is lacking."""
    table = judged.table
    kinds, trainings = len(np.unique(table.architecture)), len(np.unique(table.trained_on))
    told = (
        f"{counted(len(table.measures), 'measure')} judged by "
        f"{counted(len(table), 'evaluation')} of {counted(len(np.unique(table.model)), 'model')} "
        f"({counted(kinds, 'architecture')}, {counted(trainings, 'training set')}) on "
        f"{counted(len(np.unique(table.tested_on)), 'domain')}."
    )
    return " ".join([told, *_lacks(judged)])


def verdict(judged: Judgement) -> str:
    """Which measure is best by which statistic, and how sure that is."""
    order = order_of(judged)
    if order is None:
        return f"No statistic has an answer: {_reasons(judged)}."
    best = best_of(judged, order)
    if not best:
        return _alike(judged, order)
    parts = [_first(judged, order, best), _turned(judged, order, best[0]), _nearest(judged, order)]
    return " ".join(part for part in parts if part)


def remarks(judged: Judgement) -> list[str]:
    """By which rules it was computed, and why groups have no answer."""
    mine = {key: one for key, one in judged.summaries.items() if key[2] is None}
    rules = {one.rule: None for key, one in mine.items() if key[1] == "r2" and one.rule}
    found = [f"R2 and MAE are of a line that was fitted elsewhere: {rule}." for rule in rules]
    repeats = {LABELS[key[1]]: one.rule for key, one in mine.items() if key[1] != "r2"}
    found += [f"{label} is {rule}." for label, rule in repeats.items() if rule.startswith(REPEATED)]
    lost: dict[str, Counter[str]] = {}
    for key, one in mine.items():
        for reason, count in one.left_out.items():
            lost.setdefault(reason, Counter())[LABELS[key[1]]] += count
    return found + [
        f"No answer, as {reason}: "
        + ", ".join(f"{label} {count:,} ×" for label, count in counts.items())
        + "."
        for reason, counts in lost.items()
    ]


def _alike(judged: Judgement, order: str) -> str:
    """Of one measure, or of several that can't be told apart."""
    found = contenders(judged, order)
    name, one = next(iter(found.items()))
    if len(found) > 1:
        return f"By {LABELS[order]} {len(found)} measures are equal: {_figures(one, order)}."
    return f"By {LABELS[order]}, {shortened(name)} has {_figures(one, order)}."


def _figures(one: Summary, statistic: str) -> str:
    unit = " points" if statistic in POINTS else ""
    if one.sd is None:
        return f"{number(one.mean, 2)}{unit} in one group"
    spread = f"{number(one.mean, 2)} ± {number(one.sd, 2)}{unit}"
    return f"{spread} (mean and sd over {counted(one.groups, 'group')})"


def _first(judged: Judgement, order: str, best: Sequence[str]) -> str:
    """The best by the first statistic, beside the next."""
    found = contenders(judged, order)
    rest = [f"{len(best) - NAMED} more"] if len(best) > NAMED else []
    names = " and ".join([*map(shortened, best[:NAMED]), *rest])
    told = f"By {LABELS[order]}, {names} come{'s' if len(best) == 1 else ''} out best: "
    told += _figures(found[best[0]], order)
    others = [name for name in ranked(judged) if name in found and name not in best]
    return f"{told}; {_beside(judged, order, best[0], others[0])}." if others else f"{told}."


def _beside(judged: Judgement, order: str, best: str, other: str) -> str:
    """How the next measure stands to the best, in the groups that both have."""
    scores = next(one for one in judged.scores if one.statistic == order)
    mine, theirs = (scores.values[scores.measures.index(name)] for name in (best, other))
    ahead = (mine - theirs) * (-1 if order in LESS else 1)
    ahead = ahead[~np.isnan(ahead)]
    told = f"the next, {shortened(other)}, has {number(answers(judged, order)[other].mean, 2)}"
    if not len(ahead):
        return told
    error = ahead.std(ddof=1) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.inf
    close = "" if ahead.mean() > ERRORS * error else ": too close to call"
    return f"{told} and is behind in {(ahead > 0).sum():,} of {counted(len(ahead), 'group')}{close}"


def _turned(judged: Judgement, order: str, best: str) -> str:
    """A measure that says more upside down than the best as it is."""
    if not order.endswith("tau"):
        return ""
    found = contenders(judged, order)
    name = min(found, key=lambda one: found[one].mean or 0.0)
    if -(found[name].mean or 0.0) <= abs(found[best].mean or 0.0):
        return ""
    return f"Upside down, {shortened(name)} orders models better: {_figures(found[name], order)}."


def _nearest(judged: Judgement, order: str) -> str:
    """The best by MAE, where that was not said."""
    best = best_of(judged, "mae") if order != "mae" else []
    if not best:
        return ""
    told = _figures(contenders(judged, "mae")[best[0]], "mae")
    return f"A line from {shortened(best[0])} comes nearest to accuracy: off by {told}."


def _lacks(judged: Judgement) -> list[str]:
    """What was left out, and what has no answer."""
    found = []
    if judged.unknown:
        found.append(f"{counted(judged.unknown, 'evaluation')} without an accuracy.")
    lacking = {name: count for name, count in judged.unanswered.items() if count}
    if lacking:
        worst = max(lacking, key=lambda name: lacking[name])
        found.append(
            f"{sum(lacking.values()):,} of {len(judged.table) * len(judged.unanswered):,} values "
            f"have no answer, {lacking[worst]:,} of them of {shortened(worst)}."
        )
    left_out = judged.table.left_out
    return found + [f"{counted(count, 'row')} left out: {why}." for why, count in left_out.items()]


def _reasons(judged: Judgement) -> str:
    lost: Counter[str] = Counter()
    for one in judged.summaries.values():
        lost.update(one.left_out)
    return "; ".join(reason for reason, _ in lost.most_common()) or "there are no groups"
