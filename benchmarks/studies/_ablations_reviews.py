"""Ablations on heads of the study of reviews: reviews, draws, magnitude, transforms (NI Fig. 4)."""

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
from benchmarks.studies.reviews import MASKED_LM
from oodometer.core.protocols import Transform
from oodometer.studies.training.spec import PoolSpec
from oodometer.transforms import EDA, SSMBA, BackTranslation, RandomReplacement

POOL = Path(__file__).parent.parent / "pools" / "reviews.toml"
SEED = 0
TARGETS = ("toys_games", "apparel", "dvd", "kitchen_housewares")
# Reviews per domain and draws of the study, whose features are cached; and fewer reviews for other
# magnitudes.
REVIEWS, DRAWS, FEWER_REVIEWS = 150, 10, 100
SIZES, COUNTS = (10, 20, 50, 100, 150), (1, 2, 5, 10)
SHARES = (0.05, 0.15, 0.30, 0.50, 0.85)


def reviews_data(data: Path) -> AblationData | None:
    """Return the heads and four test categories; None if the study has not been run."""
    spec = PoolSpec.open(POOL, data=data)
    if not (MASKED_LM / "model.safetensors").is_file():
        return None
    heads = load_heads(spec, lambda config: config.seed == SEED)
    if heads is None:
        return None
    domains = {name: spec.group.domain(name, "test") for name in TARGETS}
    return AblationData(
        name="Reviews", unit="reviews", heads=heads, domains=domains, rows=REVIEWS, draws=DRAWS
    )


def text_ablations(data: Path) -> list[Ablation]:
    """Run all ablations on reviews; return none if the pool is not trained."""
    reviews = reviews_data(data)
    if reviews is None:
        return []
    ssmba = SSMBA(model=MASKED_LM)
    shares = {f"SSMBA {share:.0%}": SSMBA(model=MASKED_LM, magnitude=share) for share in SHARES}
    members: dict[str, Transform] = {
        "SSMBA": ssmba, "SSMBA, n-gram filler": SSMBA(), "EDA": EDA(), "BT": BackTranslation(),
        "RandRep": RandomReplacement(),
        "SSMBA, fixed": SSMBA(model=MASKED_LM, strength="fixed"),
        "SSMBA, n-gram filler, fixed": SSMBA(strength="fixed"),
        "EDA, fixed": EDA(strength="fixed"),
        "RandRep, fixed": RandomReplacement(strength="fixed"),
    }  # fmt: skip
    return [
        by_size(reviews, ssmba, SIZES),
        by_draws(reviews, ssmba, COUNTS),
        compare_transforms(
            reviews, shares, kind="magnitude", title="share of corrupted words",
            rows=FEWER_REVIEWS, scale=dict(zip(shares, SHARES, strict=True)),
        ),
        compare_transforms(
            reviews, members, kind="transforms", title="choice of the transform", rows=REVIEWS,
        ),
    ]  # fmt: skip
