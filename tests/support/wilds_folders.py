"""Miniatures of the published folders of WILDS, which tests write."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from oodometer.core.array_types import Array


def write_image(path: Path, value: int, side: int = 8) -> None:
    """Write a gray image as a file of the format that the extension names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side, 3), value, dtype=np.uint8)).save(path)


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], *, index: bool = False) -> None:
    """Write rows as CSV; with `index`, the first column is the unnamed row number of pandas."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"": number, **row} if index else dict(row) for number, row in enumerate(rows)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(rows)


def write_camelyon17(root: Path, *, per_hospital: int = 4) -> Path:
    """Write patches of five hospitals; tumors are bright. Return the metadata file."""
    folder = root / "camelyon17_v1.0"
    rows = []
    for center in range(5):
        for number in range(per_hospital):
            tumor = number % 2
            row = {
                "patient": f"00{center}", "node": center, "x_coord": number, "y_coord": 7,
                "tumor": tumor, "slide": center, "center": center, "split": int(number % 4 > 1),
            }  # fmt: skip
            node = f"patient_00{center}_node_{center}"
            name = f"patch_{node}_x_{number}_y_7.png"
            write_image(folder / "patches" / node / name, 60 + 120 * tumor + 3 * center + number)
            rows.append(row)
    write_csv(folder / "metadata.csv", rows, index=True)
    return folder / "metadata.csv"


def write_fmow(root: Path) -> Path:
    """Write eight images, one of which is in the split `seq` and has no file."""
    folder = root / "fmow_v1.1"
    images = [
        ("train", "zoo", "2005-01-02T03:04:05Z", "FRA"),
        ("val", "airport", "2012-12-31T23:59:59Z", "FRA"),
        ("seq", "zoo", "2010-01-01T00:00:00Z", "FRA"),
        ("test", "zoo", "2002-05-05T00:00:00Z", "KEN"),
        ("val", "zoo", "2013-01-01T00:00:00Z", "KEN"),
        ("test", "airport", "2016-01-01T00:00:00Z", "XXX"),
        ("test", "airport", "2017-06-01T00:00:00Z", "KEN"),
        ("train", "airport", "2014-06-01T00:00:00Z", "FRA"),
    ]
    keys = ("split", "category", "timestamp", "country_code")
    write_csv(folder / "rgb_metadata.csv", [dict(zip(keys, row, strict=True)) for row in images])
    regions = [("FRA", "Europe"), ("KEN", "Africa")]
    write_csv(
        folder / "country_code_mapping.csv", [{"alpha-3": a, "region": b} for a, b in regions]
    )
    for number, image in enumerate(images):
        if image[0] != "seq":
            write_image(folder / "images" / f"rgb_img_{number}.png", 10 * number)
    return folder / "rgb_metadata.csv"


def write_iwildcam(root: Path) -> Path:
    """Write one image per split, each at its own location."""
    folder = root / "iwildcam_v2.0"
    rows = [
        {"split": split, "location_remapped": number, "sequence_remapped": 0, "y": 36 * number,
         "datetime": "2013-01-01 00:00:00.000", "filename": f"{number}.jpg"}
        for number, split in enumerate(("train", "val", "test", "id_val", "id_test"))
    ]  # fmt: skip
    for number in range(len(rows)):
        write_image(folder / "train" / f"{number}.jpg", 40 * number)
    write_csv(folder / "metadata.csv", rows)
    return folder / "metadata.csv"


def write_rxrx1(root: Path) -> Path:
    """Write both sites of one well in three experiments."""
    folder = root / "rxrx1_v1.0"
    rows = []
    for number, (split, experiment) in enumerate(
        (("train", "HEPG2-01"), ("val", "HUVEC-17"), ("test", "U2OS-05"))
    ):
        for site in (1, 2):
            cell = experiment.split("-")[0]
            rows.append(
                {"site_id": "x", "dataset": split, "experiment": experiment, "cell_type": cell,
                 "plate": 2, "well": "B04", "site": site, "sirna_id": 500 * number}
            )  # fmt: skip
            name = f"images/{experiment}/Plate2/B04_s{site}.png"
            write_image(folder / name, 20 * number + site)
    write_csv(folder / "metadata.csv", rows)
    return folder / "metadata.csv"


def write_amazon(root: Path, reviews: Iterable[tuple[int, int, str]] | None = None) -> Path:
    """Write reviews: (split number, stars, text); a split of -1 is in no split."""
    folder = root / "amazon_v2.1"
    chosen = reviews or [
        (0, 5, "good,\nvery good"), (1, 4, "fine"), (-1, 3, "unused"), (2, 2, "NA"), (3, 1, "bad"),
        (4, 5, "123"),
    ]  # fmt: skip
    rows = [
        {"reviewerID": f"R{number}", "asin": "A", "overall": float(stars), "reviewTime": "01 1, 2014",
         "unixReviewTime": 1, "reviewText": text, "summary": "s", "verified": True,
         "category": "Books", "reviewYear": 2014}
        for number, (_, stars, text) in enumerate(chosen)
    ]  # fmt: skip
    write_csv(folder / "reviews.csv", rows)
    write_csv(folder / "splits" / "user.csv", [{"split": split} for split, _, _ in chosen])
    return folder / "reviews.csv"


def write_civilcomments(root: Path) -> Path:
    """Write one comment per split and two more in the test split."""
    folder = root / "civilcomments_v1.0"
    identities = (
        "male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white",
    )  # fmt: skip
    comments = [
        ("train", 0.0, 1.0), ("val", 0.5, 0.0), ("test", 0.49, 0.5), ("test", 0.9, 0.0),
        ("test", 1.0, 1.0),
    ]  # fmt: skip
    rows = [
        {"comment_text": f"comment {number}", "split": split, "toxicity": toxicity,
         **dict.fromkeys(identities, 0.0), "male": male}
        for number, (split, toxicity, male) in enumerate(comments)
    ]  # fmt: skip
    write_csv(folder / "all_data_with_identities.csv", rows, index=True)
    return folder / "all_data_with_identities.csv"


def brightness_model(images: Array) -> Array:
    """Return probabilities of (normal, tumor): bright patches have a tumor."""
    brightness = images.reshape(len(images), -1).mean(axis=1)
    tumor = 1 / (1 + np.exp(-(brightness - 95) / 10))
    return np.stack([1 - tumor, tumor], axis=1)


def bus_model(images: Array) -> Array:
    """Return probabilities of the 30 classes of ImageNet-Vid-Robust: every image shows a bus."""
    return np.tile(np.eye(30)[5], (len(images), 1))
