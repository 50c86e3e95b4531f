"""The reference pools: PACS at 32 pixels and reviews, each trained on two cores in under 40 minutes.

What the studies are made of. A pool that is there in part is gone on with. For every pool: how long
it took, how many models converged, and how far their accuracies on domains that they were not
trained on lie apart. The script exits with 1 when a bound is missed. Run: make bench
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
    """At least so many converged models, architectures, domains, and points between accuracies."""

    models: int
    architectures: int
    domains: int
    spread: float


POOLS: dict[str, Bounds] = {
    "pacs": Bounds(models=60, architectures=2, domains=4, spread=0.15),
    "sentiment": Bounds(models=100, architectures=1, domains=8, spread=0.0),
}


@dataclass(frozen=True)
class Found:
    """What became of a pool: the converged models' recipes and accuracies by test domain."""

    name: str
    total: int
    minutes: float
    recipes: tuple[TrainingConfig, ...]
    accuracy: dict[str, Floats]

    def elsewhere(self, domain: str) -> Floats:
        """Accuracies on a domain of the models that were not trained on it."""
        others = [domain not in recipe.domains for recipe in self.recipes]
        return self.accuracy[domain][others]

    @property
    def spreads(self) -> dict[str, float]:
        """Between the best and the worst model on every domain."""
        return {name: float(np.ptp(self.elsewhere(name))) for name in self.accuracy}


def trained(name: str, folder: Path, data: Path) -> Found:
    """The pool, trained as far as it is not, and tested everywhere."""
    spec = PoolSpec.open(HERE / "pools" / f"{name}.toml", data=data)
    run(spec, folder, runner=processes(WORKERS))
    facts = {
        one: checkpoint.load_facts(path) for one, path in checkpoint.finished_models(folder).items()
    }
    # Of the trainings alone, so that it is the same however often it was gone on with.
    minutes = sum(one["seconds"] for one in facts.values()) / WORKERS / 60
    recipes = [one for one in spec.recipes() if facts.get(one.id, {}).get("converged")]
    models = {one.id: checkpoint.load_model(folder / one.id) for one in recipes}
    accuracy = {
        domain: accuracies(models, spec.group.domain(domain, "test"))
        for domain in spec.group.domains
    }
    return Found(name, len(spec.recipes()), minutes, tuple(recipes), accuracy)


def accuracies(models: Mapping[str, Model], data: Dataset) -> Floats:
    """The share of rows for testing that each model gets right."""
    labels = np.asarray(data.labels)
    return np.array(
        [(predict_dataset(model, data).classes == labels).mean() for model in models.values()]
    )


def missed(found: Found) -> list[str]:
    """The bounds that do not hold, in words."""
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


def told(found: Found) -> str:
    """A pool in a sentence and a table."""
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
        + "). Accuracy on rows for testing, %: of models that were trained on the domain, and of "
        f"all others.\n\n{markdown_table(head, rows)}"
    )


def main() -> int:
    data = data_folder()
    if data is None:
        print("The research data are not on this machine; nothing was trained.")
        return 0
    with one_thread():
        found = [trained(name, Path("pools") / name, data) for name in POOLS]
    wrong = [words for one in found for words in missed(one)]
    verdict = "All bounds hold." if not wrong else f"MISSED: {'; '.join(wrong)}."
    bound = (
        f"Bounds: each under {MINUTES} minutes; pacs with at least {POOLS['pacs'].models} converged "
        f"models of {POOLS['pacs'].architectures} architectures whose accuracies on every domain "
        f"that they were not trained on lie at least {100 * POOLS['pacs'].spread:.0f} points apart; "
        f"sentiment with at least {POOLS['sentiment'].models} on {POOLS['sentiment'].domains} domains."
    )
    pages = "\n\n".join(map(told, found))
    write_results("reference_pools", f"{pages}\n\n{bound} {verdict}\n\n{machine_facts()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
