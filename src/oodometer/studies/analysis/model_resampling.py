"""Draw the models and test domains of a study with replacement (Davison & Hinkley, 1997, §3.8).

The models of each training set (and of each architecture, if a statistic groups by it) are drawn
separately. All seeds of one training configuration are drawn together, as a cluster. A drawn model
enters every group that contains it. Severities of one corruption are drawn together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.stats import rng_for
from oodometer.studies.analysis.evaluation_table import RECIPE_PREFIX, EvaluationTable
from oodometer.studies.analysis.measure_noise import group_ignoring_seed

DEFAULT_REPLICATES = 2_000
MIN_REPLICATES = 1_000
# With fewer test domains than this, domains are not drawn: a handful of domains cannot stand for
# all domains, and the interval refers to these domains.
MIN_RESAMPLED_DOMAINS = 8
_SEVERITY = re.compile(r"^(.*/[^/]+)-\d+$")


@dataclass(frozen=True, kw_only=True)
class BootstrapSettings:
    """Number of replicates, random seed, and whether test domains are drawn (None: if enough)."""

    replicates: int = DEFAULT_REPLICATES
    seed: int = 0
    resample_domains: bool | None = None

    def __post_init__(self) -> None:
        if self.replicates < MIN_REPLICATES:
            raise InputError(
                f"A bootstrap over models needs at least {MIN_REPLICATES:,} replicates; got "
                f"{self.replicates:,}."
            )


@dataclass(frozen=True, eq=False)
class Resamples:
    """Drawn models and test domains.

    Parameters
    ----------
    cluster : array of int, shape (models,)
        Cluster of each model of the table.
    models : array of shape (clusters, replicates)
        Number of times that each cluster was drawn.
    domains : array of shape (domains, replicates) or None
        Number of times that each test domain was drawn; None if domains are not drawn.
    n_single : int
        Number of strata with a single cluster, which do not vary.
    """

    cluster: Ints
    models: Floats
    domains: Floats | None
    n_single: int

    @property
    def replicates(self) -> int:
        return int(self.models.shape[1])

    def part(self, columns: slice) -> Resamples:
        """Return some of the replicates."""
        domains = None if self.domains is None else self.domains[:, columns]
        return Resamples(self.cluster, self.models[:, columns], domains, self.n_single)

    def of_rows(self, table: EvaluationTable, rows: Ints) -> Floats:
        """Return the number of times that the model of each row was drawn."""
        return self.models[self.cluster[table.model[rows]]]

    def of_domains(self, domains: Ints) -> Floats:
        """Return the number of times that each of some test domains was drawn."""
        if self.domains is None:
            return np.ones((len(domains), self.replicates))
        return self.domains[domains]


def model_clusters(table: EvaluationTable) -> Ints:
    """Return the cluster of each model: models that differ only in the seed have the same one.

    Without columns `recipe.…`, or if its seed is unknown, a model is a cluster of its own.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.9, 0.8, 0.7], "seed": [0, 1, 0],
    ...     "recipe.lr": [0.1, 0.1, 0.5]}, measures=())
    >>> model_clusters(table).tolist()
    [0, 0, 1]
    """
    cluster = np.arange(len(table.models))
    if any(name.startswith(RECIPE_PREFIX) for name in table.columns):
        _, first = np.unique(table.model, return_index=True)
        models = table.select_rows(first)
        # All rows of a model agree in everything but the test domain.
        for rows in group_ignoring_seed(_with_one_test_domain(models)):
            cluster[models.model[rows]] = models.model[rows].min()
    return np.unique(cluster, return_inverse=True)[1]


def _with_one_test_domain(table: EvaluationTable) -> EvaluationTable:
    return replace(table, tested_on=np.zeros_like(table.tested_on))


def domain_clusters(domains: Sequence[str]) -> Ints:
    """Return the cluster of each domain: severities of one corruption have the same one.

    >>> domain_clusters(["a/fog-1", "a/fog-2", "a/snow-1", "b"]).tolist()
    [0, 0, 1, 2]
    """
    names = [match[1] if (match := _SEVERITY.match(name)) else name for name in domains]
    return np.unique(names, return_inverse=True)[1]


def draw_models(
    table: EvaluationTable, settings: BootstrapSettings, *, by_architecture: bool
) -> Resamples:
    """Draw clusters of models within strata, and test domains if they are to be drawn.

    A stratum is a training set, or a training set and an architecture.
    """
    cluster = model_clusters(table)
    n_clusters = int(cluster.max()) + 1
    stratum = np.zeros(n_clusters, dtype=np.int64)
    kinds = table.architecture if by_architecture else np.zeros_like(table.architecture)
    stratum[cluster[table.model]] = table.trained_on * len(table.architectures) + kinds
    used = np.bincount(cluster[table.model], minlength=n_clusters) > 0
    counts = np.zeros((n_clusters, settings.replicates))
    rng = rng_for(settings.seed, "model bootstrap", by_architecture)
    n_single = 0
    for code in np.unique(stratum[used]):
        members = np.flatnonzero(used & (stratum == code))
        counts[members] = _draw(rng, len(members), settings.replicates)
        n_single += len(members) == 1
    if n_single == len(np.unique(stratum[used])):
        raise NotApplicable(
            "every training set has a single model configuration, so no model can be drawn again"
        )
    return Resamples(cluster, counts, _draw_domains(table, settings), n_single)


def _draw(rng: np.random.Generator, size: int, replicates: int) -> Floats:
    """Return how often each of `size` units is drawn in `size` draws with replacement."""
    return rng.multinomial(size, np.full(size, 1 / size), size=replicates).T.astype(np.float64)


def _draw_domains(table: EvaluationTable, settings: BootstrapSettings) -> Floats | None:
    tested = np.unique(table.tested_on[~table.in_distribution])
    cluster = domain_clusters([table.domains[code] for code in tested])
    n_clusters = int(cluster.max(initial=-1)) + 1
    enough = n_clusters >= MIN_RESAMPLED_DOMAINS
    if settings.resample_domains is False or (settings.resample_domains is None and not enough):
        return None
    if n_clusters < 2:
        raise NotApplicable("there are fewer than two test domains to draw from")
    rng = rng_for(settings.seed, "domain bootstrap")
    counts = np.ones((len(table.domains), settings.replicates))
    counts[tested] = _draw(rng, n_clusters, settings.replicates)[cluster]
    return counts
