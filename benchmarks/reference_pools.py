"""Reference pools: PACS at 32 pixels and reviews, each trained on two cores in under 40 minutes.

The studies use these pools. A partly trained pool is resumed. For every pool: training time, number
of converged models, and the spread of their accuracies on domains that they were not trained on. The
script exits with 1 if a bound is missed. Run: make bench
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._digit_classifiers import one_thread
from benchmarks._results import data_folder, machine_facts, markdown_table, write_results
from oodometer.core.array_types import Floats
from oodometer.core.format import format_duration
from oodometer.core.protocols import Dataset, Model
from oodometer.models.inference import predict_dataset
from oodometer.parallel.runners import processes
from oodometer.studies.training import checkpoint
from oodometer.studies.training._run import run
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec

HERE, WORKERS, MINUTES = Path(__file__).parent, 2, 40


@dataclass(frozen=True)
class Bounds:
    """Lower bounds on the converged models, architectures, domains and spread of accuracies."""

    models: int
    architectures: int
    domains: int
    spread: float


POOLS: dict[str, Bounds] = {
    "pacs": Bounds(models=60, architectures=2, domains=4, spread=0.15),
    "sentiment": Bounds(models=100, architectures=1, domains=8, spread=0.0),
}


@dataclass(frozen=True)
class PoolResult:
    """Training time, configurations of the converged models, and their accuracies by test domain."""

    name: str
    total: int
    minutes: float
    recipes: tuple[TrainingConfig, ...]
    accuracy: dict[str, Floats]

    def elsewhere(self, domain: str) -> Floats:
        """Return the accuracies on a domain of the models that were not trained on it."""
        others = [domain not in recipe.domains for recipe in self.recipes]
        return self.accuracy[domain][others]

    @property
    def spreads(self) -> dict[str, float]:
        """Return the difference between the best and the worst model on every domain."""
        return {name: float(np.ptp(self.elsewhere(name))) for name in self.accuracy}


def trained(name: str, folder: Path, data: Path) -> PoolResult:
    """Train the missing models of a pool and test all models on all domains."""
    spec = PoolSpec.open(HERE / "pools" / f"{name}.toml", data=data)
    run(spec, folder, runner=processes(WORKERS))
    facts = {
        one: checkpoint.load_facts(path) for one, path in checkpoint.finished_models(folder).items()
    }
    # Training time only, so that interruptions do not count.
    minutes = sum(one["seconds"] for one in facts.values()) / WORKERS / 60
    recipes = [one for one in spec.recipes() if facts.get(one.id, {}).get("converged")]
    models = {one.id: checkpoint.load_model(folder / one.id) for one in recipes}
    accuracy = {
        domain: accuracies(models, spec.group.domain(domain, "test"))
        for domain in spec.group.domains
    }
    return PoolResult(name, len(spec.recipes()), minutes, tuple(recipes), accuracy)


def accuracies(models: Mapping[str, Model], data: Dataset) -> Floats:
    """Return the accuracy of each model on the test rows."""
    labels = np.asarray(data.labels)
    return np.array(
        [(predict_dataset(model, data).classes == labels).mean() for model in models.values()]
    )


def missed(found: PoolResult) -> list[str]:
    """Describe the bounds that are missed."""
    bounds = POOLS[found.name]
    kinds = {recipe.architecture for recipe in found.recipes}
    domains = {name for recipe in found.recipes for name in recipe.domains}
    narrow = min(found.spreads.values())
    rules = {
        f"{found.minutes:.0f} minutes, not under {MINUTES}": found.minutes < MINUTES,
        f"{len(found.recipes)} models converged, not {bounds.models}": len(found.recipes)
        >= bounds.models,
        f"{len(kinds)} architectures, not {bounds.architectures}": len(kinds)
        >= bounds.architectures,
        f"{len(domains)} domains, not {bounds.domains}": len(domains) >= bounds.domains,
        f"accuracies lie {100 * narrow:.1f} points apart, not {100 * bounds.spread:.0f}": narrow
        >= bounds.spread,
    }
    return [f"{found.name}: {words}" for words, holds in rules.items() if not holds]


def describe(found: PoolResult) -> str:
    """Return a sentence and a table about a pool."""
    counts = Counter(recipe.architecture for recipe in found.recipes)
    rows = []
    for domain, values in found.accuracy.items():
        own = [domain in recipe.domains for recipe in found.recipes]
        there = found.elsewhere(domain)
        cells = (values[own].mean(), there.min(), np.median(there), there.max(), np.ptp(there))
        rows.append((domain, *(f"{100 * value:.1f}" for value in cells)))
    head = ("domain", "trained on it, mean", "lowest", "median", "highest", "spread")
    return (
        f"## {found.name}\n\n{found.total} models in {format_duration(60 * found.minutes)} by {WORKERS} workers; "
        f"{len(found.recipes)} converged ("
        + ", ".join(f"{count} {name}" for name, count in counts.items())
        + "). Accuracy on test rows, %: models trained on the domain, and all other models."
        f"\n\n{markdown_table(head, rows)}"
    )


def main() -> int:
    data = data_folder()
    if data is None:
        print("The research data are not available on this machine; nothing was trained.")
        return 0
    with one_thread():
        found = [trained(name, Path("pools") / name, data) for name in POOLS]
    wrong = [words for one in found for words in missed(one)]
    verdict = "All bounds are kept." if not wrong else f"MISSED: {'; '.join(wrong)}."
    bound = (
        f"Bounds: each under {MINUTES} minutes; pacs with at least {POOLS['pacs'].models} converged "
        f"models of {POOLS['pacs'].architectures} architectures whose accuracies on every domain "
        "that they were not trained on have a spread of at least "
        f"{100 * POOLS['pacs'].spread:.0f} points; "
        f"sentiment with at least {POOLS['sentiment'].models} on {POOLS['sentiment'].domains} domains."
    )
    pages = "\n\n".join(map(describe, found))
    write_results("reference_pools", f"{pages}\n\n{bound} {verdict}\n\n{machine_facts()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
