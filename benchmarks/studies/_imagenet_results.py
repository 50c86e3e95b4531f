"""Published accuracies of ImageNet models on ImageNet test sets, as evaluations.

timm_results_top1.csv.gz        PyTorch Image Models: ImageNet, ReaL labels, V2, Sketch, A and R
imagenet_testbed_top1.csv.gz    ImageNet Testbed (Taori et al., NeurIPS 2020): 213 test sets with
                                corruptions and adversarial attacks

Nothing is trained. All weights of one architecture are one configuration, because they are similar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.stats import rng_for
from oodometer.studies.analysis.correlation_matrix import pairwise_correlations
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.wide_table import AccuracyMatrix

TIMM_FILE = "results/timm_results_top1.csv.gz"
TESTBED_FILE = "results/imagenet_testbed_top1.csv.gz"
# Test sets of timm's table by the names of AO, Figure S1.
TIMM_SETS = {
    "imagenet": "ImageNet",
    "imagenet-a": "ImageNet-A",
    "imagenet-r": "ImageNet-R",
    "imagenet-real": "ImageNet-Real",
    "sketch": "ImageNet-Sketch",
    "imagenetv2-matched-frequency": "ImageNet-V2",
}
TIMM_OOD = ("ImageNet-A", "ImageNet-R", "ImageNet-Sketch", "ImageNet-V2")
# AO, Figure S1: rank correlations of errors on these test sets, times 100, over nine networks.
PUBLISHED_SETS = ("ImageNet", "ImageNet-A", "ImageNet-R", "ImageNet-Real", "ImageNet-Sketch",
                  "ImageNet-V2")  # fmt: skip
PUBLISHED_CORRELATIONS = (
    (100, 93, 95, 98, 93, 97),
    (93, 100, 92, 92, 92, 90),
    (95, 92, 100, 97, 97, 93),
    (98, 92, 97, 100, 95, 98),
    (93, 92, 97, 95, 100, 93),
    (97, 90, 93, 98, 93, 100),
)
# Natural shifts of the testbed. Of several versions of a set, the one in the format of ImageNet.
TESTBED_OOD = {
    "imagenetv2-matched-frequency-format-val": "ImageNet-V2",
    "imagenet-sketch": "ImageNet-Sketch",
    "imagenet-a": "ImageNet-A",
    "imagenet-r": "ImageNet-R",
    "objectnet-1.0-beta": "ObjectNet",
    "imagenet-vid-robust_pm0": "ImageNet-Vid-Robust",
    "ytbb-robust_pm0": "YTBB-Robust",
}
TESTBED_ID = "val"
# The same corruptions were also computed in memory; those of the published files are used.
_CORRUPTED = re.compile(r"imagenet-c\.(\w+)\.(\d)_on-disk")
ATTACKS = ("pgd.l2.eps0.1", "pgd.l2.eps0.5", "pgd.linf.eps0.5", "pgd.linf.eps2")
ADVERSARIAL = "adversarial_error"
ID_DOMAIN = "ImageNet"


def read_timm(data: Path) -> AccuracyMatrix:
    """Return the accuracies of the models of timm on the test sets of AO, by AO's names."""
    wide = AccuracyMatrix.read(data / TIMM_FILE, test_sets=list(TIMM_SETS))
    return _complete(wide.models, tuple(TIMM_SETS.values()), wide.accuracy)


def _complete(models: tuple[str, ...], sets: tuple[str, ...], accuracy: Floats) -> AccuracyMatrix:
    """Return the models that were tested on all sets."""
    known = np.flatnonzero(~np.isnan(accuracy).any(axis=1))
    return AccuracyMatrix(tuple(models[row] for row in known), sets, accuracy[known])


def read_testbed(data: Path) -> AccuracyMatrix:
    """Return the accuracies of the testbed's models on natural shifts, corruptions and attacks.

    Only models with an accuracy on all of these sets are kept. The corrupted sets are named as
    those of a study, such as ``ImageNet/fog-3``.
    """
    wide = AccuracyMatrix.read(data / TESTBED_FILE)
    names = names_of_testbed(wide.test_sets)
    columns = [wide.column_index(name) for name in names]
    return _complete(wide.models, tuple(names.values()), wide.accuracy[:, columns])


def names_of_testbed(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the test sets to use of the testbed's columns, with their names as domains.

    >>> names_of_testbed(("val", "imagenet-c.fog.3_on-disk", "imagenet-c.fog.3_in-memory"))
    {'val': 'ImageNet', 'imagenet-c.fog.3_on-disk': 'ImageNet/fog-3'}
    """
    known = {TESTBED_ID: ID_DOMAIN, **TESTBED_OOD, **{name: name for name in ATTACKS}}
    corrupted = {
        column: f"{ID_DOMAIN}/{match[1]}-{match[2]}"
        for column in columns
        if (match := _CORRUPTED.fullmatch(column))
    }
    names = {**known, **corrupted}
    return {column: names[column] for column in columns if column in names}


def architecture_of(model: str) -> str:
    """Return the architecture of a model of timm; the part after the dot names its weights.

    >>> architecture_of("vit_base_patch16_224.augreg_in21k"), architecture_of("alexnet")
    ('vit_base_patch16_224', 'alexnet')
    """
    return model.split(" ")[0].partition(".")[0]


def evaluations(wide: AccuracyMatrix, ood: tuple[str, ...], task: str) -> Any:
    """Return one row per model and test set as an Arrow table: ImageNet, corruptions, and `ood`.

    The mean error under attacks is the measure `adversarial_error` of the row on ImageNet.
    """
    import pyarrow as pa

    kept = [name for name in wide.test_sets if name.startswith(ID_DOMAIN + "/")]
    kept = [ID_DOMAIN, *kept, *ood]
    attacked = _attack_errors(wide)
    rows = [
        {
            "model": model,
            "trained_on": ID_DOMAIN,
            "tested_on": name,
            "accuracy": wide.accuracy[i, wide.column_index(name)],
            "task": task,
            "recipe.architecture": architecture_of(model),
            "seed": str(i),
            ADVERSARIAL: float(attacked[i]) if name == ID_DOMAIN else float("nan"),
        }
        for i, model in enumerate(wide.models)
        for name in kept
    ]
    table = pa.Table.from_pylist(rows)
    return table if not np.isnan(attacked).all() else table.drop_columns([ADVERSARIAL])


def _attack_errors(wide: AccuracyMatrix) -> Floats:
    known = [wide.column_index(name) for name in ATTACKS if name in wide.test_sets]
    if not known:
        return np.full(len(wide.models), np.nan)
    return np.asarray(1.0 - wide.accuracy[:, known].mean(axis=1))


def to_table(rows: Any) -> EvaluationTable:
    """Read the rows of `evaluations`."""
    measures = [ADVERSARIAL] if ADVERSARIAL in rows.column_names else []
    return EvaluationTable.read(rows, measures=measures)


@dataclass(frozen=True, eq=False)
class SetCorrelations:
    """Spearman's correlations of all pairs of test sets, with their 95 % intervals."""

    values: Floats
    low: Floats
    high: Floats


def set_correlations(wide: AccuracyMatrix, replicates: int, *, seed: int = 0) -> SetCorrelations:
    """Correlate the accuracies on all test sets, with a bootstrap over architectures."""
    rng = rng_for(seed, "ImageNet test sets")
    names = np.array([architecture_of(model) for model in wide.models])
    _, cluster = np.unique(names, return_inverse=True)
    members = [np.flatnonzero(cluster == code) for code in range(cluster.max() + 1)]
    drawn = []
    for _ in range(replicates):
        chosen = rng.integers(len(members), size=len(members))
        rows = np.concatenate([members[code] for code in chosen])
        drawn.append(pairwise_correlations(wide.accuracy[rows]).values)
    low, high = np.quantile(np.stack(drawn), [0.025, 0.975], axis=0)
    return SetCorrelations(pairwise_correlations(wide.accuracy).values, low, high)
