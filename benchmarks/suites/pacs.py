"""PACS at 112 pixels (Li et al., ICCV 2017): heads on EfficientNet-Lite0 features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.suites._features import decode_images, image_features
from benchmarks.suites.heads import fit_all, heads, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.stats import rng_for

SIDE = 112
DOMAINS = ("art", "cartoon", "photo", "sketch")
ALL_BUT = "all but "


def load(space: Workspace) -> tuple[Floats, Ints, Array]:
    """Return features, labels and the domain of each image."""
    with np.load(space.data / "pacs" / "pacs112_jpeg.npz", allow_pickle=False) as archive:
        labels = archive["y"].astype(np.int64)
        domains = archive["domains"][archive["domain"]]
        features = image_features(
            space.features("pacs"), lambda: decode_images(archive, ""), side=SIDE
        )
    return features, labels, np.array([name.split("_")[0] for name in domains])


def groups(space: Workspace) -> Sequence[str]:
    return (*DOMAINS, *(f"{ALL_BUT}{name}" for name in DOMAINS))


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Train on half of one domain, or of all but one domain; test on the others."""
    features, labels, domains = load(space)
    left_out = group.removeprefix(ALL_BUT)
    is_training = domains == group if group in DOMAINS else domains != left_out
    rows = rng_for(0, "pacs", group).permutation(np.flatnonzero(is_training))
    training, home = np.split(rows, [len(rows) // 2])
    models = fit_all(heads(7), features[training], labels[training])
    yield Domain(HOME, labels[home], predict_all(models, features[home]))
    for name in dict.fromkeys(domains[~is_training].tolist()):
        target = domains == name
        yield Domain(name, labels[target], predict_all(models, features[target]))


SUITES = (
    Suite(name="pacs", family="pacs", k=7, groups=groups, predict=predict, outputs="pacs",
          body="lite0", cases=320),
)  # fmt: skip
