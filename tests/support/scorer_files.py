"""A folder with a module of small models (`scorers.py`), and images and texts for them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.csv

SCORERS = """
import numpy as np

def _scores(images, sharpness):
    width = images.shape[2] // 2
    gap = images[:, :, :width].mean((1, 2)) - images[:, :, width:].mean((1, 2))
    gap = np.tanh(gap.reshape(len(images), -1).mean(1) / sharpness)
    return np.stack([0.5 - 0.49 * gap, 0.5 + 0.49 * gap], axis=1)

def calm(images):
    return _scores(images, 6.0)

def shaky(images):
    wave = np.sin(images.reshape(len(images), -1).sum(1) / 40.0)
    return np.stack([0.5 - 0.4 * wave, 0.5 + 0.4 * wave], axis=1)

def hard(images):
    return _scores(images, 6.0).argmax(1)

def short(images):
    return _scores(images, 6.0)[1:]

def nan(images):
    return np.full((len(images), 2), np.nan)

def raising(images):
    raise RuntimeError("out of paper")

def words(texts):
    good = np.array([t.count("good") - t.count("bad") for t in texts])
    share = 1 / (1 + np.exp(-good))
    return np.stack([1 - share, share], axis=1)

def pairs(rows):
    share = np.array([0.9 if a[:1] == b[:1] else 0.2 for a, b in rows])
    return np.stack([1 - share, share], axis=1)

def small(images):
    assert len(images) <= 7
    return calm(images)

def six(images):
    assert images.shape[1:3] == (6, 6)
    return calm(images)

def named(images):
    return ["left" if one else "right" for one in hard(images)]

def logits(images):
    return np.log(calm(images)) + 1.0

number = 7
"""


def write_scorer_files(folder: Path) -> Path:
    """Write the module, 40 labelled images, a folder of 12 images, 30 reviews and 30 text pairs."""
    rng = np.random.default_rng(0)
    images = rng.integers(60, 140, (40, 12, 12)).astype(np.uint8)
    images[::2, :, :6] += 60
    images[1::2, :, 6:] += 60
    (folder / "scorers.py").write_text(SCORERS)
    labels = (np.arange(40) % 2 == 0).astype(int)
    labels[:4] = 1 - labels[:4]
    np.savez(folder / "digits.npz", images=images, labels=labels)
    (folder / "photos").mkdir()
    for i, image in enumerate(images[:12]):
        cv2.imwrite(str(folder / "photos" / f"{i:02d}.png"), image)
    texts = [
        f"a {'good' if i % 2 else 'bad'} book number {i} about a good house" for i in range(30)
    ]
    reviews = {"id": range(30), "review": texts, "label": [i % 2 for i in range(30)]}
    pyarrow.csv.write_csv(pa.table(reviews), folder / "reviews.csv")
    pairs = pa.table({"premise": texts, "hypothesis": texts[::-1]})
    pyarrow.csv.write_csv(pairs, folder / "nli.csv")
    return folder
