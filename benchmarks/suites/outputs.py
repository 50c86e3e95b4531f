"""Cache of model outputs: one file per model and domain, with float32 probabilities and labels."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suites.files import write_atomically
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Floats, Ints
from oodometer.core.predictions import Predictions

INDEX = "domains.json"


@dataclass(frozen=True, eq=False)
class Outputs:
    """Probabilities of the models of a group on one domain, and the labels."""

    labels: Ints
    probs: Mapping[str, Floats]

    def predictions(self, suite: Suite, model: str, rows: Ints) -> Predictions:
        """Return some rows of one model, rounded or with decisions if the suite requires it."""
        probs = self.probs[model][rows]
        if suite.signals_only:
            return Predictions.from_confidence(
                probs[:, 0], k=suite.k, negative_entropy=probs[:, 1], correct=self.labels[rows] > 0
            )
        if suite.decimals is not None:
            probs = np.round(probs, suite.decimals)
        result = Predictions.from_probs(probs, labels=self.labels[rows])
        return result if suite.threshold is None else result.decide(suite.threshold)


@dataclass(frozen=True)
class GroupOutputs:
    """Cached outputs of the models of one group on the home domain and on all targets."""

    folder: Path

    @cached_property
    def index(self) -> dict[str, list[str]]:
        """Return the names of models and domains."""
        content: dict[str, list[str]] = json.loads((self.folder / INDEX).read_text())
        return content

    @property
    def models(self) -> list[str]:
        return self.index["models"]

    @property
    def targets(self) -> list[str]:
        return [name for name in self.index["domains"] if name != HOME]

    def read(self, domain: str) -> Outputs:
        """Return the outputs of all models on a domain."""
        labels, probs = None, {}
        for model in self.models:
            with np.load(output_file(self.folder, model, domain), allow_pickle=False) as archive:
                labels, probs[model] = archive["labels"], archive["probs"]
        assert labels is not None
        return Outputs(labels, probs)


def slug(name: str) -> str:
    """Return a name as part of a path.

    >>> slug("all but art")
    'all_but_art'
    """
    return re.sub(r"[^\w.+-]+", "_", name)


def output_file(folder: Path, model: str, domain: str) -> Path:
    return folder / slug(model) / f"{slug(domain)}.npz"


def group_outputs(space: Workspace, suite: Suite, group: str) -> GroupOutputs:
    """Return the outputs of a group; train the models if the outputs are not complete."""
    folder = space.folder / "outputs" / suite.outputs / slug(group)
    if not (folder / INDEX).exists():
        index: dict[str, list[str]] = {"models": [], "domains": []}
        for domain in suite.predict(space, group):
            _write_domain(folder, domain)
            index = {"models": list(domain.probs), "domains": [*index["domains"], domain.name]}
        write_atomically(folder / INDEX, lambda path: path.write_text(json.dumps(index)))
    return GroupOutputs(folder)


def _write_domain(folder: Path, domain: Domain) -> None:
    for model, probs in domain.probs.items():
        arrays: dict[str, Any] = {
            "labels": domain.labels.astype(np.int16),
            "probs": probs.astype(np.float32),
        }
        write_atomically(
            output_file(folder, model, domain.name),
            lambda path, arrays=arrays: np.savez_compressed(path, **arrays),  # type: ignore[misc]
        )
