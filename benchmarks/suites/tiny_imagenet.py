"""Tiny-ImageNet: 200 classes with corruptions, and 20 superclasses with novel subclasses.

Heads on Lite0 features of images enlarged from 64 to 96 pixels. Superclasses with same and novel
subclasses follow BREEDS (Santurkar et al., ICLR 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.suites._features import corrupt, decode_images, image_features
from benchmarks.suites.heads import fit_all, heads, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Floats, Ints
from oodometer.core.stats import rng_for

SIDE = 96
TRAINING_ROWS = 10_000
HOME_ROWS = 5000
TARGET_ROWS = 1500
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "contrast", "fog", "jpeg", "brightness")
SEVERITIES = (1, 3)
# WordNet ids without the leading "n0".
SUPERCLASSES: dict[str, str] = {
    "arachnid": "1770393 1774384 1774750 1784675",
    "reptile or amphibian": "1629819 1641577 1644900 1698640 1742172",
    "bird": "1855672 2002724 2056570 2058221",
    "marine animal": "1910747 1917289 1944390 1945685 1950731 1983481 1984695 2321529",
    "dog": "2085620 2094433 2099601 2099712 2106662 2113799",
    "cat": "2123045 2123394 2124075 2125311 2129165",
    "insect": "2165456 2190166 2206856 2226429 2231487 2233338 2236044 2268443 2279972 2281406",
    "hoofed animal": "2395406 2403003 2410509 2415577 2423022 2437312",
    "primate": "2480495 2481823 2486410",
    "clothing": "2669723 2730930 2963159 3404251 3617480 3763968 3770439 3980874 4532106",
    "motor vehicle": "2814533 3100240 3670208 4285008 3796401 3977966 4146614 4487081",
    "container": "2795169 2909870 2815834 2823428 3937543 3983396 4398044 4560804",
    "building": "2793495 3042490 4417672 2814860 4562935 3837869 4486054",
    "bridge or dam": "4311004 4366367 4532670 3160309",
    "furniture": "3179701 3201208 4099969 3014705 2808440",
    "electronic device": "2988304 3085013 3584254 4074963 3902125 2977058",
    "fruit": "7747607 7749582 7753592 7768694",
    "dish": "7583066 7614500 7615774 7695742 7871810 7873807 7875152 7711569",
    "landscape": "9193705 9246464 9256479 9332890 9428293",
    "ball": "2802426 4118538 4540053 4023962",
}


@cache
def load(space: Workspace) -> dict[str, tuple[Floats, Ints]]:
    """Return features and labels of the training images, the source images and all targets."""
    path = space.data / "tinyimagenet" / "tiny200_jpeg.npz"
    with np.load(path, allow_pickle=False) as archive:
        labels = {part: archive[f"{part}_y"].astype(np.int64) for part in ("train", "val")}
        training = rng_for(0, "tiny", "train").permutation(len(labels["train"]))[:TRAINING_ROWS]
        validation = rng_for(0, "tiny", "val").permutation(len(labels["val"]))
        home, rest = validation[:HOME_ROWS], validation[HOME_ROWS:]
        rows = {"training": ("train", training), HOME: ("val", home), "clean": ("val", rest)}
        parts = {name: (_features(space, name, archive, *place), labels[place[0]][place[1]])
                 for name, place in rows.items()}  # fmt: skip
        for name in CORRUPTIONS:
            for severity in SEVERITIES:
                chosen = rng_for(0, "tiny", name, severity).permutation(rest)[:TARGET_ROWS]
                target = f"{name}-{severity}"
                part = _features(space, target, archive, "val", chosen, (name, severity))
                parts[target] = part, labels["val"][chosen]
    return parts


def _features(
    space: Workspace,
    name: str,
    archive: Any,
    part: str,
    rows: Ints,
    corruption: tuple[str, int] | None = None,
) -> Floats:
    def images() -> Any:
        decoded = decode_images(archive, f"{part}_", rows)
        return corrupt(decoded, *corruption) if corruption else decoded

    return image_features(space.features(f"tiny-{name}"), images, side=SIDE)


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Train heads for 200 classes and test them under corruptions."""
    parts = load(space)
    models = fit_all(heads(200), *parts["training"])
    for name, (features, labels) in parts.items():
        if name not in ("training", "clean"):
            yield Domain(name, labels, predict_all(models, features))


def superclass_tables(space: Workspace, seed: int) -> tuple[Ints, Ints]:
    """Return the superclass of every class for same subclasses, and for novel ones; −1 if none."""
    with np.load(space.data / "tinyimagenet" / "tiny200_jpeg.npz", allow_pickle=False) as archive:
        ids = archive["wnids"].tolist()
    same, novel = (np.full(len(ids), -1, dtype=np.int64) for _ in range(2))
    for number, members in enumerate(SUPERCLASSES.values()):
        places = [ids.index(f"n0{member}") for member in members.split()]
        order = rng_for(seed, "subclasses", number).permutation(places)
        half = -(-len(order) // 2)
        same[order[:half]], novel[order[half:]] = number, number
    return same, novel


def predict_superclasses(space: Workspace, group: str) -> Iterator[Domain]:
    """Train heads on half of the subclasses; test on the other half, and under corruptions."""
    parts = load(space)
    same, novel = superclass_tables(space, int(group.removeprefix("split ")))

    def select(name: str, table: Ints) -> tuple[Floats, Ints]:
        features, labels = parts[name]
        is_kept = table[labels] >= 0
        return features[is_kept], table[labels][is_kept]

    models = fit_all(heads(len(SUPERCLASSES)), *select("training", same))
    domains = {HOME: select(HOME, same)}
    domains |= {
        name: select(name, same) for name in parts if name not in ("training", "clean", HOME)
    }
    domains["novel subclasses"] = select("clean", novel)
    domains["novel subclasses 2"] = select(HOME, novel)
    for corruption in ("contrast-3", "jpeg-3", "gaussian_noise-1"):
        domains[f"novel subclasses, {corruption}"] = select(corruption, novel)
    for name, (features, labels) in domains.items():
        yield Domain(name, labels, predict_all(models, features))


def groups(space: Workspace) -> Sequence[str]:
    return ("all",)


def superclass_groups(space: Workspace) -> Sequence[str]:
    return ("split 0", "split 1", "split 2")


SUITES = (
    Suite(name="tiny-imagenet", family="small-images", k=200, groups=groups, predict=predict,
          outputs="tiny-imagenet", body="lite0", cases=160),
    Suite(name="tiny-superclasses", family="small-images", k=20, groups=superclass_groups,
          predict=predict_superclasses, outputs="tiny-superclasses", body="lite0", cases=240),
)  # fmt: skip
