"""FMoW-WILDS (Koh et al., ICML 2021): confidences of five published models on natural folds.

Probabilities and labels are not published, so there are no cases with label shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.studies import fmow
from benchmarks.suites.suite import HOME, Domain, Regime, Suite, Workspace
from oodometer.core.array_types import Floats, Ints

FILE = ("outputs", "wilds_fmow_signals.npz")
SHIFTED_SPLITS = ("val", "test")


def groups(space: Workspace) -> Sequence[str]:
    """Return the models: correctness differs between models, so each is a group of its own."""
    return fmow.models_of(fmow.load(space.data.joinpath(*FILE)))


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Return the signals on the source, on `id_test`, and on every fold of `val` and `test`."""
    archive = fmow.load(space.data.joinpath(*FILE))
    yield _domain(archive, group, "id_val", HOME, None)
    yield _domain(archive, group, "id_test", "id_test", None)
    for split in SHIFTED_SPLITS:
        for fold in fmow.folds_of(archive, split):
            rows = archive[fold].astype(np.int64)
            yield _domain(archive, group, split, fold.removeprefix("fold/"), rows)


def _domain(
    archive: dict[str, Floats], model: str, split: str, name: str, rows: Ints | None
) -> Domain:
    index = slice(None) if rows is None else rows
    signals = archive[f"{model}/{split}/signals"][index]
    correct = archive[f"{model}/{split}/correct"][index]
    confidence = np.clip(signals[:, 0], 1 / fmow.K, 1)
    probs = np.column_stack([confidence, -np.clip(signals[:, 1], 0, np.log(fmow.K))])
    return Domain(name, correct.astype(np.int64), {model: probs})


TARGET_REGIMES: dict[str, Regime] = {"id_test": "none"}
SUITES = (
    Suite(name="fmow", family="fmow", k=fmow.K, groups=groups, predict=predict, outputs="fmow",
          signals_only=True, target_regimes=TARGET_REGIMES, cases=400),
)  # fmt: skip
