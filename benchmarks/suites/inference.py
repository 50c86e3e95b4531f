"""Natural-language inference: heads on MiniLM features of premise and hypothesis.

The features are those of InferSent (Conneau et al., EMNLP 2017): both sentences, the absolute value
of their difference, and their product. Models are trained on MNLI, on five genres of XNLI or on
SNLI-CAD, and tested on other genres, back-translations, SNLI-CAD and Breaking-NLI.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.suites._features import sentence_features
from benchmarks.suites.heads import fit_all, heads, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Floats, Ints
from oodometer.core.stats import rng_for

CLASSES = ("entailment", "neutral", "contradiction")
# Maximum number of rows by source of the data.
ROWS = {"mnli": 4500, "xnli_en": 7500, "snli_cad_original": 2266,
        "snli_cad_revised_hypothesis": 1500, "snli_cad_revised_premise": 1000,
        "breaking_nli": 2500}  # fmt: skip
BACK_TRANSLATIONS = ("sw", "ur", "my")
BACK_TRANSLATED_ROWS = 1000
TRAINING_GENRES = ("fiction", "government", "letters", "slate", "telephone")


@cache
def load(space: Workspace) -> Any:
    """Return the chosen rows as a table, with the genre of back-translated rows."""
    import pyarrow.parquet as pq

    table = pq.read_table(space.data / "text" / "nli_multi.parquet").to_pandas()
    parts = []
    for source, n in ROWS.items():
        rows = table[table["source"] == source]
        order = rng_for(0, "inference", source).permutation(len(rows))[:n]
        parts.append(rows.iloc[np.sort(order)])
    tested = table[(table["source"] == "xnli_en") & (table["split"] == "test")]
    kept = np.flatnonzero(~tested["genre"].isin(TRAINING_GENRES).to_numpy())
    for number, language in enumerate(BACK_TRANSLATIONS):
        rows = table[table["source"] == f"xnli_en_backtrans_{language}"]
        chosen = rng_for(0, "inference", "back-translations").permutation(kept)
        chosen = np.roll(chosen, -number * len(kept) // 3)[:BACK_TRANSLATED_ROWS]
        parts.append(rows.iloc[np.sort(chosen)])
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


@cache
def features(space: Workspace) -> Floats:
    """Return the features (n, 1536) of all rows."""
    table = load(space)
    first, second = (
        sentence_features(space.features(f"inference-{column}"), table[column].tolist)
        for column in ("premise", "hypothesis")
    )
    return np.hstack([first, second, np.abs(first - second), first * second])


def groups(space: Workspace) -> Sequence[str]:
    return ("mnli", "xnli", "snli")


def split(space: Workspace, group: str) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Return the rows for training, the held-out rows and the rows of each target."""
    table = load(space)
    domain = table["source"].str.replace("_en", "").str.removeprefix("xnli_").to_numpy(dtype=str)
    is_genre = domain == "xnli"
    domain = np.where(is_genre, np.char.add("xnli ", table["genre"].to_numpy(dtype=str)), domain)
    inside = {
        "mnli": domain == "mnli",
        "xnli": np.isin(domain, [f"xnli {genre}" for genre in TRAINING_GENRES]),
        "snli": domain == "snli_cad_original",
    }[group]
    share = 0.6 if group != "snli" else 0.5
    rows = rng_for(0, "inference", group).permutation(np.flatnonzero(inside))
    training, home = np.split(rows, [int(share * len(rows))])
    targets = {name: np.flatnonzero((domain == name) & ~inside) for name in np.unique(domain)}
    return training, home, {name: rows for name, rows in targets.items() if len(rows) >= 300}


def _predict(space: Workspace, group: str, *, is_binary: bool) -> Iterator[Domain]:
    names = load(space)["label"].to_numpy(dtype=str)
    if is_binary:
        labels = (names == "entailment").astype(np.int64)
    else:
        labels = np.array([CLASSES.index(name) for name in names])
    rows, (training, home, targets) = features(space), split(space, group)
    models = fit_all(heads(2 if is_binary else 3), rows[training], labels[training])
    for name, index in {HOME: home, **targets}.items():
        yield Domain(name, labels[index], predict_all(models, rows[index]))


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Predict entailment, neutral or contradiction."""
    return _predict(space, group, is_binary=False)


def predict_entailment(space: Workspace, group: str) -> Iterator[Domain]:
    """Predict entailment against the rest."""
    return _predict(space, group, is_binary=True)


SUITES = (
    Suite(name="inference", family="inference", k=3, groups=groups, predict=predict,
          outputs="inference", body="minilm", cases=320),
    Suite(name="entailment", family="inference", k=2, groups=groups, predict=predict_entailment,
          outputs="entailment", body="minilm", cases=160),
    Suite(name="entailment-thresholds", family="inference", k=2, groups=groups,
          predict=predict_entailment, outputs="entailment", body="minilm", threshold=0.4, cases=96),
)  # fmt: skip
