"""Ablations on heads of the PACS study: images, draws, magnitude, transforms (NI Fig. 4 and 5).

The heads are those on EfficientNet-Lite0 of one seed, trained without augmentation.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.studies._ablation_runs import (
    Ablation,
    AblationData,
    by_draws,
    by_size,
    compare_transforms,
    load_heads,
)
from oodometer import transforms as registry
from oodometer.data.dataset import ConcatDataset
from oodometer.studies.training.spec import PoolSpec
from oodometer.transforms import RandAugment, Translate

POOL = Path(__file__).parent.parent / "pools" / "pacs_heads.toml"
BODY, SEED = "efficientnet-lite0@96", 0
# Images per domain and draws of the study, whose features are cached.
IMAGES, DRAWS = 500, 5
# Images per domain where other transforms than those of the study are applied.
FEWER_IMAGES = 200
SIZES, COUNTS = (10, 20, 50, 100, 200, 500), (1, 2, 3, 5)
RANDAUGMENT, TRANSLATIONS = (1, 5, 10, 15, 20, 25, 30), (0.02, 0.05, 0.10, 0.20, 0.30, 0.40)


def pacs_data(data: Path) -> AblationData | None:
    """Return the heads and the domains of PACS; None if the pool is not trained (study-pacs)."""
    spec = PoolSpec.open(POOL, data=data)
    heads = load_heads(
        spec,
        lambda config: (
            (config.settings["body"], config.seed, config.augment) == (BODY, SEED, "none")
        ),
    )
    if heads is None:
        return None
    group = spec.group
    domains = {
        name: ConcatDataset(name, (group.domain(name, "train"), group.domain(name, "test")))
        for name in group.domains
    }
    return AblationData(
        name="PACS", unit="images", heads=heads, domains=domains, rows=IMAGES, draws=DRAWS
    )


def image_ablations(data: Path) -> list[Ablation]:
    """Run all ablations on PACS; return none if the pool is not trained."""
    pacs = pacs_data(data)
    if pacs is None:
        return []
    strengths = {f"RandAug {m:g}": RandAugment(magnitude=m) for m in RANDAUGMENT}
    moves = {f"Translate {m:.0%}": Translate(magnitude=m) for m in TRANSLATIONS}
    return [
        by_size(pacs, "randaugment", SIZES),
        by_draws(pacs, "randaugment", COUNTS),
        compare_transforms(
            pacs, strengths, kind="magnitude", title="magnitude of RandAugment", rows=FEWER_IMAGES,
            scale=dict(zip(strengths, map(float, RANDAUGMENT), strict=True)),
        ),
        compare_transforms(
            pacs, moves, kind="magnitude", title="magnitude of translations", rows=FEWER_IMAGES,
            scale=dict(zip(moves, TRANSLATIONS, strict=True)),
        ),
        compare_transforms(
            pacs, {one.label: one for one in registry.available_for_kind("images")},
            kind="transforms", title="choice of the transform", rows=FEWER_IMAGES,
        ),
    ]  # fmt: skip
