"""Made-up accuracies of ImageNet models on the test sets of the published tables."""

from __future__ import annotations

import numpy as np

from benchmarks.studies._imagenet_results import ATTACKS, TESTBED_OOD, TIMM_SETS, names_of_testbed
from benchmarks.studies.imagenet import ImagenetBlock
from oodometer.studies.analysis.wide_table import AccuracyMatrix


def made_up(sets: tuple[str, ...], models: int = 24, noise: float = 0.01) -> AccuracyMatrix:
    random = np.random.default_rng(0)
    skill = np.linspace(0.3, 0.8, models)[:, None]
    accuracy = skill * np.linspace(0.9, 0.5, len(sets)) + random.normal(
        0, noise, (models, len(sets))
    )
    return AccuracyMatrix(tuple(f"net{i // 2}.w{i % 2}" for i in range(models)), sets, accuracy)


def block(noise: float = 0.01) -> ImagenetBlock:
    columns = ("val", *TESTBED_OOD, "imagenet-c.fog.3_on-disk", *ATTACKS)
    sets = tuple(names_of_testbed(columns).values())
    return ImagenetBlock(
        made_up(tuple(TIMM_SETS.values()), noise=noise), made_up(sets, noise=noise)
    )
