"""Definition of a suite: models that are trained on some domains and tested on others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from oodometer.core.array_types import Floats, Ints

Regime = Literal["none", "label", "shift", "both"]
REGIMES: tuple[Regime, ...] = ("none", "label", "shift", "both")
# Domain of the held-out rows on which the source is drawn.
HOME = "home"


@dataclass(frozen=True)
class Workspace:
    """Folder of the research data, and work folder of the caches."""

    data: Path
    folder: Path

    def features(self, name: str) -> Path:
        """Return the path of cached features."""
        return self.folder / "features" / f"{name}.npy"


@dataclass(frozen=True, eq=False)
class Domain:
    """Labels of the rows of one domain, and the probabilities of every model.

    Rows of different domains of a group are disjoint. If only confidences are known, `probs` has
    the columns confidence and negative entropy, and `labels` is 1 for correct rows.
    """

    name: str
    labels: Ints
    probs: Mapping[str, Floats]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Suite of models and targets.

    Parameters
    ----------
    name : str
        Name of the suite.
    family : str
        Family of suites with the same data or the same models, which are left out together.
    k : int
        Number of classes.
    groups : callable
        Function that lists the groups of a workspace. The models of a group are trained on the same
        data and predict the same rows.
    predict : callable
        Function that trains the models of a group and returns the domain `HOME` and the targets.
    outputs : str
        Name of the folder of the outputs; suites with the same outputs share them.
    body : str
        Pretrained body of the models, or empty.
    decimals : int or None
        Number of decimals to which the probabilities are rounded.
    threshold : float or None
        Decision threshold of the second of two classes.
    signals_only : bool
        Whether only confidences and entropies are known.
    whole_targets : bool
        Whether the regime "shift" uses all rows of the source and of the target.
    base : {"uniform", "source"}
        Mean of the Dirichlet distribution of class frequencies.
    target_regimes : mapping
        Targets that are not shifted or have label shift only, with their regime.
    cases : int
        Default number of cases.
    """

    name: str
    family: str
    k: int
    groups: Callable[[Workspace], Sequence[str]]
    predict: Callable[[Workspace, str], Iterable[Domain]]
    outputs: str
    body: str = ""
    decimals: int | None = None
    threshold: float | None = None
    signals_only: bool = False
    whole_targets: bool = False
    base: Literal["uniform", "source"] = "uniform"
    target_regimes: Mapping[str, Regime] = field(default_factory=dict)
    cases: int = 240
