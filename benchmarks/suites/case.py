"""Cases: one model on one target in one of four regimes.

- none: source and target are disjoint random parts of the same held-out data.
- label: the same, with target rows drawn to class frequencies from a Dirichlet distribution.
- shift: the target is another domain.
- both: another domain, with class frequencies from a Dirichlet distribution.

Rows are drawn without replacement. The draw depends only on the suite and the case, so a case can be
made again from the cached outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.suites.outputs import GroupOutputs, Outputs, group_outputs
from benchmarks.suites.suite import HOME, REGIMES, Regime, Suite, Workspace
from oodometer.core.array_types import Floats, Ints
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for

SOURCE_SIZES = (300, 500, 1000, 2000, 3000)
TARGET_SIZES = (200, 300, 500, 1000, 2000, 3000)
# With more classes, small sizes are left out.
MANY_CLASSES = 50
MIN_ROWS_MANY_CLASSES = 1000
MIN_SOURCE_ROWS = 200
MIN_TARGET_ROWS = 150
MAX_OTHER_MODELS = 3
# Concentrations of the Dirichlet distribution, per class; one of them is drawn for each case.
ALPHAS = (0.5, 1.0, 3.0)
ALPHAS_MANY_CLASSES = (1.0, 3.0, 10.0)
MAX_CLASSES_SMALL_ALPHA = 10


@dataclass(frozen=True)
class CaseKey:
    """Names that determine a case within a suite."""

    group: str
    model: str
    target: str
    regime: Regime
    draw: int

    @property
    def text(self) -> str:
        return " | ".join((self.group, self.model, self.target, self.regime, str(self.draw)))


@dataclass(frozen=True, eq=False)
class Case:
    """Labelled predictions on source and target, with the predictions of other models attached.

    `alpha` is the concentration of the Dirichlet distribution, or NaN. `source_rows` and
    `target_rows` are the rows in the cached outputs.
    """

    suite: Suite
    key: CaseKey
    source: Predictions
    target: Predictions
    alpha: float
    source_rows: Ints
    target_rows: Ints


def plan_cases(suite: Suite, groups: dict[str, GroupOutputs], n_cases: int) -> list[CaseKey]:
    """Return the keys of about `n_cases` cases, four regimes for each model and target.

    Models and targets are drawn at random. If there are fewer than needed, they are used again with
    other draws of rows.
    """
    triples = [
        (group, model, target)
        for group, outputs in groups.items()
        for model in outputs.models
        for target in outputs.targets
    ]
    order = rng_for(0, "plan", suite.name).permutation(len(triples))
    regimes: Sequence[Regime] = ("none", "shift") if suite.signals_only else REGIMES
    keys = []
    for place in range(-(-n_cases // len(regimes))):
        draw, position = divmod(place, len(triples))
        group, model, target = triples[order[position]]
        keys += [CaseKey(group, model, target, regime, draw) for regime in regimes]
    return keys[:n_cases]


def draw_frequencies(
    rng: np.random.Generator, alpha: float, frequencies: Floats, base: str
) -> Floats:
    """Draw class frequencies from a Dirichlet distribution.

    With the base "source", the draw multiplies the given frequencies, so that rare classes stay
    rare; with "uniform", classes that occur get the same concentration.
    """
    drawn = rng.dirichlet(np.full(len(frequencies), alpha))
    weights = drawn * frequencies if base == "source" else drawn * (frequencies > 0)
    return np.asarray(weights / weights.sum())


def rows_with_frequencies(
    rng: np.random.Generator, labels: Ints, frequencies: Floats, n: int
) -> Ints:
    """Return at most `n` rows, without replacement, whose classes have the given frequencies.

    If fewer than `MIN_TARGET_ROWS` rows are possible, the frequencies are mixed with those of the
    labels.
    """
    counts = np.bincount(labels, minlength=len(frequencies))
    required = min(MIN_TARGET_ROWS, n, len(labels))
    for share in np.linspace(0, 1, 11):
        mixed = (1 - share) * frequencies + share * counts / len(labels)
        possible = min(n, int((counts[mixed > 0] / mixed[mixed > 0]).min() + 1e-9))
        if possible >= required:
            break
    sizes = np.minimum(_rounded(mixed * possible), counts)
    chosen = [rng.permutation(np.flatnonzero(labels == j))[:size] for j, size in enumerate(sizes)]
    return np.asarray(rng.permutation(np.concatenate(chosen)))


def _rounded(sizes: Floats) -> Ints:
    """Round numbers of rows so that their sum is kept (largest remainders)."""
    floors: Ints = np.floor(sizes + 1e-9).astype(np.int64)
    missing = round(float(sizes.sum())) - int(floors.sum())
    floors[np.argsort(floors - sizes, kind="stable")[:missing]] += 1
    return floors


def make_case(suite: Suite, key: CaseKey, home: Outputs, target: Outputs) -> Case:
    """Draw the rows of a case."""
    rng = rng_for(0, "case", suite.name, key.text)
    n_source, n_target = _draw_sizes(rng, suite.k)
    is_home = key.regime in ("none", "label")
    order = rng.permutation(len(home.labels))
    if is_home and n_source + n_target > len(order):
        n_source = _split_size(len(order), n_source / (n_source + n_target))
    if suite.whole_targets and not is_home:
        n_source, n_target = len(order), len(target.labels)
    source_rows = order[:n_source]
    pool = order[n_source:] if is_home else np.arange(len(target.labels))
    from_outputs = home if is_home else target
    alpha = float("nan")
    if key.regime in ("label", "both"):
        is_small = suite.k <= MAX_CLASSES_SMALL_ALPHA
        alpha = float(rng.choice(ALPHAS if is_small else ALPHAS_MANY_CLASSES))
        labels = from_outputs.labels[pool]
        shares = np.bincount(labels, minlength=suite.k) / len(pool)
        frequencies = draw_frequencies(rng, alpha, shares, suite.base)
        target_rows = pool[rows_with_frequencies(rng, labels, frequencies, n_target)]
    else:
        target_rows = rng.permutation(pool)[:n_target]
    sides = (_with_others(suite, key.model, home, source_rows),
             _with_others(suite, key.model, from_outputs, target_rows))  # fmt: skip
    return Case(suite, key, *sides, alpha, source_rows, target_rows)


def _split_size(n: int, source_share: float) -> int:
    """Return the number of source rows if source and target share `n` rows; neither is tiny."""
    smallest, largest = min(MIN_SOURCE_ROWS, n // 2), n - min(MIN_TARGET_ROWS, n // 2)
    return int(np.clip(round(n * source_share), smallest, largest))


def _draw_sizes(rng: np.random.Generator, k: int) -> tuple[int, int]:
    smallest = MIN_ROWS_MANY_CLASSES if k > MANY_CLASSES else 0
    return (
        int(rng.choice([n for n in SOURCE_SIZES if n >= smallest])),
        int(rng.choice([n for n in TARGET_SIZES if n >= smallest])),
    )


def _with_others(suite: Suite, model: str, outputs: Outputs, rows: Ints) -> Predictions:
    """Return the predictions of a model with those of at most three other models of the group."""
    predictions = outputs.predictions(suite, model, rows)
    if suite.signals_only:
        return predictions
    others = [name for name in outputs.probs if name != model][:MAX_OTHER_MODELS]
    return predictions.with_other_models(
        *(outputs.predictions(suite, name, rows) for name in others)
    )


def iterate_cases(
    space: Workspace, suite: Suite, keys: Sequence[CaseKey] | None = None
) -> Iterator[Case]:
    """Yield the cases of a suite from cached outputs, group by group and target by target.

    By default all planned cases are made, so that a new estimator can be run on them.
    """
    groups = {group: group_outputs(space, suite, group) for group in suite.groups(space)}
    chosen = plan_cases(suite, groups, suite.cases) if keys is None else keys
    for group, outputs in groups.items():
        mine = [key for key in chosen if key.group == group]
        home = outputs.read(HOME) if mine else None
        for target in dict.fromkeys(key.target for key in mine):
            rows = outputs.read(target)
            assert home is not None
            yield from (make_case(suite, key, home, rows) for key in mine if key.target == target)
